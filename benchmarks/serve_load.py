"""Load test of the server: answers per second, response times, errors and memory.

    python benchmarks/serve_load.py RUN_OR_MODEL --clients 200 --seconds 60 [--against OTHER/src]

Draws images, indexes them, starts `diverset serve` on the loopback interface as a process of its
own, and sends requests from many clients, each as soon as its last one is answered: searches by
text, similar images, thumbnails, the status. Memory is the server's resident set: after a third of
the time, when caches are filled, and at the end. Responses other than 200 count as errors. Answers
per second are over the time until the last client has its answer. `cpu_ms` and `client_cpu_ms` are
processor time per answer, of the server and of all clients: the latter must be the smaller part.
`keep_alive` is the median time of /health on one open connection before the load.

With `--against`, the same is done first with the code of another checkout, and two ratios are
printed: of answers per second, and of the server's processor time per answer, which other programs
disturb less. The last line is JSON.
"""

import argparse
import asyncio
import json
import os
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
TOKEN = "benchmark-token-0123456789"
COMMAND = [sys.executable, "-c", "import sys; from diverset.cli import main; sys.exit(main())"]
# The route of thumbnails and the field of texts, now and in older versions.
VERSIONS = {"/items/image": "text", "/items/picture": "words"}
HEALTH_REQUESTS = 50
OWN_SOURCE = Path(__file__).parents[1] / "src"


def make_images(base: Path, images: int) -> Path:
    write_scenes(base / "scenes", train=1, val=1, test=images, options=ScenesOptions(size=128))
    return base / "scenes" / "images"


def make_library(base: Path, model: str, images: int) -> Path:
    folder = make_images(base, images)
    with Library.open_or_create(base / "library", model) as library:
        index_folders(library, [folder])
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


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far; other programs disturb it less than response times."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def get_json(port: int, path: str):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def make_request(
    rng: np.random.Generator, ids: list[str], port: int, thumbnails: str
) -> tuple[str, bytes]:
    """Name and bytes of a request; `thumbnails` is their route."""
    image = ids[rng.integers(len(ids))]
    kind = ("search", "search", "similar", "image", "status")[rng.integers(5)]
    body = b""
    if kind == "search":
        text = f"{TEXTS[rng.integers(len(TEXTS))]} {rng.integers(1000)}"
        body = json.dumps({VERSIONS[thumbnails]: text, "k": 20}).encode()
        line = "POST /search"
    elif kind == "similar":
        line = f"GET /similar?{urlencode({'id': image, 'k': 20})}"
    elif kind == "image":
        line = f"GET {thumbnails}?{urlencode({'id': image, 'side': 256})}"
    else:
        line = "GET /status"
    return kind, http_request(line, port, body)


def http_request(line: str, port: int, body: bytes = b"") -> bytes:
    head = (
        f"{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes):
    """Status and body of the response to a request."""
    writer.write(request)
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length:")[2].split()[0])
    return int(head.split()[1]), await reader.readexactly(length)


async def keep_alive_milliseconds(port: int) -> float:
    """Median time of /health on one connection that stays open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times = []
    for _ in range(HEALTH_REQUESTS):
        started = time.perf_counter()
        await send(reader, writer, http_request("GET /health", port))
        times.append(time.perf_counter() - started)
    writer.close()
    return 1000 * float(np.median(times))


async def client(
    number: int, port: int, until: float, ids: list[str], thumbnails: str, times, errors
) -> None:
    rng = np.random.default_rng(number)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while time.monotonic() < until:
            kind, request = make_request(rng, ids, port, thumbnails)
            started = time.monotonic()
            status, body = await send(reader, writer, request)
            times.append((kind, time.monotonic() - started))
            if status != 200:
                errors.append(f"{kind}: {status} {body[:200]!r}")
    except (OSError, ValueError, IndexError, asyncio.IncompleteReadError) as error:
        errors.append(f"{type(error).__name__}: {error}")
    finally:
        writer.close()


async def load(
    args: argparse.Namespace, port: int, pid: int, ids: list[str], thumbnails: str
) -> tuple[list[tuple[str, float]], list[str], float]:
    times: list[tuple[str, float]] = []
    errors: list[str] = []
    until = time.monotonic() + args.seconds
    clients = [
        asyncio.create_task(client(number, port, until, ids, thumbnails, times, errors))
        for number in range(args.clients)
    ]
    await asyncio.sleep(args.seconds / 3)
    warm = resident(pid)
    await asyncio.gather(*clients)
    return times, errors, warm


def measure(args: argparse.Namespace, images: Path, source: Path, base: Path) -> dict[str, float]:
    """Index the images and load a server with the code in `source`."""
    environment = os.environ | {"PYTHONPATH": str(source), "DIVERSET_TOKEN": TOKEN}
    library = ["--library", str(base / "library")]
    index = [*COMMAND, "index", str(images), "--model", args.model, *library]
    subprocess.run(index, env=environment, check=True, stdout=subprocess.DEVNULL)
    port = free_port()
    command = [*COMMAND, "serve", "--port", str(port), *library]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_until_ready(port, process)
        ids = get_json(port, "/items?limit=100")["ids"]
        paths = get_json(port, "/openapi.json")["paths"]
        thumbnails = next(path for path in VERSIONS if path in paths)
        keep_alive = asyncio.run(keep_alive_milliseconds(port))
        before, used = resident(process.pid), processor_seconds(process.pid)
        started, clients_used = time.monotonic(), time.process_time()
        times, errors, warm = asyncio.run(load(args, port, process.pid, ids, thumbnails))
        elapsed, clients_used = time.monotonic() - started, time.process_time() - clients_used
        after, used = resident(process.pid), processor_seconds(process.pid) - used
    finally:
        process.terminate()
        process.wait(30)
    by_kind = {kind: [time for name, time in times if name == kind] for kind, _ in times}
    for kind, seconds in sorted(by_kind.items()):
        p50, p95, p99 = np.quantile(seconds, [0.5, 0.95, 0.99])
        print(f"{kind}: {len(seconds):,} responses, p50 {p50:.3f}, p95 {p95:.3f}, p99 {p99:.3f} s")
    for error in errors[:5]:
        print("error:", error)
    p50, p95, p99 = np.quantile([seconds for _, seconds in times], [0.5, 0.95, 0.99]).round(4)
    print(f"resident: {before:.0f} MiB before, {warm:.0f} after a third, {after:.0f} at the end")
    return {
        "responses": len(times), "per_second": round((len(times) - len(errors)) / elapsed, 1),
        "cpu_ms": round(1000 * used / max(len(times), 1), 2),
        "client_cpu_ms": round(1000 * clients_used / max(len(times), 1), 2), "errors": len(errors),
        "p50": p50, "p95": p95, "p99": p99,
        "keep_alive_ms": round(keep_alive, 2),
        "rss_before": round(before), "rss_warm": round(warm), "rss_after": round(after),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=200, help=f"at most {MAX_CLIENTS}")
    parser.add_argument("--seconds", type=float, default=60, help=f"at most {MAX_SECONDS}")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--against", type=Path, help="src/ of another checkout to compare with")
    args = parser.parse_args()
    if not 1 <= args.clients <= MAX_CLIENTS or not 0 < args.seconds <= MAX_SECONDS:
        parser.error(f"1 to {MAX_CLIENTS} clients, up to {MAX_SECONDS} seconds")
    print(describe_machine())
    report: dict[str, object] = {"clients": args.clients, "seconds": args.seconds}
    with tempfile.TemporaryDirectory() as base:
        images = make_images(Path(base), args.images)
        other = None
        if args.against:
            print(f"code in {args.against}:")
            other = measure(args, images, args.against, Path(base) / "against")
            report["against"] = other
            print("this code:")
        own = measure(args, images, OWN_SOURCE, Path(base) / "own")
    report |= own
    if other:
        report["ratio"] = round(own["per_second"] / other["per_second"], 2)
        report["cpu_ratio"] = round(other["cpu_ms"] / own["cpu_ms"], 2)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
