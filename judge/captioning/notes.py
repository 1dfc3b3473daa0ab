"""Captions of an unfinished run: every process of a launch keeps its own, any number of processes takes them up."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from judge.errors import JudgeError
from judge.utils.files import writing
from judge.utils.kept import DamagedError, seal, tell_damaged, unseal
from judge.utils.opening import open_regular

_SEALED = re.compile(rb'^\["[0-9a-f]{32}", ', re.MULTILINE)
_BEGIN = 100_000
About = tuple[str, str]
"""An image's id, and the key of its picture."""


def notes_files(path: Path) -> list[Path]:
    """The files that the processes of a launch, however many they were, have left at ``path``."""
    name = re.compile(re.escape(path.name) + r"(\.[1-9][0-9]*)?")
    return sorted(file for file in path.parent.glob("*") if name.fullmatch(file.name))


def check_notes(path: Path) -> None:
    """Refuse files at ``path`` that have the names of notes, and are somebody else's.

    Raises:
        JudgeError: none of the first lines of a file that is not empty has a seal, be it a damaged one.
    """
    for file in notes_files(path):
        with writing(file):
            ours = file.is_file() and (not file.stat().st_size or _SEALED.search(_begin_of(file)))
        if not ours:
            what, mend = "holds no captions of an unfinished run, where they would be kept", "move it elsewhere"
            raise JudgeError(what, where=str(file), mend=mend)


def _begin_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_BEGIN)


class Notes:
    """Captions of an unfinished run: a file of JSON lines, each on the disk before the next batch begins.

    The first line says what they depend on. Each has a checksum. Notes of something else, and a line cut in half or
    damaged with all after it, give way to the first caption that is added.

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
                    found = unseal(line, self.key if sound else "")
                except DamagedError as error:
                    tell_damaged(path, f"{error} after {len(self.entries)} captions")
                    break
                if sound:
                    image, key, caption = found
                    self.entries[image, key] = caption
                elif found != self.key:
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
        lines = b"".join(seal([*about, caption], self.key) + b"\n" for about, caption in entries.items())
        lines = lines if self._sound else seal(self.key) + b"\n" + lines
        with writing(self.path), self.path.open("ab") as file:
            file.truncate(self._sound)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        self._sound += len(lines)
