"""Recipes of data sets: their owner, their files, and how their labels were made."""

import shlex
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from judge.corpus.labels import Rule
from judge.errors import JudgeError, nearest
from judge.types import Side
from judge.utils.reading import read_yaml, validated

FOLDER = "{folder}"
"""The user's folder, in commands."""

_MEND = "see the recipes that come with the package; quote words that YAML reads otherwise, like 'yes'"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataFile(_Part):
    """A file of a data set, or several of one kind (``*`` in the path); docs/guides/data.md describes the fields."""

    path: str
    what: str
    kind: Literal["labels", "captions", "objects", "instances", "images", "records"]
    required: bool = True
    side: Side = "human"
    columns: dict[str, str] = {}
    fields: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    published: dict[str, int] = {}
    source: str = ""


class LabelNote(_Part):
    """What the labels of one attribute are, and who saw the classes: never the people shown."""

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
    """A data set; docs/guides/data.md describes the fields. Your own recipe needs a name, a title and files."""

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
        for file in self.files:
            for name in sorted({*file.attributes} - {label.attribute for label in self.labels}):
                raise ValueError(f"'{file.path}' has labels of '{name}', which 'labels' does not describe")
        return self


def shipped_recipes() -> dict[str, Path]:
    """Name -> file of the recipes of this checkout, or else of this installation."""
    root = Path(__file__).parents[2]
    # pip puts the files of a wheel under <prefix>/share, with --target under <folder>/share.
    installed = [folder / "share" / "caption-judge" / "recipes" for folder in (root, *root.parents[2:3])]
    folder = next(filter(Path.is_dir, [root / "data" / "recipes", *installed]), root)
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def read_shipped() -> list[Recipe]:
    """All recipes that come with the package; a JudgeError if none is installed."""
    found = shipped_recipes()
    if not found:
        mend = "install it again, or give a recipe's file by its path"
        raise JudgeError("this installation of Caption Judge has no recipes", mend=mend)
    return [read_recipe(path) for path in found.values()]


def find_recipe(name_or_path: str) -> Path:
    """The file of a recipe by its name ("coco-gender-skin"), or a YAML file of the user's."""
    shipped = shipped_recipes()
    if name_or_path not in shipped and Path(name_or_path).suffix not in {".yaml", ".yml"}:
        mend = nearest(name_or_path, list(shipped)) if shipped else "give a recipe's file"
        raise JudgeError(f"no recipe '{name_or_path}'", mend=mend)
    return shipped.get(name_or_path, Path(name_or_path))


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file; a JudgeError for a field that is missing, unknown or contradicts another."""
    return validated(Recipe, read_yaml(path, mend=_MEND), where=str(path), mend=_MEND)
