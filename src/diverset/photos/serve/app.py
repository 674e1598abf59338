"""The web application: routes over a `ServerState`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, File, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic_core import to_json

from diverset import __version__
from diverset.index.filter_parser import parse
from diverset.photos.element_numbers import element_index, element_number
from diverset.photos.library.library import Library
from diverset.photos.search.explanation import explain_match
from diverset.photos.search.query import SearchQuery
from diverset.photos.search.search_together import Search
from diverset.photos.search.text_sets import Elements
from diverset.photos.serve import schemas
from diverset.photos.serve.admission import Admission
from diverset.photos.serve.body import BodyReader
from diverset.photos.serve.disconnects import CLIENT_GONE, unless_disconnected
from diverset.photos.serve.error_responses import add_error_handlers, reject_query
from diverset.photos.serve.guard import Guard
from diverset.photos.serve.item_routes import add_items
from diverset.photos.serve.limits import Limits
from diverset.photos.serve.metrics import MetricsMiddleware
from diverset.photos.serve.state import ServerState
from diverset.photos.serve.uploads import check_upload

STATIC = Path(__file__).parent / "static"
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.ErrorResponse} for code in (400, 401, 403, 404, 408, 413, 422, 429, 503)
}
NO_QUERY = [Depends(reject_query)]  # for routes without parameters in the address
QUERY_FIELDS = {field.name for field in fields(SearchQuery)}
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

    @app.get("/status", dependencies=[Depends(state.check), *NO_QUERY])
    def status() -> schemas.LibraryStatus:
        """What the library contains, and the progress of indexing."""
        return state.status()

    @app.get("/metrics", response_class=Response)
    def metrics() -> Response:
        """Prometheus metrics."""
        return Response(generate_latest(state.registry), media_type=CONTENT_TYPE_LATEST)


def _add_search(app: APIRouter, state: ServerState, limits: Limits) -> None:
    @app.post("/search", dependencies=NO_QUERY, response_model=schemas.SearchResponse)
    async def search(http: Request, request: schemas.SearchRequest) -> Response:
        """Images for a text, alone or beside an indexed image."""
        id_ = request.image_id
        image = partial(state.elements, id_) if id_ else None
        return await _search(http, state, request, image, leave_out=id_)

    @app.get("/search", response_model=schemas.SearchResponse)
    async def search_by_address(
        http: Request, request: Annotated[schemas.SearchRequest, Query()]
    ) -> Response:
        """The same as `POST /search`, with its fields in the address."""
        return await search(http, request)

    @app.get("/similar", response_model=schemas.SearchResponse)
    async def similar(
        http: Request, request: Annotated[schemas.SimilarRequest, Query()]
    ) -> Response:
        """Images similar to an indexed image, or to one of its elements."""
        image = partial(state.elements, request.id)
        element = None if request.element is None else element_index(request.element)
        return await _search(http, state, request, image, element, request.id)

    @app.post("/similar", dependencies=NO_QUERY, response_model=schemas.SearchResponse)
    async def similar_to_upload(
        http: Request, request: Annotated[schemas.UploadRequest, File()]
    ) -> Response:
        """Images similar to an upload, which is not stored, alone or beside a text."""
        data = await request.image.read(limits.bytes + 1)
        await run_in_threadpool(check_upload, data, limits)
        image = await run_in_threadpool(state.encode_upload, data)
        return await _search(http, state, request, image)

    @app.get("/explain")
    def explain(request: Annotated[schemas.ExplainRequest, Query()]) -> schemas.ExplainResponse:
        """Which elements of an image match a text, and how much."""
        image = state.elements(request.id)
        match = explain_match(state.encode_text(request.text), image, state.searcher.alpha)
        pairs = zip(match.shares.tolist(), match.cosines.tolist(), strict=True)
        elements = [
            schemas.ElementMatch(element=element_number(element), share=share, cosine=cosine)
            for element, (share, cosine) in enumerate(pairs)
        ]
        return schemas.ExplainResponse(score=match.score, elements=elements)


async def _search(
    http: Request,
    state: ServerState,
    request: schemas.FilterParams,
    image: Elements | Callable[[], Elements] | None,
    element: int | None = None,
    leave_out: str | None = None,
) -> Response:
    if request.filter:
        parse(request.filter, MAX_CONDITIONS)
    values = request.model_dump(include=QUERY_FIELDS)
    query = SearchQuery(**values | {"filter": request.filter or None, "leave_out": leave_out})
    started = time.perf_counter()
    result = await unless_disconnected(http, state.batches.search(Search(query, image, element)))
    if result is None:
        return Response(status_code=CLIENT_GONE)
    groups = [result.hits]
    if request.groups:  # not by a thread of those that answer other requests
        groups = await asyncio.to_thread(state.searcher.groups, result.hits)
    # The fields of `SearchResponse`, as bytes: checking every hit takes time and finds nothing.
    milliseconds = round(1000 * (time.perf_counter() - started), 1)
    response = {"milliseconds": milliseconds, **result.as_json(groups)}
    return Response(to_json(response, inf_nan_mode="null"), media_type="application/json")
