"""The application: routes over a `State`. It starts nothing and binds to nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, File, Query, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from diverset import __version__
from diverset.errors import DataError
from diverset.index.where import parse
from diverset.library.library import Library
from diverset.search.command import as_dict, grouped
from diverset.search.drawing import reasons
from diverset.search.query import Asked
from diverset.search.searcher import Elements, Match
from diverset.serve.guard import Guard, Limits
from diverset.serve.refusals import add_refusals
from diverset.serve.schemas import (
    About,
    Element,
    ElementNumber,
    Explanation,
    Found,
    Id,
    Item,
    Listed,
    Narrowed,
    Near,
    Question,
    Said,
    Status,
    Upload,
)
from diverset.serve.state import State
from diverset.serve.uploads import check_upload
from diverset.serve.watch import Watch

STATIC = Path(__file__).parent / "static"
SIDES = (256, 512, 1024)
REFUSED: dict[int | str, dict[str, Any]] = {
    code: {"model": Said} for code in (400, 401, 403, 404, 413, 422, 503)
}
ASKED = {"words", "also", "without", "k", "coverage", "weights", "balance"}
CONDITIONS = 32  # of a filter; each takes a look at every picture


def create_app(library: Library, token: str = "", limits: Limits | None = None) -> FastAPI:
    """The server of one library.

    Args:
        library: opened; the caller closes it.
        token: that every request must carry; empty for the loopback interface.
        limits: of uploads.
    """
    state, limits = State(library), limits or Limits()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=state.load).start()  # whoever leaves at once waits for it
        yield

    app = FastAPI(
        title="diverset",
        version=__version__,
        lifespan=lifespan,
        responses=REFUSED,
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.diverset = state
    add_refusals(app)
    app.add_middleware(Guard, token=token, limits=limits)
    app.add_middleware(Watch, registry=state.registry)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    _add_watching(app, state)
    library_routes = APIRouter(dependencies=[Depends(state.check)])
    _add_asking(library_routes, state, limits)
    _add_items(library_routes, state)
    app.include_router(library_routes)
    return app


def _add_watching(app: FastAPI, state: State) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/docs", include_in_schema=False)
    def documentation() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    # Not in the pool of threads: who watches over processes must not wait behind questions.
    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> JSONResponse:
        """Whether questions are answered at once: the model is loaded, the library the same."""
        there = state.ready.is_set() and not state.outdated
        return JSONResponse({"ready": there}, 200 if there else 503)

    @app.get("/status", dependencies=[Depends(state.check)])
    def status() -> Status:
        """What is in the library, and how far indexing is."""
        return state.status()

    @app.get("/metrics", response_class=Response)
    def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(generate_latest(state.registry), media_type=CONTENT_TYPE_LATEST)


def _add_asking(app: APIRouter, state: State, limits: Limits) -> None:
    @app.post("/search")
    def search(question: Question) -> Found:
        """Pictures for words, alone or beside an indexed picture."""
        like = state.picture(question.like) if question.like else None
        return _answered(state, question, like)

    @app.get("/similar")
    def similar(near: Annotated[Near, Query()]) -> Found:
        """Pictures like an indexed one, or with something in them like one element of it."""
        picture = state.picture(near.id)
        if near.element is None:
            return _answered(state, near, picture)
        return _answered(state, near, picture[[state.place(near.element)]], rule="part")

    @app.post("/similar")
    def similar_to_upload(upload: Annotated[Upload, File()]) -> Found:
        """Pictures like one that is sent, beside words or not; it is not kept."""
        data = upload.picture.file.read(limits.bytes + 1)
        check_upload(data, limits)
        return _answered(state, upload, state.uploaded(data))

    @app.get("/explain")
    def explanation(
        id: Id, words: Annotated[str, Query(min_length=1, max_length=2000)]
    ) -> Explanation:
        """Which elements of a picture matched words, and how much."""
        picture = state.picture(id)
        why = reasons(state.words(words), picture, state.library.about["alpha"])
        pairs = zip(why.shares.tolist(), why.best.tolist(), strict=True)
        elements = [
            Element(element=at + 1, share=share, cosine=cosine)
            for at, (share, cosine) in enumerate(pairs)
        ]
        return Explanation(score=why.score, elements=elements)


def _add_items(app: APIRouter, state: State) -> None:
    @app.get("/items")
    def items(
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Listed:
        """The indexed pictures, by path."""
        return Listed(total=state.status().pictures, ids=state.listed(offset, limit))

    @app.get("/items/about")
    def about(id: Id) -> About:
        """What is known of a picture: its parts, size, place and time."""
        return state.about(id)

    @app.get("/items/picture", response_class=Response)
    def picture(request: Request, id: Id, side: int = 256) -> Response:
        """A picture as a JPEG of one of a few sizes; the file itself never leaves."""
        if side not in SIDES:
            raise DataError(f"side is {side}; choose one of: {', '.join(map(str, SIDES))}")
        file = state.known(id)
        mark = f"{file.digest}-{side}"
        return _fresh(request, mark, "image/jpeg", lambda: state.thumbnail(file, side))

    @app.get("/items/map", response_class=Response)
    def layer(request: Request, id: Id, element: ElementNumber) -> Response:
        """What an element looked at, as a layer over the picture."""
        file = state.known(id)
        mark = f"{file.digest}-{state.library.about['fingerprint']}-{element}"
        return _fresh(request, mark, "image/png", lambda: state.map(file, element))


def _fresh(request: Request, mark: str, kind: str, make: Callable[[], bytes]) -> Response:
    """What a browser may keep as long as it asks each time whether the file is still the same."""
    headers = {"Cache-Control": "private, no-cache", "ETag": f'"{mark}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(make(), media_type=kind, headers=headers)


def _answered(
    state: State, wish: Narrowed, picture: Elements | None, rule: str = "similarity"
) -> Found:
    if wish.filter:
        parse(wish.filter, CONDITIONS)
    fields = wish.model_dump(include=ASKED)
    started = time.perf_counter()
    answer = state.search(Asked(where=wish.filter or None, **fields), picture, rule)
    some = grouped(state.searcher, answer.matches) if wish.groups else [answer.matches]
    return Found(
        matches_well=answer.matches_well,
        cutoff=answer.cutoff,
        milliseconds=1000 * (time.perf_counter() - started),
        groups=[[_item(one, answer.by_probability) for one in each] for each in some if each],
    )


def _item(match: Match, rated: bool) -> Item:
    return Item(**as_dict(match if rated else replace(match, probability=None)))
