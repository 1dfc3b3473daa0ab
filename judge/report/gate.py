"""Conditions of ``judge evaluate --fail-if``, for continuous integration: "lic > 0.05"."""

import math
import re
from collections.abc import Callable, Iterator, Sequence

from judge.errors import JudgeError
from judge.measure import Result
from judge.metrics import find_metric, spell_out
from judge.report.table import SIGNED, write
from judge.report.tables import Line, lines_of
from judge.statistics.comparisons import NO_VERDICT

GATE = 3  # The exit code of a run that meets a condition.
_FORM = re.compile(r"([^<>]+?)(?:\.(value|excess|p))?\s*([<>])\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.ASCII)
# What a condition names after the metric, or else its sign -> the number of a row: in words, and where it is.
_NUMBERS: dict[str, tuple[str, Callable[[Line], float | None]]] = {
    "value": ("value", lambda row: row.summary.value),
    "excess": ("excess over chance", lambda row: row.summary.amplification),
    "p": ("p", lambda row: row.summary.p_value),
    ">": ("lower bound", lambda row: row.summary.interval.low if row.summary.interval else None),
    "<": ("upper bound", lambda row: row.summary.interval.high if row.summary.interval else None),
}


def read_condition(text: str, metrics: Sequence[str]) -> Callable[[Result], Iterator[str]]:
    """The condition "METRIC[.value|.excess|.p] > NUMBER" (or <) on every captioner of a run of ``metrics``.

    Returns a function: result -> a sentence for each row that meets it, or of which that cannot be known, because a
    check of the run voids the row or the row has no such number. A metric stands for its variants in the run too.
    """
    where = f"--fail-if '{text}'"
    if not (form := _FORM.fullmatch(text.strip())):
        raise JudgeError("is no condition", where=where, mend="write it like 'lic > 0.05' or 'lic.p < 0.01'")
    metric, name, sign, limit = form.groups()
    what, number = _NUMBERS[name or sign]
    measured, named = spell_out(metrics), {*spell_out([metric])}
    if not (rows := [row for row in measured if named & {row, row.partition(":")[0]}]):
        mend = f"name {' or '.join(measured)}, alone or with .value or .p"
        raise JudgeError(f"the run does not measure '{metric}'", where=where, mend=mend)
    if name == "excess" and not all(find_metric(row).counted for row in rows):
        raise JudgeError(f"'{metric}' is not counted: its value is not over chance", where=where, mend="use .value")

    def met(result: Result) -> Iterator[str]:
        for row in lines_of(result):
            line, value = row.summary, number(row)
            if line.metric.name not in rows:
                continue
            subject = f"{where}: {line.captioner}, {line.title}"
            if (void := row.conclusion.verdict == NO_VERDICT) or value is None or math.isnan(value):
                why = f"{NO_VERDICT}: {row.conclusion.because}" if void else f"there is no {what}"
                yield f"{subject}: cannot be checked, {why}"
            elif value > float(limit) if sign == ">" else value < float(limit):
                whole = " ".join(write(part, SIGNED) for part in (line.amplification, line.interval))
                whole = f"excess over chance {whole}" if line.metric.counted else whole
                yield f"{subject}: the {what} is {value:.4g} ({whole})"

    return met
