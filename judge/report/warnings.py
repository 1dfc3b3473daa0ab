"""Warnings against wrong conclusions from a result."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from judge.errors import some
from judge.masking.measured import describe_masks
from judge.measure import Result
from judge.quality.library import CHAIR
from judge.report.notes import alike, class_notes, metrics_of, pair_notes
from judge.report.table import grouped
from judge.report.tables import lines_of
from judge.statistics.comparisons import PRIOR_ONLY
from judge.statistics.summary import ROW, Summary
from judge.statistics.validity import quote_tokens
from judge.text.alignment import hardly_contextual
from judge.text.lexicon import WITHOUT_WORDS
from judge.text.vectors import DELTA, DELTA_LEARNT
from judge.types import Doubt

# A captioner that names the attribute this much less often than human captions do is pointed out.
_QUIET = 0.5
# Share of captions that name several classes, from which it is pointed out where human captions do so a third as often.
_MANY = 0.3
# The note on captions with words that reveal the class is always shown from this share of captions on.
_AFFECTED = 0.005
# With fewer refits a warning says that intervals are rough.
_FEW = 5


def warnings(result: Result) -> list[str]:
    """Warnings against wrong conclusions, a sentence or two each; those that void numbers come first."""
    run = result.run
    return [
        *void_notes(result),
        *_prior_only(result),
        *class_notes(run["labels"]),
        *run.get("input_notes", ()),
        *_masked(run),
        *_texts(run),
        *_without_images(run),
        *_without_words(result),
        *_training_noise(result),
        *_coverage(run),
        *_alignment(run),
        *_judges(result),
        *_without_value(result),
        *_by_construction(result),
        *pair_notes(result.differences()),
    ]


def _merged(rows: Iterable[Summary]) -> Iterator[tuple[str, str]]:
    """The captioners that share their titles, and these titles: each is named once."""
    titles = grouped(dict.fromkeys((row.captioner, row.title) for row in rows))
    captioners = grouped((tuple(of), captioner) for captioner, of in titles.items())
    return ((some(names), some(of)) for of, names in captioners.items())


def void_notes(result: Result) -> Iterator[str]:
    """Rows without a verdict, a sentence for each reason, with the figures of one row."""
    void = ((row, result.findings[row.key]) for row in result.summaries if row.key in result.findings)
    for reason, found in grouped((finding.text, (row, finding.figures)) for row, finding in void).items():
        example, figures = found[0]
        whose = f"{example.title} of {example.captioner}: " if len({of for _, of in found}) > 1 else ""
        shown = f" ({whose}{figures})" if figures else ""
        for captioners, titles in _merged(row for row, _ in found):
            lacks = "value" if example.value is None else "verdict"
            yield f"No {lacks} for {titles} of {captioners}: {reason}{shown}."


def _prior_only(result: Result) -> Iterator[str]:
    """Metrics with priors that move where judges guess no better."""
    for captioners, titles in _merged(row for row, of in lines_of(result) if of.verdict == PRIOR_ONLY):
        yield (
            f"Prior only, {titles} of {captioners}: the value moves because of how frequent the tasks, or the classes, "
            "are that captions name. Q, how well judges guess, does not move the same way when it is tested by itself."
        )


def _masked(run: Mapping[str, Any]) -> Iterator[str]:
    each = [(name, describe_masks(entry["masks"])) for name, entry in run["captioners"].items() if entry["masks"]]
    yield from (f"{names}: {line}" for names, line in alike(each))
    if run["masks"]:
        yield describe_masks(run["masks"])


def _texts(run: Mapping[str, Any]) -> Iterator[str]:
    """Notes on captions: cleaning, words left by masking, another language."""
    found = [
        (f"Human captions of {name}'s images" if side == "human" else f"Captions of {name}", note)
        for name, entry in run["captioners"].items()
        for side, text in entry.get("text", {}).items()
        for note in text_notes(text, run["attribute"])
    ]
    yield from (type(note)(f"{names} {note}.") for names, note in alike(found))


def text_notes(text: Mapping[str, Any], attribute: str) -> Iterator[str]:
    """Notes on the captions of one side (a :class:`~judge.text.survey.Survey` as JSON): the rest of a sentence each."""
    captions = text["captions"]
    if text["cleaned"]:
        changes = ", ".join(f"{what} in {number:,}" for what, number in text["cleaned"].items())
        yield f"were cleaned before they were read: {changes}"
    if text["foreign"]:
        mend = "a lexicon in another language says so by 'language: de'"
        yield Doubt(f"are mostly not in the language of the lexicon, which masks next to nothing in them ({mend})")
    if text["affected"]:
        what = f"words that were not masked, and hold a word of the lexicon or nearly decide {attribute}"
        kind = Doubt if text["affected"] >= _AFFECTED * captions else str
        yield kind(f"hold, in {text['affected']:,} of {captions:,}, {what}: {quote_tokens(text['revealing'])}")
    if text.get("misplaced"):
        yield Doubt(f"{text['misplaced']}: see that image ids mean the same, or whether it names what is not there")


def _without_images(run: Mapping[str, Any]) -> Iterator[str]:
    """Classes that no image has, or none that a captioner described: chance is that of the others."""
    entries = run["captioners"].items()
    for names, absent in alike((name, ", ".join(entry.get("without_images", ()))) for name, entry in entries):
        if absent:
            yield f"{names}: no image that both sides describe is of class {absent}, so the other classes alone count."
    if len({tuple(entry["images"]) for _, entry in entries}) > 1:
        yield "Captioners whose images have other classes are not compared with each other."


def _without_words(result: Result) -> Iterator[str]:
    """Attributes, and classes of images, that the lexicon has no words for, so that captions cannot name them."""
    lexicon, attribute = result.run["lexicon"] or {}, result.run["attribute"]
    if not lexicon and attribute not in WITHOUT_WORDS:
        yield Doubt(f"No words are hidden from judges: if captions name {attribute}, they read it there.")
    rows = [row for row in metrics_of(result) if row.reads_named_class or (row.counted and row.direction != "A->T")]
    if not rows:
        return
    reading = ", ".join(row.title for row in rows)
    if silent := lexicon.get("without_words", []):
        yield (
            f"No words of {' and '.join(silent)} are known: captions count as naming the class of their image, so that "
            f"{reading} can change by what is said of the other attributes alone."
        )
    described = {name for entry in result.run["captioners"].values() for name in entry["images"]}
    if unnamed := [name for name in lexicon.get("classes_without_words", ()) if name in described]:
        yield (
            f"The lexicon has no words for {', '.join(unnamed)}: no caption counts as naming that, so that {reading} "
            "cannot tell how images of it are described."
        )


def _training_noise(result: Result) -> Iterator[str]:
    """Intervals that leave out training noise, and refits that are too few or have no effect."""
    run = result.run
    rows = [row for row in result.summaries if row.basis == "these judges"]
    if rows:
        advice = f"--refits N, or five {'folds (--folds 5)' if run['protocol'] == 'crossfit' else 'seeds (--seeds 5)'}"
        if run["protocol"] == "paper" and any(row.metric.aggregate == "best" for row in rows):
            advice = "--refits N, or --protocol crossfit: of several seeds the best alone counts"
        yield (
            "Intervals marked * ('these judges') leave out training noise: without amplification such 95% intervals "
            "held 0 in 87% (LIC, linear, 900 images) and 65% (ImageCaptioner2, sat, 300) of trials. "
            f"For a test use {advice}."
        )
    halves = result.replicates[result.replicates["kind"] == "half"]
    again = set(halves[ROW].itertuples(index=False, name=None))
    for captioners, titles in _merged(row for row in rows if row.key in again):
        yield (
            f"Judges of {titles} of {captioners} were trained again, but the value is not defined on a half of the "
            "images: there is no test."
        )
    if run["refits_asked"] and not run["refits"]:
        yield "--refits has no effect, because these metrics train no judge or score one side alone."
    if few := [times for times in run["refits"].values() if 0 < times < _FEW]:
        yield (
            f"Intervals and p are estimated from {min(few)} refits each. So few do not tell the error well: use "
            f"--refits {_FEW} or more."
        )


def _coverage(run: Mapping[str, Any]) -> Iterator[str]:
    """Captioners that mostly avoid the attribute, or name several classes much more often than human captions do."""
    entries = run["captioners"].items()
    covered = {name: of for name, entry in entries if (of := entry["coverage"]) and "human" in of}
    quiet = {}
    for name, shares in covered.items():
        human, generated = (1 - shares[side]["none"] for side in ("human", "generated"))
        if generated < _QUIET * human:
            quiet[name] = f"{name}: {generated:.1%} of its captions, {human:.1%} of human captions"
    if quiet:
        yield (
            f"{some(list(quiet))} name{'s' if len(quiet) == 1 else ''} {run['attribute']} less than half as often as "
            f"human captions do ({'; '.join(list(quiet.values())[:3])}). A captioner that says little reveals little: "
            "look at its captions before its numbers. (Of captions that name it a tenth as often, without "
            "amplification, p of DBAC T->A was below 0.05 in 6 of 27 trials.)"
        )
    for name, shares in covered.items():
        human, generated = (shares[side]["several"] for side in ("human", "generated"))
        # Long captions of several people name several classes.
        if generated > max(_MANY, 3 * human) and run["captioners"][name]["sentences"]["generated"] == 1:
            yield Doubt(
                f"Captions of {name} name several classes of {run['attribute']} in {generated:.0%} of cases, human "
                f"captions in {human:.0%}. See that each text is one caption, without reasoning, prompts or tags."
            )


def _alignment(run: Mapping[str, Any]) -> Iterator[str]:
    """Masks for emotion, which its paper does not use; a chosen delta at which alignment finds too few words."""
    if run["attribute"] == "emotion" and run.get("sight", {"mask": "none"})["mask"] != "none":
        yield "For emotion, ImageCaptioner2's authors hide words alone and leave images as they are: use --mask none."
    found: dict[float, dict[str, float | None]] = {}
    for name, entry in run["captioners"].items():
        for one in entry["alignment"].values():
            usual = one["delta"] in {DELTA, DELTA_LEARNT}
            if one["how"] == "contextual" and not usual and (share := one["lacking_substituted"]) is not None:
                known = found.setdefault(one["delta"], {})
                known[name] = min(share, known.get(name) or share)
    for delta, shares in found.items():
        yield from hardly_contextual(shares, delta)


def _judges(result: Result) -> Iterator[str]:
    judges = result.run["judges"]
    for metric, judge in dict.fromkeys((row.metric, row.judge) for row in result.summaries):
        if judge not in judges and not metric.counted and not metric.from_annotation:
            modality = "see images" if metric.uses_images else "read captions alone"
            if metric.given:
                modality = "are regressions on words or an embedding"
            yield f"{metric.title} was measured with {judge}: its judges {modality}, unlike {', '.join(judges)}."


def _without_value(result: Result) -> Iterator[str]:
    """Captioners that never name one class, or never mention what is counted."""
    found: dict[tuple[str, str], list[Summary]] = {}
    for row in (row for row in result.summaries if row.key not in result.findings):
        metric = row.metric
        if metric.weighs_named_class and row.generated is None:
            reason = "value", f"no caption names a class of {result.run['attribute']} alone"
        elif metric.counted and row.published is None:
            reason = "value", "one side never says what is counted"
        elif metric.counted and metric.exchangeable and row.interval is None:
            reason = "interval and no test", "the value on a part of the images is missing or infinite"
        else:
            continue
        found.setdefault(reason, []).append(row)
    for (what, why), rows in found.items():
        yield from (f"No {what} for {titles} of {captioners}: {why}." for captioners, titles in _merged(rows))


def _by_construction(result: Result) -> Iterator[str]:
    """Facts that hold by construction, whatever captions say; and scores of quality that were skipped."""
    run, rows = result.run, [row for row in metrics_of(result) if row.counted]
    silent = (run["lexicon"] or {}).get("without_words", [])
    spoken = [of for name, of in run["labels"].get("attributes", {"": run["labels"]}).items() if name not in silent]
    facts: dict[str, Any] = {"has_words": run["lexicon"] is not None, "derived": all(of["derived"] for of in spoken)}
    notes = (row.counted.by_construction(run["attribute"], **facts) for row in rows if row.counted)
    yield from dict.fromkeys(note for of in notes for note in of)
    if fixed := [row.title for row in rows if not row.exchangeable]:
        yield (
            f"{' and '.join(fixed)}: captions mention a part of what images show, whoever writes them, and cannot be "
            "exchanged with the annotation: the published value alone, without chance level or test."
        )
    reasons = {score: why for of in result.quality.values() for score, why in of.skipped.items()}
    asked = reasons.keys() - {"SPICE", *CHAIR}  # SPICE is never offered; CHAIR without objects is not asked for.
    yield from (f"{score} skipped: {why}." for score, why in reasons.items() if score in asked)
