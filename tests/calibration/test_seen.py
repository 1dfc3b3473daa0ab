"""What a small network learns of drawn scenes whose people are hidden: setting and task, not the attribute."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed
from torch import nn

from judge.calibration.scenes import draw
from judge.calibration.world import CLASSES, SETTINGS, TASKS, Scene
from judge.masking.instances import PERSON, Pixels
from judge.masking.people import hide

PICTURES, TRAINED_ON, EPOCHS = 1200, 800, 12
OUTPUTS = (len(SETTINGS), len(TASKS), len(CLASSES))


def without_people(scene: Scene) -> Pixels:
    drawing = draw(scene, size=80)
    return hide(drawing.pixels, np.any([thing.mask for thing in drawing.things if thing.label == PERSON], axis=0))


def hidden_pictures() -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures, [N, 3, 80, 80]; setting, task and attribute, independent, [N, 3]."""
    answers = np.random.default_rng(0).integers(0, OUTPUTS, (PICTURES, 3))
    scenes = [Scene(str(n), CLASSES[c], SETTINGS[a], TASKS[b]) for n, (a, b, c) in enumerate(answers.tolist(), 1)]
    drawn = Parallel(-1, prefer="threads")(delayed(without_people)(scene) for scene in scenes)
    return torch.tensor(np.stack(drawn)).permute(0, 3, 1, 2).float() / 127 - 1, torch.tensor(answers)


def accuracies(pixels: torch.Tensor, answers: torch.Tensor) -> list[float]:
    """Of setting, task and attribute, on pictures that the network never saw."""
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
            loss = sum(nn.functional.cross_entropy(head, answers[batch, i]) for i, head in enumerate(heads))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    network.eval()
    with torch.no_grad():
        heads = network(pixels[TRAINED_ON:]).split(OUTPUTS, 1)
    return [float((head.argmax(1) == answers[TRAINED_ON:, i]).float().mean()) for i, head in enumerate(heads)]


@pytest.mark.slow
def test_hidden_people_take_the_attribute_with_them() -> None:
    """That it can be learnt where people are visible, ``test_known_worlds`` finds."""
    setting, task, attribute = accuracies(*hidden_pictures())
    assert setting > 0.97
    assert task > 0.75
    # 400 pictures: a standard error of 0.025.
    assert abs(attribute - 0.5) < 0.1
