"""VSRN's image features against numbers of the published models, and with padded regions."""

import pytest
import torch
from baseline_fixtures import TOLERANCES, Fixture
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from diverset.errors import OptionError, ShapeError
from diverset.features import GraphRegionFeatures
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
    varying = model(Padded(regions, fixture.region_mask(varying=True)))
    assert_equal(F.normalize(varying.pooled, dim=1), fixture[f"var/{variant}_eval/img_emb"])


@DTYPES
@VARIANTS
def test_published_values_in_training_mode(dtype: torch.dtype, variant: str):
    fixture = Fixture("vsrn", dtype)
    model = load_published(fixture, variant).train()
    features = model(Padded(fixture["in/regions"], fixture.region_mask()))
    assert_equal(features.local, fixture[f"out/{variant}_train/gcn"])
    assert_equal(F.normalize(features.pooled, dim=1), fixture[f"out/{variant}_train/img_emb"])
    for layer in range(4):
        for statistic in ("running_mean", "running_var"):
            expected = fixture[f"out/{variant}_train/after.Rs_GCN_{layer + 1}.W.1.{statistic}"]
            assert_equal(getattr(model.layers[layer].norm, statistic), expected)


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
