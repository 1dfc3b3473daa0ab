"""Reference persons, worked by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from judge.evidence.reference import Informative, Reference, make_references
from judge.types import Words

PEOPLE = [
    [("dog", "runs"), ("dog", "on", "grass"), ("animal", "outside")],
    [("cat", "sleeps"), ("cat", "on", "sofa"), ("pet", "inside")],
]


def bits(people: Sequence[Sequence[Words]], captions: Sequence[Words], roles: Sequence[Reference]) -> list[float]:
    """Mean bits of the captioner's captions, and of the references'."""
    own, told = Informative(captions), Informative([words for of in people for words in of])
    said = [told(words) for role in roles for words in role.captions]
    return [float(np.mean([*map(own, captions)])), float(np.mean(said))]


def joined(people: Sequence[Sequence[Words]], roles: Sequence[Reference]) -> int:
    """How many people's captions a reference joins."""
    return len(people[0]) - len(roles[0].others[0])


def test_bits_of_words() -> None:
    """Of four captions, plus one: a word in two says log2(5/2) bits, in one log2(5); function words say nothing."""
    says = Informative([("dog", "runs", "runs"), ("dog",), ("the",), ("cat", "of")])
    assert says(("the", "dog", "dog", "of")) == pytest.approx(math.log2(5 / 2))
    assert says(("dog", "cat")) == pytest.approx(math.log2(5 / 2) + math.log2(5))
    assert says.cut(("cat", "of", "dog", "cat"), math.log2(5)) == ("cat", "of", "cat")
    assert says.cut(("cat", "of", "dog"), math.log2(5) + math.log2(5 / 2) / 2) == ("cat", "of", "dog")


def test_every_person_is_the_reference_once() -> None:
    found = make_references(PEOPLE, [("dog", "runs"), ("cat", "sofa")])
    assert [role.others[0] for role in found] == [[1, 2], [2, 0], [0, 1]]
    for role in found:
        assert len(role.captions) == 2


def test_longer_captions_have_several_people_and_the_same_length() -> None:
    rich = [("dog", "runs", "grass", "park", "leash"), ("cat", "sleeps", "sofa", "lamp", "book")]
    found = make_references(PEOPLE, rich)
    # One person says half as much, three are not there: somebody must remain known.
    assert all(len(others) == 1 for role in found for others in role.others)
    assert found[0].captions[0][:2] == ("dog", "runs")


def test_briefer_captions_have_a_briefer_reference() -> None:
    many = [[("dog", "runs", "fast"), ("dog", "brown", "small"), ("dog", "wet", "happy")]] * 20
    found = make_references(many, [("dog", "runs")] * 20)
    assert joined(many, found) == 1
    wanted, said = bits(many, [("dog", "runs")] * 20, found)
    assert said < Informative([words for of in many for words in of])(("dog", "runs", "fast"))
    assert said == pytest.approx(wanted, abs=1.5)


def test_nobody_need_remain_where_there_is_one_person() -> None:
    found = make_references([[("dog", "runs")]] * 3, [("dog",)] * 3)
    assert [role.others for role in found] == [[[], [], []]]


def test_captions_that_say_nothing_have_a_reference_that_says_nothing() -> None:
    found = make_references(PEOPLE, [("the", "of"), ()])
    assert bits(PEOPLE, [("the", "of"), ()], found) == [0.0, 0.0]
    assert found[0].captions[1] == ()
    assert found[1].captions[1] == ("on",)


def test_a_part_of_the_captions_finds_the_length() -> None:
    """Of 3,600 captions every second one finds it; all then say nearly as much as the captioner, whatever that is."""
    generator = np.random.default_rng(1)
    words = [f"word{number}" for number in range(60)]
    drawn = generator.choice(words, (1200, 3, 8))
    people = [[tuple(text) for text in texts] for texts in drawn.tolist()]
    for length in (2, 8, 12):
        captions = [tuple(text) for text in generator.choice(words, (1200, length)).tolist()]
        found = make_references(people, captions)
        wanted, said = bits(people, captions, found)
        assert said == pytest.approx(wanted, rel=0.05)
        assert joined(people, found) == (1 if length <= 8 else 2)


def test_boilerplate_calls_for_nobody() -> None:
    """Varied words that no person uses say many bits, and nothing of the image: one person is the reference, uncut."""
    generator = np.random.default_rng(1)
    things = [[f"thing{n}" for n in generator.choice(90, 9, replace=False)] for _ in range(400)]
    people = [[tuple(generator.choice(of, 4, replace=False).tolist()) for _ in range(5)] for of in things]
    others = [of[2:] for of in people]
    padded = [(*of[0], *(f"filler{n}" for n in generator.choice(20, 9).tolist())) for of in people]
    found = make_references(others, padded)
    wanted, said = bits(others, padded, found)
    assert wanted > 1.5 * said
    assert [*found[0].captions] == [of[0] for of in others]
    assert joined(others, make_references(others, [(*of[0], *of[1]) for of in people])) == 2
