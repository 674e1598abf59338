"""A small model for the tests of this folder."""

from diverset import Model, ModelConfig, Vocabulary
from diverset.config import from_dict

VOCABULARY = Vocabulary.build(["a dog runs over the green grass", "two cats sleep on a mat"], 1)
SMALL_SET = {"size": 3, "inner_width": 16, "heads": 2}
CAPTIONS = ["a dog", "two cats sleep on the green grass", "the mat"]


def make_config(**changes) -> ModelConfig:
    options = {
        "dim": 8,
        "image": {"input_width": 12},
        "text": {"input_width": 6},
        "image_set": SMALL_SET,
        "text_set": SMALL_SET,
    }
    return from_dict(ModelConfig, options | changes)


def make_model(**changes) -> Model:
    return Model(make_config(**changes), VOCABULARY).eval()
