"""FLOPs of scoring one pair in closed form, two for a multiplication and addition.

Only matrix products count, as in torch's counter. Encoding is not included; everything after it
is, also what could be stored with an image or a text.
"""

from __future__ import annotations

from diverset.config import SimilarityConfig
from diverset.errors import OptionError


def set_flops(size: int, other_size: int, dim: int) -> int:
    """All cosines between two sets; one vector is a set of one.

    >>> set_flops(4, 4, 1024)
    32768
    """
    return 2 * size * other_size * dim


def cross_attention_flops(config: SimilarityConfig, regions: int, words: int, dim: int) -> int:
    """A pair of `regions` and `words` under a cross-attention similarity."""
    match config.kind:
        case "scan" if config.direction == "i2t":
            products = _attention(regions, words, dim)
        case "scan":
            products = _attention(words, regions, dim)
        case "naaf":  # and the attention among words
            products = _attention(words, regions, dim) + words**2 * (dim + 1)
        case "imram":
            directions = {"text": (words, regions), "image": (regions, words)}
            modes = directions if config.mode == "full" else (config.mode,)
            products = sum(_imram(*directions[mode], dim, config.steps) for mode in modes)
        case "sgr" | "saf":
            width = config.inner_width or 256
            products = _comparisons(regions, words, dim, width) + width  # and the score
            nodes = words + 1
            products += _graph(nodes, width) if config.kind == "sgr" else nodes * width
        case "caan":
            products = _caan(regions, words, dim, config.inner_width or 128)
        case _:
            raise OptionError(f"similarity.kind is {config.kind}, which has no cross-attention")
    return 2 * products


def _attention(queries: int, inputs: int, dim: int) -> int:
    """Cosines, the Gram matrix of the attended inputs, and the lengths computed from it."""
    return queries * inputs * dim + inputs**2 * dim + queries * inputs**2


def _imram(queries: int, inputs: int, dim: int, steps: int) -> int:
    """Both parts of the memory once; cosines, lengths and an update per step, without the last."""
    once = inputs**2 * dim + 2 * (queries + inputs) * dim**2
    matching = steps * (queries * inputs * dim + queries * inputs**2)
    updates = 2 * queries * ((steps - 1) * inputs * dim + max(steps - 2, 0) * dim**2)
    return once + matching + updates


def _comparisons(regions: int, words: int, dim: int, width: int) -> int:
    """The vector of either side, attended vectors, and a comparison per word and of the whole."""
    vectors = sum((inputs + 1) * dim**2 + 2 * inputs * dim for inputs in (regions, words))
    attended = _attention(words, regions, dim) + words * regions * dim
    return vectors + attended + (words + 1) * dim * width


def _graph(nodes: int, width: int, rounds: int = 3) -> int:
    """Queries, keys and messages of every node, in the last round of one."""

    def one_round(receivers: int) -> int:
        return 3 * receivers * width**2 + 2 * receivers * nodes * width

    return (rounds - 1) * one_round(nodes) + one_round(1)


def _caan(regions: int, words: int, dim: int, width: int) -> int:
    projections = words * dim**2 + 2 * (regions + words) * dim * width
    relations = regions * words * dim + words**2 * regions
    hidden = 4 * regions * words * width + words**2 * width + (regions + words) * width
    return projections + relations + hidden + (regions + words) * dim
