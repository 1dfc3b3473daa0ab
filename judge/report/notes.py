"""Notes below the tables of a result: what its numbers depend on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from judge.errors import some
from judge.judges.names import PATCHES
from judge.measure import Result
from judge.metrics import Metric, find_metric
from judge.quality import Quality
from judge.report.table import grouped, how_many, span
from judge.statistics.comparisons import Difference
from judge.statistics.inference import POWER, SIGNIFICANT
from judge.statistics.summary import Summary, name_row

# Ends of reasons that leave out single captions; others leave out images, or begin with "tasks".
_NAMED = "empty", "refused"
_OF_CAPTIONS = "captions empty", "captions refused", "captions beyond the common number"
_COUNTED = "amplification is the value 'as published' less the chance level"


def summary_lines(result: Result) -> list[str]:
    """The two or three lines that are always printed below the table."""
    run = result.run
    tested = any(row.p_value is not None for row in result.summaries)
    alone = f"Verdicts use p, at {SIGNIFICANT:g}; p is not corrected for the number of captioners. " if tested else ""
    counts = f"{_classes(run)} {alone}Left out: {_left_out(run)}."
    return list(filter(None, [_protocol(result), _scope(result), counts, " ".join(_remarks(result))]))


def footnotes(result: Result) -> list[str]:
    """The lines below the table, then notes on how the numbers were made."""
    return [*summary_lines(result), *method_notes(result)]


def method_notes(result: Result) -> list[str]:
    """Notes on how the numbers were made, a line each."""
    return [
        *_method(result),
        *_inference(result),
        *_fits(result),
        *_labels(result.run["labels"]),
        *_image_judges(result.run.get("sight")),
        *_chance(result),
        *_counted(result.run),
        *_quality(result.quality),
    ]


def metrics_of(result: Result) -> list[Metric]:
    """The metrics of a result, in order."""
    return list(dict.fromkeys(summary.metric for summary in result.summaries))


def alike(notes: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(name, note) -> (names, note): what is true of several is stated once."""
    found = grouped((note, name) for name, note in notes)
    return [(", ".join(names), note) for note, names in found.items()]


# ---- The lines below the table --------------------------------------------------------------------------------------


def _protocol(result: Result) -> str:
    run = result.run
    seeds = _seeds([row for row in result.summaries if row.seeds and not row.metric.given])
    judged = [row for row in metrics_of(result) if not (row.counted or row.given)]
    if not judged and any(row.given for row in metrics_of(result)):
        return "Conditional leakage: no judge scores an image that it was trained on; each is left out in turn."
    if not judged:
        return f"Counted: no judge was trained; {_COUNTED}."
    if run["protocol"] == "crossfit":
        return f"Protocol crossfit: {run['folds']} folds, {seeds}; no judge scores an image that it was trained on."
    whose = {True: "classes cut to equal size", False: "all images"}
    shares = [(row.title, f"{row.parts} of {whose[row.balanced]}") for row in judged]
    holdouts = "; ".join(f"{what} for {titles}" for titles, what in alike(shares))
    return f"Protocol paper: hold-out {holdouts}; {seeds}."


def _seeds(rows: Sequence[Summary]) -> str:
    """The number of seeds, by row where rows have others, and by captioner where one row of two runs has."""
    several = Counter(title for title, _ in {(row.title, row.seeds) for row in rows})
    names = ((row.title if several[row.title] == 1 else f"{row.title} of {row.captioner}", row.seeds) for row in rows)
    numbers = alike((name, how_many(number, "seed")) for name, number in dict.fromkeys(names))
    return ", ".join(f"{number} for {of}" if len(numbers) > 1 else number for of, number in numbers)


def _scope(result: Result) -> str:
    bases = {row.basis for row in result.summaries}
    if sources := [basis for basis in ("refits", "splits") if basis in bases]:
        return f"Intervals and p: for another sample of such images, judges trained anew (from {', '.join(sources)})."
    return "Intervals and p: for another sample of such images." if "images" in bases else ""


def _classes(run: Mapping[str, Any]) -> str:
    """Images of each class (where captioners differ the fewest and the most), and labels without one."""
    entries = [entry["images"] for entry in run["captioners"].values()]
    names = dict.fromkeys(name for of in entries for name in of)
    shown = [f"{span(of.get(name, 0) for of in entries)} {name}" for name in names]
    without = [f"{what} {number:,}" for what, number in labels_left_out(run["labels"]).items()]
    stated = without and not run["labels"]["source"].startswith("derived: ")
    return f"Images: {some(shown, 12)}." + (f" Labels without a class: {', '.join(without)}." if stated else "")


def _left_out(run: Mapping[str, Any]) -> str:
    """Numbers of images, captions and tasks left out for the captioner with most of them, and the main reasons."""
    every = list(map(left_out_of, run["captioners"].values()))
    # Whatever captioner has them, refused and empty captions are named.
    found = {why: max(of.get(why, 0) for of in every) for of in every for why in of if why.endswith(_NAMED)}
    kinds: dict[str, dict[str, int]] = {}
    for reason, number in (found | max(every, key=lambda of: sum(of.values()), default={})).items():
        kind = "task" if reason.startswith("tasks ") else "caption" if reason.endswith(_OF_CAPTIONS) else "image"
        kind = "sentence" if " sentences " in reason else kind
        kinds.setdefault(kind, {})[reason.removeprefix(f"{kind}s ")] = number
    parts = []
    for kind, of in kinds.items():
        most = max(of, key=of.__getitem__)
        more = [f"; {number:,} {why}" for why, number in of.items() if why != most and number and why.endswith(_NAMED)]
        mostly = "mostly " if len(of) > 1 else ""
        parts.append(f"{how_many(sum(of.values()), kind)} ({mostly}{most}{''.join(more)})")
    return ("up to " if parts and len(every) > 1 else "") + (", ".join(parts) or "nothing")


def left_out_of(entry: Mapping[str, Any]) -> dict[str, int]:
    """Reason -> how many images, captions or tasks of a captioner."""
    found: dict[str, int] = dict(entry["dropped"])
    for side, text in entry.get("text", {}).items():
        found |= {f"{side} captions {why}": text[why] for why in ("empty", "refused") if text[why]}
    return found


def labels_left_out(labels: Mapping[str, Any]) -> dict[str, int]:
    """Why images of the label file have no class -> how many: a value that means none, or tied votes."""
    found = {value or "empty": number for value, number in labels["ignored"].items()}
    for name, of in labels.get("attributes", {"": labels}).items():
        found |= {f"{name} tied votes".strip(): ties} if (ties := of.get("votes", {}).get("ties")) else {}
    return found


def _remarks(result: Result) -> Iterator[str]:
    metrics, labels = metrics_of(result), result.run["labels"]
    if labels["derived"]:
        whose = " and ".join(name for name, of in labels.get("attributes", {}).items() if of["derived"])
        yield f"Labels {f'of {whose} ' if whose else ''}DERIVED from human captions."
        for of in labels.get("attributes", {"": labels}).values():
            if of["derived"] and (found := of.get("agreement")):
                share = f"for {found['repeats']:.1%} of its images"
                yield f"{of['source']} repeats what human captions name most often {share}."
    if len({bool(row.counted) for row in metrics}) == 2:
        yield f"Counted metrics: {_COUNTED}."
    if any(row.reads_named_class for row in metrics):
        yield "T->A: captions that name one class."
    read = {
        ("human captions" if side == "human" else f"captions of {name}"): str(count)
        for name, entry in result.run["captioners"].items()
        for side, count in entry["sentences"].items()
        if count > 1 and not all(row.counted for row in metrics)
    }
    for names, count in alike(read.items()):
        yield f"Long captions: judges read {count} sentences each, one by one, of {names} (--text whole: the whole)."


def class_notes(labels: Mapping[str, Any]) -> Iterator[str]:
    """Notes on labels of several attributes: classes left out, and images without a label of every attribute."""
    if labels.get("left_out"):
        cells = ", ".join(f"{name} ({number:,})" for name, number in labels["left_out"].items())
        yield f"Classes left out, with fewer than {labels['least']} images: {cells}."
    known = {name: of["images"] for name, of in labels.get("attributes", {}).items()}
    if any(number > labels["images"] for number in known.values()):
        each = ", ".join(f"{number:,} for {name}" for name, number in known.items())
        yield f"Labelled images: {each}, {labels['images']:,} for all of these. Only the last are used."


# ---- Footnotes -------------------------------------------------------------------------------------------------------


def _method(result: Result) -> Iterator[str]:
    metrics = metrics_of(result)
    best = {row.metric.title: row.seeds for row in result.summaries if row.metric.aggregate == "best"}
    if best and (seeds := max(best.values())) > 1:
        yield f"Best of {seeds} seeds on validation images, for each side: {', '.join(best)}."
    if normalised := ", ".join(row.title for row in metrics if row.amplification == "normalised"):
        yield f"{normalised}: amplification is (generated - human) / (generated + human), from -1 to 1."
    if any(row.direction for row in metrics):
        yield "A->T: what captions say of people of a class. T->A: whom captions name, given what images show."
    if concentrated := ", ".join(row.title for row in metrics if row.weighs_named_class):
        what = "higher where captions concentrate on one class, even if the class does not depend on the tasks"
        yield f"{concentrated}: {what} (U T->A measures that it does)."


def _labels(labels: Mapping[str, Any]) -> Iterator[str]:
    every = labels.get("attributes", {"": labels})
    for name, of in every.items():
        whose = f" of {name}" if name else ""
        yield f"Labels{whose} {'DERIVED' if of['derived'] else 'from'}: {of['source'].removeprefix('derived: ')}."
    for name, classes in labels.get("unnamed", {}).items():
        yield f"Classes of {name} are the values of its labels, as no lexicon names them: {', '.join(classes)}."
    for votes in (of.get("votes", {}) for of in every.values()):
        if "ties" in votes:
            yield (
                f"Labels vote: of {votes['labels']:,} labels the most frequent one of an image is its class; a label "
                f"that names no class counts as a vote. In {votes['unanimous']:,} images all votes agree, in "
                f"{votes['decided']:,} one class is more frequent than any other vote, {votes['ties']:,} are tied."
            )
        if "own captions" in votes:
            kept, others = votes["own captions"], votes["other captions"]
            yield f"Human captions: the {kept:,} whose own label is their image's; {others:,} others are left out."


def _fits(result: Result) -> Iterator[str]:
    """How well captions fit what is known of images, by class."""
    if "fit" not in result.scores:
        return
    keys = ["captioner", "metric", "judge"]
    told = result.scores.dropna(subset="fit").groupby([*keys, "answer", "side"], observed=True)["fit"]
    rows = told.mean().unstack().reset_index()
    each = rows["answer"].astype(str) + rows.agg(" {0.generated:.2f} (a person's {0.human:.2f})".format, axis=1)
    for key, classes in each.groupby([rows[name] for name in keys], observed=True):
        captioner, metric, judge = map(str, key)
        yield (
            f"{name_row(find_metric(metric), judge)}: the captions of {captioner} fit what is known of their images "
            f"with this mean cosine: {', '.join(classes)}."
        )


def _inference(result: Result) -> Iterator[str]:
    rows, run = result.summaries, result.run
    bases = {row.basis for row in rows if row.seeds}
    compared = any(row.metric.amplification != "one_side" for row in rows)
    if run["protocol"] == "crossfit" and any(row.seeds > 1 and row.metric.aggregate == "mean" for row in rows):
        yield "Seeds: draws of the folds. Values are means over them, standard errors those of the first draw."
    if "refits" in bases:
        times = " or ".join(str(number) for number in sorted(set(run["refits"].values()), reverse=True) if number)
        scenes = " within scenes" if run["labels"].get("scenes") else ""
        on = "captions exchanged between the sides of an image" if compared else f"shuffled labels{scenes}"
        given = [bool(row.metric.given) for row in rows if row.basis == "refits"]
        other = "" if all(given) else f", and{' (but for conditional leakage)' * any(given)} as often on {on}"
        yield (
            f"Refits: judges trained again {times} times on both halves of the images{other}. Their values give the "
            "standard error."
        )
    if alone := dict.fromkeys(row.metric.title for row in rows if row.metric.amplification == "one_side"):
        yield f"{', '.join(alone)} scores one side: the amplification is this score less the chance level."
    if "splits" in bases:
        yield "Splits: values of single folds or hold-outs, corrected for shared training images (resampled t-test)."
    if "images" in bases:
        yield "Judges that are not trained have no training noise: halves of the images and exchanged captions."
    if any(row.published is not None for row in rows):
        yield (
            f"Counted metrics: {_COUNTED} (its mean when captions of an image are exchanged between sides); "
            "halves of the images and exchanged captions give the standard error."
        )
    if known := [row for row in rows if row.standard_error is not None]:
        level, images = run["level"], max(sum(run["captioners"][row.captioner]["images"].values()) for row in known)
        yield (
            f"Interval and p: one t, the amplification over its standard error. A {level:.0%} interval leaves out the "
            f"value without amplification where p is below {1 - level:.2g}. A small p is the tail of "
            "the t distribution, not a count of samples."
        )
        against = "human captions" if compared else "chance"
        yield (
            f"Detectable: the smallest amplification that a test against {against} finds with {POWER:.0%} power; "
            f"about {4 * images:,} images would halve it."
        )
    for name, (first, second) in run["ratios"].items():
        yield f"{find_metric(name).title}: captions that name {first} over captions that name {second}."


def hidden_things(hide: str, category: str | None) -> str:
    """The things that a value of ``--hide`` hides, in words."""
    of_category = {"object": str(category), "both": f"people and {category}"}
    return (of_category | {"objects": "objects", "background": "the background"}).get(hide, "people")


def _image_judges(sight: Mapping[str, Any] | None) -> Iterator[str]:
    """Notes on judges of images: what is hidden, the backbone, and the prompt."""
    if not sight:
        return
    if sight.get("image_features"):
        yield f"Vectors of images: from {sight['image_features']}. Whether people are hidden in them is not checked."
    elif sight["mask"] == "none":
        yield "Images as they are: nobody is hidden from judges."
    else:
        hidden = hidden_things(sight["hide"], sight["category"] or "the object")
        grown = f", grown by {sight['dilation']} pixels" if sight["dilation"] else ""
        yield f"Images: {hidden} hidden, found by {sight['detector']}, {sight['mask']}, {sight['fill']}{grown}."
    if "backbone" in sight and not sight.get("image_features"):
        size = f" at {sight['image_size']} pixels" if sight["image_size"] else ""
        network = sight["backbone"] or "each judge's own"
        weights = "" if network == PATCHES else f", weights: {sight['backbone_weights']}"
        yield f"Backbone: {network}{weights}{size}."
    if "tuning" in sight:
        how = f"tuning {sight['tuning']}"
        yield f"Captioners as judges: {'frozen, a linear judge reads their states' if 'reading' in how else how}."
    for judge, words in sight.get("read_for", {}).items():
        yield f"{judge} reads " + ", ".join(f'"{word}" for {token}' for token, word in words.items()) + "."
    if "template" in sight:
        among = {"restricted": "the answers alone", "vocabulary": "all words"}
        softmax = f", probabilities among {among[sight['answer_softmax']]}" if "answer_softmax" in sight else ""
        yield f'Prompt: "{sight["template"]}"{softmax}.'


def _chance(result: Result) -> Iterator[str]:
    """Notes on the scores of a judge that knows only how frequent classes are."""
    if any(row.chance for row in result.summaries):
        among = "within scenes" if result.run["labels"].get("scenes") else "among images"
        yield f"Chance: scores of both sides where labels are shuffled {among}."
    untried = dict.fromkeys(row.metric for row in result.summaries if not row.chance)
    judged = [row for row in untried if not row.counted and row.prior is None]
    found = dict[str, None]()
    for images in (entry["images"] for entry in result.run["captioners"].values()) if judged else ():
        scores = ", ".join(f"{row.title} {row.chance(images):.3f}" for row in judged)
        found[f"Chance with {len(images)} classes, of a judge that is never sure: {scores}."] = None
    yield from sorted(found)


def _counted(run: Mapping[str, Any]) -> Iterator[str]:
    words = [(name, of["counted"]) for name, of in run["captioners"].items() if "words" in of["counted"]]
    for names, counts in alike((name, f"{of['words']} words that occur {of['least']} times") for name, of in words):
        yield f"{names}: BA counts {counts} or more with every class."
    if objects := {of["counted"]["objects"] for of in run["captioners"].values() if "objects" in of["counted"]}:
        yield f"{max(objects)} objects are annotated (source: {run['tasks']['source']})."


def _quality(found: Mapping[str, Quality]) -> Iterator[str]:
    scoring = []
    for name, of in found.items():
        yield f"{name} uses {of.vocabulary['generated']:,} words, {of.mean_length['generated']:.1f} a caption."
        words = "Penn Treebank tokens" if of.tokenizer == "ptb" else "tokens of our own tokeniser"
        human = f"human captions use {of.vocabulary['human']:,} words, {of.mean_length['human']:.1f} a caption"
        skipped = (f"{score} skipped: {why}" for score, why in of.skipped.items())
        scoring.append((name, "; ".join([f"{words}, {human}", *skipped])))
    yield from (f"Quality of {names}: {note}." for names, note in alike(scoring))


# ---- Differences between captioners ----------------------------------------------------------------------------------


def pair_notes(found: Sequence[Difference]) -> Iterator[str]:
    """Images that one captioner of a pair lacks."""
    most: dict[str, int] = {}
    for row in found:
        pair = f"{row.first} and {row.second}"
        most[pair] = max(most.get(pair, 0), row.left_out)
    if pairs := [f"{pair} {count:,}" for pair, count in most.items() if count]:
        yield f"Images that one of the two alone was measured on are left out for both: {some(pairs)}."


def difference_notes(found: Sequence[Difference]) -> Iterator[str]:
    """Notes for the table of differences, a line each."""
    tested = [(row.metric, row.judge) for row in found if row.p_value is not None]
    yield "Difference: amplification of the first less that of the second."
    if tested:
        yield "Intervals and p: both captioners on the same parts of the data; t-test."
    apart = [f"{row.first} and {row.second}, {row.metric.name}" for row in found if row.interval and not row.paired]
    if apart:
        yield f"But not on the same parts, as if they were independent: {'; '.join(apart)}."
    if tested:
        several = "of each metric" if len({*tested}) > 1 else "of the metric"
        family = f"{how_many(max(Counter(tested).values()), 'difference')} {several}"
        yield f"p (Holm): corrected for the {family}; the verdict uses it, at {SIGNIFICANT:g}."
    if any(row.p_value is None for row in found):
        yield "Without an interval: judges that were not trained again (--refits, or five splits or more)."
