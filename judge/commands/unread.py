"""Settings of judges that were given, and that none of a run's judges reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress

from judge.config import JudgeSettings, RunSettings, TrainingSettings, flag_of
from judge.errors import JudgeError
from judge.judges import FILES, HUGGING_FACE, SELF, find_judge
from judge.measure.jobs import choose_judges
from judge.metrics import find_metric, spell_out

# Settings of every judge, and of the work as a whole.
_OF_ALL = {"judge", "protocol", "seeds", "seed", "folds", "features", "workers", "checkpoints"}
OF_SOME = tuple(
    name for kind in (JudgeSettings, TrainingSettings) for name in kind.__annotations__ if name not in _OF_ALL
)
"""Settings that some judges read, and others do not."""


def unread(config: RunSettings) -> Iterator[str]:
    """Settings that differ from their defaults and reach no judge: a line for all that the same judges read.

    Raises:
        JudgeError: an unknown metric or judge.
    """
    fields = type(config).model_fields
    given = [name for name in OF_SOME if name in fields and getattr(config, name) != fields[name].default]
    rows = [row for row in map(find_metric, spell_out(config.metrics)) if not row.counted]
    judges = dict.fromkeys(name for row in rows for name in choose_judges(row, config.judge))
    read = {option for name in judges for option in _options(name)}
    by_readers: dict[str, list[str]] = {}
    for name in given:
        if name not in read:
            by_readers.setdefault(", ".join(readers(name)), []).append(flag_of(type(config), name))
    if not judges and config.judge != fields["judge"].default:
        by_readers.setdefault("metrics that ask a judge", []).append("--judge")
    for others, flags in by_readers.items():
        by = ", ".join(judges or config.metrics)
        yield f"{' '.join(flags)} {'are' if flags[1:] else 'is'} not used by {by}, but by {others}"


def tell_unread(config: RunSettings) -> None:
    """Log what :func:`unread` finds, for commands whose results have no notes."""
    for line in unread(config):
        logging.getLogger(__name__).info("NOTE: %s", line)


def readers(option: str) -> list[str]:
    """The judges that read a setting, of those whose packages are installed."""
    found = []
    for name in (*FILES, f"{HUGGING_FACE}NAME"):
        with suppress(JudgeError):
            if option in find_judge(name).options:
                found.append(name)
    return found


def _options(name: str) -> frozenset[str]:
    """Of "self", which is some checkpoint, those of all checkpoints."""
    return find_judge(f"{HUGGING_FACE}{name}" if name.startswith(SELF) else name).options
