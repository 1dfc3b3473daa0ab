"""Data recipes: what a data set is, who gives it, which file is which, what its labels are and are not."""

from __future__ import annotations

import shlex
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from judge.corpus.labels import Rule
from judge.errors import JudgeError, nearest
from judge.types import Side
from judge.utils.reading import read_yaml

FOLDER = "{folder}"
"""Stands for the user's folder in commands."""

_SUFFIX = ".yaml"
_CHECKOUT = Path(__file__).parents[2] / "data" / "recipes"
_INSTALLED = Path("share/caption-judge/recipes")
_MEND = "see the recipes that come with the package; quote words that YAML reads otherwise, like 'yes'"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataFile(_Part):
    """A file of a data set, or several of one kind.

    Attributes:
        path: in the user's folder; ``*`` stands for any part of a name, and the files may be several.
        what: what it is.
        kind: which reader reads it; images are a folder, records a table of ``fields`` that goes with another file.
        required: whether nothing can be measured without it.
        side: whose captions.
        columns: columns of captions, role -> name (as ``--column``).
        fields: columns that captions and records must have besides.
        attributes: of its labels; the recipe's ``labels`` describe them.
        published: what its owner says it holds: {"images": 15762, "captions": ...}.
        source: where it comes from, if not from the recipe's source.
    """

    path: str = Field(min_length=1)
    what: str
    kind: Literal["labels", "captions", "objects", "instances", "images", "records"]
    required: bool = True
    side: Side = "human"
    columns: dict[str, str] = {}
    fields: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    published: dict[str, int] = {}
    source: str = ""

    @field_validator("path")
    @classmethod
    def _within(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or not path.name:
            raise ValueError("is no path within the folder")
        return value


class LabelNote(_Part):
    """What the labels of one attribute are.

    ``column``; ``classes`` as the file spells them; ``rule`` for an image with several labels; ``left_out`` (value ->
    meaning; such images are in no class); ``perceived_by``: who saw the class, never the people shown; ``how`` their
    answers became one class; ``published`` (class -> images).
    """

    attribute: str
    column: str = ""
    classes: tuple[str, ...] = Field(min_length=2)
    rule: Rule = "one"
    left_out: dict[str, str] = {}
    perceived_by: str
    how: str
    published: dict[str, int] = {}


class Use(_Part):
    """A question (``what``), the ``command`` that answers it, and files that it ``needs`` and does not name."""

    what: str
    command: str
    needs: tuple[str, ...] = ()

    @field_validator("command")
    @classmethod
    def _readable(cls, value: str) -> str:
        shlex.split(value)  # A quotation mark that never ends is a ValueError.
        return value


class Recipe(_Part):
    """A data set. Recipes of the package have all fields; your own needs a name, a title and files.

    Attributes:
        name: in commands.
        title: in a few words.
        papers: keys of ``judge/references.bib``.
        page: its owner's page; ``pages``: others of the same owner.
        licence: as its owner states it.
        access: who gets it; ``source``: from whom and how; ``audience``: who may have it.
        pass_on: whether it may be given to others; never if it is had on request.
        files: which is which.
        labels: what they are, and what they leave out.
        limits: what the data cannot say.
        unverified: what could not be checked when this was written.
        make: how to make your own, if it is not released.
        use: commands.
    """

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str
    papers: tuple[str, ...] = ()
    page: str = Field("", pattern=r"^(https?://|$)")
    pages: tuple[str, ...] = ()
    licence: str = ""
    access: Literal["open", "on request", "not released", "private"] = "private"
    source: str = ""
    audience: str = ""
    pass_on: bool = False
    files: tuple[DataFile, ...] = Field(min_length=1)
    labels: tuple[LabelNote, ...] = ()
    limits: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    make: tuple[str, ...] = ()
    use: tuple[Use, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.access == "on request" and self.pass_on:
            raise ValueError("what is had on request must not be passed on: pass_on: false")
        if self.access == "not released" and not self.make:
            raise ValueError("what is not released needs 'make': how to make one's own")
        known = [label.attribute for label in self.labels]
        for file in self.files:
            for name in file.attributes:
                if name not in known:
                    raise ValueError(f"'{file.path}' has labels of '{name}', which 'labels' does not describe")
        return self

    def label(self, attribute: str) -> LabelNote:
        """What the labels of ``attribute`` are."""
        return next(label for label in self.labels if label.attribute == attribute)

    @property
    def origin(self) -> str:
        """Where it comes from, and how; "" if the recipe does not say."""
        return f"{self.page} ({self.source})" if self.page and self.source else self.page or self.source


def shipped_recipes() -> dict[str, Path]:
    """Name -> file of the recipes of this checkout, or else of this installation."""
    try:
        files = metadata.files("caption-judge") or ()
    except metadata.PackageNotFoundError:
        files = ()
    recorded = [Path(str(file.locate())) for file in files if file.match(f"{_INSTALLED}/*{_SUFFIX}")]
    # pip's --target puts them beside the package, whatever the record says.
    beside = (Path(__file__).parents[2] / _INSTALLED).glob(f"*{_SUFFIX}")
    found = sorted(_CHECKOUT.glob(f"*{_SUFFIX}")) or sorted(filter(Path.is_file, recorded)) or sorted(beside)
    return {path.stem: path for path in found}


def read_shipped() -> list[Recipe]:
    """All recipes that come with the package.

    Raises:
        JudgeError: none is installed; one is faulty.
    """
    found = shipped_recipes()
    if not found:
        mend = "install it again, or give a recipe's file by its path"
        raise JudgeError("this installation of Caption Judge has no recipes", mend=mend)
    return [read_recipe(path) for path in found.values()]


def load_recipe(name_or_path: str) -> Recipe:
    """A recipe by its name ("coco-gender-skin"), or from a YAML file of the user's.

    Raises:
        JudgeError: no such recipe; not YAML; a field that is missing, unknown or contradicts another.
    """
    shipped = shipped_recipes()
    if name_or_path not in shipped and Path(name_or_path).suffix not in {_SUFFIX, ".yml"}:
        mend = nearest(name_or_path, list(shipped)) if shipped else "give a recipe's file"
        raise JudgeError(f"no recipe '{name_or_path}'", mend=mend)
    return read_recipe(shipped.get(name_or_path, Path(name_or_path)))


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file.

    Raises:
        JudgeError: as :func:`load_recipe`.
    """
    value = read_yaml(path, mend="see the recipes that come with the package")
    if not isinstance(value, dict):
        raise JudgeError("is no recipe", where=str(path), mend="write fields: name, title, files ...")
    try:
        return Recipe.model_validate(value)
    except ValidationError as error:
        raise JudgeError(_faults(error), where=str(path), mend=_MEND) from error


def _faults(error: ValidationError) -> str:
    """All faults of a recipe, in one line."""
    of_fields = {"missing": "missing", "extra_forbidden": "unknown"}
    found: dict[str, list[str]] = {what: [] for what in of_fields.values()}
    others, faults = [], error.errors()
    for fault in faults:
        field = ".".join(map(str, fault["loc"]))
        if fault["type"] in of_fields:
            found[of_fields[fault["type"]]].append(field)
        # A list of which entries are faulty is too short only because of these.
        elif fault["type"] != "too_short" or not any(one["loc"][:1] == fault["loc"] for one in faults if one != fault):
            others.append(f"{f'field {field!r}: ' if field else ''}{fault['msg'].removeprefix('Value error, ')}")
    return "; ".join([*(f"{what} fields: {', '.join(names)}" for what, names in found.items() if names), *others])
