"""What a run's folder says, compared with what is computed again from its answers and counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from judge.errors import JudgeError
from judge.report.directory import METRICS
from judge.statistics.summary import ROW

AGAIN = "run judge evaluate again"
# Sums in another order, on another machine, differ by less.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9
_ABSENT = "nothing"
_LIBRARIES = "numpy", "scipy", "pandas"


def check_alike(folder: Path, made: Mapping[str, Any], written: Mapping[str, Any]) -> None:
    """Refuse a ``metrics.json`` that says something else than what is computed again.

    Args:
        folder: of the run.
        made: computed again, as JSON has it.
        written: what the file says.

    Raises:
        JudgeError: with the row and the column, what was computed and what the file says.
    """
    where, mine, other = next(_unlike(made, written), ((), None, None))
    if where:
        known, now = written["run"].get("versions", {}), {name: version(name) for name in _LIBRARIES}
        others = ", ".join(f"{name} {known[name]}" for name in now if known.get(name, now[name]) != now[name])
        what = f"the files of answers and counts give {_short(mine)}, {METRICS} says {_short(other)}"
        what += f" (the run was made with {others})" if others else ""
        raise JudgeError(what, where=f"{folder / METRICS}: {', '.join(where)}", mend=AGAIN)


def check_table(folder: Path, name: str, made: pd.DataFrame, written: pd.DataFrame) -> None:
    """Refuse a table of a run's folder that holds something else than what is computed again.

    Args:
        folder: of the run.
        name: of the file.
        made: computed again.
        written: what the file holds.

    Raises:
        JudgeError: with the first cell that differs, or how many rows there are.
    """
    where = str(folder / name)
    if len(made) != len(written):
        raise JudgeError(f"has {len(written):,} rows, and {len(made):,} are computed again", where=where, mend=AGAIN)
    for column in made.columns:
        alike = _cells_alike(made[column], written[column])
        if not alike.all():
            place = int((~alike).argmax())
            row = ", ".join(str(made[part].iloc[place]) for part in (*ROW, "task", "score", "group") if part in made)
            mine, other = (_short(table[column].iloc[place]) for table in (made, written))
            what = f"'{column}' is {other}, and {mine} where it is computed again"
            raise JudgeError(what, where=f"{where}, row {place} ({row})", mend=AGAIN)


def _unlike(made: Any, written: Any, where: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Where two documents differ, and what each of them says."""
    if isinstance(made, list) and isinstance(written, list) and any(isinstance(of, dict) for of in (*made, *written)):
        made, written = _by_name(made), _by_name(written)
    if isinstance(made, dict) and isinstance(written, dict):
        for name in {**made, **written}:
            yield from _unlike(made.get(name, _ABSENT), written.get(name, _ABSENT), (*where, str(name)))
    elif not _alike(made, written):
        yield where, made, written


def _by_name(rows: list[Any]) -> dict[str, Any]:
    """The rows of a table by what they are of."""
    found: dict[str, Any] = {}
    for place, row in enumerate(rows):
        known = row if isinstance(row, dict) else {}
        names = [str(known[part]) for part in ("captioner", "first", "second", "score", "group") if part in known]
        names += [f"{known['metric']} ({known.get('judge')})"] if "metric" in known else []
        name = ", ".join(names) or str(place)
        found[f"{name}, row {place}" if name in found else name] = row
    return found


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return bool(one == other)


def _cells_alike(one: pd.Series, other: pd.Series) -> Any:
    """Which cells are the same number, or the same text, [N]."""
    numbers = np.array([pd.to_numeric(of, errors="coerce").to_numpy(dtype=np.float64) for of in (one, other)])
    texts = [of.astype(object).fillna("").astype(str).to_numpy() for of in (one, other)]
    neither = np.isnan(numbers).all(axis=0)
    return np.isclose(numbers[0], numbers[1], rtol=_RELATIVE, atol=_ABSOLUTE) | (neither & (texts[0] == texts[1]))


def _short(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"[:80]
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return "a row"
    return _ABSENT if value is None else str(value)[:80]
