"""How captioners are asked: the paper's sentences, one answer a class, faults in one line."""

from __future__ import annotations

import pytest
from helpers import fault_of

from judge import evaluate
from judge.corpus import Corpus
from judge.judges.prompts import make_prompt


@pytest.mark.parametrize(
    ("template", "answers", "message"),
    [
        ("It is", {}, "--template: 'It is' has 0 times [Answer]. Write it once, as in 'Therefore, the gender is"),
        ("[Answer] [Answer]", {}, "has 2 times [Answer]"),
        ("It is [Answer]", {"old": " "}, "--answer: class 'old' has an empty answer. Give it a word."),
        ("It is [Answer]", {"old": "x", "young": "x"}, "classes 'old' and 'young' have one answer, 'x'"),
        ("It is [Answer]", {"old": "young"}, "--answer: two classes have one answer: young, young."),
    ],
)
def test_faults(template: str, answers: dict[str, str], message: str) -> None:
    assert message in fault_of(lambda: make_prompt("age", template, answers=answers).words(("old", "young")))


def test_answers_are_checked_against_all_classes_and_passed_over_where_a_captioner_lacks_one(corpus: Corpus) -> None:
    """Of two captioners each may describe classes that the other does not."""
    assert make_prompt("age").question == "Therefore, the age is"  # ImageCaptioner2, "Prompt construction".
    prompt = make_prompt("age", answers={"old": "grown up", "young": "little"})
    assert prompt.words(("old", "newborn")) == ("grown up", "newborn")
    prompt.check(("newborn", "old", "young"))
    assert fault_of(prompt.check, ("newborn", "old")) == "--answer: no class 'young'. Known: newborn, old."
    # Whoever judges, and before it begins.
    told = fault_of(evaluate, corpus, metrics="lic", answers={"male": "man", "femal": "woman"})
    assert told == "--answer: no class 'femal'. Did you mean 'female'?"
