"""The index page of a folder of runs: values, verdicts and order are those of the runs."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from helpers import done_well, read_json, refusal

from judge.report.index import Entry, _drawings
from judge.report.table import digits_of
from judge.types import Interval


@pytest.fixture
def folder(finished_run: Path, tmp_path: Path) -> Path:
    """Three copies of a run, of which the last was finished a day later, and what is none."""
    for name in ("epoch-10", "epoch-2", "2026 <b>"):
        shutil.copytree(finished_run, tmp_path / name)
    (tmp_path / "other").mkdir()
    log = tmp_path / "2026 <b>" / "log.jsonl"
    times = [json.loads(line)["time"] for line in log.read_text(encoding="utf-8").splitlines()]
    with log.open("a", encoding="utf-8") as file:
        file.write(f'{{"time": {max(times) + 86400}, "event": "finished"}}\n')
    return tmp_path


def test_every_run_is_listed(folder: Path) -> None:
    """In the order of time, then of numbers in names; names are text; a page that is not there has no link."""
    (folder / "epoch-10" / "report.html").unlink()
    done_well("report", folder)
    page = (folder / "index.html").read_text(encoding="utf-8")
    places = [page.index(f">{name}<") for name in ("epoch-2", "epoch-10", "2026 &lt;b&gt;")]
    assert places == sorted(places)
    assert '<th scope="row"><a href="epoch-2/report.html">epoch-2</a></th>' in page
    assert '<a href="2026%20%3Cb%3E/report.html">' in page
    assert "Folders left out: other (no run)." in page
    days = [datetime.fromisoformat(day) for day in re.findall(r"<td>(\d{4}-\d\d-\d\d \d\d:\d\d)</td>", page)]
    assert days[-1] - days[0] == timedelta(days=1)
    assert "epoch-10/report.html" not in page
    for row in read_json(folder / "epoch-2" / "metrics.json")["results"]:
        digits = digits_of(row["ci"] and Interval(*row["ci"]))
        assert page.count(f"{row['amplification']:+.{digits}f}") >= 3


def test_an_index_is_written_again_and_another_file_is_not(folder: Path) -> None:
    """An index is a page alone."""
    for _ in range(2):
        done_well("report", folder)
    for options in (["--format", "md"], ["--no-examples"], ["--show-ids"]):
        assert f"{folder}: is a folder of runs, which has an index alone" in refusal("report", folder, *options)
    (folder / "index.html").write_text("<title>Runs</title>", encoding="utf-8")
    assert "is there already" in refusal("report", folder)
    done_well("report", folder, "--overwrite")


def test_void_values_are_hollow_and_not_in_the_line() -> None:
    """The second of three runs has no verdict."""
    rows = [("much", "LIC", "", 0.1 * n, None, "", 0.0, n == 1) for n in range(3)]
    (drawing,) = _drawings([Entry(f"r{n}", "", *row) for n, row in enumerate(rows)])
    filled, hollow = [line for line in drawing.figure.axes[0].lines if line.get_label() == "much"]
    assert [list(of.get_xdata()) for of in (filled, hollow)] == [[0, 2], [1]]
    assert (hollow.get_markerfacecolor(), hollow.get_linestyle()) == ("none", "None")
    assert "r1, much: +0.100 (no verdict)" in drawing.text


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
    assert "x.partial (unfinished)" in page
    assert 'href="x.partial' not in page
