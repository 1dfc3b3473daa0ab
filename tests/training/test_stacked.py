"""Judges trained as one program: each is the judge that it would be alone, whatever its companions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_parallel import without_dropout
from helpers import GENDER, TASKS, fault_of, keep_predictions, make_samples, make_tasks
from pretend import pretend_device
from torch import nn
from training.test_members import make_members, numbers

from judge.judges import Blueprint, find_judge
from judge.training import stacked
from judge.training.batches import cut_up
from judge.training.checkpoint import read_history
from judge.training.identity import name_members
from judge.training.launch import make_accelerator
from judge.training.loop import NetworkJudge, Trainer
from judge.training.member import TrainingSetup
from judge.training.run_members import train_members
from judge.training.stacked import Ensemble, Packed, draw_kept
from judge.types import Sample, Target

pytestmark = pytest.mark.usefixtures("one_thread")

JUDGES = ("lstm", "lstm-bidirectional", "rnn", "rnn-bidirectional", "lstm+mlp5")
# Of other lengths and vocabularies; of 49 the last batch takes one more.
SIZES = (40, 49, 35, 45)


def make_judges(blueprint: Blueprint, count: int, target: Target = GENDER) -> list[NetworkJudge]:
    assert blueprint.recipe
    recipe = replace(blueprint.recipe, epochs=2, learning_rate=1e-3, batch_size=16)
    return [NetworkJudge(blueprint, target, recipe, Trainer(make_accelerator())) for _ in range(count)]


def make_texts(target: Target = GENDER) -> list[list[Sample]]:
    """Weighted; of the second the words are others, and some captions long or empty."""
    make = make_tasks if target == TASKS else make_samples
    texts = [make(size, seed=seed) for seed, size in enumerate(SIZES)]
    texts[1] = [
        replace(sample, words=tuple(f"x{word}" for word in sample.words) * (n % 4)) for n, sample in enumerate(texts[1])
    ]
    return [[replace(sample, weight=1 + 0.5 * (0 in sample.answers)) for sample in own] for own in texts]


def weights_of(judge: NetworkJudge) -> dict[str, torch.Tensor]:
    assert isinstance(judge.network, nn.Module)
    return judge.network.state_dict()


@pytest.mark.parametrize(("name", "target"), [*((name, GENDER) for name in JUDGES), ("lstm", TASKS)])
def test_without_dropout_each_is_what_the_trainer_makes_of_it(name: str, target: Target) -> None:
    """Start, order, batches, weights and losses are the same; so are the judges, up to rounding."""
    blueprint, texts = without_dropout(find_judge(name)), make_texts(target)
    tests = [own[: 5 + 9 * place] for place, own in enumerate(make_texts(target)[::-1])]
    assert {len(cut_up(range(size), 16)) for size in SIZES} == {3}
    one = make_judges(blueprint, len(SIZES), target)
    for seed, (judge, own) in enumerate(zip(one, texts, strict=True)):
        judge.fit(own, seed=seed)
    together = make_judges(blueprint, len(SIZES), target)
    Ensemble(together, texts, range(len(SIZES))).fit()
    for judge, beside, own in zip(one, together, tests, strict=True):
        assert beside.predict(own).probabilities == pytest.approx(judge.predict(own).probabilities, abs=1e-5)
        assert beside.history.training == pytest.approx(judge.history.training, abs=1e-6)
        # Where a gradient is all rounding, Adam makes a step of it: a hundredth of the learning rate each, at most.
        for weight, expected in zip(weights_of(beside).values(), weights_of(judge).values(), strict=True):
            assert (weight - expected).abs().max() < 1e-4


def test_a_long_caption_adds_its_own_words_alone() -> None:
    first, second = Packed.of_batches(np.array([[60, 10, 10], [2, 1, 1]]), torch.device("cpu"))
    assert len(first.time) == 60 + 10 + 10
    assert (first.going[:10], first.going[10:]) == ([3] * 10, [1] * 50)
    assert [each.tolist() for each in second[1:]] == [[0, 0, 0, 1], [0, 1, 2, 0], [0, 3]]


def stack(name: str, places: Sequence[int], *, checkpoint: Path | None = None) -> tuple[list[NetworkJudge], Ensemble]:
    judges, texts = make_judges(find_judge(name), len(places)), make_texts()
    ensemble = Ensemble(judges, [texts[place] for place in places], places)
    ensemble.fit(checkpoint=checkpoint, seconds=0)
    return judges, ensemble


@pytest.mark.parametrize("name", ["lstm", "rnn-bidirectional"])
def test_companions_and_places_do_not_matter(name: str) -> None:
    """Up to rounding: of other companions, products have other numbers of rows and are added up in another order."""
    many, _ = stack(name, [0, 1, 2, 3])
    few, _ = stack(name, [3, 1])
    tests = make_samples(30, seed=9)
    answers = [judge.predict(tests).probabilities for judge in few]
    for one, other, found in ((many[3], few[0], answers[0]), (many[1], few[1], answers[1])):
        assert one.predict(tests).probabilities == pytest.approx(found, abs=1e-6)
        for weight, expected in zip(weights_of(one).values(), weights_of(other).values(), strict=True):
            assert (weight - expected).abs().max() < 1e-4
    assert abs(answers[0] - answers[1]).max() > 1e-3


def test_dropout_is_at_its_rate_and_independent() -> None:
    """Of judges, epochs, steps and places of dropout, elements beside each other, and of times."""
    _, ensemble = stack("lstm", [0, 1])
    keys = torch.cat([ensemble._draw_keys(epoch, 2) for epoch in (0, 1)])  # [4, 3, 2, 2]
    assert keys.shape == (4, 3, 2, 2)
    for rate in (0.5, 0.3):
        masks = torch.stack([draw_kept(key, torch.arange(100), 200, rate) for key in keys.flatten(0, 1)]).double()
        masks = masks.flatten(0, 1)  # [24, 100, 200]: each of 20,000 elements.
        assert (masks.mean(dim=(1, 2)) - (1 - rate)).abs().max() < 4.5 * np.sqrt(rate * (1 - rate) / 20_000)
        flat = masks.flatten(1)
        shifted = [torch.roll(flat, shift, dims=1) for shift in (1, 2, 200, 201)]
        found = torch.corrcoef(torch.cat([flat, *shifted])).fill_diagonal_(0)
        # 120 x 119 / 2 correlations, of a standard deviation of 0.007.
        assert found.abs().max() < 5.5 / np.sqrt(20_000)
    assert torch.equal(ensemble._draw_keys(1, 2)[:, :, 1], keys[2:, :, 1])


def test_what_is_kept_is_made_larger() -> None:
    """On average dropout changes nothing."""
    keys = torch.from_numpy(np.random.default_rng(0).integers(-(2**31), 2**31, size=(1, 3, 2), dtype=np.int32))
    found = stacked._Dropout(keys)(torch.ones(3, 400, 50), torch.arange(400), 0.3)
    assert found.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert found.mean() == pytest.approx(1, abs=0.02)


def test_killed_and_resumed_is_uninterrupted(tmp_path: Path) -> None:
    whole, _ = stack("lstm", [0, 1, 2])
    path, texts = tmp_path / "stack.safetensors", make_texts()

    def kill(done: int, losses: Sequence[float]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ensemble(make_judges(find_judge("lstm"), 3), texts[:3], [0, 1, 2]).fit(
            checkpoint=path, seconds=0, on_epoch=kill
        )
    told: list[int] = []
    again = make_judges(find_judge("lstm"), 3)
    Ensemble(again, texts[:3], [0, 1, 2]).fit(checkpoint=path, on_epoch=lambda done, _: told.append(done))
    assert told == [2]
    for judge, expected in zip(again, whole, strict=True):
        assert judge.history == expected.history
        for weight, other in zip(weights_of(judge).values(), weights_of(expected).values(), strict=True):
            assert torch.equal(weight, other)


def test_no_step_waits_for_the_device() -> None:
    blueprint, texts = without_dropout(find_judge("lstm")), make_texts()[:2]
    expected, found = make_judges(blueprint, 2), []
    Ensemble(expected, texts, range(2)).fit()
    with pretend_device() as device:
        judges = make_judges(blueprint, 2)
        Ensemble(judges, texts, range(2)).fit()
        found = [judge.predict(own).probabilities for judge, own in zip(judges, texts, strict=True)]
    for one, judge, own in zip(found, expected, texts, strict=True):
        assert one == pytest.approx(judge.predict(own).probabilities, abs=1e-5)
    steps = [step for place, step in enumerate(device.steps) if place % 3]  # The first of an epoch is after its order.
    assert len(steps) == 4
    assert not any(copies or waits for copies, waits in steps)


def test_members_are_stored_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under names of their own, whoever trains beside; two workers, and halves where memory runs out, are as good."""
    members, alone = make_members("rnn", seeds=3, images=60), TrainingSetup({"epochs": 2}, workers=1)
    setup = replace(alone, stack=True, store=tmp_path)
    names = name_members(members, setup)
    assert set(names).isdisjoint(name_members(members, alone))
    assert name_members(members, replace(setup, mixed_precision="fp16")) == name_members(
        members, replace(alone, mixed_precision="fp16")
    )
    few = numbers(members[:3], setup)
    found = numbers(members, setup)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.safetensors" for name in names}
    assert all(map(np.array_equal, few, found))
    sizes: list[int] = []
    fit = Ensemble.fit

    def greedy(self: Ensemble, **how: Any) -> None:
        sizes.append(len(self.judges))
        if len(self.judges) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        fit(self, **how)

    monkeypatch.setattr(Ensemble, "fit", greedy)
    halved = numbers(members, replace(setup, store=tmp_path / "halved"))
    assert {path.stem for path in (tmp_path / "halved").iterdir()} == {*names}  # Nothing of those that did not fit.
    assert sizes == [3, 1, 1, 1, 3, 1, 1, 1]
    for one, other in zip(found, halved, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    assert all(map(np.array_equal, found, numbers(members, setup)))
    assert len(sizes) == 8
    monkeypatch.undo()
    for one, other in zip(found, numbers(members[::-1], replace(setup, store=None, workers=2))[::-1], strict=True):
        assert one == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("name", ["lstm", "rnn"])
def test_products_in_bf16(name: str) -> None:
    members = make_members(name, seeds=1, images=60)
    setup = TrainingSetup({"epochs": 2, "learning_rate": 1e-3}, workers=1, stack=True)
    exact, rough = (numbers(members, replace(setup, mixed_precision=precision)) for precision in ("no", "bf16"))
    for one, other in zip(exact, rough, strict=True):
        assert not np.array_equal(one, other)
        assert one == pytest.approx(other, abs=0.02)


def test_weights_are_kept(tmp_path: Path) -> None:
    """What judges answer is what their files answer."""
    members = make_members("rnn", images=60)
    setup = TrainingSetup({"epochs": 2}, workers=1, stack=True, store=tmp_path, keeps_weights=True)
    assert name_members(members, setup) == name_members(members, replace(setup, stack=False))
    for member, name, found in zip(members, name_members(members, setup), numbers(members, setup), strict=True):
        path = tmp_path / f"{name}.weights.safetensors"
        history = read_history(path)
        assert history is not None
        assert len(history.training) == 2
        (judge,) = make_judges(member.judge, 1)
        restored = judge.restore(member.training(), path, seed=member.stream)
        assert restored.predict(member.test()).probabilities == pytest.approx(found, abs=1e-6)


def test_progress_counts_judges_and_a_fault_is_one_line() -> None:
    told: list[tuple[str, int, int]] = []
    setup = TrainingSetup({"epochs": 2}, workers=1, stack=True)
    train_members(
        make_members("rnn", seeds=3), setup, then=keep_predictions, progress=lambda *units: told.append(units)
    )
    assert told[-1] == ("training judges (6 of 6), steps", 12, 12)
    high = replace(setup, recipe={"epochs": 2, "learning_rate": 1e38})
    for stack in (True, False):
        line = fault_of(numbers, make_members("rnn", seeds=1), replace(high, stack=stack))
        assert line.startswith("training judge 'rnn': loss is nan in epoch ")
