"""One trainer for every network: text, pictures, prompts; one class or many tasks; killed and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import GENDER, THREE, accuracy, make_samples
from torch import Tensor, nn

from judge.errors import JudgeError
from judge.judges import Batch, Blueprint, Recipe, find_judge
from judge.training.trainer import NetworkJudge, Trainer, make_accelerator
from judge.types import Sample, Target


class Words(nn.Module):
    """Mean of word vectors, dropout, linear: small, but with every part a real judge has."""

    def __init__(self, target: Target, samples: Sequence[Sample]) -> None:
        super().__init__()
        self.index = {word: i for i, word in enumerate(sorted({word for s in samples for word in s.words}))}
        self.vectors = nn.EmbeddingBag(len(self.index), 8)
        self.output = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, len(target.classes)))

    def collate(self, samples: Sequence[Sample]) -> Batch:
        rows = [torch.tensor([self.index[word] for word in s.words if word in self.index] or [0]) for s in samples]
        return {"words": torch.cat(rows), "starts": torch.tensor([0, *map(len, rows[:-1])]).cumsum(0)}

    def forward(self, batch: Batch) -> Tensor:
        logits: Tensor = self.output(self.vectors(batch["words"], batch["starts"]))
        return logits


class Pictures(nn.Module):
    """A classifier on pixels: the picture of an image is drawn from its name; its class is its brighter half."""

    def __init__(self, target: Target, samples: Sequence[Sample]) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(len(target.classes)))
        self.layers(self.collate(samples[:1])["pixels"])

    def collate(self, samples: Sequence[Sample]) -> Batch:
        def draw(sample: Sample) -> Tensor:
            assert sample.image is not None
            pixels = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(int(Path(sample.image).stem)))
            half = slice(0, 4) if sample.answers[0] == 0 else slice(4, 8)
            pixels[:, half] += 1
            return pixels

        return {"pixels": torch.stack([draw(sample) for sample in samples])}

    def forward(self, batch: Batch) -> Tensor:
        logits: Tensor = self.layers(batch["pixels"])
        return logits


class Prompted(nn.Module):
    """A captioner as judge: a language model over caption + template, read at the answers' word pieces."""

    def __init__(self, target: Target, samples: Sequence[Sample]) -> None:
        super().__init__()
        words = sorted({word for s in samples for word in s.words} | {"therefore", *target.classes})
        self.index = {word: i for i, word in enumerate(words)}
        self.answers = torch.tensor([self.index[name] for name in target.classes])
        self.embed = nn.Embedding(len(words), 16)
        self.decoder = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, len(words))

    def collate(self, samples: Sequence[Sample]) -> Batch:
        rows = [torch.tensor([self.index.get(w, 0) for w in (*s.words, "therefore")]) for s in samples]
        return {
            "prompt": nn.utils.rnn.pad_sequence(rows, batch_first=True),
            "last": torch.tensor([len(row) - 1 for row in rows]),
        }

    def forward(self, batch: Batch) -> Tensor:
        states, _ = self.decoder(self.embed(batch["prompt"]))
        after = self.head(states[torch.arange(len(states)), batch["last"]]).log_softmax(dim=-1)
        answers: Tensor = after[:, self.answers.to(after.device)]
        return answers


def make_judge(network: type[nn.Module], target: Target = GENDER, **recipe: object) -> NetworkJudge:
    settings = {"epochs": 5, "learning_rate": 0.02, "batch_size": 16} | recipe
    blueprint = Blueprint("test", "this test", network=network, recipe=Recipe(**settings))
    assert blueprint.recipe
    return NetworkJudge(blueprint, target, blueprint.recipe, Trainer(make_accelerator()))


@pytest.mark.parametrize("network", [Words, Pictures, Prompted])
def test_every_kind_of_network_learns(network: type[nn.Module]) -> None:
    train, test = make_samples(200), make_samples(100, seed=1)
    found = make_judge(network).fit(train, seed=0).predict(test)
    assert found.probabilities.shape == (100, 2)
    assert found.probabilities.sum(axis=1) == pytest.approx(1)
    assert accuracy(found.probabilities, test) > 0.95


def test_three_classes() -> None:
    train, test = make_samples(300, target=THREE), make_samples(100, target=THREE, seed=1)
    found = make_judge(Words, THREE, epochs=12).fit(train, seed=0).predict(test)
    assert accuracy(found.probabilities, test) > 0.95


def test_tasks_are_independent_bernoullis() -> None:
    """Several answers at once: a word per task, any subset of three tasks true."""
    target = Target("tasks", ("kite", "cake", "dog"))
    rng = np.random.default_rng(0)
    samples = []
    for image in range(300):
        present = tuple(int(k) for k in np.flatnonzero(rng.random(3) < 0.4))
        samples.append(Sample(str(image), "human", 0, ("a", *(f"w{k}" for k in present)), present))
    found = make_judge(Words, target, epochs=30, learning_rate=0.05).fit(samples[:200], seed=0).predict(samples[200:])
    truth = np.array([[k in sample.answers for k in range(3)] for sample in samples[200:]])
    assert ((found.probabilities > 0.5) == truth).mean() > 0.95
    assert not np.allclose(found.probabilities.sum(axis=1), 1)


def test_seed_decides_everything() -> None:
    samples = make_samples(60, clue=0.5)
    torch.manual_seed(123)
    first = make_judge(Words).fit(samples, seed=4).predict(samples).probabilities
    torch.rand(17)  # What ran before does not matter.
    again = make_judge(Words).fit(samples, seed=4).predict(samples).probabilities
    other = make_judge(Words).fit(samples, seed=5).predict(samples).probabilities
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


class Plain(Words):
    """Without dropout, which draws other masks for other shapes."""

    def __init__(self, target: Target, samples: Sequence[Sample]) -> None:
        super().__init__(target, samples)
        self.output = nn.Sequential(nn.Linear(8, len(target.classes)))


def test_micro_batches_add_up_to_the_batch() -> None:
    samples = make_samples(50, clue=0.5)
    weighted = [Sample(s.image_id, s.side, 0, s.words, s.answers, weight=1 + s.answers[0]) for s in samples]
    whole = make_judge(Plain).fit(weighted, seed=0).predict(samples).probabilities
    pieces = make_judge(Plain, micro_batch=5).fit(weighted, seed=0).predict(samples).probabilities
    assert pieces == pytest.approx(whole, abs=1e-5)


def test_weights_are_copies() -> None:
    """A sample of weight 2 counts as two samples, in a full batch."""
    samples = make_samples(12, clue=0.5)
    doubled = [
        Sample(s.image_id, s.side, 0, s.words, s.answers, weight=2.0 if i < 4 else 1.0) for i, s in enumerate(samples)
    ]
    one = make_judge(Plain, batch_size=64).fit(doubled, seed=0).predict(samples).probabilities
    two = make_judge(Plain, batch_size=64).fit([*samples[:4], *samples], seed=0).predict(samples).probabilities
    assert one == pytest.approx(two, abs=1e-5)


@pytest.mark.parametrize("keep", ["last", "best"])
@pytest.mark.parametrize("killed_after", [1, 3])
def test_killed_and_resumed_bit_for_bit(tmp_path: Path, keep: str, killed_after: int) -> None:
    samples, validation = make_samples(60, clue=0.6), make_samples(30, clue=0.6, seed=9)
    recipe = Recipe(epochs=5, learning_rate=0.05, batch_size=16, keep=keep)
    blueprint = Blueprint("test", "this test", network=Words, recipe=recipe)

    def fit(trainer: Trainer) -> np.ndarray:
        judge = NetworkJudge(blueprint, GENDER, recipe, trainer).fit(samples, seed=0, validation=validation)
        return judge.predict(validation).probabilities

    class KilledError(Exception):
        pass

    def kill(done: int, loss: float) -> None:
        if done == killed_after:
            raise KilledError

    whole = fit(Trainer(make_accelerator()))
    path = tmp_path / "training.safetensors"
    with pytest.raises(KilledError):
        fit(Trainer(make_accelerator(), checkpoint=path, seconds=0, on_epoch=kill))
    epochs: list[int] = []
    resumed = fit(
        Trainer(make_accelerator(), checkpoint=path, seconds=0, on_epoch=lambda done, loss: epochs.append(done))
    )
    assert epochs == list(range(killed_after + 1, 6))
    assert np.array_equal(whole, resumed)
    assert [entry.name for entry in tmp_path.iterdir()] == ["training.safetensors"]


def test_best_epoch_is_the_one_of_least_validation_loss() -> None:
    """With a learning rate that wrecks the network later on, "best" must beat "last" on its own yardstick."""
    samples, validation = make_samples(60, clue=0.7), make_samples(60, clue=0.7, seed=9)

    def loss(keep: str) -> float:
        judge = make_judge(Words, epochs=25, learning_rate=0.2, keep=keep).fit(samples, seed=1, validation=validation)
        found = judge.predict(validation).probabilities
        return float(-np.log([row[s.answers[0]] for row, s in zip(found, validation, strict=True)]).mean())

    assert loss("best") < loss("last")


class Tied(Prompted):
    """Embedding and output share their weights, as in most captioners; the decoder is frozen."""

    def __init__(self, target: Target, samples: Sequence[Sample]) -> None:
        super().__init__(target, samples)
        self.decoder = nn.GRU(16, 16, batch_first=True).requires_grad_(False)
        self.head = nn.Linear(16, len(self.index))
        self.head.weight = self.embed.weight


def test_tied_and_frozen_weights_resume_too(tmp_path: Path) -> None:
    from safetensors import safe_open

    samples = make_samples(60, clue=0.6)
    recipe = Recipe(epochs=4, learning_rate=0.05, batch_size=16)
    path = tmp_path / "training.safetensors"

    def fit(epochs: int, checkpoint: Path | None) -> np.ndarray:
        blueprint = Blueprint("test", "this test", network=Tied, recipe=recipe)
        trainer = Trainer(make_accelerator(), checkpoint=checkpoint, seconds=0)
        judge = NetworkJudge(blueprint, GENDER, replace(recipe, epochs=epochs), trainer).fit(samples, seed=0)
        return judge.predict(samples).probabilities

    whole = fit(4, None)
    fit(2, path)
    with safe_open(path, framework="pt") as file:
        kept = {name for name in file.keys() if name.startswith("model/")}  # noqa: SIM118 - no mapping
    assert kept == {"model/embed.weight", "model/head.bias"}
    assert np.array_equal(whole, fit(4, path))


def test_best_needs_validation() -> None:
    with pytest.raises(JudgeError, match="nothing to choose the best epoch by"):
        make_judge(Words, keep="best").fit(make_samples(20), seed=0)


class Broken(Words):
    """Divides by nothing."""

    def forward(self, batch: Batch) -> Tensor:
        return super().forward(batch) / 0


def test_nan_loss_is_one_clear_line() -> None:
    with pytest.raises(JudgeError, match=r"training: loss is nan in epoch 1\. Lower --learning-rate"):
        make_judge(Broken).fit(make_samples(20), seed=0)


def test_a_launch_that_gave_one_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `accelerate launch` leaves behind with MULTI_CPU and --num_processes 2: one process, no RANK."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(JudgeError, match="several processes were asked for, and this one is alone"):
        make_accelerator()


def test_lstm_ignores_padding() -> None:
    """A caption's logits do not depend on the longer captions beside it, nor on words that training never had."""
    samples = make_samples(40)
    blueprint = find_judge("lstm")
    assert blueprint.network
    network = blueprint.network(GENDER, samples)
    assert isinstance(network, nn.Module)
    network.eval()
    long = Sample("x", "human", 0, samples[0].words * 5, (0,))
    with torch.no_grad():
        alone = network(network.collate(samples[:1]))
        beside = network(network.collate([samples[0], long]))[:1]
        unseen = network(network.collate([Sample("y", "human", 0, ("never",), (0,))]))
        unknown = network(network.collate([Sample("y", "human", 0, ("<unk>",), (0,))]))
        empty = network(network.collate([Sample("y", "human", 0, (), (0,))]))
    assert torch.allclose(alone, beside, atol=1e-6)
    assert torch.equal(unseen, unknown)
    assert torch.equal(empty, unknown)
