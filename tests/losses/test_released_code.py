"""The losses of Sec. 3.4 against numbers of the released code."""

import pytest
import torch
from support import load_fixture

from diverset.losses import diversity, gram_diversity, mmd, triplet
from diverset.losses.triplet import triplet_directions
from diverset.similarity import MatchProbability, chamfer, mil, smooth_chamfer

NUMBERS = load_fixture("losses")
IMAGE_INDEX = torch.arange(8).repeat_interleave(5)
SIMILARITIES = {
    "sc": smooth_chamfer,
    "chamfer": chamfer,
    "mil": mil,
    "mp": MatchProbability(1, 0),
}


@pytest.mark.parametrize(
    ("tag", "precision"),
    [
        ("sc_maxviol", "f32"),
        ("sc_maxviol", "f64"),
        ("sc_mean", "f64"),
        ("sc_maxviol_unif_on_emb", "f64"),
        ("chamfer_maxviol", "f64"),
        ("mil_maxviol", "f64"),
        ("mp_maxviol", "f64"),
    ],
)
def test_losses_and_gradients_equal_the_released_code(tag, precision):
    dtype, tolerance = (torch.float32, 5e-6) if precision == "f32" else (torch.float64, 1e-9)
    images, texts, image_slots, text_slots = (
        NUMBERS[name].to(dtype).detach().requires_grad_()
        for name in ("img", "txt", "img_r", "txt_r")
    )
    on_elements = tag.endswith("unif_on_emb")
    scores = SIMILARITIES[tag.split("_")[0]](images, texts)
    negatives = "mean" if "mean" in tag else "hardest"
    image_to_text, text_to_image = triplet_directions(scores, IMAGE_INDEX, 0.2, negatives, None)
    spread = diversity(images if on_elements else image_slots)
    spread = spread + diversity(texts if on_elements else text_slots)
    drift = mmd(images, texts)
    loss = triplet(scores, IMAGE_INDEX, 0.2, negatives) + 0.01 * drift + 0.01 * spread
    found = {
        "sim": scores,
        "i2t_loss": image_to_text,
        "t2i_loss": text_to_image,
        "mmd_loss": drift,
        "unif_loss": spread,
        "loss": loss,
    }
    loss.backward()
    if not on_elements:
        # On elements the released code leaves out the normalisation, which changes nothing but
        # the gradient along the element itself.
        found |= {"grad_img": images.grad, "grad_txt": texts.grad}
        found |= {"grad_img_r": image_slots.grad, "grad_txt_r": text_slots.grad}
    for name, value in found.items():
        expected = NUMBERS[f"{tag}.{precision}.{name}"]
        torch.testing.assert_close(value, expected, atol=tolerance, rtol=0, msg=name)


def test_gram_diversity_equals_pvse():
    for side in ("img", "txt"):
        found = gram_diversity(NUMBERS[f"{side}_r"].double())
        expected = NUMBERS[f"pvse_div_{side}.f64"]
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)
