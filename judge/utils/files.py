"""Outputs appear whole or not at all: written beside, then renamed."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from judge.errors import JudgeError
from judge.utils.launch import is_main_process

LOG = "log.jsonl"
TRACKING = "tracking"  # Folder of what experiment trackers write.


@contextmanager
def writing(where: str | Path, mend: str = "name a folder that you own, on a disk with room") -> Iterator[None]:
    """Errors of writing become one line for the user.

    Raises:
        JudgeError: a full or foreign disk, a folder that is a file.
    """
    try:
        yield
    except OSError as error:
        raise JudgeError(f"cannot be written ({error.strerror})", where=str(where), mend=mend) from error


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path`` and rename: readers see the old file or the new one, never half of it."""
    with beside(path) as file:
        file.write_bytes(data)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A file to write, which is then renamed to ``path``; nothing is left of it where writing fails."""
    written = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        yield written
        with written.open("rb+") as file:
            os.fsync(file.fileno())
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def append(log: Path, event: str, **facts: Any) -> None:
    """Append one line to a log: time (seconds since 1970), event, facts."""
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": round(time.time(), 3), "event": event, **facts}) + "\n")


def fingerprint_of(reference: str) -> tuple[tuple[str, int, int], ...]:
    """Fingerprint of a weights folder: (name, bytes, time of writing in ns) of its files.

    Empty for anything but a folder: a name on the hub stands for itself.
    """
    folder = Path(reference).expanduser()
    known = bool(reference) and folder.is_dir()  # Of "" pathlib makes the folder that one happens to be in.
    files = sorted(path for path in folder.iterdir() if path.is_file()) if known else []
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)


def with_way_on(error: JudgeError, command: str) -> JudgeError:
    """``error`` with the command that goes on from what is finished."""
    go_on = f"go on from what is finished with: {command}"
    return JudgeError(error.what, where=error.where, mend=f"{error.mend}; then {go_on}" if error.mend else go_on)


class OutputFolder:
    """A folder that a command makes: written under another name beside it, renamed in the last step.

    Args:
        path: the folder to make.
        marker: a file that every such folder holds, which tells it from any other folder.
        what: what it is, in messages: "run".
        overwrite: replace the one that lies there, once the new one is complete. Never anything else.
    """

    def __init__(self, path: Path, *, marker: str, what: str, overwrite: bool = False) -> None:
        self.given = Path(path)
        self.path = self.given.resolve()
        self.marker, self.what = marker, what
        self.overwrite = overwrite
        # A name that nobody else has: what is found there is never taken over, nor removed.
        self.partial = self.path.parent / f".{self.path.name or what}.{os.getpid()}.{time.time_ns()}.partial"
        self.made: list[Path] = []

    @property
    def where(self) -> str:
        """The option and its value, for messages."""
        return f"--out {self.given}"

    def check(self) -> None:
        """Refuse a place that cannot be used, before any work is done.

        Raises:
            JudgeError: a file; a folder that holds another one (without ``overwrite``) or anything else;
                not writable.
        """
        if self.path.exists() and not self.path.is_dir():
            raise JudgeError("is a file", where=self.where, mend="name a folder")
        if self.path.is_dir() and any(self.path.iterdir()):
            if not (self.path / self.marker).is_file():
                mend = "name another folder"
                raise JudgeError(f"holds something that is no {self.what}", where=self.where, mend=mend)
            if not self.overwrite:
                mend = "name another folder, or add --overwrite"
                raise JudgeError(f"holds another {self.what}", where=self.where, mend=mend)
        parent = next(folder for folder in [*self.path.parents, self.path] if folder.exists())
        probe = parent / f".judge.{time.time_ns()}"
        with self.writing():
            probe.mkdir()
            probe.rmdir()

    def keep(self, inputs: Iterable[Path]) -> None:
        """Refuse to replace a folder that holds what the command reads.

        Raises:
            JudgeError: one of ``inputs`` lies in it, or is it.
        """
        for path in inputs:
            if path.resolve().is_relative_to(self.path) or path.absolute().is_relative_to(self.path):
                raise JudgeError(f"holds {path.name}, which is read", where=self.where, mend="name another folder")

    def writing(self) -> AbstractContextManager[None]:
        """See :func:`writing`."""
        return writing(self.where)

    def begin(self) -> None:
        """Make the working folder; called when everything that can be checked beforehand has been."""
        with self.writing():
            self.made = [folder for folder in self.partial.parents if not folder.exists()]
            self.partial.mkdir(parents=True)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Leave nothing behind if anything goes wrong."""
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the working folder, and its parents where ``begin`` made them."""
        shutil.rmtree(self.partial, ignore_errors=True)
        with suppress(OSError):  # A folder that somebody else has put something into stays.
            for folder in self.made:
                folder.rmdir()

    def publish(self) -> None:
        """Give the working folder its name; what lay there goes."""
        with self.writing():
            old = self.path.with_name(f".{self.path.name}.{time.time_ns()}.old")
            if self.path.exists():
                self.path.rename(old)
            self.partial.rename(self.path)
            shutil.rmtree(old, ignore_errors=True)


class ResumableFolder(OutputFolder):
    """An output folder whose working folder a kill or an error leaves behind, for the same command to go on from.

    Under several processes only the main one makes and removes it.

    Args:
        path, marker, what, overwrite: as of every output folder.
        command: that makes it and goes on, in messages.
    """

    def __init__(self, path: Path, *, marker: str, what: str, command: str, overwrite: bool = False) -> None:
        super().__init__(path, marker=marker, what=what, overwrite=overwrite)
        self.command = command
        self.partial = self.path.parent / f"{self.path.name or what}.partial"

    def check(self) -> None:
        """As of every output folder; and the working folder must be one of these, if it is there.

        Raises:
            JudgeError: a place that cannot be used.
        """
        super().check()
        if self.partial.exists() and not (self.partial / LOG).is_file():
            what = f"{self.partial.name}, where work would go on, holds something that is no {self.what}"
            raise JudgeError(what, where=self.where, mend="name another folder")

    def begin(self) -> None:
        """Make the working folder; called when everything that can be checked beforehand has been."""
        if is_main_process():
            resumed = self.partial.exists()
            if not resumed:
                super().begin()
            with self.writing():
                self.log("resumed" if resumed else "started")
                self.store.mkdir(exist_ok=True)

    @property
    def store(self) -> Path:
        """Where finished members are kept while the command works."""
        return self.partial / "members"

    @contextmanager
    def working(self) -> Iterator[None]:
        """What is finished survives any error, and the same command goes on from it; where nothing is, nothing stays.

        Raises:
            JudgeError: with the command that goes on, where there is anything to go on from.
        """
        try:
            yield
        except JudgeError as error:
            if not self.holds_work():
                self.discard()
                raise
            raise with_way_on(error, f"{self.command} {self.where}") from error

    def holds_work(self) -> bool:
        """Whether anything in the working folder would have to be done again without it."""
        for folder, _, names in os.walk(self.partial):  # Other processes may be at work still, or remove it.
            for path in (Path(folder, name) for name in names):
                with suppress(FileNotFoundError):
                    if path.name != LOG and TRACKING not in path.parts and path.stat().st_size:
                        return True
        return False

    def discard(self) -> None:
        """Remove the working folder."""
        if is_main_process():
            super().discard()

    def log(self, event: str, **facts: Any) -> None:
        """Append one line to ``log.jsonl``; see :func:`append`."""
        append(self.partial / LOG, event, **facts)
