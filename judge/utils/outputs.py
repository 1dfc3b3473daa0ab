"""Outputs of commands: whole or not at all, made by one command at a time; files of others are never deleted."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from judge.errors import FAULTS, JudgeError
from judge.utils.files import (
    LOG,
    TEMPORARY,
    append,
    as_mendable,
    check_writable,
    remove,
    remove_empty,
    resolved,
    with_way_on,
    write_whole,
    writing,
)
from judge.utils.launch import is_main_process
from judge.utils.reading import read_bytes

MANIFEST = ".caption-judge"
_OTHER = "name another file, or add --overwrite"
_WAIT = 2.0  # Seconds: a killed command's workers may hold its lock a moment longer.


class Lock:
    """A file beside an output that one process at a time holds; the system frees it when the process ends."""

    def __init__(self, out: Path, where: str) -> None:
        self.path, self.where = out.parent / f"{TEMPORARY}{out.name}.lock", where
        self._lock = FileLock(self.path, thread_local=False)

    def acquire(self, seconds: float = _WAIT) -> None:
        """Take the lock; refused if another process still holds it after ``seconds``."""
        try:
            self._lock.acquire(timeout=seconds)
        except Timeout:
            option = self.where.partition(" ")[0] or "place"
            what, mend = "another command is at work there", f"wait for it, or name another {option}"
            raise JudgeError(what, where=self.where, mend=mend) from None

    def release(self) -> None:
        """Free the lock, if it is held, and remove its file."""
        if self._lock.is_locked:
            with suppress(OSError):
                self.path.unlink()
            self._lock.release()

    @contextmanager
    def holding(self, seconds: float = _WAIT) -> Iterator[None]:
        """Hold the lock meanwhile; see :meth:`acquire`."""
        self.acquire(seconds)
        try:
            yield
        finally:
            self.release()

    def check(self) -> None:
        """Refuse an output that another process makes."""
        if self.path.exists():
            self.acquire()
            self.release()


def write_manifest(folder: Path, kind: str) -> None:
    """Write ``.caption-judge`` into ``folder``: its kind, this package's version, and the names of its files."""
    content = {"kind": kind, "version": version("caption-judge"), "files": names_in(folder)}
    write_whole(folder / MANIFEST, (json.dumps(content, indent=0) + "\n").encode())


def read_manifest(folder: Path, kind: str | None = None) -> set[str] | None:
    """The names in the manifest of ``folder``; None if it has no manifest, or one of another kind."""
    try:
        content = json.loads(read_bytes(folder / MANIFEST))
        return {str(name) for name in content["files"]} if kind in {None, content["kind"]} else None
    except (OSError, *FAULTS):
        return None


def names_in(folder: Path) -> list[str]:
    """All that lies in ``folder`` except its manifest and temporary files, sorted; names of folders end in "/"."""

    def refuse(error: OSError) -> None:
        raise error  # A folder that cannot be listed may hold files of others.

    found = set[str]()
    for base, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(TEMPORARY)]
        paths = [Path(base, name) for name in (*folders, *files) if not name.startswith(TEMPORARY)]
        found |= {p.relative_to(folder).as_posix() + "/" * (p.is_dir() and not p.is_symlink()) for p in paths}
    return sorted(found - {MANIFEST})


class OutputFolder:
    """A folder that a command makes: written as ``NAME.partial`` beside it, and renamed in the last step.

    While a command works on it, no other does. Its manifest lists what it holds: nothing else is ever replaced.

    Args:
        path: the folder to make.
        what: what it is, in messages and in its manifest: "run".
        overwrite: replace an earlier output at ``path``, once the new one is complete.
        command: "judge evaluate": ``NAME.partial`` survives a kill or an error, and this command resumes from it. Of
            the processes of a launch only the main one makes and removes it. "" for a command that starts anew.
        store: name of the folder in it for finished work, which is removed when all is done.
    """

    def __init__(
        self, path: Path, *, what: str, overwrite: bool = False, command: str = "", store: str = "members"
    ) -> None:
        self.path, self.where = resolved(Path(path)), f"--out {path}"
        self.what, self.overwrite, self.command = what, overwrite, command
        self.partial = self.path.parent / f"{self.path.name or what}.partial"
        self.store = self.partial / store
        self.lock = Lock(self.path, self.where)
        self._replaced = self.path.parent / f"{TEMPORARY}{self.path.name}.replaced"
        self._made: list[Path] = []
        self._begun = False

    def writing(self) -> AbstractContextManager[None]:
        """See :func:`judge.utils.files.writing`."""
        return writing(self.where)

    def check(self, reads: Iterable[Path] = ()) -> None:
        """Refuse a place that cannot be used, before any work; what the command ``reads`` must not lie there."""
        with self.writing():
            if is_main_process():
                self.lock.check()
                if self._replaced.exists() or (self.command and (self.path / self.store.name).exists()):
                    with self.lock.holding():
                        self._recover()
                self._check_partial()
            for path in reads:
                if resolved(path).is_relative_to(self.path) or path.absolute().is_relative_to(self.path):
                    what = f"{path}, which is read, lies in it"
                    raise JudgeError(what, where=self.where, mend="name another folder")
            self._check_replaced()
            check_writable(next(folder for folder in [*self.path.parents, self.path] if folder.exists()))

    def _check_replaced(self) -> None:
        """Refuse to replace what the user did not ask to replace, and what no such command made."""
        folder = self.path
        if folder.exists() and not folder.is_dir():
            raise JudgeError("is a file", where=self.where, mend="name a folder")
        if os.path.ismount(folder):
            raise JudgeError("is a mounted disk, which cannot be renamed", where=self.where, mend="name a folder in it")
        if not folder.exists() or not any(folder.iterdir()):
            return
        listed, mend = read_manifest(folder, self.what), "name another folder"
        if listed is None:
            raise JudgeError(f"holds something that is no {self.what}", where=self.where, mend=mend)
        if foreign := next((name for name in names_in(folder) if name not in listed), None):
            what = f"holds {foreign}, which is no part of this {self.what}"
            raise JudgeError(what, where=self.where, mend=f"move it elsewhere, or {mend}")
        if not self.overwrite:
            raise JudgeError(f"holds a finished {self.what}", where=self.where, mend=f"{mend}, or add --overwrite")

    def _check_partial(self) -> None:
        """Refuse to work in a folder that no such command made."""
        if not self.partial.exists() or read_manifest(self.partial, self.what) is not None:
            return
        if not self.partial.is_dir() or (held := names_in(self.partial)):
            what = f"{self.partial.name}, where the command works, holds something that is no {self.what}"
            what += f": {held[0]}" if self.partial.is_dir() else ""
            raise JudgeError(what, where=self.where, mend="move it elsewhere, or name another folder")

    def begin(self) -> None:
        """Make the working folder, or take up the one that was left; called when all that can be checked has been."""
        if self.command and not is_main_process():
            return
        with self.writing():
            self._made = [folder for folder in self.partial.parents if not folder.exists()]
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.lock.acquire()
                self._recover()
                self._check_replaced()
                self._check_partial()
                self._begun = True
                if not self.command:
                    remove(self.partial)  # What a killed command left.
                resumed = read_manifest(self.partial, self.what) is not None
                self.partial.mkdir(exist_ok=True)
                if not resumed:
                    write_manifest(self.partial, self.what)
                if self.command:
                    self.log("resumed" if resumed else "started")
                    self.store.mkdir(exist_ok=True)
            except BaseException:
                self._close() if self.holds_work() else self.discard()
                raise

    def _recover(self) -> None:
        """Complete the last steps of a killed command: put back or remove what it replaced, and remove its store."""
        if self._replaced.exists() and not self.path.exists():
            self._replaced.rename(self.path)
        remove(self._replaced)
        left = self.path / self.store.name
        if self.command and f"{left.name}/" in (read_manifest(self.path, self.what) or ()):
            remove(left)
            write_manifest(self.path, self.what)

    @contextmanager
    def working(self) -> Iterator[None]:
        """If anything goes wrong, keep finished work of a command that resumes; else leave nothing behind."""
        try:
            yield
        except BaseException as error:
            begun = self._begun or not is_main_process()
            fault = as_mendable(error, self.where) if self.command else None
            if begun and self.holds_work():
                fault = fault and with_way_on(fault, self.command, self.where)
                error.add_note(f"Finished work is in {self.partial}.")
            else:
                self.discard()
            if fault is None or fault is error:
                raise
            raise fault from error
        finally:
            self._close()

    @contextmanager
    def making(self) -> Iterator[None]:
        """Make the whole folder in the block: :meth:`begin`, :meth:`working` and, at the end, :meth:`publish`."""
        self.begin()
        with self.working(), self.writing():
            yield
            self.publish()

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write files into the working folder, texts in UTF-8 with the line breaks that they have."""
        for name, content in files.items():
            (self.partial / name).write_bytes(content.encode() if isinstance(content, str) else content)

    def holds_work(self) -> bool:
        """Whether a command can resume: the working folder holds more than logs and empty files, or is unreadable."""
        if not self.command:
            return False
        try:
            names = [name for name in names_in(self.partial) if name != LOG]
            return any(not name.endswith("/") and (self.partial / name).stat().st_size for name in names)
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def discard(self) -> None:
        """Remove the working folder, if this process has begun it, and the parents that :meth:`begin` made."""
        try:
            if self._begun:
                remove(self.partial)
        finally:
            self._close()

    def _close(self) -> None:
        self.lock.release()
        remove_empty(self._made)

    def publish(self) -> None:
        """Give the working folder its name, if what lies there by now may be replaced, and remove its store."""
        with self.writing():
            for path in self.partial.rglob(f"{TEMPORARY}*"):
                remove(path)
            write_manifest(self.partial, self.what)  # Lists the store too: a kill may leave it.
            self._check_replaced()
            try:
                if self.path.exists():
                    self.path.rename(self._replaced)
                self.partial.rename(self.path)
            except BaseException:
                self._recover()
                raise
            with suppress(OSError):  # The output is whole: the next command removes what stays.
                self._recover()
        self._close()

    def log(self, event: str, **facts: Any) -> None:
        """Append one line to ``log.jsonl``; see :func:`judge.utils.files.append`."""
        append(self.partial / LOG, event, **facts)


class OutputFile:
    """A file that a command makes: whole or not at all, by one command at a time.

    ``overwrite`` replaces a file, never a device, a pipe or a folder; ``mend``: what to do if one exists.
    """

    def __init__(self, path: Path, *, overwrite: bool = False, where: str = "", mend: str = _OTHER) -> None:
        self.path, self.overwrite, self.where, self.mend = path, overwrite, where or f"--out {path}", mend
        self.lock = Lock(path.absolute(), self.where)

    def check(self, reads: Iterable[Path] = ()) -> None:
        """Refuse a place that cannot be used, before any work."""
        # First of all: the advice to overwrite a file that is read would be wrong.
        if resolved(self.path) in {resolved(read) for read in reads}:
            raise JudgeError(f"{self.path.name} is read", where=self.where, mend="name another file")
        with writing(self.where):
            self.lock.check()
        self.refuse()

    def refuse(self) -> None:
        """Refuse what is there, if it may not be replaced."""
        if self.path.is_dir():
            raise JudgeError("is a folder", where=self.where, mend="name a file")
        if self.path.exists() and not self.path.is_file():
            raise JudgeError("is no file but a device or a pipe", where=self.where, mend="name a file")
        if os.path.lexists(self.path) and not self.overwrite:
            raise JudgeError("is there already", where=self.where, mend=self.mend)

    @contextmanager
    def working(self) -> Iterator[None]:
        """No other command makes the file meanwhile; its folder is made, and removed if nothing is put into it."""
        made = [folder for folder in self.path.absolute().parents if not folder.exists()]
        try:
            with writing(self.where):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.lock.acquire()
            self.refuse()
            yield
        finally:
            self.lock.release()
            remove_empty(made)

    def write(self, data: bytes) -> None:
        """Write the file, if what exists by now may be replaced."""
        self.refuse()
        with writing(self.where):
            write_whole(self.path, data)
