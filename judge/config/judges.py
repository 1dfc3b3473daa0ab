"""Parts of settings: metrics, judges, their training, statistics; and what a run is composed of."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ValidationInfo, field_validator, model_validator

from judge.config import OutputSettings, Settings, values
from judge.config.inputs import DetectionSettings, HumanSettings, MaskSettings, ObjectSettings
from judge.judges import Tuning
from judge.judges.names import DEFAULT_JUDGE, with_embedding, with_reading
from judge.metrics import with_given, with_protocol
from judge.metrics.options import MetricOptions
from judge.utils.options import option

_trained = partial(option, group="training", panel="Training")


class JudgeSettings(Settings):
    """Which judges, and on what part of the images."""

    panel = "Judges"

    embedding: str | None = option(
        None, "static embeddings that judges read: a folder of model2vec or its name on the hub, a file of word "
        "vectors, or none (words alone)", "wordllama's", file=True,
    )  # fmt: skip
    judge: values.Names = option(
        (DEFAULT_JUDGE,),
        "comma-separated: words+embedding, embedding, linear (words), best (of these three, chosen for "
        "each side), lstm, lstm-bidirectional, rnn, rnn-bidirectional, transformer-1, transformer-5, "
        "bert-ft, bert-pre, sentence:NAME; of images: words+embedding+image, linear+image, sat, sat-512, grit, vl-lic, "
        "vl-lic-lstm, hf:NAME, self. "
        "Each also with -image-only or -caption-only",
        "words+embedding; of images words+embedding+image", essential=True, min_length=1, validate_default=True,
    )  # fmt: skip
    protocol: Literal["crossfit", "paper"] = option(
        "crossfit", "crossfit: every image is scored by a judge not trained on it; paper: its hold-out", essential=True
    )
    holdout: values.Shares | None = option(
        None, "under paper: share of images for testing, e.g. 0.2, or also that for choosing an epoch, e.g. 0.2,0.1",
        "each metric's own",
    )  # fmt: skip
    balance: Literal["none", "classes"] | None = option(
        None, "what counts equally in training and scores: all images (none), or classes", "each metric's own"
    )
    seeds: int | None = option(
        None, "repetitions", "10 under paper; 3 for linear judges of an attribute under crossfit with refits; else 1",
        essential=True, ge=1, le=1000,
    )  # fmt: skip
    seed: values.Seed = option(0, "first seed")
    folds: int = option(10, "folds of crossfit", ge=2, le=10_000)
    reader: str | None = option(None, "text encoder of vl-lic, bert-ft and bert-pre", "bert-base-uncased", file=True)

    @field_validator("judge")
    @classmethod
    def _name_embedding(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """The names of judges hold the embedding, so that tables and files show it."""
        return tuple(with_embedding(name, info.data.get("embedding") or "") for name in value)


class SightSettings(Settings):
    """Checkpoints of judges of images, and their prompts."""

    panel = "Judges"

    template: str | None = option(
        None, "prompt for the attribute", '"Therefore, the gender is [Answer]"; of skin "the race"'
    )
    answers: dict[str, str] = option(
        {}, "word that answers for a class, e.g. female=woman", "the class", flag="--answer", repeated="CLASS=WORD"
    )
    answer_softmax: Literal["restricted", "vocabulary"] = option("vocabulary", "softmax over the answers or all words")
    backbone: str | None = option(
        None, "image backbone: timm's name, hf:NAME (a vision encoder of transformers), or patches (random ones, for "
        "drawn images)", "the judge's own",
    )  # fmt: skip
    backbone_weights: str = option(
        "pretrained", "weights: pretrained (the backbone's own), random, or a file; of hf:NAME also its new folder",
        file=True,
    )  # fmt: skip
    image_size: int | None = option(None, "image side in pixels, for the backbone", "the backbone's own", ge=32)
    image_features: Path | None = option(
        None, "vectors of images by another tool (.npz, .safetensors, Parquet), in place of --images and --backbone; "
        "for linear judges and --given image",
    )  # fmt: skip
    tuning: Tuning = option(
        "full", "fine-tuning of a Hugging Face captioner; reading: none, a linear judge reads its states"
    )
    dtype: Literal["float32", "bf16"] = _trained(
        "float32", "type of those weights of a Hugging Face captioner that are not trained, float32 or bf16, which "
        "halves their memory",
    )  # fmt: skip
    checkpointing: bool = _trained(
        False, "yes or no, whether a Hugging Face captioner's layers are computed twice, for less memory"
    )
    attn_implementation: str | None = _trained(
        None, "attention of a Hugging Face captioner: eager, sdpa, flash_attention_2 ...", "transformers' choice"
    )


class BaseSettings(Settings):
    """Where to find what trained judges started from."""

    panel = "Judges"

    base: values.Checkpoint | None = option(
        None, "checkpoint or text encoder that the judge started from, if it has moved", "as in training", file=True
    )
    backbone_weights: str | None = option(None, "pretrained, random, or a file", "as in training", file=True)


class SavedJudgeSettings(BaseSettings):
    """A trained judge in a file."""

    judge_weights: str = option(..., values.JUDGE_FILE, essential=True, file=True, min_length=1)


class TrainingSettings(Settings):
    """How judges are trained."""

    panel = "Training"

    epochs: int | None = _trained(None, "training epochs", "the judge's own", ge=1)
    batch_size: int | None = _trained(None, "samples per step", "the judge's own", ge=1)
    micro_batch: int | None = _trained(
        None, "samples per forward pass, with gradients accumulated", "the judge's own", ge=1
    )
    learning_rate: float | None = _trained(None, "learning rate", "the judge's own", gt=0)
    patience: int | None = _trained(None, "epochs without a better validation loss that end training", "all", ge=1)
    warmup: float | None = _trained(
        None, "share of steps in which the learning rate rises from 0; for fine-tuning 0.03 to 0.1", "0", ge=0, lt=1
    )
    decay: bool | None = _trained(
        None, "yes or no, whether the learning rate falls to 0 by the last step; usual for fine-tuning: yes", "no"
    )
    clip: float | None = _trained(None, "longest gradient of a step, as a norm; usual for fine-tuning: 1", "none", gt=0)
    precision: Annotated[Literal["no", "bf16", "fp16"] | None, values.NoIsAWord] = _trained(
        None, "mixed precision: no, bf16 or fp16", "Accelerate's setting"
    )
    sharing: Literal["members", "data"] | None = _trained(
        None, "several processes: each trains whole judges (members), or all train one (data)", "the judge's own"
    )
    dataloader_workers: int | None = _trained(
        None, "processes that prepare batches for each judge", "up to 8 for hf: on GPUs, else 0", ge=0, le=1024
    )
    workers: int | None = option(None, "judges trained in parallel", "one per core", ge=1, le=1024)

    def recipe(self) -> dict[str, Any]:
        """The settings that override the judges' own recipes."""
        overrides = ("epochs", "batch_size", "micro_batch", "learning_rate", "patience", "warmup", "decay", "clip")
        return {name: value for name in overrides if (value := getattr(self, name)) is not None}


# pydantic takes the fields of the last base first.
class JudgedSettings(TrainingSettings, JudgeSettings, MetricOptions, HumanSettings):
    """Options of every command that trains judges: human captions, metrics, judges and their training."""

    panel = "Metrics"

    given: values.Names = option(
        ("people",), "conditional: what is known of an image: people (its other human captions), objects (annotated), "
        "image (frozen features, people hidden)", essential=True, min_length=1,
    )  # fmt: skip
    metrics: values.Names = option(
        ("conditional", "lic"),
        "comma-separated: conditional, lic, leakage, sc, u, dbac, dpac; "
        "of images: imagecaptioner2, imagecaptioner2-ratio, vl-lic; "
        "counted: ba, ba-objects, dba, multi, dpa, ratio, error; paper: lic, u, dbac, ba, dba, ratio, error. "
        "Variants, e.g. dbac-ta, are in the documentation",
        essential=True, min_length=1, validate_default=True,
    )  # fmt: skip
    tasks: Annotated[tuple[str, ...], values.list_or_text(values.names)] = option(
        ("coco-objects",), "words of tasks: coco-objects, activities, or a .yaml file", file=True, min_length=1
    )
    refits: int | None = option(
        None, "refits of each judge, for tests",
        "20 for linear judges (40 below 2,000 images, 10 from 20,000 on; 8 on tasks), else 0",
        essential=True, panel="Statistics", ge=0, le=1000,
    )  # fmt: skip

    @field_validator("metrics")
    @classmethod
    def _name_protocol(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """The names of metrics hold what is not their own, so that tables and files show it."""
        balance, holdout = info.data.get("balance"), info.data.get("holdout")
        value = with_given(value, info.data.get("given", ()))
        return with_protocol(value, balance=balance, holdout=holdout) if balance or holdout else value

    @field_validator("refits")
    @classmethod
    def _one_has_no_spread(cls, value: int | None) -> int | None:
        if value == 1:
            raise ValueError("one refit has no spread: give 2 or more, or 0")
        return value


class RunSettings(ObjectSettings, MaskSettings, SightSettings, JudgedSettings, DetectionSettings):
    """A run: captioners, what is measured of them, and how judges are trained."""

    launched = True
    panel = "Input"

    captions: values.CaptionFiles = option({}, values.CAPTIONS, repeated="[NAME=]FILE", essential=True)
    models: values.Checkpoints = option(
        {}, "checkpoint of a captioner; captions --images if there are no --captions of it",
        flag="--model", repeated="[NAME=]CHECKPOINT", essential=True, file=True,
    )  # fmt: skip
    several: bool = option(False, values.SEVERAL)
    refusals: tuple[str, ...] | None = option(
        None, "pattern of refusals to caption, in place of the usual ones", flag="--refusal", repeated="REGEX"
    )
    labels: values.LabelFiles = option(
        None, values.LABELS, "derived from human captions", repeated="[NAME=]FILE", essential=True
    )
    images: Path | None = option(None, f"{values.IMAGES}, for judges that use images", essential=True)
    chance: int | None = option(
        None, "judges trained on shuffled labels, to estimate the chance score", "2 for linear judges, else 0",
        panel="Statistics", ge=0, le=1000,
    )  # fmt: skip
    checkpoints: Path | None = option(
        None, "folder of trained judges to reuse and to add to", "none", essential=True, panel="Training"
    )

    @model_validator(mode="after")
    def _name_reading(self) -> Self:
        """The names of judges hold what trains them in another way, so that tables and files show it."""
        if self.tuning != "reading":
            return self
        return self.model_copy(update={"judge": tuple(dict.fromkeys(map(with_reading, self.judge)))})


QUICK = {"folds": 5, "seeds": 1, "chance": 0}
"""Settings of ``--quick``, beside fewer refits."""


class ScoredSettings(OutputSettings, RunSettings):
    """A run that also scores its judges."""

    quick: bool = option(
        False, "a first look: --folds 5, --seeds 1, --chance 0 unless given, and 8 refits of linear judges",
        panel="Statistics", essential=True,
    )  # fmt: skip
    resamples: int = option(2000, values.RESAMPLES, panel="Statistics", ge=100)
    level: float = option(0.95, "confidence level of intervals", panel="Statistics", gt=0.5, lt=1)
    small: float = option(
        0.02, "largest amplification that is 'like a person', as a share of the class's variance",
        panel="Statistics", gt=0, lt=1,
    )  # fmt: skip
    quality: bool = option(
        False, "score captions by class: BLEU, CIDEr, ROUGE-L, METEOR (Java), CHAIR (--objects)", panel="Metrics",
        essential=True,
    )  # fmt: skip
    quality_scores: dict[str, Path] = option(
        {}, "scores of a captioner image by image that another tool computed (CLIPScore, SPICE), for --quality",
        repeated="CAPTIONER=FILE", panel="Metrics",
    )  # fmt: skip
    baseline: str = option(
        "", "captioner that the others are compared with, in place of all pairs: for a mitigation, what it mitigates",
        panel="Metrics", essential=True,
    )  # fmt: skip
    human_scores: Path | None = option(None, "table (captioner, score) to compare metrics with", panel="Metrics")
    out: Path | None = option(None, values.RESULTS, "runs/evaluate", essential=True)

    @model_validator(mode="before")
    @classmethod
    def _be_quick(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {**QUICK, **given} if given.get("quick") else given
