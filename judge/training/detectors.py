"""Training of detectors: a small one from nothing, or given weights fine-tuned, on any pictures with instances.

One plain torch loop for both kinds, in one process: the networks and their losses are Ultralytics' and torchvision's,
the rest is ours. Ultralytics' own trainer wants masks as polygons and pictures in folders, writes pickles, and sets the
process up to its taste; here masks stay exact and nothing is written but the one file in the end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import torch
from torch import nn

from judge.errors import JudgeError, require
from judge.masking.detectors import Detector, detect_pictures, make_detector
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.detectors.weights import choose_device, write_detector
from judge.masking.folder import Hiding
from judge.masking.images import holds, inside
from judge.masking.instances import PERSON
from judge.masking.overlap import Overlap, count, pool
from judge.training.detector_models import MODELS, DetectorModel, DetectorRecipe, Example, Examples
from judge.types import Progress
from judge.utils.files import writing


@dataclass(frozen=True, slots=True)
class TrainedDetector:
    """A trained detector's file, and how the training went.

    Attributes:
        path: the file.
        categories: what it detects.
        losses: mean training loss of each epoch.
        pictures: trained on.
        held_out: kept for validation.
        overlap: with the people in the held-out pictures, from a score of 0.5 on; with all things where no category
            is "person". NaN where there is nothing to find.
        seconds: all of it took.
    """

    path: Path
    categories: tuple[str, ...]
    losses: tuple[float, ...]
    pictures: int
    held_out: int
    overlap: Overlap
    seconds: float


def train_detector(
    recipe: DetectorRecipe,
    pictures: Path,
    instances: Sequence[Path],
    out: Path,
    *,
    new: bool = False,
    progress: Progress | None = None,
) -> TrainedDetector:
    """Train a detector and write it to ``out``, one safetensors file, whole or not at all.

    The same recipe and pictures give the same weights, to the bit on one CPU and the same number of threads.

    Args:
        recipe: the kind of network, and how it is trained.
        pictures: folder.
        instances: COCO files of what is in them; crowds are passed over.
        out: the file to write, ".safetensors".
        new: replace nothing, whatever appears there meanwhile.
        progress: called with the epochs done.

    Raises:
        JudgeError: unknown category, pictures or annotations at fault, weights that cannot be read, a loss that is no
            longer finite, a package that is missing, a file that cannot be written.
    """
    require("detectors", "torchvision", "cv2", "pycocotools", *(["ultralytics"] if recipe.kind == "yolo" else []))
    if out.suffix != ".safetensors":
        raise JudgeError("is no name for weights", where=f"--out {out}", mend="name a file that ends in .safetensors")
    began, place = time.monotonic(), choose_device(recipe.device)
    _probe(out)
    truth = GroundTruth.read(instances, labels=recipe.categories, images=pictures)
    categories = tuple(name for name in truth.categories if truth.labels is None or name in truth.labels)
    train, held = split_pictures(truth, recipe.validation, recipe.seed)
    _check(pictures, truth, train, held)
    data = Examples(pictures, train, truth, categories, recipe.image_size)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(recipe.seed)
        model = MODELS[recipe.kind](categories, recipe)
        losses = _fit(model, data, recipe, place, progress)
    write_detector(out, model.header, model.network.state_dict(), new=new)
    detector = make_detector(recipe.kind, weights=str(out), device=recipe.device, batch=recipe.batch_size)
    hiding = Hiding(labels=(PERSON,) if PERSON in categories else categories)
    overlap = measure_overlap(detector, truth, pictures, held, hiding=hiding)
    return TrainedDetector(out, categories, losses, len(train), len(held), overlap, time.monotonic() - began)


def _check(pictures: Path, truth: GroundTruth, train: Sequence[str], held: Sequence[str]) -> None:
    """Check the inputs before the training; pictures to train on are decoded in the first epoch."""
    for _, fault in truth.strays:
        raise fault
    for name in train:
        inside(pictures, name)
        if not holds(pictures, name):
            raise JudgeError("no such picture", where=f"{pictures / name}", mend="check --images, or download it")
        truth.instances(name)
    for _ in detect_pictures(pictures, held, truth, failures=None):
        pass


def _probe(out: Path) -> None:
    """Refuse a place that cannot be written before the work, not after it."""
    if out.is_dir():
        raise JudgeError("is a folder", where=f"--out {out}", mend="name a file")
    with writing(f"--out {out}"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out.parent):
            pass


def split_pictures(truth: GroundTruth, share: float, seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the pictures to train on, and of those held out; at least one to train on.

    Raises:
        JudgeError: no pictures.
    """
    names = truth.pictures
    if not names:
        raise JudgeError("lists no pictures", where=truth.source, mend="give the instances of the pictures")
    order = np.random.default_rng([seed, 0]).permutation(len(names))
    spared = min(len(names) - 1, round(share * len(names)))
    held = set(order[:spared].tolist())
    return (
        tuple(name for index, name in enumerate(names) if index not in held),
        tuple(names[index] for index in sorted(held)),
    )


def measure_overlap(
    detector: Detector, truth: GroundTruth, pictures: Path, names: Sequence[str], *, hiding: Hiding | None = None
) -> Overlap:
    """How well ``detector`` covers people (or what ``hiding`` names) in pictures ``names``, pooled by pixel."""
    hiding = hiding or Hiding()
    counts = [
        astuple(count(true, found, hiding, picture.size))
        for picture, [found, true] in detect_pictures(pictures, names, detector, truth, failures=None)
    ]
    summed = np.array(counts, dtype=np.float64).reshape(-1, 5).sum(axis=0)
    return Overlap(*pool(summed).tolist())


def _fit(
    model: DetectorModel, data: Examples, recipe: DetectorRecipe, device: torch.device, progress: Progress | None
) -> tuple[float, ...]:
    """Train in place; the mean loss of each epoch."""
    model.network.to(device, memory_format=torch.channels_last)
    model.learn()
    parameters = [parameter for parameter in model.network.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=recipe.learning_rate or model.rate, weight_decay=0.01, fused=True)
    steps = math.ceil(len(data) / recipe.batch_size) * recipe.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    losses = []
    for epoch in range(recipe.epochs):
        total = 0.0
        for batch in _epoch(data, recipe, epoch):
            loss = model.loss(batch, device)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
            nn.utils.clip_grad_norm_(parameters, 10.0)
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(batch)
        losses.append(total / len(data))
        if not math.isfinite(losses[-1]):
            what = f"loss is {losses[-1]} in epoch {epoch + 1}"
            raise JudgeError(what, where="training of a detector", mend="lower --learning-rate")
        model.next_epoch()
        if progress is not None:
            progress(f"training (loss {losses[-1]:.3f})", epoch + 1, recipe.epochs)
    return tuple(losses)


def _epoch(data: Examples, recipe: DetectorRecipe, epoch: int) -> Iterator[list[Example]]:
    """Batches in an order of this epoch's own, every other picture mirrored."""
    rng = np.random.default_rng([recipe.seed, 1, epoch])
    order, mirrored = rng.permutation(len(data)), rng.random(len(data)) < 0.5
    for start in range(0, len(order), recipe.batch_size):
        chosen = order[start : start + recipe.batch_size]
        yield [data[index].flipped() if mirrored[index] else data[index] for index in chosen.tolist()]


def _rate(step: int, steps: int) -> float:
    """Factor of the learning rate: rises over the first tenth, then falls as a cosine to a hundredth."""
    rise = max(1, steps // 10)
    if step < rise:
        return (step + 1) / rise
    return 0.01 + 0.99 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise))) / 2
