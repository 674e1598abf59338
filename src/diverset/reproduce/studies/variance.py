"""Tab. 3, right: which sets collapse. Circular variance of the sets, and RSUM."""

from dataclasses import replace

from diverset.reproduce.claims import Claim
from diverset.reproduce.studies.architecture import PIE_NET, SLOTS, TRANSFORMER
from diverset.reproduce.studies.similarity import MP
from diverset.reproduce.study import table_study
from diverset.reproduce.tables import RSUM, VARIANCES

OURS, WITH_MP = "ours", "ours with MP"
SIDES = {"images": "image_log_variance", "texts": "text_log_variance"}

STUDY = table_study(
    "variance",
    "Set collapsing",
    "Tab. 3, right: log circular variance and RSUM of PIE-Net, MP, transformer, ours",
    "Tab. 3, right: mean over the split of the natural logarithm of a set's circular variance, "
    "1 - ||mean of its elements||. The paper gives one number for both sides, shown here with "
    "images. The paper's numbers are for Flickr30K with region features.",
    variants=(
        replace(PIE_NET, paper={"rsum": 483.3, "image_log_variance": -7.35}),
        replace(MP, name=WITH_MP, paper={"rsum": 490.5, "image_log_variance": -5.27}),
        replace(TRANSFORMER, paper={"rsum": 496.1, "image_log_variance": -2.27}),
        replace(SLOTS, name=OURS, paper={"rsum": 500.8, "image_log_variance": -2.13}),
    ),
    base=OURS,
    claims=tuple(
        Claim(f"{text} ({side})", (OURS,), (other,), metric)
        for text, other in (
            ("PIE-Net collapses: less variance than ours", PIE_NET.name),
            ("MP collapses: less variance than smooth-Chamfer", WITH_MP),
            ("a transformer has less variance than slots", TRANSFORMER.name),
        )
        for side, metric in SIDES.items()
    ),
    columns=(*VARIANCES, RSUM),
)
