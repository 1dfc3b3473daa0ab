"""How much memory one file of the user's may take: a few bytes can claim any amount."""

from __future__ import annotations

import os

from judge.errors import JudgeError

VARIABLE = "JUDGE_READ_MEMORY"
_GIGABYTES = 4.0
# What Python's own values take, in bytes, with their place in what holds them; as measured.
ROW, LIST, CELL, QUOTED, TEXT = 250, 70, 40, 30, 2


def memory_limit() -> int:
    """Bytes of memory that what is read of one file may take: 4 GB, or as ``JUDGE_READ_MEMORY`` says, in GB.

    It is a variable of the environment, and no option, so that it holds in every command, worker process and script.

    Raises:
        JudgeError: it says something else than a number above 0.
    """
    told = os.environ.get(VARIABLE, "")
    try:
        limit = float(told) if told else _GIGABYTES
    except ValueError:
        limit = 0.0
    if not 0 < limit < 2**30:
        mend = f"set it to 8, say; unset it is {_GIGABYTES:g}"
        raise JudgeError(f"'{told}' is no number of GB", where=VARIABLE, mend=mend)
    return int(limit * 2**30)


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
        mend = f"{instead}, or set the environment variable {VARIABLE} to more than {memory_limit() / 2**30:g} (GB)"
        raise JudgeError(f"takes over {limit / 2**30:g} GB of memory when it is read", where=source, mend=mend)
