"""``judge report`` of real captions: Markdown, LaTeX, and a card that Hugging Face's library reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import done_well, refusal
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

IMAGES = 300


@pytest.fixture(scope="module")
def run(coco: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two real captioners on the first images that all have captions of, labels and objects."""
    out = tmp_path_factory.mktemp("report")
    lines = (coco / "gender.csv").read_text(encoding="utf-8").splitlines()
    described = {row["image_id"] for row in json.loads((coco / "results" / "nic_plus.json").read_text("utf-8"))}
    labelled = [line for line in lines[1:] if int(line.split(",")[0]) in described][:IMAGES]
    (out / "labels.csv").write_text("\n".join([lines[0], *labelled]), encoding="utf-8")
    files = ["--human", coco / "captions_human.json", "--labels", out / "labels.csv"]
    files += ["--captions", coco / "results" / "nic_plus.json"]
    files += ["--captions", f"nic_equalizer={coco / 'results' / 'nic_equalizer.json'}"]
    quick = ["--metrics", "lic,ratio,sc", "--folds", 5, "--refits", 0, "--chance", 0, "--resamples", 100]
    done_well("evaluate", *files, *quick, "--workers", 1, "--out", out / "run")
    return out / "run"


def results(run: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(captioner, metric) -> line of the table."""
    found = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["results"]
    return {(row["captioner"], row["metric"]): row for row in found}


def test_markdown_has_every_number(run: Path) -> None:
    text = done_well("report", run, "--format", "md").stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| nic")]
    for (captioner, metric), row in results(run).items():
        title = {"lic": "LIC (linear)", "ratio": "Ratio", "sc": "SC (linear)"}[metric]
        (mine,) = (cells for cells in rows if cells[:2] == [captioner, title])
        assert mine[3] == f"{row['generated']:.3f}"
        if row["amplification"] is not None:
            assert mine[4] == f"{row['amplification']:+.3f}"
            assert mine[5] == "[{:+.3f}, {:+.3f}]".format(*row["ci"])
    assert "**Differences between captioners**" in text
    assert "- Protocol crossfit: 5 folds" in text


def test_latex_has_the_table_and_says_what_intervals_are(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables.tex"
    assert f"The report is in {out}" in done_well("report", run, "--format", "latex", "--out", out).stdout
    text = out.read_text(encoding="utf-8")
    assert r"\usepackage{booktabs}" in text
    assert "of such images, judges trained anew (from splits)" in text.split(r"\end{table}")[0]
    images = sorted({f"{row['images']:,}" for row in results(run).values()}, key=int)
    assert f"{' to '.join(images)} images." in text
    row = results(run)["nic_plus", "lic"]
    assert f"nic\\_plus & LIC (linear) & {row['human']:.3f} & {row['generated']:.3f} & " in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    told = refusal("report", run, "--format", "latex", "--out", out)
    assert "is there already. Name another file, or add --overwrite" in told
    done_well("report", run, "--format", "md", "--out", out, "--overwrite")
    assert out.read_text(encoding="utf-8").startswith("# Bias amplification")


def test_the_card_is_one_that_hugging_face_reads(run: Path) -> None:
    text = done_well("report", run, "--format", "card").stdout
    card = ModelCard(text)  # Parses the header, and checks the model index.
    assert "## Bias amplification" in card.text
    index = yaml.safe_load(text.split("---\n")[1])["model-index"]
    assert [entry["name"] for entry in index] == ["nic_plus", "nic_equalizer"]
    for entry in index:
        name, found = model_index_to_eval_results([entry])
        assert name == entry["name"]
        assert {(of.task_type, of.dataset_type) for of in found} == {("image-to-text", "captions_human")}
        by_type = {of.metric_type: of for of in found}
        assert by_type.keys() == {"lic", "ratio", "sc"}
        row = results(run)[name, "lic"]
        lic = by_type["lic"]
        assert lic.metric_value == row["amplification"]
        assert lic.metric_args is not None
        assert (lic.metric_args["interval"], lic.metric_args["judge"]) == (row["ci"], "linear")
        low, high = row["ci"]
        assert lic.metric_name == f"LIC bias amplification (linear, crossfit, 95% interval {low:+.3f} to {high:+.3f})"
        assert not lic.verified
        assert by_type["sc"].metric_name == "SC score (linear, crossfit)"
    assert f"{IMAGES} images)" in text
    assert "labels: labels.csv" in text


def test_what_is_refused(run: Path, tmp_path: Path) -> None:
    assert "is a folder" in refusal("report", run, "--format", "md", "--out", tmp_path)
    assert "its folder is not there" in refusal("report", run, "--format", "md", "--out", tmp_path / "no" / "a.md")
    told = refusal("report", run, "--format", "md", "--out", run / "metrics.json", "--overwrite")
    assert "is a file of the run, which is read" in told
    assert "no run can be read there" in refusal("report", tmp_path, "--format", "card")
    assert "the same run twice" in refusal("report", run, run, "--format", "md")
    assert sorted(path.name for path in tmp_path.iterdir()) == []
