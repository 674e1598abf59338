"""Requests and responses of the HTTP API."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import UploadFile
from pydantic import BaseModel, ConfigDict, Field

from diverset.evaluation.calibration import Confidence

MAX_HITS = 200  # per response
MAX_OFFSET = 10_000  # hits before those of a response; they are ranked for every response
Id = Annotated[str, Field(max_length=1000)]
ElementNumber = Annotated[int, Field(ge=1, le=64)]
Text = Annotated[str, Field(max_length=2000)]
Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class Params(BaseModel):
    """Fields of a request; others are rejected."""

    model_config = ConfigDict(extra="forbid")


class FilterParams(Params):
    """What every search can be narrowed by."""

    required: Annotated[list[Text], Field(max_length=8)] = []
    excluded: Annotated[list[Text], Field(max_length=8)] = []
    filter: Annotated[str, Field(max_length=2000)] | None = None
    k: Annotated[int, Field(ge=1, le=MAX_HITS)] = 40
    offset: Annotated[int, Field(ge=0, le=MAX_OFFSET)] = 0
    groups: bool = False


class SimilarRequest(FilterParams):
    """An indexed image, or one element of it, counted from 1."""

    id: Id
    element: ElementNumber | None = None


class TextQuery(FilterParams):
    """A text, and how it counts."""

    text: Text = ""
    coverage: bool = False
    weights: Annotated[list[Weight], Field(max_length=64)] = []
    balance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5
    min_probability: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None


class SearchRequest(TextQuery):
    """A text, alone or beside an indexed image."""

    image_id: Id | None = None
    """Id of an image that the hits should resemble as well."""


class UploadRequest(TextQuery):
    """An uploaded image, alone or beside a text."""

    image: UploadFile


class HitResponse(BaseModel):
    """One hit. `element` is the one that matched best, counted from 1; `shares` are the
    contributions of all elements. `probability` is that of showing the texts of the query, and
    decreases with the rank; null without a text or a calibration. `copies` are other files with
    the same content."""

    id: str
    score: float
    probability: float | None
    element: int
    shares: list[float]
    copies: list[str]
    metadata: dict[str, Any]


class SearchResponse(BaseModel):
    """Hits, in one group or several. `confidence` is that the library contains what was searched
    for, null without probabilities; `note` is what a person should know about the hits; `total` is
    the number of images that pass the filter, counting identical files once."""

    confidence: Confidence | None
    note: str | None
    milliseconds: float
    total: int
    groups: list[list[HitResponse]]


class ExplainRequest(Params):
    """An indexed image, and a text."""

    id: Id
    text: Annotated[str, Field(min_length=1, max_length=2000)]


class ElementMatch(BaseModel):
    """One element of an image in a match."""

    element: int
    share: float
    cosine: float


class ExplainResponse(BaseModel):
    score: float
    elements: list[ElementMatch]


class ItemsRequest(Params):
    """Which part of the list of images."""

    offset: Annotated[int, Field(ge=0, le=10**9)] = 0
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class ItemRequest(Params):
    """An indexed image."""

    id: Id


class ImageRequest(ItemRequest):
    """The longer side of the image in pixels."""

    side: int = 256


class OverlayRequest(ItemRequest):
    """An element of an indexed image, counted from 1."""

    element: ElementNumber


class OriginalRequest(ItemRequest):
    """Whether a browser saves the file instead of showing it."""

    download: bool = False


class ItemList(BaseModel):
    total: int
    ids: list[str]


class ItemInfo(BaseModel):
    """An image without any query: the number of its elements, other files with the same content,
    and metadata of its file."""

    id: str
    elements: int
    copies: list[str]
    metadata: dict[str, Any]


class ElementAreas(BaseModel):
    """For each element of an image the share that it attends to, and whether that is all of it."""

    areas: list[float]
    whole_image: list[bool]


class IndexingStatus(BaseModel):
    done: int
    total: int
    rate: float


class LibraryStatus(BaseModel):
    images: int
    texts: int
    skipped: int
    folders: list[str]
    model: str
    indexing: IndexingStatus | None


class FieldError(BaseModel):
    """What is wrong in a request, and where."""

    field: str
    message: str


class ErrorResponse(BaseModel):
    """Why a request failed."""

    detail: str | list[FieldError]
