"""Opening a split: data that does not fit the model is named."""

import numpy as np
import pytest

from diverset import Model, ModelConfig, Vocabulary
from diverset.errors import DataError
from diverset.recipe.config import DataConfig
from diverset.recipe.splits import open_split


def test_data_that_does_not_fit_the_model_is_named(tmp_path):
    np.save(tmp_path / "train_ims.npy", np.zeros((2, 3, 7), np.float32))
    (tmp_path / "train_caps.txt").write_text("a dog\n" * 10)
    data = DataConfig(format="precomp", root=str(tmp_path))
    model = Model(ModelConfig(dim=8), Vocabulary.build(["a dog"], 1))
    with pytest.raises(DataError, match="7 wide, the model reads 2048"):
        open_split(data, "train", model, tmp_path)
    (tmp_path / "train_caps.txt").write_text("a dog\n" * 9)
    with pytest.raises(DataError, match="9"):
        open_split(data, "train", model, tmp_path)
