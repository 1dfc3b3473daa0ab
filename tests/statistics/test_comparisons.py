"""Holm's correction, verdicts and differences: against numbers worked by hand, and power by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers import known
from scipy import stats

from judge.metrics import METRICS, find_metric
from judge.statistics.comparisons import Pair, conclude, difference, differences, holm
from judge.statistics.inference import Exchanged, from_halves, from_splits, half_error
from judge.statistics.summary import Replicates, Summary
from judge.types import Interval

ROW = Summary("one", METRICS["lic"], "linear", amplification=0.1, p_value=0.01, standard_error=0.03, degrees=20)
GAIN = replace(find_metric("lic"), score="gain")
DETECTABLE = "only an amplification of more than 0.029 would have been found"


def test_holm_by_hand() -> None:
    """Of 0.01, 0.04, 0.03: times 3, 1, 2, and never less than one before."""
    assert holm([0.01, 0.04, None, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), None, pytest.approx(0.06)]
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (ROW, "above human captions"),
        (replace(ROW, amplification=-0.1), "below human captions"),
        (replace(ROW, p_value=0.05), "not shown to differ from human captions"),
        (replace(ROW, p_value=None), None),
        (replace(ROW, metric=METRICS["imagecaptioner2-ratio"], amplification=0.9), "below human captions"),
        (replace(ROW, metric=METRICS["error"], amplification=-0.2), "below human captions"),
        (replace(ROW, metric=METRICS["multi-at"]), "above human captions"),
        (replace(ROW, metric=METRICS["sc"]), "above chance"),
        (replace(ROW, metric=METRICS["sc"], amplification=-0.1), "below chance"),
        (replace(ROW, metric=METRICS["sc"], p_value=0.06), "not shown to differ from chance"),
    ],
)
def test_verdicts_of_published_metrics(row: Summary, verdict: str | None) -> None:
    """By the row's own p, whatever rows are beside it."""
    others = [replace(row, captioner=name, p_value=0.04) for name in "abc"]
    for said in (*conclude([row]), conclude([*others, row])[-1]):
        assert (said.verdict, said.because) == (verdict, "")


@pytest.mark.parametrize(
    ("value", "p_value", "ends", "verdict", "because"),
    [
        (0.05, 0.049, (0.001, 0.1), "amplifies", ""),
        (0.001, 0.001, (0.0005, 0.0015), "amplifies", ""),  # Small, and shown.
        (-0.05, 0.001, (-0.1, -0.01), "tells less than a person", ""),
        (0.005, 0.3, (-0.01, 0.02), "like a person", "its interval lies within +-0.02"),
        (0.005, 0.3, (-0.01, 0.021), "cannot tell", DETECTABLE),
        (-0.005, 0.3, (-0.021, 0.01), "cannot tell", DETECTABLE),
        (0.05, 0.05, (0.0, 0.1), "cannot tell", DETECTABLE),
        (0.05, 0.3, None, "cannot tell", DETECTABLE),
        (0.05, None, (0.001, 0.1), None, ""),
    ],
)
def test_verdicts_on_a_gain(
    value: float, p_value: float | None, ends: tuple[float, float] | None, verdict: str | None, because: str
) -> None:
    """Detectable: (t at 97.5% + t at 80%, of 20 degrees: 2.086 + 0.860) times an error of 0.01."""
    interval = Interval(*ends) if ends else None
    row = replace(ROW, metric=GAIN, amplification=value, p_value=p_value, interval=interval, standard_error=0.01)
    (said,) = conclude([row])
    assert (said.verdict, said.because) == (verdict, because)
    (said,) = conclude([row], {row.key: "why"})
    assert (said.verdict, said.because) == ("no verdict", "why")


def test_what_is_small_is_chosen() -> None:
    row = replace(ROW, metric=GAIN, p_value=0.3, interval=Interval(-0.03, 0.01))
    assert [conclude([row], small=small)[0].verdict for small in (0.02, 0.03)] == ["cannot tell", "like a person"]
    assert conclude([row], small=0.03)[0].because == "its interval lies within +-0.03"


def test_detectable_is_found_in_four_of_five_samples() -> None:
    """t finds an amplification of the detectable size in 80% of 4,000 samples, whatever other rows there are."""
    others = [replace(ROW, captioner=name, p_value=0.9) for name in ("b", "c", "d")]
    untested = replace(ROW, captioner="e", p_value=None)
    said, *_, none = conclude([ROW, *others, untested])
    assert none.detectable is None
    assert said.detectable == pytest.approx((stats.t.ppf(0.975, 20) + stats.t.ppf(0.8, 20)) * 0.03)
    rng = np.random.default_rng(0)
    errors = 0.03 * np.sqrt(rng.chisquare(20, 4000) / 20)
    values = known(said.detectable) + 0.03 * rng.normal(size=4000)
    p_values = 2 * stats.t.sf(np.abs(values / errors), 20)
    assert np.mean(p_values < 0.05) == pytest.approx(0.8, abs=0.025)


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
    # A captioner of fewer images may have more halves: their first ones are the same draws.
    more = replace(other, replicates=Replicates("half", (1, 0, 0, 1, 5, 9)))
    assert difference(one, more, same_images=True) == found
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
    for p_value in (0.001, 0.5, None):
        (said,) = conclude([replace(ROW, p_value=p_value)], {ROW.key: "why"})
        assert (said.verdict, said.because) == ("no verdict", "why")
    for void in ([], ["a"], ["b"], ["a", "b"]):
        (found,) = differences(rows, Pair, void={row.key: row.captioner for row in rows if row.captioner in void})
        assert (found.verdict, found.because) == (("no verdict", void[0]) if void else ("a higher", ""))


@pytest.mark.parametrize(("paired", "verdict"), [(True, "a higher"), (False, "no verdict")])
def test_human_captions_that_tell_nothing_cancel_in_a_difference_of_the_same_images(paired: bool, verdict: str) -> None:
    """Other reasons of either row still void it."""
    rows = [replace(ROW, captioner=name, amplification=value) for name, value in (("a", 0.4), ("b", 0.1))]
    void = {row.key: "at chance" for row in rows}
    (found,) = differences(rows, lambda *of: Pair(*of, paired=paired), void=void, cancels={*void})
    assert found.verdict == verdict
    (found,) = differences(rows, lambda *of: Pair(*of, paired=paired), void=void, cancels={rows[0].key})
    assert (found.verdict, found.because) == ("no verdict", "at chance")


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


def test_the_error_of_halves_is_divided_where_judges_are_given_what_is_known() -> None:
    """By hand: differences of 2 have the error 1, which is divided by the geometric mean of 1 and sqrt(2)."""
    found, error = known(from_halves(3.0, [2.0, 0.0, 1.0, 3.0], given=True)), 1 / 1.189207
    assert (found.standard_error, found.degrees, found.chance_level) == (pytest.approx(error), 2, None)
    assert found.p_value == pytest.approx(2 * stats.t.sf(3 / error, 2))


@pytest.mark.parametrize(("dose", "ratio"), [(0.0, 2**0.5), (1.0, 1.0)])
def test_errors_of_halves_where_a_value_is_a_product(dose: float, ratio: float) -> None:
    """Products of two means without a dose, and means: sqrt(2) and 1 times the true error, as stated for ``_GIVEN``."""
    rng = np.random.default_rng(3)
    values, errors = [], []
    for _ in range(3000):
        first, second = rng.normal(size=(2, 100)) + np.array([[dose], [0]])
        parts = rng.permutation(100).reshape(2, 50)
        values.append(first.mean() * second.mean())
        errors.append(half_error([first[part].mean() * second[part].mean() for part in parts]))
    assert np.sqrt(np.mean(np.square(errors))) / np.std(values) == pytest.approx(ratio, rel=0.05)


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
