"""Data drawn anew: what each kind of draw keeps, and how often it does what."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from helpers import GENDER
from hypothesis import given
from hypothesis import strategies as st

from judge.evidence import Aligner, Evidence, MaskedCaption, Resample, ResampleKind, Sides
from judge.evidence.masked import CaptionTable
from judge.text.coded import SampleTable
from judge.types import Side


def make_sides(images: int, *, human: int = 3, generated: int = 1, female: float = 0.3, seed: int = 0) -> Sides:
    """Every caption is a word of its own; every third image lacks its last human caption."""
    rng = np.random.default_rng(seed)
    classes = {f"{n:03}": "female" if rng.random() < female else "male" for n in range(images)}

    def say(side: Side, captions: int) -> tuple[MaskedCaption, ...]:
        return tuple(
            MaskedCaption(image, index, (f"{side}-{image}-{index}",), named=name, tasks=side)
            for image, name in classes.items()
            for index in range(captions - (side == "human" and captions > 1 and int(image) % 3 == 0))
        )

    return sides_of(classes, {"human": say("human", human), "generated": say("generated", generated)}, Aligner())


def sides_of(classes: dict[str, str], rows: dict[Side, tuple[MaskedCaption, ...]], aligner: Aligner) -> Sides:
    answers = {image: (GENDER.classes.index(name),) for image, name in classes.items()}
    return Sides("cap", GENDER, classes, answers, rows, aligner)


@given(st.integers(2, 40), st.integers(1, 5), st.integers(1, 2), st.integers(0, 99))
def test_exchange_keeps_images_and_numbers_of_captions(images: int, human: int, generated: int, number: int) -> None:
    sides = make_sides(images, human=human, generated=generated)
    drawn = Resample("exchanged", number).draw(sides)
    before, after = (Counter(row.words for of in one.rows.values() for row in of) for one in (sides, drawn))
    assert before == after
    for side in ("human", "generated"):
        before, after = ([(row.image, row.index) for row in one.rows[side]] for one in (sides, drawn))
        assert before == after
        # A caption goes with its image, and with what it says.
        for row in drawn.rows[side]:
            (word,) = row.words
            assert word.split("-")[:2] == [row.tasks, row.image]
    assert drawn.classes == sides.classes


@given(st.integers(2, 40), st.integers(0, 99))
def test_exchange_moves_the_sentences_of_a_caption_together(images: int, number: int) -> None:
    """Two sentences a caption, except for some that have one."""
    classes = {f"{n:03}": "male" for n in range(images)}
    rows: dict[Side, tuple[MaskedCaption, ...]] = {
        side: tuple(
            MaskedCaption(image, 2 * caption + place, (f"{side}-{image}-{caption}", str(place)))
            for image in classes
            for caption in range(captions)
            for place in range(1 + ((int(image) + caption) % 3 > 0 or image == "000"))
        )
        for side, captions in (("human", 3), ("generated", 1))
    }
    sides = replace(sides_of(classes, rows, Aligner()), sentences={"human": 2, "generated": 2})
    drawn = Resample("exchanged", number).draw(sides)
    before, after = (Counter(row.words for of in one.rows.values() for row in of) for one in (sides, drawn))
    assert before == after
    for side in ("human", "generated"):
        written: dict[tuple[str, int], list[tuple[str, ...]]] = {}
        for row in drawn.rows[side]:
            written.setdefault((row.image, row.index // 2), []).append(row.words)
        assert written.keys() == {(row.image, row.index // 2) for row in sides.rows[side]}
        for found in written.values():
            assert len({caption for caption, _ in found}) == 1
            assert [place for _, place in found] == ["0", "1"][: len(found)]
            assert before[found[0]] == 1


@given(st.integers(2, 60), st.floats(0.1, 0.9), st.integers(0, 20))
def test_halves_come_in_pairs_that_share_no_image(images: int, female: float, draw: int) -> None:
    sides = make_sides(images, female=female)
    first, second = (Resample("half", 2 * draw + part).draw(sides) for part in range(2))
    assert set(first.classes) | set(second.classes) == set(sides.classes)
    assert not set(first.classes) & set(second.classes)
    for name in set(sides.classes.values()):
        sizes = [list(half.classes.values()).count(name) for half in (first, second)]
        assert abs(sizes[0] - sizes[1]) <= 1
    for half in (first, second):
        assert {row.image for of in half.rows.values() for row in of} == set(half.classes) == set(half.answers)


def test_an_image_is_in_the_same_half_whatever_others_there_are() -> None:
    """So that captioners are compared on the same images: of two sets of images that share most, most agree."""
    many = dict(make_sides(300).classes)
    few = {image: name for image, name in many.items() if int(image) % 10}
    chosen, also = (Resample("half", 4, seed=7).classes(of) for of in (many, few))
    assert sum((image in chosen) == (image in also) for image in few) / len(few) > 0.95


def test_shuffled_labels_are_the_same_labels() -> None:
    sides = make_sides(200)
    drawn = Resample("shuffled", 0).draw(sides)
    assert Counter(drawn.classes.values()) == Counter(sides.classes.values())
    assert drawn.rows == sides.rows
    assert all(GENDER.classes[drawn.answers[image][0]] == name for image, name in drawn.classes.items())
    kept = sum(drawn.classes[image] == name for image, name in sides.classes.items()) / 200
    share = list(sides.classes.values()).count("female") / 200
    assert kept == pytest.approx(share**2 + (1 - share) ** 2, abs=0.12)


def test_what_a_refit_is_aligned_to_is_its_own_generated_side() -> None:
    """Constant substitution leaves of people's words those that the drawn captioner says."""
    human, generated = (
        tuple(MaskedCaption(str(n), 0, (word, "both")) for n in range(20)) for word in ("human", "machine")
    )
    classes = {str(n): GENDER.classes[n % 2] for n in range(20)}
    sides = sides_of(classes, {"human": human, "generated": generated}, Aligner("constant"))
    plain, drawn = Evidence(sides), Evidence(sides, Resample("exchanged", 0))
    assert {sample.words for sample in plain.slots["human", 0]} == {("<unk>", "both")}
    assert {sample.words for sample in drawn.slots["human", 0]} == {("human", "both"), ("machine", "both")}
    assert plain.alignment().tokens_kept == pytest.approx(0.5)
    assert drawn.alignment().tokens_kept == 1


@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.integers(0, 3), st.sampled_from([None, (), (1,), (0, 2)])), max_size=9
    )
)
def test_captions_as_arrays_are_the_captions(each: list[tuple[str, int, tuple[int, ...] | None]]) -> None:
    """On both sides, and after a journey to a worker."""
    rows: dict[Side, tuple[MaskedCaption, ...]] = {
        "human": tuple(MaskedCaption(i, n, (i, "b"), i, answers=of, written=n or None) for i, n, of in each),
        "generated": tuple(MaskedCaption(i, 0, (), "", i * n, answers=of) for i, n, of in each),
    }
    table = CaptionTable.of(rows)
    assert CaptionTable.of(table) is table
    assert dict(table) == dict(pickle.loads(pickle.dumps(table))) == rows


@given(st.sampled_from(["exchanged", "half", "shuffled"]), st.integers(0, 9), st.booleans())
def test_arrays_of_a_slot_are_those_of_its_samples(kind: ResampleKind, number: int, scenes: bool) -> None:
    """What judges that are trained jointly read without the samples."""
    sides = replace(make_sides(30, generated=2), uses_images=scenes, aligner=Aligner("constant"))
    sides = replace(sides, scenes={image: str(int(image) // 2) for image in sides.classes} if scenes else {})
    evidence = Evidence(sides, Resample(kind, number))
    for (side, index), slot in evidence.slots.items():
        found, listed = slot.table, SampleTable.of([*slot], 2)
        assert (found.images, found.seen) == (listed.images, listed.seen)
        assert listed.scenes.items() <= found.scenes.items()
        assert (found.coded.words, found.coded.codes.tolist()) == (listed.coded.words, listed.coded.codes.tolist())
        assert np.array_equal(found.truth, listed.truth)
        places, cells = slot.cells
        drawn = [row for row in evidence.drawn.rows[side] if row.index == index]
        assert [row.image for row in drawn] == [sample.image_id for sample in slot] == list(found.images)
        answers = [GENDER.classes[evidence.drawn.answers[row.image][0]] for row in drawn]
        said = [(row.named, row.tasks, answer) for row, answer in zip(drawn, answers, strict=True)]
        assert [cells[place] for place in places] == said
        written = Counter(row.image for row in evidence.drawn.rows[side])
        assert evidence.shares(side)[slot.part.image].tolist() == [1 / written[image] for image in found.images]
