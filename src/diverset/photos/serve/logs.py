"""The server's log: one line per cause of failure; and the access log, if asked for."""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from urllib.parse import parse_qsl, urlencode

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diverset.runtime.terminal import printable

SECONDS = 60.0  # between two lines about one cause
MAX_CAUSES = 1000
MAX_QUERY = 2000  # characters of a query in the access log
access = logging.getLogger("diverset.access")


class OncePerCause(logging.Filter):
    """Passes one record per cause and minute; the next one tells how many were left out.

    A cause is a message before its values are filled in: strangers decide how many requests fail,
    not how many lines that makes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._until: dict[str, float] = {}
        self._omitted: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        cause, now = f"{record.name} {record.msg}", time.monotonic()
        if now < self._until.get(cause, 0) or len(self._until) >= MAX_CAUSES:
            self._omitted[cause] = self._omitted.get(cause, 0) + 1
            return False
        self._until[cause] = now + SECONDS
        if omitted := self._omitted.pop(cause, 0):
            record.msg, record.args = f"{record.getMessage()} (and {omitted:,} more)", ()
        return True


class _Formatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)


def log_to_stderr() -> None:
    """Send warnings of this process to stderr, once per cause."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(OncePerCause())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def open_access_log(file: str) -> None:
    """Append the access log to a file, which may be moved while it is written, or "-": stderr."""
    handler = logging.StreamHandler(sys.stderr) if file == "-" else WatchedFileHandler(file)
    handler.setFormatter(logging.Formatter("%(message)s"))
    access.addHandler(handler)
    access.setLevel(logging.INFO)
    access.propagate = False


class AccessLog:
    """Logs every request as one line of JSON; what was searched for only if `queries`."""

    def __init__(self, app: ASGIApp, queries: bool = False) -> None:
        self.app, self.queries = app, queries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, size, body, started = 0, 0, b"", time.perf_counter()

        async def noted_receive() -> Message:
            nonlocal body
            message = await receive()
            if self.queries and len(body) < MAX_QUERY:
                body += message.get("body", b"")[:MAX_QUERY]
            return message

        async def noted_send(message: Message) -> None:
            nonlocal status, size
            status = message.get("status", status)
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, noted_receive, noted_send)
        finally:
            line = {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "client": (scope.get("client") or ("unknown",))[0],
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "bytes": size,
                "milliseconds": round(1000 * (time.perf_counter() - started), 1),
            }
            access.info(json.dumps(line | (_query(scope, body) if self.queries else {})))


def _query(scope: Scope, body: bytes) -> dict[str, str]:
    """The query string without the token, and the body unless it is an upload."""
    fields = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    query = urlencode([(name, value) for name, value in fields if name != "token"])
    is_json = (b"content-type", b"application/json") in scope["headers"]
    return {"query": query} | ({"body": body.decode("utf-8", "replace")} if is_json else {})
