"""Checks of a run that void rows of its table: the verdict is withheld, and the reason is given instead.

A check reads the :class:`Facts` of a row, and yields a :class:`Finding`, whose text follows "no verdict: ".
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from judge.evidence.belonging import STRAY
from judge.masking.measured import hide_nobody
from judge.statistics.summary import Summary
from judge.types import SIDES

# Standard errors by which the judge of human captions, and the agreement of labels, must beat chance.
_BEYOND_CHANCE = 2.0
# From this multiple of a coin's log loss on, answers share their probability with words that are no answers.
_LOST = 2.0
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
AT_CHANCE = "at chance"
"""The rule by which judges of human captions must beat chance."""
_WHOSE = {"human": "human captions", "generated": "its captions"}


class Finding(NamedTuple):
    """Why a row has no verdict: the rule, a clause, and the figures behind it, or ""."""

    rule: str
    text: str
    figures: str = ""

    @property
    def because(self) -> str:
        """The clause with its figures."""
        return f"{self.text} ({self.figures})" if self.figures else self.text


@dataclass(frozen=True, slots=True)
class TextFacts:
    """What a survey found in the captions of one side (:class:`~judge.text.survey.Survey`)."""

    captions: int
    foreign: bool
    affected: int
    revealing: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the checks of a row read; None stands for what was not measured.

    Attributes:
        images: class -> number of images.
        without_value: why the run could not measure the row.
        rewarded_by: the kind of judge that rewarded the captioner.
        naming: shares of human captions, and of the captioner's, that name the attribute.
        kappa, likeness: whether the captions are of their images (:mod:`judge.evidence.belonging`).
        agreements: attribute -> how its labels agree with what human captions name ("images", "kappa").
        masks: measures of what masks hide from judges of images.
        softmax: whether answers compete with all words ("vocabulary") in judges that are prompted.
    """

    attribute: str
    lexicon: str | None
    images: Mapping[str, int]
    without_value: str | None
    rewarded_by: str | None
    naming: tuple[float, float] | None
    texts: Mapping[str, TextFacts]
    kappa: float | None
    likeness: float | None
    agreements: Mapping[str, Mapping[str, Any] | None]
    masks: Mapping[str, Any] | None
    softmax: str | None = None

    @classmethod
    def of(cls, row: Summary, run: Mapping[str, Any]) -> Self:
        """The facts of a row, from the entry "run" of ``metrics.json``; a KeyError where it lacks one."""
        entry, labels, lexicon = run["captioners"][row.captioner], run["labels"], run["lexicon"]
        coverage, texts = entry["coverage"] or {}, entry["text"]
        both = coverage.keys() >= {*SIDES}
        kinds = ("captions", "foreign", "affected", "revealing")
        parts = labels["attributes"] if "attributes" in labels else {run["attribute"]: labels}
        return cls(
            run["attribute"],
            lexicon and lexicon["name"],
            entry["images"],
            entry["without_value"].get(row.metric.name, {}).get(row.judge),
            entry["rewarded_by"],
            (1 - coverage["human"]["none"], 1 - coverage["generated"]["none"]) if both else None,
            {side: TextFacts(*(text[kind] for kind in kinds)) for side, text in texts.items()},
            texts["generated"]["kappa"],
            texts["generated"]["likeness"],
            {name: part["agreement"] for name, part in parts.items()},
            entry["masks"] or run["masks"],  # Joined runs have masks of their own.
            (run.get("sight") or {}).get("answer_softmax"),
        )


def void_rows(summaries: Iterable[Summary], run: Mapping[str, Any]) -> dict[tuple[str, str, str], Finding]:
    """Key of a row -> the first reason for which it has no verdict; ``run``: that entry of ``metrics.json``."""
    return {row.key: finding for row in summaries if (finding := find(row, Facts.of(row, run)))}


def find(row: Summary, facts: Facts) -> Finding | None:
    """The first reason for which a row has no verdict; None where it has one."""
    return next((finding for check in _CHECKS for finding in check(row, facts)), None)


def _without_value(row: Summary, facts: Facts) -> Iterator[Finding]:
    if facts.without_value is not None:
        yield Finding("without value", facts.without_value)


def _at_chance(row: Summary, facts: Facts) -> Iterator[Finding]:
    """Judges of human captions that guess no better than chance cannot see a captioner amplify.

    Metrics with priors are checked by Q. What people name need not depend on the annotation (U). Chance is from
    shuffled labels, else from frequencies; for tasks it is then unknown.
    """
    if row.human is None or row.metric.counted or row.metric.from_annotation:
        return
    score, error, shuffled = row.human, row.human_error, row.chance
    score += row.known or 0.0  # A caption may tell nothing that is not known.
    if row.metric.prior:
        if row.qualities is None or row.guessing is None:
            return
        score, error, shuffled = row.qualities[0], row.guessing.human_error, row.guessing.chance
    chance = row.metric.chance(facts.images) if row.metric.target != "tasks" else None
    chance = shuffled[0] if shuffled else chance
    if chance is not None and error is not None and score - chance < _BEYOND_CHANCE * error:
        figures = f"{score:.3f}, chance {chance:.3f}{_losses(row, facts)}"
        yield Finding(AT_CHANCE, "judges of human captions are no better than chance", figures)


def _losses(row: Summary, facts: Facts) -> str:
    """The log loss on human captions beside that of knowing nothing, and advice; "" where it is not known."""
    if row.human_loss is None or row.metric.prior:
        return ""
    shares = np.array([*facts.images.values()], dtype=np.float64)
    shares = np.full(len(shares), 1 / len(shares)) if row.metric.balanced else shares / shares.sum()
    coin = float(-shares[shares > 0] @ np.log(shares[shares > 0]))
    who = "equal guesses have" if row.metric.balanced else "class frequencies alone have"
    who = "a coin has" if np.allclose(shares, 1 / 2) else who
    advice = "more images may help"
    if row.human_loss > _LOST * coin and facts.softmax == "vocabulary" and row.metric.uses_images:
        advice = "choose --answer-softmax restricted"
    return f"; log loss {row.human_loss:.3f}, {who} {coin:.3f}: {advice}"


def _names_nothing(row: Summary, facts: Facts) -> Iterator[Finding]:
    """A captioner that hardly ever names the attribute says nothing of it that could be compared."""
    if facts.naming is None or row.metric.given:
        return
    human, generated = facts.naming
    if generated < _SILENT and human >= _RATIO * generated:
        text = f"{generated:.1%} of its captions name {facts.attribute}, and {human:.1%} of human captions do"
        yield Finding("names nothing", text)


def _rewarded(row: Summary, facts: Facts) -> Iterator[Finding]:
    """A captioner that was trained to please a judge is measured by another: it may only have learnt to deceive it."""
    judge = facts.rewarded_by
    names = {judge, row.judge.partition(":")[0]}
    if judge and (len(names) == 1 or names <= _LINEAR):
        mend = "use --metrics lic --judge lstm" if row.metric.given else "take another kind, as --judge lstm"
        text = f"such a judge ({judge}) rewarded this captioner in its training: {mend}"
        yield Finding("rewarded", text)


def _vanishes(row: Summary, facts: Facts) -> Iterator[Finding]:
    """The relation of two scores is not known where one of them is too small for a number."""
    if row.metric.amplification != "normalised" or row.human is None or row.generated is None:
        return
    if min(row.human, row.generated) < _LEAST:
        figures = f"human {row.human:.3g}, generated {row.generated:.3g}"
        yield Finding("vanishes", "a score is 0 or too small to compute with", figures)


def _unlike_captions(row: Summary, facts: Facts) -> Iterator[Finding]:
    """Labels that have nothing to do with what human captions name, as if they were shuffled or of other images.

    Without agreement Cohen's kappa has a standard error of about 1 / sqrt(images), or less (Fleiss et al., 1969).
    """
    for name, agreement in facts.agreements.items():
        if agreement is None or agreement["kappa"] is None or agreement["images"] < _COMPARED:
            continue
        images, kappa = agreement["images"], agreement["kappa"]
        if kappa <= max(_KAPPA, _BEYOND_CHANCE / math.sqrt(images)):
            text = f"labels of {name} do not agree with what human captions name"
            yield Finding("unlike captions", text, f"kappa {kappa:.2f} over {images:,} images")


def _other_images(row: Summary, facts: Facts) -> Iterator[Finding]:
    """Captions of other images, as in a file that is moved by one row, tell less for that reason alone."""
    measured = {
        "kappa": (facts.kappa, "name the class of their images no more often than by chance"),
        "likeness": (facts.likeness, "are no more like human captions of their own images than of others"),
    }
    known = {name: (value, what) for name, (value, what) in measured.items() if value is not None}
    if known and max(value for value, _ in known.values()) < STRAY:
        cause = "image ids may not mean the same, or it says much the same of all images"
        text = f"its captions {' and '.join(what for _, what in known.values())}: {cause}"
        yield Finding("other images", text, ", ".join(f"{name} {value:.2f}" for name, (value, _) in known.items()))


def _unmasked(row: Summary, facts: Facts) -> Iterator[Finding]:
    """Judges of images in which people are visible guess their class from the people, whatever the caption says."""
    if row.metric.uses_images and facts.masks and (reason := hide_nobody(facts.masks)):
        yield Finding("unmasked", reason)


def _other_language(row: Summary, facts: Facts) -> Iterator[Finding]:
    """Words of the lexicon that are in another language than the captions find nothing to mask or to count."""
    for side, text in facts.texts.items():
        if text.foreign:
            what = f"{_WHOSE[side]} are not in the language of lexicon '{facts.lexicon}'"
            yield Finding("other language", what)


def _left_by_masking(row: Summary, facts: Facts) -> Iterator[Finding]:
    """Words that masking does not see tell the class to judges, and are not counted as naming it."""
    from_class = row.metric.from_annotation and row.metric.target == "tasks"
    if from_class or (row.metric.hidden == ("task words",) and not row.metric.weighs_named_class):
        return
    for side, text in facts.texts.items():
        if text.affected >= max(1, _AFFECTED * text.captions):
            whose = f"{text.affected / text.captions:.1%} of {_WHOSE[side]}"
            what = f"{whose} hold words that tell {facts.attribute} and were not masked"
            yield Finding("left by masking", what, quote_tokens(text.revealing))


def quote_tokens(tokens: Mapping[str, int]) -> str:
    """Tokens with the number of captions that hold each, as notes quote them."""
    return ", ".join(f"'{token}' {count:,}" for token, count in tokens.items())


# In order: the first reason found is shown.
_CHECKS: tuple[Callable[[Summary, Facts], Iterator[Finding]], ...]
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
