"""From a corpus to evidence: masked, aligned captions of both sides for one captioner and one kind of metric."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from judge.corpus import Corpus, common_images, overlap
from judge.corpus.attributes import ProductLabels
from judge.corpus.labels import compare_labels, derive_labels
from judge.corpus.tasks import Tasks, derive_tasks, join_tasks, usable
from judge.errors import JudgeError
from judge.evidence.belonging import PeoplesWords, class_kappa
from judge.evidence.joined import INDEX_COVERAGE, MINIMUM_IMAGES, PEOPLE, Joined, Row, named_sides
from judge.evidence.masked import MaskedCaption
from judge.evidence.preparation import DEFAULT_TEXT, Preparation, TextOptions, texts_of
from judge.evidence.samples import Evidence
from judge.evidence.sides import Sides
from judge.metrics import Metric
from judge.text.alignment import Aligner, AlignmentName
from judge.text.combined import ProductLexicon, unlisted_tasks
from judge.text.lexicon import Lexicon, Lexicons, mask
from judge.text.survey import Coverage, SideWords, Survey, measure_coverage
from judge.text.tokens import is_content, sentences
from judge.text.vectors import VectorCache
from judge.types import Captions, Labels, Side, Target, TargetKind, Words

_SAME = "give files of the same images, and see that image ids mean the same in all"


@dataclass(frozen=True, slots=True)
class Truth:
    """The answers that judges guess, and the lexicons that reveal them; ``tasks``: None to derive from captions."""

    labels: Labels
    words: Lexicons
    tasks: Tasks | None = None


@dataclass(frozen=True, slots=True)
class Aligning:
    """How human captions are aligned with a captioner's vocabulary; ``how``: None for each metric's own.

    For contextual alignment, ``vectors`` is "corpus" (learnt from the human captions) or a file, and ``delta`` the
    cosine distance below which a word is substituted (None: by ``vectors``).
    """

    how: AlignmentName | None = None
    vectors: str = "corpus"
    delta: float | None = None


DEFAULT_ALIGNING = Aligning()


@dataclass(frozen=True)
class _Seen:
    """The captions of one side, their words, and the classes that each names; and what judges read of them.

    ``most``: how many sentences of a caption judges read, one by one (1: captions are read whole); ``beyond``: how many
    other sentences there are.
    """

    rows: Sequence[Row]
    words: SideWords
    named: Sequence[frozenset[str]]
    coverage: Coverage | None
    kappa: float | None
    read: Sequence[Row]
    most: int
    beyond: int

    @property
    def content(self) -> dict[str, set[str]]:
        """Image -> the content words of its captions, after masking."""
        found: dict[str, set[str]] = {}
        for (image, _, _), words in zip(self.rows, self.words.masked, strict=True):
            found.setdefault(image, set()).update(filter(is_content, words))
        return found

    @cached_property
    def rarity(self) -> PeoplesWords:
        return PeoplesWords(self.content)


class EvidenceBuilder:
    """Builds the evidence of a corpus, by captioner and metric. Both sides pass through the same functions.

    If labels are derived, ``least`` human captions of an image must name its class.

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
        languages = [lexicon.language for lexicon in (words.attribute, words.tasks) if lexicon]
        options = replace(options, language=next((name for name in languages if name != "en"), options.language))
        self.corpus, self.options, self.aligning, self._lexicons = corpus, options, aligning, words
        self._vectors = VectorCache(aligning.vectors, self._vocabulary)
        # Every text is split once. Captions name few different sets.
        self._words = cache(options.words)
        self._same = dict[frozenset[str], frozenset[str]]()
        if corpus.labels:
            labels = self._compare(corpus.labels, words.attribute)
        elif corpus.alone:
            mend = "give --labels, or human captions (--human) to derive them from"
            raise JudgeError("no labels, and no human captions", mend=mend)
        elif lexicon := words.attribute:
            mentions = self._human_mentions(corpus.human.by_image, "attribute")
            labels = derive_labels(mentions, attribute=lexicon.name, classes=sorted(lexicon.classes), least=least)
        else:
            mend = "give --labels or --lexicon; check the spelling of --attribute"
            raise JudgeError("no labels, and no lexicon to derive them from", mend=mend)
        tasks = corpus.tasks
        if tasks and (unlisted := unlisted_tasks(words.tasks, tasks.names)):
            # Tasks of lexicons of which the given ones list none are derived from human captions.
            tasks = join_tasks(tasks, self._derive_tasks(unlisted, corpus.human.by_image))
        self.truth = Truth(labels, words, tasks)
        self._built: dict[tuple[object, ...], Evidence] = {}
        self._joined: dict[tuple[object, ...], Joined] = {}
        # Captioners mostly share the human captions.
        self._of_human: dict[tuple[str, ...], _Seen] = {}
        self._masked: dict[tuple[object, ...], tuple[MaskedCaption, ...]] = {}

    def mask(self, words: Words, kind: TargetKind, spared: frozenset[str] = frozenset()) -> Words:
        """A caption with the words of classes, or of tasks, hidden."""
        return mask(words, self._lexicon(kind), spared=spared)

    def mentions(self, words: Words, kind: TargetKind) -> frozenset[str]:
        """The classes, or the tasks, that a caption names."""
        lexicon = self._lexicon(kind)
        found = lexicon.mentions(words) if lexicon else frozenset[str]()
        return self._same.setdefault(found, found)

    def named(self, words: Words, annotated: str) -> frozenset[str]:
        """The classes that a caption names; without a lexicon, the annotated class of its image."""
        lexicon = self._lexicons.attribute
        found = lexicon.named(words, annotated) if lexicon else frozenset({annotated})
        return self._same.setdefault(found, found)

    def release(self) -> None:
        """Free what was computed from the words of captions; it is computed again when it is used."""
        for words in chain.from_iterable(joined.words.values() for joined in self._joined.values()):
            words.release()

    def _lexicon(self, kind: TargetKind) -> Lexicon | None:
        return self._lexicons.tasks if kind == "tasks" else self._lexicons.attribute

    def _compare(self, labels: Labels, lexicon: Lexicon | None) -> Labels:
        """Given labels, with their agreement with human captions, of images that a captioner describes if any does."""
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

    def _human_mentions(self, images: Iterable[str], kind: TargetKind) -> dict[str, list[frozenset[str]]]:
        human = self.corpus.human.by_image
        return {image: [self.mentions(self._words(caption), kind) for caption in human[image]] for image in images}

    def build(self, captioner: Captions, metric: Metric) -> Evidence:
        """Join, tokenise, mask and align the sides of ``captioner``; an attribute without a lexicon is not masked.

        Raises:
            JudgeError: no image in common; one class only; a class with fewer than 10 images; no task to guess, or one
                without words to mask.
        """
        key = captioner.name, metric.evidence
        self._built[key] = self._built.get(key) or Evidence(self._sides(captioner, metric))
        return self._built[key]

    def join(
        self, captioner: Captions, *, tasks: bool = False, without: Collection[str] = (), judged: bool = True
    ) -> tuple[Joined, Tasks | None]:
        """The sides of ``captioner`` on images with a class, and with ``tasks`` also the tasks of these images.

        Tasks in ``without`` are left out. Without judges any number of classes and images will do. Errors are those of
        :meth:`build`. Without human captions those of the captioner stand for them, so that its images count.
        """
        labels, human = self.truth.labels, self._human(captioner)
        classes, dropped, found = self._images(captioner, tasks=tasks, without=without)
        where = f"{captioner.source or captioner.name} with {human.source or human.name}"
        if not classes:
            ids = [next(iter(side.by_image), "-") for side in (human, captioner, labels)]
            what = f"no image in common (human '{ids[0]}', generated '{ids[1]}', labels '{ids[2]}')"
            raise JudgeError(what, where=where, mend="check that image ids mean the same in all files")
        if judged:
            _check_classes(classes, labels, where, partial(overlap, human, captioner, labels))
        key = captioner.name, tuple(classes)
        if key not in self._joined:
            self._joined[key] = self._compare_sides(captioner, human, classes)
        joined = self._joined[key]
        return replace(joined, dropped={**joined.dropped, **dropped}), found

    def _compare_sides(self, captioner: Captions, written: Captions, classes: Mapping[str, str]) -> Joined:
        """What :meth:`join` keeps of a captioner; dropped are sentences alone."""
        human = generated = self._look_at(captioner, classes)
        if not self.corpus.alone:
            key = tuple(classes)
            human = self._of_human[key] = self._of_human.get(key) or self._look_at(written, classes)
        sides: dict[Side, _Seen] = {"human": human, "generated": generated}
        lexicon = self.truth.words.attribute
        survey: dict[Side, Survey] = {
            "human": human.words.survey(generated.words, lexicon, written),
            "generated": generated.words.survey(human.words, lexicon, captioner),
        }
        if not self.corpus.alone:
            like, misplaced = human.rarity.likeness(generated.content, [*filter(classes.get, captioner.by_image)])
            about = replace(survey["generated"], kappa=generated.kappa, likeness=like, misplaced=misplaced)
            survey["generated"] = about
        return Joined(
            classes,
            rows={side: of.rows for side, of in sides.items()},
            words={side: of.words for side, of in sides.items()},
            named={side: of.named for side, of in sides.items()},
            dropped={
                f"{side} sentences beyond the common number": of.beyond for side, of in sides.items() if of.most > 1
            },
            coverage={side: of.coverage for side, of in sides.items() if of.coverage} or None,
            survey=survey,
            sentences={side: of.most for side, of in sides.items()},
            read={side: of.read for side, of in sides.items()},
        )

    def _human(self, captioner: Captions) -> Captions:
        return captioner if self.corpus.alone else self.corpus.human

    def _images(
        self, captioner: Captions, *, tasks: bool, without: Collection[str]
    ) -> tuple[dict[str, str], dict[str, int], Tasks | None]:
        """For :meth:`join`: image id -> class; reason -> images left out; and the tasks."""
        labels, found, human = self.truth.labels, None, self._human(captioner)
        images, dropped = common_images(human, captioner, labels.by_image)
        if isinstance(labels, ProductLabels) and labels.left_out:
            small = len(labels.small & human.by_image.keys() & captioner.by_image.keys())
            dropped |= {"no label": dropped["no label"] - small, "in classes left out": small}
        if tasks:
            found, gone = self.find_tasks(images, without=without)
            images = [image for image in images if image in found.by_image]
            dropped |= gone
        return {image: labels.by_image[image] for image in images}, dropped, found

    def leave_out_small(self, captioners: Iterable[Captions], metrics: Collection[Metric], least: int) -> None:
        """Leave out product classes with fewer than ``least`` images of some captioner, for all metrics and captioners.

        A single attribute's rare class is an error in the data; rare classes of a product are to be expected.

        Raises:
            JudgeError: fewer than two classes are left; as :meth:`join`.
        """
        labels = self.truth.labels
        if not isinstance(labels, ProductLabels):
            return
        kinds = {(row.reads_annotated_tasks, _spared(row)) for row in metrics}
        found = [
            Counter(self._images(captioner, tasks=tasks, without=without)[0].values())
            for captioner in captioners
            for tasks, without in kinds
        ]
        if all(found):  # Joining a captioner without images raises the error.
            counts = {name: min(of[name] for of in found) for name in labels.classes}
            self.truth = replace(self.truth, labels=labels.without_small(counts, least))

    def _sides(self, captioner: Captions, metric: Metric) -> Sides:
        if metric.reads_named_class and self.truth.words.attribute is None:
            what = f"{metric.title} reads the class that captions name, and no words of it are known"
            where = f"attribute '{self.truth.labels.attribute}'"
            raise JudgeError(what, where=where, mend=mend_without_words(metric))
        if metric.prior:
            check_names([*self.task_words.classes, *self.truth.labels.classes])
        spared = _spared(metric)
        joined, tasks = self.join(captioner, tasks=metric.reads_annotated_tasks, without=spared)
        if metric.from_annotation:
            return named_sides(captioner.name, joined, tasks, partial(self._answers_of, tasks is None))
        hidden: TargetKind = "tasks" if "task words" in metric.hidden else "attribute"
        target = Target("attribute", tuple(sorted(set(joined.classes.values()))))
        answers: Mapping[str, tuple[int, ...]]
        answers = {image: (target.classes.index(name),) for image, name in joined.classes.items()}
        if tasks is not None:
            target, answers = Target("tasks", tasks.names), tasks.by_image
        dropped = dict(joined.dropped)
        rows: dict[Side, tuple[MaskedCaption, ...]] = {"human": ()}
        for side, captions in joined.read.items():
            if side == "human" and self.corpus.alone:
                continue
            most, said = joined.sentences[side], {(image, n): words for image, n, words in joined.rows[side]}
            counts = Counter(index for _, index, _ in captions)
            indices = {index for index, count in counts.items() if count >= INDEX_COVERAGE * len(joined.classes)}
            dropped[f"{side} captions beyond the common number"] = sum(counts[n] for n in counts.keys() - indices)
            key = side == "human" or captioner.name, tuple(joined.classes), hidden, spared, metric.prior
            if key not in self._masked:
                self._masked[key] = tuple(
                    # A sentence names what its caption names: "He smiles." is of the man in the sentence before it.
                    MaskedCaption(image, index, self.mask(words, hidden, spared), *self._names(image, caption, metric))
                    for image, index, words in captions
                    if index in indices
                    for caption in [said[image, index // most]]
                )
            rows[side] = self._masked[key]
        how = "none" if self.corpus.alone else self.aligning.how or metric.alignment
        # Vectors are learnt from the run's own captions; refits use the same.
        vectors = self._vectors.vectors([row.words for row in rows["human"]]) if how == "contextual" else None
        aligner = Aligner(how, vectors, self.aligning.delta)
        prepared = Preparation(self.truth.labels.attribute, self.options, self._lexicon(hidden), spared)
        about = metric.uses_images, joined.coverage, joined.survey, dropped, prepared, joined.sentences
        scenes = self.truth.labels.scenes
        return Sides(captioner.name, target, joined.classes, answers, rows, aligner, *about, scenes=scenes)

    def _answers_of(self, tasks: bool, image: str, words: Words) -> frozenset[str]:
        if tasks:
            return self.mentions(words, "tasks") - PEOPLE
        return self.named(words, self.truth.labels.by_image[image])

    def _names(self, image: str, words: Words, metric: Metric) -> tuple[str, str]:
        """The classes, or the tasks, that a caption names, if the metric's prior needs them; else ""."""
        if metric.weighs_named_class:
            return join_names(self.named(words, self.truth.labels.by_image[image])), ""
        return "", join_names(self.mentions(words, "tasks") - _spared(metric)) if metric.weighs_tasks else ""

    def _vocabulary(self) -> set[str]:
        texts = (of for side in (self.corpus.human, *self.corpus.generated) for of in side.by_image.values())
        return {word for of in texts for caption in of for word in self._words(caption)}

    def _look_at(self, captions: Captions, classes: Mapping[str, str]) -> _Seen:
        written, lexicon, labels = captions.by_image, self.truth.words.attribute, self.truth.labels
        rows = read = [(image, n, self._words(text)) for image in classes for n, text in enumerate(written[image])]
        masked = [self.mask(words, "attribute") for _, _, words in rows]
        images = [image for image, *_ in rows]
        words = SideWords([words for *_, words in rows], masked, [classes[image] for image in images], images)
        named = [self.named(words, labels.by_image[image]) for image, _, words in rows]
        coverage: Coverage | None = None
        kappa: float | None = None
        if lexicon is not None:
            coverage = measure_coverage(named, lexicon.classes or labels.classes)
            silent = isinstance(lexicon, ProductLexicon) and lexicon.without_words
            kappa = None if silent else class_kappa(named, words.classes)
        most, beyond = 1, 0
        if self.options.text == "sentences":
            counts = [[len(sentences(text)) for text in written[image]] for image in classes]
            firsts = sorted((of[0] for of in counts if of), reverse=True)
            most = firsts[math.ceil(INDEX_COVERAGE * len(firsts)) - 1]
            if most > 1:
                read = [(i, n, self._words(text)) for i in classes for n, text in texts_of(written[i], most)]
                beyond = sum(map(sum, counts)) - len(read)
        return _Seen(rows, words, named, coverage, kappa, read, most, beyond)

    @property
    def task_words(self) -> Lexicon:
        """The lexicon of tasks; JudgeError if there is none."""
        if self.truth.words.tasks is None:
            raise JudgeError("a metric asks for tasks, and no words of them are known", mend="give --tasks")
        return self.truth.words.tasks

    def _derive_tasks(self, names: Iterable[str], images: Iterable[str]) -> Tasks:
        described = (image for image in images if self.corpus.human.by_image[image])
        return derive_tasks(self._human_mentions(described, "tasks"), names=names)

    def find_tasks(self, images: Sequence[str], *, without: Collection[str] = ()) -> tuple[Tasks, dict[str, int]]:
        """The tasks of images but those of ``without``; and reason -> number of tasks or images left out.

        Raises:
            JudgeError: nothing to guess; a task without words to mask.
        """
        words, tasks = self.task_words, self.truth.tasks
        if tasks is None:
            tasks = self._derive_tasks(words.classes, images)
        names = {*tasks.names} - {*without}
        if not names:
            raise JudgeError("images show nothing but people", where=tasks.source, mend="give other --objects")
        found, gone = usable(tasks.only(names), images)
        if unmasked := [name for name in found.names if name not in words.classes]:
            what = f"no words of task '{unmasked[0]}' are known, so that captions would tell it"
            mend = "give a lexicon that has them too, as in --tasks coco-objects,activities"
            raise JudgeError(what, where=f"lexicon '{words.name}'", mend=mend)
        return found, {reason: len(names) for reason, names in gone.items()}


def mend_without_words(metric: Metric) -> str:
    """Advice for a metric that needs the words of an attribute without a lexicon."""
    mend, other = "give a lexicon (a .yaml file) that has them", metric.name.removesuffix("-ta")
    return mend if other == metric.name else f"{mend}, or measure A->T alone: {other}-at"


def _spared(metric: Metric) -> frozenset[str]:
    """Tasks that the metric neither masks nor counts."""
    return frozenset() if metric.people_are_tasks else PEOPLE


def join_names(names: Collection[str]) -> str:
    """Sorted names, joined by "|"."""
    return "|".join(sorted(names))


def check_names(names: Collection[str]) -> None:
    """Raise JudgeError if a name holds a "|": they are joined by :func:`join_names`."""
    for name in names:
        if "|" in name:
            raise JudgeError(f"'{name}' holds a '|', which parts names in files", mend="rename it")


def mention_table(mentions: Sequence[Collection[str]], names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which of ``names`` each caption mentions, [N, L]; other names are ignored."""
    column = {name: index for index, name in enumerate(names)}
    table = np.zeros((len(mentions), len(names) + 1), dtype=np.bool_)
    rows = np.repeat(np.arange(len(mentions)), [*map(len, mentions)])
    table[rows, [column.get(name, len(names)) for name in chain.from_iterable(mentions)]] = True
    return table[:, :-1]


def _check_classes(classes: Mapping[str, str], labels: Labels, where: str, shared: Callable[[], str]) -> None:
    """Refuse too few classes or images; if the labels have enough, ``shared()`` says how files overlap."""
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
