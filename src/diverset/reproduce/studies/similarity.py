"""Tab. 3, left, upper part: the same model under four set similarities."""

from diverset.reproduce.claims import Claim
from diverset.reproduce.study import table_study
from diverset.reproduce.variants import Variant

SMOOTH = Variant("smooth-Chamfer", {}, {"rsum": 500.8})
CHAMFER = Variant("Chamfer", {"model.similarity.kind": "chamfer"}, {"rsum": 499.6})
MIL = Variant("MIL", {"model.similarity.kind": "mil"}, {"rsum": 491.7})
MP = Variant("MP", {"model.similarity.kind": "match_probability"}, {"rsum": 490.5})

STUDY = table_study(
    "similarity",
    "Set similarities",
    "Tab. 3, left: MIL, MP, Chamfer, smooth-Chamfer under the paper's set module",
    "Tab. 3, left: only the similarity is replaced, in training and in evaluation. The paper's "
    "numbers are for Flickr30K with region features.",
    variants=(MIL, MP, CHAMFER, SMOOTH),
    base=SMOOTH.name,
    claims=(
        Claim("smooth-Chamfer beats Chamfer", (SMOOTH.name,), (CHAMFER.name,)),
        Claim("Chamfer beats MIL", (CHAMFER.name,), (MIL.name,)),
        Claim("Chamfer beats MP", (CHAMFER.name,), (MP.name,)),
        Claim("smooth-Chamfer beats MIL and MP", (SMOOTH.name,), (MIL.name, MP.name)),
    ),
)
