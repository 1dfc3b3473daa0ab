"""Conditions of ``judge evaluate --fail-if``, for continuous integration: "lic > 0.05"."""

import math
import re
from collections.abc import Callable, Iterator, Sequence

from judge.errors import JudgeError
from judge.measure import Result
from judge.metrics import find_metric, spell_out
from judge.report.table import SIGNED, write
from judge.report.tables import Line, lines_of

GATE = 3  # The exit code of a run that meets a condition.
_FORM = re.compile(
    r"([^<>]+?)(?:\.(value|excess|p|beyond))?\s*([<>])\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.ASCII
)
# What a condition names after the metric, or else its sign -> the number of a row: in words, and where it is.
_NUMBERS: dict[str, tuple[str, Callable[[Line], float | None]]] = {
    "value": ("value", lambda row: row.summary.value),
    "excess": ("excess over chance", lambda row: row.summary.amplification),
    "p": ("p (Holm)", lambda row: row.conclusion.p_holm),
    "beyond": ("value beyond a typical person", lambda row: getattr(row.conclusion.beyond, "value", None)),
    ">": ("lower bound", lambda row: row.summary.interval.low if row.summary.interval else None),
    "<": ("upper bound", lambda row: row.summary.interval.high if row.summary.interval else None),
}


def read_condition(text: str, metrics: Sequence[str]) -> Callable[[Result], Iterator[str]]:
    """The condition "METRIC[.value|.excess|.p|.beyond] > NUMBER" (or <) on every captioner of a run of ``metrics``.

    Returns a function: result -> a sentence for each row that meets it, or of which that cannot be known, because a
    check of the run voids the row or the row has no such number. A metric stands for its variants in the run too.
    """
    where = f"--fail-if '{text}'"
    if not (form := _FORM.fullmatch(text.strip())):
        raise JudgeError("is no condition", where=where, mend="write it like 'lic > 0.05' or 'lic.beyond > 0.02'")
    metric, name, sign, limit = form.groups()
    what, number = _NUMBERS[name or sign]
    measured, named = spell_out(metrics), {*spell_out([metric])}
    if not (rows := [row for row in measured if named & {row, row.partition(":")[0]}]):
        mend = f"name {' or '.join(measured)}, alone or with .value, .p or .beyond"
        raise JudgeError(f"the run does not measure '{metric}'", where=where, mend=mend)
    if name == "excess" and not all(find_metric(row).counted for row in rows):
        raise JudgeError(f"'{metric}' is not counted: its value is not over chance", where=where, mend="use .value")

    def met(result: Result) -> Iterator[str]:
        for row in lines_of(result):
            line, value, reason = row.summary, number(row), row.conclusion.reason
            if line.metric.name not in rows or line.captioner in result.people:
                continue
            subject = f"{where}: {line.captioner}, {line.title}"
            if reason or value is None or math.isnan(value):
                yield f"{subject}: cannot be checked, {f'no verdict: {reason}' if reason else f'there is no {what}'}"
            elif value > float(limit) if sign == ">" else value < float(limit):
                beyond = row.conclusion.beyond if name == "beyond" else None
                shown = (beyond.value, beyond.interval) if beyond else (line.amplification, line.interval)
                whole = " ".join(write(part, SIGNED) for part in shown)
                whole = f"excess over chance {whole}" if line.metric.counted and not beyond else whole
                yield f"{subject}: the {what} is {value:.4g} ({whole})"

    return met
