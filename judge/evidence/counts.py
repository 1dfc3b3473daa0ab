"""The input of counted metrics: the rows of ``counts.parquet``.

One row per caption of either side, and per annotated image::

    image_id  captioner  side       index  class  named  words                 objects
    139       nic_plus   human      0      male   male   ride|surfboard|wave   surfboard
    139       nic_plus   generated  0      male                                surfboard
    139       nic_plus   annotated  0      male   male                         surfboard

Several names are joined by "|". Counted metrics are sums over these rows (``judge.statistics.counted``). People, COCO's
"person", are not among the objects: they have the attribute, and a caption that names it ("a man") needs no other word
for them. Where images show scenes there is a column ``scene``; where a captioner repeats human captions of the same
image word for word, as where they were copied into its file, a column ``copied``.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from judge.corpus import COPIED
from judge.errors import JudgeError, RowError
from judge.evidence.builder import EvidenceBuilder, check_names, join_names, mend_without_words
from judge.evidence.joined import PEOPLE, Joined, Row
from judge.evidence.preparation import texts_of
from judge.metrics import Metric
from judge.metrics.counted.spec import CountedMetric
from judge.text.tokens import is_content
from judge.types import SIDES, Captions, Side, Words

# LIC asks for 100 captions with each gender, and does not say among how many. It keeps 290 words; in 17,985 COCO
# captions a threshold of 10 keeps that many; 100 of the 33,140 captions of LIC's images would be 54, and keep 56.
_OF_CAPTIONS = 1800
_OBJECTS = "use ba-objects, which asks for no such words"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Which words of captions BA counts.

    Attributes:
        most: number of content words considered, the most frequent ones of both sides' captions.
        least: captions that must hold a word together with each class; None for one in 1,800, and at least 2.
    """

    most: int = 1000
    least: int | None = None


@dataclass(frozen=True, slots=True)
class CountRows:
    """The input of counted metrics for one captioner.

    Attributes:
        rows: the rows of ``counts.parquet``.
        joined: the images, what was left out, and how often captions name the attribute.
        dropped: reason -> annotated tasks or images left out.
        counted: numbers of "words" (and the "least" captions with each class), and of annotated "objects".
    """

    captioner: str
    rows: pd.DataFrame
    joined: Joined
    dropped: Mapping[str, int]
    counted: Mapping[str, int]


def count_captions(
    builder: EvidenceBuilder, captioner: Captions, metrics: Collection[Metric], *, vocabulary: Vocabulary
) -> CountRows:
    """The input of the counted metrics among ``metrics``.

    Raises:
        JudgeError: as for evidence; a metric needs the words of an attribute without a lexicon; no word is frequent
            enough.
    """
    wanted = {metric: metric.counted for metric in metrics if metric.counted}
    labels = {counted.labels for counted in wanted.values()}
    joined, _ = builder.join(captioner)
    _check(builder, joined, wanted)
    counted, dropped, words, copied = dict[str, int](), dict[str, int](), frozenset[str](), _copied(joined)
    if "words" in labels:
        words, least = _common_words(builder, joined, vocabulary, copied)
        counted |= {"words": len(words), "least": least}
    tables = [_caption_rows(builder, joined, side, words, objects="objects" in labels) for side in joined.rows]
    if any(of.against == "annotation" for of in wanted.values()):
        annotated, dropped, counted["objects"] = _annotated_rows(builder, joined)
        tables.append(annotated)
    table = pd.concat(tables, ignore_index=True)
    table.insert(1, "captioner", captioner.name)
    if copied:
        table["copied"] = (table["side"] == "generated") & table["image_id"].isin(copied)
    if scenes := builder.truth.labels.scenes:
        table["scene"] = table["image_id"].map(scenes)
    return CountRows(captioner.name, table, joined, dropped, counted)


def _copied(joined: Joined) -> set[str]:
    """Images whose generated captions repeat human ones; none unless by ``COPIED`` more do than human captions do."""
    said = {side: {image: Counter[Words]() for image in joined.classes} for side in SIDES}
    for side, rows in joined.rows.items():
        for image, _, words in rows:
            said[side][image][words] += 1
    found = {image for image, of in said["generated"].items() if of.keys() <= said["human"][image].keys()}
    by_chance = 0.0
    for of in said["human"].values():  # A human caption has one fewer that it may equal.
        by_chance += sum(count for count in of.values() if count > 1) / max(1, of.total() - 1)
    return found if len(found) > COPIED * len(joined.classes) + by_chance else set()


def task_rows(builder: EvidenceBuilder, captioner: Captions) -> pd.DataFrame:
    """The tasks that each caption names and each image shows: rows as above with objects alone, and the caption itself.

    Of captions whose sentences judges read, each sentence has a row.

    Raises:
        JudgeError: no words of tasks are known; images show nothing but people.
    """
    joined, _ = builder.join(captioner)
    joined = replace(joined, rows=joined.read)
    check_names(sorted(builder.task_words.classes))
    sides = [_caption_rows(builder, joined, side, frozenset(), objects=True) for side in joined.rows]
    table = pd.concat([*sides, _annotated_rows(builder, joined)[0]], ignore_index=True)
    table.insert(1, "captioner", captioner.name)
    written: dict[Side, Mapping[str, tuple[str, ...]]] = {
        "human": builder.corpus.human.by_image,
        "generated": captioner.by_image,
    }
    rows = zip(table["side"], table["image_id"], table["index"], strict=True)
    read = {
        (side, i, n): text
        for side, of in written.items()
        for i in joined.classes
        for n, text in texts_of(of[i], joined.sentences[side])
    }
    captions = [read.get(row, "") for row in rows]
    return table.drop(columns=["named", "words"]).assign(caption=captions)


def _annotated_rows(builder: EvidenceBuilder, joined: Joined) -> tuple[pd.DataFrame, dict[str, int], int]:
    """A row for each annotated image; reason -> annotated tasks or images left out; and the number of objects."""
    tasks, dropped = builder.find_tasks(list(joined.classes))
    objects = {*tasks.names} - PEOPLE
    if not objects:
        raise JudgeError("images show nothing but people", where=tasks.source, mend="give other --objects")
    images = [image for image in joined.classes if image in tasks.by_image]
    shown = [{*tasks.shown(image)} - PEOPLE for image in images]
    named = [{joined.classes[image]} for image in images]
    return _frame(joined, "annotated", [(image, 0, ()) for image in images], named, shown), dropped, len(objects)


def _check(builder: EvidenceBuilder, joined: Joined, wanted: Mapping[Metric, CountedMetric]) -> None:
    """Refuse what cannot be counted."""
    labels, words, tasks = builder.truth.labels, builder.truth.words.attribute, builder.truth.words.tasks
    names = {*joined.classes.values(), *(words.classes if words else ()), *(tasks.classes if tasks else ())}
    check_names(sorted(names))
    for metric, counted in wanted.items():
        if words is None and (counted.direction == "T->A" or counted.labels is None):
            what = f"{metric.title} counts the classes that captions name, and no words of them are known"
            raise JudgeError(what, where=f"attribute '{labels.attribute}'", mend=mend_without_words(metric))
        for name in sorted({*counted.classes} - {*labels.classes}):
            mend = f"known: {', '.join(labels.classes)}"
            raise JudgeError(f"no image is of class '{name}'", where=f"--metrics {metric.name}", mend=mend)


def _common_words(
    builder: EvidenceBuilder, joined: Joined, vocabulary: Vocabulary, copied: Collection[str]
) -> tuple[frozenset[str], int]:
    """BA's labels: frequent content words, each in enough captions with each class; and the number that is enough.

    Captions of both sides choose the words. Words of human captions alone (LIC's) would include those that humans use
    often by chance, and the captioner therefore less often; exchanged captions could not tell that from amplification.
    For the same reason captions that repeat human ones (of ``copied`` images) do not choose words a second time.
    """
    together: dict[str, Counter[str]] = {}  # Class -> word -> captions that name it alone; "": all other captions.
    captions = [*joined.rows["human"], *(row for row in joined.rows["generated"] if row[0] not in copied)]
    for image, _, words in captions:
        named = builder.named(words, joined.classes[image])
        name = next(iter(named)) if len(named) == 1 else ""
        together.setdefault(name, Counter()).update(set(builder.mask(words, "attribute")))
    counts = sum(together.values(), Counter[str]())
    content = filter(is_content, counts)
    common = set(sorted(content, key=lambda word: (-counts[word], word))[: vocabulary.most])
    least = max(2, round(len(captions) / _OF_CAPTIONS)) if vocabulary.least is None else vocabulary.least
    classes = sorted(set(joined.classes.values()))
    lexicon = builder.truth.words.attribute
    if lexicon and (silent := lexicon.without_words_for(classes)):
        what = f"counts words that occur with every class, and '{lexicon.name}' has no words for '{silent[0]}'"
        raise JudgeError(what, where="BA", mend=f"{_OBJECTS}; or give a --lexicon with words for '{silent[0]}'")
    together = {name: together.get(name, Counter()) for name in classes}
    enough = frozenset(word for word in common if all(of[word] >= least for of in together.values()))
    if not enough:
        often = {name: sum(together[name][word] >= least for word in common) for name in classes}
        rare = min(classes, key=lambda name: often[name])
        what = f"no word is in {least} captions with each of {', '.join(classes)} (with '{rare}': {often[rare]} do)"
        mend = f"lower --least, or {_OBJECTS}" if any(together[rare][word] for word in common) else _OBJECTS
        raise RowError(what, where="BA", mend=mend)
    return enough, least


def _caption_rows(
    builder: EvidenceBuilder, joined: Joined, side: Side, words: frozenset[str], *, objects: bool
) -> pd.DataFrame:
    """The rows of a side's captions."""
    rows = joined.rows[side]
    named = [builder.named(caption, joined.classes[image]) for image, _, caption in rows]
    held = [builder.mentions(caption, "tasks") - PEOPLE if objects else () for _, _, caption in rows]
    table = _frame(joined, side, rows, named, held)
    return table.assign(words=[join_names(words.intersection(caption)) if words else "" for _, _, caption in rows])


def _frame(
    joined: Joined, side: str, rows: Sequence[Row], named: Iterable[Collection[str]], objects: Iterable[Collection[str]]
) -> pd.DataFrame:
    columns = {
        "image_id": [image for image, _, _ in rows],
        "side": side,
        "index": [index for _, index, _ in rows],
        "class": [joined.classes[image] for image, _, _ in rows],
        "named": [join_names(of) for of in named],
        "words": "",
        "objects": [join_names(of) for of in objects],
    }
    return pd.DataFrame(columns)
