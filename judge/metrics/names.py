"""How users name rows of METRICS: families, other names, scores and variants after a colon."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from judge.counting import VARIANTS, Counting
from judge.errors import JudgeError, nearest
from judge.metrics.row import Metric
from judge.metrics.rows import METRICS
from judge.scores import SCORES

# Names that stand for several rows.
FAMILIES: dict[str, tuple[str, ...]] = {
    "dbac": ("dbac-at", "dbac-ta"),
    "dpac": ("dpac-at", "dpac-ta"),
    "dba": ("dba-o", "dba-g"),
    "multi": ("multi-at", "multi-ta"),
    "dpa": ("dpa-at", "dpa-ta"),
}
# Other names of rows.
ALIASES = {"dba-at": "dba-o", "dba-ta": "dba-g"}


def spell_out(names: Iterable[str]) -> tuple[str, ...]:
    """Names as users type them, with families as their rows ("dbac": both directions), each row once."""
    spelt = []
    for name in names:
        key, manner = _parts(name)
        for row in FAMILIES.get(key, (key,)):
            own = row in METRICS and not METRICS[row].counted and manner == METRICS[row].score
            spelt.append(f"{row}:{manner}" if manner and not own else row)
    return tuple(dict.fromkeys(spelt))


def find_metric(name: str) -> Metric:
    """The row called ``name`` (any case).

    A colon may follow: then another score ("dbac-at:accuracy"), or of a counted row another variant ("ba:sony").

    Raises:
        JudgeError: no such row, score or variant; the nearest name is suggested.
    """
    key, manner = _parts(name)
    if key in FAMILIES:
        raise JudgeError(f"'{key}' is several metrics", where="--metrics", mend=f"use {' or '.join(FAMILIES[key])}")
    if key not in METRICS:
        known = [*METRICS, *FAMILIES, *ALIASES]
        raise JudgeError(f"unknown metric '{name}'", where="--metrics", mend=nearest(key, known))
    row = METRICS[key]
    if row.counted is not None and manner:
        return _in_variant(row, row.counted, manner)
    if not manner or manner == row.score:
        return row
    if manner not in SCORES:
        raise JudgeError(f"unknown score '{manner}'", where=f"--metrics {name}", mend=nearest(manner, list(SCORES)))
    return replace(row, name=f"{key}:{manner}", title=f"{row.title} ({manner.replace('_', ' ')})", score=manner)


def _parts(name: str) -> tuple[str, str]:
    """A row's or a family's name, and what follows a colon: in lower case but for classes ("A/B")."""
    key, _, manner = (part.strip() for part in name.partition(":"))
    said = "/".join(part.strip() for part in manner.split("/")) if "/" in manner else manner.lower()
    return ALIASES.get(key.lower(), key.lower()), said


def _in_variant(row: Metric, counting: Counting, name: str) -> Metric:
    """A counted row as another code counts."""
    found = counting.as_in(name)
    if found is None:
        known = list(VARIANTS[counting.kind])
        others = ["CLASS/CLASS"] if counting.kind == "ratio" else []
        mend = nearest(name, known) if not others else f"use {' or '.join(known + others)}"
        raise JudgeError(f"unknown variant '{name}'", where=f"--metrics {row.name}:{name}", mend=mend)
    return replace(row, name=f"{row.name}:{name}", title=f"{row.title}, {name}", counted=found)
