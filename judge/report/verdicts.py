"""What can be concluded from a result: a sentence on each captioner, and on each pair of captioners that differ."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import astuple
from itertools import islice

from judge.measure import Result
from judge.quality import change
from judge.report.table import SIGNED, digits_of, grouped, write, write_p
from judge.report.tables import Line, lines_of
from judge.statistics.comparisons import (
    CANNOT_TELL,
    HIGHER,
    LIKE_PERSON,
    LOWER,
    NO_VERDICT,
    NOT_SHOWN,
    NOT_SHOWN_CHANCE,
    PRIOR_ONLY,
    Difference,
)
from judge.statistics.inference import SIGNIFICANT
from judge.statistics.summary import Summary

_MOST = 6
"""Pairs of captioners that have a sentence; the table of differences has all."""
_QUALITY = "CIDEr"
"""The score of caption quality that sentences name."""
_NO_DIFFERENCE = {CANNOT_TELL, NO_VERDICT, PRIOR_ONLY}
_KNOWN = {
    "people": "what other people say of the image",
    "objects": "the objects in the image",
    "image": "the image with people hidden",
}
_HEADS = {
    CANNOT_TELL: "cannot tell whether {} amplifies",
    NO_VERDICT: "no verdict on {}",
    LIKE_PERSON: "{} is like a person",
    None: "{} was not tested",
}


def verdicts(result: Result) -> list[tuple[str, str]]:
    """The verdict on each captioner, and what it rests on, which claims no more than the tests; in table order.

    What a captioner tells beyond a person comes first, and published metrics follow. The verdict on a captioner that
    only these measured is its name.
    """
    alone, found = _with_one_judge(result), list[tuple[str, str]]()
    for captioner in dict.fromkeys(row.captioner for row in result.summaries):
        lines = [line for line in lines_of(result) if line.summary.captioner == captioner]
        own = [_on_gain(line, result.run["attribute"], alone) for line in lines if line.summary.metric.given]
        published = "; ".join(_parts((line for line in lines if not line.summary.metric.given), alone))
        if own and published:
            own[0] = own[0][0], f"{own[0][1]} Published metrics: {published}."
        found += own or [(captioner, f"{published}.")]
    return found


def person_verdicts(result: Result) -> list[str]:
    """A sentence for each row of what a captioner tells beyond a person; in table order."""
    alone = _with_one_judge(result)
    rows = (line for line in lines_of(result) if line.summary.metric.given)
    return [": ".join(_on_gain(line, result.run["attribute"], alone)) for line in rows]


def _on_gain(line: Line, attribute: str, alone: Collection[str]) -> tuple[str, str]:
    """The verdict of a row, and what it rests on."""
    row, (verdict, because, detectable) = line.summary, astuple(line.conclusion)
    head = _HEADS.get(verdict, f"{{}} {verdict}").format(row.captioner)
    if verdict == NO_VERDICT or row.amplification is None:
        return head, f"{because or 'there is no value'}."
    sign = -1 if row.amplification < 0 else 1
    ends = [sign * end for end in (row.interval.low, row.interval.high)] if row.interval else []
    # Two significant digits of half of the interval.
    half = abs(ends[1] - ends[0]) / 2 if ends else 0.0
    digits = max(0, -1 - math.floor(math.log10(half))) if half else 1

    def percent(value: float) -> str:
        return f"{round(100 * value, digits) + 0.0:.{digits}f}"

    interval = f" [{', '.join(map(percent, sorted(ends)))}]" if ends else ""
    told = f"its captions tell {percent(abs(row.amplification))}%{interval} {'less' if sign < 0 else 'more'}"
    given = " and ".join(_KNOWN[of] for of in row.metric.given)
    told += f" of the {attribute} than another person's would, given {given}"
    told += "" if row.metric.name in alone else f", by judge {row.judge}"
    if verdict == CANNOT_TELL and detectable is not None:
        told += f", and only more than {percent(detectable)}% would have been found"
    return head, f"{told}."


def _with_one_judge(result: Result) -> set[str]:
    """Metrics that need no name of a judge beside them."""
    counts = Counter(name for name, _ in {(row.metric.name, row.judge) for row in result.summaries})
    return {name for name, count in counts.items() if count == 1}


def _parts(lines: Iterable[Line], alone: Collection[str]) -> Iterator[str]:
    """A part for each verdict, with the values behind it, then what has none; ``alone``: metrics with one judge."""
    groups: dict[tuple[str, str], list[str]] = {}
    untested = []
    for row, conclusion in lines:
        title, value = _title(row, alone), ""
        if row.amplification is not None:
            over = " over chance" if row.metric.counted else ""
            value = f" {write(row.amplification, SIGNED, digits_of(row.interval))}{over}"
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
    higher, lower = ({name for name, verdict in found if verdict in of} for of in (HIGHER, LOWER))
    small = result.run.get("small", 0.0)
    notes = {
        "Metrics that disagree answer different questions: read each by itself.": bool(higher & lower),
        f'"Like a person" says that the interval lies within {100 * small:g}% of a person (--small).': any(
            verdict == LIKE_PERSON for _, verdict in found
        ),
        "Judges that were trained once allow no test, and so no verdict: use --refits 10.": any(
            row.basis == "these judges" for row in result.summaries
        ),
        '"Not shown to differ" says that these data show no difference, not that there is none.': any(
            verdict in {NOT_SHOWN, NOT_SHOWN_CHANCE} for _, verdict in found
        ),
    }
    return [note for note, holds in notes.items() if holds]


def changes(result: Result) -> Iterator[str]:
    """What each captioner changes against the run's baseline, in bias and quality, by the table of differences.

    It helps to come nearer to no amplification.
    """
    baseline, alone = result.run.get("baseline", ""), _with_one_judge(result)
    distances = {row.key: row.distance for row in result.summaries}
    for name, rows in grouped((row.first, row) for row in (result.differences() if baseline else ())).items():
        tested = [row for row in rows if row.verdict not in {None, NO_VERDICT}]
        shown = [row for row in tested if row.verdict not in _NO_DIFFERENCE]
        parts = [_moved(_title(row, alone), row.value, row.p_holm) for row in shown]
        nearer = {
            distances[name, row.metric.name, row.judge] < distances[baseline, row.metric.name, row.judge]
            for row in shown
        }
        unknown = ", ".join(f"{_title(row, alone)} {_with_interval(row)}" for row in tested)
        head = {
            (): f"whether it helped is not known, no change of bias was shown ({unknown})",
            (True,): "it helped",
            (False,): "it did not help",
        }
        said = head.get((*nearer,), "some metrics came nearer to no amplification, and others went away from it")
        said = f"{said}: {', '.join(parts)}" if parts else said
        said = said if tested else "there is no verdict on the change of bias"
        yield f"{name} against {baseline}: {said}.{_quality_changed(result, name, baseline)}"


def _quality_changed(result: Result, name: str, baseline: str) -> str:
    """A sentence on the caption quality of two captioners, maybe of more images; "" where it was not measured."""
    after, before = (of and of.row(_QUALITY) for of in map(result.quality.get, (name, baseline)))
    if not after or not before or (moved := change(after, before)) is None:
        return ""
    judged = max(row.images for row in result.summaries if row.captioner == name)
    where = "" if after.images == judged else f", over {after.images:,} images"
    if moved[1] >= SIGNIFICANT:
        return f" {_QUALITY} was not shown to change ({after.value - before.value:+.3f}{where})."
    return f" {_moved(_QUALITY, *moved)}{where}."


def _title(row: Summary | Difference, alone: Collection[str]) -> str:
    return row.metric.title if row.metric.name in alone else row.title


def _with_interval(row: Difference) -> str:
    interval = f" {write(row.interval, SIGNED, digits_of(row.interval))}" if row.interval else ""
    return write(row.value, SIGNED, digits_of(row.interval)) + interval


def _moved(title: str, value: float, p_value: float | None) -> str:
    p = "" if p_value is None else f" (p {write_p(p_value).replace('<', '< ')})"
    return f"{title} {'rose' if value > 0 else 'fell'} by {abs(value):.3f}{p}"


def difference_verdicts(result: Result) -> Iterator[str]:
    """A sentence for each of a few pairs of captioners that differ; with a baseline, what each changes against it."""
    if result.run.get("baseline"):
        yield from changes(result)
        return
    tested, alone = [row for row in result.differences() if row.verdict is not None], _with_one_judge(result)
    pairs = grouped(
        (
            (row.first, row.second) if row.value > 0 else (row.second, row.first),
            f"{_title(row, alone)} {write(abs(row.value), SIGNED, digits_of(row.interval))}",
        )
        for row in tested
        if row.verdict not in _NO_DIFFERENCE
    )
    for (upper, lower), values in islice(pairs.items(), _MOST):
        yield f"{upper} is higher than {lower} ({', '.join(values)})."
    if len(pairs) > _MOST:
        yield f"{len(pairs) - _MOST} more pairs of captioners differ: see the table of differences."
    if tested and not pairs:
        yield "No two captioners were shown to differ."
