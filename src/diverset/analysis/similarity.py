"""Tab. 3, left, upper part: the same model under four set similarities."""

from diverset.analysis.rows import Row
from diverset.analysis.study import row_study
from diverset.analysis.tables import RSUM, VARIANCES
from diverset.analysis.verdicts import Claim

SMOOTH = Row("smooth-Chamfer", {}, {"rsum": 500.8})
CHAMFER = Row("Chamfer", {"model.similarity.kind": "chamfer"}, {"rsum": 499.6})
MIL = Row("MIL", {"model.similarity.kind": "mil"}, {"rsum": 491.7})
MP = Row("MP", {"model.similarity.kind": "match_probability"}, {"rsum": 490.5})

STUDY = row_study(
    "similarity",
    "Set similarities",
    "Tab. 3, left: MIL, MP, Chamfer, smooth-Chamfer under the paper's set module",
    "Tab. 3, left: the similarity is replaced, in training and in evaluation, and nothing else. "
    "The paper's figures are for Flickr30K with region features.",
    rows=(MIL, MP, CHAMFER, SMOOTH),
    base=SMOOTH.name,
    claims=(
        Claim("smooth-Chamfer beats Chamfer", (SMOOTH.name,), (CHAMFER.name,)),
        Claim("Chamfer beats MIL", (CHAMFER.name,), (MIL.name,)),
        Claim("Chamfer beats MP", (CHAMFER.name,), (MP.name,)),
        Claim("smooth-Chamfer beats MIL and MP", (SMOOTH.name,), (MIL.name, MP.name)),
    ),
    columns=(RSUM, *VARIANCES),
)
