"""Controlled sets: balanced in attribute and task, the verb alone tells; by grammar and from real captions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from _verb_sets import (
    CELLS,
    RATIOS,
    SUBSETS,
    VERBS,
    Candidates,
    Cell,
    VerbSet,
    draw_set,
    find_candidates,
    grammar_set,
)

from judge import ba_mals, dpa, evaluate
from judge.calibration.world import CLASSES
from judge.corpus.captions import read_captions
from judge.corpus.labels import read_labels
from judge.corpus.tasks import read_tasks
from judge.metrics.counted.dpa import Dpa
from judge.text.lexicon import load_lexicon
from judge.text.masking import mask
from judge.text.tokens import tokenize

GENDER, OBJECTS = load_lexicon("gender"), load_lexicon("coco-objects")


def expected(more: int, fewer: int) -> dict[Cell, int]:
    """Of Table 2: males lean to the first verb, females to the second."""
    first = {"lay", "throw", "hold"}
    return {cell: more if (cell.attribute == "male") == (cell.verb in first) else fewer for cell in CELLS}


@pytest.fixture(scope="module")
def candidates(coco: Path) -> Candidates:
    """What the shared captions offer, with the paper's requirements."""
    return find_candidates(
        read_captions(coco / "captions_human.json", side="human"),
        read_labels(coco / "gender.csv", lexicon=GENDER),
        read_tasks(coco / "objects.json"),
    )


# By grammar


@pytest.mark.parametrize(("ratio", "rate"), list(zip(RATIOS, (0.6, 0.7, 0.8, 0.9), strict=True)))
def test_the_papers_sets(ratio: tuple[int, int], rate: float) -> None:
    made = grammar_set(ratio, 300, seed=1)  # 3 tasks x 2 classes x 50 captions
    counts = Counter(made.cells.values())
    assert counts == expected(*ratio)
    assert made.bayes_rate == pytest.approx(rate)
    # The rate from the counts, by its definition: sum over (task, verb) of the commoner class's captions.
    pairs = [(counts["female", task, verb], counts["male", task, verb]) for task in SUBSETS for verb in VERBS.classes]
    right = sum(map(max, pairs))
    assert right / 300 == pytest.approx(rate)


def test_what_a_caption_says_is_what_it_was_drawn_for() -> None:
    made = grammar_set((40, 10), 600, seed=2)
    for image, (caption,) in made.corpus.human.by_image.items():
        words, (attribute, task, verb) = tokenize(caption), made.cells[image]
        assert VERBS.mentions(words) == {verb}
        assert OBJECTS.mentions(words) - {"person"} == {task}
        assert GENDER.mentions(words) == {attribute}


def test_masked_wording_depends_on_the_verb_alone() -> None:
    """Both classes use the same masked captions; within a verb no word leans to a class beyond chance."""
    made = grammar_set((30, 20), 12_000, seed=3)
    words: dict[tuple[str, str], Counter[str]] = {}
    total: Counter[tuple[str, str]] = Counter()
    for image, (caption,) in made.corpus.human.by_image.items():
        key = made.cells[image].verb, made.cells[image].attribute
        total[key] += 1
        words.setdefault(key, Counter()).update(set(mask(tokenize(caption), GENDER)))
    for verb in VERBS.classes:
        (female, women), (male, men) = ((words[verb, name], total[verb, name]) for name in ("female", "male"))
        assert female.keys() == male.keys()
        for word in female:
            pooled = (female[word] + male[word]) / (women + men)
            deviation = (pooled * (1 - pooled) * (1 / women + 1 / men)) ** 0.5
            assert abs(female[word] / women - male[word] / men) <= 4.5 * deviation


def test_many_wordings_in_random_order_by_the_seed() -> None:
    made = grammar_set((45, 5), 600)
    assert len(set(made.corpus.human.by_image.values())) > 500
    male = np.array([cell.attribute == "male" for cell in made.cells.values()])
    assert abs(male[:300].mean() - 0.5) < 0.15
    one, again, other = (grammar_set((35, 15), 300, seed=seed) for seed in (4, 4, 5))
    assert one == again
    assert one.corpus != other.corpus


# From captions


@pytest.mark.parametrize("ratio", RATIOS[:3])
def test_real_captions_as_far_as_they_reach(candidates: Candidates, ratio: tuple[int, int]) -> None:
    """10,301 of COCO's 123,000 captioned images: a few a cell, enough for 10 a class and task in place of 50."""
    assert min(map(len, candidates.values())) >= 8
    made = draw_set(candidates, ratio=ratio, per_cell=10, seed=6)
    assert Counter(made.cells.values()) == expected(ratio[0] // 5, ratio[1] // 5)
    assert len(made.corpus.human.by_image) == 60
    assert made == draw_set(candidates, ratio=ratio, per_cell=10, seed=6)
    assert made.corpus != draw_set(candidates, ratio=ratio, per_cell=10, seed=7).corpus
    assert counted(made) == pytest.approx([0.5] * 3)
    for image, (caption,) in made.corpus.human.by_image.items():
        words, cell = tokenize(caption), made.cells[image]
        assert VERBS.mentions(words) & set(SUBSETS[cell.task]) == {cell.verb}
        assert GENDER.mentions(words) == {cell.attribute}
        assert cell.task in OBJECTS.mentions(words)


def counted(made: VerbSet) -> list[float]:
    """BA, and DPA in both directions, of one side (the paper's H): what the annotated class tells of the task."""
    classes = np.array([CLASSES.index(cell.attribute) for cell in made.cells.values()])
    assert made.corpus.tasks is not None
    tasks = made.corpus.tasks.table(list(made.cells))
    there = dpa(classes, tasks, variant=Dpa(unit="label", score="balanced"))
    return [ba_mals(classes, tasks).truth, there.truth, dpa(classes, tasks, direction="T->A").truth]


def test_what_judges_find_rises_with_the_imbalance() -> None:
    """DBAC's Table 3 on grammar: gender and task are balanced, so that only the verb tells; it does at the Bayes rate.

    Who counts classes and tasks finds 0.5, whatever the verbs. People's captions stand on both sides: nothing is
    amplified.
    """
    found: dict[str, list[float]] = {}
    for ratio in RATIOS:
        verbs = grammar_set(ratio, images=1200, seed=0)
        assert counted(verbs) == pytest.approx([0.5] * 3)
        quick = {"folds": 4, "refits": 0, "chance": 0, "resamples": 100, "workers": 1}
        lic, dbac = evaluate(verbs.corpus, metrics="lic,dbac-at:accuracy", **quick).summaries
        assert (lic.amplification, dbac.amplification) == (0, 0)
        assert dbac.qualities is not None
        # Fitted to finite data, a judge finds a little less: 0.02 to 0.04 at 30:20.
        assert verbs.bayes_rate - 0.06 < dbac.qualities[0] < verbs.bayes_rate + 0.03
        for name, value in (("lic", lic.human), ("omega", dbac.human), ("Q", dbac.qualities[0])):
            found.setdefault(name, []).append(float(value or 0))
    for values in found.values():
        assert values == sorted(values)
        assert values[-1] > values[0] * 1.4
