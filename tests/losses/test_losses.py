import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import load_fixture, random_sets

from diverset.errors import InputError, OptionError, ShapeError
from diverset.losses import (
    SoftContrastive,
    diversity,
    gram_diversity,
    mmd,
    triplet,
    variational_bottleneck,
)
from diverset.similarity import MatchProbability, chamfer, mil, smooth_chamfer
from diverset.types import Gaussian

NUMBERS = load_fixture("losses")
OWNERS = torch.arange(8).repeat_interleave(5)
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
    ranking = triplet(scores, OWNERS, 0.2, "mean" if "mean" in tag else "hardest")
    spread = diversity(images if on_elements else image_slots)
    spread = spread + diversity(texts if on_elements else text_slots)
    drift = mmd(images, texts)
    loss = ranking.total + 0.01 * drift + 0.01 * spread
    found = {
        "sim": scores,
        "i2t_loss": ranking.image_to_text,
        "t2i_loss": ranking.text_to_image,
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


def naive_triplet(scores, owners, margin, negatives):
    images, texts = scores.shape
    to_texts, to_images = [], []
    for text in range(texts):
        match = scores[owners[text], text]
        foreign = [t for t in range(texts) if owners[t] != owners[text]]
        others = [i for i in range(images) if i != owners[text]]
        rows = [max(0.0, float(margin + scores[owners[text], t] - match)) for t in foreign]
        columns = [max(0.0, float(margin + scores[i, text] - match)) for i in others]
        to_texts.append(max(rows) if negatives == "hardest" else rows)
        to_images.append(max(columns) if negatives == "hardest" else columns)
    if negatives == "mean":
        to_texts, to_images = sum(to_texts, []), sum(to_images, [])
    return sum(to_texts) / len(to_texts), sum(to_images) / len(to_images)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.integers(0, 999))
def test_triplet_with_any_number_of_captions(captions, seed):
    """Captions in any order, a different number for every image."""
    generator = torch.Generator().manual_seed(seed)
    owners = torch.arange(len(captions)).repeat_interleave(torch.tensor(captions))
    owners = owners[torch.randperm(len(owners), generator=generator)]
    scores = torch.rand(len(captions), len(owners), generator=generator, dtype=torch.float64)
    for negatives in ("hardest", "mean"):
        found = triplet(scores, owners, 0.3, negatives)
        expected = naive_triplet(scores, owners.tolist(), 0.3, negatives)
        assert [float(x) for x in found] == pytest.approx(expected)


def test_own_captions_are_never_negatives():
    """The other caption of an image scores higher than any foreign one, and does not matter."""
    scores = torch.tensor([[0.5, 0.9, -1.0, -1.0], [-1.0, -1.0, 0.5, 0.9]])
    assert triplet(scores, torch.tensor([0, 0, 1, 1])).total == 0


def test_mmd_is_its_formula():
    images, texts = random_sets(3, 2, 6, torch.float64), random_sets(4, 2, 6, torch.float64, 1)
    x, y = images.flatten(0, 1), texts.flatten(0, 1)

    def mean_kernel(a, b):
        return sum(math.exp(-0.5 * float((p - q).norm())) for p in a for q in b) / len(a) / len(b)

    expected = mean_kernel(x, x) + mean_kernel(y, y) - 2 * mean_kernel(x, y)
    assert mmd(images, texts).item() == pytest.approx(expected)


def test_mmd_in_blocks_has_the_gradient_of_its_formula(monkeypatch):
    monkeypatch.setattr("diverset.losses.regularizers.KERNEL_ROWS", 4)
    images = random_sets(3, 3, 6, torch.float64).requires_grad_()
    texts = random_sets(5, 2, 6, torch.float64, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: mmd(x, y), (images, texts))
    x, y = images.flatten(0, 1), texts.flatten(0, 1)
    kernel = (-0.5 * torch.cdist(torch.cat([x, y]), torch.cat([x, y]))).exp()
    plain = kernel[:9, :9].mean() + kernel[9:, 9:].mean() - 2 * kernel[:9, 9:].mean()
    torch.testing.assert_close(mmd(images, texts), plain)


def test_mmd_survives_collapsed_sets():
    images = random_sets(3, 1, 6).expand(3, 4, 6).clone().requires_grad_()
    mmd(images, images.detach().clone()).backward()
    assert images.grad.isfinite().all()


def test_diversity_is_largest_for_equal_slots():
    slots = random_sets(2, 4, 6)
    assert diversity(slots[:, :1].expand(2, 4, 6)).item() == pytest.approx(1)
    assert 0 < diversity(slots) < 1
    assert diversity(slots[:, :1]) == 0 and gram_diversity(slots[:, :1]) == 0
    scaled = slots * torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None]
    torch.testing.assert_close(diversity(scaled), diversity(slots))


def test_soft_contrastive_is_its_formula():
    images, texts = torch.randn(2, 3, 4).double(), torch.randn(3, 2, 4).double()
    owners = torch.tensor([0, 1, 1])
    loss = SoftContrastive(scale=2.0, shift=1.0)
    expected = 0.0
    for i in range(2):
        for j in range(3):
            chances = [
                1 / (1 + math.exp(2.0 * float((x - y).norm()) - 1.0))
                for x in images[i]
                for y in texts[j]
            ]
            match = sum(chances) / len(chances)
            expected -= math.log(match if owners[j] == i else 1 - match) / 6
    assert loss(images, texts, owners).item() == pytest.approx(expected)
    loss(images, texts, owners).backward()
    assert loss.scale.grad.abs() > 0 and loss.shift.grad.abs() > 0


def test_bottleneck_is_zero_for_the_unit_normal_only():
    unit = Gaussian(torch.zeros(2, 4), torch.zeros(2, 4), torch.zeros(2, 1, 4))
    assert variational_bottleneck(unit) == 0
    wide = Gaussian(torch.zeros(2, 4), torch.ones(2, 4), torch.zeros(2, 1, 4))
    assert variational_bottleneck(wide).item() == pytest.approx(4 * ((math.e**2 - 1) / 2 - 1))


def test_bad_inputs_are_named():
    scores = torch.rand(2, 3)
    with pytest.raises(ShapeError, match="owners for 3 captions"):
        triplet(scores, torch.tensor([0, 1]))
    with pytest.raises(InputError, match="0 to 2 for 2 images"):
        triplet(scores, torch.tensor([0, 1, 2]))
    with pytest.raises(InputError, match="no negatives"):
        triplet(scores[:1], torch.tensor([0, 0, 0]))
    with pytest.raises(OptionError, match="negatives is 'all'; choose one of: hardest, mean"):
        triplet(scores, torch.tensor([0, 1, 1]), negatives="all")
    with pytest.raises(OptionError, match="margin is -1"):
        triplet(scores, torch.tensor([0, 1, 1]), margin=-1)
    for owners in (torch.tensor([0.0, 1, 1]), torch.tensor([True, False, True]), [0, 1, 1]):
        with pytest.raises(InputError, match="give a tensor of whole numbers"):
            triplet(scores, owners)
    bytes_ = torch.tensor([0, 1, 1], dtype=torch.uint8)
    assert triplet(scores, bytes_) == triplet(scores, bytes_.long())
    for negatives in ("hardest", "mean"):
        with pytest.raises(InputError, match="no negatives"):
            triplet(scores, torch.tensor([0, 0, 0]), negatives=negatives)
    with pytest.raises(ShapeError, match="scores have shape"):
        triplet(scores[0], torch.tensor([0, 1, 1]))
    with pytest.raises(ShapeError, match=r"slots has shape \(4, 6\)"):
        diversity(torch.rand(4, 6))
    with pytest.raises(InputError, match="0 to 5 for 2 images"):
        SoftContrastive()(torch.rand(2, 2, 4), torch.rand(3, 2, 4), torch.tensor([0, 1, 5]))
    with pytest.raises(ShapeError, match="of one width"):
        SoftContrastive()(torch.rand(2, 2, 4), torch.rand(3, 2, 5), torch.tensor([0, 1, 1]))
    with pytest.raises(ShapeError, match="8 wide, texts 6"):
        mmd(random_sets(2, 2, 8), random_sets(2, 2, 6))
    with pytest.raises(ShapeError, match="owners for 3 captions"):
        SoftContrastive()(torch.rand(2, 2, 4), torch.rand(3, 2, 4), torch.tensor([0, 1]))


def test_regularizers_are_precise_under_autocast():
    images = random_sets(6, 4, 32)
    texts = torch.nn.functional.normalize(images + 1e-3 * torch.randn(6, 4, 32), dim=-1)
    exact = mmd(images.double(), texts.double()).item()
    with torch.autocast("cpu", torch.bfloat16):
        assert mmd(images, texts).item() == pytest.approx(exact, rel=0.05)
        assert diversity(images.bfloat16()).dtype == torch.float32
        assert gram_diversity(images.bfloat16()).dtype == torch.float32
