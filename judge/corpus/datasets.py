"""Folders of `datasets`: what ``save_to_disk`` leaves, and folders of Parquet files as on the Hugging Face hub.

- ``Dataset.save_to_disk``: ``state.json`` names the Arrow files beside it; ``DatasetDict.save_to_disk``:
  ``dataset_dict.json`` names the splits, each a folder like that.
- Parquet: ``train-00000-of-00002.parquet`` in the folder, in ``data/``, or in folders that are called as the split.

Neither the package nor any code that lies in such a folder runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from judge.corpus.columnar import read_arrow, read_parquet
from judge.corpus.tables import Placed, Row, load_json
from judge.errors import JudgeError
from judge.utils.files import is_encodable
from judge.utils.reading import DESCRIPTION, read_text

DICT, STATE = "dataset_dict.json", "state.json"
_LONGEST = 255  # Of a file's name, in bytes, on every usual file system.
_SHARD = re.compile(r"(.+?)-[0-9]+-of-[0-9]+(?:-[0-9a-f]+)?")
_SPLIT = re.compile(r"(?:train|training|valid|validation|val|dev|test|testing|eval|evaluation)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a data set.

    Attributes:
        path: the file.
        name: relative to the folder, for messages.
        split: the split that it belongs to; None where nothing says it.
    """

    path: Path
    name: str
    split: str | None

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet; else Arrow."""
        return self.path.suffix == ".parquet"


def find_parts(folder: Path) -> list[Part]:
    """The files of a data set in ``folder``, in order; none where it is no data set.

    Raises:
        JudgeError: what describes the data set cannot be read; it names files elsewhere, or a saved selection.
    """
    if (folder / DICT).is_file():
        return _dict(folder)
    if (folder / STATE).is_file():
        return _saved(folder, folder, None)
    parquet = sorted(folder.glob("*.parquet")) or sorted((folder / "data").glob("*.parquet"))
    return [_parquet(folder, path) for path in parquet or sorted(folder.glob("*/*.parquet"))]


def read_rows(part: Part, *, source: str, wanted: Collection[str] | None = None) -> Iterator[list[Row]]:
    """The rows of a file, some at a time; those of a split have a column ``split``, if there is none.

    Raises:
        JudgeError: it cannot be read.
    """
    read = read_parquet if part.is_parquet else read_arrow
    number = 0
    for rows in read(part.path, source=f"{source}, {part.name}", wanted=wanted):
        placed: list[Row] = []
        for number, row in enumerate(rows, start=number + 1):  # noqa: B020 - numbers go on
            if part.split is not None:
                row.setdefault("split", part.split)
            placed.append(Placed(row, part.name, number))
        yield placed


def _dict(folder: Path) -> list[Part]:
    where, described = str(folder / DICT), _describe(folder / DICT)
    splits = described.get("splits")
    if not isinstance(splits, list) or not splits:
        raise JudgeError("names no 'splits'", where=where, mend="save the data set again")
    parts: list[Part] = []
    for split in splits:
        name = _plain(split, where)
        parts += _saved(folder, folder / name, name)
    return parts


def _saved(root: Path, folder: Path, split: str | None) -> list[Part]:
    where, state = str(folder / STATE), _describe(folder / STATE)
    if state.get("_indices_files") or state.get("_indices_data_files"):
        what = "is a selection of other rows, saved by an old version of datasets"
        raise JudgeError(what, where=where, mend="load it, flatten_indices() and save it again")
    files = state.get("_data_files")
    if not isinstance(files, list) or not all(isinstance(file, dict) for file in files):
        raise JudgeError("'_data_files' is no list of objects", where=where, mend="save the data set again")
    paths = [folder / _plain(file.get("filename"), where) for file in files]
    return [Part(path, path.relative_to(root).as_posix(), split) for path in paths]


def _parquet(root: Path, path: Path) -> Part:
    """The split is what the file is called before "-00000-of-00002", or a usual name of the file or its folder."""
    split = None
    if found := _SHARD.fullmatch(path.stem):
        split = found[1]
    else:
        split = next((name for name in (path.stem, path.parent.name) if _SPLIT.fullmatch(name)), None)
    if path.parent == root and split == root.name:
        split = path.stem if _SPLIT.fullmatch(path.stem) else None  # The folder's own name is the user's choice.
    return Part(path, path.relative_to(root).as_posix(), split)


def _describe(path: Path) -> dict[str, object]:
    try:
        DESCRIPTION.refuse(path.stat().st_size, str(path), instead="save the data set again")
        value = load_json(read_text(path), source=str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise JudgeError(f"cannot be read ({reason})", where=str(path), mend="save the data set again") from error
    if not isinstance(value, dict):
        raise JudgeError("is no object", where=str(path), mend="save the data set again")
    return value


def _plain(name: object, where: str) -> str:
    """The name of a file beside: nothing that leads elsewhere."""
    fits = isinstance(name, str) and is_encodable(name) and 0 < len(name.encode()) <= _LONGEST
    if not isinstance(name, str) or not fits or name in {".", ".."} or set(name) & set("/\\\0:"):
        raise JudgeError(f"{str(name)[:60]!a} is no file's name", where=where, mend="save the data set again")
    return name
