"""The finished run that tests share: what ``judge evaluate`` leaves and prints, and what reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from judge.statistics.summary import Settings as SummarySettings
from judge.statistics.summary import summarise


def test_what_evaluate_leaves_and_prints(finished_run: Path) -> None:
    found = json.loads((finished_run / "metrics.json").read_text(encoding="utf-8"))
    assert {path.name for path in finished_run.iterdir()} >= {
        *("metrics.json", "run.yaml", "report.html", "log.jsonl", "figures"),
        *("scores.parquet", "counts.parquet", "replicates.parquet", "examples.parquet"),
    }
    printed = (finished_run.parent / "printed.txt").read_text(encoding="utf-8")
    assert printed.rstrip().endswith(f"The results are in {finished_run}; look at {finished_run / 'report.html'}")
    for row in found["results"]:
        if row["metric"] in {"lic", "leakage"}:
            assert row["amplification"] == pytest.approx(row["generated"] - row["human"])
    assert {row["captioner"] for row in found["results"]} == {"none", "much"}


def test_the_table_comes_from_the_parquet_files_again(finished_run: Path) -> None:
    found = json.loads((finished_run / "metrics.json").read_text(encoding="utf-8"))
    scores, replicates = (pd.read_parquet(finished_run / f"{name}.parquet") for name in ("scores", "replicates"))
    rows = {(row["captioner"], row["metric"]): row for row in found["results"]}
    settings = SummarySettings(resamples=100, ratios={"lic": 1 / 2, "leakage": 1 / 2})
    for again in summarise(scores, replicates, settings):
        row = rows[again.captioner, again.metric.name]
        assert again.interval is not None
        assert (row["p_value"], row["ci"]) == (again.p_value, [again.interval.low, again.interval.high])
