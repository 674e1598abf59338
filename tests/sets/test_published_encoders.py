"""Local features of IMRAM, SGRAF, NAAF and CAAN, and VSRN's texts, as the published encoders."""

import pytest
import torch
from baseline_fixtures import TOLERANCES, Fixture
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.features import BiGruFeatures, RegionFeatures
from diverset.sets import LocalSets
from diverset.types import Padded

DTYPES = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
PREFIXES = {
    "imram": ("img_enc.fc_local", "txt_enc.embed", "txt_enc.rnn", ""),
    "sgraf": ("img_enc.fc", "txt_enc.embed", "txt_enc.cap_rnn", ""),
    "naaf": ("img_enc.fc", "txt_enc.embed", "txt_enc.rnn", ""),
    "caan": ("fc", "embed", "rnn", "l2/"),
}
"""Published names of the projection of regions, the embedding and the GRU; folder of the result."""


def load_part(fixture: Fixture, module: nn.Module, prefix: str) -> None:
    module.load_state_dict({name: fixture[f"w/{prefix}.{name}"] for name in module.state_dict()})


def read_texts(fixture: Fixture, embedding: str, gru: str, **options) -> tuple[Tensor, Tensor]:
    """Local sets and last states of the captions."""
    model = BiGruFeatures(32, 20, 12, dropout=0.0, positions=False, local="states", **options)
    model = model.to(fixture.dtype)
    load_part(fixture, model.embedding, embedding)
    load_part(fixture, model.gru, gru)
    features = model(Padded(fixture["in/ids"].long(), fixture.word_mask()))
    return LocalSets(32, 32)(features).elements.detach(), features.pooled.detach()


def assert_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual.detach(), expected, rtol=0, atol=TOLERANCES[actual.dtype])


@DTYPES
@pytest.mark.parametrize("system", PREFIXES)
def test_local_features_equal_those_of_the_published_encoders(dtype: torch.dtype, system: str):
    fixture = Fixture(system, dtype)
    projection, embedding, gru, folder = PREFIXES[system]
    images = RegionFeatures(32, 24, dropout=0.0, mlp_reads="nothing").to(dtype)
    load_part(fixture, images.fc, projection)
    regions = LocalSets(32, 32)(images(Padded(fixture["in/regions"], fixture.region_mask())))
    assert_equal(regions.elements, fixture[f"out/{folder}img_local"])
    words, _ = read_texts(fixture, embedding, gru)
    mask = fixture.word_mask()
    assert_equal(words[mask], fixture[f"out/{folder}cap_local"][mask])


@DTYPES
def test_text_embeddings_equal_those_of_the_published_vsrn(dtype: torch.dtype):
    fixture = Fixture("vsrn", dtype)
    _, last = read_texts(fixture, "txt_enc.embed", "txt_enc.rnn", bidirectional=False)
    assert_equal(F.normalize(last, dim=1), fixture["out/txt_emb"])
