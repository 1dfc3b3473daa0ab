"""Locks that go with the process that holds them, however it ends; temporary folders that the next process sweeps."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from judge.errors import JudgeError

# Of a name, in bytes: what lies beside an output while a command works has a longer one.
_LONGEST = 200
# Whoever only asks whether a lock is held holds it for a moment.
_TRIES, _PAUSE = 10, 0.02
_HOLDER = re.compile(rb"(process \d+ on .+)?", re.DOTALL)
_NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOLCK}
_OWNED, _NEW = ".owned", ".owned.new"
_SCRATCH = "caption-judge-scratch-"
_LONG = 60.0  # Seconds: nobody takes so long to lock the folder that he has made.


class AtWorkError(JudgeError):
    """Another process makes the same output."""


class Lock:
    """A file that one process at a time holds.

    Nothing is locked where the file system knows no such locks.

    Args:
        path: the file, made to lock it and removed afterwards; its folder must exist.
        where: the option that names what is locked, for messages.
    """

    def __init__(self, path: Path, where: str = "") -> None:
        self.path, self.where = path, where
        self._file: int | None = None

    @classmethod
    def beside(cls, out: Path, where: str) -> Lock:
        """The lock of an output, a file or a folder, which lies beside it while a command works."""
        return cls(out.parent / f".{short(out.name)}.judge-lock", where)

    @property
    def held(self) -> bool:
        """Whether this process surely holds it, through this object."""
        return self._file is not None

    def check(self) -> None:
        """Refuse what another process holds.

        Raises:
            AtWorkError: with its number and its machine.
        """
        if is_held(self.path):
            raise self._at_work()

    def acquire(self, tries: int = _TRIES) -> None:
        """Hold it from now on; ``tries``: fiftieths of a second to wait for whoever holds it.

        Raises:
            AtWorkError: another process holds it.
            JudgeError: the file is no lock.
            OSError: the file cannot be made, or locked.
        """
        for _ in range(tries):
            file = _open(self.path, os.O_CREAT)
            try:
                self._check_own(file)
                locked = _lock(file)
                if locked and _is_at(file, self.path):
                    self._file = file
                    _held.add(self)
                    with suppress(OSError):  # Who holds it is told where there is room to write it.
                        os.truncate(file, 0)
                        os.write(file, _own_name().encode())
                    return
            finally:
                if self._file is None:
                    os.close(file)
            if locked is None:
                self.path.unlink(missing_ok=True)
                return
            if not locked:  # Else whoever held it has just removed it.
                time.sleep(_PAUSE)
        raise self._at_work()

    @contextmanager
    def holding(self, tries: int = _TRIES) -> Iterator[None]:
        """Hold it meanwhile; as ``acquire``, which also says what it raises."""
        self.acquire(tries)
        try:
            yield
        finally:
            self.release()

    def _check_own(self, file: int) -> None:
        """Refuse a file that somebody else has given this name."""
        said = b"a pipe or a device"
        if stat.S_ISREG(os.fstat(file).st_mode):
            said = os.read(file, 1000)
            os.lseek(file, 0, os.SEEK_SET)
        if not _HOLDER.fullmatch(said):
            what, mend = f"{self.path.name} beside it is no lock of this program", "move that file elsewhere"
            raise JudgeError(what, where=self.where, mend=mend)

    def release(self) -> None:
        """Let go of it, where it is held; nothing is left behind."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                to_the_end(self._remove)
            finally:
                _unlock(file)
                with suppress(OSError):
                    os.close(file)

    def forget(self) -> None:
        """Hold it no more in this process, which another one has forked off that holds it still."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.close(file)

    def _remove(self) -> None:
        """The file, if it may go: the next one takes one that nobody holds."""
        with suppress(OSError):
            self.path.unlink()

    def _at_work(self) -> AtWorkError:
        holder = ""
        with suppress(OSError, ValueError):
            holder = self.path.read_text(encoding="utf-8")
        what = f"another command is at work there ({holder or 'a process'})"
        option = self.where.partition(" ")[0] or "place"
        return AtWorkError(what, where=self.where, mend=f"wait for it, or name another {option}")


def to_the_end(tidy: Callable[[], None]) -> None:
    """Call what is soon done; once more where an interrupt comes between, which is then raised."""
    try:
        tidy()
    except KeyboardInterrupt:
        tidy()
        raise


def short(name: str) -> str:
    """``name``; of a long one its beginning, and a hash of it all."""
    if len(os.fsencode(name)) <= _LONGEST:
        return name
    begun = os.fsencode(name)[: _LONGEST // 2].decode(errors="ignore")
    return f"{begun}-{hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()}"


def is_held(path: Path) -> bool | None:
    """Whether a process, this one too, holds the lock ``path``; None where there is no such file, or no locks."""
    with suppress(OSError):
        file = _open(path)
        try:
            locked = _lock(file)
            return None if locked is None else not locked
        finally:
            os.close(file)
    return None


def is_left(path: Path) -> bool:
    """Whether ``path`` is a lock whose holder was killed."""
    return is_held(path) is False


def remove_left(path: Path, lock: Path) -> None:
    """Remove a file, or a folder, and its lock, if the process that held this was killed."""
    with suppress(OSError):
        file = _open(lock)
        try:
            if _lock(file) and _is_at(file, lock):  # Held meanwhile: whoever has just made it makes another one.
                remove(path)
                lock.unlink(missing_ok=True)
        finally:
            os.close(file)


def remove(path: Path) -> None:
    """Remove a file, or a folder and all that is in it, where there is one.

    Raises:
        OSError: it cannot be removed.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def scratch(place: Path | None = None) -> Iterator[Path]:
    """A temporary folder for as long as this process needs it; what killed processes left of theirs goes too.

    ``place``: the folder to make it in, under a hidden name; the system's own for such folders unless given.
    """
    prefix = f".{_SCRATCH}" if place else _SCRATCH
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    lock = Lock(folder / _NEW)
    try:
        # Held before it has the name by which others tell that nobody holds it any more.
        lock.acquire()
        if lock.held:  # Where there are no locks, nobody can tell what is left.
            lock.path.rename(folder / _OWNED)
            for left in folder.parent.glob(f"{prefix}*"):
                if is_left(left / _OWNED) or _is_deserted(left):
                    shutil.rmtree(left, ignore_errors=True)
        yield folder
    finally:
        to_the_end(lambda: _clear(folder, lock))


def _clear(folder: Path, lock: Lock) -> None:
    """The name by which others tell that nobody holds it any more goes last: what is killed here, they take away."""
    with suppress(OSError):
        for path in [path for path in folder.iterdir() if path.name != _OWNED]:
            remove(path)
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()


def _is_deserted(folder: Path) -> bool:
    """Whether its maker was killed before it had its lock."""
    with suppress(OSError):
        own = re.fullmatch(r".*-[a-z0-9_]{8}", folder.name) and {one.name for one in folder.iterdir()} <= {_NEW}
        return bool(own) and time.time() - folder.stat().st_mtime > _LONG
    return False


def _open(path: Path, flags: int = 0) -> int:
    """A lock's file; never one that a link leads to."""
    # Nor one that waits: a pipe without anybody at its other end.
    return os.open(path, os.O_RDWR | flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _lock(file: int) -> bool | None:
    """Whether it could be locked; None where there are no locks.

    Raises:
        OSError: whether there are any cannot be told.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def _unlock(file: int) -> None:
    """Also for processes that were forked off meanwhile."""
    fcntl.flock(file, fcntl.LOCK_UN)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False


def _own_name() -> str:
    import socket

    return f"process {os.getpid()} on {socket.gethostname()}"


_held = weakref.WeakSet[Lock]()


def _let_go_in_child() -> None:
    """A process that was forked off holds nothing: it may live longer than this one."""
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_let_go_in_child)
