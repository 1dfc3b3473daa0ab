"""What a run keeps and finds damaged: made anew, told in one line, and never another result."""

from __future__ import annotations

import errno
import json
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
from helpers import GENDER, done_well, fault_of, few, judge, make_samples
from mutations import mutated_bytes, outcome
from safetensors import safe_open
from safetensors.numpy import save_file
from training.test_trainer import KilledError, Words, make_judge

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.captioning.notes import Notes
from judge.errors import JudgeError
from judge.masking.cache import Cached
from judge.masking.instances import LoadedImage
from judge.training.asking import open_self_trained
from judge.training.checkpoint import Checkpoint, load_predictions, save_predictions
from judge.training.features import CaptionCache, FeatureCache
from judge.training.saved import read_saved
from judge.utils.folders import ResumableFolder
from judge.utils.kept import is_noted, is_sound, note_digest, read_lines, seal, telling

MANY = 500
SIZE = 64


@pytest.fixture
def told() -> Iterator[list[tuple[str, str]]]:
    """Files that are told to be damaged, and what is said."""
    found: list[tuple[str, str]] = []
    with telling(lambda file, what: found.append((Path(file).name, what))):
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


def flip(path: Path) -> None:
    """One bit, in the midst of the numbers."""
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def strip(path: Path) -> None:
    """Valid, and without metadata; features with an index as of a version that wrote no checksums."""
    if path.suffix == ".npy":
        path.with_suffix(".json").write_text(json.dumps(["a"] * len(np.load(path))))
    else:
        rewrite(path, None)


def break_notes(path: Path) -> None:
    if path.suffix == ".npy":
        path.with_suffix(".json").write_bytes(b"{")
    else:
        rewrite(path, {"notes": "{", "history": "[", "about": "}", "file": path.name, "checksum": "0" * 32})


def rewrite(path: Path, meta: dict[str, str] | None, change: Callable[[np.ndarray], Any] = np.array) -> None:
    if path.suffix == ".npy":
        np.save(path, change(np.load(path)))
        return
    with safe_open(path, framework="np") as file:
        tensors = {name: np.asarray(change(file.get_tensor(name))) for name in file.keys()}  # noqa: SIM118 - no mapping
        known = file.metadata() if meta == {} else meta
    save_file(tensors, path, known)


def change_to(change: Callable[[np.ndarray], Any]) -> Callable[[Path], None]:
    return lambda path: rewrite(path, {}, change)


def swap(path: Path) -> None:
    """Another's, under this name."""
    others = sorted(set(path.parent.glob(path.name[path.name.index(".") :])) - {path})
    others = [other for other in others if ".weights" in other.name or ".weights" not in path.name]
    content = others[0].read_bytes() if others else np.lib.format.MAGIC_PREFIX
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "flipped": flip,
    "cut": truncate,
    "empty": lambda path: path.write_bytes(b"") and None,
    "without metadata": strip,
    "notes broken": break_notes,
    "rows missing": change_to(lambda values: values[:-1] if values.ndim else values + 1),
    "another type": change_to(lambda values: values.astype(np.float32) + (values.dtype == np.float32)),
    "NaN": change_to(lambda values: np.full_like(values, np.nan) if values.dtype.kind == "f" else values + 1),
    "another's": swap,
    "noise": lambda path: path.write_bytes(b"\x08" * 200) and None,
}


@pytest.mark.parametrize("turn", [0, 3, 7])
def test_a_damaged_store_gives_the_same_results(
    turn: int, settings: list[object], finished: Path, tmp_path: Path
) -> None:
    """Every file is damaged, each in another way; all are logged, one and a count told; results byte for byte."""
    folder = tmp_path / "damaged"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "run")
    damaged = kept_files(folder)
    assert {path.name.partition(".")[2] for path in damaged} == {"safetensors", "weights.safetensors", "npy"}
    for place, path in enumerate(damaged):
        list(DAMAGES.values())[(place + turn) % len(DAMAGES)](path)
    done = done_well(*settings, *places(folder))
    for name in ("metrics.json", "scores.parquet"):
        assert (folder / "run" / name).read_bytes() == (finished / "run" / name).read_bytes(), name
    lines = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(line["file"] for line in lines if line["event"] == "damaged") == sorted(map(str, damaged))
    first, *_, count = [line for line in done.stderr.splitlines() if "made anew" in line]
    assert first.startswith(tuple(f"judge: {path} is " for path in damaged))
    assert count == f"judge: {len(damaged) - 1} more kept files are made anew; log.jsonl names them"
    assert done.stderr.count("made anew") == 2
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


def test_whatever_happens_to_bytes_is_noticed(begun: Path, told: list[tuple[str, str]]) -> None:
    """Answers and trainings are those that were kept, or none, which is told; never an error."""
    answers = begun.with_name("answers.safetensors")
    save_predictions(answers, np.linspace(0, 1, 40).reshape(20, 2), {"C": 0.1})
    network = Words(GENDER, make_samples(60, clue=0.6))
    optimiser = torch.optim.Adam(network.parameters())

    def answered(path: Path) -> Any:
        found = load_predictions(path)
        return found and (found[0].tolist(), found[1])

    def trained(path: Path) -> Any:
        state = Checkpoint(None, read_from=path)
        with safe_open(begun.with_name("other.training.safetensors"), framework="np") as file:
            seed = int(file.metadata()["seed"])
        done = state.load(network, optimiser, seed=seed)
        return done and (done, state.history, [weight.tolist() for weight in network.state_dict().values()])

    for path, read in ((answers, answered), (begun, trained)):
        whole = path.read_bytes()
        expected = read(path)
        assert expected
        told.clear()
        absent = 0
        for content in mutated_bytes(whole, MANY):
            path.write_bytes(content)
            found = read(path)
            absent += not found
            assert found == expected or not found, content
        assert absent == len(told) > 0.9 * MANY


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
    for path in (link, begun, pipe, loop):
        assert not is_sound(path)
    assert [what for _, what in told] == ["a copy of another file", "no file", "no file", "no file"]
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
    noted = tmp_path / "noted"
    (noted / "images").mkdir(parents=True)
    (noted / "images" / "1.png").touch()
    note_digest(noted, "key")
    work = ResumableFolder(tmp_path / "run", what="run", command="judge evaluate", parts=".*")
    work.begin()
    (work.store / "judge").write_bytes(b"finished")
    work.lock.release()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def stale(path: Path) -> Any:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    with monkeypatch.context() as patch:
        patch.setattr("judge.utils.kept.open_regular", stale)
        for reads in (
            lambda: is_sound(begun),
            features.missing,
            lambda: Cached(detector, tmp_path / "detections").detect(picture),
            lambda: load_predictions(begun),
            lambda: is_noted(noted, "key"),
        ):
            line = fault_of(reads)
            assert "cannot be read or written (Stale file handle)" in line
            assert str(tmp_path) in line
        patch.setattr(os, "scandir", stale)
        with pytest.raises(JudgeError, match="goes on from what is finished"), work.working():
            raise JudgeError("a fault")
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert told == []


def test_a_judge_that_was_given_is_checked_where_it_has_a_checksum(finished: Path, tmp_path: Path) -> None:
    """Under any name; without one, as older versions wrote them, it is taken."""
    kept = next(path for path in (finished / "judges").glob("*.weights.safetensors") if read_saved(path).trains_itself)
    given = tmp_path / "judge.safetensors"
    shutil.copy(kept, given)
    expected = open_self_trained(read_saved(given)).tensors()
    flip(given)
    told = f"--judge-weights {given}: is no safetensors file, or damaged. Train the judge again"
    assert fault_of(read_saved, given).startswith(told)
    for content in mutated_bytes(kept.read_bytes(), MANY):
        given.write_bytes(content)
        if outcome(lambda: read_saved(given), repr(content)) == "read":
            assert read_saved(given).notes() == read_saved(kept).notes()
    with safe_open(kept, framework="np") as file:
        notes = {name: value for name, value in file.metadata().items() if name != "checksum"}
    save_file(expected, given, notes)
    found = open_self_trained(read_saved(given)).tensors()
    assert {name: values.tolist() for name, values in found.items()} == {n: v.tolist() for n, v in expected.items()}


def test_lines_that_are_damaged(tmp_path: Path, told: list[tuple[str, str]]) -> None:
    """Of captions all after such a line goes, of trials that line alone; one that a kill cut is silent."""
    path = tmp_path / "notes"
    Notes(path, "key").add({(str(image), "a"): f"caption {image}" for image in range(5)})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines).replace(b"caption 2", b"caption 3"))
    kept = Notes(path, "key")
    assert list(kept.entries.values()) == ["caption 0", "caption 1"]
    kept.add({("2", "a"): "caption 2"})
    path.write_bytes(path.read_bytes() + lines[4][:-5])
    assert list(Notes(path, "key").entries.values()) == ["caption 0", "caption 1", "caption 2"]
    assert Notes(path, "another").entries == {}
    assert told == [("notes", "damaged after 2 captions")]
    rows = [{"key": str(number), "rows": [{"value": number / 3, "error": float("nan")}]} for number in range(4)]
    lines = [seal(row) for row in rows]
    lines[1] = lines[1].replace(b"0.33", b"0.34")
    lines[2] = json.dumps(rows[2]).encode()
    path.write_bytes(b"\n".join([*lines, lines[0][:9]]))
    assert [row["key"] for row in read_lines(path)] == ["0", "3"]
    assert told[1:] == [("notes", "damaged in 1 of 4 lines"), ("notes", "without a checksum in 1 of 4 lines")]


def test_a_file_or_folder_that_was_noted(tmp_path: Path, told: list[tuple[str, str]]) -> None:
    folder, file = tmp_path / "scenes", tmp_path / "captions.json"
    assert not is_noted(file, "key")
    (folder / "images").mkdir(parents=True)
    for path in (folder / "images" / "1.png", folder / "instances.json", file):
        path.write_bytes(b"content")
    for path in (folder, file):
        assert not is_noted(path, "key")
        note_digest(path, "key")
        assert is_noted(path, "key")
        assert not is_noted(path, "another")
    file.write_bytes(b"Content")
    (folder / "images" / "1.png").rename(folder / "images" / "2.png")
    assert not is_noted(file, "key")
    assert not is_noted(folder, "key")
    assert [what for _, what in told] == ["without a checksum", "damaged"] * 2 + ["damaged"] * 2


def test_features_that_are_no_numbers_are_not_blamed_on_the_learning_rate(
    settings: list[object], finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where their checksum holds: the line names the file."""
    folder = tmp_path / "forged"
    shutil.copytree(finished / "features", folder / "features")
    (kept,) = (folder / "features").rglob("*.npy")
    change_to(lambda values: np.full_like(values, np.nan))(kept)
    monkeypatch.setattr(FeatureCache, "_name", lambda *_: kept.stem)
    told = judge(*settings, *places(folder))
    assert told.exit_code == 2
    assert told.stderr.splitlines()[-1].startswith(f"judge: {kept}: features are no finite numbers. Remove it: ")
