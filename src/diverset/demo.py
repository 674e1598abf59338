"""A worked example of the method, small enough to follow by eye.

Six made-up pictures of two things each, six captions of one thing each. A model is trained on
them for a few seconds, and then shows which element of a picture answers which caption.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diverset.config import ImageConfig, ModelConfig, SetConfig, SimilarityConfig, TextConfig
from diverset.data.vocabulary import Vocabulary
from diverset.losses import diversity, mmd, triplet
from diverset.model import Model
from diverset.types import Padded

THINGS = ("a dog", "a cat", "a red boat", "a tall tree", "two birds", "a snowy hill")
PICTURES = ((0, 2), (1, 3), (4, 5), (0, 3), (1, 5), (2, 4))
STEPS = 150


def run() -> None:
    """Train, score and explain; prints to standard output."""
    torch.manual_seed(0)
    vocabulary = Vocabulary.build(THINGS, min_count=1)
    small = SetConfig(size=2, iterations=3, inner_width=64)
    model = Model(
        ModelConfig(
            dim=32,
            image=ImageConfig(input_width=24),
            text=TextConfig(input_width=16),
            image_set=small,
            text_set=small,
            similarity=SimilarityConfig(alpha=16.0),
        ),
        vocabulary,
    )
    looks = torch.randn(len(THINGS), 24)  # what a detector would see of each thing
    print(f"{len(PICTURES)} pictures with two things each; training {STEPS} steps ...")
    _train(model, vocabulary, looks)

    pictures = [_regions(looks, things) for things in PICTURES]
    images, texts = model.encode_images(pictures), model.encode_texts(THINGS)
    print(f"image sets {tuple(images.shape)}, text sets {tuple(texts.shape)}: (items, K, D)\n")
    scores = model.similarity(images, texts)
    names = [" + ".join(THINGS[thing] for thing in things) for things in PICTURES]
    for place, thing in enumerate(THINGS):
        order = scores[:, place].argsort(descending=True)[:2].tolist()
        found = "; ".join(f"{names[i]} ({scores[i, place]:.2f})" for i in order)
        print(f"{thing:14} -> {found}")
    print("\nwhy: which element of 'a dog + a red boat' answers which words (cosine)")
    cosines = images[0] @ texts.transpose(1, 2)
    for place in PICTURES[0]:
        best = cosines[place].amax(dim=1)
        told = ", ".join(f"element {k + 1}: {value:.2f}" for k, value in enumerate(best.tolist()))
        print(f"{THINGS[place]:14} -> {told}")


def _regions(looks: Tensor, things: tuple[int, ...]) -> Tensor:
    """Three noisy regions a thing."""
    seen = looks[list(things)].repeat_interleave(3, dim=0)
    return seen + 0.3 * torch.randn_like(seen)


def _train(model: Model, vocabulary: Vocabulary, looks: Tensor) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    captions = [torch.tensor(vocabulary.encode(thing)) for thing in THINGS]
    model.train()
    for step in range(STEPS):
        # Three pictures a batch without a thing in common, so that no caption fits two of them.
        rows = (0, 1, 2) if step % 2 else (3, 4, 5)
        batch = [PICTURES[row] for row in rows]
        words = Padded.of([captions[thing] for things in batch for thing in things])
        images, texts = model(Padded.of([_regions(looks, things) for things in batch]), words)
        owners = torch.arange(len(batch)).repeat_interleave(2)
        negatives = "mean" if step < STEPS // 3 else "hardest"
        scores = model.score(images.elements, texts.elements)
        loss = triplet(scores, owners, margin=0.2, negatives=negatives).total
        loss = loss + 0.01 * mmd(images.elements, texts.elements)
        loss = loss + 0.01 * (diversity(images.slots) + diversity(texts.slots))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    model.eval()
