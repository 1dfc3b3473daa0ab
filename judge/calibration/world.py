"""A small world of scenes in which the bias amplification of a captioner is known exactly.

A scene is data, not words: ``grammar`` says it, a renderer can draw it. Half of the tasks lean to each class,
arbitrarily so: the halves are a device to create a known bias and claim nothing about people.

How a scene comes about: the attribute; a task given the attribute, P(t | a) = (1 + association) / 12 on the
attribute's half of the 12 tasks and (1 - association) / 12 on the other half; a setting given the task alone
(0.5, 0.3, 0.2 on three settings). So a setting tells of the attribute only through the task.

What a caption tells: the task with probability ``mention``, the setting with probability ``place``,
independently of each other and of the scene. Everything else in a caption is noise, so the evidence is one of
(12 + 1) x (8 + 1) cases and an optimal judge's score is a finite sum.

What a captioner with knob k does: with probability k it describes another scene of the same attribute, whose
task is from the fully stereotyped P_sharp(t | a) (1/6 on the attribute's half, 0 elsewhere), with a setting that
goes with that task. Otherwise it tells what is there, as people do. So its captions are those of a world with
P_k(t | a) = (1 - k) P(t | a) + k P_sharp(t | a), and at k = 0 its amplification is exactly 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from judge.errors import JudgeError, nearest
from judge.scores import SCORES
from judge.types import FloatArray, IntArray

CLASSES = ("female", "male")
SETTINGS = ("kitchen", "street", "beach", "court", "office", "park", "bedroom", "stadium")
# The settings are shared out so that each occurs with tasks of both halves: alone, they tell little.
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

# Captioner -> knob. With the default parameters their true LIC is 0, +0.085 and +0.265 (rounded).
CAPTIONERS: dict[str, float] = {"none": 0.0, "some": 0.25, "much": 0.7}


def _within(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise JudgeError(f"{name} is {value}", mend="take a number from 0 to 1")


@dataclass(frozen=True, slots=True)
class Parameters:
    """What defines a world, apart from its size and seed.

    Attributes:
        association: how far tasks lean to their class, in [0, 1); 0 is a world without bias.
        mention: probability that a caption names the task, in [0, 1].
        place: probability that a caption names the setting, in [0, 1].
        gendered: probability that a caption names the person by a gendered word, in [0, 1].
        female_share: share of female scenes, in (0, 1). Closed forms weigh classes equally whatever it is,
            as LIC's balanced splits do.

    Raises:
        JudgeError: a value outside its range.
    """

    association: float = 0.3
    mention: float = 0.75
    place: float = 0.6
    gendered: float = 0.8
    female_share: float = 0.5

    def __post_init__(self) -> None:
        for field in fields(self):
            _within(field.name, getattr(self, field.name))
        if self.association == 1:
            raise JudgeError("association is 1", mend="take less: nothing could be amplified")
        if self.female_share in {0, 1}:
            raise JudgeError(
                f"female_share is {self.female_share}", mend="take a number between: there are two classes"
            )


DEFAULT = Parameters()


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to see in one image.

    Attributes:
        image_id: an integer as a string, "1" for the first.
        attribute: one of ``CLASSES``.
        setting: one of ``SETTINGS``.
        tasks: the main task first, of ``TASKS``; exactly one so far.
    """

    image_id: str
    attribute: str
    setting: str
    tasks: tuple[str, ...]


def stream(seed: int, key: str) -> np.random.Generator:
    """A generator of its own for each string, so that one more captioner leaves every other as it was.

    Raises:
        JudgeError: a negative seed.
    """
    if seed < 0:
        raise JudgeError(f"seed is {seed}", mend="take 0 or more")
    return np.random.default_rng([seed, *key.encode()])


def task_given_attribute(association: float, knob: float = 0.0) -> FloatArray:
    """P_k(task | attribute), [2, 12], rows sum to 1: what a captioner with ``knob`` in [0, 1] tells of.

    ``knob`` 0 gives the world's own P(task | attribute), to the last bit.

    Raises:
        JudgeError: a value outside [0, 1].
    """
    _within("association", association)
    _within("knob", knob)
    sign = np.repeat([1.0, -1.0], HALF)
    leaning = np.stack([sign, -sign])
    return (1 - knob) * (1 + association * leaning) / len(TASKS) + knob * (1 + leaning) / len(TASKS)


def setting_given_task() -> FloatArray:
    """P(setting | task), [12, 8], rows sum to 1."""
    table = np.zeros((len(TASKS), len(SETTINGS)))
    for row, settings in enumerate(_SETTINGS_OF_TASK.values()):
        table[row, [SETTINGS.index(setting) for setting in settings]] = _SETTING_SHARES
    return table


def draw_scenes(images: int, *, seed: int = 0, parameters: Parameters = DEFAULT) -> tuple[Scene, ...]:
    """``images`` scenes; ``round(images * female_share)`` of them are female, in random order.

    Raises:
        JudgeError: fewer than one image; a negative seed.
    """
    if images < 1:
        raise JudgeError(f"{images} images", mend="ask for 1 or more")
    rng = stream(seed, "scenes")
    attributes = np.ones(images, dtype=np.int64)
    attributes[: round(images * parameters.female_share)] = 0
    attributes = rng.permutation(attributes)
    tasks, settings = _draw_content(attributes, task_given_attribute(parameters.association), rng)
    return tuple(
        Scene(str(number), CLASSES[attribute], SETTINGS[setting], (TASKS[task],))
        for number, (attribute, task, setting) in enumerate(zip(attributes, tasks, settings, strict=True), start=1)
    )


def misread(scenes: Sequence[Scene], *, knob: float, rng: np.random.Generator) -> tuple[Scene, ...]:
    """The scenes as a captioner with ``knob`` in [0, 1] takes them to be, in the same order.

    Each is replaced, with probability ``knob``, by a draw of task and setting from the stereotype of its
    attribute; image and attribute stay.

    Raises:
        JudgeError: ``knob`` outside [0, 1].
    """
    _within("knob", knob)
    attributes = np.array([CLASSES.index(scene.attribute) for scene in scenes], dtype=np.int64)
    tasks, settings = _draw_content(attributes, task_given_attribute(0.0, knob=1.0), rng)
    replaced = rng.random(len(scenes)) < knob
    return tuple(
        replace(scene, setting=SETTINGS[setting], tasks=(TASKS[task],)) if wrong else scene
        for scene, task, setting, wrong in zip(scenes, tasks, settings, replaced, strict=True)
    )


def evidence_table(parameters: Parameters = DEFAULT, *, knob: float = 0.0) -> FloatArray:
    """P(attribute, what one caption tells), [2, 13, 9], sums to 1; each class has 1/2.

    Axes: attribute, task told (last: none), setting told (last: none). ``knob`` 0 is the human side too.

    Raises:
        JudgeError: ``knob`` outside [0, 1].
    """
    tasks = task_given_attribute(parameters.association, knob)
    joint = tasks[:, :, None] * setting_given_task()
    table = np.empty((len(CLASSES), len(TASKS) + 1, len(SETTINGS) + 1))
    table[:, :-1, :-1] = parameters.mention * parameters.place * joint
    table[:, :-1, -1] = parameters.mention * (1 - parameters.place) * tasks
    table[:, -1, :-1] = (1 - parameters.mention) * parameters.place * joint.sum(axis=1)
    table[:, -1, -1] = (1 - parameters.mention) * (1 - parameters.place)
    return table / len(CLASSES)


def bayes_score(parameters: Parameters = DEFAULT, *, knob: float = 0.0, score: str = "confident_accuracy") -> float:
    """The score that an optimal judge reaches on one side, seeing one caption at a time, classes weighted equally.

    The sum over evidence e and attributes a of P(e, a) times the score's quantity for the posterior P(a | e).
    The judge answers the most probable class, the first one at a tie. Knowing nothing: 1/4 for
    ``confident_accuracy``, 1/2 for ``accuracy`` and ``confidence``. ``knob`` 0 is the human side.

    Args:
        parameters: the world.
        knob: the captioner's, in [0, 1].
        score: a key of ``scores.SCORES``.

    Raises:
        JudgeError: ``knob`` outside [0, 1]; an unknown score.
    """
    if score not in SCORES:
        raise JudgeError(f"unknown score '{score}'", mend=nearest(score, list(SCORES)))
    joint = evidence_table(parameters, knob=knob).reshape(len(CLASSES), -1)
    total = joint.sum(axis=0)
    # Evidence that never comes has no posterior and no weight.
    posterior = np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)
    correct = posterior.argmax(axis=0) == np.arange(len(CLASSES))[:, None]
    happens = joint > 0
    quantity = SCORES[score].quantity(posterior[happens], correct[happens])
    return float(SCORES[score].pool(np.asarray(joint[happens] @ quantity)))


def true_amplification(
    parameters: Parameters = DEFAULT, knob: float = 0.0, *, score: str = "confident_accuracy"
) -> float:
    """Generated minus human side for an optimal judge: LIC's truth, Leakage's with ``score="accuracy"``.

    Exactly 0.0 at ``knob`` 0, never decreasing in ``knob``; not more than 3/4 (1/2 for Leakage).

    Raises:
        JudgeError: ``knob`` outside [0, 1]; an unknown score.
    """
    return bayes_score(parameters, knob=knob, score=score) - bayes_score(parameters, score=score)


def truth(captioners: Mapping[str, float], parameters: Parameters = DEFAULT) -> dict[str, dict[str, float]]:
    """Captioner -> {"lic", "leakage", "knob"}, fractions, in the order of ``captioners`` (name -> knob).

    Raises:
        JudgeError: a knob outside [0, 1].
    """
    return {
        name: {
            "lic": true_amplification(parameters, knob),
            "leakage": true_amplification(parameters, knob, score="accuracy"),
            "knob": float(knob),
        }
        for name, knob in captioners.items()
    }


def _draw_content(attributes: IntArray, tasks: FloatArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    chosen = _draw(tasks[attributes], rng)
    return chosen, _draw(setting_given_task()[chosen], rng)


def _draw(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """One index per row of ``probabilities``, by inversion."""
    steps = np.cumsum(probabilities, axis=1)
    # Against the last step, not 1: rounding must not push a draw past the last outcome that can happen.
    return np.asarray((rng.random((len(steps), 1)) * steps[:, -1:] >= steps).sum(axis=1), dtype=np.int64)
