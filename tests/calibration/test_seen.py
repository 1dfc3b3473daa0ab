"""From drawn scenes with hidden people a small network learns the setting and the task, not the attribute."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed
from torch import nn

from judge.calibration.drawing import draw
from judge.calibration.world import CLASSES, SETTINGS, TASKS, Scene
from judge.masking.instances import PERSON, Pixels
from judge.masking.people import hide

IMAGES, TRAINED_ON, EPOCHS = 1200, 800, 12
OUTPUTS = (len(SETTINGS), len(TASKS), len(CLASSES))


def without_people(scene: Scene) -> Pixels:
    drawing = draw(scene, size=80)
    return hide(drawing.pixels, np.any([one.mask for one in drawing.things if one.label == PERSON], axis=0))


def hidden_images() -> tuple[torch.Tensor, torch.Tensor]:
    """Images, [N, 3, 80, 80]; setting, task and attribute, independent, [N, 3]."""
    answers = np.random.default_rng(0).integers(0, OUTPUTS, (IMAGES, 3))
    scenes = [Scene(str(n), CLASSES[c], SETTINGS[a], TASKS[b]) for n, (a, b, c) in enumerate(answers.tolist(), 1)]
    drawn = Parallel(-1, prefer="threads")(delayed(without_people)(scene) for scene in scenes)
    return torch.tensor(np.stack(drawn)).permute(0, 3, 1, 2).float() / 127 - 1, torch.tensor(answers)


def accuracies(pixels: torch.Tensor, answers: torch.Tensor) -> list[float]:
    """Of setting, task and attribute, on held-out images."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in ((3, 24), (24, 40), (40, 64), (64, 96)):
        layers += [nn.Conv2d(before, after, 3, 2 if before == 3 else 1, 1), nn.BatchNorm2d(after), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
    network = nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3), nn.Linear(96 * 4, sum(OUTPUTS)))
    steps = EPOCHS * -(-TRAINED_ON // 64)
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(TRAINED_ON).split(64):
            mirrored = pixels[batch].flip(3) if torch.rand(()) < 0.5 else pixels[batch]
            heads = network(mirrored).split(OUTPUTS, 1)
            losses = [nn.functional.cross_entropy(head, answers[batch, i]) for i, head in enumerate(heads)]
            optimiser.zero_grad()
            torch.stack(losses).sum().backward()
            optimiser.step()
            schedule.step()
    network.eval()
    with torch.no_grad():
        heads = network(pixels[TRAINED_ON:]).split(OUTPUTS, 1)
    return [float((head.argmax(1) == answers[TRAINED_ON:, i]).float().mean()) for i, head in enumerate(heads)]


@pytest.mark.slow
def test_the_attribute_is_not_learnt_from_hidden_people() -> None:
    """``test_known_worlds`` shows that it can be learnt from visible people."""
    setting, task, attribute = accuracies(*hidden_images())
    assert setting > 0.97
    assert task > 0.75
    # 400 images: a standard error of 0.025.
    assert abs(attribute - 0.5) < 0.1
