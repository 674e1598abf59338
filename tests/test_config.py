import json
from dataclasses import asdict

import pytest

from diverset.config import (
    ImageConfig,
    ModelConfig,
    SimilarityConfig,
    TextConfig,
    from_dict,
    non_default_options,
)
from diverset.errors import OptionError


def test_null_means_not_given_and_is_the_default():
    image = from_dict(ImageConfig, {"backbone": None, "backbone_size": None, "pooling": None})
    assert image == ImageConfig()
    assert from_dict(TextConfig, {"vocabulary_size": None}) == TextConfig()


def test_a_config_survives_json():
    config = ModelConfig(dim=8, image=ImageConfig(kind="convolution", backbone="small_cnn"))
    assert from_dict(ModelConfig, json.loads(json.dumps(asdict(config)))) == config


def test_only_changed_options_identify_a_model():
    config = ModelConfig(image=ImageConfig(pooling="gpo"), text=TextConfig(vocabulary_size=None))
    assert non_default_options(config) == {"image": {"pooling": "gpo"}}


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (ImageConfig, {"backbone": ""}, "^backbone is ''; give a value, or null for none"),
        (ImageConfig, {"backbone_size": 0}, "image.backbone_size is 0"),
        (ImageConfig, {"backbone": 3}, r"backbone is 3; its type is str \| None"),
        (ImageConfig, {"backbone_size": True}, "backbone_size is True"),
        (TextConfig, {"pooling": ""}, "^pooling is ''; give a value"),
        (TextConfig, {"kind": "transformer", "pooling": "last"}, "text.pooling is 'last'; choose"),
        (TextConfig, {"local": "state"}, "text.local is 'state'; choose one of: words, states"),
        (TextConfig, {"vocabulary_size": 0}, "text.vocabulary_size is 0"),
        (SimilarityConfig, {"direction": "both"}, "similarity.direction is 'both'; choose"),
        (SimilarityConfig, {"sharpness": 0.0}, "similarity.sharpness is 0.0"),
        (TextConfig, {"dropout": "0.1"}, "dropout is '0.1'; its type is float"),
        (ImageConfig, {"cache_frozen_features": True}, "caching needs 1 or more trainable"),
    ],
)
def test_invalid_options_are_rejected_by_name(kind, values, message):
    with pytest.raises(OptionError, match=message):
        from_dict(kind, values)


def test_a_wrong_option_of_a_set_names_its_side():
    with pytest.raises(OptionError, match="^text_set.size is 0; give a number above 0"):
        from_dict(ModelConfig, {"text_set": {"size": 0}})
