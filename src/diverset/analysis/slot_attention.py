"""Appendix: what the three changes to slot attention are worth."""

from diverset.analysis.rows import Row, both_sets
from diverset.analysis.study import row_study
from diverset.analysis.tables import RSUM, VARIANCES
from diverset.analysis.verdicts import Claim

OURS = Row("ours", {}, {"rsum": 430.7})
RANDOM = Row("without learned slots", both_sets(initial="random"), {"rsum": 427.2})
GRU = Row("without residual sum (GRU)", both_sets(update="gru"), {"rsum": 423.3})
LOCAL = Row("without global feature", both_sets(add_global=False), {"rsum": 342.0})
NONE = Row(
    "without all three (slot attention)",
    both_sets(initial="random", update="gru", add_global=False),
    {"rsum": 0.74},
)

STUDY = row_study(
    "slot-attention",
    "Changes to slot attention",
    "appendix: without learned slots, without residual sum, without global feature",
    "Appendix, ablation of the three changes to slot attention. The paper's figures are for COCO "
    "5K with region features.",
    rows=(OURS, RANDOM, GRU, LOCAL, NONE),
    base=OURS.name,
    claims=(
        Claim("learned slots help", (OURS.name,), (RANDOM.name,)),
        Claim("the residual sum helps", (OURS.name,), (GRU.name,)),
        Claim("the global feature helps", (OURS.name,), (LOCAL.name,)),
        Claim("the global feature matters most", (RANDOM.name, GRU.name), (LOCAL.name,)),
        Claim("without all three it is worst", (OURS.name, RANDOM.name, GRU.name), (NONE.name,)),
    ),
    columns=(RSUM, *VARIANCES),
)
