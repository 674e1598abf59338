"""The server under strangers: half-sent requests and unfinished uploads while others search.

    python benchmarks/serve_strangers.py MODEL --clients 50 --seconds 20

Starts `diverset serve` as a process of its own, with a token. Clients search alone, then while
strangers hold 2,000 half-sent requests and 100 unfinished uploads open and replace each that the
server closes. Afterwards a thread exchanges a shown file for a link to another image and back while
its thumbnail is requested 20,000 times. At last the server is stopped with SIGTERM while half-sent
requests are open. The last line is JSON: p99 of both runs and their ratio, errors, size of the log,
wrong images, seconds until the server has ended.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from serve_load import free_port, make_library, wait_until_ready
from timing import describe_machine

TOKEN = "benchmark-token-0123456789"
HEAD = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
HALF = b"GET /search?text=dog HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
UPLOAD = (
    f"POST /similar HTTP/1.1\r\n{HEAD}Content-Length: 15000000\r\n"
    "Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
).encode() + bytes(100_000)


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length:")[2].split()[0])
    return int(head.split()[1]), await reader.readexactly(length)


async def search(number: int, port: int, until: float, times: list[float], errors: list[str]):
    """Search on one connection until a time."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        count = 0
        while time.monotonic() < until:
            body = json.dumps({"text": f"a red cat {number} {count}", "k": 10}).encode()
            head = f"POST /search HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\n"
            started, count = time.monotonic(), count + 1
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            status, _ = await answer(reader)
            times.append(time.monotonic() - started)
            if status != 200:
                errors.append(f"status {status}")
        writer.close()
    except (OSError, ValueError, IndexError, asyncio.IncompleteReadError) as error:
        errors.append(f"{type(error).__name__}: {error}")


async def hold(port: int, data: bytes, until: float) -> None:
    """Keep an unfinished request open; start another one when the server closes it."""
    while time.monotonic() < until:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            async with asyncio.timeout(max(until - time.monotonic(), 0.01)):
                while await reader.read(1000):
                    pass
            writer.close()
        except (OSError, TimeoutError):
            pass
        await asyncio.sleep(1)


async def measure(port: int, args: argparse.Namespace, strangers: bool) -> tuple[float, list[str]]:
    times: list[float] = []
    errors: list[str] = []
    until = time.monotonic() + args.seconds
    tasks = []
    if strangers:
        tasks += [asyncio.create_task(hold(port, HALF, until)) for _ in range(args.half)]
        tasks += [asyncio.create_task(hold(port, UPLOAD, until)) for _ in range(args.uploads)]
        await asyncio.sleep(2)
    tasks += [
        asyncio.create_task(search(number, port, until, times, errors))
        for number in range(args.clients)
    ]
    await asyncio.gather(*tasks)
    return float(np.quantile(times, 0.99)) if times else float("nan"), errors


async def race(port: int, path: Path, other: Path, count: int) -> tuple[int, int]:
    """Responses with an image while its file is exchanged, and how many were of another image."""
    kept, stop = path.with_suffix(".kept"), threading.Event()
    os.link(path, kept)

    def exchange() -> None:
        while not stop.is_set():
            for source, make in ((other, os.symlink), (other, os.link), (kept, os.link)):
                make(source, f"{path}.new")
                os.replace(f"{path}.new", path)

    thread = threading.Thread(target=exchange)
    thread.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    images: dict[bytes, int] = {}
    try:
        for _ in range(count):
            query = urlencode({"id": str(path)})
            writer.write(f"GET /items/original?{query} HTTP/1.1\r\n{HEAD}\r\n".encode())
            status, body = await answer(reader)
            if status == 200:
                images[body] = images.get(body, 0) + 1
            elif status != 404:
                raise SystemExit(f"status {status}: {body[:200]!r}")
    finally:
        stop.set()
        thread.join()
        os.replace(kept, path)
    right = images.pop(path.read_bytes(), 0)
    return right, sum(images.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--half", type=int, default=2000, help="half-sent requests")
    parser.add_argument("--uploads", type=int, default=100, help="unfinished uploads")
    parser.add_argument("--requests", type=int, default=20_000, help="against the race")
    parser.add_argument("--images", type=int, default=200)
    args = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as base, open(f"{base}/log", "w+") as log:
        library, port = make_library(Path(base), args.model, args.images), free_port()
        command = [sys.executable, "-m", "diverset", "serve", "--port", str(port)]
        process = subprocess.Popen(
            [*command, "--library", str(library)],
            env={**os.environ, "DIVERSET_TOKEN": TOKEN},
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        try:
            wait_until_ready(port, process)
            asyncio.run(measure(port, argparse.Namespace(clients=5, seconds=3), False))  # warm
            idle, idle_errors = asyncio.run(measure(port, args, strangers=False))
            busy, busy_errors = asyncio.run(measure(port, args, strangers=True))
            images = sorted((Path(base) / "scenes" / "images").iterdir())
            shown, wrong = asyncio.run(race(port, images[0], images[1], args.requests))
            seconds = asyncio.run(stop_under_half_sent(process, port))
        finally:
            process.kill()
        size = os.stat(log.name).st_size
    for error in (idle_errors + busy_errors)[:5]:
        print(error)
    figures = {
        "idle_p99_s": round(idle, 3), "p99_s": round(busy, 3), "ratio": round(busy / idle, 2),
        "errors": len(idle_errors) + len(busy_errors), "log_bytes": size,
        "race_shown": shown, "race_wrong": wrong, "stopped_after_s": round(seconds, 1),
    }  # fmt: skip
    print(json.dumps(figures))


async def stop_under_half_sent(process: subprocess.Popen[bytes], port: int) -> float:
    until = time.monotonic() + 30
    strangers = [asyncio.create_task(hold(port, UPLOAD, until)) for _ in range(5)]
    strangers += [asyncio.create_task(hold(port, HALF, until)) for _ in range(50)]
    await asyncio.sleep(1)
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    while process.poll() is None and time.monotonic() - started < 30:
        await asyncio.sleep(0.1)
    for stranger in strangers:
        stranger.cancel()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
