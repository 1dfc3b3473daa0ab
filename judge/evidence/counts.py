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

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
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
from judge.utils.cells import constant, joined_tables

# LIC asks for 100 captions with each gender, and does not say among how many. It keeps 290 words; in 17,985 COCO
# captions a threshold of 10 keeps that many; 100 of the 33,140 captions of LIC's images would be 54, and keep 56.
_OF_CAPTIONS = 1800
_OBJECTS = "use ba-objects, which asks for no such words"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Which words of captions BA counts: the ``most`` frequent content words of both sides' captions.

    ``least``: captions that must hold a word together with each class; None for one in 1,800, and at least 2.
    """

    most: int = 1000
    least: int | None = None


@dataclass(frozen=True, slots=True)
class CountRows:
    """The input of counted metrics for one captioner: the rows of ``counts.parquet``, and facts about both sides.

    ``dropped``: reason -> annotated tasks or images left out; ``counted``: numbers of "words" (and the "least" captions
    with each class), and of annotated "objects".
    """

    captioner: str
    rows: pd.DataFrame
    joined: Joined
    dropped: Mapping[str, int]
    counted: Mapping[str, int]


class CaptionCounter:
    """Makes the input of counted metrics; human and annotated rows once for all captioners of the same images."""

    def __init__(self, builder: EvidenceBuilder, vocabulary: Vocabulary) -> None:
        self.builder, self.vocabulary = builder, vocabulary
        self._of_images: tuple[object, pd.DataFrame, tuple[pd.DataFrame, dict[str, int], int] | None] | None = None

    def count(self, captioner: Captions, metrics: Collection[Metric]) -> CountRows:
        """The input of the counted metrics among ``metrics``.

        Raises:
            JudgeError: as for evidence; a metric needs the words of an attribute without a lexicon; no word is frequent
                enough.
        """
        builder, wanted = self.builder, {metric: metric.counted for metric in metrics if metric.counted}
        labels = {counted.labels for counted in wanted.values()}
        joined, _ = builder.join(captioner)
        _check(builder, joined, wanted)
        counted, dropped, words, copied = dict[str, int](), dict[str, int](), frozenset[str](), _copied(joined)
        if "words" in labels:
            words, least = _common_words(builder, joined, self.vocabulary, copied)
            counted |= {"words": len(words), "least": least}
        joined.words["generated"].release()
        objects, annotates = "objects" in labels, any(of.against == "annotation" for of in wanted.values())
        key = tuple(joined.classes), objects, annotates
        if self._of_images is None or self._of_images[0] != key:
            human = _caption_rows(builder, joined, "human", objects=objects)
            self._of_images = key, human, _annotated_rows(builder, joined) if annotates else None
        _, human, annotated = self._of_images
        sides = human, _caption_rows(builder, joined, "generated", objects=objects)
        tables = [_with_words(table, joined.rows[side], words) for side, table in zip(joined.rows, sides, strict=True)]
        if annotated:
            table, dropped, counted["objects"] = annotated
            tables.append(table)
        table = joined_tables(tables)
        table.insert(1, "captioner", pd.Series(constant(captioner.name, len(table))))
        if copied:
            table["copied"] = (table["side"] == "generated") & table["image_id"].isin(copied)
        if scenes := builder.truth.labels.scenes:
            table["scene"] = table["image_id"].astype(str).map(scenes)
        # What follows asks for no words.
        return CountRows(captioner.name, table, replace(joined, words={}, named={}), dropped, counted)


def _copied(joined: Joined) -> set[str]:
    """Images whose generated captions repeat human ones; none unless by ``COPIED`` more do than human captions do."""
    said = {side: {image: list[Words]() for image in joined.classes} for side in SIDES}
    for side, rows in joined.rows.items():
        for image, _, words in rows:
            said[side][image].append(words)
    found = {image for image, of in said["generated"].items() if all(words in said["human"][image] for words in of)}
    enough = COPIED * len(joined.classes)
    if len(found) <= enough:
        return set()
    for captions in said["human"].values():  # By chance: a human caption has one fewer that it may equal.
        enough += sum(count for count in Counter(captions).values() if count > 1) / max(1, len(captions) - 1)
    return found if len(found) > enough else set()


def task_rows(builder: EvidenceBuilder, captioner: Captions) -> pd.DataFrame:
    """The tasks that each caption names and each image shows: rows as above with objects alone, and the caption itself.

    Of captions whose sentences judges read, each sentence has a row.

    Raises:
        JudgeError: no words of tasks are known; images show nothing but people.
    """
    joined, _ = builder.join(captioner)
    joined = replace(
        joined, rows=joined.read, named={side: [frozenset()] * len(of) for side, of in joined.read.items()}
    )
    check_names(sorted(builder.task_words.classes))
    sides = [_caption_rows(builder, joined, side, objects=True) for side in joined.rows]
    table = joined_tables([*sides, _annotated_rows(builder, joined)[0]])
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
    classes = sorted(set(joined.classes.values()))
    tables = [_by_class(joined, side, classes, copied if side == "generated" else ()) for side in joined.rows]
    counts = tables[0].add(tables[1], fill_value=0).astype(int)
    often: dict[str, int] = dict(zip(counts.index.tolist(), counts.sum(axis=1).tolist(), strict=True))
    common = sorted(sorted(filter(is_content, often), key=lambda word: (-often[word], word))[: vocabulary.most])
    captions = len(joined.rows["human"]) + sum(image not in copied for image, *_ in joined.rows["generated"])
    least = max(2, round(captions / _OF_CAPTIONS)) if vocabulary.least is None else vocabulary.least
    lexicon = builder.truth.words.attribute
    if lexicon and (silent := lexicon.without_words_for(classes)):
        what = f"counts words that occur with every class, and '{lexicon.name}' has no words for '{silent[0]}'"
        raise JudgeError(what, where="BA", mend=f"{_OBJECTS}; or give a --lexicon with words for '{silent[0]}'")
    together = counts.loc[common][classes].to_numpy()
    enough = frozenset(word for word, of in zip(common, together, strict=True) if (of >= least).all())
    if not enough:
        kept = (together >= least).sum(axis=0)
        rare = int(kept.argmin())
        each = f"(with '{classes[rare]}': {kept[rare]} do)"
        what = f"no word is in {least} captions with each of {', '.join(classes)} {each}"
        mend = f"lower --ba least=N, or {_OBJECTS}" if together[:, rare].any() else _OBJECTS
        raise RowError(what, where="BA", mend=mend)
    return enough, least


def _by_class(joined: Joined, side: Side, classes: Sequence[str], without: Collection[str]) -> pd.DataFrame:
    """Word -> the captions of a side that hold it and name one class alone, by class, and all others, in column "".

    Captions of the images ``without`` do not count.
    """
    words, place = joined.words[side], {frozenset({name}): number for number, name in enumerate(classes)}
    other = len(classes)
    named = np.array([place.get(named, other) for named in joined.named[side]], dtype=np.int64)
    token, caption = words.held
    if without:
        kept = np.array([image not in without for image, *_ in joined.rows[side]], dtype=np.bool_)[caption]
        token, caption = token[kept], caption[kept]
    size = other + 1
    counts = np.bincount(token * size + named[caption], minlength=len(words.vocabulary) * size).reshape(-1, size)
    return pd.DataFrame(counts, index=words.vocabulary, columns=[*classes, ""]).iloc[np.flatnonzero(counts.any(axis=1))]


def _caption_rows(builder: EvidenceBuilder, joined: Joined, side: Side, *, objects: bool) -> pd.DataFrame:
    rows = joined.rows[side]
    held = [builder.mentions(caption, "tasks") - PEOPLE if objects else () for _, _, caption in rows]
    return _frame(joined, side, rows, joined.named[side], held)


def _with_words(table: pd.DataFrame, rows: Sequence[Row], words: frozenset[str]) -> pd.DataFrame:
    """Adds to the row of each caption the words, of ``words``, that it holds."""
    return table.assign(words=_categories(words.intersection(caption) for _, _, caption in rows)) if words else table


def _frame(
    joined: Joined, side: str, rows: Sequence[Row], named: Iterable[Collection[str]], objects: Iterable[Collection[str]]
) -> pd.DataFrame:
    columns = {
        "image_id": pd.Categorical([image for image, _, _ in rows]),
        "side": constant(side, len(rows)),
        "index": [index for _, index, _ in rows],
        "class": pd.Categorical([joined.classes[image] for image, _, _ in rows]),
        "named": _categories(named),
        "words": constant("", len(rows)),
        "objects": _categories(objects),
    }
    return pd.DataFrame(columns)


def _categories(names: Iterable[Collection[str]]) -> pd.Categorical[str]:
    return pd.Categorical([join_names(of) for of in names])
