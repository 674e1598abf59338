"""VSRN's image features against numbers of the published models, and with padded regions."""

import pytest
import torch
from baseline_fixtures import GRADIENT_TOLERANCE, TOLERANCES, Fixture, gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from diverset.errors import OptionError, ShapeError
from diverset.features import GraphRegionFeatures
from diverset.losses import triplet
from diverset.types import Padded

DTYPES = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
VARIANTS = pytest.mark.parametrize("variant", ["coco", "f30k"])


def load_published(fixture: Fixture, variant: str) -> GraphRegionFeatures:
    model = GraphRegionFeatures(32, 24, variant).to(fixture.dtype)
    names = {"fc": "fc", "gru": "img_rnn", "norm": "bn"}
    for layer in range(4):
        parts = {"theta": "theta", "phi": "phi", "g": "g", "output": "W.0", "norm": "W.1"}
        for ours, theirs in parts.items():
            names[f"layers.{layer}.{ours}"] = f"Rs_GCN_{layer + 1}.{theirs}"
    state = {}
    for name, tensor in model.state_dict().items():
        module, _, parameter = name.rpartition(".")
        if parameter != "num_batches_tracked":
            value = fixture[f"w/img_enc.{names[module]}.{parameter}"]
            state[name] = value.reshape(tensor.shape)  # published as 1 x 1 convolutions
    model.load_state_dict(state, strict=False)
    return model


def assert_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual.detach(), expected, rtol=0, atol=TOLERANCES[actual.dtype])


@DTYPES
@VARIANTS
def test_published_values_in_evaluation_mode(dtype: torch.dtype, variant: str):
    fixture = Fixture("vsrn", dtype)
    model = load_published(fixture, variant).eval()
    regions = fixture["in/regions"]
    features = model(Padded(regions, fixture.region_mask()))
    assert_equal(features.local, fixture[f"out/{variant}_eval/gcn"])
    embeddings = F.normalize(features.pooled, dim=1)
    assert_equal(embeddings, fixture[f"out/{variant}_eval/img_emb"])
    assert_equal(embeddings @ fixture["out/txt_emb"].T, fixture[f"out/{variant}_eval/sims"])
    varying = F.normalize(model(Padded(regions, fixture.region_mask(varying=True))).pooled, dim=1)
    assert_equal(varying, fixture[f"var/{variant}_eval/img_emb"])
    assert_equal(varying @ fixture["out/txt_emb"].T, fixture[f"var/{variant}_eval/sims"])


@DTYPES
def test_published_values_of_one_graph_layer(dtype: torch.dtype):
    fixture = Fixture("vsrn", dtype)
    layer = load_published(fixture, "coco").eval().layers[0]
    output = layer(fixture["out/coco_eval/gcn"], fixture.region_mask())
    assert_equal(output, fixture["out/gcn1_of_coco_gcn"])


@VARIANTS
def test_published_losses_and_gradients(variant: str):
    fixture = Fixture("vsrn")
    images = fixture[f"out/{variant}_eval/img_emb"].requires_grad_()
    texts = fixture["out/txt_emb"][:5].requires_grad_()
    scores, order = images @ texts.T, torch.arange(5)
    loss = 5 * triplet(scores, order)  # the published losses are sums
    assert_equal(loss, fixture[f"out/{variant}_eval/loss_max"])
    every = 20 * triplet(scores, order, negatives="mean")
    assert_equal(every, fixture[f"out/{variant}_eval/loss_sum"])
    for gradient, side in zip(gradients(loss, images, texts), ("img", "txt"), strict=True):
        expected = fixture[f"grad/{variant}_eval/{side}_emb"]
        torch.testing.assert_close(gradient, expected, rtol=0, atol=GRADIENT_TOLERANCE)


@DTYPES
@VARIANTS
def test_published_values_in_training_mode(dtype: torch.dtype, variant: str):
    fixture = Fixture("vsrn", dtype)
    model = load_published(fixture, variant).train()
    features = model(Padded(fixture["in/regions"], fixture.region_mask()))
    assert_equal(features.local, fixture[f"out/{variant}_train/gcn"])
    embeddings = F.normalize(features.pooled, dim=1)
    assert_equal(embeddings, fixture[f"out/{variant}_train/img_emb"])
    assert_equal(embeddings @ fixture["out/txt_emb"].T, fixture[f"out/{variant}_train/sims"])
    norms = {f"Rs_GCN_{layer + 1}.W.1": model.layers[layer].norm for layer in range(4)}
    if model.norm is not None:
        norms["bn"] = model.norm
    for name, norm in norms.items():
        for statistic in ("running_mean", "running_var"):
            expected = fixture[f"out/{variant}_train/after.{name}.{statistic}"]
            assert_equal(getattr(norm, statistic), expected)


@VARIANTS
@pytest.mark.parametrize("corrected", [False, True])
@settings(max_examples=10, deadline=None)
@given(counts=st.lists(st.integers(1, 6), min_size=2, max_size=4), seed=st.integers(0, 1000))
def test_padding_does_not_change_features(variant: str, corrected: bool, counts, seed: int):
    torch.manual_seed(seed)
    model = GraphRegionFeatures(8, 5, variant, corrected).double().eval()
    for layer in model.layers:
        torch.nn.init.normal_(layer.norm.weight)
    regions = [torch.randn(count, 5, dtype=torch.float64) for count in counts]
    together = model(Padded.of(regions)).pooled
    for row, alone in zip(together, regions, strict=True):
        torch.testing.assert_close(row, model(Padded.of([alone])).pooled[0], rtol=0, atol=1e-12)


def test_layers_start_as_the_identity():
    torch.manual_seed(0)
    model = GraphRegionFeatures(8, 5, corrected=True)
    regions = Padded.of([torch.randn(4, 5)])
    projected = F.normalize(model.fc(regions.values), dim=2)
    torch.testing.assert_close(model(regions).local, projected)


def test_bad_input_is_named():
    with pytest.raises(OptionError, match="variant is 'vg'"):
        GraphRegionFeatures(8, 5, "vg")
    with pytest.raises(ShapeError, match=r"\(batch, regions, 5\)"):
        GraphRegionFeatures(8, 5)(Padded.of([torch.randn(3, 4)]))
