"""Whether a run's own checks void a row of the table: its verdict is then withheld, and the reason stands in its place.

A check reads the row, and the entry "run" of ``metrics.json``, and yields what voids the row: a clause that follows
"no verdict: ". It reads facts that were measured, never settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from judge.masking.measured import hide_nobody
from judge.metrics.scores import SCORES
from judge.statistics.summary import Summary

# Standard errors by which the judge of human captions must beat chance.
_BEYOND_CHANCE = 2.0
# Captions that name the attribute: fewer than this share, where people name it ten times as often, are near none.
_SILENT, _RATIO = 0.02, 10


def void_rows(summaries: Iterable[Summary], run: Mapping[str, Any]) -> dict[tuple[str, str, str], str]:
    """Key of a row -> the first reason for which it has no verdict; rows without one are left out.

    Args:
        summaries: rows of a table.
        run: the entry "run" of ``metrics.json``.
    """
    found = {row.key: next(_reasons(row, run), None) for row in summaries}
    return {key: reason for key, reason in found.items() if reason}


def _reasons(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    for check in _CHECKS:
        yield from check(row, run)


def _at_chance(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Judges of human captions that guess no better than chance cannot see a captioner amplify."""
    if row.human is None or row.metric.counted or row.metric.prior or row.human_error is None:
        return
    classes = len(run["captioners"][row.captioner]["images"])
    chance = row.chance[0] if row.chance else SCORES[row.metric.score].chance(classes)
    if row.human - chance < _BEYOND_CHANCE * row.human_error:
        yield f"judges of human captions are no better than chance ({row.human:.3f}, chance {chance:.3f})"


def _names_nothing(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """A captioner that hardly ever names the attribute neither amplifies nor mitigates what it says of it."""
    if not (coverage := run["captioners"][row.captioner].get("coverage")):
        return
    human, generated = (1 - coverage[side]["none"] for side in ("human", "generated"))
    if generated < _SILENT and human >= _RATIO * generated:
        yield f"{generated:.1%} of its captions name {run['attribute']}, and {human:.1%} of human captions do"


def _unmasked(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Judges of images in which people are visible guess their class from the people, whatever the caption says."""
    if row.metric.uses_images and (masks := run.get("masks")) and (reason := hide_nobody(masks)):
        yield reason


# In order: the first reason found is shown.
_CHECKS: tuple[Callable[[Summary, Mapping[str, Any]], Iterator[str]], ...] = (
    _names_nothing,
    _unmasked,
    _at_chance,
)
