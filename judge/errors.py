"""The exception for errors that users can mend, and hints for its messages."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from unicodedata import category

FAULTS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError, RecursionError)
"""Exceptions that parsing a damaged file may raise."""
_LONGEST = 490  # Characters of the three parts of a message; 500 at most with what joins them.
# Parts of messages of libraries that lack memory: for a mapped file, a thread, an array.
_NO_MEMORY = (
    *("cannot allocate memory", "failed to map segment", "can't allocate", "bad_alloc", "can't start new thread"),
    # CPython's SystemError, which sometimes replaces a MemoryError.
    *("without exception set", "without setting an exception"),
)
# Options of the command line in messages -> the keywords of Python: ``--label-drop old`` -> ``label_drop=['old']``.
# A value ends its clause, as in "use --protocol paper, or ..."; "--judge is not used" has none.
_OPTION, _END = r"(?<![^\s('\"`])--", r"(?=[,;:)]| or |\.?$|\.\s)"
# What a shell would read stays as it is.
_COMMAND = re.compile(r"(\bjudge [a-z]+ [^,;]*--[^,;]*)")
_KEYWORDS = (
    (_OPTION + r"(?:training|ba) (\w+)=([a-z]\w*)", r"\1='\2'"),
    (_OPTION + r"(?:training|ba) (\w+)", r"\1"),
    (_OPTION + r"column ([\w.][\w. &-]*)=NAME", r"columns={'\1': NAME}"),
    (_OPTION + rf"column ([\w.][\w. &-]*)=(.+?){_END}", r"columns={'\1': '\2'}"),
    (_OPTION + r"column ([\w.]+)", r"columns={'\1': ...}"),
    (_OPTION + r"label-value (\w+)=([^;]+?)(?=, or |;|\.?$| \()", r"label_values={'\1': ['\2']}"),
    (_OPTION + r"label-drop (.+?)(?=\.?$)", r"label_drop=['\1']"),
    (_OPTION + r"(overwrite|several|quality|breakdown|own-captions|allow-unmasked)(?![\w-]| out)", r"--\1=True"),
    (_OPTION + r"([a-z][a-z-]*) ([\w.+-]+)=([\w./:@+-]*\w)", r"--\1={'\2': '\3'}"),
    (_OPTION + r"([a-z][a-z-]*)[= ]([0-9.]*[0-9]|[A-Z]+|'[^']*')(?=[\s,;:)]|\.?$|\.\s)", r"--\1=\2"),
    (_OPTION + rf"([a-z][a-z-]*) (?!(?:out|too|names)\b)([\w./:+,-]*\w){_END}", r"--\1='\2'"),
)
_PLURAL = {"answer", "column", "label_value", "model", "person_category", "refusal"}


class JudgeError(Exception):
    """An error that the user can mend: what is wrong, where, and what to do.

    Args:
        what: the fault, in one short clause ("caption is null").
        where: file, record and field ("mine.json, record 17, field 'caption'").
        mend: the next step ("remove the record or give it a text").

    ``str(error)`` is one line of at most 500 characters. The command prints it and exits with code 2:

        >>> print(JudgeError("caption is null", where="mine.json, record 17", mend="remove the record"))
        mine.json, record 17: caption is null. Remove the record.
    """

    def __init__(self, what: str, *, where: str = "", mend: str = "") -> None:
        super().__init__(what, where, mend)
        self.what = what
        self.where = where
        self.mend = mend

    def __str__(self) -> str:
        parts = [printable(" ".join(part.split())) for part in (self.what, self.where, self.mend)]
        room, left = _LONGEST, len(parts)
        # Short parts leave room to long ones.
        for place, part in sorted(enumerate(parts), key=lambda part: len(part[1])):
            parts[place] = shortened(part, room // left)
            room, left = room - len(parts[place]), left - 1
        what, where, mend = parts
        line = f"{where}: {what}" if where else what
        if mend:
            line = f"{line.removesuffix('.')}{'' if line.endswith('?') else '.'} {mend[0].upper()}{mend[1:]}"
        return line if line.endswith(("?", "!")) else f"{line.rstrip('.')}."

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only fields would be lost on the way back from a worker process.
        return partial(JudgeError, where=self.where, mend=self.mend), (self.what,)


@contextmanager
def in_python(*, unless: bool = False) -> Iterator[None]:
    """JudgeErrors name keywords of Python in place of options of the command line, ``unless`` a command reads."""
    try:
        yield
    except JudgeError as error:
        if unless:
            raise
        what, where, mend = map(python_words, (error.what, error.where, error.mend))
        raise JudgeError(what, where=where, mend=mend) from error.__cause__


def python_words(text: str) -> str:
    """A message with keywords of Python in place of options of the command line.

    >>> python_words("use --refits 0, or --protocol paper; see --folds in judge evaluate --help-all")
    "use refits=0, or protocol='paper'; see folds in judge evaluate --help-all"
    """
    parts = _COMMAND.split(text)
    return "".join(part if number % 2 else _in_keywords(part) for number, part in enumerate(parts))


def _in_keywords(text: str) -> str:
    for option, keyword in _KEYWORDS:
        text = re.sub(option, keyword, text)

    def name(found: re.Match[str]) -> str:
        keyword = found[1].replace("-", "_")
        return re.sub("y$", "ie", keyword) + "s" if keyword in _PLURAL else keyword

    return re.sub(_OPTION + r"(?!help|shm-size)([a-z][a-z-]*)(?![\w-])", name, text)


class RowError(JudgeError):
    """Data of which one row of the table has no value, whereas others may have."""


def shortened(text: str, most: int = 250) -> str:
    """``text`` without its middle if it is longer than ``most`` characters."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-(most - most // 2 - 5) :]}"


def some(names: Sequence[str], most: int = 5) -> str:
    """The first ``most`` names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(shortened(name, 50) for name in names[:most])}{more}"


def printable(text: str) -> str:
    r"""``text`` with control characters, line breaks and changes of direction as escapes (\x1b).

    A terminal would take such characters of names and captions for commands.
    """

    def is_harmless(one: str) -> bool:
        # Spaces of other scripts, characters newer than this Python, and joiners of letters or emoji.
        return one.isprintable() or category(one) in {"Zs", "Cn", "Co"} or one in "\u200c\u200d"

    return "".join(one if is_harmless(one) else ascii(one)[1:-1] for one in text)


def lack_of_memory(error: BaseException) -> JudgeError | None:
    """The message for an ``error`` of any library that lacks memory; None for any other error."""
    said = any(text in str(error).lower() for text in _NO_MEMORY)
    kinds = OSError | ImportError | RuntimeError | SystemError
    if not isinstance(error, MemoryError) and not (said and isinstance(error, kinds)):
        return None
    mend = "let fewer work at a time (--workers 1), or less (--training batch_size=N); then give the same command again"
    return JudgeError("memory has run out", mend=mend)


def nearest(word: str, known: list[str]) -> str:
    """A hint for a misspelt ``word``: the nearest of the ``known`` words, or all of them."""
    import difflib

    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.5)
    return f"did you mean '{folded[close[0]]}'?" if close else f"known: {', '.join(known)}"


def require(extra: str, *modules: str) -> None:
    """Refuse to go on without one of ``modules``, which the optional part ``extra`` brings."""
    from importlib.util import find_spec

    for module in modules:
        if find_spec(module) is None:
            raise JudgeError(f"needs the package '{module}'", mend=f"install it: pip install 'caption-judge[{extra}]'")
