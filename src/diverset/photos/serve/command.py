"""`diverset serve`."""

from __future__ import annotations

import argparse
import os
import secrets
import socket

from diverset.errors import OptionError, import_extra
from diverset.photos.library.library import Library


def serve(args: argparse.Namespace) -> int:
    for module in ("fastapi", "uvicorn", "prometheus_client", "python_multipart", "cachetools"):
        import_extra(module, "serve")
    from diverset.photos.serve.app import create_app
    from diverset.photos.serve.connections import BoundedServer
    from diverset.photos.serve.guard import check_binding
    from diverset.photos.serve.limits import Limits
    from diverset.photos.serve.logs import AccessLog, log_to_stderr, open_access_log

    chosen = args.token or os.environ.get("DIVERSET_TOKEN") or None
    token = None if args.no_token else chosen or secrets.token_urlsafe(24)
    check_binding(args.host, token)
    log_to_stderr()
    limits = Limits(int(args.max_megabytes * 2**20), int(args.max_megapixels * 1e6))
    with Library.open(args.library) as library, _bind(args.host, args.port) as listener:
        app = create_app(library, token, limits)
        if args.access_log:
            open_access_log(args.access_log)
            app.add_middleware(AccessLog, queries=args.log_queries)
        host = f"[{args.host}]" if ":" in args.host else args.host
        # A token that the user has chosen stays off the screen.
        link = f"?token={token}" if token and not chosen else ""
        print(f"http://{host}:{listener.getsockname()[1]}/{link}  (stop with Ctrl+C)", flush=True)
        BoundedServer(app, limits).run(sockets=[listener])
    return 0


def _bind(host: str, port: int) -> socket.socket:
    """Bound before anything is loaded, so that an address in use is reported at once."""
    if not 0 <= port < 2**16:
        raise OptionError(f"there is no port {port}; try another --port, up to 65535")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OptionError(
            f"cannot listen on {host}, port {port} ({error}); try another --host or --port"
        ) from error
