"""How similar two embedding sets are (Sec. 3.3): one formula per file.

Every similarity takes image sets (B, K, D) and text sets (C, K', D) with l2-normalised elements
and returns (B, C) scores, larger is better, differentiable, in float32 or better.
`similarity_matrix` and `similarity_blocks` score whole collections in bounded memory.
"""

from diverset.similarity.blocks import (
    MAX_MEMORY,
    SIMILARITIES,
    Similarity,
    block_shape,
    similarity_blocks,
    similarity_matrix,
)
from diverset.similarity.chamfer import chamfer
from diverset.similarity.checks import (
    UNIT_TOLERANCE,
    ImageIndex,
    check_image_index,
    check_same_width,
    check_scores,
    check_set_shape,
    check_sets,
    check_unit_length,
)
from diverset.similarity.match_probability import MatchProbability
from diverset.similarity.mil import mil
from diverset.similarity.smooth_chamfer import (
    fast_smooth_chamfer,
    log_sum_exp_smooth_chamfer,
    smooth_chamfer,
    smooth_chamfer_gradient,
)

__all__ = [
    "MAX_MEMORY",
    "SIMILARITIES",
    "UNIT_TOLERANCE",
    "ImageIndex",
    "MatchProbability",
    "Similarity",
    "block_shape",
    "chamfer",
    "check_image_index",
    "check_same_width",
    "check_scores",
    "check_set_shape",
    "check_sets",
    "check_unit_length",
    "fast_smooth_chamfer",
    "log_sum_exp_smooth_chamfer",
    "mil",
    "similarity_blocks",
    "similarity_matrix",
    "smooth_chamfer",
    "smooth_chamfer_gradient",
]
