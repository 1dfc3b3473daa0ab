"""Types of options, and how the command line, YAML files and Python write their values."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from judge.errors import nearest
from judge.masking import DETECTORS, DetectorName
from judge.utils.files import resolved, split_name
from judge.utils.plugins import plugins

NETWORKS = DETECTORS[1:]


def list_or_text(parse: Callable[[list[str]], object]) -> BeforeValidator:
    """Apply ``parse`` to texts of the command line and to lists of YAML; leave other values to the field's type."""

    def read(value: object) -> object:
        listed = [value] if isinstance(value, str | Path) else value
        return parse(list(map(str, listed))) if isinstance(listed, list | tuple) else value

    return BeforeValidator(read)


def names(parts: list[str]) -> tuple[str, ...]:
    """Names, each once; ``lic,leakage`` is a list too."""
    found = [name.strip() for part in parts for name in part.split(",") if name.strip()]
    return tuple(dict.fromkeys(found))


def lower_names(parts: list[str]) -> tuple[str, ...]:
    """Names in lower case, except those of a model or folder: ``hf:Salesforce/blip-image-captioning-base``."""
    return tuple(dict.fromkeys(name if ":" in name else name.lower() for name in names(parts)))


def listed(files: Path | tuple[Path, ...] | None) -> list[Path]:
    """The paths of an option that may be given several times."""
    return [] if files is None else [files] if isinstance(files, Path) else list(files)


def _one_or_several(entries: list[str]) -> Path | tuple[Path, ...]:
    if not entries:
        raise ValueError("give at least one file")
    return Path(entries[0]) if len(entries) == 1 else tuple(dict.fromkeys(map(Path, entries)))


def _captions(entries: list[str]) -> dict[str, Path]:
    """Captioner -> file, from ``FILE`` or ``NAME=FILE``."""
    from judge.corpus import name_captioners

    return name_captioners(entries)


def _checkpoints(entries: list[str]) -> dict[str, str]:
    """Captioner -> checkpoint; the name is the last part of its path, unless ``NAME=CHECKPOINT`` gives one."""
    named: dict[str, str] = {}
    for given, reference in map(split_name, entries):
        name = given or Path(reference.strip().removeprefix("hf:")).name or resolved(Path(reference)).name
        if name in named:
            raise ValueError(f"two captioners are called '{name}': write OTHER={reference}")
        named[name] = reference
    return named


def _weights(entries: list[str]) -> dict[str, str]:
    """Detector -> its weights; a path without a name belongs to the only detector, "" here."""
    named = dict(map(split_name, entries))
    if len(named) < len(entries):
        raise ValueError(f"two weights for one detector: write {' or '.join(NETWORKS)}=FILE")
    return named


def _for_networks(weights: dict[str, str]) -> dict[str, str]:
    for name in weights.keys() - {"", *NETWORKS, *plugins("detectors")}:
        raise ValueError(f"no detector '{name}' takes weights; {nearest(name, list(NETWORKS))}")
    return weights


def _class_names(entries: list[str]) -> dict[str, Path]:
    """Detector -> the file that names its classes; "" for the detectors that have no file of their own."""
    # In "hf:ORG/NAME=FILE" a separator stands before "=", as in a path.
    pairs = [entry.rpartition("=")[::2] if entry.startswith("hf:") else split_name(entry) for entry in entries]
    named = {name: Path(file) for name, file in pairs}
    if len(named) < len(entries):
        raise ValueError("two files for one detector: give one for each, DETECTOR=FILE")
    return named


def _of_detectors(named: dict[str, Path]) -> dict[str, Path]:
    for name in named.keys() - {""}:
        _detector(name)
    return named


def _finders(parts: list[str]) -> tuple[str, ...]:
    """Detectors, and ``NAME=FILE`` for what another tool found, whose NAME is no detector's."""
    found = [part if split_name(part)[0] else lower_names([part])[0] for part in names(parts)]
    own = [name for part in found if (name := split_name(part)[0])]
    for name in own:
        if name in (*DETECTORS, *plugins("detectors")) or own.count(name) > 1:
            raise ValueError(f"'{name}' is the name of another detector: choose a name for what was found")
    return tuple(dict.fromkeys(found))


def _detector(name: str) -> str:
    if not name.startswith("hf:") and name not in (known := [*DETECTORS, *plugins("detectors")]):
        others = "Models of Hugging Face are hf:NAME; judge ablate detectors takes NAME=FILE of another tool."
        raise ValueError(f"unknown detector '{name}'; {nearest(name, known).removesuffix('.')}. {others}")
    return name


def _attributes(parts: list[str]) -> str | tuple[str, ...]:
    from judge.corpus.attributes import attribute_names

    found = attribute_names(parts)
    return found[0] if len(found) == 1 else found


def spellings(value: object) -> object:
    """Class -> its spellings, from ``{female: 1}`` and ``{female: [1, f]}`` alike."""
    if not isinstance(value, dict):
        return value
    many = {name: found if isinstance(found, list | tuple) else [found] for name, found in value.items()}
    return {str(name): tuple(map(str, found)) for name, found in many.items()}


def file_names(named: dict[str, Any]) -> dict[str, Any]:
    """``named``, if its keys can name files."""
    for name, source in named.items():
        if not name or name.startswith(".") or set(name) & set("/\\\0"):
            raise ValueError(f"'{name}' cannot be a file's name: write OTHER={source}")
    return named


Names = Annotated[tuple[str, ...], list_or_text(lower_names)]
Attributes = Annotated[str | tuple[str, ...], list_or_text(_attributes)]
Lexicons = str | dict[str, str] | None
Splits = Annotated[str | None, list_or_text(",".join)]
Files = Annotated[Path | tuple[Path, ...], list_or_text(_one_or_several)]
LabelFiles = Path | dict[str, Path] | None
CaptionFiles = Annotated[dict[str, Path], list_or_text(_captions)]
# Judges are called ``hf:NAME``, so the prefix is allowed here too.
Checkpoint = Annotated[str, AfterValidator(lambda reference: reference.strip().removeprefix("hf:"))]
Checkpoints = Annotated[dict[str, Checkpoint], list_or_text(_checkpoints), AfterValidator(file_names)]
Detector = Annotated[DetectorName | str, AfterValidator(_detector)]
Finders = Annotated[tuple[str, ...], list_or_text(_finders)]
Weights = Annotated[dict[str, str], list_or_text(_weights), AfterValidator(_for_networks)]
ClassNames = Annotated[
    dict[str, Path],
    list_or_text(_class_names),
    AfterValidator(_of_detectors),
    BeforeValidator(lambda value: {} if value is None else value),  # Earlier versions wrote null.
]
# YAML reads a bare ``no`` as False.
NoIsAWord = BeforeValidator(lambda value: "no" if value is False else value)
Share = Annotated[float, Field(gt=0, lt=1)]
Shares = Annotated[
    tuple[Share, ...],
    Field(min_length=1, max_length=2),
    BeforeValidator(lambda value: str(value).split(",") if isinstance(value, str | float) else value),
]
Seed = Annotated[int, Field(ge=0, le=2**31)]
Mode = Literal["partial", "segment", "box"]
MaskMode = Literal["none", "partial", "segment", "box"]
Hide = Literal["person", "object", "both", "objects", "background"]
# Help of options that several classes declare, each with a default or type of its own.
HUMAN = "human captions: COCO, Karpathy, CSV, JSONL, Parquet, shards, ... (recognised by content)"
CAPTIONS = "captions of a captioner, which is named after the file unless NAME= is given"
LABELS = "attribute class of each image"
INSTANCES = "COCO instances or results of these images, or a folder of PNG masks or YOLO labels"
IMAGES = "folder of image files (or WebDataset shards, or a data set with images)"
MASK = "how much of each instance is hidden"
JUDGE_FILE = "NAME.weights.safetensors of judge train, or a folder of judge export"
SEVERAL = "allow several captions per image from a captioner"
DEVICE = "device: cpu, cuda, cuda:1", "a GPU where there is one"
RESULTS = "folder for the results"
RESAMPLES = "resamples of bootstrap and permutation test"
CACHE = Path("runs/cache")
