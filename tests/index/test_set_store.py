"""Settings of an index."""

import numpy as np
import pytest
from index.index_support import make_index

from diverset import Model, ModelConfig, SetConfig
from diverset.config import CROSS_ATTENTION, SimilarityConfig, TextConfig
from diverset.errors import IndexFileError, OptionError
from diverset.index import IndexSettings, SetIndex


@pytest.mark.parametrize(
    "wrong",
    [{"alpha": 1e-3}, {"alpha": 1e5}, {"alpha": float("inf")}, {"alpha": float("nan")},
     {"alpha": "16"}, {"elements": 4.5}, {"elements": True}, {"dim": 0}],
)  # fmt: skip
def test_invalid_settings_are_rejected(wrong):
    with pytest.raises(OptionError, match=f"{next(iter(wrong))} is"):
        IndexSettings(**{"model": "m", "elements": 3, "dim": 16, **wrong})


def test_settings_accept_numpy_numbers(tmp_path):
    settings = IndexSettings("m", np.int64(3), np.int32(16), alpha=np.float32(16))
    SetIndex.create(tmp_path / "index", settings).close()
    with SetIndex.open(tmp_path / "index") as index:
        assert index.settings == settings == IndexSettings("m", 3, 16)


def test_an_index_of_another_model_is_rejected(tmp_path):
    make_index(tmp_path).close()
    with pytest.raises(IndexFileError, match="model model-a, not model-b"):
        SetIndex.open(tmp_path / "index", model="model-b")


@pytest.mark.parametrize("kind", CROSS_ATTENTION)
def test_cross_attention_models_cannot_be_indexed(kind):
    text = TextConfig(kind="transformer", input_width=4)
    local = SetConfig(kind="local")
    config = ModelConfig(
        4, text=text, image_set=local, text_set=local, similarity=SimilarityConfig(kind)
    )
    with pytest.raises(OptionError, match="compares local features"):
        IndexSettings.for_model(Model(config), elements=3)
