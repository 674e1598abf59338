"""Connections of a server under strangers: deadlines, and a bound on their number.

uvicorn waits for the rest of a request without end, so a few hundred half-sent requests would
block everybody. Here every connection has a deadline. If there are too many, the oldest one that
has never sent a whole request makes room for a new one, then the one that is idle longest.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from diverset.photos.serve.limits import Limits

log = logging.getLogger("diverset.photos.serve")
BURST = 100  # connections that asyncio accepts before it handles other events
BACKLOG = 2048  # connections that the system keeps until they are accepted
RESERVED_FILES = 156  # for the library, the model, uploads
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


class Connections:
    """The connections of one server that wait for a request, oldest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.limit = min(limits.connections, max_open_files() - BURST - RESERVED_FILES)
        self.new: dict[BoundedProtocol, None] = {}
        self.idle: dict[BoundedProtocol, None] = {}

    def make_room(self) -> bool:
        """Close the connection that is least likely to be missed; False if all are in work."""
        oldest = next(iter(self.new or self.idle), None)
        if oldest is None:
            return False
        log.warning("more than %d connections: closed one that has sent no request", self.limit)
        oldest.abort()
        return True


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 connection with a deadline for whatever it waits for."""

    def __init__(self, *args: Any, waiting: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting, self._limits = waiting, waiting.limits
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        full = len(self.connections) >= self._waiting.limit
        super().connection_made(transport)
        # Small answers on a connection that is kept open would wait for the client's next packet.
        connected: socket.socket = transport.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if full and not self._waiting.make_room():
            log.warning("more than %d connections in work: refused one", self._waiting.limit)
            transport.write(BUSY)
            transport.close()
            return
        self._waiting.new[self] = None
        self._set_deadline(self._limits.head_seconds)

    def handle_events(self) -> None:
        waited = self._is_waiting()
        super().handle_events()
        if waited and not self._is_waiting():
            self._leave()
            self._set_deadline(self._limits.answer_seconds)

    def on_response_complete(self) -> None:
        self._waiting.idle[self] = None
        self._set_deadline(self._limits.idle_seconds)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        self._set_deadline(None)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once, whatever it is doing."""
        self._leave()
        self.transport.abort()

    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _leave(self) -> None:
        self._waiting.new.pop(self, None)
        self._waiting.idle.pop(self, None)

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.abort)


class BoundedServer(uvicorn.Server):
    """uvicorn with the connections above; sockets are given to `run`."""

    def __init__(self, app: Any, limits: Limits) -> None:
        protocol = partial(BoundedProtocol, waiting=Connections(limits))
        config = uvicorn.Config(
            app,
            http=cast(type[asyncio.Protocol], protocol),
            ws="none",
            backlog=BURST,
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_keep_alive=int(limits.idle_seconds),
            timeout_graceful_shutdown=limits.shutdown_seconds,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # asyncio has set it to the number it accepts at a time


def max_open_files() -> int:
    """Files and connections that this process may open."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 2**20
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**20 if soft == resource.RLIM_INFINITY else soft
