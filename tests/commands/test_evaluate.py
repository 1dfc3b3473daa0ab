"""The finished run that tests share: what ``judge evaluate`` writes and prints, and the reports made of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from helpers import caption_options, done_well, read_json, refusal
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

from judge.calibration.grammar import WorldFiles
from judge.statistics.summary import Settings as SummarySettings
from judge.statistics.summary import summarise


def results(run: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(captioner, metric) -> line of the table."""
    found = read_json(run / "metrics.json")["results"]
    return {(row["captioner"], row["metric"]): row for row in found}


def test_files_and_table(finished_run: Path) -> None:
    assert {path.name for path in finished_run.iterdir()} >= {
        *("metrics.json", "run.yaml", "report.html", "log.jsonl", "figures", "breakdown"),
        *("scores.parquet", "counts.parquet", "replicates.parquet", "examples.parquet"),
    }
    printed = (finished_run.parent / "printed.txt").read_text(encoding="utf-8")
    assert printed.rstrip().endswith(f"The results are in {finished_run}; look at {finished_run / 'report.html'}")
    rows = results(finished_run)
    assert {captioner for captioner, _ in rows} == {"none", "much"}
    # The rows of learned metrics follow from the parquet files.
    scores, replicates = (pd.read_parquet(finished_run / f"{name}.parquet") for name in ("scores", "replicates"))
    for again in summarise(scores, replicates, SummarySettings(resamples=100, ratios={"lic": 0.5, "leakage": 0.5})):
        row = rows[again.captioner, again.metric.name]
        assert row["amplification"] == pytest.approx(row["generated"] - row["human"])
        assert again.interval is not None
        assert (row["p_value"], row["ci"]) == (again.p_value, [again.interval.low, again.interval.high])


def test_breakdown(finished_run: Path) -> None:
    """Contributions of tasks add up to the table, the largest first."""
    folder, printed = finished_run / "breakdown", (finished_run.parent / "printed.txt").read_text(encoding="utf-8")
    tasks = pd.read_csv(folder / "tasks.csv")
    for (captioner, metric), row in results(finished_run).items():
        mine = tasks[(tasks["metric"] == metric) & (tasks["captioner"] == captioner)]["contribution"]
        assert mine.sum() == pytest.approx(row["amplification"], abs=1e-9)
        assert (mine.abs().diff().dropna() <= 1e-15).all()
    assert {*pd.read_csv(folder / "words.csv")["metric"]} == {"lic|leakage"}
    assert "Words that contribute most" in printed
    assert "]*" in printed.split("Tasks that contribute most")[1]
    assert "* For these judges alone, as they were trained." in printed


def test_markdown_has_every_number(finished_run: Path) -> None:
    text = done_well("report", finished_run, "--format", "md").stdout
    lines = [line for line in text.partition("**Differences between captioners**")[0].splitlines() if "| " in line]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
    void = {key: row["verdict"] == "no verdict" for key, row in results(finished_run).items()}
    assert {*void.values()} == {True, False}
    rows = sorted(results(finished_run).items(), key=lambda of: void[of[0]])
    for mine, ((captioner, metric), row) in zip(cells, rows, strict=True):
        assert mine[0] == captioner
        assert mine[3] == ("-" if row["generated"] is None else f"{row['generated']:.3f}")
        assert mine[5] == f"{row['amplification']:+.3f}"
        assert mine[6] == ("-" if void[captioner, metric] else "[{:+.3f}, {:+.3f}]".format(*row["ci"]))
    assert "- Protocol crossfit: 3 folds" in text


def test_the_card_is_one_that_hugging_face_reads(finished_run: Path) -> None:
    text = done_well("report", finished_run, "--format", "card").stdout
    card = ModelCard(text)  # Parses the header, and checks the model index.
    assert "## Bias amplification" in card.text
    for entry in yaml.safe_load(text.split("---\n")[1])["model-index"]:
        name, found = model_index_to_eval_results([entry])
        assert {(of.task_type, of.dataset_type) for of in found} == {("image-to-text", "captions_human")}
        by_type, row = {of.metric_type: of for of in found}, results(finished_run)[name, "lic"]
        assert by_type.keys() == {metric for _, metric in results(finished_run)}
        lic, (low, high) = by_type["lic"], row["ci"]
        assert (lic.metric_value, lic.verified) == (row["amplification"], False)
        assert lic.metric_args is not None
        assert (lic.metric_args["interval"], lic.metric_args["judge"]) == (row["ci"], "words+embedding")
        assert lic.metric_args["verdict"] == row["verdict"]
        how = f"words+embedding, crossfit, 95% interval {low:+.3f} to {high:+.3f}"
        assert lic.metric_name == f"LIC bias amplification ({how})"
    assert "120 images)" in text


def test_reports_that_are_refused(finished_run: Path, tmp_path: Path) -> None:
    report = ("report", finished_run, "--format", "md")
    assert "is a folder" in refusal(*report, "--out", tmp_path)
    assert "its folder is not there" in refusal(*report, "--out", tmp_path / "no" / "a.md")
    line = refusal(*report, "--out", finished_run / "metrics.json", "--overwrite")
    assert "is a file of the run, which is read" in line
    assert "the same run twice" in refusal("report", finished_run, finished_run, "--format", "md")
    assert not any(tmp_path.iterdir())


def test_quality_stands_beside_bias(
    finished_world: WorldFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores by class in the table, in ``quality.csv`` and as LIC's figure 3."""
    out = tmp_path / "run"
    asked = ["evaluate", *caption_options(finished_world), "--metrics", "ratio,error", "--quality", "--resamples", 100]
    monkeypatch.setenv("PATH", str(tmp_path))  # No Java, which takes seconds to start.
    done = done_well(*asked, "--out", out)
    scores = pd.read_csv(out / "quality.csv")
    assert {"all", "female", "male"} < set(scores["group"])
    assert set(scores["captioner"]) == set(finished_world.captions)
    written = read_json(out / "metrics.json")
    assert any(line.startswith("METEOR skipped: ") for line in written["notes"]["warnings"])
    assert [row["value"] for row in written["quality"]] == pytest.approx(list(scores["value"]), nan_ok=True)
    line = scores[(scores["captioner"] == "none") & (scores["group"] == "all") & (scores["score"] == "BLEU-4")].iloc[0]
    assert 0 < line["low"] < line["value"] < line["high"] < 1
    assert f"{line['value']:.3f}" in done.stdout
    assert {"error-counted.png", "ratio-counted.svg"} < {path.name for path in (out / "figures").iterdir()}
    monkeypatch.setitem(sys.modules, "pycocoevalcap", None)
    assert "[quality]" in refusal(*asked, "--out", tmp_path / "other")
    assert not (tmp_path / "other").exists()
