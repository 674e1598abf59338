"""What one server accepts: sizes, times, and how much of it at once."""

from __future__ import annotations

from dataclasses import dataclass

MAX_QUERY = 64 * 2**10  # bytes of a request that is no upload; the schema allows less


@dataclass(frozen=True)
class Limits:
    """Sizes, numbers of requests at the same time, and times."""

    bytes: int = 20 * 2**20  # of an upload
    pixels: int = 50_000_000  # of an uploaded image
    uploads: int = 8
    searches: int = 64  # computed together, or next while others are answered
    details: int = 8  # explanations, overlays and metadata of images
    images: int = 8  # files that are read, and thumbnails that are made
    waiting: int = 500  # requests that wait for each of these; further ones are answered with 503
    connections: int = 1000
    head_seconds: float = 10  # until the head of a request has arrived
    body_seconds: float = 10  # until its body has arrived, besides the time at `bytes_per_second`
    bytes_per_second: int = 50_000  # slowest rate of an upload
    idle_seconds: float = 30  # between two requests of a connection
    answer_seconds: float = 600  # until a request is received, answered, and the answer read
    shutdown_seconds: int = 5  # for requests in work when the server is stopped
