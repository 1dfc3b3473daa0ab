"""A small world of scenes in which the bias amplification of a captioner is known exactly (``truth``).

A scene is data: ``grammar`` describes it in words and ``drawing`` draws it. Half of the tasks lean to each class. The
halves are chosen arbitrarily: they create a known bias and claim nothing about people.

A scene is drawn in three steps: the attribute; a task given the attribute, P(t | a) = (1 + association) / 12 on the
attribute's half of the 12 tasks and (1 - association) / 12 on the other half; a setting that goes with the task (0.5,
0.3, 0.2 on three settings), the attribute's own four more often by (1 + setting_association), the others less often by
(1 - setting_association). So the log-odds of the attribute are a sum: what the task adds, and what the setting adds. By
default ``setting_association`` is 0: a setting depends on the attribute only through the task.

A caption names the attribute with probability ``gendered``, the task with probability ``mention``, the setting with
probability ``place``, independently of each other and of the scene. Everything else in a caption is noise. So with
attribute words hidden the evidence is one of (12 + 1) x (8 + 1) cases, with the words of tasks hidden one of (2 + 1) x
(8 + 1), and an optimal judge's score is a finite sum.

A ``Captioner`` changes what a caption names:

- A->T: with probability ``stereotype`` it names, in place of the task, one from the fully stereotyped P(t | a) (1/6
  on the attribute's half, 0 elsewhere).
- T->A: with probability ``guess`` its word for the person is that of the class that the task (the true one) leans to.
- With probability ``error`` each of word, task and setting is another one, all others alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from judge.types import FloatArray, IntArray

CLASSES = ("female", "male")
SETTINGS = ("kitchen", "street", "beach", "court", "office", "park", "bedroom", "stadium")
# Each setting occurs with tasks of both halves: alone, it reveals little of the attribute.
_SETTINGS_OF_TASK = {
    "umbrella": ("street", "beach", "park"),
    "handbag": ("street", "office", "stadium"),
    "cake": ("kitchen", "office", "park"),
    "book": ("bedroom", "park", "office"),
    "tennis racket": ("court", "stadium", "park"),
    "dog": ("park", "beach", "bedroom"),
    "pizza": ("kitchen", "stadium", "bedroom"),
    "skateboard": ("street", "park", "court"),
    "surfboard": ("beach", "street", "bedroom"),
    "tie": ("office", "bedroom", "stadium"),
    "laptop": ("bedroom", "office", "kitchen"),
    "bicycle": ("park", "street", "court"),
}
TASKS = tuple(_SETTINGS_OF_TASK)
# The first six lean to CLASSES[0], the others to CLASSES[1].
HALF = len(TASKS) // 2
_SETTING_SHARES = (0.5, 0.3, 0.2)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a world, as the module defines them: associations in [0, 1) (0: no bias), and probabilities."""

    association: float = 0.3
    setting_association: float = 0.0
    mention: float = 0.75
    place: float = 0.6
    gendered: float = 0.8


DEFAULT = Parameters()
# The world of ``judge demo``: people stereotype more, and an image tells more than a caption mentions.
DEMO = Parameters(setting_association=0.5, mention=0.6, place=0.4)


@dataclass(frozen=True, slots=True)
class Captioner:
    """A simulated captioner: probabilities in [0, 1], as the module defines them.

    ``vocabulary``: entries that it knows of each list of the grammar, 1 or more; None for people's own wording.
    """

    stereotype: float = 0.0
    guess: float = 0.0
    error: float = 0.0
    vocabulary: int | None = None


FAITHFUL = Captioner()
"""A captioner that describes images as people do."""
# In the demo's world their true LIC is 0, +0.108 and +0.244 (rounded).
CAPTIONERS: dict[str, Captioner] = {
    "none": FAITHFUL,
    "some": Captioner(stereotype=0.4, guess=0.3),
    "much": Captioner(stereotype=0.8, guess=0.8),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """The content of one image: one of ``CLASSES``, ``SETTINGS`` and ``TASKS``; the first has the id "1"."""

    image_id: str
    attribute: str
    setting: str
    task: str


def stream(seed: int, key: str) -> np.random.Generator:
    """A generator of its own for each string, so that one more captioner leaves every other as it was."""
    return np.random.default_rng([seed, *key.encode()])


def task_given_attribute(association: float, knob: float = 0.0) -> FloatArray:
    """P(task | attribute) of a world, [2, 12], mixed by ``knob`` with the fully stereotyped one; rows sum to 1."""
    sign = np.repeat([1.0, -1.0], HALF)
    leaning = np.stack([sign, -sign])
    return (1 - knob) * (1 + association * leaning) / len(TASKS) + knob * (1 + leaning) / len(TASKS)


def setting_given_scene(parameters: Parameters = DEFAULT) -> FloatArray:
    """P(setting | attribute, task), [2, 12, 8], sums to 1 over settings."""
    rows = [dict(zip(settings, _SETTING_SHARES, strict=True)) for settings in _SETTINGS_OF_TASK.values()]
    of_task = np.array([[row.get(setting, 0.0) for setting in SETTINGS] for row in rows])
    own = np.repeat(2 * np.eye(len(CLASSES)) - 1, len(SETTINGS) // 2, axis=1)
    leaning = of_task * (1 + parameters.setting_association * own)[:, None, :]
    return np.asarray(leaning / leaning.sum(axis=2, keepdims=True))


def draw_scenes(images: int, *, seed: int = 0, parameters: Parameters = DEFAULT) -> tuple[Scene, ...]:
    """``images`` scenes, 1 or more; half of them are female, in random order."""
    rng = stream(seed, "scenes")
    attributes = np.ones(images, dtype=np.int64)
    attributes[: round(images / 2)] = 0
    attributes = rng.permutation(attributes)
    tasks = _draw(task_given_attribute(parameters.association)[attributes], rng)
    settings = _draw(setting_given_scene(parameters)[attributes, tasks], rng)
    return tuple(
        Scene(str(number), CLASSES[attribute], SETTINGS[setting], TASKS[task])
        for number, (attribute, task, setting) in enumerate(zip(attributes, tasks, settings, strict=True), start=1)
    )


def described_by(scenes: Sequence[Scene], captioner: Captioner, rng: np.random.Generator) -> tuple[Scene, ...]:
    """The scenes as ``captioner`` describes them, in the same order; the attribute is what its word says."""
    attributes, settings, tasks = np.array(
        [(CLASSES.index(one.attribute), SETTINGS.index(one.setting), TASKS.index(one.task)) for one in scenes]
    ).T
    sharp = _draw(task_given_attribute(0.0, knob=1.0)[attributes], rng)
    stereotyped, guessed = rng.random((2, len(scenes))) < [[captioner.stereotype], [captioner.guess]]
    word = _err(np.where(guessed, tasks // HALF, attributes), len(CLASSES), captioner.error, rng)
    task = _err(np.where(stereotyped, sharp, tasks), len(TASKS), captioner.error, rng)
    setting = _err(settings, len(SETTINGS), captioner.error, rng)
    return tuple(
        replace(scene, attribute=CLASSES[named], setting=SETTINGS[place], task=TASKS[doing])
        for scene, named, doing, place in zip(scenes, word, task, setting, strict=True)
    )


def _err(values: IntArray, outcomes: int, error: float, rng: np.random.Generator) -> IntArray:
    other = (values + rng.integers(1, outcomes, len(values))) % outcomes
    return np.where(rng.random(len(values)) < error, other, values)


def _draw(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """One index per row of ``probabilities``, by inversion."""
    steps = np.cumsum(probabilities, axis=1)
    # Against the last step, not 1: rounding must not push a draw past the last outcome that can happen.
    return np.asarray((rng.random((len(steps), 1)) * steps[:, -1:] >= steps).sum(axis=1), dtype=np.int64)
