"""Related texts against a naive loop over all pairs."""

import numpy as np
import torch

from diverset.data import CaptionDataset
from diverset.training.related_texts import RelatedTexts, content_words, image_words

CAPTIONS = (
    "Two men play football on the grass",
    "a player with a red ball",
    "a red dog on the grass",
    "dogs",
    "a woman and a dog at the beach",
)
DATASET = CaptionDataset(
    "x", ("0", "1", "2"), CAPTIONS, np.array([0, 0, 1, 1, 2]), labels=((), ("ball",), ())
)
TEXTS = (*CAPTIONS, "a person", "ball", "red", "of the", "a unicorn", "persons and balls")


def naive(images, texts) -> list[list[bool]]:
    """All content words of a text are among the words of the image."""
    rows = []
    for image in images:
        words = set()
        for text in (*DATASET.captions_of(image), *DATASET.labels[image]):
            words |= image_words(text)
        content = [content_words(TEXTS[text]) for text in texts]
        rows.append([bool(some) and some <= words for some in content])
    return rows


def test_related_texts_equal_a_loop_over_all_pairs():
    related = RelatedTexts(DATASET, TEXTS)
    images, texts = [2, 0, 1], list(reversed(range(len(TEXTS))))
    batch = related.of_batch(torch.tensor(images), torch.tensor(texts))
    assert batch.tolist() == naive(images, texts)


def test_own_captions_are_related_and_empty_texts_are_not():
    related = RelatedTexts(DATASET, TEXTS).of_batch(torch.arange(3), torch.arange(len(TEXTS)))
    assert related[torch.from_numpy(DATASET.image_index.copy()), torch.arange(5)].all()
    assert not related[:, TEXTS.index("of the")].any()
    assert not related[:, TEXTS.index("a unicorn")].any()
    assert related[:, TEXTS.index("a person")].tolist() == [True, False, True]
