"""Appendix: the effect of each of the three changes to slot attention."""

from diverset.reproduce.claims import Claim
from diverset.reproduce.study import table_study
from diverset.reproduce.variants import Variant, both_sets

OURS = Variant("ours", {}, {"rsum": 430.7})
RANDOM = Variant("without learned slots", both_sets(initial="random"), {"rsum": 427.2})
GRU = Variant("without residual sum (GRU)", both_sets(update="gru"), {"rsum": 423.3})
LOCAL = Variant("without global feature", both_sets(add_global=False), {"rsum": 342.0})
NONE = Variant(
    "without all three (slot attention)",
    both_sets(initial="random", update="gru", add_global=False),
    {"rsum": 0.74},
)

STUDY = table_study(
    "slot-attention",
    "Changes to slot attention",
    "appendix: without learned slots, without residual sum, without global feature",
    "Appendix: ablation of the three changes to slot attention. The paper's numbers are for COCO "
    "5K with region features.",
    variants=(OURS, RANDOM, GRU, LOCAL, NONE),
    base=OURS.name,
    claims=(
        Claim("learned slots help", (OURS.name,), (RANDOM.name,)),
        Claim("the residual sum helps", (OURS.name,), (GRU.name,)),
        Claim("the global feature helps", (OURS.name,), (LOCAL.name,)),
        Claim("the global feature matters most", (RANDOM.name, GRU.name), (LOCAL.name,)),
        Claim("without all three it is worst", (OURS.name, RANDOM.name, GRU.name), (NONE.name,)),
    ),
)
