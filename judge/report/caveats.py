"""Warnings about a result: what would mislead a reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from judge.errors import shortened
from judge.measure import Result
from judge.metrics.scores import SCORES
from judge.report.notes import OF_NAMED, alike, class_notes, metrics_of
from judge.statistics.summary import ROW
from judge.statistics.validity import quote_tokens
from judge.text.alignment import hardly_contextual
from judge.types import Doubt

# A captioner that names the attribute this much less often than people is pointed out.
_QUIET = 0.5
# The same text for many images. The most frequent text of the shared captioners is 2.6% to 7.3% of theirs (300 images).
_REPEATED, _LEAST = 0.1, 10
# Share of captions with words that tell the class from which the note on them is never cut.
_TOLD = 0.005
# With fewer refits a warning says how little they tell.
_FEW = 5


def warnings(result: Result) -> list[str]:
    """What would make a reader draw a wrong conclusion, a line each; often none."""
    return [
        *class_notes(result.run["labels"]),
        *result.run.get("input_notes", ()),
        *_texts(result.run),
        *_without_images(result.run),
        *_named_in_part(result),
        *_class_never_named(result),
        *_training_noise(result),
        *_few_refits(result),
        *_learnt_nothing(result),
        *_seldom_naming(result.run),
        *_unlike_the_paper(result.run),
        *_hardly_contextual(result.run),
        *_other_judge(result),
        *_without_value(result),
        *_by_construction(result),
        *_skipped(result),
    ]


def _texts(run: Mapping[str, Any]) -> Iterator[str]:
    """What was cleaned, what masking left, another language, and one text of many images."""
    found = [
        (f"human captions of {name}'s images" if side == "human" else f"captions of {name}", note)
        for name, entry in run["captioners"].items()
        for side, text in entry["text"].items()
        for note in text_notes(text, run["attribute"])
    ]
    kinds = {note: type(note) for _, note in found}
    yield from (kinds[note](f"{names}: {note}.") for names, note in alike(found))


def text_notes(text: Mapping[str, Any], attribute: str) -> Iterator[str]:
    """Notes on the captions of one side, a :class:`~judge.text.survey.Survey` as JSON has it; without full stops."""
    of_all = f"of {text['captions']:,}"
    if text["cleaned"]:
        yield "cleaned before they were read: " + ", ".join(f"{what} in {n:,}" for what, n in text["cleaned"].items())
    if text["foreign"]:
        mend = "a lexicon in another language says so by 'language: de'"
        yield Doubt(f"most are not in the language of the lexicon, which masks next to nothing in them ({mend})")
    if text["told"]:
        what = f"hold words that were not masked and hold a word of the lexicon, or nearly decide {attribute}"
        kind = Doubt if text["told"] >= _TOLD * text["captions"] else str
        yield kind(f"{text['told']:,} {of_all} {what}: {quote_tokens(text['telling'])}")
    if text["repeated"] >= max(_LEAST, _REPEATED * text["captions"]):
        yield Doubt(f'{text["repeated"]:,} {of_all} read the same: "{shortened(text["text"], 80)}"')


def _without_images(run: Mapping[str, Any]) -> Iterator[str]:
    """Classes that no image has, or none that a captioner described: chance is that of the others."""
    entries = run["captioners"].items()
    for names, absent in alike((name, ", ".join(entry.get("without_images", ()))) for name, entry in entries):
        if absent:
            yield f"{names}: no image that both sides describe is of class {absent}: the other classes alone count."
    if len({tuple(entry["images"]) for _, entry in entries}) > 1:
        yield "captioners whose images have other classes are not compared with each other."


def _training_noise(result: Result) -> Iterator[str]:
    """Intervals that leave training out."""
    run, rows = result.run, [row for row in result.summaries if row.basis == "these judges"]
    if rows:
        advice = "--refits N, or five splits or more (--folds 5, --seeds 5)"
        if run["protocol"] == "paper" and any(row.metric.aggregate == "best" for row in rows):
            advice = "--refits N, or --protocol crossfit: of several seeds the best alone counts"
        yield (
            "Intervals marked * ('these judges') leave out training noise: without amplification such 95% intervals "
            "held 0 in 87% (LIC, linear, 900 images) and 65% (ImageCaptioner2, sat, 300) of trials. "
            f"For a test use {advice}."
        )
    halves = result.replicates[result.replicates["kind"] == "half"]
    again = set(halves[ROW].itertuples(index=False, name=None))
    for row in rows:
        if row.key in again:
            what = "judges were trained again, but a half of the images has no value: too little is said"
            yield f"{row.captioner}: {row.title}: {what}."


def _few_refits(result: Result) -> Iterator[str]:
    """Refits that tell little, or of which there are none."""
    if result.run["refits_asked"] and not result.run["refits"]:
        yield "--refits has no effect: these metrics train no judge, or have one side alone."
    few = min((times for times in result.run["refits"].values() if times), default=_FEW)
    if few < _FEW:
        yield (
            f"{few} refits are few: interval and p, each estimated from so many, may contradict each other; "
            f"use --refits {_FEW} or more."
        )


def _learnt_nothing(result: Result) -> Iterator[str]:
    """Judges of people's captions that are no better than chance: they cannot see a captioner amplify."""
    for row in result.summaries:
        # Scores with priors have no chance but that of shuffled labels.
        if row.human is None or row.metric.counted or (row.metric.prior and not row.chance):
            continue
        classes = len(result.run["captioners"][row.captioner]["images"])
        chance = row.chance[0] if row.chance else SCORES[row.metric.score].chance(classes)
        if row.human_error is not None and row.human - chance < 2 * row.human_error:
            yield (
                f"{row.title}: on people's captions of {row.captioner}'s images judges are no better than chance "
                f"({row.human:.3f}, chance {chance:.3f}): they have learnt nothing."
            )


def _unlike_the_paper(run: Mapping[str, Any]) -> Iterator[str]:
    if run["attribute"] == "emotion" and run.get("sight", {"mask": "none"})["mask"] != "none":
        yield "for emotion ImageCaptioner2's authors hide words alone, and leave images as they are: --mask none"


def _hardly_contextual(run: Mapping[str, Any]) -> Iterator[str]:
    """Contextual alignment that finds too few words."""
    for name, entry in run["captioners"].items():
        found = [one for one in entry["alignment"].values() if one["how"] == "contextual"]
        shares = [(one["lacking_substituted"], one["delta"]) for one in found if one["lacking_substituted"] is not None]
        yield from hardly_contextual(name, *min(shares, default=(None, 0.0)))


def _seldom_naming(run: Mapping[str, Any]) -> Iterator[str]:
    """Captioners that mostly avoid the attribute: a small amplification is then no praise."""
    for name, entry in run["captioners"].items():
        if entry["coverage"]:
            human, generated = (1 - entry["coverage"][side]["none"] for side in ("human", "generated"))
            if generated < _QUIET * human:
                yield (
                    f"{name} names {run['attribute']} in {generated:.1%} of its captions, people in {human:.1%}: "
                    "a small amplification may only mean that it says little. Read its p of T->A with care (captions "
                    "that name it a tenth as often, without amplification: p of DBAC T->A < 0.05 in 6 of 27 trials)."
                )


def _other_judge(result: Result) -> Iterator[str]:
    """Metrics that none of the judges named can measure."""
    judges = result.run["judges"]
    for metric, judge in dict.fromkeys((row.metric, row.judge) for row in result.summaries):
        if judge not in judges and not metric.counted:
            modality = "see pictures" if metric.uses_images else "read captions alone"
            named = ", ".join(judges)
            yield f"{metric.title} was measured with {judge}: its judges {modality}, which {named} cannot."


def _without_value(result: Result) -> Iterator[str]:
    """Captioners that never name one class, or never say what is counted."""
    for row in result.summaries:
        metric = row.metric
        if metric.prior == OF_NAMED and row.generated is None:
            yield f"{row.captioner} names no class of {result.run['attribute']} alone: {metric.title} has no value."
        elif metric.counted and row.published is None:
            yield f"{row.captioner}: {metric.title} has no value: one side never says what it counts."
        elif metric.counted and metric.exchangeable and row.interval is None:
            what = "a part of the images has no value, or an infinite one: too little is said"
            yield f"{row.captioner}: {metric.title} has no interval and no test: {what}."


def _without_words(run: Mapping[str, Any]) -> list[str]:
    """Of several attributes those without words, where others have some."""
    return list((run["lexicon"] or {}).get("without_words", []))


def _named_in_part(result: Result) -> Iterator[str]:
    """Metrics of the classes that captions name, where of some attributes the annotated class stands."""
    reading = _reading_names(result)
    if (silent := _without_words(result.run)) and reading:
        yield (
            f"no words of {' and '.join(silent)} are known: captions count as naming the class of their image, so that "
            f"{', '.join(reading)} can change by what is said of the other attributes alone."
        )


def _reading_names(result: Result) -> list[str]:
    """Titles of the metrics of which classes captions name."""
    rows = metrics_of(result)
    return [row.title for row in rows if row.prior == OF_NAMED or (row.counted and row.direction != "A->T")]


def _class_never_named(result: Result) -> Iterator[str]:
    """Classes of images that the lexicon has no words for: that captions never name them is no finding."""
    described = {name for entry in result.run["captioners"].values() for name in entry["images"]}
    silent = [name for name in (result.run["lexicon"] or {}).get("classes_without_words", ()) if name in described]
    if silent and (reading := _reading_names(result)):
        yield (
            f"the lexicon has no words for {', '.join(silent)}: no caption counts as naming that, so that "
            f"{', '.join(reading)} cannot tell how images of it are described."
        )


def _by_construction(result: Result) -> Iterator[str]:
    """What holds whatever the captions say."""
    run, rows = result.run, [row for row in metrics_of(result) if row.counted]
    silent = _without_words(run)
    spoken = [of for name, of in run["labels"].get("attributes", {"": run["labels"]}).items() if name not in silent]
    facts: dict[str, Any] = {
        "classes": max(len(entry["images"]) for entry in run["captioners"].values()),
        "has_words": run["lexicon"] is not None,
        "derived": all(of["derived"] for of in spoken),
    }
    yield from dict.fromkeys(
        note for row in rows if row.counted for note in row.counted.by_construction(run["attribute"], **facts)
    )
    if fixed := [row.title for row in rows if not row.exchangeable]:
        yield (
            f"{' and '.join(fixed)}: captions mention a part of what images show, whoever writes them, and cannot be "
            "exchanged with the annotation: the published value alone, without chance level or test."
        )


def _skipped(result: Result) -> Iterator[str]:
    """Scores that could have been taken: SPICE is never offered."""
    reasons = {score: why for of in result.quality.values() for score, why in of.skipped.items() if score != "SPICE"}
    for score, why in reasons.items():
        yield f"{score} skipped: {why}."
