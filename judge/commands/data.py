"""``judge data``: recipes of data sets; whether the files of one lie in a folder, and our own readers can read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from judge.commands.console import say
from judge.corpus.captions import ReadOptions, parse_captions
from judge.corpus.columns import columns_of
from judge.corpus.files import Document, read_document
from judge.corpus.labels import LabelOptions, read_labels
from judge.corpus.recipes import DataFile, LabelNote, Recipe, load_recipe, read_shipped
from judge.corpus.records import canonical_id, records
from judge.corpus.tasks import read_tasks
from judge.errors import JudgeError, nearest
from judge.masking.images import list_images
from judge.report.recipes import (
    DataCheck,
    FileCheck,
    check_lines,
    counts,
    recipe_lines,
    recipe_table,
    wrapped,
)
from judge.report.render import open_console, print_table
from judge.report.table import how_many
from judge.text.lexicon import Lexicon, load_lexicon, shipped_lexicons

# Published numbers are shown where those found differ from them by more than this share.
_NEARLY = 0.01


def check_data(recipe: Recipe, folder: Path) -> DataCheck:
    """Check which files of a recipe lie in ``folder``; each is read as ``judge evaluate`` would read it."""
    if not folder.is_dir():
        raise JudgeError("is no folder", where=str(folder), mend="give the folder that holds the files")
    ids = _ImageIds()
    # Images last: the other files say which of them are needed.
    found = {file.path: _check(recipe, file, folder, ids) for file in sorted(recipe.files, key=_holds_images)}
    return DataCheck(recipe, folder, tuple(found[file.path] for file in recipe.files))


def _holds_images(file: DataFile) -> bool:
    return file.kind == "images"


@dataclass
class _ImageIds:
    """Image ids in the files of a recipe: those with a class, and all."""

    labelled: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)


def _check(recipe: Recipe, file: DataFile, folder: Path, ids: _ImageIds) -> FileCheck:
    # Other files of the recipe may fit a pattern with "*".
    others = {other.path for other in recipe.files} - {file.path}
    is_kind = Path.is_dir if _holds_images(file) else Path.is_file
    found = sorted(path for path in folder.glob(file.path) if path.relative_to(folder).as_posix() not in others)
    if not (paths := tuple(filter(is_kind, found))):
        return FileCheck(file, (), "missing", (file.what,))
    lines: list[str] = []
    try:
        for path in paths:
            known = [_images(path, ids)] if _holds_images(file) else _read(file, path, ids)
            known += [_labels(path, recipe.label(name), ids) for name in file.attributes]
            lines += [f"{path.name}: {line}" for line in known] if len(paths) > 1 else known
    except JudgeError as error:
        line = str(error).replace(f"{folder}/", "")
        return FileCheck(file, paths, "wrong", (line, f"should be: {file.what}"))
    return FileCheck(file, paths, "ok", tuple(lines))


def _read(file: DataFile, path: Path, ids: _ImageIds) -> list[str]:
    """What a file holds apart from labels, a line each."""
    lines = []
    if file.kind in {"objects", "instances"}:
        tasks = read_tasks(path)
        ids.named.update(tasks.by_image)
        lines.append(_compared({"images": len(tasks.by_image), "categories": len(tasks.names)}, file.published))
    if file.kind in {"captions", "records"}:
        document = read_document(path)
        if file.fields:
            lines.append(_records(document, file.fields))
        if file.kind == "captions":
            lines.append(_captions(document, file, ids))
    return lines


def _records(document: Document, fields: Sequence[str]) -> str:
    """How many records a table has, whose columns ``fields`` are there."""
    rows = records(document.value, source=document.source)
    known = columns_of(rows)
    for name in fields:
        if name not in known:
            raise JudgeError(f"no column '{name}'", where=document.source, mend=nearest(name, known))
    return f"{how_many(len(rows), 'record')} with {', '.join(fields)}"


def _captions(document: Document, file: DataFile, ids: _ImageIds) -> str:
    found = parse_captions(document, ReadOptions(columns=file.columns or None), side=file.side, name=file.side)
    ids.named.update(found.by_image)
    numbers = {"images": len(found.by_image), "captions": found.total}
    left_out = {name: n for name, n in {"empty": found.empty, "refusals": found.refused}.items() if n}
    line = _compared(numbers, file.published) + (f"; left out: {counts(left_out)}" if left_out else "")
    return line + (f"; cleaned: {counts(found.cleaned)}" if found.cleaned else "")


def _labels(path: Path, note: LabelNote, ids: _ImageIds) -> str:
    """Classes and what is left out, with their numbers of images."""
    if note.attribute in shipped_lexicons():
        lexicon = load_lexicon(note.attribute)
    else:  # Its classes alone: the reader then reports the record of any other class.
        lexicon = Lexicon(note.attribute, "", dict.fromkeys(note.classes, frozenset()))
    options = LabelOptions(note.rule, label_column=note.column or None)
    labels = read_labels(path, attribute=note.attribute, lexicon=lexicon, options=options)
    found = dict.fromkeys(labels.classes, 0)
    for label in labels.by_image.values():
        found[label] += 1
    spelling = {name.lower(): name for name in found}  # The reader's.
    expected = {spelling.get(name.lower(), name): name for name in note.classes}
    strange = [name for name, count in found.items() if count and name not in expected]
    absent = [name for name in expected if not found.get(name)]
    if strange or absent:
        what = f"'{strange[0]}' is no class of {note.attribute}" if strange else f"no image is '{expected[absent[0]]}'"
        where = f" '{note.column}'" if note.column else ""
        mend = f"its classes are {', '.join(note.classes)}; check the column{where}, or mend the recipe"
        raise JudgeError(what, where=str(path), mend=mend)
    ids.labelled.update(labels.by_image)
    left_out = counts(labels.ignored) if labels.ignored else "none"
    numbers = _compared(found, {spelling.get(name.lower(), name): n for name, n in note.published.items()})
    votes = f"; {counts(labels.votes)}" if labels.votes else ""
    return f"{note.attribute}: {numbers}; left out: {left_out}{votes}"


def _compared(found: Mapping[str, int], published: Mapping[str, int]) -> str:
    """Numbers, with those published where they differ."""
    other = {name: n for name, n in published.items() if name in found and abs(found[name] - n) > _NEARLY * n}
    return counts(found) + (f" (published: {counts(other)})" if other else "")


def _images(path: Path, ids: _ImageIds) -> str:
    """How many of the images that other files name lie in a folder."""
    there, names = set(), list_images(path)
    for name in names:
        try:
            there.add(canonical_id(name))
        except ValueError:  # Not every name is an id.
            continue
    line, wanted = how_many(len(names), "image"), ids.labelled or ids.named
    if not wanted:
        return line
    what = "labelled images" if ids.labelled else "images of the files"
    line += f"; {len(wanted & there):,} of {len(wanted):,} {what} lie here"
    if missing := sorted(wanted - there, key=lambda image: (len(image), image)):
        examples = ", ".join(missing[:3])
        raise JudgeError(f"{line}, {len(missing):,} do not ({examples} ...)", mend="add the images of these ids")
    return line


Name = Annotated[str, typer.Argument(metavar="NAME", help="a recipe of judge data list, or a YAML file of your own")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="where the files lie")]


def data_list() -> None:
    """List the recipes of data sets: who gets them, and the attributes that they have labels of."""
    print_table(recipe_table(read_shipped()))


def data_show(name: Name) -> None:
    """Show a recipe: files, licence, who may have it, how its labels were made and their limits, commands."""
    _print(recipe_lines(load_recipe(name)))


def data_check(name: Name, folder: Folder) -> None:
    """Check the files in a folder against a recipe: each is read, and counted; then what is missing, and commands.

    Exit code 2: a required file is missing, or is not what it should be.
    """
    check = check_data(load_recipe(name), folder)
    _print(check_lines(check))
    if check.faults:
        required, paths = sum(file.required for file in check.recipe.files), [file.path for file in check.faults]
        what = f"{len(paths)} of {required} required files are missing or wrong ({', '.join(paths)})"
        raise JudgeError(what, where=str(folder), mend=f"see judge data show {name}")


def _print(lines: Iterable[str]) -> None:
    for text in wrapped(lines, open_console().width):
        for line in text.split("\n"):
            say(line)
