"""More that the fuzzer damages: what commands store for themselves, and the files of captioners and detectors."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from detector_samples import FakeDetector, tiny_onnx, tiny_yolo
from helpers import save_captioner
from PIL import Image

from attack.targets import Target
from judge.captioning import Writer, Writing, _find_stored
from judge.commands.train import _write_index
from judge.commands.trials import TRIALS, _line, measure_trials
from judge.judges.hf_models import check_captioner, load_captioner
from judge.masking.cache import Cached
from judge.masking.detectors.yolo import load_yolo
from judge.masking.folder import Finished, Row
from judge.masking.instances import LoadedImage, from_mask
from judge.masking.measured import MaskStatistics
from judge.training.checkpoint import Checkpoint
from judge.training.features import CaptionCache
from judge.types import Sample
from judge.utils.outputs import read_manifest, write_manifest
from judge.utils.tensors import read_sound, read_tensors, write_tensors

CAPTIONS = [("a", "man"), ("two", "dogs"), ("犬",)]


def store_targets() -> dict[str, Target]:
    """Files that one command writes and the next one reads. Damaged ones may be removed, so a copy is read."""

    def kept(make: Callable[[Path], object], read: Callable[[Path], object], damaged: str = "*") -> Target:
        def read_copy(folder: Path) -> None:
            copy = folder.with_name(f"{folder.name}-copy")
            shutil.rmtree(copy, ignore_errors=True)
            read(Path(shutil.copytree(folder, copy)))

        return Target(make, read_copy, damaged)

    return {
        "answers": kept(
            lambda folder: write_tensors(folder / "1.safetensors", {"1": np.full((4, 2), 0.5)}, {"1": {"epoch": 3.0}}),
            lambda folder: read_sound(folder / "1.safetensors", read_tensors),
        ),
        "training": kept(_train, _go_on),
        "features": kept(_compute_features, _read_features, "*/*"),
        "detections": kept(_detect, _detect, "**/*.json"),
        "notes": kept(_write_notes, _read_notes),
        "trials": kept(_write_trials, _read_trials),
        "masked": kept(_write_masked, lambda folder: _finished(folder, "abc"), "log"),
        "judges": kept(_write_judges, _write_judges),
        "list": Target(lambda folder: write_manifest(folder, "run"), read_manifest, ".caption-judge"),
    }


def _training(folder: Path) -> tuple[Any, Any, Any]:
    network, path = torch.nn.Linear(3, 2), folder / "1.training.safetensors"
    return network, torch.optim.Adam(network.parameters()), Checkpoint(path, read_from=path)


def _train(folder: Path) -> None:
    network, optimiser, checkpoint = _training(folder)
    network.weight.sum().backward()
    optimiser.step()
    checkpoint.keep_best(network, 0.5)
    checkpoint.history.training.append(0.7)
    checkpoint.save(network, optimiser, seed=0)


def _go_on(folder: Path) -> None:
    network, optimiser, checkpoint = _training(folder)
    checkpoint.load(network, optimiser, seed=0)


class Lengths:
    """Features of a caption: its length."""

    key = "lengths"

    def collate(self, captions: Sequence[tuple[str, ...]]) -> Any:
        return torch.tensor([[len(words)] for words in captions], dtype=torch.float32)

    def __call__(self, batch: Any) -> Any:
        return batch


def _compute_features(folder: Path) -> CaptionCache:
    cache = CaptionCache(Lengths(), CAPTIONS, folder)
    cache.compute(cache.missing(), device=torch.device("cpu"))
    return cache


def _read_features(folder: Path) -> None:
    samples = [Sample(str(n), "human", 0, words, (0,)) for n, words in enumerate(CAPTIONS)]
    _compute_features(folder).open().rows(samples)


def _detect(folder: Path) -> None:
    detector = FakeDetector(lambda _: (from_mask(np.eye(4, dtype=bool), "person"),))
    Cached(detector, folder).detect(LoadedImage("1", np.zeros((4, 4, 3), np.uint8)))


def _write_notes(folder: Path) -> None:
    write_tensors(folder / "notes", {}, {"keys": {"2": "b", "3": "c"}, "captions": {"2": "two dogs", "3": "犬"}})


def _read_notes(folder: Path) -> None:
    images: Any = SimpleNamespace(key={"2": "b", "3": "c"}.__getitem__)
    assert _find_stored(folder / "notes", images, ["2", "3"]) in ({"2": "two dogs", "3": "犬"}, None)


def _write_trials(folder: Path) -> None:
    (folder / TRIALS).write_bytes(b"".join(_line(key, [{"value": 0.5, "low": None, "seconds": 1.0}]) for key in "ab"))


def _read_trials(folder: Path) -> None:
    place: Any = SimpleNamespace(store=folder, writing=nullcontext)
    measure_trials([], place, workers=1, progress=None)


def _finished(folder: Path, names: str = "") -> Finished:
    finished = Finished(folder / "log", folder, "key")
    for name in names:
        finished.find(folder, name)
    return finished


def _write_masked(folder: Path) -> None:
    for name in "ab":
        (folder / name).write_bytes(b"image")
        _finished(folder).add(folder, Row(name, name, MaskStatistics(1, 0.5, 1)))


def _write_judges(folder: Path) -> None:
    """As ``judge train`` does, which adds to the judges that it finds there."""
    member = SimpleNamespace(key="0", side="human", index=0, seed=0, split=SimpleNamespace(fold=0))
    job: Any = SimpleNamespace(evidence=SimpleNamespace(captioner="x"), metrics=(), judge="linear", member=member)
    _write_index(folder, [job])


def network_targets() -> dict[str, Target]:
    """The JSON files of captioners, beside their weights, and an exported YOLO model; they take seconds to make."""
    found = {
        family: Target(partial(save_captioner, family=family), _caption, "*.json")
        for family in ("git", "vit_gpt2", "blip", "llava")
    }
    found["onnx"] = Target(
        lambda folder: tiny_onnx(tiny_yolo(folder)),
        lambda folder: load_yolo(next(folder.glob("*.onnx")), device="cpu"),
        "*.onnx",
    )
    return found


def _caption(folder: Path) -> None:
    """Caption one image, as ``judge caption`` does."""
    check_captioner(str(folder), where="--model")
    writer = Writer(load_captioner(str(folder), where="--model"), Writing(max_tokens=3), torch.device("cpu"))
    writer.write([writer.prepare(Image.new("RGB", (40, 30)))])
