"""A result in sentences: what can be said of each captioner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from judge.measure import Result
from judge.report.table import SIGNED, digits_of, write
from judge.report.tables import Line, lines_of
from judge.statistics.comparisons import NO_VERDICT

CANNOT_TELL = "cannot tell"
DISAGREE = "Metrics that disagree answer different questions: read each by itself."
NO_PROOF = '"Cannot tell" says that these data show no difference, not that there is none.'
TOGETHER = "Verdicts are corrected for the number of tests: an interval by itself may lie beside 0 all the same."
NO_TEST = "Judges that were trained once allow no test, and so no verdict: use --refits 10."


class Verdict(NamedTuple):
    """A sentence about a captioner, which begins with what the captioner does; it says no more than the tests."""

    captioner: str
    sentence: str


def verdicts(result: Result) -> list[Verdict]:
    """A sentence per captioner, in the order of the table."""
    judges: dict[str, set[str]] = {}
    for row in result.summaries:
        judges.setdefault(row.metric.name, set()).add(row.judge)
    several = {name for name, of in judges.items() if len(of) > 1}
    lines: dict[str, list[Line]] = {}
    for line in lines_of(result):
        lines.setdefault(line.summary.captioner, []).append(line)
    return [Verdict(captioner, f"{'; '.join(_parts(of, several))}.") for captioner, of in lines.items()]


def _parts(lines: list[Line], several: set[str]) -> Iterator[str]:
    """A part for each verdict, with the values behind it, then what has none; ``several``: metrics of many judges."""
    groups: dict[tuple[str, str], list[str]] = {}
    untested = []
    for row, conclusion in lines:
        title = row.title if row.metric.name in several else row.metric.title
        value = "" if row.amplification is None else f" {write(row.amplification, SIGNED, digits_of(row.interval))}"
        if conclusion.verdict is None:
            untested.append(title + value)
        else:
            why = f", because {conclusion.reason}" if conclusion.verdict == NO_VERDICT else ""
            groups.setdefault((conclusion.verdict, why), []).append(title + (value or " -"))
    for verdict, why in sorted(groups, key=lambda group: [CANNOT_TELL, NO_VERDICT].count(group[0])):
        yield f"{verdict} ({', '.join(groups[verdict, why])}){why}"
    if untested:
        yield f"not tested ({', '.join(untested)})"


def verdict_notes(result: Result) -> list[str]:
    """Notes that the sentences need."""
    lines = lines_of(result)
    found = {(row.captioner, of.verdict) for row, of in lines}
    open_rows = [row for row, of in lines if of.verdict == CANNOT_TELL]
    beside = [row for row in open_rows if row.interval
              and not row.interval.low <= row.metric.neutral <= row.interval.high]  # fmt: skip
    notes = {
        DISAGREE: any(verdict == "mitigates" and (name, "amplifies") in found for name, verdict in found),
        NO_TEST: any(row.basis == "these judges" for row in result.summaries),
        NO_PROOF: open_rows,
        TOGETHER: beside,
    }
    return [note for note, holds in notes.items() if holds]
