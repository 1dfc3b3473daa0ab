"""More that the fuzzer damages: what runs keep for themselves, and what networks say of themselves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from detector_samples import FakeDetector, tiny_onnx, tiny_yolo

from attack.targets import Target
from judge.captioning import _find_stored
from judge.commands.train import _write_index
from judge.commands.trials import TRIALS, _line, measure_trials
from judge.masking.cache import Cached
from judge.masking.folder import Finished, Row
from judge.masking.instances import LoadedImage, from_mask
from judge.masking.measured import MaskStatistics
from judge.utils.outputs import read_manifest, write_manifest
from judge.utils.tensors import read_sound, read_tensors, write_tensors

CAPTIONS = [("a", "man"), ("two", "dogs"), ("犬",)]


def kept(read: Callable[[Path], object]) -> Callable[[Path], None]:
    """A reader of a copy: what is damaged is told, and may be removed."""

    def found(folder: Path) -> None:
        copy = folder.with_name(f"{folder.name}-copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        read(copy)

    return found


def store_targets() -> dict[str, Target]:
    """Of a run and of the next ones."""
    return {
        "answers": Target(_write_answers, kept(_read_answers)),
        "training": Target(_write_training, kept(_read_training)),
        "features": Target(_write_features, kept(_read_features), "*/*"),
        "detections": Target(_detect, kept(_detect), "**/*.json"),
        "notes": Target(_write_notes, kept(_read_notes)),
        "trials": Target(_write_trials, kept(_read_trials)),
        "masked": Target(_write_masked, kept(_read_masked), "log"),
        "judges": Target(_write_judges, kept(_write_judges)),
        "list": Target(lambda folder: write_manifest(folder, "run"), read_manifest, ".caption-judge"),
    }


def _write_answers(folder: Path) -> None:
    write_tensors(folder / "1.safetensors", {"1": np.full((4, 2), 0.5, np.float32)}, {"1": {"epoch": 3.0}})


def _read_answers(folder: Path) -> None:
    read_sound(folder / "1.safetensors", read_tensors)


def _training(folder: Path) -> tuple[Any, Any, Any]:
    import torch

    from judge.training.checkpoint import Checkpoint

    network = torch.nn.Linear(3, 2)
    path = folder / "1.training.safetensors"
    return network, torch.optim.Adam(network.parameters()), Checkpoint(path, read_from=path)


def _write_training(folder: Path) -> None:
    network, optimiser, checkpoint = _training(folder)
    network.weight.sum().backward()
    optimiser.step()
    checkpoint.keep_best(network, 0.5)
    checkpoint.history.training.append(0.7)
    checkpoint.save(network, optimiser, seed=0)


def _read_training(folder: Path) -> None:
    network, optimiser, checkpoint = _training(folder)
    checkpoint.load(network, optimiser, seed=0)


def _cache(folder: Path) -> Any:
    from judge.training.features import CaptionCache

    return CaptionCache(Lengths(), CAPTIONS, folder)


class Lengths:
    """Reads the length of a caption."""

    key = "lengths"

    def collate(self, captions: Sequence[tuple[str, ...]]) -> Any:
        import torch

        return torch.tensor([[len(words)] for words in captions], dtype=torch.float32)

    def __call__(self, batch: Any) -> Any:
        return batch


def _write_features(folder: Path) -> None:
    import torch

    cache = _cache(folder)
    cache.compute(cache.missing(), device=torch.device("cpu"))


def _read_features(folder: Path) -> None:
    """As a run does: what is missing is computed."""
    from judge.types import Sample

    _write_features(folder)
    samples = [Sample(str(n), "human", 0, words, (0,)) for n, words in enumerate(CAPTIONS)]
    _cache(folder).open().rows(samples)


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
    """As the next command does, which has others to measure."""
    place: Any = SimpleNamespace(store=folder, writing=nullcontext)
    measure_trials([], place, workers=1, progress=None)


def _write_masked(folder: Path) -> None:
    finished = Finished(folder / "log", folder, "key")
    for name in "ab":
        (folder / name).write_bytes(b"image")
        finished.add(folder, Row(name, name, MaskStatistics(1, 0.5, 1)))


def _read_masked(folder: Path) -> None:
    finished = Finished(folder / "log", folder, "key")
    for name in "abc":
        finished.find(folder, name)


def _write_judges(folder: Path) -> None:
    """As ``judge train`` does: what is there is added to."""
    member = SimpleNamespace(key="0", side="human", index=0, seed=0, split=SimpleNamespace(fold=0))
    job: Any = SimpleNamespace(evidence=SimpleNamespace(captioner="x"), metrics=(), judge="linear", member=member)
    _write_index(folder, [job])


def captioner_targets() -> dict[str, Target]:
    """What checkpoints say of themselves, beside their weights: each file of JSON in turn."""
    families = ("git", "vit_gpt2", "blip", "llava")
    return {name: Target(partial(_captioner, name), _caption, "*.json", costly=True) for name in families}


def _captioner(family: str, folder: Path) -> None:
    from helpers import save_captioner

    save_captioner(folder, family)


def _caption(folder: Path) -> None:
    """As ``judge caption`` does, of one picture."""
    import torch
    from PIL import Image

    from judge.captioning import Writer, Writing
    from judge.judges.hf_models import check_captioner, load_captioner

    check_captioner(str(folder), where="--model")
    writer = Writer(load_captioner(str(folder), where="--model"), Writing(max_tokens=3), torch.device("cpu"))
    writer.write([writer.prepare(Image.new("RGB", (40, 30)))])


def detector_targets() -> dict[str, Target]:
    """An exported YOLO model."""
    return {"onnx": Target(lambda folder: tiny_onnx(tiny_yolo(folder)), _load_onnx, "*.onnx", costly=True)}


def _load_onnx(folder: Path) -> None:
    from judge.masking.detectors.yolo import load_yolo

    load_yolo(next(folder.glob("*.onnx")), device="cpu")
