"""The index page of a folder of runs: values, verdicts and order are those of the runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers import done_well, refusal


@pytest.fixture
def folder(finished_run: Path, tmp_path: Path) -> Path:
    """Three copies of a run, and what is none."""
    for name in ("epoch-10", "epoch-2", "2026 <b>"):
        shutil.copytree(finished_run, tmp_path / name)
    (tmp_path / "other").mkdir()
    return tmp_path


def test_every_run_is_listed(folder: Path) -> None:
    """Numbers in names are in the order of numbers; names are text; a page that is not there has no link."""
    (folder / "epoch-10" / "report.html").unlink()
    done_well("report", folder)
    page = (folder / "index.html").read_text(encoding="utf-8")
    places = [page.index(f">{name}<") for name in ("2026 &lt;b&gt;", "epoch-2", "epoch-10")]
    assert places == sorted(places)
    assert '<a href="epoch-2/report.html">' in page
    assert '<a href="2026%20%3Cb%3E/report.html">' in page
    assert "epoch-10/report.html" not in page
    for row in json.loads((folder / "epoch-2" / "metrics.json").read_text(encoding="utf-8"))["results"]:
        assert page.count(f"{row['amplification']:+.3f}") >= 3
    assert "is there already" in refusal("report", folder)
    done_well("report", folder, "--overwrite")


def test_a_run_at_fault_is_listed_with_its_reason(folder: Path) -> None:
    """Metrics that this installation lacks, too; unfinished runs are not listed."""
    (folder / "epoch-2" / "metrics.json").write_text('{"results": [{}], "run": {"level": 0.95}}', encoding="utf-8")
    path = folder / "epoch-10" / "metrics.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"metric": "lic"', '"metric": "nope"'), encoding="utf-8")
    shutil.copytree(folder / "2026 <b>", folder / "x.partial")
    done_well("report", folder)
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "cannot be read (KeyError): measure it again" in page
    assert "unknown metric &#39;nope&#39;" in page
    assert "x.partial" not in page


def test_an_index_is_a_page_alone(folder: Path) -> None:
    for options in (["--format", "md"], ["--no-examples"], ["--show-ids"]):
        assert f"{folder}: is a folder of runs, which has an index alone" in refusal("report", folder, *options)
