"""What a run keeps and finds damaged: made anew, told in one line, and never another result."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from detector_samples import FakeDetector
from helpers import done_well, fault_of, few, judge, make_samples
from training.test_trainer import KilledError, Words, make_judge

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.captioning.notes import Notes
from judge.errors import JudgeError
from judge.masking.cache import Cached
from judge.masking.instances import LoadedImage
from judge.training.checkpoint import is_sound, load_predictions
from judge.training.features import CaptionCache, FeatureCache
from judge.utils.outputs import ResumableFolder

MANY = 500
SIZE = 64


@pytest.fixture
def told() -> Iterator[list[tuple[str, str]]]:
    """Files that are told to be damaged, and what is said."""
    found: list[tuple[str, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        for module in ("utils.files", "training.checkpoint", "training.features", "captioning.notes"):
            patch.setattr(f"judge.{module}.warn_damaged", lambda path, what="damaged": found.append((path.name, what)))
        yield found


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Judges that train themselves, that read and that see; of the last, features are kept."""
    folder = tmp_path_factory.mktemp("kept")
    captioners = {"much": Captioner(stereotype=0.9)}
    files = few(write_world(make_world(60, seed=5), captioners, folder / "world", pictures=SIZE))
    given = ["--human", files.human, "--captions", files.captions["much"], "--labels", files.labels]
    given += ["--images", files.folder / "images", "--instances", files.folder / "instances.json", "--image-size", SIZE]
    given += ["--metrics", "lic,imagecaptioner2", "--judge", "linear,lstm,sat", "--protocol", "paper", "--seeds", 2]
    given += ["--epochs", 1, "--resamples", 100, "--workers", 1, "--backbone", "resnet18"]
    return ["evaluate", *given, "--backbone-weights", "random"]


@pytest.fixture(scope="module")
def finished(settings: list[object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and all that it keeps: ``judges`` and ``features``."""
    folder = tmp_path_factory.mktemp("finished")
    done_well(*settings, *places(folder))
    return folder


def places(folder: Path) -> list[object]:
    return ["--checkpoints", folder / "judges", "--features", folder / "features", "--out", folder / "run"]


def kept_files(folder: Path) -> list[Path]:
    """All of them; of each judge answers or weights, in turn."""
    answers = sorted(path for path in (folder / "judges").glob("*.safetensors") if ".weights" not in path.name)
    weights = [path.with_suffix(".weights.safetensors") for path in answers]
    chosen = [
        weigh if weigh.exists() and i % 2 else path
        for i, (path, weigh) in enumerate(zip(answers, weights, strict=True))
    ]
    return [*chosen, *sorted((folder / "features").rglob("*.npy"))]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-8]),
    "empty": lambda path: path.write_bytes(b""),
    "noise": lambda path: path.write_bytes(b"\x08" * 200),
}


def test_a_damaged_store_gives_the_same_results(settings: list[object], finished: Path, tmp_path: Path) -> None:
    """Every file is damaged, each in another way; one and a count are told; results byte for byte."""
    folder = tmp_path / "damaged"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "run")
    damaged = kept_files(folder)
    assert {path.name.partition(".")[2] for path in damaged} == {"safetensors", "weights.safetensors", "npy"}
    for place, path in enumerate(damaged):
        list(DAMAGES.values())[place % len(DAMAGES)](path)
    done = done_well(*settings, *places(folder))
    for name in ("metrics.json", "scores.parquet"):
        assert (folder / "run" / name).read_bytes() == (finished / "run" / name).read_bytes(), name
    first, *_, count = [line for line in done.stderr.splitlines() if "computed again" in line]
    assert first.startswith(tuple(f"judge: {path} is " for path in damaged))
    assert count == f"judge: {len(damaged) - 1} more cache files are computed again"
    assert done.stderr.count("computed again") == 2
    for path in damaged:
        assert path.read_bytes() == (finished / path.relative_to(folder)).read_bytes()


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Two trainings under way, each after its first epoch."""
    for name in ("one", "other"):
        fit(tmp_path / f"{name}.training.safetensors", killed=True)
    return tmp_path / "one.training.safetensors"


def fit(path: Path | None, *, killed: bool = False, images: int = 60) -> tuple[list[int], np.ndarray]:
    """Train a judge; the epochs that this took, and what it answers."""
    samples, epochs = make_samples(images, clue=0.6), list[int]()

    def tell(done: int, loss: float) -> None:
        epochs.append(done)
        if killed:
            raise KilledError

    judge = make_judge(Words if images == 60 else Wider, epochs=3, keep="best", checkpoint=path, on_epoch=tell)
    try:
        judge.fit(samples, seed=0, validation=samples[:30])
    except KilledError:
        return epochs, np.empty(0)
    return epochs, judge.predict(samples).probabilities


class Wider(Words):
    """Of other code."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.output.append(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_training_begins_anew(damage: str, begun: Path, told: list[tuple[str, str]]) -> None:
    DAMAGES[damage](begun)
    epochs, found = fit(begun)
    assert epochs == [1, 2, 3]
    assert np.array_equal(found, fit(None)[1])
    assert [file for file, _ in told] == [begun.name]


def test_a_training_of_another_network_begins_anew(begun: Path, told: list[tuple[str, str]]) -> None:
    """Under its name, with a checksum that holds: code changed, and its version did not."""
    assert fit(begun)[0] == [2, 3]
    fit(begun, killed=True)
    assert np.array_equal(fit(begun, images=61)[1], fit(None, images=61)[1])
    assert told == [(begun.name, "of another network")]


def test_files_that_are_none(begun: Path, told: list[tuple[str, str]]) -> None:
    """A folder, a pipe, a link to nothing or to another's in a file's place; one that cannot be read."""
    other, link = begun.with_name("other.training.safetensors"), begun.with_name("link.training.safetensors")
    link.symlink_to("nowhere")
    assert not is_sound(link)
    assert told == []
    link.unlink()
    link.symlink_to(other)
    begun.unlink()
    begun.mkdir()
    pipe = begun.with_name("pipe")
    os.mkfifo(pipe)
    loop = begun.with_name("loop")
    loop.symlink_to(loop)
    for path in (begun, pipe):
        assert not is_sound(path)
    assert is_sound(link)
    assert "Too many levels of symbolic links" in fault_of(is_sound, loop)
    assert [what for _, what in told] == ["damaged"] * 2
    assert fault_of(fit, begun).startswith(f"{begun}: cannot be written (Is a directory)")


def test_a_read_error_is_told_and_removes_nothing(
    begun: Path, tmp_path: Path, told: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file server that was restarted: a training under way, features, detections, a noted folder, unfinished work."""
    keys = {str(number): str(number) for number in range(3)}
    features = CaptionCache(Mock(key="reader"), [(key,) for key in keys], tmp_path / "features")
    features._keep([*features.keys.values()][:2], np.ones((2, 1, 3), dtype=np.float32))
    detector = FakeDetector(lambda _: ())
    picture = LoadedImage("a", np.zeros((4, 4, 3), dtype=np.uint8))
    Cached(detector, tmp_path / "detections").detect(picture)
    work = ResumableFolder(tmp_path / "run", what="run", command="judge evaluate")
    work.begin()
    (work.store / "judge").write_bytes(b"finished")
    work.lock.release()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def stale(path: Path) -> Any:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    with monkeypatch.context() as patch:
        patch.setattr("judge.utils.reading.open_regular", stale)
        for reads in (
            lambda: is_sound(begun),
            features.missing,
            lambda: Cached(detector, tmp_path / "detections").detect(picture),
            lambda: load_predictions(begun),
        ):
            line = fault_of(reads)
            assert "cannot be read or written (Stale file handle)" in line
            assert str(tmp_path) in line
        patch.setattr(os, "scandir", stale)
        with pytest.raises(JudgeError, match="goes on from what is finished"), work.working():
            raise JudgeError("a fault")
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert told == []


def test_captions_behind_a_damaged_line_are_written_again(tmp_path: Path, told: list[tuple[str, str]]) -> None:
    """A line that a kill cut costs no warning."""
    path = tmp_path / "notes"
    Notes(path, "key").add({(str(image), "a"): f"caption {image}" for image in range(5)})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines).replace(b'caption 2"', b"caption 2"))
    kept = Notes(path, "key")
    assert list(kept.entries.values()) == ["caption 0", "caption 1"]
    kept.add({("2", "a"): "caption 2"})
    path.write_bytes(path.read_bytes() + lines[4][:-5])
    assert list(Notes(path, "key").entries.values()) == ["caption 0", "caption 1", "caption 2"]
    assert Notes(path, "another").entries == {}
    assert told == [("notes", "damaged after 2 captions")]


def test_features_that_are_no_numbers_are_not_blamed_on_the_learning_rate(
    settings: list[object], finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where their checksum holds: the line names the file."""
    folder = tmp_path / "forged"
    shutil.copytree(finished / "features", folder / "features")
    (kept,) = (folder / "features").rglob("*.npy")
    np.save(kept, np.full_like(np.load(kept), np.nan))
    monkeypatch.setattr(FeatureCache, "_name", lambda *_: kept.stem)
    told = judge(*settings, *places(folder))
    assert told.exit_code == 2
    assert told.stderr.splitlines()[-1].startswith(f"judge: {kept}: features are no finite numbers. Remove it: ")
