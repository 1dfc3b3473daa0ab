"""Checks of a run that void rows of its table: the verdict is withheld, and the reason is given instead.

A check reads the row, and the entry "run" of ``metrics.json``, and yields a clause that follows "no verdict: ".
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from judge.evidence.belonging import STRAY
from judge.masking.measured import hide_nobody
from judge.statistics.summary import Summary

# Standard errors by which the judge of human captions, and the agreement of labels, must beat chance.
_BEYOND_CHANCE = 2.0
# A product of probabilities that is smaller may have lost its digits, or be 0, in float64.
_LEAST = 1e-290
# Largest share of captions that name the attribute for "near none", where human captions name it ten times as often.
_SILENT, _RATIO = 0.02, 10
# Images from which labels are compared with what human captions name, and the kappa that they must exceed.
_COMPARED, _KAPPA = 30, 0.1
# Share of captions with words that tell the class to judges although masking is over.
_AFFECTED = 0.02
# Judges that read the same words with the same kind of model.
_LINEAR = {"words+embedding", "embedding", "linear", "best"}
_WHOSE = {"human": "human captions", "generated": "its captions"}


def void_rows(summaries: Iterable[Summary], run: Mapping[str, Any]) -> dict[tuple[str, str, str], str]:
    """Key of a row -> the first reason for which it has no verdict; ``run``: that entry of ``metrics.json``."""
    found = {row.key: next((reason for check in _CHECKS for reason in check(row, run)), None) for row in summaries}
    return {key: reason for key, reason in found.items() if reason}


def _without_value(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """The run could not measure the row."""
    known = run["captioners"][row.captioner].get("without_value", {}).get(row.metric.name, {})
    if row.judge in known:
        yield known[row.judge]


def _at_chance(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Judges of human captions that guess no better than chance cannot see a captioner amplify.

    Metrics with priors are checked by Q. What people name may not depend on the annotation at all (U): a captioner's
    names may nevertheless. Chance is from shuffled labels, else from frequencies; for tasks it is then unknown.
    """
    if row.human is None or row.metric.counted or row.metric.from_annotation:
        return
    score, error, shuffled = row.human, row.human_error, row.chance
    if row.metric.prior:
        if row.qualities is None or row.guessing is None:
            return
        score, error, shuffled = row.qualities[0], row.guessing.human_error, row.guessing.chance
    chance = row.metric.chance(run["captioners"][row.captioner]["images"]) if row.metric.target != "tasks" else None
    chance = shuffled[0] if shuffled else chance
    if chance is not None and error is not None and score - chance < _BEYOND_CHANCE * error:
        yield f"judges of human captions are no better than chance ({score:.3f}, chance {chance:.3f})"


def _names_nothing(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """A captioner that hardly ever names the attribute neither amplifies nor mitigates what it says of it."""
    coverage = run["captioners"][row.captioner].get("coverage")
    if not coverage or "human" not in coverage:
        return
    human, generated = (1 - coverage[side]["none"] for side in ("human", "generated"))
    if generated < _SILENT and human >= _RATIO * generated:
        yield f"{generated:.1%} of its captions name {run['attribute']}, and {human:.1%} of human captions do"


def _rewarded(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """A captioner that was trained to please a judge is measured by another: it may only have learnt to deceive it."""
    judge = run["captioners"][row.captioner].get("rewarded_by")
    names = {judge, row.judge.partition(":")[0]}
    if judge and (len(names) == 1 or names <= _LINEAR):
        yield f"such a judge ({judge}) rewarded this captioner in its training: take another kind, as --judge lstm"


def _vanishes(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """The relation of two scores is not known where one of them is too small for a number."""
    if row.metric.amplification != "normalised" or row.human is None or row.generated is None:
        return
    if min(row.human, row.generated) < _LEAST:
        yield f"a score is 0 or too small to compute with (human {row.human:.3g}, generated {row.generated:.3g})"


def _unlike_captions(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Labels that have nothing to do with what human captions name, as if they were shuffled or of other images.

    Without agreement Cohen's kappa has a standard error of about 1 / sqrt(images), or less (Fleiss et al., 1969).
    """
    labels = run.get("labels", {})
    for name, of in labels.get("attributes", {run.get("attribute"): labels}).items():
        images, kappa = (of.get("agreement") or {}).get("images", 0), (of.get("agreement") or {}).get("kappa")
        if images >= _COMPARED and kappa is not None and kappa <= max(_KAPPA, _BEYOND_CHANCE / math.sqrt(images)):
            share = f"kappa {kappa:.2f} over {images:,} images"
            yield f"labels of {name} do not agree with what human captions name ({share})"


def _other_images(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Captions of other images, as in a file that is moved by one row, tell less for that reason alone."""
    text = run["captioners"][row.captioner].get("text", {}).get("generated", {})
    found = {
        "name the class of their images no more often than by chance": text.get("kappa"),
        "are no more like human captions of their own images than of others": text.get("likeness"),
    }
    known = {what: value for what, value in found.items() if value is not None}
    if known and max(known.values()) < STRAY:
        figures = ", ".join(f"{name} {text[name]:.2f}" for name in ("kappa", "likeness") if text[name] is not None)
        yield f"its captions {' and '.join(known)}: see that image ids mean the same ({figures})"


def _unmasked(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Judges of images in which people are visible guess their class from the people, whatever the caption says."""
    masks = run["captioners"][row.captioner].get("masks", run.get("masks"))  # Joined runs have masks of their own.
    if row.metric.uses_images and masks and (reason := hide_nobody(masks)):
        yield reason


def _other_language(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Words of the lexicon that are in another language than the captions find nothing to mask or to count."""
    for side, text in run["captioners"][row.captioner].get("text", {}).items():
        if text["foreign"]:
            yield f"{_WHOSE[side]} are not in the language of lexicon '{run['lexicon']['name']}'"


def _left_by_masking(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Words that masking does not see tell the class to judges, and are not counted as naming it."""
    from_class = row.metric.from_annotation and row.metric.target == "tasks"
    if from_class or (row.metric.hidden == ("task words",) and not row.metric.weighs_named_class):
        return
    for side, text in run["captioners"][row.captioner].get("text", {}).items():
        if text["affected"] >= max(1, _AFFECTED * text["captions"]):
            whose = f"{text['affected'] / text['captions']:.1%} of {_WHOSE[side]}"
            tokens = quote_tokens(text["revealing"])
            yield f"{whose} hold words that tell {run['attribute']} and were not masked ({tokens})"


def quote_tokens(tokens: Mapping[str, int]) -> str:
    """Tokens with the number of captions that hold each, as notes quote them."""
    return ", ".join(f"'{token}' {count:,}" for token, count in tokens.items())


# In order: the first reason found is shown.
_CHECKS: tuple[Callable[[Summary, Mapping[str, Any]], Iterator[str]], ...]
_CHECKS = (
    _without_value,
    _rewarded,
    _other_language,
    _left_by_masking,
    _unlike_captions,
    _names_nothing,
    _other_images,
    _unmasked,
    _at_chance,
    _vanishes,
)
