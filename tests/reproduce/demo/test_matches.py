import pytest
import torch
from torch.nn import functional as F

from diverset import Model
from diverset.config import ModelConfig, from_dict
from diverset.data import Vocabulary
from diverset.reproduce.demo.matches import (
    match_captions,
    points_into,
    slot_shares,
    word_weights,
)

CONFIG = {
    "dim": 8,
    "image": {"kind": "convolution", "input_width": 4},
    "text": {"kind": "bigru", "input_width": 8},
    "image_set": {"inner_width": 8},
    "text_set": {"inner_width": 8},
}
CAPTION = "a red cat sleeps"


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(from_dict(ModelConfig, CONFIG), Vocabulary.build([CAPTION, "a blue dog"], 1))


def test_the_slot_closest_to_the_text_has_the_largest_share():
    image_set = torch.eye(4)
    shares = slot_shares(image_set, image_set[2:3].expand(4, -1), alpha=16.0)
    assert shares.sum() == pytest.approx(1.0) and shares.argmax() == 2


def test_a_words_weight_is_what_its_removal_costs(model):
    element = model.encode_texts([CAPTION])[0, 1]
    whole, *shorter = (
        (model.encode_texts([text])[0] @ element).max().item()
        for text in (CAPTION, "red cat sleeps", "a cat sleeps", "a red sleeps", "a red cat")
    )
    falls = [max(0.0, whole - without) for without in shorter]
    expected = [fall / max(falls) for fall in falls]
    assert word_weights(model, CAPTION, element) == pytest.approx(expected, abs=1e-4)


def test_a_caption_is_matched_by_its_best_slot(model):
    texts = model.encode_texts([CAPTION, "a blue dog"])
    image_set = F.normalize(torch.randn(4, 8), dim=-1)
    image_set[3] = texts[1, 0]
    image_set[1] = texts[0, 0]
    matches = match_captions(model, image_set, [CAPTION, "a blue dog"], texts)
    for match, text_set in zip(matches, texts, strict=True):
        shares = slot_shares(image_set, text_set, model.config.similarity.alpha)
        assert match.slot == shares.argmax() and match.share == pytest.approx(shares.max())
        assert len(match.weights) == len(match.caption.split())


def test_a_slot_points_into_a_box_by_its_largest_attention():
    slot_map = torch.zeros(8, 8)
    slot_map[5, 2] = 1.0  # centre at x = 0.3125, y = 0.6875
    assert points_into(slot_map, (0.3, 0.6, 0.4, 0.7))
    assert not points_into(slot_map, (0.6, 0.3, 0.7, 0.4))
