"""Consistency of judges and of scores, against the published tables and numbers worked by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import known
from scipy import stats

from judge.metrics import METRICS
from judge.report.detail_tables import pair_table, variation_table
from judge.statistics.consistency import (
    agreements,
    coefficient_of_variation,
    conflict_score,
    correlate,
    measure_consistency,
    percent_reduction,
    spearman_interval,
)
from judge.statistics.summary import Summary


@pytest.fixture(scope="module")
def tables(shared: Path) -> Path:
    return shared.parent / "paper_tables"


def read(path: Path) -> dict[str, list[float]]:
    """First column in lower case -> the other columns."""
    return {name.lower(): values for name, *values in pd.read_csv(path).itertuples(index=False)}


def test_imagecaptioner2_table_4(tables: Path) -> None:
    """Abdelrahman et al. 2024, section 5.5: conflict 11.11% and 0, ranking 92% and 97%, for LIC and theirs.

    One captioner of nine, NIC, is biased by LIC's LSTM (3.7) and not by its BERT (-0.8). The table's rounded values
    give 0.926, which the paper cuts to 92%, and 0.961 for their 97%.
    """
    lstm, bert, sat, grit = zip(*read(tables / "imagecaptioner2_table4_gender.csv").values(), strict=True)
    assert len(lstm) == 9
    assert round(100 * conflict_score(lstm, bert), 2) == 11.11
    assert conflict_score(sat, grit) == 0
    assert correlate(lstm, bert).pearson == pytest.approx(0.926, abs=5e-4)
    assert correlate(sat, grit).pearson == pytest.approx(0.961, abs=5e-4)


def test_imagecaptioner2_table_5(tables: Path) -> None:
    """AnonymousBench: correlation with people is 54% for LIC (0.547, cut) and 80% for ImageCaptioner2.

    The paper prints no rank correlation: Spearman's is Pearson's of ranks by hand, 1 for the lowest, means for ties.
    """
    lic, theirs, human = zip(*read(tables / "imagecaptioner2_table5_anonymousbench.csv").values(), strict=True)
    people = [7, 2, 3.5, 3.5, 8, 6, 1, 9, 5]
    for values, pearson, ranks in (
        (lic, pytest.approx(0.547, abs=5e-4), [7.5, 1, 3.5, 2, 5, 9, 6, 7.5, 3.5]),
        (theirs, pytest.approx(0.80, abs=5e-3), [9, 3, 5, 2, 7, 6, 1, 8, 4]),
    ):
        found = correlate(values, human)
        assert found.pearson == pearson
        assert found.spearman == pytest.approx(np.corrcoef(ranks, people)[0, 1])
        assert known(found.spearman_interval).low < known(found.spearman) < known(found.spearman_interval).high


# Cells of Table 5a that Tables 10 and 11, of four decimals, do not give to two: all of LIC, whose means are near 0.
OFF = {"fc": 19.46, "florence": 3.59, "oscar": 32.78, "sat": 1.09, "nic_equalizer": 5.28, "vit_gpt2": 5.51}


def variations(tables: Path) -> dict[str, tuple[list[float], list[float], list[float]]]:
    """Captioner -> its values by LIC and by DBAC over six encoders, and the published coefficients of both."""
    names = ("11_lic", "10_dbac", "5a_cv")
    lic, dbac, published = (read(tables / f"dbac_table{name}_gender_scratch.csv") for name in names)
    also = {"nic_equalizer": "nic+equal"}
    return {name: (lic[also.get(name, name)], dbac[also.get(name, name)], cv) for name, cv in published.items()}


def test_dbac_table_5a(tables: Path) -> None:
    """Nair et al. 2026: 20 of 26 cells to two decimals; the others within what the inputs' rounding leaves open."""
    found = variations(tables)
    assert len(found) == 13
    for name, (lic, dbac, (cv_lic, cv_dbac)) in found.items():
        assert round(coefficient_of_variation(dbac), 2) == cv_dbac, name
        assert round(coefficient_of_variation(lic), 2) == OFF.get(name, cv_lic), name
        # Inputs are off by up to h = 0.00005: |mean| by h, the sample sd by h sqrt(n / (n - 1)).
        mean, sd, h = abs(np.mean(lic)), np.std(lic, ddof=1), 0.00005
        low = (sd - h * math.sqrt(6 / 5)) / (mean + h)
        high = (sd + h * math.sqrt(6 / 5)) / (mean - h)
        assert low - 0.005 <= cv_lic <= high + 0.005, name
        # The sd of the population would not do: even so much rounding does not reach what was printed.
        if name not in OFF:
            assert round(coefficient_of_variation(lic) * math.sqrt(5 / 6), 2) != cv_lic, name


def test_conflict_by_hand() -> None:
    # Signs agree, differ, agree (both not biased), differ: 2 of 4.
    assert conflict_score([1, 2, -1, -0.5], [3, -1, -2, 0.1]) == 0.5
    # No amplification is not biased: it conflicts with a positive value, not with a negative one.
    assert conflict_score([0, 0, 0], [1, -1, 0]) == pytest.approx(1 / 3)
    # Ratios: 1 means no amplification.
    assert conflict_score([1.2, 0.9, 1.0], [0.8, 0.7, 0.5], neutral=1) == pytest.approx(1 / 3)
    assert conflict_score(np.array([1.0, -1.0]), np.array([1.0, 1.0])) == 0.5


def test_variation_by_hand() -> None:
    # Mean 2, squared deviations 1, 0, 1 over n - 1 = 2: sd 1.
    assert coefficient_of_variation([1, 2, 3]) == pytest.approx(0.5)
    assert coefficient_of_variation([-1, -2, -3]) == pytest.approx(0.5)
    assert coefficient_of_variation([4, 4]) == 0
    assert percent_reduction(4, 1) == 75
    assert percent_reduction(1, 4) == -300


def test_undefined_is_nan_or_none() -> None:
    nan, inf = math.nan, math.inf
    # The last is constant but for a digit.
    for values in ([], [1.0], [5.0, 4.0], [1.0, 1.0], [1.0, nan], [1.0, inf], [0.3, 0.1 + 0.2]):
        other = [1.0, 2.0][: len(values)]
        assert correlate(values, other).pearson is None, values
    three = correlate([1.0, 2.0, 3.0], [6.0, 5.0, 4.0])
    assert (three.pearson, three.spearman, three.interval) == (pytest.approx(-1), pytest.approx(-1), None)
    assert math.isnan(conflict_score([], []))
    assert math.isnan(conflict_score([1.0, nan], [1.0, 1.0]))
    # The last has a sum of 2.8e-17 in floating point: a mean of 0.
    for values in ([], [1.0], [1.0, -1.0], [0.0, 0.0], [1.0, nan], [1.0, inf], [0.1, 0.2, -0.3]):
        assert math.isnan(coefficient_of_variation(values)), values
    for x, y in [(0.0, 1.0), (nan, 1.0), (1.0, nan), (inf, 1.0)]:
        assert math.isnan(percent_reduction(x, y)), (x, y)


def row(captioner: str, judge: str, amplification: float | None, metric: str = "lic") -> Summary:
    return Summary(captioner, METRICS[metric], judge, 0.5, 0.6, amplification, None, None, None, 10, 1)


ROWS = [
    *(row(name, "lstm", value) for name, value in (("a", 0.1), ("b", 0.2), ("c", 0.3))),
    *(row(name, "rnn", value) for name, value in (("c", 0.5), ("a", -0.1), ("b", 0.2))),
    *(row(name, "linear", value) for name, value in (("a", 0.3), ("b", None))),
    *(row(name, "lstm", value, "leakage") for name, value in (("a", 0.2), ("b", 0.4))),
    *(row(name, "rnn", value, "leakage") for name, value in (("a", 0.2), ("b", 0.6))),
    *(row(name, judge, None, "sc") for name in "ab" for judge in ("lstm", "rnn")),
    *(row("a", judge, value, "imagecaptioner2-ratio") for judge, value in (("sat", 1.2), ("grit", 0.8))),
    row("a", "sat", 0.1, "imagecaptioner2"),
]


def test_consistency_of_a_run_and_its_tables() -> None:
    found = measure_consistency(ROWS)
    pairs = {f"{pair.metric.name} {pair.first} {pair.second}": pair for pair in found.pairs}
    lic = ["lic lstm rnn", "lic lstm linear", "lic rnn linear"]
    assert list(pairs) == [*lic, "leakage lstm rnn", "imagecaptioner2-ratio sat grit"]
    first, one = pairs["lic lstm rnn"], pairs["lic rnn linear"]
    # Joined by name: (0.1, -0.1), (0.2, 0.2), (0.3, 0.5), on a line.
    assert (first.captioners, first.conflict, first.ranking.pearson) == (3, pytest.approx(1 / 3), pytest.approx(1))
    assert (one.captioners, one.conflict, one.ranking.pearson) == (1, 1, None)
    # A ratio of 0.8 is not biased.
    assert pairs["imagecaptioner2-ratio sat grit"].conflict == 1
    cv = {f"{part.metric.name} {part.captioner}": part for part in found.variations}
    assert list(cv) == ["lic a", "lic b", "lic c", "leakage a", "leakage b", "imagecaptioner2-ratio a"]
    # 0.1, -0.1, 0.3: mean 0.1, squared deviations 0, 0.04, 0.04 over 2: sd 0.2.
    assert (cv["lic a"].judges, cv["lic a"].mean, cv["lic a"].cv) == (3, pytest.approx(0.1), pytest.approx(2))
    assert cv["lic b"].cv == 0
    assert cv["lic c"].cv == pytest.approx(math.sqrt(0.02) / 0.4)
    rows = list(zip(*(cells for _, cells in pair_table(found).shown()), strict=True))
    assert rows[0] == ("LIC", "lstm, rnn", "3", "33.33%", "+1.000", "-")
    assert rows[2] == ("LIC", "rnn, linear", "1", "100.00%", "-", "-")
    shown = variation_table(found).shown()
    assert [column.heading for column, _ in shown][:4] == ["captioner", "CV (LIC)", "CV (Leakage)", "reduction"]
    rows = list(zip(*(cells for _, cells in shown), strict=True))
    # Leakage of a: 0.2 twice, no variation at all; of b: sd 0.1414, mean 0.5. LIC of b: 0, of which nothing is less.
    assert rows[0][:4] == ("a", "2.000", "0.000", "100.0%")
    assert rows[1][:4] == ("b", "0.000", "0.283", "-")


def test_imagecaptioner2_table_6(tables: Path) -> None:
    """Abdelrahman et al., section 5.6: scores under detectors are "fully correlated" with those under true masks."""
    truth, yolo, rcnn = zip(*read(tables / "imagecaptioner2_table6_detectors.csv").values(), strict=True)
    for other in (yolo, rcnn):
        found = correlate(truth, other)
        assert found.pairs == 9
        assert known(found.pearson) > 0.98
        assert known(found.interval).low > 0.9


def test_agreement_joins_captioners_by_name() -> None:
    def of(**values: float | None) -> list[Summary]:
        return [row(name, "sat", value) for name, value in values.items()]

    gt = [*of(a=0.1, b=0.2, c=0.4, d=None), row("a", "grit", 0.1)]
    yolo, rcnn = of(c=0.8, a=0.2, b=0.4, d=0.3), of(a=0.4, b=0.2, c=0.1)
    among = agreements({"gt": gt, "yolo": yolo, "maskrcnn": rcnn})
    found = {(part.judge, part.variant): part.correlation for part in among}
    assert set(found) == {("sat", "yolo"), ("sat", "maskrcnn"), ("grit", "yolo"), ("grit", "maskrcnn")}
    assert (found["sat", "yolo"].pairs, found["sat", "yolo"].pearson) == (3, pytest.approx(1))
    assert found["sat", "maskrcnn"].spearman == pytest.approx(-1)
    assert found["grit", "yolo"].pairs == 0


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8, 0.95])
@pytest.mark.parametrize(("captioners", "least"), [(4, 0.955), (5, 0.948), (9, 0.94)])
def test_what_intervals_hold(captioners: int, least: float, correlation: float) -> None:
    """Spearman's interval by Bonett and Wright, of a bivariate normal: rho_s = 6 / pi asin(rho / 2).

    ``least``: share of 95% intervals that hold the truth, as docs/guides/anonymous.md says.
    """
    drawn = np.random.default_rng(captioners).standard_normal((20_000, 2, captioners))
    drawn[:, 1] = correlation * drawn[:, 0] + math.sqrt(1 - correlation**2) * drawn[:, 1]
    gaps = np.diff(stats.rankdata(drawn, axis=2), axis=1)
    ranks = np.round(1 - 6 * (gaps**2).sum(axis=(1, 2)) / (captioners**3 - captioners), 12)
    truth, held = 6 / math.pi * math.asin(correlation / 2), 0
    for value, count in zip(*np.unique(ranks, return_counts=True), strict=True):
        bounds = known(spearman_interval(float(value), captioners))
        assert -1 <= bounds.low < bounds.high <= 1
        held += int(count) * (bounds.low <= truth <= bounds.high)
    assert held / 20_000 >= least


def test_spearmans_is_bonett_and_wrights() -> None:
    """Of a value 0.6 of 28: variance (1 + 0.18) / 25 after Fisher's transformation."""
    bounds = known(spearman_interval(0.6, 28))
    half = stats.norm.ppf(0.975) * math.sqrt(1.18 / 25)
    assert [bounds.low, bounds.high] == pytest.approx(np.tanh(np.arctanh(0.6) + np.array([-half, half])))
