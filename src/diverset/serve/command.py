"""`diverset serve`."""

from __future__ import annotations

import argparse
import logging
import os
import socket

from diverset.errors import OptionError, import_extra
from diverset.library.library import Library


def serve(given: argparse.Namespace) -> int:
    """Answer until interrupted."""
    for module in ("fastapi", "uvicorn", "prometheus_client", "python_multipart"):
        import_extra(module, "serve")
    import uvicorn

    from diverset.serve.app import create_app
    from diverset.serve.guard import Limits, check_binding

    token = given.token or os.environ.get("DIVERSET_TOKEN", "")
    check_binding(given.host, token)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    limits = Limits(int(given.max_megabytes * 2**20), int(given.max_megapixels * 1e6))
    with Library.open(given.library) as library, _listening(given.host, given.port) as listening:
        host = f"[{given.host}]" if ":" in given.host else given.host
        print(f"http://{host}:{listening.getsockname()[1]}/  (stop with Ctrl+C)", flush=True)
        app = create_app(library, token, limits)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])
    return 0


def _listening(host: str, port: int) -> socket.socket:
    """Bound before anything is loaded, so that an address in use is told at once."""
    if not 0 <= port < 2**16:
        raise OptionError(f"there is no port {port}; try another --port, up to 65535")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OptionError(
            f"cannot listen on {host}, port {port} ({error}); try another --port"
        ) from error
