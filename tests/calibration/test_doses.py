"""Doses in people's captions: what they change, by how much, and what they leave alone.

Changes of another form are those of ``scripts/trust_changes.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from helpers import fault_of
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.calibration.doses import DoseSource, inject
from judge.calibration.grammar import make_world
from judge.calibration.world import HALF, TASKS, task_given_attribute
from judge.text.lexicon import Lexicon, load_lexicon, mask
from judge.text.tokens import tokenize
from judge.types import Captions

GENDER, COCO = load_lexicon("gender"), load_lexicon("coco-objects")
OBJECTS = replace(COCO, classes={task: COCO.classes[task] for task in TASKS})  # The grammar speaks of beds too.


@pytest.fixture(scope="module")
def source() -> DoseSource:
    """Of a world large enough that its tasks go with the class that they lean to."""
    world = make_world(2000, seed=5)
    return DoseSource(world.human, world.labels, GENDER, OBJECTS)


@pytest.fixture(scope="module")
def form() -> Any:
    """The script as a module, which adds changes."""
    return import_module("trust_changes")


def first(captions: Captions, images: int) -> Captions:
    return replace(captions, by_image=dict([*captions.by_image.items()][:images]))


def named(captions: Captions, lexicon: Lexicon) -> dict[str, list[frozenset[str]]]:
    return {image: [lexicon.mentions(tokenize(text)) for text in of] for image, of in captions.by_image.items()}


def task_table(captions: Captions, classes: Mapping[str, str]) -> np.ndarray:
    """P(task | class) of what captions name, [2, 12]."""
    counts: Counter[tuple[str, str]] = Counter()
    for image, of in named(captions, OBJECTS).items():
        counts.update((classes[image], task) for tasks in of for task in tasks)
    table = np.array([[counts[name, task] for task in TASKS] for name in ("female", "male")], dtype=float)
    return table / table.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dose", [0.2, 0.7, 1.0])
def test_a_to_t_is_the_mixture_of_the_closed_form(source: DoseSource, dose: float) -> None:
    """As a captioner's ``stereotype`` in the grammar's world: P(t | a) mixed with the fully stereotyped one."""
    changed = task_table(inject(source.human, source, "A->T", dose, seed=1), source.labels.by_image)
    plain = task_table(source.human, source.labels.by_image)
    own = plain * np.repeat(np.eye(2), HALF, axis=1)
    # Of this world's own table some 3,750 drawn tasks a class: three standard errors of a share of 1/6.
    np.testing.assert_allclose(changed, (1 - dose) * plain + dose * own / own.sum(axis=1, keepdims=True), atol=0.019)
    # Of the closed form its 1,000 images a class.
    np.testing.assert_allclose(changed, task_given_attribute(0.3, knob=dose), atol=0.05)


@pytest.mark.parametrize(("change", "lexicon"), [("A->T", OBJECTS), ("T->A", GENDER)])
def test_no_other_word_is_touched(source: DoseSource, change: str, lexicon: Lexicon) -> None:
    """With the words of what changes hidden, captions are what they were."""
    changed = inject(source.human, source, change, 1.0, seed=1)
    for image, texts in source.human.by_image.items():
        sides = [[mask(tokenize(text), lexicon) for text in of] for of in (texts, changed.by_image[image])]
        assert sides[0] == sides[1]


@pytest.mark.parametrize("dose", [0.3, 1.0])
def test_t_to_a_flips_the_share_that_it_says(source: DoseSource, dose: float) -> None:
    """Captions that name one class, and a task of the other, name that other class with probability ``dose``."""
    changed = inject(source.human, source, "T->A", dose, seed=2)
    before, after, tasks = (
        named(of, lexicon) for of, lexicon in ((source.human, GENDER), (changed, GENDER), (source.human, OBJECTS))
    )
    flipped = []
    for image, captions in before.items():
        for place, classes in enumerate(captions):
            of = {source.goes_with[task] for task in tasks[image][place]}
            if len(classes) == len(of) == 1 and classes != of:
                flipped.append(after[image][place] == of)
            else:
                assert after[image][place] == classes
    assert len(flipped) > 1000
    assert np.mean(flipped) == pytest.approx(dose, abs=3 * np.sqrt(dose * (1 - dose) / len(flipped)))
    assert named(changed, OBJECTS) == tasks


def test_changes_without_bias(source: DoseSource) -> None:
    silent = inject(source.human, source, "silence", 1.0, seed=3)
    assert not any(of for captions in named(silent, GENDER).values() for of in captions)
    assert named(silent, OBJECTS) == named(source.human, OBJECTS)
    short = inject(source.human, source, "brevity", 1.0, seed=3)
    cut = [
        (tokenize(one), tokenize(other))
        for image, of in source.human.by_image.items()
        for one, other in zip(short.by_image[image], of, strict=True)
    ]
    assert all(one == other[: len(one)] and len(one) >= min(3, len(other)) for one, other in cut)
    assert np.mean([len(one) < len(other) for one, other in cut]) > 0.5
    few = inject(source.human, source, "vocabulary", 0.5, seed=3)
    assert named(few, GENDER) == named(source.human, GENDER)
    assert named(few, OBJECTS) == named(source.human, OBJECTS)
    kept = set(source.common_words[: round(len(source.common_words) / 2)])
    captions = [tokenize(text) for of in few.by_image.values() for text in of]
    assert {words[place] for words in captions for place in source.free_places(words)} == kept


OTHER_FORM = ["repetition", "verbosity", "paraphrase"]


@settings(max_examples=30)
@given(st.sampled_from(["A->T", "T->A", "silence", "brevity", *OTHER_FORM]), st.integers(0, 99), st.floats(0, 1))
@pytest.mark.usefixtures("form")
def test_doses_are_nested_and_nothing_is_nothing(source: DoseSource, change: str, seed: int, dose: float) -> None:
    few = first(source.human, 150)
    low, high = (inject(few, source, change, of, seed=seed).by_image for of in (dose / 2, dose))
    assert inject(few, source, change, 0.0, seed=seed).by_image == few.by_image
    for image, texts in few.by_image.items():
        for before, one, other in zip(texts, low[image], high[image], strict=True):
            assert one == before or other != before
            assert change in {"A->T", "paraphrase"} or one in {before, other}  # Of these a dose is of words.


def test_what_cannot_be_done_is_refused(source: DoseSource) -> None:
    assert fault_of(inject, source.human, source, "A-T", 0.5, seed=0) == "unknown change 'A-T'. Did you mean 'A->T'?"
    assert "dose of A->T is 1.5" in fault_of(inject, source.human, source, "A->T", 1.5, seed=0)
    bare = replace(source, attribute=replace(GENDER, counterparts=()))
    for change in ("T->A", "silence"):
        assert "give a lexicon with 'counterparts'" in fault_of(inject, source.human, bare, change, 0.5, seed=0).lower()
    other = Lexicon("verbs", "<verb>", {"fly": frozenset({"fly"})})
    told = fault_of(inject, source.human, replace(source, tasks=other), "A->T", 0.5, seed=0)
    assert told.startswith("lexicon 'verbs': no task that captions name 10 times goes with 'female'")
