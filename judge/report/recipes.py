"""Data recipes, and what was found in a folder, as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from textwrap import fill
from typing import Any, Literal

from judge.corpus.recipes import FOLDER, DataFile, LabelNote, Recipe, Use
from judge.report.table import Table, table_of

Status = Literal["ok", "missing", "wrong"]


@dataclass(frozen=True, slots=True)
class FileCheck:
    """The check of one file of a recipe.

    Attributes:
        file: the recipe's entry.
        paths: what was found; () where nothing was.
        status: "wrong": it is there, and not what it should be.
        lines: what is in it; of a wrong one what is wrong.
    """

    file: DataFile
    paths: tuple[Path, ...]
    status: Status
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DataCheck:
    """The check of a folder against a recipe."""

    recipe: Recipe
    folder: Path
    files: tuple[FileCheck, ...]

    @property
    def faults(self) -> list[DataFile]:
        """Required files that are not there, or not what they should be."""
        return [found.file for found in self.files if found.file.required and found.status != "ok"]

    def commands(self) -> Iterator[tuple[Use, str, list[str]]]:
        """The recipe's commands with the folder filled in, and the files that each lacks."""
        wrong = {found.file.path for found in self.files if found.status != "ok"}
        for use in self.recipe.use:
            words = shlex.split(use.command)
            read = [word.partition(f"{FOLDER}/")[2] for word in words] + [*use.needs]
            lacking = [path for path in read if any(PurePosixPath(path or "-").match(file) for file in wrong)]
            command = shlex.join(word.replace(FOLDER, str(self.folder)) for word in words)
            yield use, command, list(dict.fromkeys(lacking))


def recipe_table(recipes: Sequence[Recipe]) -> Table[tuple[Any, ...]]:
    """A row per recipe: name, title, access, attributes."""
    rows = [(of.name, of.title, of.access, ", ".join(one.attribute for one in of.labels) or None) for of in recipes]
    return table_of(["name", "data", "access", "attributes"], [], rows)


def recipe_lines(recipe: Recipe) -> Iterator[str]:
    """All of a recipe, a line each; continued parts are indented, and commands stand alone in their lines."""
    yield f"{recipe.name}: {recipe.title}"
    about = {
        "papers": ", ".join(recipe.papers),
        "page": " ".join([recipe.page, *recipe.pages]).strip(),
        "licence": recipe.licence,
        "access": f"{recipe.access}. {recipe.source}".strip(),
        "who may have it": recipe.audience,
        "passing on": _pass_on(recipe),
    }
    yield from (f"{name}: {text}" for name, text in about.items() if text)
    yield from _part("files", _files(recipe))
    yield from _part("labels, as perceived", _labels(recipe.labels))
    yield from _part("limits", recipe.limits)
    yield from _part("not verified", recipe.unverified)
    yield from _part("make your own", recipe.make)
    yield from _part("commands", (line for use in recipe.use for line in (f"{use.what}:", f"  {use.command}")))


def _pass_on(recipe: Recipe) -> str:
    """Whether the files may be given to others."""
    if recipe.pass_on:
        return "under the licence above"
    others = "Send others to the owner's page; keep" if recipe.page else "Keep"
    return f"NO. {others} the files, and what says the class of single images, to yourself"


def _part(title: str, lines: Iterable[str]) -> Iterator[str]:
    if found := list(lines):
        yield from ("", f"{title}:", *(f"  {line}" for line in found))


def wrapped(lines: Iterator[str], width: int) -> Iterator[str]:
    """Lines of text no wider than ``width``, indented as they begin; commands stay whole, to be copied."""
    for line in lines:
        if line.lstrip().startswith("judge "):
            yield line
        else:
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            yield fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _files(recipe: Recipe) -> Iterator[str]:
    for file in recipe.files:
        yield f"{file.path} ({_kind(file)}): {file.what}"
        columns = [*file.columns.values(), *file.fields]
        columns += [note.column for name in file.attributes if (note := recipe.label(name)).column]
        if columns:
            yield f"  columns: {', '.join(dict.fromkeys(columns))}"
        if file.published:
            yield f"  published: {counts(file.published)}"
        if file.source:
            yield f"  from: {file.source}"


def _kind(file: DataFile) -> str:
    side = "generated " if file.kind == "captions" and file.side == "generated" else ""
    return f"{side}{file.kind}{'' if file.required else ', optional'}"


def _labels(labels: Sequence[LabelNote]) -> Iterator[str]:
    for note in labels:
        column = f" (column {note.column})" if note.column else ""
        yield f"{note.attribute}{column}: {', '.join(note.classes)}"
        yield f"  perceived by: {note.perceived_by}"
        yield f"  how: {note.how}"
        if note.rule != "one":
            yield f"  of several of one image: {note.rule}"
        if note.published:
            yield f"  published: {counts(note.published)} images"
        if note.left_out:
            yield f"  left out: {'; '.join(f'{value}: {what}' for value, what in note.left_out.items())}"


def counts(found: Mapping[str, int]) -> str:
    """Names and numbers: ``female 1,031, male 2,566``."""
    return ", ".join(f"{name or '(empty)'} {count:,}" for name, count in found.items())


def check_lines(check: DataCheck) -> Iterator[str]:
    """The files in the folder, missing files and their sources, and the commands, a line each."""
    recipe = check.recipe
    yield f"{recipe.name} in {check.folder}: {recipe.title}"
    yield ""
    for found in check.files:
        where = ", ".join(path.relative_to(check.folder).as_posix() for path in found.paths[:3]) or found.file.path
        more = f" and {len(found.paths) - 3} more" if len(found.paths) > 3 else ""
        yield f"{found.status:8}{where}{more} ({_kind(found.file)})"
        yield from (f"        {line}" for line in found.lines)
    yield from _part("to get", _to_get(check))
    if not recipe.pass_on:
        yield from ("", f"passing on: {_pass_on(recipe)}")
    commands = [*check.commands()]
    ready = [line for use, command, lacking in commands if not lacking for line in (f"{use.what}:", f"  {command}")]
    yield from _part("ready", ready)
    missing = [f"{use.what}: needs {', '.join(lacking)}" for use, _, lacking in commands if lacking]
    yield from _part("not ready", missing)


def _to_get(check: DataCheck) -> Iterator[str]:
    """Each source once, with what it has that is not there; and who may have it."""
    recipe = check.recipe
    wanted: dict[str, list[str]] = {}
    absent = [found.file for found in check.files if found.status != "ok"]
    for file in absent:
        wanted.setdefault(file.source or recipe.origin, []).append(file.path)
    for source, paths in wanted.items():
        yield f"{', '.join(paths)}: {source or 'the recipe does not say from where'}"
    if recipe.audience and not all(file.source for file in absent):
        yield f"who may have it: {recipe.audience}"
