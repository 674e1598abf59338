"""Layout of a Qdrant collection, and the parameters of approximate search."""

from __future__ import annotations

from dataclasses import dataclass

from qdrant_client import models

from diverset.engines.qdrant_formula import MEAN
from diverset.engines.settings import element_names
from diverset.errors import check_choice, check_count
from diverset.index.set_store import IndexSettings

QUANTIZATIONS = ("none", "int8", "binary")


@dataclass(frozen=True)
class QdrantOptions:
    """All but `candidates` only apply when a collection is created; None is the server's choice."""

    candidates: int = 500
    """Points per shard scored by a search with `exact=False`: those whose mean is nearest."""
    shards: int | None = None
    """Shards of the collection over the nodes of a cluster."""
    replicas: int | None = None
    """Copies of each shard."""
    write_consistency: int | None = None
    """Replicas that must acknowledge a write."""
    on_disk: bool = False
    """Elements on disk instead of in memory; the mean stays in memory."""
    quantize: str = "none"
    """Quantized copy of the means in memory, originals on disk: a name in `QUANTIZATIONS`."""
    m: int | None = None
    """Neighbors per node of the HNSW graph."""
    ef_construction: int | None = None
    """Nodes visited to find the neighbors of a new one."""

    def __post_init__(self) -> None:
        check_choice("quantize", self.quantize, QUANTIZATIONS)
        for name, value in vars(self).items():
            if type(value) is int:
                check_count(name, value)


def vector_params(
    settings: IndexSettings, options: QdrantOptions
) -> dict[str, models.VectorParams]:
    """The named vectors of a collection.

    They use inner products: Qdrant's cosine would normalize stored vectors again, which changes
    scores.
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
        hnsw_config=models.HnswConfigDiff(m=options.m, ef_construct=options.ef_construction),
        quantization_config=quantization,
        on_disk=quantization is not None or None,
    )
    vector = models.VectorParams(
        size=settings.dim,
        distance=models.Distance.DOT,
        # No graph: prefetches would look up candidates in it, miss some pairs and score wrongly.
        hnsw_config=models.HnswConfigDiff(m=0),
        on_disk=options.on_disk or None,
    )
    return {MEAN: mean, **dict.fromkeys(element_names(settings), vector)}
