"""The fuzzer: valid files damaged in many ways are read, or refused in one line, within seconds and a gigabyte."""

from __future__ import annotations

import json
import logging
import multiprocessing
import random
import re
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import torch
import yaml
from detector_samples import FakeDetector, tiny_onnx, tiny_yolo
from helpers import save_captioner
from mutations import as_json, mutated_bytes, mutated_values, outcome
from PIL import Image

from attack.targets import Target, reader_targets, run_targets
from judge.captioning import _Store
from judge.captioning.checkpoints import CheckpointWriter
from judge.captioning.writing import Caption, Writing
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
SAMPLES = [Sample(str(n), "human", 0, words, (0,)) for n, words in enumerate(CAPTIONS)]
SECONDS, BYTES = 5.0, 2**30
"""What one input may take: processor time, and memory beyond what the process had before."""


def all_targets() -> Mapping[str, Target]:
    """Name -> reader under attack."""
    return reader_targets() | run_targets() | store_targets() | network_targets()


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

    def prepare(self, sample: Sample) -> int:
        return len(sample.words)

    def collate(self, prepared: Sequence[int]) -> Any:
        return torch.tensor(prepared, dtype=torch.float32)[:, None]

    def __call__(self, batch: Any) -> Any:
        return batch


def _compute_features(folder: Path) -> CaptionCache:
    cache = CaptionCache(Lengths(), SAMPLES, folder)
    cache.compute(cache.missing(), device=torch.device("cpu"))
    return cache


def _read_features(folder: Path) -> None:
    _compute_features(folder).open().rows(SAMPLES)


def _detect(folder: Path) -> None:
    detector = FakeDetector(lambda _: (from_mask(np.eye(4, dtype=bool), "person"),))
    Cached(detector, folder).detect(LoadedImage("1", np.zeros((4, 4, 3), np.uint8)))


def _stored(folder: Path) -> _Store:
    images: Any = SimpleNamespace(key={"2": "b", "3": "c"}.__getitem__)
    return _Store(folder, "a model and its settings", images)


def _write_notes(folder: Path) -> None:
    store = _stored(folder)
    store.put({store.name_of(image): Caption(text) for image, text in (("2", "two dogs"), ("3", "犬"))})


def _read_notes(folder: Path) -> None:
    found = _stored(folder).find(["2", "3"])
    assert all(isinstance(caption.text, str) for caption in found.values())


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
    writer = CheckpointWriter(load_captioner(str(folder), where="--model"), Writing(max_tokens=3))
    writer.write([writer.prepare(Image.new("RGB", (40, 30)))])


def damages(path: Path, number: int, seed: int) -> Iterator[bytes]:
    """Damaged copies of a file: its bytes; of JSON and YAML every other one its values."""
    data, is_yaml = path.read_bytes(), path.suffix in {".yaml", ".yml"}
    by_bytes = mutated_bytes(data, number, seed=seed)
    by_value: Iterator[Any] = iter(())
    with suppress(ValueError, yaml.YAMLError, RecursionError):
        value = yaml.safe_load(data) if is_yaml else json.loads(data)
        by_value = mutated_values(value, number, seed=seed)
    for place, content in enumerate(by_bytes):
        value = content if place % 2 else next(by_value, content)
        if value is content:
            yield content
        elif is_yaml:
            yield yaml.safe_dump(value, sort_keys=False).encode("utf-8", "surrogatepass")
        else:
            yield as_json(value)


def attack(target: Target, folder: Path, *, count: int, seed: int, current: Any = None, skip: int = 0) -> Counter[str]:
    """Damage the files of ``target`` in turn, ``count`` times in all; count the inputs "read" and "refused".

    Args:
        current: its ``value`` is set to the number of the input that is being read, from 1 on.
        skip: inputs up to this number are not read.

    Raises:
        AssertionError: an input took too much memory, or was refused in other than one line.
    """
    current = current or SimpleNamespace()
    target.make(folder)
    files = sorted(path for path in folder.glob(target.damaged) if path.is_file())
    assert outcome(lambda: target.read(folder), "undamaged") == "read"
    before, found, number = peak(), Counter[str](), 0
    for path in files:
        whole = path.read_bytes()
        for content in damages(path, -(-count // len(files)), random.Random(f"{seed} {path.name}").randrange(2**32)):
            current.value = number = number + 1
            if number <= skip:
                continue
            path.write_bytes(content)
            with ExitStack() as stack, warnings.catch_warnings():
                warnings.simplefilter("error")
                signal.setitimer(signal.ITIMER_PROF, SECONDS)  # When it runs out, SIGPROF ends this process.
                stack.callback(signal.setitimer, signal.ITIMER_PROF, 0)
                found[outcome(lambda: target.read(folder), f"input {number} of {path.name}")] += 1
            assert peak() - before < BYTES, f"input {number} of {path.name}: {peak() / 2**30:.1f} GB of memory"
        path.write_bytes(whole)
    return found


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return 1024 * int(kilobytes)


def watched(name: str, folder: Path, *, number: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Attack a target in another process, which ends when an input takes too much, and go on with the next input.

    Returns:
        How many inputs were read and refused; what was found.
    """
    context = multiprocessing.get_context("spawn")
    current, skip, findings = context.Value("q", 0), 0, list[str]()
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            with ProcessPoolExecutor(1, context, initializer=_begin, initargs=(current,)) as pool:
                return pool.submit(_attack, name, folder, number, seed, skip).result(), findings
        except BrokenProcessPool:
            what = "the process was ended: over 5 s of processor time, or no memory"
        except (Exception, SystemExit):  # Whatever it is, it is what is looked for.
            what = traceback.format_exc()[-3000:]
        if current.value <= skip:
            raise RuntimeError(f"{name} cannot be attacked: {what} (input {current.value}, after {skip})")
        skip = current.value
        findings.append(f"{name}, seed {seed}, input {skip}: {what}")


def _begin(current: Any) -> None:
    global _current  # noqa: PLW0603 - of this process; a shared number can be given to it only when it starts
    _current = current
    logging.disable(logging.WARNING)  # Damaged cache files are reported.


def _attack(name: str, folder: Path, number: int, seed: int, skip: int) -> Counter[str]:
    target, most = all_targets()[name], psutil.Process().memory_info().vms + 8 * BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))  # Above the gigabyte, below what the machine has.
    return attack(target, folder, count=number, seed=seed, current=_current, skip=skip)


def long_form(seed: int, end: float, names: Sequence[str]) -> int:
    """Attack readers by 500 damaged files each, in an order drawn by the seed, until ``end``; print what was found."""
    names = names or random.Random(seed).sample(sorted(all_targets()), len(all_targets()))
    total, findings = 0, list[str]()
    print("| reader | read | refused | found |\n| --- | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        for turn, name in ((turn, name) for turn in count() for name in names):
            if time.monotonic() > end:
                break
            done, found = watched(name, Path(folder, name), number=500, seed=1000 * seed + turn)
            total += done.total()
            findings += found
            print(f"| {name} | {done['read']:,} | {done['refused']:,} | {len(found)} |", flush=True)
    print(f"\n{total:,} inputs, {len(findings)} found; seed {seed}")
    print("".join(f"\n{line}\n" for line in findings))
    return len(findings)
