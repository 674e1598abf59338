"""Load test of the server: errors, memory and response time with many clients at once.

    python benchmarks/serve_load.py RUN_OR_MODEL --clients 200 --seconds 60

Draws images, indexes them, starts `diverset serve` on the loopback interface as a process of its
own, and sends requests from many clients, each as soon as its last one is answered: searches by
text, similar images, thumbnails, the status. Memory is the server's resident set: after a third of
the time, when caches are filled, and at the end. Responses other than 200 count as errors. The last
line is JSON.
"""

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from timing import describe_machine

from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.reproduce.scenes import ScenesOptions, write_scenes

TEXTS = ["a red cat", "two boats", "a snail by a lantern", "a green fish", "a house", "snow"]
MAX_CLIENTS, MAX_SECONDS = 500, 300


def make_library(base: Path, model: str, images: int) -> Path:
    options = ScenesOptions(size=128)
    write_scenes(base / "scenes", train=1, val=1, test=images, options=options)
    with Library.open_or_create(base / "library", model) as library:
        index_folders(library, [base / "scenes" / "images"])
    return base / "library"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            raise SystemExit("the server ended before it was ready")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
                if json.load(answer)["ready"]:
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("the server was not ready after two minutes")


def resident(pid: int) -> float:
    """Resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("the server is gone")


def make_request(rng: np.random.Generator, ids: list[str], port: int) -> tuple[str, bytes]:
    """Name and bytes of a request."""
    image = ids[rng.integers(len(ids))]
    kind = ("search", "search", "similar", "image", "status")[rng.integers(5)]
    body = b""
    if kind == "search":
        text = f"{TEXTS[rng.integers(len(TEXTS))]} {rng.integers(1000)}"
        body = json.dumps({"text": text, "k": 20}).encode()
        line = "POST /search"
    elif kind == "similar":
        line = f"GET /similar?{urlencode({'id': image, 'k': 20})}"
    elif kind == "image":
        line = f"GET /items/image?{urlencode({'id': image, 'side': 256})}"
    else:
        line = "GET /status"
    head = (
        f"{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return kind, head.encode() + body


async def client(number: int, port: int, until: float, ids: list[str], times, errors) -> None:
    rng = np.random.default_rng(number)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while time.monotonic() < until:
            kind, request = make_request(rng, ids, port)
            started = time.monotonic()
            writer.write(request)
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = next(
                int(line.split(":")[1])
                for line in head.lower().splitlines()
                if line.startswith("content-length:")
            )
            body = await reader.readexactly(length)
            times.append((kind, time.monotonic() - started))
            if head.split()[1] != "200":
                errors.append(f"{kind}: {head.split()[1]} {body[:200]!r}")
    except (OSError, asyncio.IncompleteReadError, StopIteration) as error:
        errors.append(f"{type(error).__name__}: {error}")
    finally:
        writer.close()


async def load(args: argparse.Namespace, port: int, pid: int, ids: list[str]):
    times: list[tuple[str, float]] = []
    errors: list[str] = []
    until = time.monotonic() + args.seconds
    clients = [
        asyncio.create_task(client(number, port, until, ids, times, errors))
        for number in range(args.clients)
    ]
    await asyncio.sleep(args.seconds / 3)
    warm = resident(pid)
    await asyncio.gather(*clients)
    return times, errors, warm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=200, help=f"at most {MAX_CLIENTS}")
    parser.add_argument("--seconds", type=float, default=60, help=f"at most {MAX_SECONDS}")
    parser.add_argument("--images", type=int, default=200)
    args = parser.parse_args()
    if not 1 <= args.clients <= MAX_CLIENTS or not 0 < args.seconds <= MAX_SECONDS:
        parser.error(f"1 to {MAX_CLIENTS} clients, up to {MAX_SECONDS} seconds")
    with tempfile.TemporaryDirectory() as base:
        library = make_library(Path(base), args.model, args.images)
        port = free_port()
        command = [sys.executable, "-m", "diverset", "serve", "--port", str(port), "--no-token"]
        process = subprocess.Popen([*command, "--library", str(library)], stdout=subprocess.DEVNULL)
        try:
            wait_until_ready(port, process)
            address = f"http://127.0.0.1:{port}/items?limit=100"
            with urllib.request.urlopen(address) as answer:
                ids = json.load(answer)["ids"]
            before = resident(process.pid)
            times, errors, warm = asyncio.run(load(args, port, process.pid, ids))
            after = resident(process.pid)
        finally:
            process.terminate()
            process.wait(30)
    by_kind = {kind: [time for name, time in times if name == kind] for kind, _ in times}
    print(describe_machine())
    for kind, seconds in sorted(by_kind.items()):
        p50, p95 = np.quantile(seconds, [0.5, 0.95])
        print(f"{kind}: {len(seconds):,} responses, p50 {p50:.3f} s, p95 {p95:.3f} s")
    for error in errors[:5]:
        print("error:", error)
    p50, p95 = np.quantile([seconds for _, seconds in times], [0.5, 0.95])
    print(f"resident: {before:.0f} MiB before, {warm:.0f} after a third, {after:.0f} at the end")
    report = {
        "clients": args.clients, "seconds": args.seconds, "responses": len(times),
        "errors": len(errors), "p50": round(float(p50), 4), "p95": round(float(p95), 4),
        "rss_before": round(before), "rss_warm": round(warm), "rss_after": round(after),
    }  # fmt: skip
    print(json.dumps(report))


if __name__ == "__main__":
    main()
