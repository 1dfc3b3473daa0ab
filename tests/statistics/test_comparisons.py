"""Holm's correction, verdicts and differences: against numbers worked by hand, and power by simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers import known
from scipy import stats

from judge.metrics import METRICS
from judge.statistics.comparisons import Pair, conclude, difference, differences, holm
from judge.statistics.inference import Exchanged, from_halves, from_splits, half_error
from judge.statistics.summary import Replicates, Summary
from judge.types import Interval

ROW = Summary("one", METRICS["lic"], "linear", amplification=0.1, p_value=0.01, standard_error=0.03, degrees=20)


PERSON = replace(ROW, captioner="a person", amplification=0.02, replicates=Replicates("half", (0.0, 0.01) * 20))
# The gaps of halves (0, 0.02) x 20 have an error of 0.01 with 20 degrees of freedom: 0.021 is 5% for one captioner.
BESIDE = replace(ROW, replicates=Replicates("half", (0.0, 0.03) * 20))


def test_holm_by_hand() -> None:
    """Of 0.01, 0.04, 0.03: times 3, 1, 2, and never less than one before."""
    assert holm([0.01, 0.04, None, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), None, pytest.approx(0.06)]
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (ROW, "above human captions"),
        (replace(ROW, amplification=-0.1), "mitigates"),
        (replace(ROW, p_value=0.06), "cannot tell"),
        (replace(ROW, p_value=None), None),
        (replace(ROW, metric=METRICS["imagecaptioner2-ratio"], amplification=0.9), "mitigates"),
        (replace(ROW, metric=METRICS["error"], amplification=-0.2), "errs less"),
        (replace(ROW, metric=METRICS["ratio"], amplification=-0.2), "below human captions"),
    ],
)
def test_verdicts_without_a_typical_person(row: Summary, verdict: str | None) -> None:
    assert conclude([row])[0].verdict == verdict


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (BESIDE, "amplifies"),  # 0.08 above the typical person.
        (replace(BESIDE, amplification=0.042), "amplifies"),  # 0.022 above it, and 0.021 is enough.
        (replace(BESIDE, amplification=0.04), "like a typical person"),  # 0.020.
        (replace(BESIDE, amplification=0.001), "like a typical person"),  # Below it, but above human captions.
        (replace(BESIDE, amplification=-0.1), "mitigates"),
        (replace(BESIDE, p_value=0.06), "cannot tell"),
        (replace(BESIDE, p_value=None), None),
        (replace(BESIDE, metric=METRICS["error"]), "errs more"),
        (replace(BESIDE, metric=METRICS["error"], amplification=0.03), "like a typical person"),
        (replace(BESIDE, metric=METRICS["ratio"], amplification=-0.2), "lower"),
        (replace(BESIDE, metric=METRICS["ratio"], amplification=-0.0005), "like a typical person"),
        (replace(BESIDE, metric=METRICS["multi-at"]), "changes"),
        (replace(BESIDE, metric=METRICS["multi-at"], amplification=0.03), "like a typical person"),
    ],
)
def test_verdicts_beside_a_typical_person(row: Summary, verdict: str | None) -> None:
    person = replace(PERSON, metric=row.metric)
    said, of_person = conclude([row, person], people={"a person"}, typical={row.key: "a person"}, pair=Pair)
    assert said.verdict == verdict
    beyond = known(said.beyond)
    assert beyond.value == pytest.approx(known(row.amplification) - 0.02)
    assert known(beyond.interval).high - beyond.value == pytest.approx(stats.t.ppf(0.975, 20) * 0.01)
    # The typical person is no captioner: it has no verdict, and no test is corrected for it.
    assert (of_person.p_holm, of_person.verdict, of_person.beyond) == (None, None, None)
    assert (said.p_holm, beyond.p_holm) == (row.p_value, beyond.p_value)


def test_where_the_typical_person_does_not_compare_there_is_none() -> None:
    """On less than half of the images, or without a value or an error; on others the errors are independent."""
    how: dict[str, Any] = {"people": {"a person"}, "typical": {BESIDE.key: "a person"}}
    several = replace(BESIDE, images=99), replace(PERSON, images=50)
    said, _ = conclude(several, pair=lambda *rows: Pair(*rows, paired=False), **how)
    error = np.hypot(known(BESIDE.standard_error), known(PERSON.standard_error))
    assert known(said.beyond).standard_error == pytest.approx(error)
    for person, pair in (
        (replace(PERSON, images=49), lambda one, other: Pair(replace(one, images=99), other, paired=False)),
        (PERSON, lambda *_: None),
        (replace(PERSON, amplification=None), Pair),
    ):
        said, _ = conclude([BESIDE, person], pair=pair, **how)
        assert (said.verdict, said.beyond) == ("above human captions", None)
    said, _ = conclude([BESIDE, replace(PERSON, replicates=None, standard_error=None)], pair=Pair, **how)
    assert (said.verdict, known(said.beyond).p_holm) == ("above human captions", None)


def test_holm_is_over_the_captioners_of_one_metric_and_judge() -> None:
    """Of p 0.01, 0.02 and 0.9 in LIC: 0.03, 0.04, 0.9, whatever is measured beside it, by whichever judge."""
    rows = [replace(BESIDE, captioner=name, p_value=p) for name, p in (("a", 0.01), ("b", 0.02), ("c", 0.9))]
    others = [replace(row, metric=METRICS["leakage"], p_value=0.5) for row in rows]
    others += [replace(row, judge="lstm", p_value=0.04) for row in rows[:1]]
    people = [replace(PERSON, metric=METRICS["lic"]), replace(PERSON, metric=METRICS["leakage"])]
    typical = {row.key: "a person" for row in [*rows, *others]}
    how: dict[str, Any] = {"people": {"a person"}, "typical": typical, "pair": Pair}
    alone, beside = conclude([*rows, people[0]], **how), conclude([*rows, *others, *people], **how)
    assert [said.p_holm for said in alone] == [pytest.approx(0.03), pytest.approx(0.04), 0.9, None]
    assert beside[:3] == alone[:3]
    assert beside[6].p_holm == 0.04
    # By the corrected p: 0.02 alone is significant; as the least of three it is 0.06.
    three = [replace(row, p_value=0.02) for row in rows]
    assert [said.verdict for said in (*conclude(three[:1]), *conclude(three))] == [
        "above human captions", *["cannot tell"] * 3
    ]  # fmt: skip
    # So is the difference from the typical person: three equal p count three times.
    single = known(known(alone[0].beyond).p_value)
    assert [known(said.beyond).p_holm for said in alone[:3]] == [pytest.approx(3 * single)] * 3


def test_detectable_is_found_in_four_of_five_samples() -> None:
    """t finds an amplification of the detectable size in 80% of 4,000 samples: of four captioners, at 5%/4."""
    (alone,) = conclude([ROW])
    assert alone.detectable == pytest.approx((stats.t.ppf(0.975, 20) + stats.t.ppf(0.8, 20)) * 0.03)
    others = [replace(ROW, captioner=name, p_value=0.9) for name in ("b", "c", "d")]
    untested = replace(ROW, captioner="e", p_value=None)
    said, *_, none = conclude([ROW, *others, replace(ROW, metric=METRICS["leakage"]), untested])
    assert none.detectable is None
    rng = np.random.default_rng(0)
    errors = 0.03 * np.sqrt(rng.chisquare(20, 4000) / 20)
    values = known(said.detectable) + 0.03 * rng.normal(size=4000)
    p_values = 2 * stats.t.sf(np.abs(values / errors), 20)
    found = [known(holm([float(p), 0.9, 0.9, 0.9])[0]) < 0.05 for p in p_values]
    assert np.mean(found) == pytest.approx(0.8, abs=0.025)


def test_a_difference_is_of_what_moves_apart() -> None:
    """Halves (1, 0) and (1, 0) of one, (1, 0) and (0, 1) of the other: gaps (0, 0) and (1, -1).

    Error: sqrt((0 + 4) / 2 / 4) = sqrt(1/2), 2 degrees of freedom; alone each has sqrt((1 + 1) / 2 / 4) = 1/2.
    """
    one = replace(ROW, amplification=0.5, standard_error=0.5, degrees=2, replicates=Replicates("half", (1, 0, 1, 0)))
    other = replace(one, captioner="other", amplification=0.1, replicates=Replicates("half", (1, 0, 0, 1)))
    found = difference(one, other, same_images=True)
    assert found.paired
    assert found.value == pytest.approx(0.4)
    assert found.p_value == pytest.approx(2 * stats.t.sf(0.4 / 0.5**0.5, 2))
    assert known(found.interval).high - 0.4 == pytest.approx(stats.t.ppf(0.975, 2) * 0.5**0.5)
    # On other images nothing is known of what they share: errors add up.
    apart = difference(one, other, same_images=False)
    assert not apart.paired
    assert apart.p_value == pytest.approx(2 * stats.t.sf(0.4 / 0.5**0.5, 2))
    alone = difference(one, replace(other, replicates=None, standard_error=None), same_images=True)
    assert (alone.interval, alone.p_value, alone.verdict) == (None, None, None)
    # A captioner against itself differs in nothing.
    found = difference(one, replace(one, captioner="copy"), same_images=True)
    assert (found.value, found.p_value) == (0, 1)
    assert found.interval == Interval(0, 0)


def test_a_difference_of_rows_with_unequal_degrees_and_scales() -> None:
    """The fewer degrees of freedom count, and each row's parts are as wide as its own error."""
    first, second = replace(ROW, degrees=30), replace(ROW, captioner="two", standard_error=0.04, degrees=7)
    for one, other in ((first, second), (second, first)):
        found = difference(one, other, same_images=False)
        assert found.standard_error == pytest.approx(0.05)  # Of 0.03 and 0.04.
        assert known(found.interval).high == pytest.approx(stats.t.ppf(0.975, 7) * 0.05)
    # Gaps of 2 x 0.02 - 0.01 in every second half: an error of 0.015, with the 5 degrees of one row.
    first = replace(ROW, replicates=Replicates("half", (0.0, 0.02) * 20, scale=2.0))
    second = replace(second, degrees=5, replicates=Replicates("half", (0.0, 0.01) * 20))
    for one, other in ((first, second), (second, first)):
        found = difference(one, other, same_images=True)
        assert found.standard_error == pytest.approx(0.015)
        assert known(found.interval).high == pytest.approx(stats.t.ppf(0.975, 5) * 0.015)


def test_a_void_row_has_no_verdict_whatever_its_p() -> None:
    """Nor has its difference from another captioner, whichever of the two it is of."""
    rows = [replace(ROW, captioner=name, amplification=value) for name, value in (("a", 0.4), ("b", 0.1))]
    for p_value, verdict in ((0.001, "no verdict"), (0.5, "no verdict"), (None, None)):
        (said,) = conclude([replace(ROW, p_value=p_value)], {ROW.key: "why"})
        assert (said.verdict, said.reason) == (verdict, "why")
    for void in ([], ["a"], ["b"], ["a", "b"]):
        (found,) = differences(rows, Pair, reasons={row.key: row.captioner for row in rows if row.captioner in void})
        assert (found.verdict, found.reason) == (("no verdict", void[0]) if void else ("a more", None))


def test_a_difference_that_does_not_vary_has_neither_interval_nor_p() -> None:
    """Unless it is 0: nothing then speaks against that."""
    parts = Replicates("half", (0.0, 0.01) * 20)
    one, other = (replace(ROW, captioner=name, amplification=0.1, replicates=parts) for name in "ab")
    same = difference(one, other, same_images=True)
    assert (same.p_value, known(same.interval).low, known(same.interval).high) == (1.0, 0.0, 0.0)
    found = difference(one, replace(other, amplification=0.2), same_images=True)
    assert (found.p_value, found.interval) == (None, None)


def test_differences_are_all_pairs_and_corrected_within_their_metric() -> None:
    """Holm: of three in LIC the greatest counts three times, the next twice; Leakage has one, without a value of c."""
    values = {"lic": (0.3, 0.2, 0.0), "leakage": (0.3, 0.2, None)}
    rows = [
        replace(ROW, captioner=name, metric=METRICS[metric], amplification=value)
        for metric, of in values.items()
        for name, value in zip("abc", of, strict=True)
    ]
    found = differences(rows, lambda *of: Pair(*of, paired=False))
    pairs = [("lic", "a", "b"), ("lic", "a", "c"), ("lic", "b", "c"), ("leakage", "a", "b")]
    assert [(row.metric.name, row.first, row.second) for row in found] == pairs
    p_values = 2 * stats.t.sf(np.array([0.1, 0.3, 0.2, 0.1]) / np.hypot(0.03, 0.03), 20)
    assert [row.p_value for row in found] == pytest.approx(p_values)
    assert [row.p_holm for row in found] == pytest.approx(p_values * [1, 3, 2, 1])


@pytest.mark.parametrize("neutral", [0.0, 1.0])
def test_halves_and_exchanges_of_a_mean_are_what_they_should_be(neutral: float) -> None:
    """Of a mean of 200 numbers around 0 or 1: error 1/sqrt(200), and p < 0.05 in 5%.

    400 samples, 20 pairs of halves, 20 exchanges of signs; binomial, 3 sd.
    """
    rng = np.random.default_rng(1)
    rejected, errors = 0, []
    for _ in range(400):
        values = rng.normal(size=200)
        pairs = [rng.permutation(values).reshape(2, 100).mean(axis=1) for _ in range(20)]
        drawn = [float((values * rng.choice([-1, 1], 200)).mean()) + neutral for _ in range(20)]
        value, halves = float(values.mean()) + neutral, (np.concatenate(pairs) + neutral).tolist()
        found = known(from_halves(value, halves, Exchanged.of(drawn), neutral=neutral))
        rejected += found.p_value < 0.05
        errors.append(found.standard_error)
        assert (found.p_value < 0.05) == (not found.interval.low <= neutral <= found.interval.high)
        # p is the smallest 1 - level whose interval leaves out what is neutral.
        for level, out in ((1 - found.p_value * 1.001, True), (1 - found.p_value * 0.999, False)):
            of = known(from_halves(value, halves, Exchanged.of(drawn), neutral=neutral, level=level)).interval
            assert (not of.low <= neutral <= of.high) == out
    assert 0.98 < np.sqrt(np.mean(np.square(errors))) * 200**0.5 < 1.08
    assert 0.015 < rejected / 400 < 0.085


def test_splits_of_a_mean() -> None:
    """Ten folds of a mean: no training to share, so that 1/K alone would do; the correction makes it wider by 1.45."""
    rng = np.random.default_rng(2)
    errors = []
    for _ in range(300):
        folds = rng.normal(size=(10, 20)).mean(axis=1)
        errors.append(known(from_splits(float(folds.mean()), folds.tolist(), ratio=1 / 9)).standard_error)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx((1 / 200**0.5) * (1 + 10 / 9) ** 0.5, rel=0.05)
    assert from_splits(0.1, [0.1] * 4, ratio=1 / 3) is None
    assert from_splits(0.1, [0.1, np.nan, 0.2, 0.1, 0.1], ratio=1 / 4) is None


@pytest.mark.parametrize(
    ("drawn", "error", "degrees"),
    [
        # Halves differ by 0.2: their error is 0.1. Theirs counts where exchanged captions vary less.
        ([-0.01, 0.01] * 2, 0.1, 4),
        ([-0.1, 0.1] * 2, (0.01 + (0.04 / 3 - 0.01) * 3 / 7) ** 0.5, 7),  # Pooled: sd^2 is 0.04 / 3.
        ([-0.3, 0.3] * 2, (0.01 + (0.36 / 3 - 0.01) * 3 / 7) ** 0.5, 7),  # F = 12 of (3, 4); at 1% it is 16.7.
        ([-0.4, 0.4] * 2, (0.64 / 3) ** 0.5, 3),
        # A mean of 0.3 is a bias: less its own noise, 0.01 / 3, its square is added.
        ([0.25, 0.35] * 2, (0.01 + 0.09 - 0.01 / 3 / 4) ** 0.5, 4),
    ],
)
def test_error_of_halves_and_exchanges_by_hand(drawn: list[float], error: float, degrees: int) -> None:
    halves = [0.1, -0.1] * 4
    found = known(from_halves(0.25, halves, Exchanged.of(drawn)))
    assert (found.standard_error, found.degrees) == (pytest.approx(error), degrees)
    assert found.p_value == pytest.approx(2 * stats.t.sf(0.25 / error, degrees))
    assert found.chance_level == pytest.approx(np.mean(drawn))


def test_too_few_refits_give_no_inference() -> None:
    assert from_halves(0.1, [0.1, 0.2]) is None
    assert from_halves(0.1, [0.1, 0.2, np.inf, 0.1]) is None
    assert known(from_halves(0.1, [0.1, 0.2, 0.1, 0.3], Exchanged.of([0.1]))).chance_level is None
    # Nothing varies: a value that is not neutral cannot be tested.
    assert from_halves(0.1, [0.1] * 4) is None
    assert known(from_halves(0.0, [0.1] * 4)).p_value == 1
    assert Exchanged.of([0.1, np.nan]) is None
    assert half_error([0.1, 0.2, 0.1, 0.3]) == pytest.approx(((0.01 + 0.04) / 2 / 4) ** 0.5)
