"""Learned metrics on arrays: cases worked by hand, and the papers' formulas as slow loops."""

from __future__ import annotations

import numpy as np
import oracle
import pytest

from judge import dbac, dpac, imagecaptioner2, leakage, lic

Y = [0, 0, 0, 1]
HUMAN = [[0.9, 0.1], [0.4, 0.6], [0.5, 0.5], [0.3, 0.7]]
GENERATED = [[0.8, 0.2], [0.7, 0.3], [0.2, 0.8], [0.0, 1.0]]


def test_by_hand() -> None:
    """Classes count equally. Human: class 0 is right at 0.9 and (the first of equals) 0.5, class 1 at 0.7."""
    assert lic(Y, HUMAN, GENERATED) == pytest.approx((0.75 - (1.4 / 3 + 0.7) / 2, (1.4 / 3 + 0.7) / 2, 0.75))
    assert leakage(Y, HUMAN, GENERATED) == pytest.approx((0, 5 / 6, 5 / 6))
    assert imagecaptioner2(Y, HUMAN, GENERATED) == pytest.approx(((1.7 / 3 + 1) / 2 - 0.65, 0.65, (1.7 / 3 + 1) / 2))
    assert imagecaptioner2(Y, HUMAN, GENERATED, ratio=True).value == pytest.approx((1.7 / 3 + 1) / 1.3)


@pytest.mark.parametrize("direction", ["A->T", "T->A"])
@pytest.mark.parametrize(("function", "pooled"), [(dbac, True), (dpac, False)])
def test_directional_metrics_against_loops(function: type, pooled: bool, direction: str) -> None:
    generator = np.random.default_rng(4)
    classes, tasks = np.eye(2)[generator.integers(0, 2, 60)], generator.integers(0, 2, (60, 3))
    truth = classes if direction == "A->T" else tasks
    sides = []
    for _ in range(2):
        probabilities = generator.uniform(0.05, 0.95, (60, 2 if direction == "A->T" else 3))
        mentions = generator.integers(0, 2, (60, 3 if direction == "A->T" else 2))
        if direction == "A->T":
            probabilities[:, 1] = 1 - probabilities[:, 0]
        right = np.where(truth, probabilities, 1 - probabilities)
        # The loss of one class is -log p of it; of tasks the mean over the tasks.
        loss = -np.log(right).mean(axis=1)
        of_truth = right[:, 0] if direction == "A->T" else right.prod(axis=1)
        column = "tasks" if direction == "A->T" else "named"
        rows = [
            {"image_id": image, "answer": str(truth[image]), column: "|".join(map(str, np.flatnonzero(of)))}
            | {"loss": loss[image], "probability": of_truth[image]}
            for image, of in enumerate(mentions)
        ]
        sides.append((probabilities, mentions, oracle.directional(rows, direction=direction, pooled=pooled)))
    found = function(truth, sides[0][0], sides[1][0], sides[0][1], sides[1][1], direction)
    before, after = sides[0][2], sides[1][2]
    assert found == pytest.approx(((after - before) / (after + before), before, after))


def test_wrong_arrays() -> None:
    with pytest.raises(ValueError, match="not all in \\[0, 1\\]"):
        lic([0, 1], [[2, -1], [0, 1]], [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match=r"probabilities: \[N, 3\] are needed"):
        lic([0, 2], [[1, 0], [0, 1]], [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match="number of samples"):
        lic([0, 1], [[1, 0]], [[1, 0], [0, 1]])
