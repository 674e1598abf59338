import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diverset.errors import InputError, OptionError, ShapeError
from diverset.losses.triplet import triplet, triplet_directions


def naive_triplet(scores, image_index, margin, negatives):
    images, texts = scores.shape
    to_texts, to_images = [], []
    for text in range(texts):
        match = scores[image_index[text], text]
        foreign = [t for t in range(texts) if image_index[t] != image_index[text]]
        others = [i for i in range(images) if i != image_index[text]]
        rows = [max(0.0, float(margin + scores[image_index[text], t] - match)) for t in foreign]
        columns = [max(0.0, float(margin + scores[i, text] - match)) for i in others]
        to_texts.append(max(rows) if negatives == "hardest" else rows)
        to_images.append(max(columns) if negatives == "hardest" else columns)
    if negatives == "mean":
        to_texts, to_images = sum(to_texts, []), sum(to_images, [])
    return sum(to_texts) / len(to_texts), sum(to_images) / len(to_images)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.integers(0, 999))
def test_triplet_is_its_formula_for_any_number_of_captions(captions, seed):
    """Captions in any order, a different number for every image."""
    generator = torch.Generator().manual_seed(seed)
    image_index = torch.arange(len(captions)).repeat_interleave(torch.tensor(captions))
    image_index = image_index[torch.randperm(len(image_index), generator=generator)]
    scores = torch.rand(len(captions), len(image_index), generator=generator, dtype=torch.float64)
    for negatives in ("hardest", "mean"):
        found = triplet_directions(scores, image_index, 0.3, negatives, None)
        expected = naive_triplet(scores, image_index.tolist(), 0.3, negatives)
        assert [float(loss) for loss in found] == pytest.approx(expected)
        assert float(triplet(scores, image_index, 0.3, negatives)) == pytest.approx(sum(expected))


def test_own_captions_are_never_negatives():
    """The other caption of an image scores higher than any foreign one, and does not matter."""
    scores = torch.tensor([[0.5, 0.9, -1.0, -1.0], [-1.0, -1.0, 0.5, 0.9]])
    assert triplet(scores, torch.tensor([0, 0, 1, 1])) == 0


SCORES = torch.rand(2, 3)


@pytest.mark.parametrize(
    ("scores", "image_index", "options", "error", "message"),
    [
        (SCORES, [0, 1], {}, ShapeError, "for 3 texts"),
        (SCORES, [0, 1, 2], {}, InputError, "text 2 belongs to image 2, but there are 2 images"),
        (SCORES, [0.0, 1.0, 1.0], {}, InputError, "give integers, the image row of every text"),
        (SCORES, [True, False, True], {}, InputError, "give integers"),
        (SCORES[:1], [0, 0, 0], {}, InputError, "no negatives"),
        (SCORES, [0, 0, 0], {}, InputError, "no negatives"),
        (SCORES, [0, 0, 0], {"negatives": "mean"}, InputError, "no negatives"),
        (SCORES, [0, 1, 1], {"negatives": "all"}, OptionError, "choose one of: hardest, mean"),
        (SCORES, [0, 1, 1], {"margin": -1}, OptionError, "margin is -1"),
        (SCORES[0], [0, 1, 1], {}, ShapeError, "scores have shape"),
    ],
)
def test_invalid_inputs_are_rejected_by_name(scores, image_index, options, error, message):
    with pytest.raises(error, match=message):
        triplet(scores, torch.tensor(image_index), **options)
