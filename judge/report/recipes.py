"""Data recipes as text."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from judge.corpus.recipes import FOLDER, LabelNote, Recipe
from judge.report.table import Table, table_of


def recipe_table(recipes: Sequence[Recipe]) -> Table[tuple[Any, ...]]:
    """A row per recipe: name, title, access, attributes."""
    rows = [(of.name, of.title, of.access, ", ".join(one.attribute for one in of.labels) or None) for of in recipes]
    return table_of(["name", "data", "access", "attributes"], [], rows)


def recipe_lines(recipe: Recipe, folder: Path | None = None) -> Iterator[str]:
    """All of a recipe, a line each, with commands for the files in ``folder``; continued parts are indented."""
    yield f"{recipe.name}: {recipe.title}"
    others = "Send others to the owner's page; keep" if recipe.page else "Keep"
    keep = f"NO. {others} the files, and what says the class of single images, to yourself"
    about = {
        "papers": ", ".join(recipe.papers),
        "page": " ".join([recipe.page, *recipe.pages]).strip(),
        "licence": recipe.licence,
        "access": f"{recipe.access}. {recipe.source}".strip(),
        "who may have it": recipe.audience,
        "passing on": "under the licence above" if recipe.pass_on else keep,
    }
    yield from (f"{name}: {text}" for name, text in about.items() if text)
    parts: dict[str, Iterable[str]] = {
        "files": _files(recipe),
        "labels, as perceived": _labels(recipe.labels),
        "limits": recipe.limits,
        "not verified": recipe.unverified,
        "make your own": recipe.make,
        "commands": _commands(recipe, folder),
    }
    for title, lines in parts.items():
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
        side = "generated " if file.kind == "captions" and file.side == "generated" else ""
        yield f"{file.path} ({side}{file.kind}{'' if file.required else ', optional'}): {file.what}"
        columns = [*file.columns.values(), *file.fields]
        columns += [note.column for name in file.attributes if (note := recipe.label(name)).column]
        if columns:
            yield f"  columns: {', '.join(dict.fromkeys(columns))}"
        if file.published:
            yield f"  published: {_counts(file.published)}"
        if file.source:
            yield f"  from: {file.source}"


def _labels(labels: Sequence[LabelNote]) -> Iterator[str]:
    for note in labels:
        column = f" (column {note.column})" if note.column else ""
        yield f"{note.attribute}{column}: {', '.join(note.classes)}"
        yield f"  perceived by: {note.perceived_by}"
        yield f"  how: {note.how}"
        if note.rule != "one":
            yield f"  of several of one image: {note.rule}"
        if note.published:
            yield f"  published: {_counts(note.published)} images"
        if note.left_out:
            yield f"  left out: {'; '.join(f'{value}: {what}' for value, what in note.left_out.items())}"


def _commands(recipe: Recipe, folder: Path | None) -> Iterator[str]:
    for use in recipe.use:
        needs = f" (needs {', '.join(use.needs)} too)" if use.needs else ""
        words = [word.replace(FOLDER, str(folder)) for word in shlex.split(use.command)]
        yield f"{use.what}{needs}:"
        yield f"  {shlex.join(words) if folder else use.command}"


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name or '(empty)'} {count:,}" for name, count in found.items())
