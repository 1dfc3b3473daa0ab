"""What one file of the user's may hold, and how much memory it may take: a few bytes can claim any amount."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from judge.errors import JudgeError

# What Python's own values take, in bytes, with their place in what holds them; as measured.
ROW, LIST, CELL, QUOTED, TEXT = 250, 70, 40, 30, 2
_PYTHONS = "PYTHONINTMAXSTRDIGITS"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that a variable of the environment sets.

    It is a variable, and no option, so that it holds in every command, worker process and script.

    Attributes:
        variable: its name.
        default: what holds where the variable is not set.
        what: what is counted, in words.
        of: what may not have more, in words.
    """

    variable: str
    default: float
    what: str
    of: str

    def value(self) -> float:
        """The limit now.

        Raises:
            JudgeError: the variable says something else than a number above 0.
        """
        told = os.environ.get(self.variable, "")
        try:
            limit = float(told) if told else self.default
        except ValueError:
            limit = 0.0
        if not 0 < limit < 2**30:
            mend = f"set it to {2 * self.default:.10g}, say; unset it is {self.default:.10g}"
            raise JudgeError(f"'{told}' is no number of {self.what}", where=self.variable, mend=mend)
        return limit

    def fault(self) -> str:
        """What is said of a file that is over the limit."""
        return f"has over {self.value():,.10g} {self.what}"

    def raise_it(self, instead: str = "") -> str:
        """How to mend that: ``instead``, or a higher limit."""
        way = f"set the environment variable {self.variable} to more than {self.value():.10g}"
        return f"{instead}, or {way}" if instead else way

    def refuse(self, count: float, source: str, *, instead: str = "") -> None:
        """Refuse a file that has more.

        Raises:
            JudgeError: it has.
        """
        if count > self.value():
            raise JudgeError(self.fault(), where=source, mend=self.raise_it(instead))


# docs/reference/file-formats.md has a table of them all.
LIMITS = (
    MEMORY := Limit("JUDGE_READ_MEMORY", 4, "GB", "what is read of a file, in memory"),
    DEPTH := Limit("JUDGE_READ_DEPTH", 40, "lists or mappings in each other", "YAML, a pickle"),
    VALUES := Limit("JUDGE_READ_VALUES", 500_000, "values, those counted that aliases repeat", "YAML, a pickle"),
    BYTES := Limit("JUDGE_READ_BYTES", 4 * 2**20, "bytes", "a YAML file"),
    DESCRIPTION := Limit("JUDGE_READ_DESCRIPTION", 2**24, "bytes", "a description of a data set"),
    CELLS := Limit("JUDGE_READ_CELLS", 250_000, "cells", "an Excel sheet"),
    CHARACTERS := Limit("JUDGE_READ_CHARACTERS", 50_000, "characters", "a caption"),
    LISTED := Limit("JUDGE_READ_LISTED", 1_000_000, "characters", "a text that lists captions"),
    SHARDS := Limit("JUDGE_READ_SHARDS", 100_000, "files", "a range of shards"),
    MEMBER := Limit("JUDGE_READ_MEMBER", 2**20, "bytes", "a text or JSON member of a shard"),
    PICTURE := Limit("JUDGE_READ_PICTURE", 1, "GB", "a picture's file"),
    WIDTH := Limit("JUDGE_READ_WIDTH", 100_000, "numbers", "a word vector"),
    WORD := Limit("JUDGE_READ_WORD", 100_000, "bytes", "a word that has a vector"),
    LAYERS := Limit("JUDGE_READ_LAYERS", 1000, "layers or pictures", "a checkpoint's configuration"),
    POSITIONS := Limit("JUDGE_READ_POSITIONS", 2**24, "positions", "a checkpoint's configuration"),
)


def memory_limit() -> int:
    """Bytes of memory that what is read of one file may take: 4 GB, or as ``JUDGE_READ_MEMORY`` says, in GB.

    Raises:
        JudgeError: it says something else than a number above 0.
    """
    return int(MEMORY.value() * 2**30)


def file_limit() -> int:
    """Bytes that a file of text may have: a quarter of the memory, as its values take several times their text."""
    return memory_limit() // 4


def refuse_large(
    size: float, source: str, *, instead: str = "keep only the columns and records needed", packed: bool = False
) -> None:
    """Refuse what would take more than ``memory_limit()`` bytes.

    Args:
        size: what it takes, or will take at least.
        source: the file, for messages.
        instead: how to make it smaller.
        packed: whether a few bytes may stand for many, as in Parquet: a quarter of the memory is the limit then.

    Raises:
        JudgeError: it would.
    """
    limit = memory_limit() // (4 if packed else 1)
    if size > limit:
        what = f"takes over {limit / 2**30:g} GB of memory when it is read"
        raise JudgeError(what, where=source, mend=f"{MEMORY.raise_it(instead)} (GB)")


def refuse_long(number: int, source: str) -> None:
    """Refuse a whole number that Python would not write out, in whatever base it was given.

    Raises:
        JudgeError: it has too many digits.
    """
    limit = sys.get_int_max_str_digits()
    if limit and number.bit_length() > limit * 3.3219:  # Bits of a digit.
        raise _long(source)


def long_number(error: BaseException, source: str) -> JudgeError | None:
    """Of a number with too many digits what to do; Python names a function, which is no help on a command line."""
    return _long(source) if "sys.set_int_max_str_digits" in str(error) else None


def _long(source: str) -> JudgeError:
    limit = sys.get_int_max_str_digits()
    mend = f"write it shorter, or set the environment variable {_PYTHONS} to more than {limit}"
    return JudgeError(f"holds a number of over {limit:,} digits", where=source, mend=mend)
