"""VSRN's captioning loss against numbers of the published model."""

import pytest
import torch
from baseline_fixtures import GRADIENT_TOLERANCE, TOLERANCES, Fixture

from diverset.errors import ShapeError
from diverset.losses import Captioner, caption_labels, captioning
from diverset.types import Padded


def load_published(fixture: Fixture) -> Captioner:
    captioner = Captioner(32, 20, hidden=16, word_width=10, dropout=0.0).to(fixture.dtype)
    names = {
        "projection": "encoder.vid2hid",
        "encoder": "encoder.rnn",
        "embedding": "decoder.embedding",
        "attention": "decoder.attention.linear1",
        "attention_weight": "decoder.attention.linear2",
        "decoder": "decoder.rnn",
        "output": "decoder.out",
    }
    state = {}
    for name in captioner.state_dict():
        module, _, parameter = name.rpartition(".")
        suffix = "_l0" if module == "decoder" else ""  # published as a GRU of one layer
        state[name] = fixture[f"w/caption_model.{names[module]}.{parameter}{suffix}"]
    captioner.load_state_dict(state)
    return captioner


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("variant", ["coco", "f30k"])
def test_published_loss_and_gradient(dtype: torch.dtype, variant: str):
    fixture = Fixture("vsrn", dtype)
    labels, tolerance = fixture["in/cap_labels"], TOLERANCES[dtype]
    local = fixture[f"out/{variant}_eval/gcn"].requires_grad_()
    predicted = load_published(fixture)(Padded.from_lengths(local, [local.shape[1]] * 5), labels)
    expected = fixture[f"out/{variant}_eval/cap_logp"]
    torch.testing.assert_close(predicted.detach(), expected, rtol=0, atol=tolerance)
    loss = captioning(predicted, labels, fixture["in/cap_masks"])
    expected = fixture[f"out/{variant}_eval/cap_loss"]
    torch.testing.assert_close(loss.detach(), expected, rtol=tolerance, atol=tolerance)
    (gradient,) = torch.autograd.grad(loss, local)
    expected = fixture[f"grad/{variant}_eval/gcn_from_cap"]
    torch.testing.assert_close(gradient, expected, rtol=0, atol=GRADIENT_TOLERANCE)


def test_labels_are_the_published_ones():
    fixture = Fixture("vsrn")
    lengths = fixture["in/lengths"].tolist()
    captions = [
        ids[:length].tolist() for ids, length in zip(fixture["in/ids"], lengths, strict=True)
    ][:5]
    labels, mask = caption_labels(captions, max_length=12, end=2)
    assert labels.tolist() == fixture["in/cap_labels"].tolist()
    assert mask.tolist() == fixture["in/cap_masks"].tolist()


def test_long_captions_are_cut_and_end_with_the_end_token():
    labels, mask = caption_labels([[1, 5, 6, 7, 8, 2]], max_length=4, end=2)
    assert labels.tolist() == [[1, 5, 6, 2, 0]]
    assert mask.tolist() == [[1, 1, 1, 1, 1]]


def test_labels_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match="3 steps"):
        captioning(torch.zeros(2, 3, 5), torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3))


def test_padding_and_dropped_regions_do_not_change_the_prediction():
    torch.manual_seed(0)
    captioner = Captioner(6, 9, hidden=8, word_width=4).double().eval()
    regions, labels = torch.randn(1, 5, 6).double(), torch.tensor([[1, 5, 6, 2, 0]])
    mask = torch.tensor([[True, False, True, True, False]])
    alone = captioner(Padded(regions[:, [0, 2, 3]], torch.ones(1, 3, dtype=torch.bool)), labels)
    torch.testing.assert_close(captioner(Padded(regions, mask), labels), alone)
