"""Controlled sets: captions balanced in attribute and task, in which the verb alone tells the attribute.

DBAC, section 5.1 and Table 2: three tasks with two verbs each. Per task and class there are equally many captions; of
the second class (male), 30 of 50 have the first verb and 20 the second, of the first class (female) the reverse. Who
counts attributes and tasks finds nothing (BA and DPA are 0.5); who reads the captions guesses the attribute from the
verb, right in 0.6 of them at 30:20, in 0.7, 0.8, 0.9 at 35:15, 40:10, 45:05.

The paper's authors annotated verbs by hand; here a verb is told by its forms (``verbs.VERBS``). Their captions hold
"a male pronoun (e.g., he, him)"; here a word of the class in the lexicon "gender": few captions hold pronouns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from typing import Any

import numpy as np
import yaml

from judge.calibration.verbs import SUBSETS, VERBS, Cell, VerbSet, as_set, lowest, parts
from judge.calibration.world import CLASSES, stream
from judge.corpus.tasks import Tasks
from judge.errors import JudgeError
from judge.text.lexicon import Lexicon, load_lexicon
from judge.text.tokens import tokenize
from judge.types import Captions, Labels


@dataclass(frozen=True, slots=True)
class Candidates:
    """The captions of a corpus that sets can be drawn from; ``find_candidates`` makes them.

    Attributes:
        by_cell: cell -> image id -> the captions of the image that fit, in file order. An image may stand in both
            verbs' cells of its class and task.
        labels: what they were found with.
        source: the corpus.
    """

    by_cell: Mapping[Cell, Mapping[str, tuple[str, ...]]]
    labels: Labels
    source: str

    @property
    def counts(self) -> dict[Cell, int]:
        """Images in each cell."""
        return {cell: len(images) for cell, images in self.by_cell.items()}

    def reach(self, ratio: tuple[int, int]) -> int:
        """The most captions that each class and task can have at ``ratio``: a multiple of its lowest terms, or 0."""
        step = lowest(ratio)
        most = sum(map(len, self.by_cell.values()))
        return next((size for size in range(most - most % sum(step), 0, -sum(step)) if not self._short(ratio, size)), 0)

    def draw(self, *, ratio: tuple[int, int], per_cell: int = 50, seed: int = 0) -> VerbSet:
        """A set of ``per_cell`` captions for each class and task, one an image, drawn at random.

        Args:
            ratio: verbs that the class leans to, and others (``(30, 20)`` and ``(3, 2)`` are the same).
            per_cell: the paper's 50.
            seed: what is drawn.

        Raises:
            JudgeError: a ratio that ``per_cell`` does not divide into; too few images (says how many each cell has).
        """
        parts(ratio, per_cell)
        if short := self._short(ratio, per_cell):
            found = ", ".join(
                f"{' '.join(cell)} {len(self.by_cell[cell])} of {number}"
                for pair, wanted in short
                for cell, number in zip(pair, wanted, strict=True)
            )
            best = self.reach(ratio)
            mend = f"take at most {best} a cell, or another ratio" if best else "add captions, or take another ratio"
            what = f"too few images for {per_cell} a class and task at {ratio[0]}:{ratio[1]} ({found})"
            raise JudgeError(what, where=self.source, mend=mend)
        rng = stream(seed, "verb sets")
        by_image: dict[str, tuple[str, ...]] = {}
        shown: dict[str, str] = {}
        verbs: dict[str, str] = {}
        for pair, wanted in self._wanted(ratio, per_cell):
            for cell, images in zip(pair, self._share_out(pair, wanted, rng), strict=True):
                for image in images:
                    options = self.by_cell[cell][image]
                    by_image[image] = (options[int(rng.integers(len(options)))],)
                    shown[image], verbs[image] = cell.task, cell.verb
        return as_set(by_image, self.labels, shown, verbs, ratio=parts(ratio, per_cell), source=self.source)

    def _wanted(self, ratio: tuple[int, int], per_cell: int) -> Iterator[tuple[tuple[Cell, Cell], tuple[int, int]]]:
        """For each class and task its two cells, and how many captions each wants."""
        more, fewer = parts(ratio, per_cell)
        for attribute, wanted in zip(self.labels.classes, ((fewer, more), (more, fewer)), strict=True):
            for task, (first, second) in SUBSETS.items():
                yield (Cell(attribute, task, first), Cell(attribute, task, second)), wanted

    def _short(self, ratio: tuple[int, int], per_cell: int) -> list[tuple[tuple[Cell, Cell], tuple[int, int]]]:
        """The pairs of verbs' cells that have too few images, and how many they want; an image serves one cell."""
        short = []
        for pair, wanted in self._wanted(ratio, per_cell):
            first, second = (self.by_cell[cell].keys() for cell in pair)
            if len(first) < wanted[0] or len(second) < wanted[1] or len(first | second) < sum(wanted):
                short.append((pair, wanted))
        return short

    def _share_out(self, pair: tuple[Cell, Cell], wanted: tuple[int, int], rng: np.random.Generator) -> list[list[str]]:
        """Images for each verb of a class and task: those that fit it alone before those that fit both."""
        first, second = (self.by_cell[cell] for cell in pair)
        both = [image for image in first if image in second]
        shared = [both[position] for position in rng.permutation(len(both))]
        chosen = []
        for images, other, number in ((first, second, wanted[0]), (second, first, wanted[1])):
            alone = [image for image in images if image not in other]
            taken = [alone[position] for position in rng.permutation(len(alone))][:number]
            while len(taken) < number:
                taken.append(shared.pop())
            chosen.append(taken)
        return chosen


def find_candidates(
    captions: Captions, labels: Labels, tasks: Tasks, *, naming: Sequence[Lexicon] | None = None
) -> Candidates:
    """The captions that sets can be drawn from.

    An image is fit if it has a label and shows exactly one of the three tasks; a caption, if it has one of the task's
    two verbs and not the other, and names what it is drawn for.

    Args:
        captions: of any corpus.
        labels: of two classes; the second leans to the first verb of each task.
        tasks: of the images, "bed", "frisbee" and "umbrella" among them.
        naming: of those that know the image's class, the caption must name that class and no other; of those that
            know its task, the task. By default the lexicons "gender" and "coco-objects": the paper's captions hold
            a word of the gender and the task. () asks for nothing.

    Raises:
        JudgeError: not two classes; a task that is none of ``tasks``.
    """
    if len(labels.classes) != 2:
        what = f"{len(labels.classes)} classes of {labels.attribute}"
        raise JudgeError(what, where=labels.source, mend="give labels of two: each task has two verbs")
    tasks = tasks.only(SUBSETS)
    lexicons = [load_lexicon(name) for name in ("gender", "coco-objects")] if naming is None else naming
    by_cell: dict[Cell, dict[str, tuple[str, ...]]] = {
        Cell(attribute, task, verb): {}
        for attribute, (task, verbs) in product(labels.classes, SUBSETS.items())
        for verb in verbs
    }
    for image, said in captions.by_image.items():
        attribute, shown = labels.by_image.get(image), tasks.by_image.get(image, ())
        if attribute is not None and len(shown) == 1:
            fitting = defaultdict(list)
            task = tasks.names[shown[0]]
            for caption in said:
                words = tokenize(caption)
                verbs = VERBS.mentions(words) & set(SUBSETS[task])
                if len(verbs) == 1 and _names(words, attribute, task, labels.classes, lexicons):
                    fitting[Cell(attribute, task, min(verbs))].append(caption)
            for cell, fit in fitting.items():
                by_cell[cell][image] = tuple(fit)
    return Candidates(by_cell, labels, captions.source or captions.name)


def verb_sets(
    captions: Captions, labels: Labels, tasks: Tasks, *, ratio: tuple[int, int], per_cell: int = 50, seed: int = 0
) -> VerbSet:
    """A controlled set drawn from a corpus: ``find_candidates`` and ``Candidates.draw`` in one call.

    Raises:
        JudgeError: as these do.
    """
    return find_candidates(captions, labels, tasks).draw(ratio=ratio, per_cell=per_cell, seed=seed)


def grammar_verb_sets(ratio: tuple[int, int], images: int = 600, seed: int = 0) -> VerbSet:
    """A controlled set made by grammar, as large as one likes; classes "female" and "male".

    Wording is drawn given the verb alone, so ``bayes_rate`` is exact for a set without end, and in each set the cells
    have exactly their shares.

    Args:
        ratio: verbs that a class leans to, and others.
        images: in all; a class and task has a sixth of them.
        seed: of the wording and the order.

    Raises:
        JudgeError: a number of images that six cells at this ratio do not divide into.
    """
    cells = len(CLASSES) * len(SUBSETS)
    step = cells * sum(lowest(ratio))
    if images < 1 or images % step:
        near = max(1, round(images / step)) * step
        raise JudgeError(f"{images} images at {ratio[0]}:{ratio[1]}", mend=f"take a multiple of {step}, such as {near}")
    more, fewer = parts(ratio, images // cells)
    rng = stream(seed, "verb sets by grammar")
    drawn = [
        Cell(attribute, task, verb)
        for attribute, wanted in zip(CLASSES, ((fewer, more), (more, fewer)), strict=True)
        for task, verbs in SUBSETS.items()
        for verb, number in zip(verbs, wanted, strict=True)
        for _ in range(number)
    ]
    # In random order, so that no split by position tells anything.
    scenes = {str(n): drawn[position] for n, position in enumerate(rng.permutation(len(drawn)), start=1)}
    labels = Labels("gender", CLASSES, {image: cell.attribute for image, cell in scenes.items()}, "controlled")
    return as_set(
        {image: (_sentence(cell, rng),) for image, cell in scenes.items()},
        labels,
        {image: cell.task for image, cell in scenes.items()},
        {image: cell.verb for image, cell in scenes.items()},
        ratio=(more, fewer),
        source=f"grammar, seed {seed}",
    )


def _names(
    words: Sequence[str], attribute: str, task: str, classes: Sequence[str], lexicons: Sequence[Lexicon]
) -> bool:
    for lexicon in lexicons:
        named = lexicon.mentions(words)
        if attribute in lexicon.classes and named & set(classes) != {attribute}:
            return False
        if task in lexicon.classes and task not in named:
            return False
    return True


@cache
def _grammar() -> Mapping[str, Any]:
    text = (resources.files("judge.calibration") / "controlled.yaml").read_text(encoding="utf-8")
    data: Mapping[str, Any] = yaml.safe_load(text)
    return data


def _sentence(cell: Cell, rng: np.random.Generator) -> str:
    """A caption of ``cell``; the words for the person are those of its attribute, nothing else depends on it."""
    grammar, index = _grammar(), CLASSES.index(cell.attribute)

    def pick(entries: Sequence[Any]) -> Any:
        return entries[int(rng.integers(len(entries)))]

    form = pick(("ing", "plain"))
    text = pick(grammar["frames"][form]).format(
        person=pick(grammar["people"])[index],
        deed=pick(grammar["deeds"][cell.task][cell.verb][form]),
        where=pick(grammar["where"][cell.task]),
    )
    ending = pick(grammar["endings"]).format(possessive=grammar["possessive"][index])
    text = " ".join(f"{text} {ending}".split())
    return f"{text[0].upper()}{text[1:]}."
