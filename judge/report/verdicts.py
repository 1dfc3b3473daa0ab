"""A result in sentences: what can be said of each captioner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from judge.measure import Result
from judge.report.table import SIGNED, digits_of, write
from judge.statistics.comparisons import NO_VERDICT, Conclusion
from judge.statistics.summary import Summary

CANNOT_TELL = "cannot tell"
DISAGREE = "Metrics that disagree answer different questions: read each by itself."
NO_PROOF = '"Cannot tell" says that these data show no difference, not that there is none.'
TOGETHER = "Verdicts are corrected for the number of tests: an interval by itself may lie beside 0 all the same."
NO_TEST = "Judges that were trained once allow no test, and so no verdict: use --refits 10."


class Verdict(NamedTuple):
    """What is said of a captioner.

    Attributes:
        captioner: its name.
        sentence: in plain words; it begins with what the captioner does.
    """

    captioner: str
    sentence: str


def verdicts(result: Result) -> list[Verdict]:
    """A sentence per captioner, in the order of the table; it says no more than the tests."""
    rows: dict[str, list[tuple[Summary, Conclusion]]] = {}
    for row, conclusion in zip(result.summaries, result.conclusions(), strict=True):
        rows.setdefault(row.captioner, []).append((row, conclusion))
    titles = _titles(result.summaries)
    return [Verdict(captioner, f"{'; '.join(_parts(of, titles))}.") for captioner, of in rows.items()]


def verdict_notes(result: Result) -> list[str]:
    """What must be known to read the sentences."""
    concluded = list(zip(result.summaries, result.conclusions(), strict=True))
    found = [(row.captioner, of.verdict) for row, of in concluded]
    both = [name for name, verdict in found if verdict == "mitigates" and (name, "amplifies") in found]
    once = any(row.basis == "these judges" for row in result.summaries)
    unknown = any(of == CANNOT_TELL for _, of in found)
    beside = any(
        row.interval and not row.interval.low <= row.metric.neutral <= row.interval.high
        for row, of in concluded
        if of.verdict == CANNOT_TELL
    )
    notes = ((DISAGREE, both), (NO_TEST, once), (NO_PROOF, unknown), (TOGETHER, beside))
    return [note for note, holds in notes if holds]


def _titles(rows: Sequence[Summary]) -> dict[tuple[str, str], str]:
    """(metric, judge) -> how sentences name it: the judge only where a metric has several."""
    judges: dict[str, set[str]] = {}
    for row in rows:
        judges.setdefault(row.metric.name, set()).add(row.judge)
    return {row.key[1:]: row.title if len(judges[row.metric.name]) > 1 else row.metric.title for row in rows}


def _parts(rows: Sequence[tuple[Summary, Conclusion]], titles: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """A part for each verdict, with the values behind it; then what has none."""
    groups: dict[tuple[str, str], list[str]] = {}
    untested = []
    for row, conclusion in rows:
        title = titles[row.key[1:]]
        value = write(row.amplification, SIGNED, digits_of(row.interval))
        if conclusion.verdict is None:
            untested.append(title if row.amplification is None else f"{title} {value}")
        else:
            why = f", because {conclusion.reason}" if conclusion.verdict == NO_VERDICT else ""
            groups.setdefault((conclusion.verdict, why), []).append(f"{title} {value}")
    last = sorted(groups.items(), key=lambda group: [CANNOT_TELL, NO_VERDICT].count(group[0][0]))
    yield from (f"{verdict} ({', '.join(names)}){why}" for (verdict, why), names in last)
    if untested:
        yield f"not tested ({', '.join(untested)})"
