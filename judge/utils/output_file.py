"""A single file that a command makes: one command at a time; nothing that is there is replaced unasked."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from judge.errors import JudgeError
from judge.utils.files import remove_empty, resolved, sweep, writing
from judge.utils.listed import read_list, write_again
from judge.utils.locks import Lock, is_left

_MEND = "name another file, or add --overwrite"


class OutputFile:
    """A file that a command makes.

    Args:
        path: the file.
        overwrite: replace the one that is there; never a device, a pipe or a folder.
        where: the option and its value, for messages.
        mend: what to do where it is there already.
    """

    def __init__(self, path: Path, *, overwrite: bool = False, where: str = "", mend: str = _MEND) -> None:
        self.path, self.overwrite, self.where, self.mend = path, overwrite, where or f"--out {path}", mend
        parent = path.absolute().parent
        # In a folder with a list it would be a stranger: it is the folder's own, beside that.
        self.lock = Lock.beside(parent if read_list(parent) is not None else path, self.where)

    def check(self, reads: Iterable[Path] = ()) -> None:
        """Refuse a place that cannot be used, before any work; what a killed command has left there goes.

        Args:
            reads: what the command reads.

        Raises:
            JudgeError: it is no file, is read, is there (without ``overwrite``); another process is at work there.
        """
        # Before what is there is refused: to overwrite what is read would be the wrong advice.
        if resolved(self.path) in {resolved(read) for read in reads}:
            raise JudgeError(f"{self.path.name} is read", where=self.where, mend="name another file")
        self.lock.check()
        if is_left(self.lock.path):
            with writing(self.where), self.lock.holding():
                sweep(self.path.parent)
        self.refuse()

    def refuse(self) -> None:
        """Refuse what is there, if it may not be replaced."""
        with suppress(FileNotFoundError, NotADirectoryError):
            mode = self.path.lstat().st_mode
            with suppress(FileNotFoundError):  # A link that leads nowhere.
                mode = self.path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise JudgeError("is a folder", where=self.where, mend="name a file")
            if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                raise JudgeError("is no file but a device or a pipe", where=self.where, mend="name a file")
            if not self.overwrite:
                raise self._there()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Nobody else makes it meanwhile; its folder is made, and goes if nothing is put into it."""
        made = [folder for folder in self.path.absolute().parents if not folder.exists()]
        with ExitStack() as stack:
            with writing(self.where):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                stack.callback(remove_empty, made)
                self.lock.acquire()
                stack.callback(self.lock.release)
            self.refuse()
            yield

    def write(self, data: bytes) -> None:
        """Write it whole.

        Raises:
            JudgeError: it cannot be written, or is there by now and may not be replaced.
        """
        self.refuse()
        with writing(self.where):
            try:
                write_again(self.path, data, new=not self.overwrite)
            except FileExistsError:
                raise self._there() from None

    def _there(self) -> JudgeError:
        return JudgeError("is there already", where=self.where, mend=self.mend)
