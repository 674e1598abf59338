"""Routes of single images: lists, metadata, thumbnails, overlays and original files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from diverset.errors import DataError
from diverset.model.overlays import attended_area
from diverset.photos.element_numbers import element_index
from diverset.photos.search.explanation import WHOLE_IMAGE
from diverset.photos.serve import schemas
from diverset.photos.serve.state import ServerState

IMAGE_SIDES = (256, 512, 1024, 2048)  # longer side in pixels
SHOWN_BY_BROWSERS = {
    ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".jpe": "image/jpeg", ".jfif": "image/jpeg",
    ".png": "image/png", ".webp": "image/webp", ".gif": "image/gif", ".avif": "image/avif",
    ".bmp": "image/bmp",
}  # fmt: skip


def add_items(app: APIRouter, state: ServerState) -> None:
    @app.get("/items")
    def items(request: Annotated[schemas.ItemsRequest, Query()]) -> schemas.ItemList:
        """The indexed images, ordered by path."""
        ids = state.list_ids(request.offset, request.limit)
        return schemas.ItemList(total=state.status().images, ids=ids)

    @app.get("/items/info")
    def info(request: Annotated[schemas.ItemRequest, Query()]) -> schemas.ItemInfo:
        """An image's number of elements, metadata and identical copies."""
        return state.info(request.id)

    @app.get("/items/image", response_class=Response)
    def image(http: Request, request: Annotated[schemas.ImageRequest, Query()]) -> Response:
        """An image as a JPEG of one of a few sizes."""
        side = request.side
        if side not in IMAGE_SIDES:
            raise DataError(f"side is {side}; choose one of: {', '.join(map(str, IMAGE_SIDES))}")
        file = state.present_file(request.id)
        tag = f"{file.digest}-{side}"
        return _revalidated(http, tag, "image/jpeg", lambda: state.thumbnail(file, side))

    @app.get("/items/overlay", response_class=Response)
    def overlay(http: Request, request: Annotated[schemas.OverlayRequest, Query()]) -> Response:
        """Where an element attended to, as a transparent PNG to lay over the image."""
        file = state.present_file(request.id)
        index = element_index(request.element)
        tag = f"{file.digest}-{state.library.info['fingerprint']}-{index}"
        return _revalidated(http, tag, "image/png", lambda: state.overlay(file, index))

    @app.get("/items/elements")
    def elements(request: Annotated[schemas.ItemRequest, Query()]) -> schemas.ElementAreas:
        """The share of an image that each of its elements attends to."""
        maps = state.element_maps(state.present_file(request.id))
        areas = [attended_area(element) for element in maps]
        return schemas.ElementAreas(
            areas=areas, whole_image=[area >= WHOLE_IMAGE for area in areas]
        )

    @app.get("/items/original", response_class=Response)
    def original(request: Annotated[schemas.OriginalRequest, Query()]) -> Response:
        """The indexed file as it is, with all its metadata; not if it has changed since."""
        data = state.original(state.present_file(request.id))
        name = os.path.basename(request.id)
        media_type = SHOWN_BY_BROWSERS.get(os.path.splitext(name)[1].lower())
        shown = media_type is not None and not request.download
        disposition = f"{'inline' if shown else 'attachment'}; filename*=UTF-8''{quote(name)}"
        headers = {"Cache-Control": "private, no-cache", "Content-Disposition": disposition}
        return Response(data, media_type=media_type or "application/octet-stream", headers=headers)


def _revalidated(
    request: Request, tag: str, media_type: str, make: Callable[[], bytes]
) -> Response:
    """A response that browsers cache but check each time, in case the file has changed."""
    headers = {"Cache-Control": "private, no-cache", "ETag": f'"{tag}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(make(), media_type=media_type, headers=headers)
