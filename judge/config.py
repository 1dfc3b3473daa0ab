"""A run as data: each option is declared here once, for YAML, the command line and Python alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)  # fmt: skip

from judge.errors import JudgeError, nearest
from judge.masking import DETECTORS, MAX_PIXELS, DetectorName
from judge.utils.files import check_names, resolved, split_name
from judge.utils.reading import parse_yaml, read_small_text

# Of --help, top to bottom.
PANELS = (
    "Essential", "Calibration", "Input", "Metrics", "Judges", "Images", "Captions", "Training", "Statistics", "Output"
)  # fmt: skip


MOST = 1_000_000
"""The highest number of an option that counts something, where it has no limit of its own."""


def option(
    default: Any, description: str, unset: str = "", *, flag: str = "", repeated: str = "", **constraints: Any
) -> Any:
    """A field that is an option of the command line too.

    Args:
        default: of the field; ``...`` for none.
        description: for ``--help``, which adds the choices and the default.
        unset: the default in words, where it depends on other things; of ``out``, the command line's.
        flag: where it is not the field's name with hyphens.
        repeated: metavar of an option that may be given several times.
        constraints: bounds and the like, for :func:`pydantic.Field`.
    """
    shown: dict[str, Any] = {"unset": unset, "flag": flag, "repeated": repeated}
    if "ge" in constraints and not {"le", "lt"} & constraints.keys():
        constraints["le"] = MOST  # What a file may claim of counts would never end.
    return Field(default, description=description, json_schema_extra=shown, **constraints)


def _list_or_text(parse: Callable[[list[str]], object]) -> BeforeValidator:
    """Texts of the command line and lists of YAML go through ``parse``; what else a file holds is left as it is."""

    def read(value: object) -> object:
        listed = [value] if isinstance(value, str | Path) else value
        return parse(list(map(str, listed))) if isinstance(listed, list | tuple) else value

    return BeforeValidator(read)


def _names(parts: list[str]) -> tuple[str, ...]:
    """``lic,leakage`` is a list too."""
    names = [name.strip() for part in parts for name in part.split(",") if name.strip()]
    return tuple(dict.fromkeys(names))


def _split_text(value: object) -> object:
    """A text of names; what else a file holds, such as a list of names with commas in them, is left as it is."""
    return _names([value]) if isinstance(value, str) else value


def _lower_names(parts: list[str]) -> tuple[str, ...]:
    """A model's name or folder keeps its capitals: ``hf:Salesforce/blip-image-captioning-base``."""
    return tuple(dict.fromkeys(name if ":" in name else name.lower() for name in _names(parts)))


def _paths(entries: list[str]) -> tuple[Path, ...]:
    return tuple(map(Path, entries))


def _one_or_several(entries: list[str]) -> Path | tuple[Path, ...]:
    """One path stays one, in YAML and Python too."""
    if not entries:
        raise ValueError("give at least one file")
    return Path(entries[0]) if len(entries) == 1 else tuple(dict.fromkeys(map(Path, entries)))


def listed(files: Path | tuple[Path, ...] | None) -> list[Path]:
    """The paths of an option that may be given several times."""
    return [] if files is None else [files] if isinstance(files, Path) else list(files)


def _captions(entries: list[str]) -> dict[str, Path]:
    """Captioner -> file, of ``FILE`` or ``NAME=FILE``."""
    from judge.corpus import name_captioners

    return name_captioners(entries)


def _checkpoints(entries: list[str]) -> dict[str, str]:
    """Captioner -> checkpoint: named by the last part of its path or name, unless it says ``NAME=CHECKPOINT``."""
    named: dict[str, str] = {}
    for entry in entries:
        name, reference = split_name(entry)
        name = name or Path(entry.strip().removeprefix("hf:")).name or resolved(Path(entry)).name
        if name in named:
            raise ValueError(f"two captioners are called '{name}': write OTHER={reference}")
        named[name] = reference
    return named


def _weights(entries: list[str]) -> dict[str, str]:
    """Detector -> its weights; a bare path belongs to the only detector, "" here."""
    named: dict[str, str] = {}
    for entry in entries:
        name, path = split_name(entry)
        if name in named:
            raise ValueError(f"two weights for {name or 'one detector'}: write {' or '.join(NETWORKS)}=FILE")
        named[name] = path
    return named


def _of_networks(weights: dict[str, str]) -> dict[str, str]:
    for name in weights.keys() - {"", *NETWORKS}:
        raise ValueError(f"no detector '{name}' takes weights; {nearest(name, list(NETWORKS))}")
    return weights


def _attributes(parts: list[str]) -> str | tuple[str, ...]:
    """One attribute by its name alone, as ever."""
    from judge.corpus.attributes import attribute_names

    names = attribute_names(parts)
    return names[0] if len(names) == 1 else names


def _spellings(value: object) -> object:
    """``{female: 1}`` and ``{female: [1, f]}`` are spellings too, as texts."""
    if not isinstance(value, dict):
        return value
    many = {name: found if isinstance(found, list | tuple) else [found] for name, found in value.items()}
    return {str(name): tuple(map(str, found)) for name, found in many.items()}


def _file_names(named: dict[str, Any]) -> dict[str, Any]:
    for name, source in named.items():
        if not name or name.startswith(".") or set(name) & set("/\\\0"):
            raise ValueError(f"'{name}' cannot be a file's name: write OTHER={source}")
    return named


def _or_here(value: object) -> object:
    """``checkpoints: null`` stands in what ``judge evaluate`` left."""
    return JUDGES if value is None else value


def _hub_name(reference: str) -> str:
    """``hf:NAME`` is how judges are called."""
    return reference.strip().removeprefix("hf:")


NETWORKS = DETECTORS[1:]
JUDGES = Path("checkpoints/judges")
# What decides which pixels of a picture a judge is shown, the detector's weights apart.
MASKING = {
    *("mask", "hide", "category", "fill", "share", "dilation", "foreground", "threshold", "mask_threshold", "seed"),
    "detector",
}
Names = Annotated[tuple[str, ...], _list_or_text(_lower_names)]
Splits = Annotated[str | None, _list_or_text(",".join)]
Files = Annotated[Path | tuple[Path, ...], _list_or_text(_one_or_several)]
LabelFiles = Path | dict[str, Path] | None
CaptionFiles = Annotated[dict[str, Path], _list_or_text(_captions)]
Checkpoint = Annotated[str, AfterValidator(_hub_name)]
Checkpoints = Annotated[dict[str, Checkpoint], _list_or_text(_checkpoints), AfterValidator(_file_names)]
# YAML reads a bare ``no`` as False.
_NoIsAWord = BeforeValidator(lambda value: "no" if value is False else value)
Share = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0, le=2**31)]
Mode = Literal["partial", "segment", "box"]
MaskMode = Literal["none", "partial", "segment", "box"]
Hide = Literal["person", "object", "both"]
Method = Literal["occlusion", "exact", "grad-cam", "gradient-shap"]
PictureMethod = Literal["grad-cam", "gradient-shap"]
# Options that several classes declare, each with a default or type of its own.
HUMAN = "human captions: COCO, Karpathy, CSV, JSONL, Parquet, shards, ... (recognised by content)"
CAPTIONS = "captions of a captioner, which is named after the file unless NAME= is given"
SPLITS = "splits of a Karpathy file or a data set, e.g. test, or train,restval"
LABELS = "attribute class of each image"
INSTANCES = "COCO instances or results of these images, or a folder of PNG masks or YOLO labels"
IMAGES = "folder of image files (or WebDataset shards, or a data set with images)"
MASK = "how much of each instance is hidden"
TRUST = "folder whose .pt files may be unpickled, which can run any code in them"
DEVICE = "device: cpu, cuda, cuda:1", "a GPU where there is one"
RESULTS = "folder for the results"
SAVED = "NAME.weights.safetensors of judge train, a folder of judge export, or its name on the Hugging Face hub"
# How pictures are hidden: of a trained judge its file says it.
_HIDDEN = frozenset(
    {"hide", "category", "fill", "share", "dilation", "foreground", "threshold", "mask_threshold", "allow_unmasked"}
)  # fmt: skip
# What labels are made of.
_OF_LABELS = frozenset(
    {"labels", "id_column", "label_column", "label_values", "label_rule", "label_drop", "label_least"}
)  # fmt: skip


class Settings(BaseModel):
    """Options of a command. Paths are relative to the working directory.

    The resolved form is written beside the results; given to the command again it repeats the work.
    """

    # Each model is built when it is first used: --help needs the fields alone.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, allow_inf_nan=False)
    command: ClassVar[str]
    launched: ClassVar[bool] = False
    """Whether the processes of a launch share the command's work; others run in one process."""
    panel: ClassVar[str] = "Output"
    essential: ClassVar[Sequence[str]] = ()
    only_in_file: ClassVar[frozenset[str]] = frozenset()
    files_or_names: ClassVar[frozenset[str]] = frozenset(
        {"lexicon", "weights", "start", "backbone_weights", "reader", "model", "models", "tasks", "vectors"}
        | {"judge_weights", "base"}
    )

    overwrite: bool = option(False, "replace earlier results in --out", exclude=True)

    @classmethod
    def panel_of(cls, name: str) -> str:
        """The panel of ``--help`` that an option stands in: that of the class that declares it first."""
        if name in cls.essential:
            return PANELS[0]
        bases = (base for base in reversed(cls.__mro__) if issubclass(base, Settings))
        return next(base.panel for base in bases if name in base.model_fields)

    def inputs(self) -> list[Path]:
        """Every path that the command reads (or shares with others), for its output not to replace it."""
        found = []
        for name in type(self).model_fields:
            value = getattr(self, name)
            several = value.values() if isinstance(value, dict) else value
            for entry in several if isinstance(several, Iterable) and not isinstance(several, str) else [value]:
                if isinstance(entry, Path) and name != "out":
                    found.append(entry)
                elif name in self.files_or_names and entry and Path(entry).exists():
                    found.append(Path(entry))
        return found

    def to_yaml(self) -> str:
        """The resolved settings, every field, in this file's order."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


class LabelSettings(Settings):
    """Which class of the attribute each image has."""

    panel = "Input"

    attribute: Annotated[str | tuple[str, ...], _list_or_text(_attributes)] = option(
        "gender", "protected attribute; of several, the classes are their products", repeated="NAME"
    )
    lexicon: str | dict[str, str] | None = option(
        None, "words to hide: a shipped lexicon, a .yaml file, or none", "the attribute's own", repeated="[NAME=]TEXT"
    )
    labels: LabelFiles = option(None, LABELS, repeated="[NAME=]FILE")
    id_column: str | None = option(None, "image column of the label table")
    label_column: str | dict[str, str] | None = option(
        None, "class column of the label table", repeated="[NAME=]COLUMN"
    )
    label_values: dict[str, tuple[str, ...]] | dict[str, dict[str, tuple[str, ...]]] = option(
        {}, "how the label table spells a class, e.g. female=1; of several attributes skin=darker=1",
        flag="--label-value", repeated="CLASS=TEXT",
    )  # fmt: skip

    label_rule: Literal["one", "majority"] = option(
        "one", "class of an image with several labels: one, they must be the same; majority, the most frequent one "
        "(images without one are left out)",
    )  # fmt: skip
    label_drop: tuple[str, ...] | dict[str, tuple[str, ...]] = option(
        (), "value of the label table that means no class, beside empty, Both, Unsure, unknown and the like",
        repeated="[NAME=]VALUE",
    )  # fmt: skip
    label_least: int = option(
        1, "without --labels: how many human captions must name a class for the image to have it", ge=1
    )
    where: dict[str, str] = option(
        {}, "keep records of caption and label tables whose COLUMN holds TEXT; human captions must have that column, "
        "other tables without it are taken whole", repeated="COLUMN=TEXT",
    )  # fmt: skip

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of all attributes."""
        return (self.attribute,) if isinstance(self.attribute, str) else self.attribute

    @property
    def attribute_name(self) -> str:
        """The attribute's name; of several, that of their product."""
        from judge.text.combined import AND

        return AND.join(self.attributes)

    @field_validator("lexicon", "labels", "label_column", "label_values", "label_drop", mode="before")
    @classmethod
    def _of_each(cls, value: object, info: ValidationInfo) -> object:
        from judge.corpus.attributes import by_attribute, dropped_by_attribute, spellings_by_attribute

        names = info.data.get("attribute", "gender")
        names = (names,) if isinstance(names, str) else names
        if info.field_name == "label_drop":
            return dropped_by_attribute(value, names)
        if info.field_name != "label_values":
            return by_attribute(value, names, shared=info.field_name == "labels")
        if len(names) == 1 or not isinstance(value, dict):
            return _spellings(value)
        return {name: _spellings(of) for name, of in spellings_by_attribute(value, names).items()}


class TextSettings(LabelSettings):
    """Which captions are read, and how."""

    columns: dict[str, str] = option(
        {}, "column of caption tables; of one side human.caption=NAME or captions.caption=NAME", flag="--column",
        repeated="{image_id,caption}=NAME",
    )  # fmt: skip
    split: Splits = option(None, SPLITS, repeated="NAME")
    several: bool = option(False, "allow several captions per image from a captioner")
    contractions: Literal["whole", "split"] = option("whole", 'keep "woman\'s" as one word (whole) or split it')
    text: Literal["whole", "first-sentence"] = option("whole", "part of each caption that is used")


class CorpusSettings(TextSettings):
    """What a run reads."""

    human: Files | None = option(None, HUMAN, repeated="PATH")
    captions: CaptionFiles = option({}, CAPTIONS, repeated="[NAME=]FILE")
    models: Checkpoints = option(
        {}, "checkpoint of a captioner; captions --images if there are no --captions of it",
        flag="--model", repeated="[NAME=]CHECKPOINT",
    )  # fmt: skip
    objects: Path | None = option(
        None, "objects in each image: COCO instances, {image: [objects]}, or a table", "those that human captions name"
    )
    object_column: str | None = option(None, "column of object names, in a table of objects")
    object_id_column: str | None = option(None, "image column of a table of objects")
    own_captions: bool = option(
        False, "where each human caption has a label of its own, keep those whose label is their image's"
    )
    refusals: tuple[str, ...] | None = option(
        None, "regular expression of refusals to caption, in place of ours", flag="--refusal", repeated="REGEX"
    )


class HidingSettings(LabelSettings):
    """What is hidden in images, and how it is found."""

    panel = "Images"

    images: Path | None = option(None, IMAGES)
    instances: Files | None = option(None, f"{INSTANCES} (ground truth, for detector gt)", repeated="PATH")
    person_categories: Annotated[tuple[str, ...], _list_or_text(tuple)] = option(
        (), "category of --instances or the detector that is people", "person; else all that name people",
        flag="--person-category", repeated="NAME",
    )  # fmt: skip
    class_names: Path | None = option(
        None, "names of a detector's or a label file's classes: one per line, or YAML or JSON id: name",
        "as the file or the detector has them",
    )  # fmt: skip
    detector: DetectorName = option("gt", "what finds people and objects: ground truth or a network")
    hide: Hide = option("person", "what is hidden: person, object (most correlated with the attribute, by BA), or both")
    category: str | None = option(None, "object category to hide", "chosen by BA from --instances and --labels")
    fill: Literal["black", "mean", "blur", "noise"] = option("black", "what replaces hidden pixels")
    share: Share = option(0.5, "share of each mask that mode partial hides, from the top")
    dilation: int = option(0, "pixels by which hidden regions grow", ge=0)
    foreground: Literal["all", "largest"] | Share = option(
        "all", "instances to hide: all, the largest, or those above a share of the image, e.g. 0.05"
    )
    threshold: float = option(0.5, "lowest score of a detected instance", ge=0.05, le=1)
    mask_threshold: Share = option(0.5, "lowest probability of a pixel in a detected mask; a lower one hides more")
    weights: Annotated[dict[str, str], _list_or_text(_weights), AfterValidator(_of_networks)] = option(
        {}, "weights of a detector: a file, or a name that its library knows", repeated="[DETECTOR=]FILE"
    )
    trust_weights: Path | None = option(None, TRUST)
    allow_unmasked: bool = option(False, "go on where masks hide almost nobody; metrics of images have no verdict")
    cache: Path = option(Path("runs/detections"), "cache folder for detections")
    max_pixels: int = option(
        MAX_PIXELS, "largest image (width x height) to open, against decompression bombs", ge=1, le=2**40
    )

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will be asked."""
        return (self.detector,)

    def inputs(self) -> list[Path]:
        """See :meth:`Settings.inputs`; ground truth alone keeps nothing in the cache."""
        return [path for path in super().inputs() if path is not self.cache or set(self.finders) - {"gt"}]


class MaskedSettings(HidingSettings):
    """Images that a network sees, masked or as they are."""

    mask: MaskMode = option("segment", MASK)

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will be asked."""
        return (self.detector,) if self.images and self.mask != "none" else ()


class PictureSettings(HidingSettings):
    """Images that are worked on one by one."""

    images: Path = option(..., IMAGES)
    labels: LabelFiles = option(None, f"{LABELS}, to choose the object to hide", repeated="[NAME=]FILE")
    device: str | None = option(None, *DEVICE)
    seed: Seed = option(0, "seed of fill noise")


class MaskConfig(PictureSettings):
    """Options of ``judge mask``."""

    command = "judge mask"
    essential = ("images", "instances", "detector", "weights", "mode", "hide", "fill", "out", "overwrite")

    mode: Mode = option("segment", "how much of each instance is hidden: the upper part, the mask, or the box")
    format: Literal["png", "webp"] = option("png", "file format of masked images; both are lossless")
    workers: int | None = option(None, "images masked in parallel", "one per core", ge=1, le=1024)
    out: Path = option(..., "folder for the masked images", "runs/masked")


class CaptioningSettings(Settings):
    """How checkpoints caption, in every command that lets them."""

    panel = "Captions"

    caption_batch: Annotated[int, Field(ge=1, le=MOST)] | Literal["auto"] = option(
        "auto", "images that a captioner gets at a time; auto: 8 on CPUs, 64 on GPUs; fewer where memory is short"
    )


class CaptionConfig(CaptioningSettings, PictureSettings, MaskedSettings):
    """Options of ``judge caption``."""

    command = "judge caption"
    launched = True
    panel = "Captions"
    essential = ("model", "images", "instances", "prompt", "beams", "max_tokens", "mask", "out", "overwrite")

    model: Checkpoint = option(..., "captioner: a checkpoint folder, or a name on the Hugging Face hub", min_length=1)
    ids: Path | None = option(None, "COCO file that lists images and their ids", "--instances, else the file names")
    prompt: str | None = option(None, "prompt, or the beginning of captions", "that of the model's family")
    beams: int = option(1, "beams of the beam search; 1 is greedy", ge=1, le=100)
    max_tokens: int = option(30, "longest caption, in tokens", ge=1, le=10_000)
    precision: Annotated[Literal["no", "bf16"], _NoIsAWord] = option("no", "mixed precision; bf16 halves the memory")
    mask: MaskMode = option("none", MASK)
    out: Path = option(..., "file for the captions", "runs/captions.json")


class StartedSettings(Settings):
    """Where what trained judges started from is found now."""

    panel = "Judges"

    revision: str | None = option(None, "branch, tag or commit, on the hub", "the newest")
    base: Checkpoint | None = option(
        None, "checkpoint or text encoder that the judge started from, if it has moved", "as in training"
    )
    backbone_weights: str | None = option(None, "backbone weights: pretrained, random, or a file", "as in training")


class SavedJudgeSettings(StartedSettings):
    """A trained judge in a file."""

    judge_weights: str = option(..., SAVED, min_length=1)


class AskingSettings(HidingSettings):
    """What trained judges are asked about; what is hidden, in words and pictures, a judge's file says."""

    panel = "Input"

    columns: dict[str, str] = option(
        {}, "column of caption tables", flag="--column", repeated="{image_id,caption}=NAME"
    )
    split: Splits = option(None, SPLITS, repeated="NAME")
    where: dict[str, str] = option(
        {}, "keep records whose COLUMN holds TEXT; the file of captions must have that column", repeated="COLUMN=TEXT"
    )
    images: Path | None = option(None, f"{IMAGES}, for judges that use images")
    detector: DetectorName = option("gt", "what finds people and objects: ground truth or a network", "as in training")
    features: Path = option(Path("runs/features"), "feature cache folder")


class PredictConfig(SavedJudgeSettings, AskingSettings):
    """Options of ``judge predict``."""

    command = "judge predict"
    essential = ("judge_weights", "captions", "images", "instances", "detector", "out", "overwrite")
    only_in_file = frozenset({"attribute", "lexicon", *_OF_LABELS} | _HIDDEN)

    captions: Path = option(..., "new captions: COCO, Karpathy, CSV, JSONL, Parquet, ... (recognised by content)")
    out: Path = option(..., "CSV file for the answers", "runs/predictions.csv")


class AttributeConfig(StartedSettings, AskingSettings):
    """Options of ``judge attribute``: those of ``judge predict``, and what is explained how."""

    command = "judge attribute"
    essential = (
        "judge_weights", "captions", "model", "images", "instances", "detector", "methods", "labels", "show_people",
        "maps", "out", "overwrite",
    )  # fmt: skip
    only_in_file = _HIDDEN

    attribute: Annotated[str | tuple[str, ...], _list_or_text(_attributes)] = option(
        "gender", "attribute of the labels, and of --model's words", "the first judge's; of --model gender",
        repeated="NAME",
    )  # fmt: skip
    lexicon: str | dict[str, str] | None = option(
        None, "classes of the labels, and words to look for in --model's captions: a shipped lexicon, a .yaml file, or "
        "none", "the attribute's own", repeated="[NAME=]TEXT",
    )  # fmt: skip
    judge_weights: Annotated[tuple[str, ...], _list_or_text(tuple)] = option(
        (), f"{SAVED}; one after another", repeated="FILE"
    )
    captions: Path | None = option(
        None, "new captions, for judges: COCO, Karpathy, CSV, JSONL, Parquet, ... (recognised by content)"
    )
    model: Checkpoint | None = option(
        None, "captioner (a checkpoint folder, or a name on the Hugging Face hub) whose own words are explained, "
        "in place of a judge", min_length=1,
    )  # fmt: skip
    methods: Annotated[tuple[Method, ...], _list_or_text(_lower_names)] = option(
        (),
        "comma-separated: for words occlusion, exact (linear); for images grad-cam, gradient-shap",
        "all that the judge allows",
    )
    labels: LabelFiles = option(
        None, f"{LABELS}: its probability is explained, else the predicted one's", repeated="[NAME=]FILE"
    )
    show_people: bool = option(False, "draw maps over pictures in which nobody is hidden")
    maps: int = option(24, "pictures to draw maps of; 0 for none", ge=0)
    out: Path = option(..., RESULTS, "runs/attribute")

    def of_judge(self, reference: str) -> PredictConfig:
        """What ``judge predict`` would ask one of the judges by.

        Raises:
            JudgeError: there are no captions.
        """
        if self.captions is None:
            raise JudgeError("judges read captions, and there are none", where="--captions", mend="give a file of them")
        given = self.model_fields_set & PredictConfig.model_fields.keys()
        return PredictConfig.model_validate({n: getattr(self, n) for n in given} | {"judge_weights": reference})


class ExportConfig(SavedJudgeSettings):
    """Options of ``judge export``."""

    command = "judge export"
    essential = ("judge_weights", "merge", "push_to_hub", "out", "overwrite")

    merge: bool = option(False, "hf: judges: a whole checkpoint of transformers, with LoRA adapters merged")
    push_to_hub: str | None = option(None, "name on the Hugging Face hub to upload the folder to, as NAME/JUDGE")
    public: bool = option(False, "let everybody see a repository that --push-to-hub makes")
    out: Path = option(..., "folder for the judge", "runs/judge")


class AligningSettings(Settings):
    """How contextual alignment substitutes words."""

    panel = "Metrics"

    vectors: str = option(
        "corpus", "word vectors: corpus (learnt from human captions), GloVe, word2vec or fastText file, or hf:NAME",
        min_length=1,
    )  # fmt: skip
    delta: float | None = option(
        None, "cosine distance below which contextual alignment substitutes a word",
        "by --vectors: 0.65 for corpus, 0.7 for hf:, 0.4 for a file", ge=0, le=2,
    )  # fmt: skip


class AlignConfig(AligningSettings, TextSettings):
    """Options of ``judge align``."""

    command = "judge align"
    essential = ("human", "captions", "labels", "vectors", "delta", "out", "overwrite")

    human: Files = option(..., HUMAN, repeated="PATH")
    captions: Annotated[CaptionFiles, AfterValidator(_file_names)] = option(
        ..., CAPTIONS, repeated="[NAME=]FILE", min_length=1
    )
    labels: LabelFiles = option(None, f"{LABELS}; images without one are left out", repeated="[NAME=]FILE")
    meteor: int = option(5000, "captions to compute METEOR on (needs Java); 0 for none", ge=0)
    out: Path = option(..., RESULTS, "runs/aligned")


class AnonymousConfig(TextSettings):
    """Options of ``judge anonymous``."""

    command = "judge anonymous"
    essential = ("captions", "images", "attribute", "lexicon", "ratings", "run", "sample", "out", "overwrite")
    only_in_file = _OF_LABELS

    attribute: str = option("gender", "attribute that cannot be seen in the images")
    lexicon: str | dict[str, str] | None = option(
        None,
        "words that name a class: a shipped lexicon, or a .yaml file",
        "the attribute's own",
        repeated="[NAME=]TEXT",
    )
    captions: CaptionFiles = option(..., CAPTIONS, repeated="[NAME=]FILE", min_length=1)
    images: Path | None = option(None, f"{IMAGES}: those of the benchmark; captions of others are left out")
    ratings: Annotated[tuple[Path, ...], _list_or_text(_paths)] = option(
        (), "rating.csv that a rater filled in", repeated="FILE"
    )
    where: dict[str, str] = option(
        {}, "keep records of caption tables whose COLUMN holds TEXT; all must have that column", repeated="COLUMN=TEXT"
    )
    run: Path | None = option(None, "folder of a finished judge evaluate, whose metrics are compared with the ratings")
    sample: int | None = option(None, "images on the rating sheet, drawn at random", "all", ge=1)
    seed: Seed = option(0, "seed of the sheet's sample and order")
    level: float = option(0.95, "confidence level of intervals", gt=0.5, lt=1)
    out: Path = option(..., RESULTS, "runs/anonymous")


class MetricSettings(AligningSettings):
    """What is measured."""

    metrics: Names = option(
        ("lic", "leakage"),
        "comma-separated: lic, leakage, sc, dbac, dpac; of images: imagecaptioner2, imagecaptioner2-ratio, vl-lic; "
        "counted: ba, ba-objects, dba, multi, dpa, ratio, error. Variants, e.g. dbac-ta, are in the documentation",
        min_length=1,
    )
    tasks: Annotated[tuple[str, ...], _list_or_text(_names)] = option(
        ("coco-objects",),
        "comma-separated: words of objects or other tasks: coco-objects, activities, or a .yaml file", min_length=1,
    )  # fmt: skip
    prior: Literal["joint", "product"] = option("joint", "frequency of a set of tasks: joint, or product of each")
    alignment: Literal["none", "constant", "contextual"] | None = option(
        None, "how human captions are aligned with the captioner's vocabulary", "each metric's own"
    )
    vocabulary: int = option(1000, "ba: number of content words, the most frequent ones", ge=1)
    least: int | None = option(None, "ba: captions of each class in which a word must occur", "one in 1,800", ge=1)
    quality: bool = option(False, "score captions too, by class: BLEU, CIDEr, ROUGE-L and, with Java, METEOR")
    breakdown: bool = option(False, "tell which tasks, images and words carry each metric")
    human_scores: Path | None = option(None, "table (captioner, score) of perceived bias, to compare metrics with")


class JudgeSettings(Settings):
    """Who judges, and on what part of the images."""

    panel = "Judges"

    judge: Names = option(
        ("linear",),
        "comma-separated: linear, lstm, lstm-bidirectional, rnn, rnn-bidirectional, transformer-1, transformer-5, "
        "bert-ft, bert-pre, sentence:NAME; of images: sat, grit, vl-lic, vl-lic-lstm, hf:NAME, self. Each also with "
        "-image-only or -caption-only",
        "linear; for images the metric's own",
        min_length=1,
    )
    protocol: Literal["crossfit", "paper"] = option(
        "crossfit", "crossfit: every image is scored by a judge not trained on it; paper: the hold-out of its paper"
    )
    seeds: int | None = option(None, "repetitions", "1 under crossfit, 10 under paper", ge=1, le=1000)
    seed: Seed = option(0, "first seed")
    folds: int = option(10, "folds of crossfit", ge=2, le=10_000)
    template: str | None = option(None, "prompt for the attribute", '"Therefore, the gender is [Answer]"')
    answers: dict[str, str] = option(
        {}, "word that answers for a class, e.g. female=woman", "the class", flag="--answer", repeated="CLASS=WORD"
    )
    answer_softmax: Literal["restricted", "vocabulary"] = option("restricted", "softmax over the answers or all words")
    backbone: str | None = option(None, "timm name of the image backbone", "the judge's own")
    backbone_weights: str = option("pretrained", "backbone weights: pretrained (from timm), random, or a file")
    image_size: int | None = option(None, "image side in pixels, for the backbone", "the backbone's own", ge=32)
    features: Path = option(Path("runs/features"), "feature cache folder")
    reader: str | None = option(None, "text encoder of vl-lic, bert-ft and bert-pre", "bert-base-uncased")
    tuning: Literal["full", "frozen", "lora", "zero-shot"] = option("full", "fine-tuning of a Hugging Face captioner")
    dtype: Literal["float32", "bf16"] = option(
        "float32", "type of those weights of a Hugging Face captioner that are not trained; bf16 halves their memory"
    )
    checkpointing: bool = option(
        False, "compute a Hugging Face captioner's layers twice, for less memory; equal up to rounding"
    )
    attn_implementation: str | None = option(
        None, "attention of a Hugging Face captioner: eager, sdpa, flash_attention_2 ...", "transformers' choice"
    )


class TrainingSettings(Settings):
    """How judges are trained."""

    panel = "Training"

    epochs: int | None = option(None, "training epochs", "the judge's own", ge=1)
    batch_size: int | None = option(None, "samples per step", "the judge's own", ge=1)
    micro_batch: Annotated[int, Field(ge=1, le=MOST)] | Literal["auto"] | None = option(
        None, "samples per forward pass, with gradients accumulated; auto: as many as fit in memory", "the judge's own"
    )
    learning_rate: float | None = option(None, "learning rate", "the judge's own", gt=0)
    patience: int | None = option(
        None, "epochs without a better validation loss that end training, for judges that have one", "all epochs", ge=1
    )
    warmup: float | None = option(
        None, "share of all steps in which the learning rate rises from 0; usual for fine-tuning: 0.03 to 0.1", "0",
        ge=0, lt=1,
    )  # fmt: skip
    decay: bool | None = option(None, "let the learning rate fall to 0 by the last step; usual for fine-tuning", "off")
    clip: float | None = option(None, "longest gradient of a step, as a norm; usual for fine-tuning: 1", "none", gt=0)
    precision: Annotated[Literal["no", "bf16", "fp16"] | None, _NoIsAWord] = option(
        None, "mixed precision", "Accelerate's setting"
    )
    sharing: Literal["members", "data"] | None = option(
        None, "several processes: each trains whole judges (members), or all train one (data)", "the judge's own"
    )
    workers: int | None = option(None, "judges trained in parallel", "one per core", ge=1, le=1024)
    stack: bool | None = option(
        None,
        "train lstm, rnn and their kin together, many judges as one program, or one by one",
        "on GPUs",
    )
    dataloader_workers: int | None = option(
        None,
        "processes that prepare batches for each judge",
        "on GPUs up to 8 for Hugging Face judges; else 0",
        ge=0,
        le=1024,
    )
    log_with: Names = option(
        (), "trackers for losses, comma-separated: tensorboard, wandb or another of Accelerate's", "none"
    )
    checkpoints: Path | None = option(None, "folder of trained judges to reuse and to add to", "none")


class StatisticsSettings(Settings):
    """How sure the numbers are."""

    panel = "Statistics"

    refits: int | None = option(
        None,
        "refits of each judge for tests and intervals; 0 for none",
        "20 for linear (8 on tasks), else 0",
        ge=0,
        le=1000,
    )
    chance: int | None = option(
        None, "trainings on shuffled labels: what chance scores", "2 for linear, else 0", ge=0, le=1000
    )
    resamples: int = option(2000, "resamples of bootstrap and permutation test", ge=100)
    level: float = option(0.95, "confidence level of intervals", gt=0.5, lt=1)

    @field_validator("refits")
    @classmethod
    def _one_has_no_spread(cls, value: int | None) -> int | None:
        if value == 1:
            raise ValueError("one refit has no spread: give 2 or more, or 0")
        return value


# pydantic takes the fields of the last base first.
class RunSettings(
    StatisticsSettings,
    TrainingSettings,
    CaptioningSettings,
    MaskedSettings,
    JudgeSettings,
    MetricSettings,
    CorpusSettings,
):
    """What is measured, and how judges are trained."""

    panel = "Output"
    launched = True
    essential: ClassVar[Sequence[str]] = (
        "human", "captions", "models", "labels", "images", "metrics", "judge", "protocol", "out", "overwrite"
    )  # fmt: skip

    labels: LabelFiles = option(None, LABELS, "derived from the human captions", repeated="[NAME=]FILE")
    images: Path | None = option(None, f"{IMAGES}, for judges that use images")
    out: Path | None = option(None, RESULTS, "runs/evaluate")
    verbose: bool = option(False, "print all columns, tables, notes and warnings", exclude=True)

    def recipe(self) -> dict[str, Any]:
        """What overrides the judges' own recipes."""
        names = ("epochs", "batch_size", "micro_batch", "learning_rate", "patience", "warmup", "decay", "clip")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class RunConfig(RunSettings):
    """Options of ``judge evaluate``."""

    command = "judge evaluate"

    human: Files = option(..., HUMAN, repeated="PATH")


class TrainConfig(RunConfig):
    """Options of ``judge train``: those of ``judge evaluate``, so that one file serves both."""

    command = "judge train"
    essential = (*RunConfig.essential[:-2], "checkpoints")
    only_in_file = frozenset({"out", "overwrite", "verbose", "resamples", "level", "breakdown", "caption_batch"})

    checkpoints: Annotated[Path, BeforeValidator(_or_here)] = option(JUDGES, "folder for the trained judges")


class AblateDetectorsConfig(RunSettings):
    """Options of ``judge ablate detectors``: those of ``judge evaluate``, with or without captions."""

    command = "judge ablate detectors"
    essential = (
        "images", "instances", "detectors", "weights", "human", "captions", "labels", "metrics", "judge", "out",
    )  # fmt: skip
    only_in_file = frozenset({"detector", "verbose", "breakdown"})

    images: Path = option(..., IMAGES)
    instances: Files = option(..., f"{INSTANCES}: the ground truth", repeated="PATH")
    mask: Mode = option("segment", MASK)
    metrics: Names = option(("imagecaptioner2",), "metrics of images, comma-separated", min_length=1)
    detectors: Names = option(DETECTORS, "detectors to compare, comma-separated", min_length=1)
    device: str | None = option(None, *DEVICE)
    out: Path = option(..., RESULTS, "runs/detectors")

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will be asked."""
        return self.detectors


class AblateMasksConfig(RunConfig):
    """Options of ``judge ablate masks``: those of ``judge evaluate``."""

    command = "judge ablate masks"
    essential = ("masks", "hides", *RunConfig.essential)
    only_in_file = frozenset({"mask", "hide", "verbose", "breakdown"})

    images: Path = option(..., IMAGES)
    masks: Annotated[tuple[MaskMode, ...], _list_or_text(_lower_names)] = option(
        get_args(MaskMode), f"{MASK}, comma-separated: one run each"
    )
    hides: Annotated[tuple[Hide, ...], _list_or_text(_lower_names)] = option(
        get_args(Hide), "what is hidden, comma-separated: one run each"
    )
    out: Path = option(..., RESULTS, "runs/masks")


class CalibrateConfig(RunSettings):
    """Options of ``judge calibrate``: those of ``judge evaluate``, but for captioners and images."""

    command = "judge calibrate"
    panel = "Calibration"
    essential = ("human", "labels", "metrics", "judge", "changes", "doses", "draws", "nulls", "out", "overwrite")
    # Of captioners, and of a user's images.
    only_in_file = frozenset(
        {"captions", "models", "caption_batch", "several", "refusals", "chance", "level", "quality", "breakdown"}
        | {"human_scores", "verbose"}
        | {"checkpoints", "features", "cache", "max_pixels"}
        | {"images", "instances", "detector", "hide", "category", "foreground"}
    )

    human: Files | None = option(None, f"{HUMAN}; not needed for metrics of images alone", repeated="PATH")
    metrics: Names = option(
        ("lic", "leakage"),
        "comma-separated: lic, leakage, dbac, dpac; counted: ba, ba-objects, dba, multi, dpa, ratio, error; on drawn "
        "scenes, as doses leave your images alone: imagecaptioner2, imagecaptioner2-ratio, vl-lic",
        min_length=1,
    )
    judge: Names = option(
        ("linear",),
        "comma-separated: linear, lstm, bert-ft, sentence:NAME ...; of images: sat, grit, vl-lic, vl-lic-lstm, hf:NAME",
        "linear; for images the metric's own",
        min_length=1,
    )
    changes: Annotated[tuple[str, ...], _list_or_text(_names)] = option(
        ("A->T", "T->A", "vocabulary", "silence", "brevity"),
        "comma-separated changes of people's captions: A->T, T->A; without bias: vocabulary, silence, brevity",
        min_length=1,
    )
    doses: Annotated[tuple[Share, ...], _list_or_text(_names)] = option(
        (0.1, 0.2, 0.4, 0.8), "comma-separated sizes of each change, from 0 to 1", min_length=1
    )
    draws: int = option(5, "draws of images for each dose", ge=2)
    nulls: int = option(60, "draws of images in which nothing is amplified", ge=2)
    sample: int | None = option(None, "images in a draw", "a third of all, 200 at least and 900 at most", ge=20)
    scenes: int = option(1200, "drawn scenes in a draw, for metrics that use images; of few nothing is found", ge=20)
    scene_draws: int = option(2, "draws of scenes for each dose", ge=2)
    scene_nulls: int = option(6, "draws of scenes in which nothing is amplified", ge=2)
    detectors: Names = option(("gt",), "what finds people in scenes, comma-separated: gt, yolo, maskrcnn", min_length=1)
    backbone: str | None = option(None, "timm name of the image backbone", "resnet18")
    backbone_weights: str = option("random", "backbone weights: pretrained (from timm), random, or a file")
    image_size: int | None = option(None, "image side in pixels, for the backbone", "160, as scenes are drawn", ge=32)
    epochs: int | None = option(None, "training epochs", "the judge's own; on scenes 12", ge=1)
    batch_size: int | None = option(None, "samples per step", "the judge's own; on scenes 32", ge=1)
    learning_rate: float | None = option(None, "learning rate", "the judge's own; on scenes 0.001", gt=0)
    folds: int = option(5, "folds of crossfit", ge=2, le=10_000)
    refits: int = option(0, "refits of each judge for tests and intervals; 0: from folds", ge=0, le=1000)
    out: Path = option(..., RESULTS, "runs/calibration")


S = TypeVar("S", bound=Settings)


def make_config(settings: Mapping[str, Any], kind: type[S], *, where: str = "settings") -> S:
    """Check ``settings`` of a command.

    Raises:
        JudgeError: unknown key (the nearest is suggested), missing key, value out of range; a path or a name that is
            not UTF-8.
    """
    check_names(settings, where=where)
    try:
        return kind.model_validate(dict(settings))
    except ValidationError as error:
        # A misspelt key may be the one that is missing: it is told first.
        first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
        key = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            raise JudgeError(f"unknown key '{key}'", where=where, mend=nearest(key, list(kind.model_fields))) from None
        flag = flag_of(kind, key)
        if first["type"] == "missing":
            mend = f"give {flag}, or '{key}:' in the YAML file"
            raise JudgeError(f"'{key}' is missing", where=where, mend=mend) from None
        # Entries of a list or mapping have a name of their own; a field of several types has a message of each.
        entries = [part for part in first["loc"][1:] if isinstance(part, int) or isinstance(settings[key], Mapping)]
        faults = [first] if entries else [found for found in error.errors() if found["loc"][0] == key]
        if len(faults) == 1 and first["type"] == "literal_error":
            mend = nearest(str(first["input"]), re.findall("'([^']*)'", first["ctx"]["expected"]))
            raise JudgeError(f"unknown value '{first['input']}'", where=flag, mend=mend) from None
        messages = [re.sub("^Value error, | for <class .*>$", "", found["msg"]) for found in faults]
        message = ", or ".join(text[0].lower() + text[1:] for text in messages)
        name = ".".join(map(str, [key, *entries]))
        raise JudgeError(f"'{name}': {message}", where=where, mend=f"see {flag} in {kind.command} --help") from None


def shown(kind: type[Settings], name: str) -> dict[str, str]:
    """What ``option`` was given of a field for the command line: ``unset``, ``flag`` and ``repeated``."""
    return cast("dict[str, str]", kind.model_fields[name].json_schema_extra)


def flag_of(kind: type[Settings], name: str) -> str:
    """How a field is called on the command line."""
    return shown(kind, name)["flag"] or f"--{name.replace('_', '-')}"


def read_settings(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        JudgeError: unreadable, not YAML, not a mapping.
    """
    return parse_settings(read_small_text(path), where=str(path))


# Endings of files that are no settings: `--captions a.json b.json` gives the second for them.
_DATA = ".json", ".jsonl", ".csv", ".tsv", ".parquet", ".xlsx"


def parse_settings(text: str, *, where: str) -> dict[str, Any]:
    """The mapping in a YAML text.

    Raises:
        JudgeError: not YAML, not a mapping.
    """
    mend = "write lines like 'human: captions.json'"
    if where.endswith(_DATA):
        mend = f"a file that no option stands before is read as settings: write --captions {where}, or what it is"
    data = parse_yaml(text, where=where, mend=mend)
    if not isinstance(data, dict):
        raise JudgeError("not a mapping of settings", where=where, mend=mend)
    return {str(key): value for key, value in data.items()}
