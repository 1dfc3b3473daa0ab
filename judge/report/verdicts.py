"""What can be concluded from a result: a sentence on each captioner, and on each pair of captioners that differ."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from judge.measure import Result
from judge.report.table import SIGNED, digits_of, write
from judge.report.tables import Line, lines_of
from judge.statistics.comparisons import (
    ABOVE,
    BELOW,
    CANNOT_TELL,
    NO_VERDICT,
    NOT_SHOWN,
    NOT_SHOWN_CHANCE,
    PRIOR_ONLY,
)

_MOST = 6
"""Pairs of captioners that have a sentence; the table of differences has all."""
_NO_DIFFERENCE = {CANNOT_TELL, NO_VERDICT, PRIOR_ONLY}


def verdicts(result: Result) -> dict[str, str]:
    """Captioner -> a sentence that begins with what it does, and claims no more than the tests; in table order."""
    found: dict[str, list[Line]] = {}
    for line in lines_of(result):
        found.setdefault(line.summary.captioner, []).append(line)
    alone = _with_one_judge(result)
    return {captioner: f"{'; '.join(_parts(lines, alone))}." for captioner, lines in found.items()}


def _with_one_judge(result: Result) -> set[str]:
    """Metrics that need no name of a judge beside them."""
    counts = Counter(name for name, _ in {(row.metric.name, row.judge) for row in result.summaries})
    return {name for name, count in counts.items() if count == 1}


def _parts(lines: Iterable[Line], alone: Collection[str]) -> Iterator[str]:
    """A part for each verdict, with the values behind it, then what has none; ``alone``: metrics with one judge."""
    groups: dict[tuple[str, str], list[str]] = {}
    untested = []
    for row, conclusion in lines:
        title = row.metric.title if row.metric.name in alone else row.title
        value = "" if row.amplification is None else f" {write(row.amplification, SIGNED, digits_of(row.interval))}"
        value += " over chance" if row.metric.counted and value else ""
        if conclusion.verdict is None:
            untested.append(title + value)
        else:
            why = f", because {conclusion.because}" if conclusion.because else ""
            groups.setdefault((conclusion.verdict, why), []).append(title + (value or " -"))
    for verdict, why in sorted(groups, key=lambda group: [CANNOT_TELL, NO_VERDICT].count(group[0])):
        yield f"{verdict} ({', '.join(groups[verdict, why])}){why}"
    if untested:
        yield f"not tested ({', '.join(untested)})"


def verdict_notes(result: Result) -> list[str]:
    """Notes that the sentences need."""
    found = {(row.captioner, of.verdict) for row, of in lines_of(result)}
    notes = {
        "Metrics that disagree answer different questions: read each by itself.": any(
            verdict == BELOW and (name, ABOVE) in found for name, verdict in found
        ),
        "Judges that were trained once allow no test, and so no verdict: use --refits 10.": any(
            row.basis == "these judges" for row in result.summaries
        ),
        '"Not shown to differ" says that these data show no difference, not that there is none.': any(
            verdict in {NOT_SHOWN, NOT_SHOWN_CHANCE} for _, verdict in found
        ),
    }
    return [note for note, holds in notes.items() if holds]


def difference_verdicts(result: Result) -> Iterator[str]:
    """A sentence for each of a few pairs of captioners that differ, by the table of differences; or that none do."""
    tested = [row for row in result.differences() if row.verdict is not None]
    pairs: dict[tuple[str, str], list[str]] = {}
    alone = _with_one_judge(result)
    for row in tested:
        if row.verdict not in _NO_DIFFERENCE:
            upper, lower = (row.first, row.second) if row.value > 0 else (row.second, row.first)
            title = row.metric.title if row.metric.name in alone else row.title
            value = write(abs(row.value), SIGNED, digits_of(row.interval))
            pairs.setdefault((upper, lower), []).append(f"{title} {value}")
    for (upper, lower), values in islice(pairs.items(), _MOST):
        yield f"{upper} is higher than {lower} ({', '.join(values)})."
    if len(pairs) > _MOST:
        yield f"{len(pairs) - _MOST} more pairs of captioners differ: see the table of differences."
    if tested and not pairs:
        yield "No two captioners were shown to differ."
