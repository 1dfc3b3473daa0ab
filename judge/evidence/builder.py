"""From a corpus to evidence: sides of masked, aligned samples for one captioner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from judge.corpus import Corpus, common_images, overlap
from judge.corpus.attributes import ProductLabels
from judge.corpus.labels import compare_labels, derive_labels
from judge.corpus.tasks import Tasks, derive_tasks, join_tasks, usable
from judge.errors import JudgeError
from judge.evidence.preparation import DEFAULT_TEXT, Preparation, TextOptions
from judge.evidence.sides import Aligner, Evidence, MaskedCaption, Sides
from judge.masking.instances import PERSON
from judge.metrics import Metric
from judge.text.alignment import AlignmentName
from judge.text.combined import ProductLexicon, unlisted_tasks
from judge.text.coverage import Coverage, measure_coverage
from judge.text.lexicon import Lexicon, Lexicons
from judge.text.masking import mask
from judge.text.survey import SideWords, Survey
from judge.text.vectors import VectorCache
from judge.types import Captions, Labels, Side, Target, TargetKind, Words

# Who has the attribute, and so is no task: what a caption calls a person ("a surfer", "a child") says nothing else.
PEOPLE = frozenset({PERSON})
MINIMUM_IMAGES = 10
# An image's 6th or 7th caption has too few companions to train a judge on.
INDEX_COVERAGE = 0.9
_SAME = "give files of the same images, and see that image ids mean the same in all"

T = TypeVar("T")
Row = tuple[str, int, Words]
"""A caption of a side: (image id, index among the image's captions, words)."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The answers that judges are to guess, and the words that give them away.

    Attributes:
        labels: the attribute's classes.
        words: what reveals the attribute, and tasks.
        tasks: what else images show; None to take it from human captions.
    """

    labels: Labels
    words: Lexicons
    tasks: Tasks | None = None


@dataclass(frozen=True, slots=True)
class Aligning:
    """How the human side is made comparable.

    Attributes:
        how: None for each metric's own.
        vectors: of contextual alignment: "corpus" (learnt from the human captions), a file, or "hf:NAME".
        delta: of contextual alignment: the cosine distance below which a word is substituted; None: by ``vectors``.
    """

    how: AlignmentName | None = None
    vectors: str = "corpus"
    delta: float | None = None


DEFAULT_ALIGNING = Aligning()


@dataclass(frozen=True, slots=True)
class Joined:
    """Captions of a captioner and of people for the images that both describe, before anything is hidden.

    Attributes:
        classes: image id -> class, of the images that have one, sorted by image.
        rows: side -> its captions of these images.
        dropped: reason -> images left out.
        coverage: side -> how often its captions name the attribute; None without a lexicon.
        survey: side -> what its captions are, and what masking leaves in them.
    """

    classes: Mapping[str, str]
    rows: Mapping[Side, Sequence[Row]]
    dropped: Mapping[str, int]
    coverage: Mapping[Side, Coverage] | None
    survey: Mapping[Side, Survey]


class EvidenceBuilder:
    """Evidence of a corpus, by captioner and metric. Both sides pass through the same functions.

    Args:
        corpus: captions of both sides.
        words: what reveals the attribute, and tasks.
        options: how captions become words.
        aligning: how the human side is made comparable.
        least: where labels are derived, how many human captions of an image must name its class.

    Raises:
        JudgeError: no labels and no lexicon to derive them with.
    """

    def __init__(
        self,
        corpus: Corpus,
        words: Lexicons,
        *,
        options: TextOptions = DEFAULT_TEXT,
        aligning: Aligning = DEFAULT_ALIGNING,
        least: int = 1,
    ) -> None:
        self.corpus, self.options, self.aligning = corpus, options, aligning
        self._cache = VectorCache(aligning.vectors, self._vocabulary)
        # Captions are read, masked and searched for words once for labels, all captioners and metrics.
        self._words = cache(options.words)
        self.mask = cache(partial(_mask, words))
        self.mentions = cache(partial(_mentions, words))
        self.named = cache(partial(_named, words))
        given = corpus.labels
        labels = self._compare(given, words.attribute) if given else self._derive_labels(words.attribute, least)
        self.truth = Truth(labels, words, self._complete(corpus.tasks, words.tasks))
        self._built: dict[tuple[object, ...], Evidence] = {}
        # People's captions, by their images, and what was found out about them: mostly for all captioners alike.
        self._people: dict[tuple[str, ...], list[Row]] = {}
        self._known: dict[tuple[int, Hashable], Any] = {}

    def _compare(self, labels: Labels, lexicon: Lexicon | None) -> Labels:
        """Labels that were given beside what human captions name: of images that a captioner describes, if one does."""
        if isinstance(labels, ProductLabels):
            words = lexicon.parts if isinstance(lexicon, ProductLexicon) else [None] * len(labels.parts)
            parts = tuple(self._compare(*pair) for pair in zip(labels.parts, words, strict=True))
            return replace(labels, parts=parts, derived=any(part.derived for part in parts))
        if lexicon is None or labels.derived:
            return labels
        human, described = self.corpus.human.by_image, {image for of in self.corpus.generated for image in of.by_image}
        mentions = {
            image: [lexicon.mentions(self._words(caption)) for caption in human[image]]
            for image in human.keys() & labels.by_image.keys() & (described or human.keys())
        }
        return compare_labels(labels, mentions)

    def _derive_labels(self, lexicon: Lexicon | None, least: int) -> Labels:
        """From human captions."""
        if lexicon is None:
            mend = "give --labels or --lexicon; check the spelling of --attribute"
            raise JudgeError("no labels, and no lexicon to derive them from", mend=mend)
        mentions = {
            image: [self.mentions(self._words(caption), "attribute") for caption in captions]
            for image, captions in self.corpus.human.by_image.items()
        }
        return derive_labels(mentions, attribute=lexicon.name, classes=sorted(lexicon.classes), least=least)

    def build(self, captioner: Captions, metric: Metric) -> Evidence:
        """Join, tokenise, mask and align the sides of ``captioner`` for ``metric``.

        An attribute without a lexicon (skin tone is rarely said) is not masked, as in LIC.

        Raises:
            JudgeError: no image in common; one class only; a class with fewer than 10 images; no task to guess, or one
                without words that could be hidden.
        """
        key = captioner.name, metric.evidence
        if key not in self._built:
            self._built[key] = Evidence(self._sides(captioner, metric))
        return self._built[key]

    def join(
        self, captioner: Captions, *, tasks: bool = False, without: Collection[str] = (), judged: bool = True
    ) -> tuple[Joined, Tasks | None]:
        """The sides of ``captioner``, on images whose class is known, and with ``tasks`` also what else they show.

        Tasks called as in ``without`` are left out. Where nothing is ``judged``, any number of classes and images do.

        Raises:
            JudgeError: as ``build``.
        """
        labels = self.truth.labels
        classes, dropped, found = self._images(captioner, tasks=tasks, without=without)
        where = f"{captioner.source or captioner.name} with {self.corpus.human.source or self.corpus.human.name}"
        if not classes:
            sides = (self.corpus.human, captioner, labels)
            ids = [next(iter(side.by_image), "-") for side in sides]
            what = f"no image in common (human '{ids[0]}', generated '{ids[1]}', labels '{ids[2]}')"
            raise JudgeError(what, where=where, mend="check that image ids mean the same in all files")
        if judged:
            _check_classes(classes, labels, where, partial(overlap, self.corpus.human, captioner, labels))
        images = tuple(classes)
        if images not in self._people:
            self._people[images] = self._flatten(self.corpus.human, images)
        rows: dict[Side, list[Row]] = {"human": self._people[images], "generated": self._flatten(captioner, images)}
        return Joined(classes, rows, dropped, self._coverage(rows), self._survey(rows, classes, captioner)), found

    def _images(
        self, captioner: Captions, *, tasks: bool, without: Collection[str]
    ) -> tuple[dict[str, str], dict[str, int], Tasks | None]:
        """The images of :meth:`join`, image id -> class; reason -> images left out; and what else they show."""
        labels, found = self.truth.labels, None
        images, dropped = common_images(self.corpus.human, captioner, labels.by_image)
        if isinstance(labels, ProductLabels) and labels.left_out:
            small = len(labels.small & self.corpus.human.by_image.keys() & captioner.by_image.keys())
            dropped |= {"no label": dropped["no label"] - small, "in classes left out": small}
        if tasks:
            found, gone = self.find_tasks(images, without=without)
            images = [image for image in images if image in found.by_image]
            dropped |= gone
        return {image: labels.by_image[image] for image in images}, dropped, found

    def once(self, rows: Sequence[Row], what: Hashable, find: Callable[[], T]) -> T:
        """What ``find`` says about the captions ``rows``; about people's, which captioners share, it is asked once."""
        if not any(rows is people for people in self._people.values()):
            return find()
        key = id(rows), what
        if key not in self._known:
            self._known[key] = find()
        return cast(T, self._known[key])

    def leave_out_small(self, metrics: Collection[Metric], least: int) -> None:
        """Of several attributes leave out classes of which a captioner has fewer than ``least`` images.

        They are left out of all metrics and captioners alike, which so stay comparable; a single attribute's rare class
        is a fault of the data, a product's is to be expected.

        Raises:
            JudgeError: fewer than two classes are left; as ``join``.
        """
        labels = self.truth.labels
        if not isinstance(labels, ProductLabels):
            return
        kinds = {(row.target == "tasks" and not row.counted, _spared(row)) for row in metrics}
        found = [
            Counter(self._images(captioner, tasks=tasks, without=without)[0].values())
            for captioner in self.corpus.generated
            for tasks, without in kinds
        ]
        if not all(found):  # A captioner without any image: joining it says why.
            return
        counts = {name: min(of[name] for of in found) for name in labels.classes}
        self.truth = replace(self.truth, labels=labels.without_small(counts, least))

    def _sides(self, captioner: Captions, metric: Metric) -> Sides:
        if metric.weighs_named_class and self.truth.words.attribute is None:
            what = f"{metric.title} weighs captions by the class that they name, and no words of it are known"
            where = f"attribute '{self.truth.labels.attribute}'"
            raise JudgeError(what, where=where, mend=mend_without_words(metric))
        if metric.prior:
            check_names([*self.task_words.classes, *self.truth.labels.classes])
        spared = _spared(metric)
        joined, tasks = self.join(captioner, tasks=metric.target == "tasks", without=spared)
        hidden: TargetKind = "tasks" if "task words" in metric.hidden else "attribute"
        target, answers = _questions(joined.classes, tasks)
        dropped = dict(joined.dropped)
        rows: dict[Side, tuple[MaskedCaption, ...]] = {}
        for side, captions in joined.rows.items():
            kept, dropped[f"{side} captions beyond the common number"] = _indices(captions, len(joined.classes))
            masked = partial(self._masked, captions, hidden, metric, kept)
            rows[side] = self.once(captions, (hidden, spared, metric.prior), masked)
        how = self.aligning.how or metric.alignment
        # Vectors are learnt from the run's own captions; refits keep them.
        vectors = self._cache.vectors([row.words for row in rows["human"]]) if how == "contextual" else None
        aligner = Aligner(how, vectors, self.aligning.delta)
        lexicon = self.truth.words.tasks if hidden == "tasks" else self.truth.words.attribute
        prepared = Preparation(self.truth.labels.attribute, self.options, lexicon, spared)
        about = metric.uses_images, joined.coverage, joined.survey, dropped, prepared
        return Sides(captioner.name, target, joined.classes, answers, rows, aligner, *about)

    def _masked(
        self, captions: Sequence[Row], hidden: TargetKind, metric: Metric, kept: Collection[int]
    ) -> tuple[MaskedCaption, ...]:
        spared = _spared(metric)
        return tuple(
            MaskedCaption(image, index, self.mask(words, hidden, spared), *self._names(image, words, metric))
            for image, index, words in captions
            if index in kept
        )

    def _names(self, image: str, words: Words, metric: Metric) -> tuple[str, str]:
        """The classes, and the tasks, that a caption names, where the metric's priors are of them."""
        if metric.weighs_named_class:
            return join_names(self.named(words, self.truth.labels.by_image[image])), ""
        if metric.weighs_tasks:
            return "", join_names(self.mentions(words, "tasks") - _spared(metric))
        return "", ""

    def _flatten(self, captions: Captions, images: Sequence[str]) -> list[Row]:
        return [
            (image, index, self._words(caption))
            for image in images
            for index, caption in enumerate(captions.by_image[image])
        ]

    def _vocabulary(self) -> set[str]:
        sides = (self.corpus.human, *self.corpus.generated)
        captions = (caption for side in sides for of in side.by_image.values() for caption in of)
        return {word for caption in captions for word in self._words(caption)}

    def _survey(
        self, rows: Mapping[Side, Sequence[Row]], classes: Mapping[str, str], captioner: Captions
    ) -> dict[Side, Survey]:
        """What the captions of each side are, beside those of the other."""

        def read(of: Sequence[Row]) -> SideWords:
            masked = [self.mask(words, "attribute") for _, _, words in of]
            return SideWords([words for _, _, words in of], masked, [classes[image] for image, _, _ in of])

        human, generated = (self.once(of, "words of", partial(read, of)) for of in (rows["human"], rows["generated"]))
        lexicon = self.truth.words.attribute
        return {
            "human": human.survey(generated, lexicon, self.corpus.human),
            "generated": generated.survey(human, lexicon, captioner),
        }

    def _coverage(self, raw: Mapping[Side, Sequence[Row]]) -> dict[Side, Coverage] | None:
        lexicon, labels = self.truth.words.attribute, self.truth.labels
        if lexicon is None:
            return None
        classes = lexicon.classes or labels.classes

        def cover(side: Side) -> Coverage:
            named = [self.named(words, labels.by_image[image]) for image, _, words in raw[side]]
            return measure_coverage(named, classes)

        return {side: self.once(raw[side], "coverage", partial(cover, side)) for side in raw}

    @property
    def task_words(self) -> Lexicon:
        """The words that name tasks.

        Raises:
            JudgeError: they are not known.
        """
        if self.truth.words.tasks is None:
            raise JudgeError("a metric asks for tasks, and no words of them are known", mend="give --tasks")
        return self.truth.words.tasks

    def _complete(self, tasks: Tasks | None, words: Lexicon | None) -> Tasks | None:
        """``tasks`` that were given, and those of lexicons of which they list none, as human captions name them."""
        unlisted = unlisted_tasks(words, tasks.names) if tasks else None
        if not (tasks and unlisted):
            return tasks
        return join_tasks(tasks, self._derive_tasks(unlisted, self.corpus.human.by_image))

    def _derive_tasks(self, names: Iterable[str], images: Iterable[str]) -> Tasks:
        human = self.corpus.human.by_image
        mentions = {
            image: [self.mentions(self._words(caption), "tasks") for caption in human[image]]
            for image in images
            if human[image]
        }
        return derive_tasks(mentions, names=names)

    def find_tasks(self, images: Sequence[str], *, without: Collection[str] = ()) -> tuple[Tasks, dict[str, int]]:
        """The tasks that judges guess, those called as in ``without`` left out; and reason -> what else was left out.

        Raises:
            JudgeError: nothing to guess; a task without words that could be hidden.
        """
        words, tasks = self.task_words, self.truth.tasks
        if tasks is None:
            tasks = self._derive_tasks(words.classes, images)
        names = {*tasks.names} - {*without}
        if not names:
            raise JudgeError("images show nothing but people", where=tasks.source, mend="give other --objects")
        found, gone = usable(tasks.only(names), images)
        telling = [name for name in found.names if name not in words.classes]
        if telling:
            what = f"no words of task '{telling[0]}' are known, so that captions would tell it"
            mend = "give a lexicon that has them too, as in --tasks coco-objects,activities"
            raise JudgeError(what, where=f"lexicon '{words.name}'", mend=mend)
        reasons = {reason: reason if reason == "without tasks" else f"tasks {reason}" for reason in gone}
        return found, {reasons[reason]: len(names) for reason, names in gone.items()}


def _mask(lexicons: Lexicons, words: Words, kind: TargetKind, spared: frozenset[str] = frozenset()) -> Words:
    return mask(words, lexicons.tasks if kind == "tasks" else lexicons.attribute, spared=spared)


def _mentions(lexicons: Lexicons, words: Words, kind: TargetKind) -> frozenset[str]:
    lexicon = lexicons.tasks if kind == "tasks" else lexicons.attribute
    return lexicon.mentions(words) if lexicon else frozenset()


def _named(lexicons: Lexicons, words: Words, annotated: str) -> frozenset[str]:
    """The classes that a caption names whose image is annotated so: the annotated one where no words are known."""
    return lexicons.attribute.named(words, annotated) if lexicons.attribute else frozenset({annotated})


def mend_without_words(metric: Metric) -> str:
    """What to do where a metric needs the words of an attribute that has no lexicon."""
    mend, other = "give a lexicon (a .yaml file) that has them", metric.name.removesuffix("-ta")
    return mend if other == metric.name else f"{mend}, or measure A->T alone: {other}-at"


def _spared(metric: Metric) -> frozenset[str]:
    """Tasks that the metric neither hides nor counts."""
    return frozenset() if metric.people_are_tasks else PEOPLE


def join_names(names: Collection[str]) -> str:
    """Sorted, joined by "|"."""
    return "|".join(sorted(names)) if names else ""


def check_names(names: Collection[str]) -> None:
    """Refuse names that :func:`join_names` would make two of.

    Raises:
        JudgeError: one holds a "|".
    """
    for name in names:
        if "|" in name:
            raise JudgeError(f"'{name}' holds a '|', which parts names in files", mend="rename it")


def mention_table(mentions: Sequence[Collection[str]], names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which of ``names`` each caption mentions, [N, L]; others are passed over."""
    column = {name: index for index, name in enumerate(names)}
    table = np.zeros((len(mentions), len(names)), dtype=np.bool_)
    for row, named in enumerate(mentions):
        table[row, [column[name] for name in named if name in column]] = True
    return table


def _questions(classes: Mapping[str, str], tasks: Tasks | None) -> tuple[Target, Mapping[str, tuple[int, ...]]]:
    """What judges guess, and image id -> the answer."""
    if tasks is not None:
        return Target("tasks", tasks.names), tasks.by_image
    target = Target("attribute", tuple(sorted(set(classes.values()))))
    return target, {image: (target.classes.index(name),) for image, name in classes.items()}


def _indices(rows: Sequence[Row], images: int) -> tuple[list[int], int]:
    """Caption indices that nearly every image has, and how many captions lie beyond them."""
    counts = Counter(index for _, index, _ in rows)
    kept = [index for index in sorted(counts) if counts[index] >= INDEX_COVERAGE * images]
    return kept, sum(count for index, count in counts.items() if index not in kept)


def _check_classes(classes: Mapping[str, str], labels: Labels, where: str, shared: Callable[[], str]) -> None:
    """``shared`` says how many images the files have in common, which is told where the labels alone would do."""
    counts, labelled = Counter(classes.values()), Counter(labels.by_image.values())
    enough = sum(number >= MINIMUM_IMAGES for number in labelled.values())
    if len(counts) == 1:
        what, mend = f"all {len(classes)} images are '{next(iter(counts))}'", "a judge needs two classes or more"
        if enough > 1:
            what, mend = f"{what}, and {mend} ({shared()})", _SAME
        raise JudgeError(what, where=where, mend=mend)
    if rare := sorted((count, name) for name, count in counts.items() if count < MINIMUM_IMAGES):
        (count, name), *others = rare
        also = "".join(f", '{other}' {number}" for number, other in others)
        what = f"class '{name}' of {labels.attribute} has {count} images{also}; {MINIMUM_IMAGES} of each are needed"
        mend = "add labelled images, or leave such classes out by their values in the labels (--label-drop)"
        if labelled[name] >= MINIMUM_IMAGES:
            what, mend = f"{what} ({shared()})", _SAME
        raise JudgeError(what, where=where, mend=mend)
