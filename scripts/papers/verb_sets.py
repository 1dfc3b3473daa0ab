"""Controlled sets: captions balanced in attribute and task, in which only the verb depends on the attribute.

DBAC, section 5.1 and Table 2: three tasks with two verbs each. Per task and class there are equally many captions; of
the second class (male), 30 of 50 have the first verb and 20 the second, of the first class (female) the reverse.
Counting attributes and tasks finds nothing (BA and DPA are 0.5); a judge that reads the captions can infer the
attribute from the verb, correctly in 0.6 of them at 30:20, in 0.7, 0.8, 0.9 at 35:15, 40:10, 45:05.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from jobs import Job

from judge.calibration.world import CLASSES, stream
from judge.corpus import Corpus
from judge.corpus.captions import read_captions
from judge.corpus.labels import read_labels
from judge.corpus.tasks import Tasks, read_tasks
from judge.errors import JudgeError
from judge.text.lexicon import Lexicon, load_lexicon
from judge.text.tokens import tokenize
from judge.types import Captions, Labels

WORDS: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
SUBSETS: Mapping[str, tuple[str, str]] = {task: (first, second) for task, (first, second) in WORDS["deeds"].items()}
"""Task -> its two verbs (DBAC, Table 2); the second class of the attribute leans to the first."""
NAMES = {"C1": (30, 20), "C2": (35, 15), "C3": (40, 10), "C4": (45, 5)}
"""DBAC's sets (Table 3) and their ratios."""
VERBS = Lexicon(
    name="verbs",
    token="<verb>",  # noqa: S106 - not a password
    classes={verb: frozenset(forms.split()) for verb, forms in WORDS["forms"].items()},
    hidden_only=frozenset({"side walk", "cross walk", "walk way"}),
)
PRONOUNS = Lexicon(
    name="pronouns",
    token="<gender>",  # noqa: S106
    classes={name: frozenset(words.split()) for name, words in zip(CLASSES, WORDS["pronouns"], strict=True)},
)
PER_CELL, IMAGES, FEW = 50, 300, 60
"""Captions of a class and task, as in the paper; of a set made by grammar (three tasks, two classes); and fewer."""


class Cell(NamedTuple):
    """What a caption is drawn for."""

    attribute: str
    task: str
    verb: str


CELLS = [Cell(name, task, verb) for name, (task, verbs) in product(CLASSES, SUBSETS.items()) for verb in verbs]
Candidates = Mapping[Cell, Mapping[str, Sequence[str]]]
"""Cell -> image -> its captions that fit."""


@dataclass(frozen=True)
class VerbSet:
    """One caption an image; the attribute, the one task and the verb of each."""

    corpus: Corpus
    cells: Mapping[str, Cell]
    ratio: tuple[int, int]

    @property
    def bayes_rate(self) -> float:
        """How often the best guess of the attribute from task and verb is right, in [0.5, 1]."""
        return max(self.ratio) / sum(self.ratio)


def find_candidates(captions: Captions, labels: Labels, tasks: Tasks, *, pronouns: bool = False) -> Candidates:
    """Captions of images that show exactly one of the tasks, with one of its verbs, naming the class and the task.

    Any word of gender names a class; with ``pronouns`` there must be a pronoun of it too.
    """
    gender, objects = load_lexicon("gender"), load_lexicon("coco-objects")
    tasks = tasks.only(SUBSETS)
    found: dict[Cell, dict[str, list[str]]] = {cell: {} for cell in CELLS}
    for image, attribute in labels.by_image.items():
        if len(shown := tasks.by_image.get(image, ())) == 1:
            task = tasks.names[shown[0]]
            for caption in captions.by_image.get(image, ()):
                words = tokenize(caption)
                verbs = VERBS.mentions(words) & set(SUBSETS[task])
                names = gender.mentions(words) == {attribute} and (not pronouns or PRONOUNS.mentions(words))
                if len(verbs) == 1 and names and task in objects.mentions(words):
                    found[Cell(attribute, task, min(verbs))].setdefault(image, []).append(caption)
    return found


def draw_set(candidates: Candidates, *, ratio: tuple[int, int], per_cell: int, seed: int = 0) -> VerbSet:
    """``per_cell`` captions for each class and task, one an image, drawn at random."""
    rng = stream(seed, "verb sets")
    captions, cells = {}, {}
    for attribute, (task, verbs) in product(CLASSES, SUBSETS.items()):
        first, second = (candidates[Cell(attribute, task, verb)] for verb in verbs)
        both = rng.permutation([image for image in first if image in second]).tolist()
        for verb, images, other in zip(verbs, (first, second), (second, first), strict=True):
            cell = Cell(attribute, task, verb)
            number = number_of(cell, ratio, per_cell)
            # Images that fit this verb alone come before those that fit both.
            taken = rng.permutation([image for image in images if image not in other]).tolist()[:number]
            taken += [both.pop() for _ in range(number - len(taken))]
            for image in taken:
                captions[image] = (str(rng.choice(images[image])),)
                cells[image] = cell
    return _as_set(captions, cells, ratio)


def grammar_set(ratio: tuple[int, int], images: int = 600, seed: int = 0) -> VerbSet:
    """A set made by grammar. Wording is drawn given the verb alone, so that ``bayes_rate`` is exact."""
    rng = stream(seed, "verb sets by grammar")
    drawn = [cell for cell in CELLS for _ in range(number_of(cell, ratio, images // 6))]
    # In random order, so that splits by position are alike.
    cells = {str(n): drawn[position] for n, position in enumerate(rng.permutation(len(drawn)), start=1)}
    return _as_set({image: (_sentence(cell, rng),) for image, cell in cells.items()}, cells, ratio)


def number_of(cell: Cell, ratio: tuple[int, int], size: int) -> int:
    """How many of the ``size`` captions of a class and task have the cell's verb."""
    more, fewer = (part * size // sum(ratio) for part in ratio)
    assert more + fewer == size, f"{size} captions cannot be divided at {ratio}"
    return more if (cell.attribute == CLASSES[1]) == (cell.verb == SUBSETS[cell.task][0]) else fewer


def _as_set(by_image: Mapping[str, tuple[str, ...]], cells: Mapping[str, Cell], ratio: tuple[int, int]) -> VerbSet:
    names = tuple(sorted(SUBSETS))
    corpus = Corpus(
        Captions("human", by_image, "controlled"),
        (Captions("itself", by_image, "controlled"),),
        Labels("gender", CLASSES, {image: cell.attribute for image, cell in cells.items()}, "controlled"),
        Tasks(names, {image: (names.index(cell.task),) for image, cell in cells.items()}, "controlled"),
    )
    return VerbSet(corpus, cells, ratio)


def _sentence(cell: Cell, rng: np.random.Generator) -> str:
    """A caption of ``cell``; the words for the person are those of its attribute, nothing else depends on it."""
    index = CLASSES.index(cell.attribute)

    def pick(entries: Sequence[Any]) -> Any:
        return entries[int(rng.integers(len(entries)))]

    form = pick(("ing", "plain"))
    text = pick(WORDS["frames"][form]).format(
        person=pick(WORDS["people"])[index],
        deed=pick(WORDS["deeds"][cell.task][cell.verb][form]),
        where=pick(WORDS["where"][cell.task]),
    )
    ending = pick(WORDS["endings"]).format(possessive=WORDS["possessive"][index])
    text = " ".join(f"{text} {ending}".split())
    return f"{text[0].upper()}{text[1:]}."


def sources(job: Job) -> tuple[Path, Path]:
    """What :func:`candidates` reads: human captions, which hold the labels of the paper's run, and objects."""
    return job.human(), job.objects()


def candidates(job: Job, *, pronouns: bool = False) -> Candidates:
    """Human captions that fit a set (see :func:`find_candidates`); of a small run those of a set that grammar made.

    Raises:
        JudgeError: files that are missing or cannot be read.
    """
    gender = load_lexicon("gender")
    if job.size == "small":
        made = grammar_set(NAMES["C1"], FEW).corpus
        assert made.tasks
        assert made.labels
        return find_candidates(made.human, made.labels, made.tasks, pronouns=pronouns)
    job.need(sources(job))
    labels = read_labels(job.human() if job.is_paper else job.data / "gender.csv", lexicon=gender)
    if labels is None:
        raise JudgeError("no column of classes", where=str(job.data / "gender.csv"), mend="see data/README.md")
    human = read_captions(job.human(), side="human")
    return find_candidates(human, labels, read_tasks(job.objects()), pronouns=pronouns)


def write_sets(job: Job) -> None:
    """Write C1 to C4 into the job's folder, each as captions, labels and objects; the captions serve as both sides.

    The paper's are drawn from human captions. Other runs take captions that grammar makes: of fewer images than the
    paper's there are too few for 50 of a kind.

    Raises:
        JudgeError: too few captions of some kind.
    """
    found = candidates(job) if job.is_paper else None
    for name, ratio in NAMES.items():
        if found is None:
            made = grammar_set(ratio, FEW if job.size == "small" else IMAGES, seed=0)
        else:
            _enough(found, ratio, job)
            made = draw_set(found, ratio=ratio, per_cell=PER_CELL)
        _write(made, job.out / "sets" / name)


def _enough(found: Candidates, ratio: tuple[int, int], job: Job) -> None:
    """Check that there are images for each verb, and for both verbs of a class and task together."""
    needed = {" ".join(cell): (number_of(cell, ratio, PER_CELL), {*images}) for cell, images in found.items()}
    for cell, images in found.items():
        _, both = needed.get(kind := f"{cell.attribute} {cell.task}", (0, set()))
        needed[kind] = PER_CELL, both | {*images}
    for kind, (number, there) in needed.items():
        if len(there) < number:
            what = f"only {len(there)} images have captions of the kind '{kind}': {number} are needed"
            raise JudgeError(what, where=f"--data {job.data}", mend="give all of COCO's captions, with more labels")


def _write(made: VerbSet, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    said = {image: captions[0] for image, captions in made.corpus.human.by_image.items()}
    results = [{"image_id": image, "caption": text} for image, text in said.items()]
    human = {
        "images": [{"id": image} for image in said],
        "annotations": [{"id": str(number), **entry} for number, entry in enumerate(results)],
    }
    labels = "".join(f"{image},{cell.attribute}\n" for image, cell in made.cells.items())
    texts = {
        "human.json": json.dumps(human),
        "itself.json": json.dumps(results),
        "gender.csv": f"image_id,gender\n{labels}",
        "objects.json": json.dumps({image: [cell.task] for image, cell in made.cells.items()}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
