"""Settings that were given, and that nothing of a run reads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from judge.commands.labels import reads_tasks
from judge.config import flag_of
from judge.config.inputs import LabelSettings, ShownSettings
from judge.config.judges import JudgedSettings, JudgeSettings, RunSettings, TrainingSettings
from judge.errors import JudgeError
from judge.judges import FILES, HUGGING_FACE, SELF, find_judge
from judge.measure.jobs import choose_judges
from judge.metrics import Metric, find_metric, spell_out

# Settings of every judge, and of the work as a whole.
_OF_ALL = {"judge", "protocol", "seeds", "seed", "folds", "features", "workers", "checkpoints"}
OF_SOME = tuple(
    name for kind in (JudgeSettings, TrainingSettings) for name in kind.__annotations__ if name not in _OF_ALL
)
"""Settings that some judges read, and others do not."""


class _Part(NamedTuple):
    """Settings that only a part of the work reads."""

    names: tuple[str, ...]
    readers: str
    """What reads them, for messages."""
    is_read: Callable[[JudgedSettings, Sequence[Metric]], bool]


def _asks(config: JudgedSettings, rows: Sequence[Metric]) -> bool:
    return any(not row.counted for row in rows)


def _aligns(config: JudgedSettings, rows: Sequence[Metric]) -> bool:
    return any((config.alignment or row.alignment) == "contextual" for row in rows if not row.counted)


def _sees(config: JudgedSettings, rows: Sequence[Metric]) -> bool:
    return any(row.uses_images for row in rows)


def _counts_words(config: JudgedSettings, rows: Sequence[Metric]) -> bool:
    return any(row.counted.labels == "words" for row in rows if row.counted)


def _derives_labels(config: JudgedSettings, rows: Sequence[Metric]) -> bool:
    return config.labels is None or (isinstance(config.labels, dict) and not {*config.attributes} <= {*config.labels})


def _names_tasks(config: JudgedSettings, rows: Sequence[Metric]) -> bool:
    # Doses of a calibration are changes of tasks.
    return reads_tasks(config) or not isinstance(config, RunSettings)


_OTHER = {"images", *LabelSettings.model_fields}
_HIDING = tuple(name for name in ShownSettings.model_fields if name not in _OTHER)
_PARTS = (
    _Part(("judge", "seeds", "checkpoints", "alignment"), "metrics that ask a judge", _asks),
    _Part(("folds",), "judges of protocol crossfit", lambda *of: _asks(*of) and of[0].protocol == "crossfit"),
    _Part(("features",), "judges of images", _sees),
    _Part(("vectors", "delta"), "contextual alignment", _aligns),
    _Part(("tasks", "objects"), "dbac, dpac, ba-objects, dba, multi and dpa", _names_tasks),
    _Part(("label_least",), "labels that are derived from human captions", _derives_labels),
    _Part(("prior",), "dbac and dpac", lambda _, rows: any(row.prior for row in rows)),
    _Part(("vocabulary", "least"), "ba", _counts_words),
    # Other commands bring their own images. Where no judge sees them they are shown.
    _Part(_HIDING, "a run with --images", lambda config, _: not isinstance(config, RunSettings) or bool(config.images)),
)


def unread(config: JudgedSettings) -> Iterator[str]:
    """Settings that differ from their defaults and reach nothing: a line for all that the same judges, or parts, read.

    Raises:
        JudgeError: an unknown metric or judge.
    """
    fields = type(config).model_fields
    given = [name for name in fields if getattr(config, name) != fields[name].default]
    rows = [find_metric(name) for name in spell_out(config.metrics)]
    judges = dict.fromkeys(name for row in rows if not row.counted for name in choose_judges(row, config.judge))
    read = {option for name in judges for option in _options(name)}
    by_readers: dict[str, list[str]] = {}
    for name in OF_SOME:
        if name in given and name not in read:
            by_readers.setdefault(", ".join(readers(name)), []).append(name)
    lines = [(", ".join(judges or config.metrics), *line) for line in by_readers.items()]
    for part in _PARTS:
        names = [name for name in part.names if name in given and not part.is_read(config, rows)]
        lines += [(", ".join(config.metrics), part.readers, names)] if names else []
    for by, others, names in lines:
        flags = [flag_of(type(config), name) for name in names]
        yield f"{' '.join(flags)} {'are' if flags[1:] else 'is'} not used by {by}, but by {others}"


def tell_unread(config: JudgedSettings) -> None:
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
