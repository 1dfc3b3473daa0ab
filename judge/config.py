"""A run as data: what YAML, the command line and Python all say in the same words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator

from judge.corpus import name_captioners
from judge.errors import JudgeError, nearest
from judge.masking.detectors import NAMES
from judge.masking.images import MAX_PIXELS


def _split_commas(value: object) -> object:
    """``lic,leakage`` is a list too. Names are checked where they are looked up."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        return value
    names = [name.strip() for part in parts for name in str(part).split(",") if name.strip()]
    # A model's name or folder keeps its capitals: "hf:Salesforce/blip-image-captioning-base".
    return tuple(dict.fromkeys(name if ":" in name else name.lower() for name in names))


class Settings(BaseModel):
    """What a command can be told. Paths are relative to the working directory.

    The resolved form is written beside the results; given to the command again it repeats the work.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    command: ClassVar[str]
    files_or_names: ClassVar[frozenset[str]] = frozenset(
        {"lexicon", "weights", "start", "backbone_weights", "reader", "model", "models", "tasks", "vectors"}
    )

    @field_serializer("*", when_used="json")
    def _paths_as_text(self, value: object) -> object:
        if isinstance(value, dict):
            return {name: str(entry) if isinstance(entry, Path) else entry for name, entry in value.items()}
        return str(value) if isinstance(value, Path) else value

    def inputs(self) -> list[Path]:
        """Every path that the command reads (or shares with others), for its output not to replace it."""
        fields = [name for name in type(self).model_fields if name != "out"]
        values = {name: getattr(self, name) for name in fields}
        flat = [
            (name, entry)
            for name, value in values.items()
            for entry in (value.values() if isinstance(value, dict) else [value])
        ]
        files = [Path(entry) for name, entry in flat if name in self.files_or_names and entry]
        return [entry for _, entry in flat if isinstance(entry, Path)] + [path for path in files if path.exists()]

    def to_yaml(self) -> str:
        """The resolved settings, every field, in this file's order."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def named_captions(value: object) -> object:
    """A path, a list of paths, or of NAME=PATH, becomes a mapping."""
    if isinstance(value, str | Path):
        value = [value]
    return name_captioners(value) if isinstance(value, list | tuple) else value


def check_file_names(names: Iterable[str], mend: str) -> None:
    """Refuse what no file can be called.

    Raises:
        ValueError: naming it, and how users name it otherwise.
    """
    for name in names:
        if not name or name.startswith(".") or set(name) & set("/\\\0"):
            raise ValueError(f"'{name}' cannot be a file's name: write {mend}")


class LabelSettings(Settings):
    """Which class of the attribute each image has."""

    attribute: str = Field("gender", description="the protected attribute")
    lexicon: str | None = Field(None, description="words to hide: a shipped name, a .yaml, or 'none'")
    labels: Path | None = Field(None, description="attribute of each image; without it, derived from human captions")
    id_column: str | None = Field(None, description="image column of the label table")
    label_column: str | None = Field(None, description="class column of the label table")
    label_values: dict[str, tuple[str, ...]] = Field({}, description="class -> how the label table spells it")

    @field_validator("label_values", mode="before")
    @classmethod
    def _spellings(cls, value: object) -> object:
        """``{female: 1}`` and ``{female: [1, f]}`` are spellings too, as texts."""
        if not isinstance(value, dict):
            return value
        many = {name: found if isinstance(found, list | tuple) else [found] for name, found in value.items()}
        return {str(name): tuple(map(str, found)) for name, found in many.items()}


NETWORKS = tuple(name for name in NAMES if name != "gt")


class HidingSettings(LabelSettings):
    """Who is in pictures, how they are found, and what is hidden."""

    instances: Path | None = Field(None, description="COCO instances of these pictures: what 'gt' knows")
    hide: Literal["person", "object", "both"] = Field(
        "person", description="person; object: the category most correlated with the attribute (BA); or both"
    )
    category: str | None = Field(
        None, description="the object to hide; default: chosen by BA from instances and labels"
    )
    fill: Literal["black", "mean", "blur", "noise"] = Field(
        "black", description="what is put in place of hidden pixels"
    )
    share: float = Field(0.5, gt=0, lt=1, description="of each mask, from the top, that mode partial hides")
    dilation: int = Field(0, ge=0, description="pixels by which the hidden region grows")
    foreground: Literal["all", "largest"] | float = Field(
        "all", description="instances to hide: all, the largest, or those above a share of the picture"
    )
    threshold: float = Field(0.5, ge=0.05, le=1, description="least score of a detected instance")
    mask_threshold: float = Field(
        0.5, gt=0, lt=1, description="probability from which a pixel belongs to a detected mask; less hides more"
    )
    weights: dict[str, str] = Field({}, description="detector -> its weights: a file, or a name that its library knows")
    trust_weights: Path | None = Field(
        None, description="folder whose .pt files may be unpickled, which can run any code in them"
    )
    cache: Path = Field(Path("runs/detections"), description="where detections are kept, per picture and detector")
    max_pixels: int = Field(
        MAX_PIXELS, ge=1, description="a picture of more (width x height) is taken for a decompression bomb"
    )

    @property
    @abstractmethod
    def finders(self) -> tuple[str, ...]:
        """The detectors that will be asked."""

    def inputs(self) -> list[Path]:
        """See :meth:`Settings.inputs`; ground truth alone keeps nothing in the cache."""
        found = super().inputs()
        return found if set(self.finders) & set(NETWORKS) else [path for path in found if path is not self.cache]

    @field_validator("weights", mode="before")
    @classmethod
    def _name_weights(cls, value: object) -> object:
        """``["yolo=a.onnx", "maskrcnn=v2"]`` is a mapping too; a bare path belongs to the only detector."""
        if isinstance(value, str | Path):
            value = [value]
        if not isinstance(value, list | tuple):
            return value
        named: dict[str, str] = {}
        for entry in map(str, value):
            name, _, path = entry.partition("=")
            # A path may hold an equals sign itself.
            name, path = (name, path) if name in NETWORKS else ("", entry)
            if name in named:
                raise ValueError(f"two weights for {name or 'one detector'}: write {' or '.join(NETWORKS)}=FILE")
            named[name] = path
        return named

    @field_validator("weights")
    @classmethod
    def _are_of_networks(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name not in {"", *NETWORKS}:
                raise ValueError(f"no detector '{name}' takes weights; {nearest(name, list(NETWORKS))}")
        return value

    @field_validator("foreground", mode="before")
    @classmethod
    def _share(cls, value: object) -> object:
        """The command line gives a text."""
        try:
            return float(str(value))
        except ValueError:
            return value

    @field_validator("foreground")
    @classmethod
    def _is_a_share(cls, value: object) -> object:
        if isinstance(value, float) and not 0 < value < 1:
            raise ValueError("a share lies between 0 and 1")
        return value


class PictureSettings(HidingSettings):
    """Pictures that are worked on one by one."""

    images: Path = Field(description="folder of pictures")
    mode: Literal["partial", "segment", "box"] = Field("segment", description="how much of each instance is hidden")
    device: str | None = Field(
        None, description="for the detector: cpu, cuda, cuda:1; default: a GPU where there is one"
    )
    batch_size: int = Field(8, ge=1, description="pictures that a detector sees at a time")
    seed: int = Field(0, ge=0, le=2**31, description="of the noise")
    overwrite: bool = Field(False, description="replace what lies in 'out'", exclude=True)


class MaskConfig(PictureSettings):
    """Everything that ``judge mask`` can be told."""

    command = "judge mask"

    detector: str = Field("gt", description="gt, yolo or maskrcnn")

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will be asked."""
        return (self.detector,)

    workers: int | None = Field(None, ge=1, description="pictures masked at a time; default one a core")
    format: Literal["png", "webp"] = Field("png", description="of the masked pictures; both are lossless")
    out: Path = Field(description="folder for the masked pictures")


def _no_is_a_word(value: object) -> object:
    """YAML reads a bare ``no`` as False."""
    return "no" if value is False else value


class CaptionConfig(HidingSettings):
    """Everything that ``judge caption`` can be told."""

    command = "judge caption"

    model: str = Field(description="checkpoint of a captioner: a folder, or a name on the hub", min_length=1)
    images: Path = Field(description="folder of pictures")
    ids: Path | None = Field(
        None, description="COCO file whose 'images' say which pictures, and their ids; None for 'instances', else names"
    )
    prompt: str | None = Field(
        None, description="what it is asked, or how its captions begin; None for what its family is usually asked"
    )
    beams: int = Field(1, ge=1, le=100, description="of the beam search; 1 is greedy")
    max_tokens: int = Field(30, ge=1, le=10_000, description="of a caption")
    mask: Literal["none", "partial", "segment", "box"] = Field(
        "none", description="how much of each instance is hidden; none for pictures as they are"
    )
    detector: Literal["gt", "yolo", "maskrcnn"] = Field("gt", description="finds what is to be hidden")
    batch_size: int = Field(8, ge=1, description="pictures at a time")
    precision: Literal["no", "bf16"] = Field("no", description="bf16 for half the memory")
    device: str | None = Field(None, description="cpu, cuda, cuda:1; default: a GPU where there is one")
    seed: int = Field(0, ge=0, le=2**31, description="of the noise that hides; captions are never drawn")
    out: Path = Field(description="the file of captions, .json")
    overwrite: bool = Field(False, description="replace 'out'", exclude=True)

    _no = field_validator("precision", mode="before")(_no_is_a_word)

    @field_validator("model")
    @classmethod
    def _as_of_judges(cls, value: str) -> str:
        """``hf:NAME`` is how judges are called."""
        return value.strip().removeprefix("hf:")

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will be asked."""
        return (self.detector,) if self.mask != "none" else ()


class TrainDetectorConfig(Settings):
    """Everything that ``judge train detector`` can be told."""

    command = "judge train detector"

    kind: Literal["yolo", "maskrcnn"] = Field(description="yolo (Ultralytics, AGPL-3.0) or maskrcnn (torchvision)")
    images: Path = Field(description="folder of pictures")
    instances: Path = Field(description="COCO instances of these pictures")
    categories: tuple[str, ...] | None = Field(None, description="what it shall tell apart; None for all of the file")
    start: str | None = Field(None, description="weights to go on from; None: a small network from nothing")
    trust_weights: Path | None = Field(None, description="folder whose .pt files may be unpickled")
    epochs: int = Field(40, ge=0, description="passes over the pictures")
    batch_size: int = Field(8, ge=1, description="pictures a step")
    learning_rate: float | None = Field(None, gt=0, lt=1, description="the highest; None for the kind's own")
    image_size: int = Field(160, description="pixels of a picture's longer side, a multiple of 32")
    validation: float = Field(0.1, ge=0, lt=1, description="share of the pictures held out")
    seed: int = Field(0, ge=0, le=2**31, description="of weights, split, order and flips")
    device: str | None = Field(None, description="cpu, cuda, cuda:1; default: a GPU where there is one")
    out: Path = Field(description="the file of weights, .safetensors")
    overwrite: bool = Field(False, description="replace 'out'", exclude=True)

    @field_validator("categories", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        """``person,hot dog`` is a list too; names keep their capitals."""
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


class RunSettings(HidingSettings):
    """What is measured, and how judges are trained."""

    human: Path | None = Field(
        None, description="human captions: COCO, Karpathy, CSV, JSONL, Parquet, ... (told by content)"
    )
    captions: dict[str, Path] = Field(
        {}, description="captioner -> its captions; names default to file stems; may be empty where there are models"
    )
    models: dict[str, str] = Field(
        {},
        description="captioner -> the checkpoint that wrote its captions, or that captions 'images' where it has none; "
        "names default to the last part of the path",
    )
    out: Path | None = Field(None, description="folder for the results; None to write nothing")

    metrics: tuple[str, ...] = Field(("lic", "leakage"), description="rows of METRICS", min_length=1)
    judge: tuple[str, ...] = Field(("linear",), description="judges; every metric is measured with each", min_length=1)
    protocol: Literal["crossfit", "paper"] = Field(
        "crossfit", description="crossfit: every image scored by a judge that never saw it; paper: LIC's 90/10 hold-out"
    )
    seeds: int | None = Field(None, ge=1, description="repetitions; default 1 under crossfit, 10 under paper")
    seed: int = Field(0, ge=0, le=2**31, description="the first seed")
    folds: int = Field(10, ge=2, description="folds of crossfit")

    objects: Path | None = Field(
        None,
        description="what else images show: COCO instances, {image: objects}, a table; None: what people say",
    )
    object_column: str | None = Field(None, description="names' column of a table of objects; default: the likely one")
    object_id_column: str | None = Field(None, description="image column of a table of objects; likewise")
    tasks: str = Field("coco-objects", description="words that name tasks: a shipped lexicon, or a .yaml")
    prior: Literal["joint", "product"] = Field(
        "joint", description="frequency of a set of tasks: of the very set, or as if tasks came independently"
    )
    alignment: Literal["none", "constant", "contextual"] | None = Field(
        None, description="how people's words are made comparable; None for each metric's own"
    )
    vectors: str = Field("corpus", min_length=1, description="of contextual alignment: corpus, a file, or hf:NAME")
    delta: float | None = Field(
        None, ge=0, le=2, description="cosine distance below which a word is substituted; None: by vectors"
    )
    vocabulary: int = Field(1000, ge=1, description="of BA: content words looked at, the most frequent ones")
    least: int | None = Field(
        None, ge=1, description="of BA: captions that hold a word with each class; None: one in 1,800"
    )
    human_scores: Path | None = Field(
        None, description="people's score of each captioner's bias: metrics are compared with it"
    )
    quality: bool = Field(False, description="score captions too (CIDEr, BLEU ...), by class, and draw bias against it")

    contractions: Literal["whole", "split"] = Field("whole", description='keep "woman\'s" one word, or split it')
    text: Literal["whole", "first-sentence"] = Field("whole", description="judge whole captions or first sentences")
    refusals: tuple[str, ...] | None = Field(None, description="regular expressions that tell a refusal; None for ours")

    columns: dict[str, str] = Field({}, description="column names of caption tables: image_id, caption")
    split: str | None = Field(None, description="split of a Karpathy file")
    several: bool = Field(False, description="allow several captions an image from a captioner")

    images: Path | None = Field(None, description="folder of the images' pictures, for judges that see")
    mask: Literal["none", "partial", "segment", "box"] = Field(
        "segment", description="how much of each instance is hidden from judges; none for pictures as they are"
    )
    detector: Literal["gt", "yolo", "maskrcnn"] = Field("gt", description="finds what is to be hidden")
    template: str | None = Field(None, description="asks a captioner for the attribute; one [Answer] in it")
    answers: dict[str, str] = Field({}, description="class -> the word that answers; default: the class itself")
    answer_softmax: Literal["restricted", "vocabulary"] = Field(
        "restricted", description="probabilities among the answers alone, or among all words"
    )
    backbone: str | None = Field(None, description="timm's name of the network that sees; None for the judge's own")
    backbone_weights: str = Field("pretrained", description="pretrained (timm fetches them), random, or a file")
    image_size: int | None = Field(None, ge=32, description="pixels along a side, for the backbone; None for its own")
    reader: str | None = Field(
        None,
        description="name or folder of the encoder of vl-lic, bert-ft, bert-pre; None for bert-base-uncased",
    )
    tuning: Literal["full", "frozen", "lora", "zero-shot"] = Field(
        "full", description="of a Hugging Face captioner: all, its language part, LoRA, or nothing is trained"
    )
    features: Path = Field(Path("runs/features"), description="where what backbones see is kept")

    epochs: int | None = Field(None, ge=1, description="overrides the judge's own")
    batch_size: int | None = Field(None, ge=1, description="overrides the judge's own")
    micro_batch: Annotated[int, Field(ge=1)] | Literal["auto"] | None = Field(
        None, description="samples a forward pass, gradients adding up to those of a batch; auto: what memory holds"
    )
    learning_rate: float | None = Field(None, gt=0, description="overrides the judge's own")
    precision: Literal["no", "bf16", "fp16"] | None = Field(None, description="None for Accelerate's own setting")
    sharing: Literal["members", "data"] | None = Field(
        None, description="several processes: each trains whole judges, or all train one; None for the judge's own"
    )
    workers: int | None = Field(None, ge=1, description="judges trained at a time; default one a core")
    checkpoints: Path | None = Field(
        None, description="folder of trained judges, which a run takes from it and adds to it; None to keep none"
    )

    refits: int | None = Field(
        None,
        ge=0,
        description="times that judges are trained again for the test, and on two halves of the images for the "
        "interval; 0 for none; default 20 for linear (8 where it guesses tasks), 0 for judges that take long",
    )
    chance: int | None = Field(
        None, ge=0, description="judges trained on shuffled labels; default 2 for linear, 0 for judges that take long"
    )
    resamples: int = Field(2000, ge=100, description="of the bootstrap and the permutation test")
    level: float = Field(0.95, gt=0.5, lt=1, description="of the intervals")
    overwrite: bool = Field(False, description="replace what lies in 'out'", exclude=True)

    _named = field_validator("captions", mode="before")(named_captions)

    @field_validator("refits")
    @classmethod
    def _one_has_no_spread(cls, value: int | None) -> int | None:
        if value == 1:
            raise ValueError("one refit has no spread: give 2 or more, or 0")
        return value

    @field_validator("models", mode="before")
    @classmethod
    def _name_models(cls, value: object) -> object:
        """A checkpoint, a list of checkpoints, or of NAME=CHECKPOINT, becomes a mapping."""
        if isinstance(value, str | Path):
            value = [value]
        return _name_checkpoints(value) if isinstance(value, list | tuple) else value

    @field_validator("models")
    @classmethod
    def _name_files(cls, value: dict[str, str]) -> dict[str, str]:
        check_file_names(value, "NAME=CHECKPOINT")
        return {name: reference.strip().removeprefix("hf:") for name, reference in value.items()}

    _no = field_validator("precision", mode="before")(_no_is_a_word)
    _commas = field_validator("metrics", "judge", mode="before")(_split_commas)

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will be asked."""
        return (self.detector,) if self.images and self.mask != "none" else ()

    def recipe(self) -> dict[str, Any]:
        """What overrides the judges' own recipes."""
        names = ("epochs", "batch_size", "micro_batch", "learning_rate")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class RunConfig(RunSettings):
    """Everything that ``judge evaluate`` can be told."""

    command = "judge evaluate"

    human: Path = Field(description="human captions: COCO, Karpathy, CSV, JSONL, Parquet, ... (told by content)")


class TrainConfig(RunConfig):
    """Everything that ``judge train`` can be told: what ``judge evaluate`` can be, so that one file serves both."""

    command = "judge train"

    checkpoints: Path = Field(Path("checkpoints/judges"), description="folder for the trained judges")

    @field_validator("checkpoints", mode="before")
    @classmethod
    def _one_is_needed(cls, value: object) -> object:
        """``checkpoints: null`` stands in what ``judge evaluate`` left."""
        return cls.model_fields["checkpoints"].default if value is None else value


def _name_checkpoints(references: Iterable[object]) -> dict[str, str]:
    """Captioner -> checkpoint: the last part of its path or name, unless it says ``NAME=CHECKPOINT``."""
    named: dict[str, str] = {}
    for entry in map(str, references):
        name, equals, reference = entry.partition("=")
        # A folder may hold an equals sign itself.
        if not equals or "/" in name:
            reference = entry
            name = Path(entry.strip().removeprefix("hf:")).name or Path(entry).resolve().name
        if name in named:
            raise ValueError(f"two captioners are called '{name}': write OTHER={reference}")
        named[name] = reference
    return named


class AblateDetectorsConfig(RunSettings):
    """Everything that ``judge ablate detectors`` can be told: those of ``judge evaluate``, captions or none."""

    command = "judge ablate detectors"

    images: Path = Field(description="folder of pictures")
    instances: Path = Field(description="COCO instances of these pictures: the truth that detectors are compared with")
    mask: Literal["partial", "segment", "box"] = Field("segment", description="how much of each instance is hidden")
    metrics: tuple[str, ...] = Field(("imagecaptioner2",), description="rows of METRICS that look", min_length=1)
    detectors: tuple[str, ...] = Field(("gt", "yolo", "maskrcnn"), description="detectors to compare", min_length=1)
    device: str | None = Field(None, description="for detectors: cpu, cuda, cuda:1; default: a GPU where there is one")
    out: Path = Field(description="folder for the results")

    _commas_too = field_validator("detectors", mode="before")(_split_commas)

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will be asked."""
        return self.detectors


class AblateMasksConfig(RunConfig):
    """Everything that ``judge ablate masks`` can be told."""

    command = "judge ablate masks"

    images: Path = Field(description="folder of pictures")
    masks: tuple[Literal["none", "partial", "segment", "box"], ...] = Field(
        ("none", "partial", "segment", "box"), description="how much of each instance is hidden, one run each"
    )
    hides: tuple[Literal["person", "object", "both"], ...] = Field(
        ("person", "object", "both"), description="what is hidden, one run each"
    )
    out: Path = Field(description="folder for the results")

    _commas_too = field_validator("masks", "hides", mode="before")(_split_commas)


S = TypeVar("S", bound=Settings)


def make_config(settings: Mapping[str, Any], kind: type[S], *, where: str = "settings") -> S:
    """Check ``settings`` of a command.

    Raises:
        JudgeError: unknown key (the nearest is suggested), missing key, value out of range.
    """
    try:
        return kind.model_validate(dict(settings))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            known = list(kind.model_fields)
            raise JudgeError(f"unknown key '{key}'", where=where, mend=nearest(key, known)) from None
        if first["type"] == "missing":
            raise JudgeError(f"'{key}' is missing", where=where, mend=f"give {_option(key)}") from None
        message = first["msg"].removeprefix("Value error, ")
        message = message[0].lower() + message[1:]
        raise JudgeError(f"'{key}': {message}", where=where, mend=f"see {kind.command} --help") from None


def read_settings(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        JudgeError: unreadable, not YAML, not a mapping.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise JudgeError(f"cannot be read ({error.strerror})", where=str(path), mend="check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise JudgeError(f"not YAML ({reason})", where=str(path), mend="see the example in README.md") from error
    if not isinstance(data, dict):
        raise JudgeError("not a mapping of settings", where=str(path), mend="write lines like 'human: captions.json'")
    return {str(key): value for key, value in data.items()}


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}, or '{key}:' in the YAML file"
