"""``judge evaluate --fail-if`` and ``--format json``: what a pipeline reads."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import gt, lt
from pathlib import Path

import pytest
from helpers import done_well, fault_of, inputs_of, judge, read_json, refusal

from judge.calibration.grammar import WorldFiles
from judge.measure import Result
from judge.metrics import METRICS
from judge.report.gate import read_change, read_condition
from judge.report.saved_run import read_run
from judge.report.tables import result_table
from judge.statistics.comparisons import Difference
from judge.types import Interval

MEASURED = ("lic", "leakage", "ba", "ba-objects", "dba")
# As a condition names a number -> the column of ``Result.table(all=True)``.
COLUMNS = {">": "low", "<": "high", ".value": "value", ".p": "p_value"}


@pytest.fixture(scope="module")
def result(finished_run: Path) -> Result:
    return read_run(finished_run).result


def gated(text: str, result: Result) -> list[str]:
    return list(read_condition(text, MEASURED)(result))


def met(result: Result, *names: str, column: str, sign: str, limit: float) -> set[tuple[str, str]]:
    """(captioner, metric) of the rows that meet a condition, of the table that users read."""
    table = result.table(all=True)
    table["value"] = table["published"].fillna(table["amplification"])
    table = table[table["metric"].isin(names)]
    void = table["verdict"] == "no verdict"
    table = table[(gt if sign == ">" else lt)(table[column], limit) | table[column].isna() | void]
    return {*zip(table["captioner"], table["metric"], strict=True)}


@pytest.mark.parametrize("sign", "><")
@pytest.mark.parametrize("named", ["", ".value", ".p"])
def test_the_rows_that_meet_it_are_those_of_the_table(result: Result, named: str, sign: str) -> None:
    """Limits between the rows: each row meets the condition for some limit and not for another."""
    counts = set()
    for metric, names in {"lic": ["lic"], "ba": ["ba"], "dba": ["dba-o", "dba-g"], "dba-ta": ["dba-g"]}.items():
        titles = {row.metric.name: row.title for row in result.summaries}
        for limit in (-1.0, -0.01, 0.0, 0.04, 0.1, 0.3, 1.5):
            lines = gated(f"{metric}{named} {sign} {limit}", result)
            expected = met(result, *names, column=COLUMNS[named or sign], sign=sign, limit=limit)
            assert len(lines) == len(expected)
            for captioner, name in expected:
                assert any(f": {captioner}, {titles[name]}: " in line for line in lines)
            counts.add(len(expected))
    assert len(counts) > 1


def test_the_value_of_a_counted_metric_is_the_published_one(result: Result) -> None:
    """A ratio 1.24 times that of human captions, of which 1.01 is chance: 0.23 is the excess."""
    counts = {"human": 2.42, "generated": 3.0, "published": 1.24, "chance_level": 1.01, "amplification": 0.23}
    one = next(row for row in result.summaries if row.key[:2] == ("much", "ba"))
    ratio = replace(one, metric=METRICS["ratio"], interval=Interval(0.05, 0.41, 0.95), **counts)
    found = replace(result, summaries=(ratio,))
    for text, met in {
        "ratio.value > 1.1": True,
        "ratio.value > 1.3": False,
        "ratio.excess > 0.2": True,
        "ratio.excess > 0.3": False,
        "ratio.excess < 0.3": True,
    }.items():
        lines = [*read_condition(text, ["ratio"])(found)]
        assert len(lines) == met
    (line,) = read_condition("ratio.value > 1.1", ["ratio"])(found)
    assert line.endswith(": much, Ratio: the value is 1.24 (excess over chance +0.230 [+0.050, +0.410])")
    assert "'lic' is not counted: its value is not over chance" in fault_of(read_condition, "lic.excess > 1", MEASURED)
    # The table has what the excess is derived from, and so has the frame.
    cells = {column.heading: cells for column, cells in result_table(found, sides=True).shown()}
    assert (cells["as published"], cells["amplification"]) == (["+1.240"], ["+0.230"])
    assert found.table().loc[0, ["published", "amplification"]].tolist() == [1.24, 0.23]


@pytest.mark.parametrize("named", ["", ".value", ".p"])
def test_a_row_without_a_verdict_does_not_pass(result: Result, named: str) -> None:
    """Such a judge rewarded the captioners: LIC has numbers, but they say nothing."""
    entries = {name: {**entry, "rewarded_by": "linear"} for name, entry in result.run["captioners"].items()}
    result = replace(result, run={**result.run, "captioners": entries})
    rows = [row for row in result.summaries if row.metric.name == "lic"]
    assert all(row.interval and row.p_value for row in rows)
    for limit in ("> 9", "< -9"):
        lines = gated(f"lic{named} {limit}", result)
        assert lines == [
            f"--fail-if 'lic{named} {limit}': {row.captioner}, LIC (words+embedding): "
            f"cannot be checked, no verdict: {result.void[row.key]}"
            for row in rows
        ]


def test_a_row_without_the_number_does_not_pass(result: Result) -> None:
    """Even where the condition could hardly be met."""
    assert not gated("ba > 9", result)
    bare = replace(result, summaries=tuple(replace(row, interval=None, p_value=None) for row in result.summaries))
    for text, what in (("ba > 9", "lower bound"), ("ba < -9", "upper bound"), ("ba.p > 9", "p")):
        assert gated(text, bare) == [
            f"--fail-if '{text}': {name}, BA: cannot be checked, there is no {what}" for name in ("none", "much")
        ]
    nan = replace(result, summaries=tuple(replace(row, amplification=float("nan")) for row in result.summaries))
    assert len(gated("ba.excess > 9", nan)) == len(gated("ba.excess < 9", nan)) == 2


def test_a_metric_stands_for_its_variants(result: Result) -> None:
    """And a variant for itself; names in any case, numbers in any form."""
    for name, measured in {
        "lic": ["lic:80/20"],
        "LIC": ["lic"],
        "dbac": ["dbac-ta:accuracy"],
        "lic:80/20": ["lic:80/20"],
    }.items():
        assert read_condition(f" {name}.value>-1.5e-2 ", measured)
    for name, measured in {"lic:80/20": ["lic"], "dbac-at": ["dbac-ta"], "lci": ["lic", "ba"]}.items():
        line = fault_of(read_condition, f"{name} > 1", measured)
        assert line.startswith(
            f"--fail-if '{name} > 1': the run does not measure '{name}'. Name {' or '.join(measured)}, "
        )


def test_a_change_that_cannot_be_known_does_not_pass() -> None:
    row = Difference(METRICS["lic"], "linear", "new", "old", 0.2, Interval(0.1, 0.3), 0.01, paired=True, p_holm=0.02)
    passed = [check.failure for check in read_change("lic > 0.1", MEASURED)([row])]
    (failed,) = read_change("lic > 0.09", MEASURED)([row])
    assert (passed, failed.subject) == ([""], "new - old, LIC (linear)")
    assert failed.failure == "the lower bound is 0.1 (+0.200 [+0.100, +0.300])"
    assert [check.failure for check in read_change("lic.p < 0.03", MEASURED)([row])] == [
        "the p is 0.02 (+0.200 [+0.100, +0.300])"
    ]
    for found, why in (
        ([replace(row, because="its captions are of other images")], "no verdict: its captions are of other images"),
        ([replace(row, interval=None)], "there is no lower bound"),
        ([], "no two captioners compare"),
    ):
        (check,) = read_change("lic > 9", MEASURED)(found)
        assert check.failure == f"cannot be checked, {why}"
    assert "has no excess over chance of its own" in fault_of(read_change, "ba.excess > 1", MEASURED)


@pytest.mark.parametrize(
    "text", ["lic", "lic >= 0.05", "lic > x", "lic > 0.05 > 1", "> 1", "lic > nan", "lic > 1 or 1", ""]
)
def test_another_form_is_refused(text: str) -> None:
    assert "is no condition. Write it like 'lic > 0.05'" in fault_of(read_condition, text, MEASURED)


@pytest.fixture
def command(finished_world: WorldFiles) -> list[object]:
    """Counted metrics alone: nothing is trained."""
    return ["evaluate", *inputs_of(finished_world, "none", "much"), "--metrics", "ba,error", "--resamples", 100]


def test_exit_codes_and_results(command: list[object], tmp_path: Path) -> None:
    """3 if one of several conditions is met, once the results are written, which do not depend on it."""
    out = tmp_path / "plain"
    done_well(*command, "--out", out)
    rows = {(row["captioner"], row["metric"]): row for row in read_json(out / "metrics.json")["results"]}
    lows = sorted(rows[name, "ba"]["ci"][0] for name in ("none", "much"))
    between = f"ba > {sum(lows) / 2:.6f}"
    done = judge(*command, "--out", tmp_path / "gate", "--fail-if", "error > 1", "--fail-if", between)
    assert done.exit_code == 3
    high = max(("none", "much"), key=lambda name: rows[name, "ba"]["ci"][0])
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("judge: ")]
    assert line.startswith(f"judge: --fail-if '{between}': {high}, BA: the lower bound is {lows[1]:.4g} (")
    for name in ("metrics.json", "counts.parquet", "report.html"):
        assert (tmp_path / "gate" / name).exists()
    assert read_json(tmp_path / "gate" / "metrics.json") == read_json(out / "metrics.json")
    done = done_well(
        *command, "--out", tmp_path / "passed", "--fail-if", f"ba > {lows[1] + 1}", "--fail-if", "error<-1"
    )
    assert "--fail-if" not in done.stderr
    # The settings repeat the gate.
    settings = tmp_path / "gate" / "run.yaml"
    assert judge("evaluate", settings, "--out", tmp_path / "again").exit_code == 3


def test_a_condition_is_checked_first(command: list[object], tmp_path: Path) -> None:
    line = refusal(*command, "--fail-if", "lic > 0.05", "--out", tmp_path / "out")
    assert "--fail-if 'lic > 0.05': the run does not measure 'lic'. Name ba or error, alone or with .value" in line
    assert "is no condition" in refusal(*command, "--fail-if", "ba", "--out", tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_json_on_standard_output(command: list[object], finished_run: Path, tmp_path: Path) -> None:
    """It is what the files hold, and nothing else; the rest is on standard error."""
    folders = [tmp_path / name for name in ("one", "other")]
    for out in folders:
        done = done_well(*command, "--out", out, "--format", "json")
        assert done.stdout == (out / "metrics.json").read_text(encoding="utf-8")
        assert f"The results are in {out}" in done.stderr
    assert json.loads(done_well("report", finished_run, "--format", "json").stdout) == read_json(
        finished_run / "metrics.json"
    )
    done = done_well("compare", *folders, "--format", "json", "--out", tmp_path / "differences.json")
    assert done.stdout == (tmp_path / "differences.json").read_text(encoding="utf-8")
    assert {row["metric"] for row in json.loads(done.stdout)["differences"]} == {"ba", "error"}
    assert "NOTE: " in done.stderr
    assert "The differences are in" in done.stderr
