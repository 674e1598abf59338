"""The web application: routes over a `ServerState`."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, File, Query
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from diverset import __version__
from diverset.index.filter_parser import parse
from diverset.photos.element_numbers import element_index, element_number
from diverset.photos.library.library import Library
from diverset.photos.search.explanation import explain_match
from diverset.photos.search.query import SearchQuery
from diverset.photos.search.searcher import Elements
from diverset.photos.serve.admission import Admission
from diverset.photos.serve.body import BodyReader
from diverset.photos.serve.error_responses import add_error_handlers, reject_query
from diverset.photos.serve.guard import Guard
from diverset.photos.serve.item_routes import add_items
from diverset.photos.serve.limits import Limits
from diverset.photos.serve.metrics import MetricsMiddleware
from diverset.photos.serve.schemas import (
    ElementMatch,
    ErrorResponse,
    ExplainRequest,
    ExplainResponse,
    FilterParams,
    HitResponse,
    LibraryStatus,
    SearchRequest,
    SearchResponse,
    SimilarRequest,
    UploadRequest,
)
from diverset.photos.serve.state import ServerState
from diverset.photos.serve.uploads import check_upload

STATIC = Path(__file__).parent / "static"
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorResponse} for code in (400, 401, 403, 404, 408, 413, 422, 429, 503)
}
QUERY_FIELDS = {
    "text", "required", "excluded", "k", "offset", "coverage", "weights", "balance",
    "min_probability",
}  # fmt: skip
MAX_CONDITIONS = 32  # of a filter; each reads all items


def create_app(library: Library, token: str | None = None, limits: Limits | None = None) -> FastAPI:
    """The server of a library, which the caller closes.

    With a token, every request except /health and /ready must carry it. Without one, only requests
    whose Host is a loopback address are answered.
    """
    state, limits = ServerState(library), limits or Limits()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=state.load).start()  # an early exit waits for it
        yield

    app = FastAPI(
        title="diverset",
        version=__version__,
        lifespan=lifespan,
        responses=ERRORS,
        docs_url=None,  # FastAPI's own pages load scripts from another site
        redoc_url=None,
    )
    app.state.diverset = state
    add_error_handlers(app)
    app.add_middleware(Admission, limits=limits)
    app.add_middleware(BodyReader, limits=limits)
    app.add_middleware(Guard, token=token)
    app.add_middleware(MetricsMiddleware, registry=state.registry)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    _add_monitoring(app, state)
    routes = APIRouter(dependencies=[Depends(state.check)])
    _add_search(routes, state, limits)
    add_items(routes, state)
    app.include_router(routes)
    return app


def _add_monitoring(app: FastAPI, state: ServerState) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/docs", include_in_schema=False)
    def documentation() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    # Async, because threads may all be busy with searches when a process is monitored.
    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the process responds."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> JSONResponse:
        """Whether requests are answered at once: the model is loaded, the library not rebuilt."""
        is_ready = state.ready.is_set() and not state.outdated
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    @app.get("/status", dependencies=[Depends(state.check), Depends(reject_query)])
    def status() -> LibraryStatus:
        """What the library contains, and the progress of indexing."""
        return state.status()

    @app.get("/metrics", response_class=Response)
    def metrics() -> Response:
        """Prometheus metrics."""
        return Response(generate_latest(state.registry), media_type=CONTENT_TYPE_LATEST)


def _add_search(app: APIRouter, state: ServerState, limits: Limits) -> None:
    @app.post("/search", dependencies=[Depends(reject_query)])
    def search(request: SearchRequest) -> SearchResponse:
        """Images for a text, alone or beside an indexed image."""
        image = state.elements(request.image_id) if request.image_id else None
        return _search(state, request, image, leave_out=request.image_id)

    @app.get("/search")
    def search_by_address(request: Annotated[SearchRequest, Query()]) -> SearchResponse:
        """The same as `POST /search`, with its fields in the address."""
        return search(request)

    @app.get("/similar")
    def similar(request: Annotated[SimilarRequest, Query()]) -> SearchResponse:
        """Images similar to an indexed image, or to one of its elements."""
        image = state.elements(request.id)
        element = None if request.element is None else element_index(request.element)
        return _search(state, request, image, element, request.id)

    @app.post("/similar", dependencies=[Depends(reject_query)])
    def similar_to_upload(request: Annotated[UploadRequest, File()]) -> SearchResponse:
        """Images similar to an upload, which is not stored, alone or beside a text."""
        data = request.image.file.read(limits.bytes + 1)
        check_upload(data, limits)
        return _search(state, request, state.encode_upload(data))

    @app.get("/explain")
    def explain(request: Annotated[ExplainRequest, Query()]) -> ExplainResponse:
        """Which elements of an image match a text, and how much."""
        image = state.elements(request.id)
        match = explain_match(state.encode_text(request.text), image, state.searcher.alpha)
        pairs = zip(match.shares.tolist(), match.cosines.tolist(), strict=True)
        elements = [
            ElementMatch(element=element_number(element), share=share, cosine=cosine)
            for element, (share, cosine) in enumerate(pairs)
        ]
        return ExplainResponse(score=match.score, elements=elements)


def _search(
    state: ServerState,
    request: FilterParams,
    image: Elements | None,
    element: int | None = None,
    leave_out: str | None = None,
) -> SearchResponse:
    if request.filter:
        parse(request.filter, MAX_CONDITIONS)
    fields = request.model_dump(include=QUERY_FIELDS)
    query = SearchQuery(filter=request.filter or None, leave_out=leave_out, **fields)
    started = time.perf_counter()
    result = state.search(query, image, element)
    matches = result.matches
    groups = state.searcher.groups(matches) if request.groups else [matches]
    return SearchResponse(
        confidence=result.confidence,
        note=result.note,
        milliseconds=round(1000 * (time.perf_counter() - started), 1),
        total=result.total,
        groups=[[HitResponse(**match.as_json()) for match in group] for group in groups if group],
    )
