"""How a Qdrant collection is laid out and searched."""

from __future__ import annotations

from dataclasses import dataclass, fields

from qdrant_client import models

from diverset.engines.qdrant_formula import MEAN, element
from diverset.errors import OptionError, check_choice
from diverset.index.base import Settings

QUANTIZED = ("none", "int8", "binary")


@dataclass(frozen=True)
class QdrantOptions:
    """All but `candidates` count when a collection is made."""

    candidates: int = 500
    """Points nearest by their means that are scored, in each shard; 0 for all, which is exact."""
    shards: int = 0
    """Parts of the collection over the nodes of a cluster; the server's choice by default."""
    replicas: int = 0
    """Copies of each shard; the server's choice by default."""
    write_consistency: int = 0
    """Replicas that must have a write before it counts; the server's choice by default."""
    on_disk: bool = False
    """Elements on disk instead of in memory; the mean stays in memory."""
    quantize: str = "none"
    """The copy of the means that is kept in memory: a name in `QUANTIZED`; originals on disk."""

    m: int = 0
    """Neighbours of a point in the HNSW graph; the server's choice by default."""
    ef_construction: int = 0
    """Points that are looked at to find these neighbours; the server's choice by default."""

    def __post_init__(self) -> None:
        check_choice("quantize", self.quantize, QUANTIZED)
        counts = (field.name for field in fields(self) if type(field.default) is int)
        for name in counts:
            if getattr(self, name) < 0:
                raise OptionError(f"{name} is {getattr(self, name)}; give a number from 0 on")


def vector_params(settings: Settings, options: QdrantOptions) -> dict[str, models.VectorParams]:
    """The named vectors of a collection.

    Products, not Qdrant's cosine: that would normalise what is stored once more, and scores would
    be those of other sets.
    """
    quantization: models.QuantizationConfig | None = None
    if options.quantize == "int8":
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        quantization = models.ScalarQuantization(scalar=scalar)
    elif options.quantize == "binary":
        binary = models.BinaryQuantizationConfig(always_ram=True)
        quantization = models.BinaryQuantization(binary=binary)
    mean = models.VectorParams(
        size=settings.dim,
        distance=models.Distance.DOT,
        hnsw_config=models.HnswConfigDiff(
            m=options.m or None, ef_construct=options.ef_construction or None
        ),
        quantization_config=quantization,
        on_disk=quantization is not None or None,
    )
    one = models.VectorParams(
        size=settings.dim,
        distance=models.Distance.DOT,
        # No graph, or candidates would be looked up in it, missed by some pairs, and scored wrong.
        hnsw_config=models.HnswConfigDiff(m=0),
        on_disk=options.on_disk or None,
    )
    return {MEAN: mean, **{element(place): one for place in range(settings.slots)}}
