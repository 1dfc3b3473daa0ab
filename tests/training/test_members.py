"""Members: shared out among workers, trained once, kept, found again; always the same numbers."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import EVEN, GENDER, fault_of, keep_predictions, make_samples, name_members

from judge.commands.evaluate import RunConfig
from judge.commands.setup import with_precision
from judge.config import make_config
from judge.corpus.splits import Split, stratified_folds
from judge.evidence import Aligner, Evidence, MaskedCaption, Resample, ResampleKind, Sides
from judge.judges import Assignment, Keep
from judge.judges.names import find_judge
from judge.text.alignment import AlignmentName
from judge.training.member import Member, Precomputed, TrainingSetup
from judge.training.run_members import prepare_members, train_members
from judge.types import Predictions, Side, Target
from judge.utils.files import LOG, append, read_json_lines
from judge.utils.tensors import write_tensors

QUICK = {"epochs": 2, "learning_rate": 2e-3}


def test_a_kept_judge_is_named_by_the_precision_that_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the command asked for it or its launch; float32 by any name is one."""
    members = make_members("lstm")
    setup = TrainingSetup(store=tmp_path, keeps_weights=True)
    plain, half = name_members(members, setup), name_members(members, replace(setup, mixed_precision="bf16"))
    assert name_members(members, replace(setup, mixed_precision="no")) == plain != half
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert name_members(members, setup) == half
    assert name_members(members, replace(setup, mixed_precision="no")) == plain
    config = make_config({"human": "h.json", "labels": "l.csv", "captions": ["c.json"]}, RunConfig)
    assert "precision: bf16" in with_precision(config).to_yaml()


def make_members(judge: str, *, seeds: int = 2) -> list[Member]:
    samples = tuple(make_samples(24, clue=0.7))
    names = tuple(sample.image_id for sample in samples)
    splits = Split(names[8:], names[:8], EVEN), Split(names[:16], names[16:], {"female": 1.5, "male": 0.5}, fold=1)
    return [Member(find_judge(judge), GENDER, samples, split, seed) for seed in range(seeds) for split in splits]


def numbers(members: list[Member], setup: TrainingSetup) -> list[np.ndarray]:
    return [found.probabilities for found in train_members(members, setup, then=keep_predictions)]


@pytest.mark.parametrize("judge", ["linear", pytest.param("lstm", marks=pytest.mark.slow)])
def test_workers_and_company_change_nothing(judge: str) -> None:
    """One worker, two workers and another order, alone: the same numbers, to the last digit.

    Linear judges of the same captions are solved side by side, until the last is done: one that is alone differs in
    digits that its tolerance leaves open.
    """
    members, setup = make_members(judge), TrainingSetup(QUICK, workers=1)
    one = numbers(members, setup)
    assert np.array_equal(one, numbers(members[::-1], replace(setup, workers=2))[::-1])
    alone = numbers(members[2:3], setup)
    assert one[2] == pytest.approx(alone[0], abs=1e-3 if judge == "linear" else 0)
    if judge == "lstm":  # linear's seed only draws inner folds
        assert not np.array_equal(one[0], one[2])


def test_precision_of_one_run_does_not_leak_into_the_next() -> None:
    members = make_members("lstm", seeds=1)[:1]
    setup = TrainingSetup(QUICK, workers=1)
    before, rough, after = (numbers(members, each) for each in (setup, replace(setup, mixed_precision="bf16"), setup))
    assert np.array_equal(before, after)
    assert not np.array_equal(before, rough)
    assert rough[0] == pytest.approx(before[0], abs=0.05)


def test_equal_members_are_trained_once() -> None:
    trained: list[int] = []
    linear = find_judge("linear")

    def counted(target: Target, assignments: Sequence[Assignment], keep: Keep | None, _: None) -> list[Predictions]:
        trained.append(len(assignments))
        return list(linear.joint(target, assignments, keep, None))  # type: ignore[misc]

    members = [replace(member, judge=replace(linear, joint=counted)) for member in make_members("linear", seeds=1)]
    again = [replace(member, samples=(*member.samples,)) for member in members]
    found = numbers([*members, *again], TrainingSetup(workers=1))
    assert trained == [2]
    assert np.array_equal(found[0], found[2])
    # What comes back is made of each one's own: the second may be another side with the same captions.
    again = [replace(members[0], samples=tuple(replace(s, side="generated") for s in members[0].samples))]
    sides = train_members([*members, *again], TrainingSetup(workers=1), then=whose)
    assert [side for side, _ in sides] == ["human", "human", "generated"]
    assert sides[0][1] == sides[2][1] != sides[1][1]


def whose(member: Member, predictions: Predictions) -> tuple[str, float]:
    return member.side, float(predictions.probabilities.sum(axis=0)[0])


def make_sides(*, how: AlignmentName = "constant") -> Sides:
    """60 images, two human captions and one generated."""
    rng = np.random.default_rng(0)
    classes = {f"{n:02}": "female" if n % 2 else "male" for n in range(60)}
    answers = {image: (GENDER.classes.index(name),) for image, name in classes.items()}
    captions: dict[Side, int] = {"human": 2, "generated": 1}
    rows = {
        side: tuple(
            MaskedCaption(image, index, (f"{side}{rng.integers(5)}", f"{name}{rng.integers(2)}", "<gender>"))
            for image, name in classes.items()
            for index in range(captions[side])
        )
        for side in captions
    }
    return Sides("cap", GENDER, classes, answers, rows, Aligner(how))


def make_refits(kind: ResampleKind, number: int = 1, *, captioner: str = "cap") -> list[Member]:
    """One captioner's judges on data drawn anew."""
    evidence = Evidence(replace(make_sides(), captioner=captioner), Resample(kind, number))
    splits = stratified_folds(evidence.classes, seed=0, folds=3)
    linear, slots = find_judge("linear"), evidence.slots.values()
    return [Member(linear, GENDER, slot, split, 0, slot.position, (("C", 0.1),)) for split in splits for slot in slots]


@pytest.mark.parametrize("kind", [
    "exchanged", pytest.param("half", marks=pytest.mark.slow), pytest.param("shuffled", marks=pytest.mark.slow)
])  # fmt: skip
def test_refits_are_drawn_where_they_are_trained(kind: ResampleKind, tmp_path: Path) -> None:
    """Nothing of them is made before, travels, or is kept; one worker, two, and the store give the same numbers."""
    members = make_refits(kind)
    name_members(members, TrainingSetup())
    evidence = members[0].samples.evidence  # type: ignore[attr-defined]
    assert "drawn" not in evidence.__dict__
    assert len(evidence.slots["human", 0]) in {15, 16, 30, 60}
    travelled = pickle.loads(pickle.dumps(evidence))
    assert set(travelled.__dict__) == {"sides", "resample"}
    one = numbers(members, TrainingSetup(workers=1))
    assert "drawn" not in evidence.__dict__
    # Of other sides too, so that two workers have something to do.
    more = [*make_refits(kind), *make_refits("half", 7, captioner="other")]
    two = numbers(more, TrainingSetup(workers=2, store=tmp_path))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2  # A file of each refit.
    states = [(path.read_bytes(), path.stat().st_mtime_ns) for path in files]
    kept = numbers(make_refits(kind), TrainingSetup(workers=1, store=tmp_path))
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in files] == states
    for path, (content, _) in zip(files, states, strict=True):
        path.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    again = numbers(more, TrainingSetup(workers=1, store=tmp_path))
    assert [path.read_bytes() for path in files] == [content for content, _ in states]
    for found in (two[:9], kept, again[:9]):
        assert all(map(np.array_equal, one, found))


def test_names_of_refits_say_what_they_are_drawn_from() -> None:
    """Another draw, kind or word of either side is another judge; of halves without alignment a side is its own."""
    base, other = (name_members(make_refits(kind), TrainingSetup()) for kind in ("half", "exchanged"))
    assert len(set(base)) == 9
    assert set(base).isdisjoint(other)
    for how, kind, same in (("none", "half", True), ("constant", "half", False), ("none", "exchanged", False)):
        sides = make_sides(how=how)
        rows = {**sides.rows, "generated": tuple(replace(row, words=("x",)) for row in sides.rows["generated"])}
        one, changed = (Evidence(of, Resample(kind, 1)) for of in (sides, replace(sides, rows=rows)))
        assert (one.digest("human") == changed.digest("human")) == same
        assert one.digest() != changed.digest()
        assert one.digest("human") != Evidence(sides, Resample(kind, 2)).digest("human")


def test_a_name_does_not_depend_on_the_judges_beside() -> None:
    """Of judges trained jointly all samples of both sides count, of others their own: whichever comes first."""
    evidence = Evidence(make_sides())
    (split, *_) = stratified_folds(evidence.classes, seed=0, folds=3)
    slot = evidence.slots["generated", 0]
    linear, lstm = (Member(find_judge(name), GENDER, slot, split, 0) for name in ("linear", "lstm"))
    apart = [name_members([member], TrainingSetup())[0] for member in (linear, lstm)]
    assert name_members([linear, lstm], TrainingSetup()) == apart
    assert name_members([lstm, linear], TrainingSetup()) == apart[::-1]


def test_finished_members_are_taken_from_the_store(tmp_path: Path) -> None:
    """A disk that cannot be written is one line."""
    members = make_members("lstm", seeds=1)
    setup = TrainingSetup(QUICK, workers=1, store=tmp_path)
    first = numbers(members, setup)
    path, other = sorted(tmp_path.iterdir())
    assert path.suffix == other.suffix == ".safetensors"
    write_tensors(path, {path.stem: np.full((8, 2), 0.5)}, {path.stem: {}})  # Changed, so that a hit shows.
    again = numbers(members, setup)
    assert sum(not np.array_equal(a, b) for a, b in zip(first, again, strict=True)) == 1
    another = numbers(members, TrainingSetup(QUICK | {"epochs": 1}, workers=1, store=tmp_path))
    assert len(list(tmp_path.iterdir())) == 4  # Another recipe is another member.
    assert not np.array_equal(another[1], first[1])
    path.unlink()
    path.mkdir()
    assert f"{path.name}: cannot be written (Is a directory). Name a folder" in fault_of(numbers, members, setup)


def test_judges_denied_captions_are_one_judge_whatever_is_said() -> None:
    """Of all caption indices and both sides; one that reads is another for each."""
    samples = make_samples(40)
    split = Split(("0",), ("1",), EVEN)
    changes: list[dict[str, Any]] = [{"words": ("a",)}, {"index": 1, "words": ("b",)}, {"side": "generated"}]
    others = [tuple(replace(sample, **change) for sample in samples) for change in changes]

    def distinct(judge: str) -> tuple[int, int]:
        members = [Member(find_judge(judge), GENDER, evidence, split, 0, evidence[0].index) for evidence in others]
        names = name_members(members, TrainingSetup(precomputed=Precomputed()))
        return len(set(names)), len({member.stream for member in members})

    assert distinct("sat-image-only") == (1, 1)
    assert distinct("sat") == distinct("sat-caption-only") == (3, 2)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_progress_counts_steps_and_events_tell_their_losses(workers: int, tmp_path: Path) -> None:
    """Two epochs of one batch each; of stored judges nothing is counted."""
    told: list[tuple[str, int, int]] = []
    members, log = make_members("lstm"), partial(append, tmp_path / LOG)
    how = {"then": keep_predictions, "progress": lambda *units: told.append(units)}
    setup = TrainingSetup(QUICK, workers=workers, log=log, store=tmp_path)
    train_members(members[:1], setup, **how)
    told.clear()
    train_members([*members, members[0]], setup, **how)
    assert told[0] == ("training judges (1 stored)", 0, 3)
    assert told[-1] == ("training judges (3 of 3; 1 stored), steps", 6, 6)
    done = [steps for what, steps, _ in told if "steps" in what]
    assert done == sorted(done)
    told.clear()
    train_members(members, setup, **how)
    assert {*told} == {("reading judges", 0, 0)}
    heard = [(of["event"], of["seed"], of["epoch"]) for of in read_json_lines(tmp_path / LOG)]
    assert sorted(heard) == sorted(("epoch", member.seed, epoch) for member in members for epoch in (1, 2))


def test_who_cannot_hear_ends_no_training(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """A log on a full disk is reported, and the numbers are the same.

    A folder that a failed run removed is not: the main process has said why.
    """

    def full(event: str, **facts: Any) -> None:
        raise OSError(28, "No space left on device")

    def gone(event: str, **facts: Any) -> None:
        append(tmp_path / "removed" / LOG, event, **facts)

    members, setup = make_members("lstm", seeds=1)[:1], TrainingSetup({"epochs": 1}, workers=1)
    alone = numbers(members, setup)
    for log, told in ((gone, False), (full, True)):
        assert np.array_equal(alone, numbers(members, replace(setup, log=log)))
        assert ("cannot be logged" in caplog.text) == told
    assert "events of trainings cannot be logged ([Errno 28] No space left on device)" in caplog.text


def test_a_fault_in_a_worker_is_told_in_one_line() -> None:
    setup = TrainingSetup({"epochs": 3, "learning_rate": 1e38}, workers=2)
    assert "loss is" in fault_of(numbers, make_members("lstm", seeds=1), setup)


@pytest.mark.parametrize(
    ("judges", "device", "asked", "fsdp", "expected"),
    [
        (2, "cuda", None, "false", "members"),
        (1, "cuda", None, "false", "data"),  # One GPU of two would idle.
        (2, "cpu", None, "false", "data"),  # Each judge takes all threads.
        (2, "cuda", "data", "false", "data"),
        (2, "cuda", None, "true", "data"),
    ],
)
def test_each_gpu_trains_whole_judges_if_there_are_enough(
    judges: int, device: str, asked: Any, fsdp: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judges' names say so too: trained in another way, numbers differ by rounding."""
    monkeypatch.setattr("judge.training.run_members.computes_on", lambda: device)
    monkeypatch.setattr("judge.training.run_members.promised", lambda: 2)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", fsdp)
    small = find_judge("lstm")
    assert small.recipe
    large = replace(small, recipe=replace(small.recipe, sharing="data"))
    members = [Member(large, GENDER, make_samples(4), Split((), (), {}), seed) for seed in range(judges)]
    named, chosen = prepare_members(members, TrainingSetup(sharing=asked))
    assert chosen.sharing_of(large) == expected
    assert [member.key for member in named] == name_members(members, TrainingSetup(sharing=expected))
