"""``judge data check``: whether the files of a recipe lie in a folder, and our own readers can read them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from judge.commands.console import one_line_errors, say
from judge.corpus.captions import ReadOptions, parse_captions
from judge.corpus.columns import columns_of
from judge.corpus.files import Document, read_document
from judge.corpus.labels import LabelOptions, read_labels
from judge.corpus.recipes import FOLDER, DataFile, LabelNote, Recipe
from judge.corpus.records import canonical_id, records
from judge.corpus.tasks import read_tasks
from judge.errors import JudgeError, nearest
from judge.masking.archives import SUFFIXES
from judge.masking.images import list_images
from judge.report.recipes import DataCheck, FileCheck, ReadyUse, counts
from judge.report.table import how_many
from judge.text.lexicon import Lexicon, load_lexicon, shipped_lexicons

# Numbers that differ from the published ones by more than this share are told.
_NEARLY = 0.01


def check_data(recipe: Recipe, folder: Path) -> DataCheck:
    """What lies in ``folder`` of a recipe's files; each is read as ``judge evaluate`` would read it.

    A file lies where the recipe says, or anywhere below the folder under the same name.

    Raises:
        JudgeError: no such folder.
    """
    if not folder.is_dir():
        raise JudgeError("is no folder", where=str(folder), mend="give the folder that holds the files")
    seen = _Seen()
    # Images last: which of them are wanted, the other files say.
    order = sorted(range(len(recipe.files)), key=lambda place: recipe.files[place].kind == "images")
    found = {place: _check(recipe, recipe.files[place], folder, seen) for place in order}
    files = tuple(found[place] for place in range(len(order)))
    strangers = _strangers(folder, files) if any(file.status == "missing" for file in files) else ()
    return DataCheck(recipe, folder, files, tuple(_uses(recipe, folder, files)), tuple(strangers))


def check_faults(check: DataCheck) -> None:
    """Say in one line that required files are not there, or not what they should be.

    Raises:
        JudgeError: some are not.
    """
    if not (faults := check.faults):
        return
    parts = [
        f"{what}: {', '.join(paths)}"
        for status, what in (("missing", "missing"), ("wrong", "not what it should be"))
        if (paths := [fault.file.path for fault in faults if fault.status == status])
    ]
    required, recipe = sum(file.required for file in check.recipe.files), check.recipe
    are = "is" if len(faults) == 1 else "are"
    what = f"{len(faults)} of {required} required files of {recipe.name} {are} not good ({'; '.join(parts)})"
    if recipe.access == "not released":
        mend = f"make them: judge data show {recipe.name}"
    else:
        missing = [fault.file for fault in faults if fault.status == "missing"]
        places = dict.fromkeys(place for file in missing if (place := file.source or recipe.page))
        mend = f"get what is missing from {', '.join(places)}" if places else "mend it as said above"
    raise JudgeError(what, where=str(check.folder), mend=mend)


@dataclass
class _Seen:
    """Image ids that files name: those with a class, and all of them."""

    labelled: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)

    def wanted(self) -> tuple[set[str], str]:
        """The images that are looked for, and what they are."""
        return (self.labelled, "labelled images") if self.labelled else (self.named, "images of the files")


def _check(recipe: Recipe, file: DataFile, folder: Path, seen: _Seen) -> FileCheck:
    paths = tuple(find(file, folder, recipe))
    if not paths:
        return FileCheck(file, (), "missing", (file.what,))
    lines: list[str] = []
    faults: dict[str, str] = {}  # Attribute -> what is wrong with its labels.
    try:
        _check_alone(file, paths, folder)
        for path in paths:
            found = list(_images(path, seen) if file.kind == "images" else _read(file, path, seen))
            for name in file.attributes:
                try:
                    found.append(_labels(path, recipe.label(name), seen))
                except JudgeError as error:
                    faults.setdefault(name, str(error).replace(f"{folder}/", ""))
            lines += [f"{path.name}: {line}" for line in found] if len(paths) > 1 else found
    except JudgeError as error:
        line = str(error).replace(f"{folder}/", "")
        return FileCheck(file, paths, "wrong", (line, f"should be: {file.what}"))
    if faults:
        told = (*lines, *dict.fromkeys(faults.values()), f"should be: {file.what}")
        return FileCheck(file, paths, "wrong", told, tuple(faults))
    return FileCheck(file, paths, "ok", tuple(lines))


def _check_alone(file: DataFile, paths: Sequence[Path], folder: Path) -> None:
    if len(paths) > 1 and "*" not in file.path:
        names = ", ".join(path.relative_to(folder).as_posix() for path in paths[:3])
        raise JudgeError(f"{len(paths)} have this name ({names})", mend="keep one of them in this folder")


def find(file: DataFile, folder: Path, recipe: Recipe) -> list[Path]:
    """Where a file of a recipe lies: as the recipe has it, else below the folder under the same name.

    Of several (``*`` in its name) none is among them that another entry names whole.
    """
    is_kind = Path.is_dir if file.kind == "images" else Path.is_file
    taken = {PurePosixPath(other.path).name for other in recipe.files} if "*" in file.path else set()
    for found in (folder.glob(file.path), folder.rglob(PurePosixPath(file.path).name)):
        if paths := sorted(path for path in found if is_kind(path) and path.name not in taken):
            return paths
    return []


def _read(file: DataFile, path: Path, seen: _Seen) -> list[str]:
    """What a file holds but for labels, a line each.

    Raises:
        JudgeError: our readers cannot read it; it lacks a column.
    """
    lines = []
    if file.kind in {"objects", "instances"}:
        tasks = read_tasks(path)
        seen.named.update(tasks.by_image)
        lines.append(_compared({"images": len(tasks.by_image), "categories": len(tasks.names)}, file.published))
    if file.kind in {"captions", "records"}:
        document = read_document(path)
        if file.fields:
            lines += _records(document, file.fields)
        if file.kind == "captions":
            lines.append(_captions(document, file, seen))
    return lines


def _records(document: Document, fields: Sequence[str]) -> list[str]:
    """How many records a table has, whose columns ``fields`` are there."""
    rows = records(document.value, source=document.source)
    known = columns_of(rows)
    for name in fields:
        if name not in known:
            raise JudgeError(f"no column '{name}'", where=document.source, mend=nearest(name, known))
    return [f"{how_many(len(rows), 'record')} with {', '.join(fields)}"]


def _captions(document: Document, file: DataFile, seen: _Seen) -> str:
    options = ReadOptions(columns=file.columns or None)
    found = parse_captions(document, options, side=file.side, name=file.side)
    seen.named.update(found.by_image)
    numbers = {"images": len(found.by_image), "captions": sum(map(len, found.by_image.values()))}
    left_out = {"empty": found.empty, "refusals": found.refused}
    dropped = {name: count for name, count in left_out.items() if count}
    told = f"; left out: {counts(dropped)}" if dropped else ""
    return _compared(numbers, file.published) + told + (f"; cleaned: {counts(found.cleaned)}" if found.cleaned else "")


def _labels(path: Path, note: LabelNote, seen: _Seen) -> str:
    """Classes and what is left out, with their numbers of images.

    Raises:
        JudgeError: they cannot be read; they are others than the recipe's.
    """
    if note.attribute in shipped_lexicons():
        lexicon = load_lexicon(note.attribute)
    else:  # Of words for labels alone: the reader then tells the record of any other.
        lexicon = Lexicon(note.attribute, "", dict.fromkeys(note.classes, frozenset()))
    options = LabelOptions(note.rule, label_column=note.column or None)
    labels = read_labels(path, attribute=note.attribute, lexicon=lexicon, options=options)
    found = dict.fromkeys(labels.classes, 0)
    for label in labels.by_image.values():
        found[label] += 1
    expected = {name.lower() for name in note.classes}
    strange = [name for name, count in found.items() if count and name.lower() not in expected]
    absent = [name for name in note.classes if not found.get(_as_found(name, found))]
    if strange or absent:
        what = f"'{strange[0]}' is no class of {note.attribute}" if strange else f"no image is '{absent[0]}'"
        column = f" '{note.column}'" if note.column else ""
        mend = f"its classes are {', '.join(note.classes)}; check the column{column}, or mend the recipe"
        raise JudgeError(what, where=str(path), mend=mend)
    seen.labelled.update(labels.by_image)
    left_out = counts(labels.ignored) if labels.ignored else "none"
    numbers = _compared(found, {_as_found(name, found): count for name, count in note.published.items()})
    votes = f"; {counts(labels.votes)}" if labels.votes else ""
    return f"{note.attribute}: {numbers}; left out: {left_out}{votes}"


def _as_found(name: str, found: Mapping[str, int]) -> str:
    """A class as the reader spells it."""
    return next((known for known in found if known.lower() == name.lower()), name)


def _compared(found: Mapping[str, int], published: Mapping[str, int]) -> str:
    """Numbers, with those published where they differ."""
    other = {
        name: count for name, count in published.items() if name in found and abs(found[name] - count) > _NEARLY * count
    }
    return counts(found) + (f" (published: {counts(other)})" if other else "")


def _images(path: Path, seen: _Seen) -> list[str]:
    """How many of the images that other files name lie in a folder.

    Raises:
        JudgeError: it holds no image, or not all of them.
    """
    there = set()
    pictures = list_images(path)
    for name in pictures:
        try:
            there.add(canonical_id(name))
        except ValueError:  # Names nothing that an image can be called.
            continue
    wanted, what = seen.wanted()
    if not wanted:
        return [how_many(len(pictures), "image")]
    lie = f"{how_many(len(pictures), 'image')}; {len(wanted & there):,} of {len(wanted):,} {what} lie here"
    if missing := sorted(wanted - there, key=lambda image: (len(image), image)):
        examples = ", ".join(missing[:3])
        raise JudgeError(f"{lie}, {len(missing):,} do not ({examples} ...)", mend="add the images of these ids")
    return [lie]


def _uses(recipe: Recipe, folder: Path, files: Sequence[FileCheck]) -> list[ReadyUse]:
    """The recipe's commands for this folder."""
    found = []
    for use in recipe.use:
        given, words = shlex.split(use.command.replace("--attribute=", "--attribute ")), []
        attributes = _attributes(given)
        lacking = [path for path in use.needs if _place(path, files, attributes) is None]
        for word in given:
            name, marked, path = word.partition(FOLDER)
            if not marked:
                words.append(word)
                continue
            path = path.lstrip("/")
            place = _place(path, files, attributes)
            if place is None:
                lacking.append(path)
            words.append(f"{name}{place or folder / path}")
        found.append(ReadyUse(use, shlex.join(words), tuple(dict.fromkeys(lacking))))
    return found


def _attributes(command: Sequence[str]) -> set[str]:
    """The attributes that a command measures."""
    given = [value for option, value in pairwise(command) if option == "--attribute"]
    return {name for value in given for name in value.split(",")} or {"gender"}


def _place(path: str, files: Sequence[FileCheck], attributes: Set[str]) -> Path | None:
    """Where the file that a command of ``attributes`` calls ``path`` lies; None where it is missing or wrong."""
    for found in files:
        if PurePosixPath(path).match(found.file.path) or path == found.file.path:
            name = PurePosixPath(path).name
            good = found.status == "ok" or (found.faulty and attributes.isdisjoint(found.faulty))
            return next((place for place in found.paths if place.name == name), None) if good else None
    return None


def _strangers(folder: Path, files: Sequence[FileCheck]) -> Iterator[str]:
    """Files that no part of the recipe reads; of images their folders, which end in "/"."""
    known = {path for found in files for path in found.paths}
    for root, below, names in os.walk(folder):
        at = Path(root)
        below[:] = sorted(name for name in below if not name.startswith(".") and at / name not in known)
        pictures = {name for name in names if Path(name).suffix.lower() in SUFFIXES}
        if pictures and at != folder:
            yield f"{at.relative_to(folder).as_posix()}/"
        others = sorted(name for name in names if name not in pictures and not name.startswith("."))
        yield from ((at / name).relative_to(folder).as_posix() for name in others if at / name not in known)


Name = Annotated[str, typer.Argument(metavar="NAME", help="a recipe of judge data list, or a YAML file of your own")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="where the files lie")]


def data_list() -> None:
    """List the data sets that there are recipes of: who gets them, and the attributes that they have labels of."""
    with one_line_errors():
        from judge.corpus.recipes import read_shipped
        from judge.report.recipes import recipe_table
        from judge.report.render import print_table

        print_table(recipe_table(read_shipped()))


def data_show(name: Name) -> None:
    """Show a recipe: files, licence, who may have it, how its labels were made and their limits, commands."""
    with one_line_errors():
        from judge.corpus.recipes import load_recipe
        from judge.report.recipes import recipe_lines, wrapped
        from judge.report.render import open_console

        for text in wrapped(recipe_lines(load_recipe(name)), open_console().width):
            for line in text.split("\n"):
                say(line)


def data_check(name: Name, folder: Folder) -> None:
    """Check the files in a folder against a recipe: each is read, and counted; then what is missing, and commands.

    Exit code 2: a required file is missing, or is not what it should be.
    """
    with one_line_errors():
        from judge.corpus.recipes import load_recipe
        from judge.report.recipes import check_lines, wrapped
        from judge.report.render import open_console

        check = check_data(load_recipe(name), folder)
        for text in wrapped(check_lines(check), open_console().width):
            for line in text.split("\n"):
                say(line)
        check_faults(check)
