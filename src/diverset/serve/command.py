"""`diverset serve`."""

from __future__ import annotations

import argparse
import logging
import os

from diverset.errors import import_extra
from diverset.library.library import Library


def serve(given: argparse.Namespace) -> int:
    """Answer until interrupted."""
    for module in ("fastapi", "uvicorn", "prometheus_client", "multipart"):
        import_extra(module, "serve")
    import uvicorn

    from diverset.serve.app import create_app
    from diverset.serve.guard import Limits, check_binding

    token = given.token or os.environ.get("DIVERSET_TOKEN", "")
    check_binding(given.host, token)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    limits = Limits(int(given.max_megabytes * 2**20), int(given.max_megapixels * 1e6))
    with Library.open(given.library) as library:
        print(f"http://{given.host}:{given.port}/  (stop with Ctrl+C)", flush=True)
        app = create_app(library, token, limits)
        uvicorn.run(app, host=given.host, port=given.port, log_level="warning")
    return 0
