"""What a run keeps and finds damaged: made anew, told in one line, and never another result."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import GENDER, done_well, few, judge, make_samples, refusal
from mutations import mutated_bytes
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import Tensor, nn

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.commands import trials
from judge.errors import JudgeError
from judge.judges import NOTHING, find_judge
from judge.masking.hidden import HiddenPictures
from judge.training import trainer
from judge.training.checkpoint import Checkpoint, load_predictions, save_predictions, save_weights
from judge.training.features import CaptionCache
from judge.training.saved import read_saved
from judge.utils.kept import UNCHECKED, is_noted, note_digest, seal, telling, unseal

MANY = int(os.environ.get("MUTATIONS", "300"))
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
    chosen = [weigh if weigh.exists() and i % 2 else path for i, (path, weigh) in enumerate(zip(answers, weights))]
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
        tensors = {name: change(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - no mapping
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
    """Every file is damaged, each in another way; a line for each, and the results byte for byte."""
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
    for path in damaged:
        assert done.stderr.count(f"judge: {path} is ") == 1
        assert path.read_bytes() == (finished / path.relative_to(folder)).read_bytes()
