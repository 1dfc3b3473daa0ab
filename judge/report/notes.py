"""Notes below the tables of a result: what its numbers depend on, and what would mislead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from judge.measure import Result
from judge.metrics import Metric, find_metric
from judge.metrics.counted.spec import COMPARED
from judge.metrics.scores import SCORES
from judge.report.quality import quality_notes
from judge.report.table import write_coverage
from judge.statistics.comparisons import POWER, Difference
from judge.statistics.inference import SIGNIFICANT
from judge.statistics.summary import ROW
from judge.text.alignment import hardly_contextual

_ANSWERING = {"restricted": "among the answers alone", "vocabulary": "among all words"}
# A captioner that names the attribute this much less often than people is pointed out.
_QUIET = 0.5
# With fewer refits a warning says how little they tell.
_FEW = 5
# The prior of metrics that read which class a caption names.
_OF_NAMED = "P(a^)/P(T)"


def summary_lines(result: Result) -> list[str]:
    """The two or three lines that stand below the table in any case."""
    left_out = max((sum(_left_out(entry).values()) for entry in result.run["captioners"].values()), default=0)
    tests = sum(row.p_value is not None for row in result.summaries)
    holm = f"p (Holm): corrected for {_tests(tests)}, verdict at {SIGNIFICANT:g}. " if tests else ""
    labels = result.run["labels"]
    return [
        _protocol(result),
        *_scope(result),
        f"{holm}Left out: {left_out:,} images, captions or tasks.",
        *([f"Labels DERIVED: {labels['source']}."] if labels["derived"] else []),
    ]


def footnotes(result: Result) -> list[str]:
    """All that a reader may want to know beside the table, a line each."""
    return [
        *_method(result),
        *_judges_that_see(result.run),
        *_chance(result),
        *_naming_one(result),
        *_captioners(result.run),
        *quality_notes(result.quality),
    ]


def warnings(result: Result) -> list[str]:
    """What would make a reader draw a wrong conclusion, a line each; often none."""
    return [
        *_training_noise(result),
        *_few_refits(result),
        *_learnt_nothing(result),
        *_quiet(result.run),
        *_unlike_the_paper(result.run),
        *_hardly_contextual(result.run),
        *_other_judge(result),
        *_without_value(result),
        *_by_construction(result),
        *_skipped(result),
    ]


def _protocol(result: Result) -> str:
    run = result.run
    seeds = f"{len(run['seeds'])} seed{'s' if len(run['seeds']) > 1 else ''}"
    judged = [row for row in _metrics(result) if not row.counted]
    if not judged:
        return "Counted: no judge was trained; amplification is the published value less the chance level."
    if run["protocol"] == "crossfit":
        return f"Protocol crossfit: {run['folds']} folds, {seeds}; no judge scores an image that it was trained on."
    shares = _alike(
        (row.title, f"{_shares(row)} of {'classes cut to equal size' if row.balanced else 'all images'}")
        for row in judged
    )
    return f"Protocol paper: hold-out {'; '.join(f'{what} for {titles}' for titles, what in shares)}; {seeds}."


def _scope(result: Result) -> Iterator[str]:
    """What intervals and p are for."""
    bases = {row.basis for row in result.summaries}
    if sources := [basis for basis in ("refits", "splits") if basis in bases]:
        yield f"Intervals and p: for another sample of such images, judges trained anew (from {', '.join(sources)})."
    elif "images" in bases:
        yield "Intervals and p: for another sample of such images."


def _method(result: Result) -> Iterator[str]:
    run, metrics = result.run, _metrics(result)
    yield _protocol(result)
    best = [row.title for row in metrics if row.aggregate == "best"]
    if best and len(run["seeds"]) > 1:
        yield f"Best of {len(run['seeds'])} seeds on validation images, for each side: {', '.join(best)}."
    if normalised := [row.title for row in metrics if _normalised(row)]:
        what = "amplification is (generated - human) / (generated + human), from -1 to 1"
        yield f"{', '.join(normalised)}: {what}."
    yield from _scope(result)
    yield from _inference(result)
    for name, (first, second) in run["ratios"].items():
        yield f"{find_metric(name).title}: captions that name {first} over captions that name {second}."
    labels = run["labels"]
    yield f"Labels {'DERIVED' if labels['derived'] else 'from'}: {labels['source']}."
    if labels["ignored"]:
        yield f"Labels left out: {_counted({value or 'empty': n for value, n in labels['ignored'].items()})}."


def _inference(result: Result) -> Iterator[str]:
    """How intervals and p are made."""
    rows, run = result.summaries, result.run
    bases = {row.basis for row in rows if row.seeds}
    if "refits" in bases:
        times = " or ".join(str(number) for number in sorted(set(run["refits"].values()), reverse=True) if number)
        yield (
            f"Refits: judges trained again {times} times on captions exchanged between the sides of an image (p: "
            "t-test against their mean, the chance level, which is not subtracted), and as often on both halves of the "
            "images (interval)."
        )
    if "splits" in bases:
        yield "Splits: values of single folds or hold-outs, corrected for shared training images (resampled t-test)."
    if "images" in bases:
        yield "Judges that are not trained have no training noise: bootstrap over images, exchanged captions."
    if any(row.published is not None for row in rows):
        yield (
            "Counted metrics: amplification is the published value less the chance level (its mean when captions of an "
            "image are exchanged between sides); interval from halves of the images, p from exchanged captions."
        )
    if tests := sum(row.p_value is not None for row in rows):
        yield f"p (Holm): corrected for {_tests(tests)} of this table; the verdict uses it, at {SIGNIFICANT:g}."
    known = [row for row in rows if row.standard_error is not None]
    if known:
        images = max(sum(run["captioners"][row.captioner]["images"].values()) for row in known)
        yield (
            f"Detectable: what one test of such data finds with {POWER:.0%} power, before Holm's correction; about "
            f"{4 * images:,} images would halve it."
        )


def _tests(tests: int) -> str:
    return f"the {tests} tests" if tests > 1 else "one test"


def _normalised(metric: Metric) -> bool:
    kind = metric.counted.kind if metric.counted else None
    return (COMPARED.get(kind) if kind else metric.amplification) == "normalised"


def _metrics(result: Result) -> list[Metric]:
    return list(dict.fromkeys(summary.metric for summary in result.summaries))


def _shares(metric: Metric) -> str:
    """Percentages of the images for training, for choosing an epoch and for scores: "70/10/20"."""
    test, validation = metric.holdout
    return "/".join(f"{100 * share:.0f}" for share in (1 - test - validation, validation, test) if share)


def _alike(notes: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(name, note) -> (names, note): what is true of several is said once."""
    found: dict[str, list[str]] = {}
    for name, note in notes:
        found.setdefault(note, []).append(name)
    return [(", ".join(names), note) for note, names in found.items()]


def _judges_that_see(run: Mapping[str, Any]) -> Iterator[str]:
    """What judges see, through which backbone, and what they are asked."""
    if not (sight := run.get("sight")):
        return
    if sight["mask"] == "none":
        yield "Images as they are: nobody is hidden from judges."
    else:
        thing = sight["category"] or "the object"
        hidden = {"both": f"people and {thing}", "object": thing}.get(sight["hide"], "people")
        grown = f", grown by {sight['dilation']} pixels" if sight["dilation"] else ""
        yield f"Images: {hidden} hidden, found by {sight['detector']}, {sight['mask']}, {sight['fill']}{grown}."
    if "backbone" in sight:
        size = f" at {sight['image_size']} pixels" if sight["image_size"] else ""
        network = sight["backbone"] or "each judge's own"
        yield f"Backbone: {network}, weights: {sight['backbone_weights']}{size}."
    if "tuning" in sight:
        yield f"Captioners as judges: tuning {sight['tuning']}."
    for judge, words in sight.get("read_for", {}).items():
        yield f"{judge} reads " + ", ".join(f'"{word}" for {token}' for token, word in words.items()) + "."
    yield f'Prompt: "{sight["template"]}", probabilities {_ANSWERING[sight["answer_softmax"]]}.'


def _chance(result: Result) -> Iterator[str]:
    """What a judge that knows nothing scores on either side; classes count equally."""
    if any(row.chance for row in result.summaries):
        yield "Chance: scores of both sides where labels are shuffled among images."
    untried = dict.fromkeys(row.metric for row in result.summaries if not row.chance)
    judged = [row for row in untried if not row.counted and row.prior is None]
    for classes in sorted({len(entry["images"]) for entry in result.run["captioners"].values()}):
        if judged:
            scores = ", ".join(f"{row.title} {SCORES[row.score].chance(classes):.3f}" for row in judged)
            yield f"Chance with {classes} classes, of a judge that is never sure: {scores}."


def _naming_one(result: Result) -> Iterator[str]:
    """What T->A of DBAC and DPAC leaves out."""
    if any(row.prior == _OF_NAMED for row in _metrics(result)):
        shares = [
            f"{name} {1 - entry['coverage']['human']['one']:.0%}, {1 - entry['coverage']['generated']['one']:.0%}"
            for name, entry in result.run["captioners"].items()
            if entry["coverage"]
        ]
        what = f"captions that do not name exactly one class of {result.run['attribute']}"
        yield f"T->A leaves out {what} (human, generated): {'; '.join(shares)}."


def _captioners(run: Mapping[str, Any]) -> Iterator[str]:
    """What was read of each captioner, left out of it and chosen for it."""
    entries = run["captioners"].items()
    for names, note in _alike((name, _evidence(entry, run)) for name, entry in entries):
        yield f"{names}: {note}."
    for names, note in _alike((name, _counted(left_out)) for name, of in entries if (left_out := _left_out(of))):
        yield f"{names}, left out: {note}."
    chosen = (
        (name, f"{what}: " + "; ".join(f"{side} {_frequencies(counts)}" for side, counts in sides.items()))
        for name, entry in entries
        for what, sides in entry["chosen"].items()
        if not what.startswith("epoch ")  # One for each judge: in metrics.json.
    )
    for names, note in _alike(chosen):
        yield f"{names}, chosen {note}."


def _evidence(entry: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    notes = [", ".join(f"{number:,} {group}" for group, number in entry["images"].items())]
    notes += _alignments(entry["alignment"])
    counted = entry["counted"]
    if "words" in counted:
        notes.append(f"BA counts {counted['words']} words that are said {counted['least']} times or more by class")
    if "objects" in counted:
        notes.append(f"{counted['objects']} objects are annotated (source: {run['tasks']['source']})")
    if entry["coverage"]:
        notes.append(
            f"human captions name {run['attribute']} (one/none/several): {write_coverage(entry['coverage']['human'])}"
        )
    return "; ".join(notes)


def _left_out(entry: Mapping[str, Any]) -> dict[str, int]:
    """Reason -> how many images, captions or tasks."""
    found: dict[str, int] = dict(entry["dropped"])
    for side, covered in (entry["coverage"] or {}).items():
        found |= {f"{side} captions {why}": covered[why] for why in ("empty", "refused") if covered[why]}
    return found


def _alignments(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What alignments left of people's words; metrics are named where they were not all aligned alike."""
    kinds: dict[tuple[Any, ...], list[str]] = {}
    for metric, report in found.items():
        kinds.setdefault(tuple(report.values()), []).append(metric)
    for metrics in kinds.values():
        report = found[metrics[0]]
        if report["how"] != "none":
            whose = "" if len(kinds) == 1 else f" ({', '.join(find_metric(name).title for name in metrics)})"
            kept = f"keeps {report['tokens_kept']:.1%} of human tokens ({report['words_kept']:.1%} of words)"
            near = f" and exchanges {report['tokens_substituted']:.1%}" if report["how"] == "contextual" else ""
            if near and report["lacking_substituted"] is not None:
                share = f"{report['lacking_substituted']:.1%} of those that the captioner lacks"
                near += f" ({share}, delta {report['delta']:g})"
            yield f"alignment{whose} {kept}{near}"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what} {number:,}" for what, number in counts.items())


def _frequencies(counts: Mapping[str, int]) -> str:
    """Like "0.03 x3, 0.1 x47", by value."""
    return ", ".join(f"{value} x{counts[value]}" for value in sorted(counts, key=float))


def _training_noise(result: Result) -> Iterator[str]:
    """Intervals that leave training out."""
    run, rows = result.run, [row for row in result.summaries if row.basis == "these judges"]
    if rows:
        advice = "--refits N, or five splits or more (--folds 5, --seeds 5)"
        if run["protocol"] == "paper" and any(row.metric.aggregate == "best" for row in rows):
            advice = "--refits N, or --protocol crossfit: of several seeds the best alone counts"
        yield (
            "intervals headed 'these judges' leave out training noise: without amplification such 95% intervals held 0 "
            "in 87% (LIC, linear, 900 images) and 65% (ImageCaptioner2, sat, 300) of trials. "
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


def _quiet(run: Mapping[str, Any]) -> Iterator[str]:
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
        if metric.prior == _OF_NAMED and row.generated is None:
            yield f"{row.captioner} names no class of {result.run['attribute']} alone: {metric.title} has no value."
        elif metric.counted and row.published is None:
            yield f"{row.captioner}: {metric.title} has no value: one side never says what it counts."
        elif metric.counted and metric.exchangeable and row.interval is None:
            what = "a part of the images has no value, or an infinite one: too little is said"
            yield f"{row.captioner}: {metric.title} has no interval and no test: {what}."


def _by_construction(result: Result) -> Iterator[str]:
    """What holds whatever the captions say."""
    metrics, run = _metrics(result), result.run
    kinds = {row.counted.kind for row in metrics if row.counted}
    if "ba:sony" in {row.name for row in metrics} and {len(of["images"]) for of in run["captioners"].values()} == {2}:
        yield "BA, sony says nothing with two classes: its threshold is a share of 1, which no pair can pass."
    if "ba" in kinds and run["lexicon"] is None:
        yield f"no words of {run['attribute']} are known: BA counts the annotated classes, on both sides."
    if fixed := [row.title for row in metrics if row.counted and not row.exchangeable]:
        yield (
            f"{' and '.join(fixed)}: captions mention a part of what images show, whoever writes them, and cannot be "
            "exchanged with the annotation: the published value alone, without chance level or test."
        )
    if "error" in kinds and run["labels"]["derived"]:
        yield "people's Error is 0 by construction: the labels are derived from their captions."


def _skipped(result: Result) -> Iterator[str]:
    """Scores that could have been taken: SPICE is never offered."""
    reasons = {score: why for of in result.quality.values() for score, why in of.skipped.items() if score != "SPICE"}
    for score, why in reasons.items():
        yield f"{score} skipped: {why}."


def difference_notes(found: Sequence[Difference]) -> list[str]:
    """What a reader must know beside the table of differences, a line each."""
    tests = sum(row.p_value is not None for row in found)
    notes = ["Difference: amplification of the first less that of the second."]
    if tests:
        notes.append("Intervals and p: both captioners on the same parts of the data; t-test.")
    apart = [f"{row.first} and {row.second}, {row.metric.name}" for row in found if row.interval and not row.paired]
    if apart:
        notes.append(f"But not on the same parts, as if they were independent: {'; '.join(apart)}.")
    if tests:
        notes.append(f"p (Holm): corrected for {_tests(tests)}; the verdict uses it, at {SIGNIFICANT:g}.")
    if any(row.p_value is None for row in found):
        notes.append("Without an interval: judges that were not trained again (--refits, or five splits or more).")
    return notes
