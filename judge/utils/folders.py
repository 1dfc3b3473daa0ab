"""Folders that commands make: whole or not at all, one command at a time; nothing that a user put there is lost."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from judge.errors import FAULTS, JudgeError
from judge.utils.files import (
    HALF_WRITTEN,
    LOG,
    TRACKING,
    append,
    as_mendable,
    check_writable,
    is_half_written,
    raise_unless_gone,
    remove_empty,
    resolved,
    sweep,
    with_way_on,
    writing,
)
from judge.utils.launch import is_main_process
from judge.utils.listed import (
    LIST,
    Listed,
    find_stranger,
    forget_folder,
    read_list,
    remove_listed,
    remove_own,
    within,
    write_list,
)
from judge.utils.locks import AtWorkError, Lock, is_left, remove, short

_ANNOUNCED = "announced.jsonl"  # In the folder of what is finished: see ``ResumableFolder.announce``.


class OutputFolder:
    """A folder that a command makes: written under another name beside it, renamed in the last step.

    While a command works on it no other does. What it holds is listed in ``.caption-judge``.

    Args:
        path: the folder to make.
        what: what it is, in messages and in its list: "run".
        overwrite: replace the one that lies there, once the new one is complete. Never anything else.
    """

    def __init__(self, path: Path, *, what: str, overwrite: bool = False) -> None:
        self.given = Path(path)
        self.path = resolved(self.given)
        self.what = what
        self.overwrite = overwrite
        self.lock = Lock.beside(self.path, self.where)
        self.partial = self._beside("partial")
        self.made: list[Path] = []
        self.begun = False

    @property
    def where(self) -> str:
        """The option and its value, for messages."""
        return f"--out {self.given}"

    def _beside(self, ending: str) -> Path:
        """A name that nobody else has."""
        return self.path.parent / f".{short(self.path.name)}.{secrets.token_hex(8)}.{ending}"

    def check(self, reads: Iterable[Path] = ()) -> None:
        """Refuse a place that cannot be used, before any work is done.

        Args:
            reads: what the command reads; it must not lie in the folder, nor be it.

        Raises:
            JudgeError: a file; a folder that holds another one (without ``overwrite``) or anything else;
                not writable; another process is at work there.
        """
        with self.writing():
            if is_main_process():
                self.lock.check()
                self.tidy()
            listed = self._listed(self.path)
            for path in reads:
                if resolved(path).is_relative_to(self.path) or path.absolute().is_relative_to(self.path):
                    what, mend = f"holds {path.name}, which is read", "name another folder"
                    raise JudgeError(what, where=self.where, mend=mend)
            self._check_replaced(self.path, listed)
            parent = next(folder for folder in [*self.path.parents, self.path] if folder.exists())
            check_writable(parent)

    def tidy(self) -> None:
        """What a killed command has left goes, or back to its place, unless the same command can go on from it."""
        if is_left(self.lock.path):
            with self.lock.holding():
                self._sweep()

    def _listed(self, folder: Path) -> Listed | None:
        """What the list of ``folder`` names, which lies at the output's place; None where nothing is in it.

        Raises:
            JudgeError: it is none of these.
        """
        if folder.exists() and not folder.is_dir():
            raise JudgeError("is a file", where=self.where, mend="name a folder")
        if os.path.ismount(folder):
            raise JudgeError("is a mounted disk, which cannot be renamed", where=self.where, mend="name a folder in it")
        if not folder.exists() or not any(folder.iterdir()):
            return None
        listed = read_list(folder, self.what)
        if listed is None:
            mend = "name another folder; one of an older version must be removed by hand"
            raise JudgeError(f"holds something that is no {self.what}", where=self.where, mend=mend)
        return listed

    def _check_replaced(self, folder: Path, listed: Listed | None) -> None:
        """Refuse to replace what was not asked to be replaced, and what no such command made."""
        if listed is None:
            return
        if stranger := find_stranger(folder, listed):
            what, mend = "holds {}, which {} of this {}", "move it elsewhere, or name another folder"
            raise JudgeError(what.format(*stranger, self.what), where=self.where, mend=mend)
        if not self.overwrite:
            mend = "name another folder, or add --overwrite"
            raise JudgeError(f"holds another {self.what}", where=self.where, mend=mend)

    def writing(self) -> AbstractContextManager[None]:
        """See :func:`~judge.utils.files.writing`."""
        return writing(self.where)

    def begin(self) -> None:
        """Make the working folder; called when everything that can be checked beforehand has been.

        Raises:
            JudgeError: as of ``check``, as things are by now.
        """
        with self.writing():
            self.made = [folder for folder in self.partial.parents if not folder.exists()]
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.lock.acquire()
                self._sweep()
                self._check_replaced(self.path, self._listed(self.path))
                self.begun = True
                self._make()
            except BaseException:
                self._abandon()
                raise

    def _make(self) -> None:
        self.partial.mkdir()
        write_list(self.partial, self.what)

    def _abandon(self) -> None:
        """``begin`` has failed."""
        self.discard()

    def _sweep(self) -> None:
        """Of killed commands: what they were about to replace goes back to its place, all else of theirs goes."""
        left = re.compile(re.escape(f".{short(self.path.name)}.") + r"[0-9a-f]{16}\.(partial|old)")
        if not self.lock.held or not os.access(self.path.parent, os.R_OK):
            return
        for path in self.path.parent.iterdir():
            kind = left.fullmatch(path.name)
            if kind is None or not _is_ours(path):
                continue
            if kind[1] == "partial":
                shutil.rmtree(path, ignore_errors=True)
            elif self.path.exists():
                remove_listed(path)
            else:
                path.rename(self.path)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Leave nothing behind if anything goes wrong."""
        try:
            yield
        except BaseException:
            self.discard()
            raise
        finally:
            self._close()

    def discard(self) -> None:
        """Remove the working folder, and its parents where ``begin`` made them."""
        shutil.rmtree(self.partial, ignore_errors=True)
        self._close()

    def _close(self) -> None:
        """Let others work here."""
        self.lock.release()
        remove_empty(self.made)

    def publish(self) -> None:
        """Give the working folder its name; of what lay there what its list names goes.

        Raises:
            JudgeError: there is by now what may not be replaced; it stays.
        """
        with self.writing():
            self._replace()
        self._close()

    def _replace(self) -> None:
        write_list(self.partial, self.what, self._contents())
        old = self._beside("old")
        if not self.path.exists():
            self.partial.rename(self.path)
            return
        try:
            self.path.rename(old)
            self._check_replaced(old, self._listed(old))
            self.partial.rename(self.path)
        except BaseException:
            if old.exists() and not self.path.exists():
                old.rename(self.path)
            raise
        with suppress(OSError):  # The new one is in its place.
            remove_listed(old)

    def _contents(self) -> list[str]:
        """Names of all that the working folder holds: nobody else knows where it is."""
        return within(self.partial)


class ResumableFolder(OutputFolder):
    """An output folder whose working folder a kill or an error leaves behind, for the same command to go on from.

    Under several processes only the main one makes and removes it.

    Args:
        path, what, overwrite: as of every output folder.
        command: that makes it and goes on, in messages.
        parts: what it may hold, finished or not, as a regular expression: "run[.]yaml|figures/.*". Anything else,
            unless it was announced, is somebody else's: the command goes no further.
        store: name of the folder in it for what is finished while the command works; no part of what it makes.
    """

    def __init__(
        self, path: Path, *, what: str, command: str, parts: str, overwrite: bool = False, store: str = "members"
    ) -> None:
        super().__init__(path, what=what, overwrite=overwrite)
        self.command = command
        self.partial = self.path.parent / f"{short(self.path.name) or what}.partial"
        self.store = self.partial / store
        always = f"{re.escape(LOG)}|{TRACKING}/.*|{re.escape(store)}/({re.escape(_ANNOUNCED)})?"
        self._parts = re.compile(f"{always}|{parts}", re.DOTALL)
        self._announcing, self._names = threading.Lock(), set[str]()

    def check(self, reads: Iterable[Path] = ()) -> None:
        """As of every output folder; and the working folder must be one of these, if it is there.

        Raises:
            JudgeError: a place that cannot be used.
        """
        super().check(reads)
        if is_main_process() and self.partial.exists():
            if not _is_ours(self.partial, self.what):
                held = [path.name for path in self.partial.iterdir()] if self.partial.is_dir() else []
                stranger = min((name for name in held if name != LIST and not is_half_written(name)), default="")
                what = f"{self.partial.name}, where work would go on, holds something that is no {self.what}"
                what += f": {stranger}" if stranger else ""
                raise JudgeError(what, where=self.where, mend="move it elsewhere, or name another folder")
            self.check_own()

    def check_own(self) -> None:
        """Refuse to go on, or to publish, where somebody has put something into the working folder.

        Raises:
            JudgeError: with its name.
        """
        self._contents()

    def _contents(self) -> list[str]:
        names, is_own = within(self.partial), self._own()
        if stranger := next((name for name in names if not is_own(name)), None):
            what = f"{self.partial.name}, where work goes on, holds {stranger}, which is no part of this {self.what}"
            raise JudgeError(what, where=self.where, mend="move it elsewhere, or name another folder")
        return names

    def _own(self) -> Callable[[str], bool]:
        """What tells by its name whether something in the working folder was written by this command."""
        announced = self.announced()
        above = {f"{parent.as_posix()}/" for name in announced for parent in PurePosixPath(name).parents}

        def is_own(name: str) -> bool:
            half = any(map(is_half_written, PurePosixPath(name).parts))
            return half or name in announced or name in above or self._parts.fullmatch(name) is not None

        return is_own

    def announce(self, names: Collection[str]) -> None:
        """Note names in the working folder that ``parts`` cannot know, before they are written.

        Raises:
            JudgeError: something has such a name that was not announced.
            OSError: they cannot be noted.
        """
        with self._announcing:
            there = {name for name in names if os.path.lexists(self.partial / name)}
            self._names = self._names or self.announced()  # Of earlier commands, read once.
            if stranger := min(there - self._names, default=None):
                what = f"{self.partial.name} holds {stranger}, which it did not write"
                raise JudgeError(what, where=self.where, mend="move it elsewhere")
            with (self.store / _ANNOUNCED).open("ab") as file:
                file.write(b"\n" + json.dumps([*names]).encode())  # Whatever the line before may have become.
            self._names |= {*names}

    def announced(self) -> set[str]:
        """The names that were, also by a command that was killed."""
        found = set[str]()
        if (path := self.store / _ANNOUNCED).is_file():
            for line in path.read_bytes().splitlines():
                with suppress(*FAULTS):  # A kill may have cut it.
                    found |= {*map(str, json.loads(line))}
        return found

    def begin(self) -> None:
        """Make the working folder; called when everything that can be checked beforehand has been."""
        if is_main_process():
            super().begin()

    def _make(self) -> None:
        resumed = read_list(self.partial, self.what) is not None
        if not resumed:
            self.partial.mkdir(exist_ok=True)
            write_list(self.partial, self.what)
        for half in [path for path in self.partial.rglob(f"{HALF_WRITTEN}*") if is_half_written(path.name)]:
            with suppress(OSError):
                remove(half)
        self.check_own()
        self.log("resumed" if resumed else "started")
        self.store.mkdir(exist_ok=True)

    def _abandon(self) -> None:
        """``begin`` has failed; what is finished stays."""
        self.discard() if self.begun and not self.holds_work() else self._close()

    @contextmanager
    def working(self) -> Iterator[None]:
        """What is finished survives any error, and the same command goes on from it; where nothing is, nothing stays.

        Raises:
            JudgeError: with the command that goes on, where there is anything to go on from.
        """
        try:
            yield
        except AtWorkError:
            raise
        except BaseException as error:
            fault = as_mendable(error, self.where)
            if not self.holds_work():
                self.discard()
            elif fault:
                fault = with_way_on(fault, self.command, self.where)
            else:
                error.add_note(f"What is finished is kept in {self.partial}.")
            if fault is None or fault is error:
                raise
            raise fault from error
        finally:
            self._close()

    def holds_work(self) -> bool:
        """Whether anything in the working folder would have to be done again without it, or that cannot be told."""
        try:
            # Other processes may be at work still, or remove it.
            for folder, _, names in os.walk(self.partial, onerror=raise_unless_gone):
                for path in (Path(folder, name) for name in names):
                    with suppress(FileNotFoundError):
                        tracked = TRACKING in path.relative_to(self.partial).parts
                        if path.name not in {LOG, LIST, _ANNOUNCED} and not tracked and path.stat().st_size:
                            return True
        except OSError:
            return True
        return False

    def discard(self) -> None:
        """Remove what was written of the working folder, if this process has begun it."""
        if self.begun:
            with suppress(OSError):
                remove_own(self.partial, self._own())
            self._close()

    def publish(self) -> None:
        """As of every output folder; what was kept for going on alone goes after that.

        Raises:
            JudgeError: there is by now what may not be replaced.
        """
        with self.writing():
            self._replace()
        try:
            self._forget()
        except BaseException:  # An interrupt: it is soon done.
            self._forget()
            raise
        self._close()

    def _forget(self) -> None:
        with suppress(OSError):
            forget_folder(self.path, self.store.name)

    def _sweep(self) -> None:
        """Also what is left in the folder itself of a command that was killed when it had made it."""
        super()._sweep()
        if self.lock.held and read_list(self.path, self.what) is not None:
            sweep(self.path)
            forget_folder(self.path, self.store.name)

    def log(self, event: str, **facts: Any) -> None:
        """Append one line to ``log.jsonl``; see :func:`~judge.utils.files.append`."""
        append(self.partial / LOG, event, **facts)


def _is_ours(folder: Path, kind: str | None = None) -> bool:
    """Whether a command made it; one that was killed meanwhile may have left no list, but nothing else either."""
    if read_list(folder, kind) is not None:
        return True
    return folder.is_dir() and all(is_half_written(path.name) for path in folder.iterdir())
