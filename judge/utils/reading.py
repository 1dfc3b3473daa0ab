"""Files that are read: regular ones within limits on memory and size, as a few bytes can claim any amount; YAML."""

from __future__ import annotations

import difflib
import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import yaml

from judge.errors import FAULTS, JudgeError

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")
LONG = "sys.set_int_max_str_digits"
"""In Python's error about a number with too many digits."""
NO_LIMITS = "JUDGE_NO_LIMITS"
"""Environment variable: "1" lifts all limits, in every command, worker process and script."""
_LIFT = f"set the environment variable {NO_LIMITS}=1 if you trust the file"
_UNLIMITED = 2**50
# Bytes that Python's own values take in memory, with their place in what holds them; measured.
ROW, LIST, CELL, QUOTED, TEXT = 250, 70, 40, 30, 2


def lifted(instead: str = "") -> str:
    """How to mend a file over a limit: ``instead``, or without limits."""
    return f"{instead}, or {_LIFT}" if instead else _LIFT


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on what a file may hold: the highest number, the unit, and what may not have more, in words."""

    most: int
    unit: str
    of: str

    def value(self) -> int:
        """The limit now."""
        return _UNLIMITED if os.environ.get(NO_LIMITS) == "1" else self.most

    def refuse(self, count: float, source: str, *, instead: str = "", at: str = "") -> None:
        """Raise the JudgeError of a file that has more, if it has; ``at``: the place in it."""
        if count > self.value():
            raise JudgeError(f"has over {self.most:,} {self.unit}{at}", where=source, mend=lifted(instead))


# docs/reference/file-formats.md has a table of them all.
LIMITS = (
    MEMORY := Limit(4, "GB", "content of a file, in memory"),
    DEPTH := Limit(40, "nested lists or mappings", "YAML"),
    VALUES := Limit(500_000, "values, repetitions by aliases included", "YAML"),
    BYTES := Limit(4 * 2**20, "bytes", "a YAML file"),
    CHARACTERS := Limit(50_000, "characters", "a caption"),
    LISTED := Limit(1_000_000, "characters", "a text that lists captions"),
    MEMBER := Limit(2**20, "bytes", "a text or JSON member of a shard"),
    PICTURE := Limit(2**30, "bytes", "an image file"),
    WIDTH := Limit(100_000, "numbers", "a word vector"),
    WORD := Limit(100_000, "bytes", "a word of a vector file"),
    LAYERS := Limit(1000, "layers or images", "a checkpoint's configuration"),
    POSITIONS := Limit(2**24, "positions", "a checkpoint's configuration"),
)


def memory_limit() -> int:
    """Bytes of memory that the contents of one file may take: 4 GB."""
    return min(MEMORY.value() * 2**30, _UNLIMITED)


def refuse_large(
    size: float, source: str, *, instead: str = "keep only the columns and records needed", packed: bool = False
) -> None:
    """Refuse ``size`` bytes over ``memory_limit()``; a quarter of it if ``packed``: a few bytes may stand for many."""
    limit = memory_limit() // (4 if packed else 1)
    if size > limit:
        what = f"takes over {limit / 2**30:g} GB of memory when it is read"
        raise JudgeError(what, where=source, mend=lifted(instead))


def long_number(source: str) -> JudgeError:
    """The error of a whole number that Python would not write out, as it has too many digits."""
    limit = sys.get_int_max_str_digits()
    mend = f"write it shorter, or set the environment variable PYTHONINTMAXSTRDIGITS to more than {limit}"
    return JudgeError(f"holds a number of over {limit:,} digits", where=source, mend=mend)


class NotRegularError(OSError):
    """A pipe, a device or a socket: reading it might never end."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


def regular(path: Path) -> Path:
    """``path``, for libraries that open it themselves; an OSError as by :func:`open_regular`."""
    open_regular(path).close()
    return path


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file to read its bytes; an OSError if it cannot be opened, or is a folder, a pipe or a device."""
    # O_NONBLOCK: opening a named pipe would wait for whoever writes into it.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise NotRegularError(path)
    return file


def read_bytes(path: Path, limit: int | None = None, instead: str = "give a smaller file") -> bytes:
    """The bytes of a file; one of more than ``limit`` bytes, by default a quarter of the memory, is refused."""
    with open_regular(path) as file:
        # The message names the memory that the contents would take.
        times = memory_limit() / (limit or memory_limit() // 4)
        refuse_large(os.fstat(file.fileno()).st_size * times, str(path), instead=instead)
        return file.read()


def read_text(path: Path, errors: str = "strict") -> str:
    """The text of a file, whatever its line breaks; see :func:`read_bytes`. A UnicodeDecodeError if it is not UTF-8."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(path)), encoding="utf-8", errors=errors).read()


@contextmanager
def opening(path: str | os.PathLike[str], *, folder: str, absent: str = "", where: str = "") -> Iterator[None]:
    """Turn errors of opening a file that the user named, ``where``, into one line.

    ``folder`` and ``absent``: what to give instead of a folder, or of a file that does not exist.
    """
    where = where or os.fspath(path)
    try:
        yield
    except IsADirectoryError:
        raise JudgeError("is a folder", where=where, mend=folder) from None
    except NotRegularError:
        raise JudgeError("is not a regular file", where=where, mend="give a file on disk") from None
    except FileNotFoundError:
        raise JudgeError("no such file", where=where, mend=absent or named_alike(Path(path))) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path.
        reason = getattr(error, "strerror", None) or error
        mend = "check the path and its permissions"
        raise JudgeError(f"cannot be read ({reason})", where=where, mend=mend) from error


def named_alike(path: Path) -> str:
    """Advice for a ``path`` that does not exist: a file beside it with nearly its name, or to check it."""
    try:
        names = [entry.name for entry in islice(os.scandir(path.parent), 10_000)]
    except (OSError, ValueError):  # ValueError: a NUL in the path.
        names = []
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"did you mean '{path.with_name(close[0])}'?" if close else "check the path"


# libyaml's parser, if PyYAML was built with it, is ten times as fast.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_KINDS = [_TAG + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map")]


class _Loader(_Base):  # type: ignore[misc]  # PyYAML has no types.
    """PyYAML's loader. It counts values, refuses keys given twice, and takes dates and 1:30 for texts."""

    yaml_constructors = {kind: _Base.yaml_constructors[kind] for kind in (*_KINDS, None)}  # noqa: RUF012
    count = depth = 0

    def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: ARG002
        """The value of a node. An alias is built anew each time, so that ``VALUES`` limits what aliases repeat."""
        self.count, self.depth = self.count + 1, self.depth + 1
        for limit, reached in ((DEPTH, self.depth - 1), (VALUES, self.count)):
            limit.refuse(reached, "", instead="write values out", at=f" (line {node.start_mark.line + 1})")
        if isinstance(node, yaml.ScalarNode):
            if any(one == "\0" or "\ud800" <= one <= "\udfff" for one in node.value):
                _refuse("a text holds a character that no text may hold", node)
            # YAML 1.1 reads 1:30 to the base of 60, in time that grows with the square.
            if node.tag == f"{_TAG}timestamp" or (":" in node.value and node.tag in _KINDS):
                node.tag = f"{_TAG}str"
        self.constructed_objects.pop(node, None)
        self.recursive_objects.pop(node, None)
        value = super().construct_object(node, deep=True)
        digits = sys.get_int_max_str_digits()
        if digits and isinstance(value, int) and value.bit_length() > digits * 3.3219:  # Bits of a digit.
            raise long_number("")
        self.depth -= 1
        return value

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: ARG002
        """A mapping; << is no key."""
        found = dict[Any, Any]()
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                _refuse("a key is a list or a mapping", key_node)
            if (key := self.construct_object(key_node)) in found:  # yes and true are one.
                _refuse(f"key '{key_node.value}' is given twice", key_node)
            found[key] = self.construct_object(value_node)
        return found


def _refuse(problem: str, node: Any) -> NoReturn:
    raise yaml.MarkedYAMLError(None, None, problem, node.start_mark)


def read_yaml(path: Path, *, mend: str) -> Any:
    """The value of a YAML file; see :func:`read_small_text` and :func:`parse_yaml`."""
    return parse_yaml(read_small_text(path), where=str(path), mend=mend)


def validated(kind: type[M], value: object, *, where: str, mend: str) -> M:
    """The ``value`` of a YAML file as a pydantic model; or a JudgeError of all faults of the fields, in one line."""
    from pydantic import ValidationError

    if not isinstance(value, dict):
        raise JudgeError("holds no fields", where=where, mend=mend)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        names = {"missing": "missing", "extra_forbidden": "unknown"}
        fields, others = dict[str, list[str]](), list[str]()
        for fault in error.errors():
            field = ".".join(map(str, fault["loc"]))
            if fault["type"] in names:
                fields.setdefault(names[fault["type"]], []).append(field)
            elif fault["type"] != "too_short" or not (fields or others):  # A list without its faulty entries.
                message = fault["msg"].removeprefix("Value error, ").replace("frozenset", "list")
                others.append(f"{f'field {field!r}: ' if field else ''}{message}")
        lines = [f"{name} fields: {', '.join(found)}" for name, found in fields.items()]
        raise JudgeError("; ".join([*lines, *others]), where=where, mend=mend) from error


def read_small_text(path: Path) -> str:
    """The text of a settings file, UTF-8 of at most ``BYTES``, without a byte order mark."""
    try:
        with opening(path, folder=f"name the file in it, such as {path / 'run.yaml'}"), open_regular(path) as file:
            instead = "keep captions and labels in files of their own"
            BYTES.refuse(os.fstat(file.fileno()).st_size, str(path), instead=instead)
            data = file.read()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JudgeError(f"not UTF-8 (at byte {error.start})", where=str(path), mend="save it as UTF-8") from error


def parse_yaml(text: str, *, where: str, mend: str) -> Any:
    """The value of a YAML text: mappings, lists, texts, numbers, true, false and null; dates stay texts.

    Refuses what is not YAML, a key given twice in one mapping, and more than ``DEPTH`` or ``VALUES``.
    """
    try:
        depth = count = 0
        event: Any
        for event in yaml.parse(text, Loader=_Loader):  # Takes no memory, and no stack.
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            count += isinstance(event, yaml.NodeEvent)
            for limit, reached in ((DEPTH, depth), (VALUES, count)):
                limit.refuse(reached, where, instead=mend, at=f" (line {event.start_mark.line + 1})")
        return yaml.load(text, Loader=_Loader)  # noqa: S506  # A safe loader.
    except JudgeError as error:
        raise JudgeError(error.what, where=error.where or where, mend=error.mend) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" on line {mark.line + 1}" if mark else ""
        raise JudgeError(f"not YAML that can be read ({error.problem}{line})", where=where, mend=mend) from error
    except (yaml.YAMLError, *FAULTS) as error:  # FAULTS: numbers of thousands of digits, and the like.
        reason = " ".join(str(error).split())[:200]
        fault = JudgeError(f"not YAML that can be read ({reason})", where=where, mend=mend)
        raise long_number(where) if LONG in str(error) else fault from error
