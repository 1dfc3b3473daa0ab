"""Members: shared out among workers, trained once, kept, found again; always the same numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import GENDER, make_samples

from judge.corpus.splits import Split
from judge.errors import JudgeError
from judge.judges import Materials
from judge.masking.seen import SeenPictures
from judge.training.checkpoint import load_predictions, save_predictions
from judge.training.members import _Job, _luggage, train_members
from judge.training.workshop import Member, Sights, Workshop, name_members
from judge.types import Sample

QUICK = {"epochs": 2, "learning_rate": 2e-3}


def make_members(judge: str, *, seeds: int = 2) -> list[Member]:
    samples = tuple(make_samples(40, clue=0.7))
    splits = [
        Split(
            tuple(s.image_id for s in samples[8:]), tuple(s.image_id for s in samples[:8]), {"female": 1.0, "male": 1.0}
        ),
        Split(
            tuple(s.image_id for s in samples[:32]),
            tuple(s.image_id for s in samples[32:]),
            {"female": 1.5, "male": 0.5},
            fold=1,
        ),
    ]
    return [Member(judge, GENDER, samples, split, seed) for seed in range(seeds) for split in splits]


def numbers(members: list[Member], workshop: Workshop) -> list[np.ndarray]:
    return [found.probabilities for found in train_members(members, workshop)]


@pytest.mark.parametrize("judge", ["linear", "lstm"])
def test_workers_and_company_change_nothing(judge: str) -> None:
    """One worker, two workers, another order, alone: the same numbers, to the last digit."""
    members = make_members(judge)
    one = numbers(members, Workshop(QUICK, workers=1))
    two = numbers(members, Workshop(QUICK, workers=2))
    backwards = numbers(members[::-1], Workshop(QUICK, workers=1))[::-1]
    alone = numbers(members[2:3], Workshop(QUICK, workers=1))
    for first, second, third in zip(one, two, backwards, strict=True):
        assert np.array_equal(first, second)
        assert np.array_equal(first, third)
    assert np.array_equal(one[2], alone[0])
    if judge == "lstm":  # linear's seed only draws inner folds
        assert not np.array_equal(one[0], one[2])


def test_precision_of_one_run_does_not_leak_into_the_next() -> None:
    members = make_members("lstm", seeds=1)[:1]
    (before,) = numbers(members, Workshop(QUICK, workers=1))
    (rough,) = numbers(members, Workshop(QUICK, workers=1, mixed_precision="bf16"))
    (after,) = numbers(members, Workshop(QUICK, workers=1))
    assert np.array_equal(before, after)
    assert not np.array_equal(before, rough)
    assert rough == pytest.approx(before, abs=0.05)


def test_equal_members_are_trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from judge.judges import linear

    fits: list[int] = []
    original = linear.LinearJudge.fit

    def counted(self: linear.LinearJudge, samples: list[Sample], **rest: object) -> linear.LinearJudge:
        fits.append(len(samples))
        return original(self, samples, **rest)

    monkeypatch.setattr(linear.LinearJudge, "fit", counted)
    members = make_members("linear", seeds=1)
    again = [Member(m.judge, m.target, (*m.samples,), m.split, m.seed) for m in members]
    found = numbers([*members, *again], Workshop(workers=1))
    assert len(fits) == 2
    assert np.array_equal(found[0], found[2])


def test_finished_members_are_taken_from_the_store(tmp_path: Path) -> None:
    members = make_members("lstm", seeds=1)
    workshop = Workshop(QUICK, workers=1, store=tmp_path)
    first = numbers(members, workshop)
    kept = sorted(tmp_path.iterdir())
    assert [path.suffix for path in kept] == [".safetensors"] * 2
    save_predictions(kept[0], np.full((8, 2), 0.5), {})  # Tampered with, so that a hit shows.
    again = numbers(members, workshop)
    assert sum(not np.array_equal(a, b) for a, b in zip(first, again, strict=True)) == 1
    other = numbers(members, Workshop(QUICK | {"epochs": 1}, workers=1, store=tmp_path))
    assert len(list(tmp_path.iterdir())) == 4  # Another recipe is another member.
    assert not np.array_equal(other[1], first[1])


def test_damaged_answers_are_found_anew_and_a_disk_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    members = make_members("lstm", seeds=1)[:1]
    workshop = Workshop(QUICK, workers=1, store=tmp_path)
    first = numbers(members, workshop)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for size in (0, 5, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert np.array_equal(numbers(members, workshop), first)
        assert path.read_bytes() == whole
    path.unlink()
    path.mkdir()
    with pytest.raises(JudgeError, match=rf"{path.name}: cannot be written \(Is a directory\)\. Name a folder"):
        numbers(members, workshop)


def test_judges_denied_captions_are_one_judge_whatever_is_said() -> None:
    """Of all caption indices and both sides; one that reads is another for each."""
    samples = make_samples(40)
    split = Split(("0",), ("1",), {"female": 1.0, "male": 1.0})
    others = [
        tuple(replace(sample, index=index, words=(*s, str(index))) for sample in samples)
        for index, s in ((0, "ab"), (1, "cd"))
    ]
    others.append(tuple(replace(sample, side="generated") for sample in samples))

    def distinct(judge: str) -> tuple[int, int]:
        members = [Member(judge, GENDER, evidence, split, 0) for evidence in others]
        return len(set(name_members(members, Workshop(sights=Sights())))), len({member.stream for member in members})

    assert distinct("sat-image-only") == (1, 1)
    assert distinct("sat") == distinct("sat-caption-only") == (3, 2)


def test_threads_are_part_of_the_name_of_a_judge_that_takes_them_all() -> None:
    members, before = make_members("lstm", seeds=1)[:1], torch.get_num_threads()

    def names(**sharing: Any) -> set[str]:
        found = set()
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found |= set(name_members(members, Workshop(sights=Sights(), **sharing)))
        return found

    try:
        assert len(names(sharing="members")) == 1
        assert len(names(sharing="data")) == (1 if torch.accelerator.is_available() else 2)
    finally:
        torch.set_num_threads(before)


def test_masks_travel_to_those_alone_that_read_pictures_themselves() -> None:
    pictures = SeenPictures(Path(), {str(n): f"{n}.png" for n in range(40)})
    workshop = Workshop(materials=Materials(pictures=pictures))
    for judge, travels in {"lstm": False, "sat": False, "sat-image-only": False, "hf:mine": True}.items():
        members = make_members("lstm", seeds=1)
        sent = _luggage(_Job(0, replace(members[0], judge=judge), "key"), workshop).materials.pictures
        assert (sent is pictures) == travels
        assert travels or sent is None


def test_progress_counts_epochs() -> None:
    told: list[tuple[int, int]] = []
    members = make_members("lstm")
    train_members([*members, members[0]], Workshop(QUICK, workers=1), report=lambda what, *units: told.append(units))
    assert told == sorted(told)
    assert told[-1] == (4 * 2, 4 * 2)


def test_a_fault_in_a_worker_is_told_in_one_line() -> None:
    with pytest.raises(JudgeError, match="loss is"):
        train_members(make_members("lstm"), Workshop({"epochs": 3, "learning_rate": 1e38}, workers=2))


def test_predictions_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "member.safetensors"
    assert load_predictions(path) is None
    save_predictions(path, np.array([[0.25, 0.75]]), {"C": 0.1})
    found = load_predictions(path)
    assert found is not None
    assert found[0].tolist() == [[0.25, 0.75]]
    assert found[1] == {"C": 0.1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["member.safetensors"]
