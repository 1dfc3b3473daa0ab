"""How users name rows of METRICS: families, other names, scores and variants after a colon."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from judge.errors import JudgeError, nearest
from judge.metrics.counted.spec import CountedMetric
from judge.metrics.row import Metric
from judge.metrics.rows import METRICS
from judge.metrics.scores import SCORES

# Names that stand for several rows.
FAMILIES: dict[str, tuple[str, ...]] = {
    "dbac": ("dbac-at", "dbac-ta"),
    "dpac": ("dpac-at", "dpac-ta"),
    "dba": ("dba-o", "dba-g"),
    "multi": ("multi-at", "multi-ta"),
    "dpa": ("dpa-at", "dpa-ta"),
}
# Of metrics with priors: people are tasks too.
WITH_PEOPLE = "with-people"
# Other names of rows.
ALIASES = {"dba-at": "dba-o", "dba-ta": "dba-g"}


def spell_out(names: Iterable[str]) -> tuple[str, ...]:
    """Names as users type them, with families as their rows ("dbac": both directions), each row once."""
    rows = []
    for name in names:
        key, variants = _parts(name)
        for row in FAMILIES.get(key, (key,)):
            judged = row in METRICS and not METRICS[row].counted
            rows.append(":".join([row, *(each for each in variants if not (judged and each == METRICS[row].score))]))
    return tuple(dict.fromkeys(rows))


def find_metric(name: str) -> Metric:
    """The row called ``name`` (any case).

    A colon may follow: then another score ("dbac-at:accuracy"), of metrics with priors "with-people", or of a counted
    row another variant ("ba:sony").

    Raises:
        JudgeError: no such row, score or variant; the nearest name is suggested.
    """
    key, variants = _parts(name)
    if key in FAMILIES:
        raise JudgeError(f"'{key}' is several metrics", where="--metrics", mend=f"use {' or '.join(FAMILIES[key])}")
    if key not in METRICS:
        known = [*METRICS, *FAMILIES, *ALIASES]
        raise JudgeError(f"unknown metric '{name}'", where="--metrics", mend=nearest(key, known))
    row = METRICS[key]
    for variant in variants:
        row = _counted_variant(row, row.counted, variant) if row.counted else _judged_variant(row, variant)
    return row


def _parts(name: str) -> tuple[str, list[str]]:
    """A row's or a family's name, and what follows colons: in lower case but for classes ("A/B")."""
    key, *variants = (part.strip() for part in name.split(":"))
    spelt = ["/".join(map(str.strip, part.split("/"))) if "/" in part else part.lower() for part in variants]
    return ALIASES.get(key.lower(), key.lower()), [part for part in spelt if part]


def _judged_variant(row: Metric, name: str) -> Metric:
    """A judged row by another score, or with people among the tasks."""
    if name == row.score:
        return row
    if name == WITH_PEOPLE and row.prior:
        return replace(row, name=f"{row.name}:{name}", title=f"{row.title}, people as tasks", people_are_tasks=True)
    if name not in SCORES:
        known = [*SCORES, *([WITH_PEOPLE] if row.prior else [])]
        raise JudgeError(f"unknown score '{name}'", where=f"--metrics {row.name}:{name}", mend=nearest(name, known))
    return replace(row, name=f"{row.name}:{name}", title=f"{row.title} ({name.replace('_', ' ')})", score=name)


def _counted_variant(row: Metric, counted: CountedMetric, name: str) -> Metric:
    """A counted row as another published code counts."""
    found = counted.in_variant(name)
    if found is None:
        mend = nearest(name, counted.variant_names)
        raise JudgeError(f"unknown variant '{name}'", where=f"--metrics {row.name}:{name}", mend=mend)
    return replace(row, name=f"{row.name}:{name}", title=f"{row.title}, {name}", counted=found)
