"""Conditions of ``--fail-if``, for continuous integration: "lic > 0.05" of a run, or of the change between runs."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree

from judge.errors import JudgeError, printable
from judge.measure import Result
from judge.metrics import find_metric, spell_out
from judge.report.table import SIGNED, write
from judge.report.tables import lines_of
from judge.statistics.comparisons import NO_VERDICT, Difference
from judge.types import Interval

GATE = 3  # The exit code of a run that meets a condition.
_FORM = re.compile(r"([^<>]+?)(?:\.(value|excess|p))?\s*([<>])\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.ASCII)
# What a condition names after the metric, or else its sign -> the number that it is about, in words.
_NUMBERS = {"value": "value", "excess": "excess over chance", "p": "p", ">": "lower bound", "<": "upper bound"}


class Check(NamedTuple):
    """A condition on one row. ``failure`` says why the row meets it, or why nobody can know; "" where it does not."""

    where: str
    subject: str
    failure: str

    @property
    def line(self) -> str:
        """The failure in one line."""
        return f"{self.where}: {self.subject}: {self.failure}"


class _Condition(NamedTuple):
    """A condition that was read: the metrics that it names, the key of ``_NUMBERS``, the sign and the limit."""

    where: str
    rows: Sequence[str]
    number: str
    sign: str
    limit: float

    def check(
        self,
        subject: str,
        values: tuple[float | None, float | None, float | None],
        interval: Interval | None,
        because: str | None,
        shown: str,
    ) -> Check:
        """Check a row; ``values``: value, excess over chance, p; ``because``: why it is void, None where it is not."""
        bounds = (interval.low, interval.high) if interval else (None, None)
        value, what = dict(zip(_NUMBERS, (*values, *bounds), strict=True))[self.number], _NUMBERS[self.number]
        if because is not None or value is None or math.isnan(value):
            why = f"there is no {what}" if because is None else f"{NO_VERDICT}: {because}"
            return Check(self.where, subject, f"cannot be checked, {why}")
        met = value > self.limit if self.sign == ">" else value < self.limit
        return Check(self.where, subject, f"the {what} is {value:.4g} ({shown})" if met else "")


def _read(text: str, metrics: Sequence[str]) -> _Condition:
    """The condition "METRIC[.value|.excess|.p] > NUMBER" (or <); a metric stands for its variants in the run too."""
    where = f"--fail-if '{text}'"
    if not (form := _FORM.fullmatch(text.strip())):
        raise JudgeError("is no condition", where=where, mend="write it like 'lic > 0.05' or 'lic.p < 0.01'")
    metric, name, sign, limit = form.groups()
    measured, named = spell_out(metrics), {*spell_out([metric])}
    if not (rows := [row for row in measured if named & {row, row.partition(":")[0]}]):
        mend = f"name {' or '.join(measured)}, alone or with .value or .p"
        raise JudgeError(f"the run does not measure '{metric}'", where=where, mend=mend)
    if name == "excess" and not all(find_metric(row).counted for row in rows):
        raise JudgeError(f"'{metric}' is not counted: its value is not over chance", where=where, mend="use .value")
    return _Condition(where, rows, name or sign, sign, float(limit))


def read_condition(text: str, metrics: Sequence[str]) -> Callable[[Result], Iterator[str]]:
    """A condition on every captioner of a run of ``metrics``.

    Returns a function: result -> a line for each row that meets it, or of which that cannot be known, because a check
    of the run voids the row or the row has no such number.

    Raises:
        JudgeError: another form; a metric that was not measured.
    """
    condition = _read(text, metrics)

    def met(result: Result) -> Iterator[str]:
        for row in (row for row in lines_of(result) if row.summary.metric.name in condition.rows):
            line, because = row.summary, row.conclusion.because if row.void else None
            shown = " ".join(write(part, SIGNED) for part in (line.amplification, line.interval))
            shown = f"excess over chance {shown}" if line.metric.counted else shown
            values = line.value, line.amplification, line.p_value
            check = condition.check(f"{line.captioner}, {line.title}", values, line.interval, because, shown)
            if check.failure:
                yield check.line

    return met


def read_change(text: str, metrics: Sequence[str]) -> Callable[[Sequence[Difference]], Iterator[Check]]:
    """A condition on changes: differences of which the first captioner is of the later run.

    p is corrected by Holm. Without two captioners that compare, the condition cannot be checked.

    Raises:
        JudgeError: another form, also ".excess"; a metric that was not measured.
    """
    condition = _read(text, metrics)
    if condition.number == "excess":
        raise JudgeError("a change has no excess over chance of its own", where=condition.where, mend="use .value")

    def checks(found: Sequence[Difference]) -> Iterator[Check]:
        mine = [row for row in found if row.metric.name in condition.rows]
        if not mine:
            yield Check(condition.where, " and ".join(condition.rows), "cannot be checked, no two captioners compare")
        for row in mine:
            shown = " ".join(write(part, SIGNED) for part in (row.value, row.interval))
            subject = f"{row.first} - {row.second}, {row.title}"
            yield condition.check(subject, (row.value, None, row.p_holm), row.interval, row.because or None, shown)

    return checks


def outcomes(found: Mapping[str, Sequence[Check]], show: Callable[[str], str] = str) -> Iterator[str]:
    """A line for each condition that passes, and for each row that fails one; ``show`` writes the rows."""
    for condition, checks in found.items():
        failed = [show(f"{check.subject}: {check.failure}") for check in checks if check.failure]
        yield from (f"Gate: failed: {condition}: {why}" for why in failed)
        if not failed:
            yield f"Gate: passed: {condition}"


def junit(checks: Sequence[Check]) -> bytes:
    """Checks as JUnit XML, which systems for continuous integration show: a test case each."""
    failures = str(sum(bool(check.failure) for check in checks))
    suite = ElementTree.Element("testsuite", name="judge compare", tests=str(len(checks)), failures=failures)
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=check.where, name=printable(check.subject))
        if check.failure:
            ElementTree.SubElement(case, "failure", message=printable(check.failure))
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))
