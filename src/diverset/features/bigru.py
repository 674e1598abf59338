"""Textual features of Sec. 3.1: word embeddings are local, a bi-GRU over them is global."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diverset.config import LOCALS, MERGES
from diverset.errors import InputError, OptionError, ShapeError, check_choice
from diverset.features.gru import Gru, pack, read_padded
from diverset.features.pooling import make_pool
from diverset.features.positions import sine_positions
from diverset.types import Features, Padded, can_inspect


class BiGruFeatures(nn.Module):
    """local = word embeddings; global = mean of the two directions' final hidden states.

    Args:
        dim: width D of the global feature.
        vocabulary_size: number of words; id 0 is padding.
        word_width: width of a word embedding (GloVe 840B: 300).
        dropout: on the embeddings and on the global feature.
        positions: whether to return 1-D sine position codes.
        bidirectional: False reads forward only (VSE++).
        local: the local features, "words" (the paper) or "states" of the GRU, mean of both
            directions (SCAN, VSE-infinity).
        pooling: the global feature is the "last" state, or a pool over the states by name.
        merge: both directions by "mean", with D hidden units each, or "concatenate", with D / 2
            (PVSE).
        word_range: initial embeddings are uniform within ± this number; None: normal.
    """

    def __init__(
        self,
        dim: int,
        vocabulary_size: int,
        word_width: int = 300,
        dropout: float = 0.1,
        positions: bool = True,
        bidirectional: bool = True,
        local: str = "words",
        pooling: str = "last",
        word_range: float | None = None,
        merge: str = "mean",
    ) -> None:
        super().__init__()
        check_choice("local", local, LOCALS)
        check_choice("merge", merge, MERGES)
        self.width = word_width if local == "words" else dim
        self.local = local
        self.positions = positions
        self.embedding = nn.Embedding(vocabulary_size, word_width)
        if word_range is not None:
            nn.init.uniform_(self.embedding.weight, -word_range, word_range)
        self.merge = merge
        parts = 2 if merge == "concatenate" and bidirectional else 1
        if dim % parts:
            raise OptionError(f"dim is {dim}; two concatenated directions need an even one")
        self.gru = Gru(word_width, dim // parts, batch_first=True, bidirectional=bidirectional)
        self.pool = None if pooling == "last" else make_pool(pooling)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: Padded) -> Features:
        ids, mask = words.values, words.mask
        if ids.ndim != 2 or ids.is_floating_point():
            raise ShapeError(f"words are {ids.dtype} {tuple(ids.shape)}; give ids (batch, words)")
        if can_inspect(ids):
            self._check(ids, mask)
        local = self.dropout(self.embedding(ids))
        final, states = self._read(local, mask)
        pooled = final if self.pool is None else self.pool(states, mask)
        if self.local == "states" and states is not None:
            local = states
        codes = sine_positions(mask, self.width).to(local.dtype) if self.positions else None
        return Features(local, mask, self.dropout(pooled), codes)

    def _check(self, ids: Tensor, mask: Tensor) -> None:
        if int(ids.max()) >= self.embedding.num_embeddings or int(ids.min()) < 0:
            raise InputError(
                f"word ids run from {int(ids.min())} to {int(ids.max())}, but the vocabulary has "
                f"{self.embedding.num_embeddings} words; use the vocabulary of its training"
            )
        if (mask[:, 1:] & ~mask[:, :-1]).any():
            raise InputError("words are masked in the middle of a caption; pad on the right only")

    def _read(self, local: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """The last states of both directions merged, and all states if they are used."""
        if torch.onnx.is_in_onnx_export():
            states, final = self.gru.traced(local, mask.sum(dim=1))
            return self._merged(final.transpose(0, 1)), self._merged(states)
        if self.pool is None and self.local == "words":
            return self._merged(self.gru.final_states(pack(local, mask)).transpose(0, 1)), None
        states, final = read_padded(self.gru, local, mask)
        states = states.view(*mask.shape, -1, self.gru.hidden_size)
        return self._merged(final.transpose(0, 1)), self._merged(states)

    def _merged(self, states: Float[Tensor, "*any directions hidden"]) -> Float[Tensor, "*any dim"]:
        return states.flatten(-2) if self.merge == "concatenate" else states.mean(dim=-2)

    @torch.no_grad()
    def set_words(self, vectors: Tensor) -> None:
        """Initialise the word embeddings, e.g. from GloVe."""
        if vectors.shape != self.embedding.weight.shape:
            raise ShapeError(
                f"word vectors are {tuple(vectors.shape)}, the embedding is "
                f"{tuple(self.embedding.weight.shape)}; build both from one vocabulary"
            )
        self.embedding.weight.copy_(vectors)
