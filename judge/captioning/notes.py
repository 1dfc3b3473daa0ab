"""Captions of an unfinished run, in JSON lines: each process of a launch writes a file, any number of them resume."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judge.errors import FAULTS, JudgeError
from judge.utils.files import writing

About = tuple[str, str]
"""An image's id, and the key of its content and mask."""


def notes_files(path: Path) -> list[Path]:
    """The files that the processes of a launch, however many, have left at ``path``."""
    name = re.compile(re.escape(path.name) + r"(\.[1-9][0-9]*)?")
    return sorted(file for file in path.parent.glob("*") if name.fullmatch(file.name))


def check_notes(path: Path) -> None:
    """Refuse other files at ``path``.

    Raises:
        JudgeError: a file is not empty and does not begin as notes do.
    """
    for file in notes_files(path):
        with writing(file):
            lines = _read_lines(file) if file.is_file() else []
            if not file.is_file() or (file.stat().st_size and not (lines and isinstance(lines[0], dict))):
                what, mend = "holds no captions of an unfinished run, where they would be kept", "move it elsewhere"
                raise JudgeError(what, where=str(file), mend=mend)


def _read_lines(path: Path) -> list[Any]:
    """The values of a file of JSON lines up to the first that is cut or damaged."""
    found = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            found.append(json.loads(line))
        except FAULTS:
            break
    return found


class Notes:
    """Captions of an unfinished run: each batch is on the disk before the next begins.

    The first line holds a key of what the captions depend on; a file with another key is replaced.

    Args:
        path: the main process's file; other processes append their numbers to its name. None to keep nothing.
        key: what the captions depend on.
        process: of a launch. The main one (0) reads the files of all, the others their own.

    Attributes:
        entries: (image id, key of its content and mask) -> caption, as read.

    Raises:
        JudgeError: a file cannot be read or written, or is not of this kind.
    """

    def __init__(self, path: Path | None, key: str, *, process: int = 0) -> None:
        self.path = path.with_name(f"{path.name}.{process}") if path and process else path
        self.entries: dict[About, str] = {}
        self._lines: list[Any] = [{"key": key}]
        if path is None:
            return
        check_notes(path)
        for file in notes_files(path):
            if file == self.path or not process:
                with writing(file):
                    head, *lines = _read_lines(file) or [None]
                lines = [line for line in lines if head == self._lines[0] and isinstance(line, list) and len(line) == 3]
                self.entries |= {(image, about): caption for image, about, caption in lines}
                self._lines += lines if file == self.path else []

    def add(self, entries: Mapping[About, str]) -> None:
        """Append (image id, key) -> caption.

        Raises:
            JudgeError: the file cannot be written.
        """
        if self.path is None or not entries:
            return
        new = [[*about, caption] for about, caption in entries.items()]
        with writing(self.path), self.path.open("ab") as file:
            if self._lines:  # The first time: the sound lines alone.
                file.truncate(0)
            file.write("".join(json.dumps(line) + "\n" for line in [*self._lines, *new]).encode())
            file.flush()
            os.fsync(file.fileno())
        self._lines = []
