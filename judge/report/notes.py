"""What the numbers of a result depend on, and what would mislead: the lines below its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judge.measure import Result
from judge.metrics import Metric, find_metric
from judge.metrics.scores import SCORES
from judge.report.layout import format_coverage
from judge.report.quality import quality_notes
from judge.statistics.comparisons import POWER, Difference
from judge.statistics.inference import SIGNIFICANT
from judge.statistics.summary import ROW
from judge.text.alignment import hardly_contextual

_ANSWERING = {"restricted": "among the answers alone", "vocabulary": "among all words"}
# A side whose captions name the attribute this much less often than people's is pointed out.
_QUIET = 0.5
# With fewer refits a note says how little they tell.
_FEW = 5
# The prior of metrics that read which class a caption names.
_OF_NAMED = "P(a^)/P(T)"


def footnotes(result: Result) -> list[str]:
    """What a reader must know beside the table, a line each."""
    return [
        *_method(result),
        *_sight(result.run),
        *_chance(result),
        *_naming_one(result),
        *_captioners(result.run),
        *quality_notes(result.quality),
    ]


def warnings(result: Result) -> list[str]:
    """What would make a reader draw a wrong conclusion, a line each; often none."""
    return [
        *_of_these_judges(result),
        *_few_refits(result),
        *_learnt_nothing(result),
        *_quiet(result.run),
        *_unlike_the_paper(result.run),
        *_nearly_constant(result.run),
        *_not_asked(result),
        *_unmentioned(result),
        *_by_construction(result),
    ]


def _method(result: Result) -> Iterator[str]:
    run = result.run
    seeds = f"{len(run['seeds'])} seed{'s' if len(run['seeds']) > 1 else ''}"
    if not _judged(result):
        yield "Counted: no judge was asked."
    elif run["protocol"] == "crossfit":
        yield f"Protocol crossfit: {run['folds']} folds, every image scored by a judge that never saw it; {seeds}."
    else:
        alike: dict[str, list[str]] = {}
        for row in _judged(result):
            images = "of classes cut to equal size" if row.balanced else "of all images"
            alike.setdefault(f"{_shares(row)} {images}", []).append(row.title)
        told = "; ".join(f"{shares} for {', '.join(titles)}" for shares, titles in alike.items())
        yield f"Protocol paper: hold-out {told}; {seeds}."
    best = dict.fromkeys(row.title for row in map(find_metric, _metrics(result)) if row.aggregate == "best")
    if best and len(run["seeds"]) > 1:
        yield f"Of {len(run['seeds'])} seeds that one counts, for each side, that guesses best: {', '.join(best)}."
    halved = [row.title for row in map(find_metric, _metrics(result)) if row.amplification == "normalised"]
    if halved:
        what = "amplification is (generated - human) / (generated + human), from -1 to 1"
        yield f"{', '.join(dict.fromkeys(halved))}: {what}."
    yield from _inference(result)
    for name, (first, second) in run["ratios"].items():
        yield f"{find_metric(name).title}: captions that name {first} over captions that name {second}."
    labels = run["labels"]
    yield f"Labels {'DERIVED' if labels['derived'] else 'from'}: {labels['source']}."
    if labels["ignored"]:
        yield "Labels left out: " + ", ".join(
            f"{value or 'empty'} {count:,}" for value, count in labels["ignored"].items()
        )


def _inference(result: Result) -> Iterator[str]:
    """What intervals and p-values are for, and what they are from."""
    rows, run = result.summaries, result.run
    bases = {row.basis for row in rows if row.seeds}
    if bases & {"refits", "splits"}:
        yield "Intervals and p: of the procedure on another sample of images like these, judges trained anew."
    if "refits" in bases:
        told = " or ".join(str(count) for count in sorted(set(run["refits"].values()), reverse=True) if count)
        yield (
            f"From refits: judges trained again {told} times on captions that changed sides within an image (p: t-test "
            'of how far the amplification lies from their mean, "by chance", which is not taken off), and as often on '
            "both halves of the images (interval)."
        )
    if "splits" in bases:
        yield "From splits: values of single folds or hold-outs, corrected for shared training images (resampled t)."
    if "images" in bases:
        yield "A judge that is asked as it is has no training noise: bootstrap over images, captions that change sides."
    if any(row.published is not None for row in rows):
        yield (
            "Counted: amplification is the published value's excess over what there is by chance (the mean when "
            "captions of an image change sides); interval from halves of the images, p by captions that change sides."
        )
    tests = sum(row.p_value is not None for row in rows)
    if tests:
        family = f"the {tests} tests of this table" if tests > 1 else "one test"
        yield f"p (Holm): corrected for {family}; the verdict is by it, at {SIGNIFICANT:g}."
    known = [row for row in rows if row.standard_error is not None]
    if known:
        images = max(sum(run["captioners"][row.captioner]["images"].values()) for row in known)
        yield (
            f"Detectable: what one test of such data shows with {POWER:.0%} power, before Holm's correction; about "
            f"{4 * images:,} images would halve it."
        )


def _judged(result: Result) -> list[Metric]:
    """The rows that ask judges."""
    return [row for row in map(find_metric, _metrics(result)) if not row.counted]


def _metrics(result: Result) -> list[str]:
    return list(dict.fromkeys(summary.metric for summary in result.summaries))


def _shares(metric: Metric) -> str:
    """Shares of the images for training, for choosing an epoch and for scores: "70/10/20"."""
    test, validation = metric.holdout
    return "/".join(f"{100 * share:.0f}" for share in (1 - test - validation, validation, test) if share)


def _sight(run: Mapping[str, Any]) -> Iterator[str]:
    """What judges see, through what, and what they are asked."""
    if not (sight := run.get("sight")):
        return
    if sight["mask"] == "none":
        yield "Pictures as they are: nobody is hidden from judges."
    else:
        what = {"both": f"people and {sight['category'] or 'the object'}", "object": sight["category"] or "the object"}
        hidden = what.get(sight["hide"], "people")
        grown = f", grown by {sight['dilation']} pixels" if sight["dilation"] else ""
        yield f"Pictures: {hidden} hidden as {sight['detector']} finds them, {sight['mask']}, {sight['fill']}{grown}."
    if "backbone" in sight:
        size = f" at {sight['image_size']} pixels" if sight["image_size"] else ""
        network = sight["backbone"] or "each judge's own network"
        yield f"Seen through {network}, weights: {sight['backbone_weights']}{size}."
    if "tuning" in sight:
        yield f"Captioners that judge: tuning {sight['tuning']}."
    for judge, words in sight.get("read_for", {}).items():
        yield f"{judge} reads " + ", ".join(f'"{word}" for {token}' for token, word in words.items()) + "."
    yield f'Asked: "{sight["template"]}", probabilities {_ANSWERING[sight["answer_softmax"]]}.'


def _chance(result: Result) -> Iterator[str]:
    """What a judge that knows nothing scores on either side; classes count equally."""
    if any(row.chance for row in result.summaries):
        yield "Chance: scores of both sides where labels are shuffled among images."
    rows = {find_metric(row.metric).title: find_metric(row.metric) for row in result.summaries if not row.chance}
    judged = [row for row in rows.values() if not row.counted and row.prior is None]
    for classes in sorted({len(entry["images"]) for entry in result.run["captioners"].values()}):
        scores = [f"{row.title} {SCORES[row.score].chance(classes):.3f}" for row in judged]
        if scores:
            yield f"Chance with {classes} classes, of a judge that is never sure: {', '.join(scores)}."


def _naming_one(result: Result) -> Iterator[str]:
    """What T->A of DBAC and DPAC leaves out."""
    if any(find_metric(row.metric).prior == _OF_NAMED for row in result.summaries):
        shares = [
            f"{name} {1 - entry['coverage']['human']['one']:.0%}, {1 - entry['coverage']['generated']['one']:.0%}"
            for name, entry in result.run["captioners"].items()
            if entry["coverage"]
        ]
        what = f"captions that do not name exactly one class of {result.run['attribute']}"
        yield f"T->A leaves out {what} (of people's, of the captioner's): {'; '.join(shares)}."


def _captioners(run: Mapping[str, Any]) -> Iterator[str]:
    for name, entry in run["captioners"].items():
        images = ", ".join(f"{count:,} {group}" for group, count in entry["images"].items())
        covered = f"human captions name {run['attribute']}: {format_coverage(entry['coverage'], 'human')}"
        counted = _what_is_counted(entry["counted"], run)
        yield "; ".join([f"{name}: {images}", *_alignments(entry["alignment"]), *counted, covered]) + "."
        left_out = dict(entry["dropped"])
        for side, covered in (entry["coverage"] or {}).items():
            left_out |= {f"{side} captions {why}": covered[why] for why in ("empty", "refused") if covered[why]}
        if left_out:
            yield f"{name} left out: " + ", ".join(f"{reason} {count:,}" for reason, count in left_out.items()) + "."
        for what, sides in entry["chosen"].items():
            if what.startswith("epoch "):  # One for each judge: in metrics.json.
                continue
            yield f"{name} chose {what}: " + "; ".join(f"{side} {_counts(sides[side])}" for side in sides) + "."


def _what_is_counted(counted: Mapping[str, int], run: Mapping[str, Any]) -> Iterator[str]:
    if "words" in counted:
        yield f"BA counts {counted['words']} words that are said {counted['least']} times or more with every class"
    if "objects" in counted:
        yield f"{counted['objects']} objects are annotated (source: {run['tasks']['source']})"


def _alignments(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What alignments left of people's words; metrics are named where they were not all aligned alike."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for metric, report in found.items():
        alike.setdefault(tuple(report.values()), []).append(metric)
    for metrics in alike.values():
        report = found[metrics[0]]
        if report["how"] != "none":
            whose = "" if len(alike) == 1 else f" ({', '.join(find_metric(name).title for name in metrics)})"
            kept = f"keeps {report['tokens_kept']:.1%} of human tokens ({report['words_kept']:.1%} of words)"
            near = f" and exchanges {report['tokens_substituted']:.1%}" if report["how"] == "contextual" else ""
            if near and report["lacking_substituted"] is not None:
                share = f"{report['lacking_substituted']:.1%} of those that the captioner lacks"
                near += f" ({share}, delta {report['delta']:g})"
            yield f"alignment{whose} {kept}{near}"


def _counts(counts: Mapping[str, int]) -> str:
    """Like "0.03 x3, 0.1 x47", by value."""
    return ", ".join(f"{value} x{counts[value]}" for value in sorted(counts, key=float))


def _of_these_judges(result: Result) -> Iterator[str]:
    """Intervals that leave training out."""
    run, rows = result.run, [row for row in result.summaries if row.basis == "these judges"]
    if rows:
        advice = "--refits N, or five splits or more (--folds 5, --seeds 5)"
        if run["protocol"] == "paper" and any(find_metric(row.metric).aggregate == "best" for row in rows):
            advice = "--refits N, or --protocol crossfit: of several seeds the best alone counts"
        yield (
            "intervals headed 'these judges' leave out that other judges would be trained on other images: where "
            "nothing was amplified, 95% intervals of this kind held 0 in 87% of trials of LIC (linear, 900 images), "
            "and in 65% of ImageCaptioner2 (sat, 300). "
            f"For a test use {advice}."
        )
    halves = result.replicates[result.replicates["kind"] == "half"]
    again = set(halves[ROW].itertuples(index=False, name=None))
    for row in rows:
        if (row.captioner, row.metric, row.judge) in again:
            what = "judges were trained again, but a half of the images has no value: too little is said"
            yield f"{row.captioner}: {find_metric(row.metric).title} ({row.judge}): {what}."


def _few_refits(result: Result) -> Iterator[str]:
    """Refits that tell little, or that there is nothing to make of."""
    if result.run["refits_asked"] and not result.run["refits"]:
        yield "--refits: no judge is trained for these metrics, or they have one side alone: there is nothing to refit."
    few = min((count for count in result.run["refits"].values() if count), default=_FEW)
    if few < _FEW:
        yield (
            f"{few} refits are few: interval and p, each estimated from so many, may contradict one another; "
            f"use --refits {_FEW} or more."
        )


def _learnt_nothing(result: Result) -> Iterator[str]:
    """Judges of people's captions that are no better than chance: they cannot see a captioner amplify."""
    for row in result.summaries:
        metric = find_metric(row.metric)
        # What is weighed by priors has no chance but that of shuffled labels.
        if row.human is None or metric.counted or (metric.prior and not row.chance):
            continue
        classes = len(result.run["captioners"][row.captioner]["images"])
        chance = row.chance[0] if row.chance else SCORES[metric.score].chance(classes)
        noise = row.human_error
        if noise is not None and row.human - chance < 2 * noise:
            yield (
                f"{metric.title} ({row.judge}): people's captions of {row.captioner}'s images are judged no better "
                f"than by chance ({row.human:.3f}, chance {chance:.3f}): the judge has learnt nothing from them."
            )


def _unlike_the_paper(run: Mapping[str, Any]) -> Iterator[str]:
    if run["attribute"] == "emotion" and run.get("sight", {"mask": "none"})["mask"] != "none":
        yield "for emotion ImageCaptioner2's authors hide words alone, and leave pictures as they are: --mask none"


def _nearly_constant(run: Mapping[str, Any]) -> Iterator[str]:
    """Contextual alignment that finds too few words."""
    for name, entry in run["captioners"].items():
        found = [one for one in entry["alignment"].values() if one["how"] == "contextual"]
        shares = [(one["lacking_substituted"], one["delta"]) for one in found if one["lacking_substituted"] is not None]
        share, delta = min(shares, default=(None, 0.0))
        yield from hardly_contextual(name, share, delta)


def _quiet(run: Mapping[str, Any]) -> Iterator[str]:
    """Captioners that mostly avoid the attribute: a small amplification is then no praise."""
    for name, entry in run["captioners"].items():
        if entry["coverage"]:
            human, generated = (1 - entry["coverage"][side]["none"] for side in ("human", "generated"))
            if generated < _QUIET * human:
                yield (
                    f"{name} names {run['attribute']} in {generated:.1%} of its captions, people in {human:.1%}: "
                    "read its amplification together with how little it says, and its p of T->A with care (of captions "
                    "that name a tenth as often, and amplify nothing, p of DBAC T->A was below 0.05 in 6 of 27 trials)."
                )


def _not_asked(result: Result) -> Iterator[str]:
    """Metrics that none of the judges named can measure."""
    rows = {(summary.metric, summary.judge): None for summary in result.summaries}
    for metric, judge in rows:
        row = find_metric(metric)
        if judge not in result.run["judges"] and not row.counted:
            modality = "see pictures" if row.uses_images else "read captions alone"
            named = ", ".join(result.run["judges"])
            yield f"{row.title} was measured with {judge}: its judges {modality}, which {named} cannot."


def _unmentioned(result: Result) -> Iterator[str]:
    """Metrics without a value: of captioners that never name one class, or never say what is counted."""
    for row in result.summaries:
        metric = find_metric(row.metric)
        if metric.prior == _OF_NAMED and row.generated is None:
            yield f"{row.captioner} names no class of {result.run['attribute']} alone: {metric.title} has no value."
        elif metric.counted and row.published is None:
            yield f"{row.captioner}: {metric.title} has no value: one side never says what it counts."
        elif metric.counted and metric.exchangeable and row.interval is None:
            what = "a part of the images has no value, or an infinite one: too little is said"
            yield f"{row.captioner}: {metric.title} has no interval and no test: {what}."


def _by_construction(result: Result) -> Iterator[str]:
    """What is so whatever the captions say."""
    run, rows = result.run, [row for row in map(find_metric, _metrics(result)) if row.counted]
    facts = {
        "classes": max(len(entry["images"]) for entry in run["captioners"].values()),
        "has_words": run["lexicon"] is not None,
        "derived": run["labels"]["derived"],
    }
    yield from dict.fromkeys(
        note for row in rows if row.counted for note in row.counted.by_construction(run["attribute"], **facts)
    )
    apart = [row.title for row in rows if not row.exchangeable]
    if apart:
        yield (
            f"{' and '.join(apart)}: captions mention a part of what images show, whoever writes them, so that "
            "captions and annotation cannot change sides: the published value alone, without chance or test."
        )


def difference_notes(found: Sequence[Difference]) -> list[str]:
    """What a reader must know beside the table of differences, a line each."""
    tests = sum(row.p_value is not None for row in found)
    notes = ["Difference: amplification of the first less that of the second."]
    if tests:
        notes.append("Intervals and p: both captioners on the same parts of the data; t.")
    apart = [f"{row.first} and {row.second}, {row.metric}" for row in found if row.interval and not row.paired]
    if apart:
        notes.append(f"But not on the same parts, as if they were independent: {'; '.join(apart)}.")
    if tests:
        family = f"these {tests} tests" if tests > 1 else "one test"
        notes.append(f"p (Holm): corrected for {family}; the verdict is by it, at {SIGNIFICANT:g}.")
    if any(row.p_value is None for row in found):
        notes.append("Without an interval: judges that were not trained again (--refits, or five splits or more).")
    return notes
