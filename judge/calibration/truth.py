"""Closed forms of what an optimal judge would measure in the world of ``world``, to test estimates against."""

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from judge.calibration.world import (
    CLASSES,
    DEFAULT,
    FAITHFUL,
    HALF,
    SETTINGS,
    TASKS,
    Captioner,
    Parameters,
    setting_given_scene,
    task_given_attribute,
)
from judge.metrics.scores import SCORES, Judged
from judge.types import Direction, FloatArray


def evidence_table(
    parameters: Parameters = DEFAULT,
    captioner: Captioner = FAITHFUL,
    *,
    direction: Direction = "A->T",
    uses_images: bool = False,
) -> FloatArray:
    """P(answer, evidence of one caption whose words are hidden); sums to 1, each class has 1/2.

    Args:
        parameters: the world.
        captioner: whose captions; ``FAITHFUL`` for people's too.
        direction: "A->T": the answer is the attribute, task and setting are the evidence, [2, 13, 9]. "T->A": the
            answer is the scene's task, the word for the person and the setting are the evidence, [12, 3, 9]. The last
            index of each axis of evidence: the caption does not name it.
        uses_images: the judge also sees the scene without its person: task and setting, [2, 13, 9, 12, 8]. For "A->T"
            alone: it need not guess a task that it sees.
    """
    scenes = task_given_attribute(parameters.association)[:, :, None] * setting_given_scene(parameters) / len(CLASSES)
    places = _confusion(len(SETTINGS), captioner.error)
    if direction == "A->T":
        sharp = task_given_attribute(0.0, knob=1.0)
        names = (1 - captioner.stereotype) * np.eye(len(TASKS)) + captioner.stereotype * sharp[:, None, :]
        names = names @ _confusion(len(TASKS), captioner.error)
        if uses_images:
            both = np.einsum("ats,atu,sv->tsauv", scenes, names, places)
            seen = [_with_silence(evidence, parameters.mention, parameters.place) for row in both for evidence in row]
            return np.moveaxis(np.reshape(seen, (*both.shape[:2], *seen[0].shape)), (0, 1), (3, 4))
        evidence = np.einsum("ats,atu,sv->auv", scenes, names, places)
        return _with_silence(evidence, parameters.mention, parameters.place)
    leaning = np.repeat(np.eye(len(CLASSES)), HALF, axis=0)
    words = (1 - captioner.guess) * np.eye(len(CLASSES))[:, None, :] + captioner.guess * leaning
    words = words @ _confusion(len(CLASSES), captioner.error)
    evidence = np.einsum("ats,atb,sv->tbv", scenes, words, places)
    return _with_silence(evidence, parameters.gendered, parameters.place)


def bayes_score(
    parameters: Parameters = DEFAULT,
    captioner: Captioner = FAITHFUL,
    *,
    direction: Direction = "A->T",
    score: str = "confident_accuracy",
    uses_images: bool = False,
) -> float:
    """The score, a key of ``scores.SCORES``, that an optimal judge reaches on one side, one caption at a time."""
    return optimal_score(evidence_table(parameters, captioner, direction=direction, uses_images=uses_images), score)


def optimal_score(table: FloatArray, score: str) -> float:
    """The score of a judge that knows ``table``: P(answer k, evidence), [K, ...], sums to 1."""
    joint = table.reshape(len(table), -1)
    total = joint.sum(axis=0)
    # Evidence that never comes has no posterior and no weight.
    posterior = np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)
    correct = posterior.argmax(axis=0) == np.arange(len(joint))[:, None]
    happens = joint > 0
    judged = Judged(posterior[happens], correct[happens], -np.log(posterior[happens]))
    mean = SCORES[score].quantity(judged) @ joint[happens]
    pool = SCORES[score].pool
    return float(pool(mean) if pool else mean)


def true_amplification(parameters: Parameters = DEFAULT, captioner: Captioner = FAITHFUL, **how: Any) -> float:
    """Generated minus human side for an optimal judge; ``how``: keyword arguments of :func:`bayes_score`.

    That is the truth of LIC (A->T by default), of Leakage with ``score="accuracy"``, and of ImageCaptioner2 with
    ``score="confidence"`` and ``uses_images``. It is exactly 0.0 for a ``FAITHFUL`` captioner.
    """
    return bayes_score(parameters, captioner, **how) - bayes_score(parameters, **how)


def truth(captioners: Mapping[str, Captioner], parameters: Parameters = DEFAULT) -> dict[str, dict[str, float]]:
    """Captioner -> {"A->T", "T->A"}: ``true_amplification`` in LIC's score, fractions; in ``captioners``' order."""
    return {
        name: {way: true_amplification(parameters, captioner, direction=way) for way in get_args(Direction)}
        for name, captioner in captioners.items()
    }


def _confusion(outcomes: int, error: float) -> FloatArray:
    """[outcomes, outcomes]: P(named | meant)."""
    return np.where(np.eye(outcomes, dtype=np.bool_), 1 - error, error / (outcomes - 1))


def _with_silence(evidence: FloatArray, first: float, second: float) -> FloatArray:
    """[K, M + 1, N + 1]: ``evidence``, [K, M, N], whose parts are named with probabilities ``first`` and ``second``."""
    outcomes, rows, columns = evidence.shape
    table = np.empty((outcomes, rows + 1, columns + 1))
    table[:, :-1, :-1] = first * second * evidence
    table[:, :-1, -1] = first * (1 - second) * evidence.sum(axis=2)
    table[:, -1, :-1] = (1 - first) * second * evidence.sum(axis=1)
    table[:, -1, -1] = (1 - first) * (1 - second) * evidence.sum(axis=(1, 2))
    return table
