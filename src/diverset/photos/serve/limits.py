"""What one server accepts: sizes, times, and how much of it at once."""

from __future__ import annotations

from dataclasses import dataclass

MAX_QUERY = 64 * 2**10  # bytes of a request that is no upload; the schema allows less


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Attributes:
        bytes: of an upload.
        pixels: of an uploaded image.
        uploads: received at the same time.
        searches: computed together, or next while others are answered.
        details: explanations, overlays and metadata of images computed at the same time.
        images: files read and thumbnails made at the same time.
        waiting: requests that wait for each of these; further ones are answered with 503.
        connections: open at the same time.
        head_seconds: until the head of a request has arrived.
        body_seconds: until its body has arrived, besides the time at `bytes_per_second`.
        bytes_per_second: slowest rate of an upload.
        idle_seconds: between two requests of a connection.
        answer_seconds: until a request is received, answered, and the answer read.
        shutdown_seconds: for requests in work when the server is stopped.
    """

    bytes: int = 20 * 2**20
    pixels: int = 50_000_000
    uploads: int = 8
    searches: int = 64
    details: int = 8
    images: int = 8
    waiting: int = 500
    connections: int = 1000
    head_seconds: float = 10
    body_seconds: float = 10
    bytes_per_second: int = 50_000
    idle_seconds: float = 30
    answer_seconds: float = 600
    shutdown_seconds: int = 5
