"""Captions of an unfinished run, in JSON lines: each process of a launch writes a file, any number of them resume."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from judge.errors import JudgeError
from judge.utils.files import read_json_lines, write_whole, writing

About = tuple[str, str]
"""An image's id, and the key of its content and mask."""


def notes_files(path: Path) -> list[Path]:
    """The files that the processes of a launch, however many, have left at ``path``."""
    name = re.compile(re.escape(path.name) + r"(\.[1-9][0-9]*)?")
    return sorted(file for file in path.parent.glob("*") if name.fullmatch(file.name))


def check_notes(path: Path) -> None:
    """Refuse other files at ``path``.

    Raises:
        JudgeError: a file is not empty and does not hold notes.
    """
    for file in notes_files(path):
        if not file.is_file() or (file.stat().st_size and not _read(file)):
            what, mend = "holds no captions of an unfinished run, which would be written there", "move it elsewhere"
            raise JudgeError(what, where=str(file), mend=mend)


def _read(path: Path) -> list[list[str]]:
    """The sound lines of a file: key, image id, key of the image, caption."""
    with writing(path):
        return [line for line in read_json_lines(path) if isinstance(line, list) and len(line) == 4]


class Notes:
    """Captions of an unfinished run: each batch is on the disk before the next begins.

    Args:
        path: the main process's file; other processes append their numbers to its name. None to keep nothing.
        key: hash of what captions depend on, except images; notes with another key are not used.
        process: number in the launch. The main one (0) reads the files of all, the others their own.

    Attributes:
        entries: (image id, key of its content and mask) -> caption, as read.

    Raises:
        JudgeError: a file cannot be read or written, or does not hold notes.
    """

    def __init__(self, path: Path | None, key: str, *, process: int = 0) -> None:
        self.path = path.with_name(f"{path.name}.{process}") if path and process else path
        self.key = key
        self.entries: dict[About, str] = {}
        self._earlier: list[list[str]] = []  # The lines of the own file, until it is written for the first time.
        if path is None:
            return
        check_notes(path)
        for file in notes_files(path):
            if file == self.path or not process:
                lines = _read(file)
                self.entries |= {(image, about): caption for of, image, about, caption in lines if of == key}
                self._earlier += lines if file == self.path else []

    def add(self, entries: Mapping[About, str]) -> None:
        """Append (image id, key) -> caption.

        Raises:
            JudgeError: the file cannot be written.
        """
        if self.path is None or not entries:
            return
        new = [[self.key, *about, caption] for about, caption in entries.items()]
        with writing(self.path):
            if self._earlier:  # Without a line that a kill has cut.
                write_whole(self.path, _lines(self._earlier))
                self._earlier = []
            with self.path.open("ab") as file:
                file.write(_lines(new))
                file.flush()
                os.fsync(file.fileno())


def _lines(entries: list[list[str]]) -> bytes:
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()
