"""Tab. 3: the set module replaced under smooth-Chamfer."""

from diverset.analysis.rows import Row, both_sets
from diverset.analysis.study import row_study
from diverset.analysis.tables import RSUM, VARIANCES
from diverset.analysis.verdicts import Claim

SLOTS = Row("slots", {}, {"rsum": 500.8})
TRANSFORMER = Row("transformer", both_sets(kind="transformer"), {"rsum": 496.1})
PIE_NET = Row("PIE-Net", both_sets(kind="pie_net"), {"rsum": 483.3})

STUDY = row_study(
    "architecture",
    "Set prediction modules",
    "Tab. 3: slots, transformer, PIE-Net under smooth-Chamfer",
    "Tab. 3: the set module is replaced on both sides; K, similarity and losses stay. The paper's "
    "figures are for Flickr30K with region features.",
    rows=(PIE_NET, TRANSFORMER, SLOTS),
    base=SLOTS.name,
    claims=(
        Claim("slots beat a transformer", (SLOTS.name,), (TRANSFORMER.name,)),
        Claim("slots beat PIE-Net", (SLOTS.name,), (PIE_NET.name,)),
        Claim("a transformer beats PIE-Net", (TRANSFORMER.name,), (PIE_NET.name,)),
    ),
    columns=(RSUM, *VARIANCES),
)
