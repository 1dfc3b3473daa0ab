"""Captions of an unfinished run: every process of a launch keeps its own, any number of processes takes them up."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judge.errors import FAULTS, JudgeError
from judge.utils.files import warn_damaged, writing
from judge.utils.reading import open_regular

_OURS = b'{"caption-judge": "'  # How a file of notes begins.
About = tuple[str, str]
"""An image's id, and the key of its picture."""


def notes_files(path: Path) -> list[Path]:
    """The files that the processes of a launch, however many they were, have left at ``path``."""
    name = re.compile(re.escape(path.name) + r"(\.[1-9][0-9]*)?")
    return sorted(file for file in path.parent.glob("*") if name.fullmatch(file.name))


def check_notes(path: Path) -> None:
    """Refuse files at ``path`` that have the names of notes, and are somebody else's.

    Raises:
        JudgeError: a file that is not empty begins otherwise.
    """
    for file in notes_files(path):
        with writing(file):
            ours = file.is_file() and file.read_bytes()[: len(_OURS)] in {b"", _OURS}
        if not ours:
            what, mend = "holds no captions of an unfinished run, where they would be kept", "move it elsewhere"
            raise JudgeError(what, where=str(file), mend=mend)


class Notes:
    """Captions of an unfinished run: a file of JSON lines, each on the disk before the next batch begins.

    The first line says what they depend on. Notes of something else, and a line that was cut with all after it, give
    way to the first caption that is added.

    Args:
        path: the main process's file, to whose name other processes add their numbers; None to keep nothing.
        key: what captions depend on.
        process: of a launch. The main one (0) reads the files of all, the others their own.

    Attributes:
        entries: what was read: (image id, the picture's key) -> caption.

    Raises:
        JudgeError: a file cannot be read or written, or is somebody else's.
    """

    def __init__(self, path: Path | None, key: str, *, process: int = 0) -> None:
        self.path = path.with_name(f"{path.name}.{process}") if path and process else path
        self.key = key
        self.entries: dict[About, str] = {}
        self._sound = 0  # bytes of ``path``
        if path:
            check_notes(path)
        for file in notes_files(path) if path else []:
            if file == self.path or not process:
                with writing(file):
                    sound = self._read(file)
                self._sound = sound if file == self.path else self._sound

    def _read(self, path: Path) -> int:
        """Take up the entries of a file; how many bytes of it are sound."""
        with open_regular(path) as file:
            sound = 0
            for line in iter(file.readline, b""):
                if not line.endswith(b"\n"):
                    break  # A kill cut it.
                try:
                    found = json.loads(line)
                except FAULTS:
                    warn_damaged(path, f"damaged after {len(self.entries)} captions")
                    break
                if sound:
                    image, key, caption = found
                    self.entries[image, key] = caption
                elif found != {"caption-judge": self.key}:
                    break
                sound += len(line)
            return sound

    def add(self, entries: Mapping[About, str]) -> None:
        """Append (image id, the picture's key) -> caption.

        Raises:
            JudgeError: the file cannot be written.
        """
        if self.path is None or not entries:
            return
        values: list[Any] = [] if self._sound else [{"caption-judge": self.key}]
        values += [[*about, caption] for about, caption in entries.items()]
        lines = b"".join(json.dumps(value).encode() + b"\n" for value in values)
        with writing(self.path), self.path.open("ab") as file:
            file.truncate(self._sound)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        self._sound += len(lines)
