"""VSRN's captioning loss: the regions must also suffice to generate the caption.

A small encoder-decoder with attention, used in training only. Its targets follow the published
labels: start, words, end, then one padding token that has to be predicted too.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.errors import ShapeError
from diverset.types import Padded


class Captioner(nn.Module):
    """Generates a caption from local features by a GRU with attention, teacher forcing always.

    Args:
        dim: width of the local features.
        vocabulary_size: words that can be generated.
        hidden: width of both GRUs (published: 512).
        word_width: width of its own word embeddings.
        dropout: on the projected regions and on the decoder's input.
    """

    def __init__(
        self,
        dim: int,
        vocabulary_size: int,
        hidden: int = 512,
        word_width: int = 300,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.projection = nn.Linear(dim, hidden)
        self.encoder = nn.GRU(hidden, hidden, batch_first=True)
        self.embedding = nn.Embedding(vocabulary_size, word_width)
        self.attention = nn.Linear(2 * hidden, hidden)
        self.attention_weight = nn.Linear(hidden, 1, bias=False)
        self.decoder = nn.GRUCell(hidden + word_width, hidden)
        self.output = nn.Linear(hidden, vocabulary_size)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, regions: Padded, labels: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch steps vocabulary"]:
        """Log-probabilities of every next word, given the words before it; length - 2 steps."""
        regions = regions.real_first()
        packed = nn.utils.rnn.pack_padded_sequence(
            self.dropout(self.projection(regions.values)),
            regions.mask.sum(dim=1).cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        states, final = self.encoder(packed)
        encoded, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=regions.mask.shape[1]
        )
        state, padding = final[0], ~regions.mask[..., None]
        # The regions' part of the attention is the same in every step.
        of_regions, of_state = self.attention.weight.chunk(2, dim=1)
        keys = F.linear(encoded, of_regions, self.attention.bias)
        steps = []
        for step in range(labels.shape[1] - 2):
            queries = F.linear(state, of_state)[:, None]
            logits = self.attention_weight((keys + queries).tanh())
            weights = logits.masked_fill(padding, -torch.inf).softmax(dim=1)
            context = (weights * encoded).sum(dim=1)
            word = torch.cat([self.embedding(labels[:, step]), context], dim=1)
            state = self.decoder(self.dropout(word), state)
            steps.append(self.output(state).log_softmax(dim=1))
        return torch.stack(steps, dim=1)


def captioning(
    log_probabilities: Float[Tensor, "batch steps vocabulary"],
    labels: Int[Tensor, "batch length"],
    mask: Float[Tensor, "batch length"],
) -> Float[Tensor, ""]:
    """Negative log-likelihood of the labels, summed per caption, mean over captions."""
    steps = log_probabilities.shape[1]
    if labels.shape != mask.shape or labels.shape[1] <= steps:
        raise ShapeError(
            f"labels {tuple(labels.shape)} and mask {tuple(mask.shape)} for {steps} steps; give "
            "both as (captions, steps + 1 or more)"
        )
    label_log_probabilities = log_probabilities.gather(2, labels[:, 1 : steps + 1, None]).squeeze(2)
    return -(label_log_probabilities * mask[:, 1 : steps + 1]).sum() / len(labels)


def caption_labels(
    captions: list[list[int]], max_length: int, end: int
) -> tuple[Int[Tensor, "batch length"], Float[Tensor, "batch length"]]:
    """Labels and mask of captions given as ids from start to end, `max_length` + 1 wide.

    Longer captions are cut and end with `end`; the mask also covers the first padding after it.

    >>> caption_labels([[1, 7, 2]], max_length=4, end=2)
    (tensor([[1, 7, 2, 0, 0]]), tensor([[1., 1., 1., 1., 0.]]))
    """
    labels = torch.zeros(len(captions), max_length + 1, dtype=torch.int64)
    mask = torch.zeros(len(captions), max_length + 1)
    for row, caption in enumerate(captions):
        if len(caption) > max_length - 1:
            caption = [*caption[: max_length - 1], end]
        labels[row, : len(caption)] = torch.tensor(caption)
        mask[row, : len(caption) + 1] = 1
    return labels, mask
