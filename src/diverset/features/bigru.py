"""Words: trainable embeddings as local features, a bi-GRU over them for the global one."""

import torch
from torch import Tensor, nn

from diverset.errors import InputError, ShapeError, check_choice
from diverset.features.gru import Gru
from diverset.features.pooling import make_pool
from diverset.features.positions import sine_positions
from diverset.types import Features, Padded


class BiGruFeatures(nn.Module):
    """local = word embeddings; global = mean of the two directions' final hidden states.

    Args:
        dim: hidden units a direction, and width D of the global feature.
        vocabulary_size: number of words; id 0 is padding.
        word_width: width of a word embedding (GloVe 840B: 300).
        dropout: on the embeddings and on the global feature.
        positions: whether words carry 1-D sine positions.
        bidirectional: False reads forward only (VSE++).
        local: what the local features are, "words" (the paper) or the GRU's "states", mean of
            both directions (SCAN, VSE-infinity).
        pooling: the global feature is the "last" state, or a pool over the states by name.
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
    ) -> None:
        super().__init__()
        check_choice("local", local, ["words", "states"])
        self.width = word_width if local == "words" else dim
        self.local = local
        self.positions = positions
        self.embedding = nn.Embedding(vocabulary_size, word_width)
        self.gru = Gru(word_width, dim, batch_first=True, bidirectional=bidirectional)
        self.pool = None if pooling == "last" else make_pool(pooling)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: Padded) -> Features:
        ids, mask = words.values, words.mask
        if ids.ndim != 2 or ids.is_floating_point():
            raise ShapeError(f"words are {ids.dtype} {tuple(ids.shape)}; give ids (batch, words)")
        if not torch.compiler.is_compiling():  # a trace has no values to look at
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
                f"{self.embedding.num_embeddings} words; use the vocabulary the model was made with"
            )
        if (mask[:, 1:] & ~mask[:, :-1]).any():
            raise InputError("words are masked in the middle of a caption; pad on the right only")

    def _read(self, local: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """Mean of the directions' last states, and where they are wanted, of all states."""
        if torch.onnx.is_in_onnx_export():
            states, final = self.gru.traced(local, mask.sum(dim=1))
            return final.mean(dim=0), states.mean(dim=2)
        packed = nn.utils.rnn.pack_padded_sequence(
            local, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False
        )
        if self.pool is None and self.local == "words":
            return self.gru.final_states(packed).mean(dim=0), None
        found, final = self.gru(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            found, batch_first=True, total_length=mask.shape[1]
        )
        return final.mean(dim=0), states.view(*mask.shape, -1, self.gru.hidden_size).mean(dim=2)

    @torch.no_grad()
    def set_words(self, vectors: torch.Tensor) -> None:
        """Start from given word vectors, e.g. GloVe."""
        if vectors.shape != self.embedding.weight.shape:
            raise ShapeError(
                f"word vectors are {tuple(vectors.shape)}, the embedding is "
                f"{tuple(self.embedding.weight.shape)}; build both from one vocabulary"
            )
        self.embedding.weight.copy_(vectors)
