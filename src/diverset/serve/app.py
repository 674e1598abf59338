"""The application: routes over a `State`. It starts nothing and binds to nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, File, Form, Query, Request, UploadFile
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from diverset import __version__
from diverset.errors import DataError
from diverset.library.library import Library
from diverset.search.command import as_dict, grouped
from diverset.search.drawing import reasons
from diverset.search.query import Asked
from diverset.search.searcher import Answer
from diverset.serve.guard import Guard, Limits
from diverset.serve.refusals import add_refusals
from diverset.serve.schemas import (
    MOST,
    Element,
    Explanation,
    Found,
    Item,
    Listed,
    Question,
    Said,
    Status,
)
from diverset.serve.state import State
from diverset.serve.uploads import check_upload
from diverset.serve.watch import Watch

STATIC = Path(__file__).parent / "static"
SIDES = (256, 512, 1024)
REFUSED: dict[int | str, dict[str, Any]] = {
    code: {"model": Said} for code in (400, 401, 403, 404, 413, 422, 503)
}
Id = Annotated[str, Query(max_length=1000)]
Count = Annotated[int, Query(ge=1, le=MOST)]
Filter = Annotated[str | None, Query(max_length=2000)]
ElementNumber = Annotated[int, Query(ge=1, le=64)]


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
        threading.Thread(target=state.load, daemon=True).start()
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
    _add_asking(app, state, limits)
    _add_items(app, state)
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
        """Whether questions are answered at once: the model is loaded."""
        there = state.ready.is_set()
        return JSONResponse({"ready": there}, 200 if there else 503)

    @app.get("/status")
    def status() -> Status:
        """What is in the library, and how far indexing is."""
        return state.status()

    @app.get("/metrics", response_class=Response)
    def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(generate_latest(state.registry), media_type=CONTENT_TYPE_LATEST)


def _add_asking(app: FastAPI, state: State, limits: Limits) -> None:
    @app.post("/search")
    def search(question: Question) -> Found:
        """Pictures for words, alone or beside an indexed picture."""
        asked = Asked(
            question.words,
            question.also,
            question.without,
            question.filter,
            question.k,
            question.coverage,
            question.weights,
            question.balance,
        )
        like = state.picture(question.like) if question.like else None
        return _timed(state, question.groups, lambda: state.search(asked, like))

    @app.get("/similar")
    def similar(
        id: Id,
        element: ElementNumber | None = None,
        k: Count = 40,
        filter: Filter = None,
        groups: bool = False,
    ) -> Found:
        """Pictures like an indexed one, or with something in them like one element of it."""
        picture = state.picture(id)
        place = None if element is None else element - 1
        return _timed(state, groups, lambda: state.searcher.similar(picture, k, filter, place))

    @app.post("/similar")
    def similar_to_upload(
        picture: Annotated[UploadFile, File()],
        words: Annotated[str, Form(max_length=2000)] = "",
        k: Annotated[int, Form(ge=1, le=MOST)] = 40,
        filter: Annotated[str | None, Form(max_length=2000)] = None,
        groups: Annotated[bool, Form()] = False,
    ) -> Found:
        """Pictures like one that is sent, beside words or not; it is not kept."""
        data = picture.file.read(limits.bytes + 1)
        check_upload(data, limits)
        elements = state.uploaded(data)
        asked = Asked(words, where=filter or None, k=k)
        return _timed(state, groups, lambda: state.search(asked, elements))

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


def _add_items(app: FastAPI, state: State) -> None:
    @app.get("/items")
    def items(
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Listed:
        """The indexed pictures, by path."""
        return Listed(total=state.status().pictures, ids=state.listed(offset, limit))

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


def _timed(state: State, in_groups: bool, ask: Callable[[], Answer]) -> Found:
    started = time.perf_counter()
    answer = ask()
    some = grouped(state.searcher, answer.matches) if in_groups else [answer.matches]
    return Found(
        matches_well=answer.matches_well,
        cutoff=answer.cutoff,
        milliseconds=1000 * (time.perf_counter() - started),
        groups=[[Item(**as_dict(one)) for one in each] for each in some if each],
    )
