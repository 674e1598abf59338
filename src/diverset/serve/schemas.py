"""What goes over the wire."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import UploadFile
from pydantic import BaseModel, ConfigDict, Field

MOST = 200  # hits of one answer
Id = Annotated[str, Field(max_length=1000)]
ElementNumber = Annotated[int, Field(ge=1, le=64)]
Words = Annotated[str, Field(max_length=2000)]
Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class Narrowed(BaseModel):
    """What can be said beside any question."""

    model_config = ConfigDict(extra="forbid")

    also: Annotated[list[Words], Field(max_length=8)] = []
    without: Annotated[list[Words], Field(max_length=8)] = []
    filter: Annotated[str, Field(max_length=2000)] | None = None
    k: Annotated[int, Field(ge=1, le=MOST)] = 40
    groups: bool = False


class Near(Narrowed):
    """An indexed picture, or one element of it, counted from 1."""

    id: Id
    element: ElementNumber | None = None


class Wished(Narrowed):
    """Words, and how they count."""

    words: Words = ""
    coverage: bool = False
    weights: Annotated[list[Weight], Field(max_length=64)] = []
    balance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5


class Question(Wished):
    """Words, alone or beside an indexed picture."""

    like: Id = ""
    """Id of the picture that the hits should be like, too."""


class Upload(Wished):
    """A picture that is sent, alone or beside words."""

    picture: UploadFile


class Item(BaseModel):
    """One hit; elements are counted from 1. Where several things count, there is no probability:
    hits would not be in its order."""

    id: str
    score: float
    probability: float | None
    element: int
    elements: list[float]
    metadata: dict[str, Any]


class Found(BaseModel):
    """An answer; `matches_well` is false where not even the best hit is likely right."""

    matches_well: bool
    cutoff: float
    milliseconds: float
    groups: list[list[Item]]


class Element(BaseModel):
    """One element of a picture in a match."""

    element: int
    share: float
    cosine: float


class Explanation(BaseModel):
    score: float
    elements: list[Element]


class Listed(BaseModel):
    total: int
    ids: list[str]


class About(BaseModel):
    """A picture beside any question: how many parts it has, and what its file tells."""

    id: str
    parts: int
    metadata: dict[str, Any]


class Job(BaseModel):
    done: int
    total: int
    rate: float


class Status(BaseModel):
    pictures: int
    texts: int
    skipped: int
    folders: list[str]
    model: str
    indexing: Job | None


class Mistake(BaseModel):
    """What does not fit in a question, and where."""

    where: str
    message: str


class Said(BaseModel):
    """Why there is no answer."""

    detail: str | list[Mistake]
