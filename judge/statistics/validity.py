"""Whether a run's own checks void a row of the table: its verdict is then withheld, and the reason stands in its place.

A check reads the row, and the entry "run" of ``metrics.json``, and yields what voids the row: a clause that follows
"no verdict: ". It reads facts that were measured, never settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from judge.metrics.scores import SCORES
from judge.statistics.summary import Summary

# Standard errors by which the judge of human captions must beat chance.
_BEYOND_CHANCE = 2.0
# Captions that name the attribute: fewer than this share, where people name it ten times as often, are near none.
_SILENT, _RATIO = 0.02, 10
# Share of captions with words that tell the class to judges although masking is over.
_TOLD = 0.02
_WHOSE = {"human": "human captions", "generated": "its captions"}


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


def _other_language(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Words of the lexicon that are in another language than the captions find nothing to mask or to count."""
    for side, text in run["captioners"][row.captioner].get("text", {}).items():
        if text["foreign"]:
            yield f"{_WHOSE[side]} are not in the language of lexicon '{run['lexicon']['name']}'"


def _left_by_masking(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Words that masking does not see tell the class to judges, and are not counted as naming it."""
    if row.metric.hidden == ("task words",) and row.metric.prior != "P(a^)/P(T)":
        return
    for side, text in run["captioners"][row.captioner].get("text", {}).items():
        if text["told"] >= max(1, _TOLD * text["captions"]):
            whose, tokens = f"{text['told'] / text['captions']:.1%} of {_WHOSE[side]}", quote_tokens(text["telling"])
            yield f"{whose} hold words that tell {run['attribute']} and were not masked ({tokens})"


def quote_tokens(tokens: Mapping[str, int]) -> str:
    """Tokens with the number of captions that hold each, as notes quote them."""
    return ", ".join(f"'{token}' {count:,}" for token, count in tokens.items())


# In order: the first reason found is shown.
_CHECKS: tuple[Callable[[Summary, Mapping[str, Any]], Iterator[str]], ...] = (
    _other_language,
    _left_by_masking,
    _names_nothing,
    _at_chance,
)
