"""Checks of a run that void rows of its table: the verdict is withheld, and the reason is given instead.

A check reads the row, and the entry "run" of ``metrics.json``, and yields a clause that follows "no verdict: ".
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from judge.evidence.belonging import STRAY
from judge.evidence.typical import LONGER
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
# Metrics that captions which repeat each other raise without any bias (docs/calibration.md).
_RAISED = ("multi-at", "dpa-at", "dbac-ta", "dpac-ta")
# Share of captions that repeat each other, or have several sentences, more than on the other side, that voids rows.
_MUCH = 0.1
# Content words of human captions, over those of a captioner, from which a lower score is no mitigation.
_BRIEF = 1.5
# Share of content words from which captions are lists; a half in human captions and in those of trained captioners.
_LIST = 0.7
_LISTS = "lists of words tell more than sentences without any bias: take captions that are sentences"
_TELLS = "longer captions tell more without any bias: compare captions of about equal length"
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
    score += row.known or 0.0  # A caption may tell nothing that is not known.
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


def other_lengths(first: Summary, second: Summary, run: Mapping[str, Any]) -> str | None:
    """Why two captioners do not compare because one writes more, as a clause; None if they do."""
    if not (first.metric.counted or first.metric.from_annotation):
        (_, one), (_, other) = _sentences_read(first, run), _sentences_read(second, run)
        if one != other:
            return f"judges read {one} and {other} sentences of a caption: take --text first-sentence"
        (_, share), (_, other_share) = _shares(first, run, "several"), _shares(second, run, "several")
        if abs(share - other_share) > _MUCH:
            return f"{share:.0%} and {other_share:.0%} of captions have several sentences: take --text first-sentence"
    moved = (first.amplification or 0.0) - (second.amplification or 0.0)
    (_, words), (_, others) = _words_read(first, run), _words_read(second, run)
    if _is_longer(words, others, moved):
        return f"{_TELLS} ({words:.1f} and {others:.1f} different content words)"
    (_, content), (_, other_content) = _content(first, run), _content(second, run)
    if max(content, other_content) > _LIST and _is_longer(content, other_content, moved):
        return f"{_LISTS} ({content:.0%} and {other_content:.0%} of the words are content words)"
    return None


def _longer(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """What says more of an image tells more of the class, and names more tasks, whoever wrote it (docs/trust.md)."""
    if row.metric.amplification == "one_side" or row.captioner in people_of(run):
        return  # These are not compared with people.
    human, generated = _words_read(row, run)
    person, moved = _words_of_person(row, run), _moved(row)
    if _is_longer(generated, person if person and moved > 0 else human, moved, _BRIEF):
        people = f"{human:.1f} in human ones" + (f", {person:.1f} in those of the typical person" if person else "")
        yield f"{_TELLS} ({generated:.1f} different content words in its captions, {people})"


def _lists(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Content words alone are read more easily than sentences with as many of them (docs/trust.md)."""
    if row.metric.amplification == "one_side":
        return
    human, generated = _content(row, run)
    if max(human, generated) > _LIST and _is_longer(generated, human, _moved(row)):
        yield f"{_LISTS} ({generated:.0%} of the words of its captions are content words, {human:.0%} of human ones)"


def _content(row: Summary, run: Mapping[str, Any]) -> tuple[float, float]:
    """Share of content words in human captions, and in the captioner's; 0: unknown, or of no effect."""
    return _surveyed(row, run, "content" if row.metric.length == "words_read" else None)


def _words_of_person(row: Summary, run: Mapping[str, Any]) -> float:
    """Words of the typical person that the row is compared with; 0: there is none, or they have no effect."""
    name = person_of(row, run)
    return _words_read(replace(row, captioner=name), run)[1] if name else 0.0


def person_of(row: Summary, run: Mapping[str, Any]) -> str | None:
    """The typical person that a row is compared with, by the entry "run" of ``metrics.json``; None where there is none.

    Where length matters to the metric, this is the one who says as much as the captioner.
    """
    entries = run["captioners"]
    entry = entries[row.captioner]
    people = entry.get("longer", {}).get(row.metric.length), entry.get("typical")
    reads = ((name, entries.get(name, {}).get("reads", {}).get(row.metric.name, {})) for name in people if name)
    return next((name for name, judges in reads if row.judge in judges), None)


def people_of(run: Mapping[str, Any]) -> set[str]:
    """The typical persons among the captioners of a run."""
    entries = run["captioners"].values()
    return {name for of in entries for name in (of.get("typical"), *of.get("longer", {}).values()) if name}


def _is_longer(words: float, others: float, moved: float, most: float = LONGER) -> bool:
    """Whether the side with more words also scores more.

    ``moved`` is the score of the first side minus that of the other. The first side has more words if it has over
    ``LONGER`` times as many as the other, and the other if it has over ``most`` times as many as the first.
    """
    return (0 < LONGER * others < words and moved > 0) or (0 < most * words < others and moved < 0)


def _words_read(row: Summary, run: Mapping[str, Any]) -> tuple[float, float]:
    """Content words of a human caption and of the captioner's, or of their sentences; 0: unknown, or of no effect."""
    return _surveyed(row, run, row.metric.length)


def _surveyed(row: Summary, run: Mapping[str, Any], name: str | None) -> tuple[float, float]:
    """A number of the survey of human captions, and of the captioner's; 0 where it is unknown."""
    text = run["captioners"][row.captioner].get("text", {})
    human, generated = (float(text.get(side, {}).get(name, 0.0)) for side in _WHOSE)
    return human, generated


def _moved(row: Summary) -> float:
    """How far the value is from that without amplification; 0 without a value."""
    return (row.amplification or row.metric.neutral) - row.metric.neutral


def _sentences_read(row: Summary, run: Mapping[str, Any]) -> tuple[int, int]:
    """Sentences of a human caption, and of the captioner's, that judges read one by one; 1: it is whole."""
    numbers = run["captioners"][row.captioner].get("sentences", {})
    return numbers.get("human", 1), numbers.get("generated", 1)


def _diluted(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Sentences that tell nothing of the class lower the score of a side with more sentences, whatever others tell."""
    if row.metric.counted or row.metric.from_annotation or row.metric.amplification == "one_side":
        return
    human, generated = map(float, _sentences_read(row, run))
    counts = f"{generated:g} sentences of a caption, {human:g} of a human one"
    if human == generated:
        human, generated = _shares(row, run, "several")
        counts = f"{generated:.0%} of its captions have several, {human:.0%} of human ones"
    if abs(generated - human) > _MUCH and (generated - human) * _moved(row) < 0:
        whose = _WHOSE["generated" if generated > human else "human"]
        what = f"sentences that tell nothing of {run['attribute']} lower the score of {whose}"
        yield f"{what}: take --text first-sentence ({counts})"


def _repeats(row: Summary, run: Mapping[str, Any]) -> Iterator[str]:
    """Few different captions are easier to predict, and of other frequencies than human ones, whomever they are of."""
    if row.metric.name.startswith(_RAISED) and (row.amplification or 0) > row.metric.neutral:
        human, generated = _shares(row, run, "twins")
        if generated - human > _MUCH:
            shares = f"{generated:.0%} of its captions, {human:.0%} of human ones"
            yield f"captions that repeat each other raise it without any bias ({shares})"


def _shares(row: Summary, run: Mapping[str, Any], count: str) -> tuple[float, float]:
    """The shares of human captions, and of the captioner's, that a survey counts as ``count``."""
    sides = (run["captioners"][row.captioner].get("text", {}).get(side, {}) for side in _WHOSE)
    human, generated = (of.get(count, 0) / max(1, of.get("captions", 0)) for of in sides)
    return human, generated


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
    _diluted,
    _longer,
    _lists,
    _repeats,
)
