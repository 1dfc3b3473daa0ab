"""Damaged answers, weights, features and checkpoints: computed again with a warning, never another result."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import GENDER, done_well, fault_of, few, inputs_of, make_samples, pictures_of
from mutations import mutated_bytes
from safetensors import safe_open
from safetensors.numpy import save_file
from training.test_loop import KilledError, Words, make_judge

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.training.checkpoint import Checkpoint
from judge.training.judge_file import read_saved
from judge.utils.tensors import read_notes, read_sound, read_tensors, write_tensors


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """A judge that trains itself, one that reads and one that sees; features of the last are cached."""
    folder = tmp_path_factory.mktemp("stored")
    captioners = {"much": Captioner(stereotype=0.9)}
    files = few(write_world(make_world(30, seed=5), captioners, folder / "world", pictures=32))
    given = [*inputs_of(files, "much"), *pictures_of(files), "--image-size", 32]
    given += ["--metrics", "lic,imagecaptioner2", "--judge", "linear,lstm,sat", "--protocol", "paper", "--seeds", 2]
    given += ["--training", "epochs=1", "--refits", 0, "--chance", 0, "--resamples", 100, "--workers", 1]
    return ["evaluate", *given, "--backbone", "test_resnet", "--backbone-weights", "random"]


@pytest.fixture(scope="module")
def finished(settings: list[object], no_report: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, with ``judges`` and ``features``."""
    folder = tmp_path_factory.mktemp("finished")
    run(settings, folder)
    return folder


def run(settings: list[object], folder: Path) -> str:
    """Evaluate; what is said on standard error."""
    places = ["--checkpoints", folder / "judges", "--cache", folder / "cache", "--out", folder / "run"]
    return done_well(*settings, *places).stderr


def stored_files(folder: Path) -> list[Path]:
    """Answers or weights of each judge, in turn, and features."""
    answers = sorted(path for path in (folder / "judges").glob("*.safetensors") if ".weights" not in path.name)
    weights = [path.with_suffix(".weights.safetensors") for path in answers]
    features = sorted((folder / "cache" / "features").rglob("*.safetensors"))
    return [*answers[::2], *filter(Path.exists, weights[1::2]), *features]


def flip(path: Path) -> None:
    """One bit, within the numbers."""
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


def strip(path: Path) -> None:
    """A valid file without notes."""
    with safe_open(path, framework="np") as file:
        save_file({name: file.get_tensor(name) for name in file.keys()}, path)  # noqa: SIM118 - no mapping


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-8]),
    "empty": lambda path: path.write_bytes(b""),
    "without notes": strip,
    "noise": lambda path: path.write_bytes(b"\x08" * 200),
}


def test_a_damaged_store_gives_the_same_results(settings: list[object], finished: Path, tmp_path: Path) -> None:
    """Every file is damaged, each in another way; the user is warned; results and files are equal byte for byte."""
    folder = tmp_path / "damaged"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "run")
    damaged = stored_files(folder)
    for place, path in enumerate(damaged):
        list(DAMAGES.values())[place % len(DAMAGES)](path)
    told = run(settings, folder)
    for name in ("metrics.json", "scores.parquet"):
        assert (folder / "run" / name).read_bytes() == (finished / "run" / name).read_bytes(), name
    assert "is damaged: it is computed again" in told
    assert f"{len(damaged) - 1} more cache files are computed again" in told
    for path in damaged:
        assert path.read_bytes() == (finished / path.relative_to(folder)).read_bytes()


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A training that was killed after its first epoch."""
    fit(tmp_path / "one.training.safetensors", killed=True)
    return tmp_path / "one.training.safetensors"


def fit(path: Path | None, *, killed: bool = False, images: int = 60) -> tuple[list[int], np.ndarray]:
    """Train a judge; the epochs that this took, and its answers."""
    samples, epochs = make_samples(images, clue=0.6), list[int]()

    def note(done: int, history: object) -> None:
        epochs.append(done)
        if killed:
            raise KilledError

    judge = make_judge(Words if images == 60 else Wider, epochs=3, keep="best", checkpoint=path, on_epoch=note)
    try:
        judge.fit(samples, seed=0, validation=samples[:30])
    except KilledError:
        return epochs, np.empty(0)
    return epochs, judge.predict(samples).probabilities


class Wider(Words):
    """Another version of the code."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.output.append(torch.nn.Linear(2, 2))


def test_whatever_happens_to_bytes_is_noticed(begun: Path) -> None:
    """Tensors, notes and what a training resumes from are those that were written, or none; never an error."""
    answers = begun.with_name("answers.safetensors")
    write_tensors(answers, {"key": np.linspace(0, 1, 40).reshape(20, 2)}, {"key": {"C": 0.1}})
    network = Words(GENDER, make_samples(60, clue=0.6))
    optimiser, seed = torch.optim.Adam(network.parameters()), read_notes(begun)["seed"]

    def answered(path: Path) -> Any:
        found = read_sound(path, read_tensors)
        return found and (found[0]["key"].tolist(), found[1])

    def trained(path: Path) -> Any:
        state = Checkpoint(None, read_from=path)
        done = state.load(network, optimiser, seed=seed)
        return done and (done, state.history, [weight.tolist() for weight in network.state_dict().values()])

    for path, read in ((answers, answered), (begun, trained)):
        whole, absent = path.read_bytes(), 0
        expected = read(path)
        assert expected
        for content in mutated_bytes(whole, 300):
            path.write_bytes(content)
            found = read(path)
            absent += not found
            assert found == expected or not found, content
        assert absent > 0.9 * 300


def test_a_training_of_another_network_begins_anew(begun: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its code changed, and its version did not."""
    assert fit(begun)[0] == [2, 3]
    fit(begun, killed=True)
    assert np.array_equal(fit(begun, images=61)[1], fit(None, images=61)[1])
    assert f"{begun} is of another network" in caplog.text
    caplog.clear()
    fit(begun, killed=True)
    tensors, notes = read_tensors(begun)
    # As earlier versions wrote it, which numbered the weights of the optimiser.
    write_tensors(begun, {re.sub("^optimiser/.*/", "optimiser/0/", name): tensors[name] for name in tensors}, notes)
    assert fit(begun)[0] == [1, 2, 3]
    assert f"{begun} is of another network" in caplog.text


def test_no_regular_file_and_a_read_error(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder or a pipe counts as damaged; an error that may pass is one line."""
    folder, pipe = begun.with_name("folder"), begun.with_name("pipe")
    folder.mkdir()
    os.mkfifo(pipe)
    assert [read_sound(path, read_notes) for path in (folder, pipe, begun.with_name("none"))] == [None] * 3

    def stale(path: Path, written: str) -> Any:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    monkeypatch.setattr("judge.utils.tensors._checksum", stale)
    assert "one.training.safetensors: cannot be read or written (Stale file handle)" in fault_of(read_notes, begun)


def test_other_files_are_no_judges(finished: Path, tmp_path: Path) -> None:
    answers = next(path for path in (finished / "judges").glob("*.safetensors") if ".weights" not in path.name)
    assert "holds no judge's weights" in fault_of(read_saved, answers)
    save_file({"x": np.zeros(3)}, tmp_path / "old", {"judge": "linear", "format": "2"})
    assert "or was written by an older version" in fault_of(read_saved, tmp_path / "old")
    assert "cannot be read (no such file)" in fault_of(read_saved, tmp_path / "none")
