"""One module per table or figure; each defines `STUDY`."""

from diverset.reproduce.studies import (
    ambiguity,
    architecture,
    attention,
    comparison,
    cost,
    elements,
    hyperparameters,
    noisy_correspondence,
    similarity,
    slot_attention,
    tsne,
    variance,
)
from diverset.reproduce.study import Study

__all__ = ["STUDIES"]

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (
        comparison,
        similarity,
        architecture,
        variance,
        hyperparameters,
        elements,
        slot_attention,
        noisy_correspondence,
        cost,
        attention,
        tsne,
        ambiguity,
    )
}
"""All studies by name."""
