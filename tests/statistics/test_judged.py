"""Judged metrics as functions of sums over captions and of arrays: against numbers worked by hand and slow loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pandas as pd
import pytest

from judge import dbac, dpac, evaluate, imagecaptioner2, leakage, lic
from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.metrics import find_metric
from judge.statistics.judged import Measured, Statistic, caption_table

Row = tuple[str, str, int, str, str, str, float]
"""image, side, index, named, tasks, answer, probability of the answer; NaN where no judge was asked."""


def frame(rows: list[Row]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["image_id", "side", "index", "named", "tasks", "answer", "probability"])
    guess = np.where(table["probability"] > 0.5, table["answer"], "another")
    return table.assign(predicted=guess, loss=-np.log(table["probability"]), seed=0)


def measure(metric: str, rows: list[Row]) -> Measured:
    row = find_metric(metric)
    table = frame(rows)
    statistic = Statistic(row, table)
    return statistic(*statistic.rows(caption_table(table, row.score)).sums())


@pytest.mark.parametrize(("metric", "human", "generated"), [
    # Classes: (0.9 + 0.6 + 0) / 3 and 0.8; by 2. Images: 0.9 + 0.6 + 0 + 0.8, by 4.
    ("lic", (1.5 / 3 + 0.8) / 2, (2.1 / 3 + 0) / 2), ("lic:unbalanced", 2.3 / 4, 2.1 / 4),
    ("leakage:80/20:unbalanced", 3 / 4, 3 / 4), ("imagecaptioner2:unbalanced", (0.9 + 0.6 + 0.3 + 0.8) / 4, 2.2 / 4),
])  # fmt: skip
def test_classes_or_images_count_equally_by_hand(metric: str, human: float, generated: float) -> None:
    """Three men and a woman; the human judge is wrong of one man (p = 0.3), the other of the woman (p = 0.1)."""
    sides = {"human": (0.9, 0.6, 0.3, 0.8), "generated": (0.7, 0.7, 0.7, 0.1)}
    rows = [
        (str(image), side, 0, "", "", "mmmf"[image], answer)
        for side, answers in sides.items()
        for image, answer in enumerate(answers)
    ]
    found = measure(metric, rows)
    assert (found.human.value, found.generated.value) == pytest.approx((human, generated))
    # What captions add is the value, however classes count; one that tells nothing adds nothing.
    table = frame(rows)
    statistic = Statistic(find_metric(metric), table)
    sums = statistic.rows(caption_table(table, find_metric(metric).score)).sums()
    pieces = statistic.pieces(*sums)
    assert pieces[1] @ sums[1] - pieces[0] @ sums[0] == pytest.approx(generated - human)


# P(cup) = 1/2, P(dog) = P(nothing) = 1/4; P(f) = P(m) = 1/2: w is 1, 1, 1/2, 1/2.
HUMAN: list[Row] = [
    ("1", "human", 0, "", "cup", "f", 0.9),
    ("2", "human", 0, "", "cup", "f", 0.6),
    ("3", "human", 0, "", "dog", "m", 0.2),
    ("4", "human", 0, "", "", "m", 0.4),
]
# All say nothing: P = 1, and w is 2.
SILENT: list[Row] = [(str(n), "generated", 0, "", "", "ffmm"[n - 1], 0.5) for n in range(1, 5)]

NAMED: list[Row] = [
    ("1", "human", 0, "f", "", "cup", 0.9),
    ("1", "human", 1, "f", "", "cup", 0.5),
    ("1", "human", 2, "", "", "cup", 0.001),
    ("1", "generated", 0, "m", "", "cup", 0.5),
    ("2", "human", 0, "m", "", "dog", 0.2),
    ("2", "human", 1, "f|m", "", "dog", 0.001),
    ("2", "human", 2, "", "", "dog", 0.001),
    ("2", "generated", 0, "", "", "dog", 0.001),
]


def test_omega_with_accuracy_by_hand() -> None:
    """DBAC, eq. 5 and section 5.1: Q P(t)/P(a) with Q the accuracy.

    Human: two of four are right, Q = 1/2, mean w = (1 + 1 + 1/2 + 1/2)/4 = 3/4, omega = 3/8 (the mean of q w is 1/2).
    Generated: three of four, w = 2, omega = 3/2. (3/2 - 3/8)/(3/2 + 3/8) = 9/15. T->A: one of three captions that name
    a class is right, with w = 4/3, 4/3, 2/3: 1/3 x 10/9.
    """
    rows = HUMAN + [(*row[:-1], 0.9 if row[0] != "4" else 0.1) for row in SILENT]
    found = measure("dbac-at:accuracy", rows)
    assert found.human == (pytest.approx(3 / 8), pytest.approx(1 / 2), pytest.approx(3 / 4))
    assert found.generated == (pytest.approx(3 / 2), pytest.approx(3 / 4), pytest.approx(2))
    assert found.value == pytest.approx(9 / 15)
    assert measure("dpac-at:accuracy", rows).human.value == pytest.approx(1 / 2)
    assert measure("dbac-ta:accuracy", NAMED).human.value == pytest.approx(10 / 27)

    table = frame(rows)
    statistic = Statistic(find_metric("dbac-at:accuracy"), table)
    human, generated = statistic.rows(caption_table(table, "accuracy")).sums()
    pieces = statistic.pieces(human, generated)
    assert generated @ pieces[1] - human @ pieces[0] == pytest.approx(9 / 15)
    # Captions of both sides together add about nothing: each counts from the mean of both sides.
    assert abs(generated @ pieces[1] + human @ pieces[0]) < 9 / 15 / 4


def test_from_tasks_to_attribute_captions_count_that_name_one_class() -> None:
    """Of five human captions three name one class: P(f) = 2/3, P(m) = 1/3. P(T): of two images one each, 1/2.

    w of those three: 4/3, 4/3, 2/3; what the other two say of tasks is no part of Q.
    """
    found = measure("dpac-ta", NAMED)
    assert found.human.quality == pytest.approx((0.9 + 0.5 + 0.2) / 3)
    assert found.human.prior == pytest.approx((4 / 3 + 4 / 3 + 2 / 3) / 3)
    assert found.human.value == pytest.approx((0.9 * 4 / 3 + 0.5 * 4 / 3 + 0.2 * 2 / 3) / 3)
    assert found.generated.value == pytest.approx(0.5 * 1 / (1 / 2))


def test_priors_are_of_all_captions_scores_of_those_that_were_judged() -> None:
    """A fifth image that no judge was asked about makes P(cup) 3/5; Q stays."""
    unasked: list[Row] = [("5", "human", 0, "", "cup", "f", np.nan), ("5", "generated", 0, "", "", "f", np.nan)]
    found, before = (measure("dpac-at", HUMAN + SILENT + more) for more in (unasked, []))
    assert found.human.quality == pytest.approx(before.human.quality)
    cup, dog, female, male = 3 / 5, 1 / 5, 3 / 5, 2 / 5
    expected = (0.9 * cup / female + 0.6 * cup / female + 0.2 * dog / male + 0.4 * dog / male) / 4
    assert found.human.value == pytest.approx(expected)


def test_a_resample_without_a_set_of_tasks_has_a_value() -> None:
    """Sums of images 1 and 2 alone, under cells of all four: as if there were no others."""
    rows: list[Row] = [
        (str(n), side, 0, "f" if n % 2 else "m", "", f"task {n}", 0.2 * n)
        for n in range(1, 5)
        for side in ("human", "generated")
    ]
    table = frame(rows)
    statistic = Statistic(find_metric("dpac-ta"), table)
    by_image = statistic.rows(caption_table(table, "confidence")).by_image()
    sums = [np.asarray(side[:2].sum(axis=0), dtype=np.float64) for side in by_image]
    alone = measure("dpac-ta", [row for row in rows if row[0] in {"1", "2"}])
    assert statistic(*sums).human.value == pytest.approx(alone.human.value)
    assert alone.human.value == pytest.approx((0.2 + 0.4) / 2)  # P(a^) = P(T) = 1/2.


@pytest.mark.parametrize("metric", ["lic", "dpac-at:accuracy", "dbac-at:accuracy", "dpac-ta:accuracy"])
@pytest.mark.parametrize("right", ["human", "generated", "none"])
def test_a_side_of_value_0_is_taken_apart_without_its_logarithm(metric: str, right: str) -> None:
    """No answer of one side is right: contributions still add up to the whole, and nothing is infinite."""
    rows: list[Row] = [
        (str(n), side, 0, "abc"[n % 3], "cup", "abc"[n % 3], 0.9 if side == right else 0.1)
        for n in range(9)
        for side in ("human", "generated")
    ]
    row, table = find_metric(metric), frame(rows)
    statistic = Statistic(row, table)
    human, generated = statistic.rows(caption_table(table, row.score)).sums()
    expected = {"human": -1, "generated": 1, "none": 0}[right] * (0.9 if metric == "lic" else 1)
    assert statistic(human, generated).value == pytest.approx(expected)
    pieces = statistic.pieces(human, generated)
    assert generated @ pieces[1] - human @ pieces[0] == pytest.approx(expected)


def test_arrays_by_hand() -> None:
    """Classes count equally. Human: class 0 is right at 0.9 and (the first of equals) 0.5, class 1 at 0.7."""
    human = [[0.9, 0.1], [0.4, 0.6], [0.5, 0.5], [0.3, 0.7]]
    both = [0, 0, 0, 1], human, [[0.8, 0.2], [0.7, 0.3], [0.2, 0.8], [0.0, 1.0]]
    assert lic(*both)[:3] == pytest.approx((0.75 - (1.4 / 3 + 0.7) / 2, (1.4 / 3 + 0.7) / 2, 0.75))
    assert leakage(*both)[:3] == pytest.approx((0, 5 / 6, 5 / 6))
    assert imagecaptioner2(*both)[:3] == pytest.approx(((1.7 / 3 + 1) / 2 - 0.65, 0.65, (1.7 / 3 + 1) / 2))
    assert imagecaptioner2(*both, ratio=True).value == pytest.approx((1.7 / 3 + 1) / 1.3)


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
    assert found[:3] == pytest.approx(((after - before) / (after + before), before, after))


def test_folds_give_the_interval_of_a_run() -> None:
    """The arrays of a run with one caption a side and no refits have the interval and p of its table."""
    world = make_world(60, seed=5)
    human = {image: of[0] for image, of in world.human.by_image.items()}
    captions = simulate(world, name="mine", captioner=Captioner(stereotype=0.9)).by_image
    how: dict[str, Any] = {"metrics": "lic", "judge": "linear", "folds": 5, "seeds": 1, "refits": 0, "workers": 1}
    result = evaluate(human=human, captions={"mine": captions}, labels=world.labels.by_image, **how)
    row, classes = result.table(all=True).iloc[0], ["female", "male"]
    assert row["basis"] == "splits"
    sides = {side: of.sort_values("image_id") for side, of in result.scores.groupby("side", observed=True)}
    y = np.array([classes.index(of) for of in sides["human"]["answer"]])
    arrays = []
    for table in (sides["human"], sides["generated"]):
        right = table["probability"].to_numpy()
        first = np.where(y == 0, right, 1 - right)
        arrays.append(np.stack([first, 1 - first], axis=1))
    found = lic(y, *arrays, folds=sides["human"]["fold"])
    assert found.interval is not None
    values = found.value, found.interval.low, found.interval.high, found.p_value
    assert values == pytest.approx((row["amplification"], row["low"], row["high"], row["p_value"]))
    assert lic(y, *arrays).interval is None
    with pytest.raises(ValueError, match="folds: 5 or more are needed, not 2"):
        lic(y, *arrays, folds=y)
    with pytest.raises(ValueError, match="number of samples"):
        lic(y, *arrays, folds=[0])
    with pytest.raises(ValueError, match="none is missing"):
        lic(y, *arrays, folds=[None, *sides["human"]["fold"][1:]])
    # What does not vary but by rounding has neither interval nor p.
    constant = (
        [[0.55 if of == k else 0.45 for k in (0, 1)] for of in y],
        [[0.9 if of == k else 0.1 for k in (0, 1)] for of in y],
    )
    assert imagecaptioner2(y, *constant, folds=sides["human"]["fold"])[3:] == (None, None)


def test_wrong_arrays() -> None:
    with pytest.raises(ValueError, match="not all in \\[0, 1\\]"):
        lic([0, 1], [[2, -1], [0, 1]], [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match=r"probabilities: \[N, 3\] are needed"):
        lic([0, 2], [[1, 0], [0, 1]], [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match="number of samples"):
        lic([0, 1], [[1, 0]], [[1, 0], [0, 1]])


def test_a_side_that_names_nobody_has_no_value() -> None:
    rows: list[Row] = [("1", side, 0, "f" * (side == "human"), "", "cup", 0.5) for side in ("human", "generated")]
    found = measure("dbac-ta", rows)
    assert np.isfinite(found.human.value)
    assert np.isnan(found.generated.value)
    assert np.isnan(found.value)
