"""Tab. 3: the set module replaced under smooth-Chamfer."""

from diverset.reproduce.claims import Claim
from diverset.reproduce.study import table_study
from diverset.reproduce.variants import Variant, both_sets

SLOTS = Variant("slots", {}, {"rsum": 500.8})
TRANSFORMER = Variant("transformer", both_sets(kind="transformer"), {"rsum": 496.1})
PIE_NET = Variant("PIE-Net", both_sets(kind="pie_net"), {"rsum": 483.3})

STUDY = table_study(
    "architecture",
    "Set prediction modules",
    "Tab. 3: slots, transformer, PIE-Net under smooth-Chamfer",
    "Tab. 3: the set module is replaced on both sides; K, similarity and losses are unchanged. The "
    "paper's numbers are for Flickr30K with region features.",
    variants=(PIE_NET, TRANSFORMER, SLOTS),
    base=SLOTS.name,
    claims=(
        Claim("slots beat a transformer", (SLOTS.name,), (TRANSFORMER.name,)),
        Claim("slots beat PIE-Net", (SLOTS.name,), (PIE_NET.name,)),
        Claim("a transformer beats PIE-Net", (TRANSFORMER.name,), (PIE_NET.name,)),
    ),
)
