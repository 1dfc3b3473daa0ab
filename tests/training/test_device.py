"""Every judge and every family of captioners, trained and asked on a pretend accelerator (``pretend``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.utils import send_to_device
from captioners import FAMILIES, PROMPT, Pictures
from helpers import GENDER, TASKS, make_glimpses, make_samples, make_tasks
from judges.test_contract import NAMES, Readings
from pretend import DEVICE, Lines, OnDevice, Pretend, held, pretend_device
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from judge.judges import Blueprint, Materials, Tuning
from judge.judges.backbones import make_backbone
from judge.judges.grit import GridsAndRegions
from judge.judges.names import EMBEDDED, SENTENCE, find_judge
from judge.judges.text_encoders import FrozenEncoder, load_encoder
from judge.training.launch import make_accelerator
from judge.training.loop import NetworkJudge, Trainer
from judge.types import FloatArray, Sample, Target

LINEAR = {"linear", "linear+image", *EMBEDDED}
pytestmark = pytest.mark.usefixtures("one_thread")

TRAINER = "judge/training/"
# transformers reads from the device whether anything is masked.
MASKING = "transformers/masking_utils.py", "transformers/utils/import_utils.py"
# These check, on the device, that a prompt has as many places for a picture as it has features.
CHECKING = {"llava", "llava_without_chat", "paligemma", "florence2"}
# Their vision towers cut patches apart picture by picture and layer by layer, by sizes that they read from the device.
CUTTING = {"qwen2_vl", "qwen2_5_vl"}


class Run:
    """A judge trained and asked twice, on the CPU and on the pretend device."""

    def __init__(self, train: Sequence[Sample], test: Sequence[Sample], target: Target = GENDER) -> None:
        self.train, self.test, self.target = train, test, target

    def check(self, blueprint: Blueprint, materials: Materials, *, waits: int | None = 0) -> Pretend:
        """Equal answers, no operand left on the host, and at most so many ``waits`` a step; None for any number."""
        expected = self._answers(blueprint, materials)
        with pretend_device() as device:
            found = self._answers(blueprint, materials)
        assert found == pytest.approx(expected, abs=1e-5)
        if waits is not None:
            check_steps(device.steps[1:], waits=waits)  # Before the first, weights are moved.
        return device

    def _answers(self, blueprint: Blueprint, materials: Materials) -> FloatArray:
        recipe = blueprint.tuned.get(materials.tuning, blueprint.recipe)
        assert recipe is not None
        few = replace(recipe, epochs=min(1, recipe.epochs), learning_rate=1e-4, batch_size=4, micro_batch=None)
        judge = NetworkJudge(blueprint, self.target, few, Trainer(make_accelerator()), materials)
        return judge.fit(self.train, seed=0, validation=self.test).predict(self.test).probabilities


def check_steps(steps: Sequence[tuple[Lines, Lines]], *, waits: int = 0) -> None:
    """Between two optimiser steps the network copies nothing to the device, and waits for it so often at most."""
    assert steps
    for copies, waited in steps:
        assert not {line for line in copies if not line.startswith(TRAINER)}
        own = Lines({line: count for line, count in waited.items() if not line.startswith(MASKING)})
        of_network = Lines({line: count for line, count in own.items() if not line.startswith(TRAINER)})
        assert of_network.total() <= waits, of_network
        assert (waited - of_network).total() <= 6, waited
        assert own == of_network, own  # The trainer reads losses once an epoch.


@pytest.mark.parametrize(
    ("name", "target"), [*((name, GENDER) for name in NAMES if name not in LINEAR), ("lstm", TASKS), ("bert-ft", TASKS)]
)
def test_judges(name: str, target: Target, bert: Path) -> None:
    make = make_tasks if target == TASKS else make_samples
    run = Run(make(8), make(3, seed=1), target)
    blueprint, materials = find_judge(f"{SENTENCE}any" if name == SENTENCE else name), Materials(reader=str(bert))
    if blueprint.backbone:
        materials = replace(materials, features=make_glimpses(run.train, regions=3 * blueprint.regions))
    elif blueprint.reader:
        materials = replace(materials, features=Readings())
    run.check(blueprint, materials)


def captions(count: int, *, seed: int = 0) -> list[Sample]:
    """Random words of the tiny captioners, of several lengths; one of them without a picture."""
    rng = np.random.default_rng(seed)
    words = ("a", "person", "dog", "rides", "the", "<gender>", "<unk>")
    lines = [tuple(rng.choice(words, size=rng.integers(6)).tolist()) for _ in range(count)]
    return [
        Sample(str(image), "human", 0, line, (image % 2,), image=str(image) if image else None)
        for image, line in enumerate(lines)
    ]


# A family of each code path: every layout, parts that transformers finds and parts that judge names (git,
# vit_gpt2), patches cut apart on the device, adapters of GPT-2's transposed layers and of T5.
PARTLY: dict[Tuning, tuple[str, ...]] = {
    "frozen": ("blip2_t5", "florence2", "git", "qwen2_vl", "vit_gpt2"),
    "lora": ("blip2_t5", "git", "llava", "mllama", "vit_gpt2"),
    "zero-shot": ("blip",),
}


@pytest.mark.parametrize(
    ("family", "tuning"),
    [*((family, "full") for family in FAMILIES), *((family, how) for how, of in PARTLY.items() for family in of)],
)
def test_captioners(family: str, tuning: Tuning, checkpoint: Callable[[str], Path]) -> None:
    materials = Materials(images=Pictures(), prompt=PROMPT, tuning=tuning)  # type: ignore[arg-type]
    waits = None if tuning == "zero-shot" or family in CUTTING else int(family in CHECKING)
    device = Run(captions(8), captions(3, seed=1)).check(find_judge(f"hf:{checkpoint(family)}"), materials, waits=waits)
    if family in CUTTING:
        # Where words stand is known beforehand: what is asked does not grow with the samples.
        assert not {line for line in device.waits if "mask as index" in line}
        assert max((waited.total() for _, waited in device.steps[1:]), default=0) <= 15


def test_frozen_networks(bert: Path) -> None:
    """What reads captions and sees pictures for other judges."""
    reader = FrozenEncoder(load_encoder(str(bert)), Pooling(32, ("cls", "max", "mean")))
    backbone = make_backbone(Materials(backbone_weights="random", image_size=64), "test_resnet")
    seer = GridsAndRegions(backbone, regions=2).eval()
    words = reader.collate([("dog",), ("dog", "rides", "noise"), ()])
    boxes = torch.tensor([[[0.0, 0.2, 0.5, 0.9], [0, 0, 0, 0]]] * 2)
    pictures = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        expected = reader(words), seer(pictures, boxes)
        with pretend_device() as device:
            reader.to(DEVICE)
            seer.to(DEVICE)
            batch = send_to_device((words, pictures, boxes), DEVICE)
            device.copies.clear()
            found = reader(batch[0]), seer(*batch[1:])
            assert not {line for line in device.copies + device.waits if not line.startswith(MASKING)}
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, OnDevice)
        assert held(one).numpy() == pytest.approx(other.numpy(), abs=1e-5)


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        (lambda tokens: torch.ones(len(tokens), 1), r"\[4, 1\] of aten.mul.Tensor is on the host.*test_device"),
        (lambda tokens: 1 + tokens.max().item(), r"test_device\.py:\d+ _local_scalar_dense"),
        (lambda tokens: 1 + tokens[tokens > 0].numel(), r"test_device\.py:\d+ mask as index"),
        (lambda tokens: torch.tensor([1.0], device=tokens.device), r"test_device\.py"),
    ],
)
def test_a_forgotten_move_a_wait_and_a_copy_are_found(step: Callable[[Tensor], Any], fault: str) -> None:
    """On a CPU the network has no fault."""

    def network(*given: Any) -> Any:
        made: Any = find_judge("rnn").network(*given)  # type: ignore[misc]
        forward = made.forward
        made.forward = lambda batch: forward(batch) * step(batch["tokens"])
        return made

    run = Run(make_samples(12), make_samples(5, seed=1))
    with pytest.raises((RuntimeError, AssertionError), match=fault):
        run.check(replace(find_judge("rnn"), network=network), Materials())
    assert _get_current_dispatch_mode() is None
    assert make_accelerator().device == torch.device("cpu")
