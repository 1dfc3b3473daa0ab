"""Learning curves: points and errors by hand, errors against a simulation, and the curves of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import known

from judge import Corpus, evaluate
from judge.measure.table import COLUMNS
from judge.metrics import METRICS
from judge.report.warnings import warnings
from judge.statistics.curve import Curve, learning_curves
from judge.statistics.summary import Summary

ROW = Summary("cap", METRICS["lic"], "linear", human=0.5, generated=0.6, amplification=0.1, images=102, basis="refits")
ROW = replace(ROW, standard_error=0.04)


def refits(**values: Any) -> pd.DataFrame:
    """kind -> human and generated scores of each refit; rows are in no order."""
    rows = [
        ("cap", "lic", "linear", kind, number, human, generated, generated - human, np.nan, np.nan)
        for kind, of in values.items()
        for number, (human, generated) in enumerate(of)
    ]
    return pd.DataFrame(rows, columns=COLUMNS).sample(frac=1, random_state=0)


def curve_of(table: pd.DataFrame, row: Summary = ROW) -> Curve:
    (curve,) = learning_curves([row], table)
    return curve


def test_points_by_hand() -> None:
    """Halves (.4, .5), (.4, .6): mean amplification .15; a pair that is .1 apart has the error .05.

    Quarters have the amplifications .1, .3, .1, .3: variance .04/3, and a fourth of it is the error squared.
    """
    halves, quarters = [(0.4, 0.5), (0.4, 0.6)], [(0.3, 0.4), (0.3, 0.6)] * 2
    curve = curve_of(refits(half=halves, quarter=quarters, exchanged=[(0.9, 0.1)]))
    quarter, half, whole = curve.points
    assert quarter[:5] == (0.25, 26, *map(pytest.approx, (0.3, 0.5, 0.2)))
    assert quarter.errors == pytest.approx((0, (0.01 / 3) ** 0.5, (0.01 / 3) ** 0.5))
    assert half[:5] == (0.5, 51, *map(pytest.approx, (0.4, 0.55, 0.15)))
    assert half.errors == pytest.approx((0, 0.05, 0.05))
    assert whole[:5] == (1.0, 102, 0.5, 0.6, 0.1)
    assert whole.errors == pytest.approx((0, 0.05, 0.04))
    # -.05 from halves to all: more than an error of .04, less than one of .06.
    assert curve.step == pytest.approx(-0.05)
    assert curve.moves
    assert not curve_of(refits(half=halves), replace(ROW, standard_error=0.06)).moves


def test_points_are_those_where_all_parts_have_a_value() -> None:
    halves, quarters = [(0.4, 0.5), (0.4, 0.6)], [(0.3, 0.4), (0.3, np.nan)] * 2
    assert [of.share for of in curve_of(refits(half=halves, quarter=quarters)).points] == [0.5, 1]
    # Without halves, or a standard error, there is no curve.
    assert not learning_curves([ROW], refits(exchanged=halves))
    assert not learning_curves([ROW], refits(half=quarters[:2], quarter=quarters))
    assert not learning_curves([replace(ROW, basis="these judges")], refits(half=halves))
    assert not learning_curves([ROW], pd.DataFrame())


def test_a_curve_of_known_form_is_recovered() -> None:
    """Scores c - b / sqrt(n) without noise: at each point the closed form, and no error."""
    share = {"quarter": 0.25, "half": 0.5}

    def scores(of: float) -> tuple[float, float]:
        return 0.7 - 0.1 * of**-0.5, 0.7 - 0.05 * of**-0.5

    human, generated = scores(1)
    row = replace(ROW, human=human, generated=generated, amplification=generated - human)
    curve = curve_of(refits(**{kind: [scores(of)] * 8 for kind, of in share.items()}), row)
    assert [of.amplification for of in curve.points] == pytest.approx([0.1, 0.05 * 2**0.5, 0.05])
    assert [of.errors for of in curve.points[:2]] == [(0, 0, 0)] * 2


def test_errors_are_those_of_other_samples() -> None:
    """Means of n = 64 numbers of variance 1: the error of every point is that of the whole, 1/8."""
    generator, found = np.random.default_rng(0), []
    for _ in range(200):
        sample = generator.standard_normal(64)
        drawn = {
            kind: [
                (0.0, float(part.mean())) for _ in range(draws) for part in np.split(generator.permutation(sample), n)
            ]
            for kind, n, draws in (("quarter", 4, 2), ("half", 2, 8))
        }
        value = float(sample.mean())
        found.append(curve_of(refits(**drawn), replace(ROW, human=0.0, generated=value, amplification=value)).points)
    for place in range(2):
        errors = np.array([points[place].errors[-1] for points in found])
        observed = np.std([points[place].amplification for points in found], ddof=1)
        assert np.sqrt((errors**2).mean()) == pytest.approx(1 / 8, rel=0.05)
        assert observed == pytest.approx(1 / 8, rel=0.15)  # 3 sd: 200 samples.
        # Parts that hold every image once: the mean of the sample itself.
        assert all(points[place].amplification == pytest.approx(points[-1].amplification) for points in found)


def test_curves_of_a_run(corpus: Corpus) -> None:
    """Its own refits, four quarters to a draw; where a class has too few images there are halves alone."""
    settings: dict[str, Any] = {"metrics": "lic", "judge": "linear", "folds": 3, "refits": 2, "chance": 0, "workers": 1}
    result = evaluate(corpus, resamples=100, **settings)
    counts = result.replicates.groupby(["captioner", "kind"]).size().unstack()
    assert set(counts["quarter"]) == {8}
    assert set(counts["half"]) == {4}
    curves = result.curves()
    assert [curve.captioner for curve in curves] == [row.captioner for row in result.summaries]
    for curve in curves:
        assert [of.share for of in curve.points] == [0.25, 0.5, 1]
        mine = result.replicates.query("captioner == @curve.captioner and kind == 'quarter'")
        assert curve.points[0].human == pytest.approx(mine["human"].mean())
    for error, moving in ((1e-9, [curve.captioner for curve in curves]), (9.0, [])):
        rows = tuple(replace(row, standard_error=error) for row in result.summaries)
        said = [line for line in warnings(replace(result, summaries=rows)) if "with the number of images" in line]
        assert [[name in line for name in moving] for line in said] == [[True] * len(moving)] * bool(moving)
    labels = known(corpus.labels)
    classes: dict[str, list[str]] = {}
    for image, name in labels.by_image.items():
        classes.setdefault(name, []).append(image)
    first, *_ = classes.values()
    kept = {image: name for image, name in labels.by_image.items() if image not in first[11:]}
    few = replace(corpus, generated=corpus.generated[:1], labels=replace(labels, by_image=kept))
    assert set(evaluate(few, resamples=100, **settings).replicates["kind"]) == {"half", "exchanged"}
