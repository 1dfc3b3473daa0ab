"""The training loop: batches, epochs, resuming, memory, probabilities; against a plain loop."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from helpers import GENDER, THREE, fault_of, judge_with, make_samples
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from judge.errors import JudgeError
from judge.judges import NOTHING, Batch, Blueprint, Materials, Recipe
from judge.judges.encoders import build_vocabulary, make_lstm
from judge.judges.names import find_judge
from judge.measure.table import judge_answers
from judge.text.coded import multi_hot
from judge.training import loop
from judge.training.checkpoint import Checkpoint, History, read_history
from judge.training.judge_file import save_network
from judge.training.launch import make_accelerator
from judge.training.loop import NetworkJudge, Trainer, make_optimiser, to_probabilities
from judge.training.member import derive_seed
from judge.types import Predictions, Sample, Target, TargetKind


class Words(nn.Module):
    """Mean of word vectors, dropout, linear: small, but with every part a real judge has."""

    def __init__(self, target: Target, samples: Sequence[Sample], materials: Materials = NOTHING) -> None:
        super().__init__()
        self.index = {word: i for i, word in enumerate(sorted({word for s in samples for word in s.words}))}
        self.vectors = nn.EmbeddingBag(len(self.index), 8)
        self.output = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, len(target.classes)))

    def collate(self, samples: Sequence[Sample]) -> Batch:
        rows = [torch.tensor([self.index[word] for word in s.words if word in self.index] or [0]) for s in samples]
        return {"words": torch.cat(rows), "starts": torch.tensor([0, *map(len, rows[:-1])]).cumsum(0)}

    def forward(self, batch: Batch) -> Tensor:
        return self.output(self.vectors(batch["words"], batch["starts"]))


def make_judge(
    network: type[nn.Module], target: Target = GENDER, *, checkpoint: Path | None = None, **recipe: Any
) -> NetworkJudge:
    """``on_epoch`` apart, keywords are the recipe's; a checkpoint is written after every epoch."""
    on_epoch = recipe.pop("on_epoch", None)
    settings = Recipe(**{"epochs": 5, "learning_rate": 0.02, "batch_size": 16} | recipe)
    trainer = Trainer(make_accelerator(), checkpoint=checkpoint, seconds=0, on_epoch=on_epoch)
    return NetworkJudge(Blueprint("test", "this test", network=network, recipe=settings), target, settings, trainer)


class Plain(Words):
    """Without dropout, which draws other masks for other shapes."""

    def __init__(self, target: Target, samples: Sequence[Sample], materials: Materials = NOTHING) -> None:
        super().__init__(target, samples)
        self.output = nn.Sequential(nn.Linear(8, len(target.classes)))


def test_training_ends_when_validation_no_longer_gets_better() -> None:
    """The weights are the best epoch's, and the epochs those of a training that goes on until it is killed."""
    samples = make_samples(60)
    validation = [replace(sample, answers=(1 - sample.answers[0],)) for sample in samples]  # What is learnt is wrong.
    whole, ended = (make_judge(Plain, keep="best", epochs=8, patience=patience) for patience in (None, 2))
    for judge in (whole, ended):
        judge.fit(samples, seed=1, validation=validation)
    assert whole.history.best == ended.history.best == 1
    assert (len(whole.history.training), len(ended.history.training)) == (8, 3)
    assert whole.history.validation[:3] == ended.history.validation
    found, again = (judge.predict(samples) for judge in (whole, ended))
    assert found.probabilities.tolist() == again.probabilities.tolist()
    assert found.notes == {"epoch": 1}


class Faulty(Words):
    """Cannot take a caption of the word "bad"."""

    def collate(self, samples: Sequence[Sample]) -> Batch:
        if any("bad" in sample.words for sample in samples):
            raise JudgeError("is not a picture", where="bad.png", mend="leave it out")
        return super().collate(samples)


def test_processes_that_collate_ahead_change_no_digit() -> None:
    """With dropout and validation, and batches of another size in prediction; a fault in one is told as it is."""
    samples, found = make_samples(30), []
    for workers in (0, 2):
        judge = make_judge(Faulty, keep="best", micro_batch=5, epochs=2)
        judge.trainer.workers = workers
        judge.fit(samples, seed=3, validation=samples[:10])
        found.append((judge.predict(samples).probabilities.tolist(), judge.history))
    assert found[0] == found[1]
    told = fault_of(judge.predict, [*samples, replace(samples[0], words=("bad",))])
    assert told == "bad.png: is not a picture. Leave it out."


class Normed(Plain):
    """With batch normalisation, which is of what passes at once."""

    def __init__(self, target: Target, samples: Sequence[Sample], materials: Materials = NOTHING) -> None:
        super().__init__(target, samples)
        self.output.insert(0, nn.BatchNorm1d(8))


def test_batches_that_are_normalised_are_not_cut_up() -> None:
    samples = make_samples(50, clue=0.5)
    line = fault_of(make_judge(Normed, micro_batch=5).fit, samples, seed=0)
    assert "--training micro_batch=5: batch normalisation is of whole batches. Leave it out" in line
    whole, fitting = (make_judge(Normed, micro_batch=size).fit(samples, seed=0) for size in (None, "usual"))
    assert np.array_equal(whole.predict(samples).probabilities, fitting.predict(samples).probabilities)


class KilledError(Exception):
    """Stands for SIGKILL."""


@pytest.mark.parametrize(
    ("keep", "killed_after", "how"),
    [
        ("last", 1, {"warmup": 0.4, "decay": True}),
        ("last", 3, {"decay": True, "clip": 0.01}),
        ("best", 1, {"warmup": 0.4, "decay": True}),
        ("best", 3, {}),
    ],
)
def test_killed_and_resumed_bit_for_bit(tmp_path: Path, keep: str, killed_after: int, how: dict[str, Any]) -> None:
    """The history too; a damaged checkpoint is none."""
    samples, validation = make_samples(60, clue=0.6), make_samples(30, clue=0.6, seed=9)
    path = tmp_path / "training.safetensors"
    epochs: list[int] = []

    def fit(**rest: Any) -> tuple[NetworkJudge, np.ndarray]:
        asked = {"keep": keep, "learning_rate": 0.05} | how | rest
        judge = make_judge(Words, **asked).fit(samples, seed=0, validation=validation)
        return judge, judge.predict(validation).probabilities

    def kill(done: int, history: History) -> None:
        if done == killed_after:
            raise KilledError

    whole, expected = fit()
    with pytest.raises(KilledError):
        fit(checkpoint=path, on_epoch=kill)
    resumed, found = fit(checkpoint=path, on_epoch=lambda done, _: epochs.append(done))
    assert epochs == list(range(killed_after + 1, 6))
    assert np.array_equal(found, expected)
    assert resumed.history == whole.history
    assert [entry.name for entry in tmp_path.iterdir()] == ["training.safetensors"]
    path.write_bytes(path.read_bytes()[:-1])
    epochs.clear()
    assert np.array_equal(fit(checkpoint=path, on_epoch=lambda done, _: epochs.append(done))[1], expected)
    assert epochs == [1, 2, 3, 4, 5]


def test_the_scale_of_half_precision_goes_on_too(tmp_path: Path) -> None:
    network, scaler = Words(GENDER, make_samples(10)), torch.amp.GradScaler("cpu", init_scale=512.0)
    optimiser = torch.optim.Adam(network.parameters())
    kept = Checkpoint(tmp_path / "kept.safetensors", scaler=scaler)
    kept.history.training.append(0.5)
    scaler.scale(torch.ones(()))  # From here on it has a state.
    scaler.update(128.0)
    kept.save(network, optimiser, seed=1)
    again = torch.amp.GradScaler("cpu")
    path = tmp_path / "kept.safetensors"
    assert Checkpoint(None, read_from=path, scaler=again).load(network, optimiser, seed=1) == 1
    assert again.state_dict() == scaler.state_dict()
    assert again.get_scale() == 128.0


def test_a_loss_that_is_no_number_is_never_the_best() -> None:
    """NaN in the first epoch, later or always; of equal losses the first is the best."""
    nan = math.nan
    for losses, best in (([nan, 0.5, 0.4], 3), ([0.5, nan, 0.5], 1), ([nan, math.inf, nan], None), ([], None)):
        assert History([1.0] * len(losses), losses).best == best
        state, module = Checkpoint(None), nn.Linear(1, 1)
        for epoch, loss in enumerate(losses, 1):
            nn.init.constant_(module.weight, epoch)
            state.keep_best(module, loss)
        state.restore_best(module)
        if losses:
            assert float(module.weight.detach()) == (best or len(losses))


def test_processes_draw_dropout_of_their_own() -> None:
    """Each process, and each epoch, masks other numbers; a process repeats its own in another training."""

    class Noted(Plain):
        def forward(self, batch: Batch) -> Tensor:
            if self.training:
                masks.append(nn.functional.dropout(torch.ones(64)))
            return super().forward(batch)

    drawn = []
    for rank in (0, 1, 1):
        masks: list[Tensor] = []
        judge = make_judge(Noted, epochs=2, batch_size=32)
        judge.trainer.rank = rank
        judge.fit(make_samples(16), seed=0)
        drawn.append(torch.stack(masks))
    assert torch.equal(drawn[1], drawn[2])
    assert not torch.equal(drawn[0][0], drawn[1][0])
    assert not torch.equal(drawn[1][0], drawn[1][1])


class Tied(nn.Module):
    """A captioner: embedding and output share their weights, as in most; the decoder is frozen."""

    def __init__(self, target: Target, samples: Sequence[Sample], materials: Materials = NOTHING) -> None:
        super().__init__()
        words = sorted({word for s in samples for word in s.words} | {"therefore", *target.classes})
        self.index = {word: i for i, word in enumerate(words)}
        self.answers = torch.tensor([self.index[name] for name in target.classes])
        self.embed = nn.Embedding(len(words), 16)
        self.decoder = nn.GRU(16, 16, batch_first=True).requires_grad_(False)
        self.head = nn.Linear(16, len(words))
        self.head.weight = self.embed.weight

    def collate(self, samples: Sequence[Sample]) -> Batch:
        rows = [torch.tensor([self.index.get(w, 0) for w in (*s.words, "therefore")]) for s in samples]
        last = torch.tensor([len(row) - 1 for row in rows])
        return {"prompt": nn.utils.rnn.pad_sequence(rows, batch_first=True), "last": last}

    def forward(self, batch: Batch) -> Tensor:
        states, _ = self.decoder(self.embed(batch["prompt"]))
        return self.head(states[torch.arange(len(states)), batch["last"]]).log_softmax(dim=-1)[:, self.answers]


def test_tied_and_frozen_weights_resume_too(tmp_path: Path) -> None:
    from safetensors import safe_open

    samples = make_samples(60, clue=0.6)
    path = tmp_path / "training.safetensors"

    def fit(epochs: int, checkpoint: Path | None) -> np.ndarray:
        judge = make_judge(Tied, checkpoint=checkpoint, epochs=epochs, learning_rate=0.05).fit(samples, seed=0)
        return judge.predict(samples).probabilities

    whole = fit(4, None)
    fit(2, path)
    with safe_open(path, framework="pt") as file:
        kept = {name for name in file.keys() if name.startswith("model/")}  # noqa: SIM118 - no mapping
    assert kept == {"model/embed.weight", "model/head.bias"}
    assert np.array_equal(whole, fit(4, path))


def test_a_judge_that_was_kept_answers_as_before(tmp_path: Path) -> None:
    samples = make_samples(60, clue=0.6)
    path = tmp_path / "judge.safetensors"
    judge = make_judge(Tied).fit(samples, seed=3)
    save_network(judge, path)
    again = make_judge(Tied).restore(samples, path, seed=3)
    assert np.array_equal(judge.predict(samples).probabilities, again.predict(samples).probabilities)
    assert read_history(path) == judge.history
    path.write_bytes(path.read_bytes()[:-1])
    assert read_history(path) is None
    line = fault_of(make_judge(Tied).restore, samples, path, seed=3)
    assert "judge.safetensors: there are no weights, or they are damaged" in line


class Forgetful(Words):
    """Runs out of memory from the fourth pass of its training on, or in predictions of more than ``most`` captions.

    Attributes:
        lacks: whether training runs out of memory.
        most: captions of a prediction's pass.
        passes, predicted: captions of each pass so far, of training and of predictions.
    """

    lacks, most = False, 1000

    def __init__(self, target: Target, samples: Sequence[Sample], materials: Materials = NOTHING) -> None:
        super().__init__(target, samples)
        self.passes: list[int] = []
        self.predicted: list[int] = []

    def forward(self, batch: Batch) -> Tensor:
        size, logits = len(batch["starts"]), super().forward(batch)
        (self.passes if self.training else self.predicted).append(size)
        if self.lacks and len(self.passes) > 3 if self.training else size > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return logits


def train_plainly(samples: Sequence[Sample], size: int, *, batch_size: int) -> tuple[nn.Module, list[float]]:
    """The weights of three epochs with micro-batches of ``size``, and the epochs' losses."""
    torch.manual_seed(derive_seed(0, 0, 0))
    network, losses = Words(GENDER, samples), []
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02, fused=True)
    for epoch in range(3):
        torch.manual_seed(derive_seed(0, epoch, 0))
        order = np.random.default_rng(derive_seed(0, epoch, 0)).permutation(len(samples))
        total = 0.0
        for start in range(0, len(order), batch_size):
            batch = [samples[place] for place in order[start : start + batch_size]]
            for part in (batch[at : at + size] for at in range(0, len(batch), size)):
                logits, truth = network(network.collate(part)), torch.tensor([sample.answers[0] for sample in part])
                each = nn.functional.cross_entropy(logits, truth, reduction="none")
                loss = (torch.tensor([sample.weight for sample in part]) * each).sum()
                loss = loss * (1 / sum(sample.weight for sample in batch))
                loss.backward()
                total += loss.item() * len(batch)
            optimiser.step()
            optimiser.zero_grad()
        losses.append(total / len(samples))
    return network, losses


@pytest.mark.parametrize("size", [16, 5])
@pytest.mark.parametrize("workers", [0, 1])
def test_training_is_that_of_a_plain_loop(size: int, workers: int) -> None:
    """Bit for bit, with dropout, weights (as of copies in a mean) and micro-batches of ``size``; of 5 one is left."""
    samples = [replace(sample, weight=1.0 + number % 3) for number, sample in enumerate(make_samples(50, clue=0.5))]
    expected, losses = train_plainly(samples, size, batch_size=16)
    judge, steps = make_judge(Words, micro_batch=size, epochs=3), list[int]()
    judge.trainer.workers, judge.trainer.on_step = workers, steps.append
    judge.fit(samples, seed=0)
    for name, weight in judge.module.state_dict().items():
        assert torch.equal(weight, expected.state_dict()[name]), name
    assert judge.history.training == losses
    assert steps == [0] + [1] * 12


def test_predictions_without_memory_are_repeated_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = make_samples(50, clue=0.5)
    monkeypatch.setattr(Forgetful, "most", 5)
    judge = make_judge(Forgetful, epochs=1, micro_batch=16, keep="best")
    judge.fit(samples, seed=0, validation=samples)
    whole = make_judge(Words, epochs=1, keep="best").fit(samples, seed=0, validation=samples)
    assert judge.history.validation == pytest.approx(whole.history.validation, abs=1e-6)
    assert judge.predict(samples).probabilities == pytest.approx(whole.predict(samples).probabilities, abs=1e-6)
    assert cast(Any, judge.network).predicted[-13:] == [4] * 12 + [2]


def test_a_lack_of_memory_in_training_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forgetful, "lacks", True)
    line = fault_of(make_judge(Forgetful, micro_batch=4).fit, make_samples(50), seed=0)
    mend = "ake a smaller judge, --tuning lora or frozen, or --training precision=bf16."
    assert line == f"training judge 'test': memory has run out. Take a smaller --training micro_batch=N, or t{mend}"
    monkeypatch.setattr(Forgetful, "lacks", False)
    monkeypatch.setattr(torch.optim.Adam, "step", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory.")))
    assert "memory has run out" in fault_of(make_judge(Forgetful, micro_batch=4).fit, make_samples(50), seed=0)


class Mortal(Words):
    """Whoever collates for it beside its own process is ended, as by a kernel that lacks memory."""

    def collate(self, samples: Sequence[Sample]) -> Batch:
        if torch.utils.data.get_worker_info():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().collate(samples)


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked")
def test_a_loader_that_is_ended_is_told_in_one_line() -> None:
    judge, samples = make_judge(Mortal, epochs=1), make_samples(20)
    judge.fit(samples, seed=0).trainer.workers = 1
    for work in (partial(judge.fit, seed=0), judge.predict):
        assert fault_of(work, samples).startswith(
            "--training dataloader_workers: a process that prepares batches was ended"
        )


class Certain(nn.Module):
    """Logits of +-100: of class (or task) i of sample n, +100 where n = i; -100 elsewhere."""

    def __init__(self, target: Target, *, whole: bool) -> None:
        super().__init__()
        self.classes, self.whole = len(target.classes), whole

    def collate(self, samples: Sequence[Sample]) -> Batch:
        return {"numbers": torch.tensor([int(sample.image_id) for sample in samples])}

    def forward(self, batch: Batch) -> Tensor:
        logits = torch.where(batch["numbers"][:, None] == torch.arange(self.classes), 100.0, -100.0)
        return 10 * logits.log_softmax(dim=-1) if self.whole else logits


@pytest.mark.parametrize(("kind", "whole"), [("attribute", False), ("attribute", True), ("tasks", False)])
def test_a_judge_that_is_certain_and_wrong_has_a_finite_loss(kind: TargetKind, whole: bool) -> None:
    target = replace(THREE, kind=kind)
    samples = [Sample(str(n), "human", 0, (), (answer,)) for n, answer in enumerate((1, 2, 2, 0))]
    judge = judge_with(Certain(target, whole=whole), Recipe(epochs=1, learning_rate=1.0), target=target)
    judge.among_words = whole
    found = judge.predict(samples).probabilities
    assert ((found > 0) & (found < 1)).all()
    assert found[:3].argmax(axis=1).tolist() == [0, 1, 2]
    losses = judge_answers(multi_hot([of.answers for of in samples], 3), Predictions(found, target))["loss"]
    assert np.isfinite(losses).all()
    if whole:
        # Ten times a log-probability of -200: below all that float64 holds, log(2^-1022).
        assert losses == pytest.approx([1022 * np.log(2)] * 2 + [np.exp(-36)] + [10 * np.log(3)])
    elif kind == "attribute":
        assert found.sum(axis=1) == pytest.approx([1] * 4, abs=1e-12)
        assert losses == pytest.approx([36, 36, 0, np.log(3)], abs=1e-12)
        # 1 + exp(-36) + exp(-36) is all that there is beside the most probable class.
        assert found[0, 1] == pytest.approx(np.exp(-36), rel=1e-12)
    else:
        # Two labels of three wrong, or none, or (nothing said) one; next to 1, float64 has steps of 1.1e-16.
        assert losses == pytest.approx([2 * 36 / 3, 2 * 36 / 3, 0, 36 / 3], abs=0.02)
        assert found[0] == pytest.approx([1, np.exp(-36), np.exp(-36)], rel=1e-12)


def test_ordinary_logits_become_what_torch_makes_of_them() -> None:
    """To the last bit: cutting off what is certain moves nothing else."""
    logits = torch.randn(500, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 5
    assert np.array_equal(to_probabilities(logits, THREE), logits.softmax(dim=-1).numpy())
    assert np.array_equal(to_probabilities(logits, replace(THREE, kind="tasks")), logits.sigmoid().numpy())
    whole = logits.log_softmax(dim=-1)
    assert np.array_equal(to_probabilities(whole, THREE, among_words=True), whole.exp().numpy())
    assert np.isnan(to_probabilities(logits * torch.nan, THREE)).all()


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        ("ACCELERATE_USE_DEEPSPEED", "true", "DeepSpeed is not supported. Use scripts/configs/fsdp.yaml"),
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4", "--training micro_batch=N cuts them up"),
        ("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR", "torch.compile is not supported. Leave --dynamo_backend out"),
        ("ACCELERATE_MIXED_PRECISION", "fp8", "fp8 is not supported. Use --mixed_precision bf16"),
        ("ACCELERATE_MIXED_PRECISION", "fp16", "--training precision=fp16: fp16 is not supported under FSDP"),
    ],
)
def test_what_a_launch_may_not_ask_for(variable: str, value: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "1")
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "NO")
    make_accelerator()
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv(variable, value)
    assert line in fault_of(make_accelerator)


def test_as_many_numbers_as_there_are_make_a_seed() -> None:
    """Of three numbers it is the one that published figures are of."""
    seeds = [derive_seed(*numbers) for numbers in ((7,), (7, 0), (7, 0, 0), (7, 0, 0, 0), (0,), ())]
    assert len(set(seeds)) == 6
    assert derive_seed(7, 0, 0) == int(np.random.SeedSequence([7]).generate_state(1, np.uint64)[0] >> np.uint64(1))


@pytest.mark.parametrize("judge", ["lstm", "rnn+mlp3", "transformer-1"])
def test_bf16_tells_as_many_captions_apart(judge: str) -> None:
    """Output layers are of float32: bf16's logits would be fewer than captions."""
    blueprint, samples = find_judge(judge), make_samples(300, clue=0.7)
    assert blueprint.recipe
    recipe = replace(blueprint.recipe, epochs=1)
    made = NetworkJudge(blueprint, GENDER, recipe, Trainer(make_accelerator(mixed_precision="bf16")))
    made.fit(samples[:40], seed=1)
    captions = len({sample.words for sample in samples})
    assert len(np.unique(made.predict(samples).probabilities[:, 0])) > 0.99 * captions


def test_lstm_is_the_papers() -> None:
    """CVPR 2022, A.1: two bidirectional layers, 100 and 256; one linear layer reads the states of the second."""
    samples = make_samples(10)
    words = build_vocabulary(samples)
    network = make_lstm(words, 2).eval()
    first, second = (4 * 256 * (inputs + 256 + 2) * 2 for inputs in (100, 512))
    assert sum(p.numel() for p in network.parameters()) == len(words) * 100 + first + second + 512 * 2 + 2
    batch = network.collate(samples)
    packed = pack_padded_sequence(
        network.embedding(batch["tokens"]), batch["lengths"], batch_first=True, enforce_sorted=False
    )
    _, (states, _) = network.encoder.layer(packed)
    assert torch.allclose(network(batch), network.head(torch.cat([states[-2], states[-1]], dim=1)), atol=1e-6)


@pytest.mark.parametrize("how", [
    {"warmup": 0.3}, {"warmup": 0.25, "decay": True}, {"decay": True, "batch_size": 1}, {"warmup": 0.96, "decay": True},
])  # fmt: skip
def test_the_learning_rate_rises_and_falls(how: dict[str, Any]) -> None:
    """By the closed form, step by step; a last batch of one sample is no step of its own. It may rise in all steps."""
    rates: list[float] = []
    judge = make_judge(Plain, **{"batch_size": 8, "epochs": 2} | how)
    samples = make_samples(17, clue=0.5)
    step = torch.optim.Adam.step

    def noted(self: torch.optim.Adam, *given: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given)

    with patch.object(torch.optim.Adam, "step", noted):
        judge.fit(samples, seed=0)
    total = 4 if len(rates) == 4 else 32
    rising = round(how.get("warmup", 0) * total)
    rise = [0.02 * (n + 1) / rising for n in range(rising)]
    fall = [0.02 * (1 - n / (total - rising) if "decay" in how else 1) for n in range(total - rising)]
    assert rates == pytest.approx(rise + fall)


def test_gradients_are_clipped_to_a_length() -> None:
    """Of all weights together: the first step's is Adam's input, whose first moment is a tenth of it."""
    samples = make_samples(16, clue=0.5)
    moments, optimisers = [], []
    for clip in (None, 1e3, 1e-3):
        judge = make_judge(Plain, epochs=1, clip=clip)
        made = Mock(side_effect=lambda *given: optimisers.append(make_optimiser(*given)) or optimisers[-1])
        with patch.object(loop, "make_optimiser", made):
            judge.fit(samples, seed=0)
        first = [slots["exp_avg"].flatten() for slots in optimisers[-1].state_dict()["state"].values()]
        moments.append(torch.cat(first) / 0.1)
    assert torch.equal(moments[0], moments[1])
    assert float(moments[0].norm()) > 1e-2
    assert float(moments[2].norm()) == pytest.approx(1e-3, rel=1e-3)
    assert (moments[2] / 1e-3).numpy() == pytest.approx((moments[0] / moments[0].norm()).numpy(), abs=1e-3)
