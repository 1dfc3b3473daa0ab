"""LIC's Figure 3: what is drawn, and that a file is whole or not there."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from helpers import first_images

from judge.errors import JudgeError
from judge.metrics import METRICS
from judge.quality import Quality, measure_quality
from judge.report.plots import as_svg, draw_against_quality, write_figure
from judge.statistics.summary import Summary
from judge.types import Interval

NAMES = ("nic_plus", "nic_equalizer", "nic_balanced", "nic_upweight")
LIC = dict(zip(NAMES, (0.072, 0.118, 0.06, 0.085), strict=True))


@pytest.fixture(scope="module")
def qualities(coco: Path) -> dict[str, Quality]:
    corpus = first_images(coco, NAMES, 60)
    return {side.name: measure_quality(corpus.human, side, java=False, resamples=0) for side in corpus.generated}


def row(captioner: str, value: float | None, *, interval: bool = True, metric: str = "lic") -> Summary:
    found = Interval(value - 0.02, value + 0.03) if interval and value is not None else None
    return Summary(captioner, METRICS[metric], "lstm", 0.4, 0.5, value, None, found, None, 100, 1)


ROWS = [row(name, value) for name, value in LIC.items()]


def test_what_is_drawn(qualities: dict[str, Quality]) -> None:
    figure = draw_against_quality([*ROWS, row("one side", None)], qualities)
    left, right = figure.axes
    assert left.get_ylabel() == "amplification by LIC (lstm)"
    for axes, across in (
        (left, [qualities[name].vocabulary["generated"] for name in NAMES]),
        (right, [qualities[name].value("CIDEr") for name in NAMES]),
    ):
        points = {line.get_label(): line.get_xydata().tolist() for line in axes.lines if line.get_marker() != "None"}
        assert points == {name: [[x, LIC[name]]] for name, x in zip(NAMES, across, strict=True)}
        bars = [line.get_xydata().tolist() for line in axes.lines if len(line.get_xdata()) == 2][1:5]
        expected = [[[x, LIC[n] - 0.02], [x, LIC[n] + 0.03]] for n, x in zip(NAMES, across, strict=True)]
        assert np.array(bars) == pytest.approx(np.array(expected))
        squared = np.corrcoef(across, list(LIC.values()))[0, 1] ** 2
        assert axes.get_title() == f"$R^2$ = {squared:.2f} over 4 captioners"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(NAMES)
    # Two captioners have no trend.
    assert [axes.get_title() for axes in draw_against_quality(ROWS[:2], qualities).axes] == ["", ""]


def test_a_file_whole(qualities: dict[str, Quality], tmp_path: Path) -> None:
    path = tmp_path / "figure"
    svg = write_figure(draw_against_quality(ROWS, qualities), path)
    data = path.with_suffix(".png").read_bytes()
    assert path.with_suffix(".svg").read_text() == svg == as_svg(draw_against_quality(ROWS, qualities))
    assert ">nic_equalizer</text>" in svg
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (840, 570)
    # Drawn again, without the bars: another picture in the same place, and nothing beside it.
    without = [row(name, value, interval=False) for name, value in LIC.items()]
    assert write_figure(draw_against_quality(without, qualities), path) != svg
    assert path.with_suffix(".png").read_bytes() != data
    assert sorted(of.name for of in tmp_path.iterdir()) == ["figure.png", "figure.svg"]


def test_names_are_not_formulas(qualities: dict[str, Quality], tmp_path: Path) -> None:
    names = {"a$b_{": 0.1, "\u65e5\u672c": 0.2, "_hidden": 0.3}
    given = [row(*item) for item in names.items()], dict.fromkeys(names, qualities["nic_plus"])
    assert [text.get_text() for text in draw_against_quality(*given).legends[0].get_texts()] == list(names)
    write_figure(draw_against_quality(*given), tmp_path / "figure")


def test_faults(qualities: dict[str, Quality], tmp_path: Path) -> None:
    for error, rows, path, message in (
        (JudgeError, [*ROWS, row("other", 0.1)], "a", "the caption quality of 'other' is not known"),
        (JudgeError, [row("nic_plus", None)], "a", "no captioner has an amplification"),
        (ValueError, [*ROWS, row("nic_plus", 0.1, metric="leakage")], "a", "several metrics or judges"),
        (JudgeError, ROWS, "missing/a", "cannot be written"),
    ):
        with pytest.raises(error, match=message):
            write_figure(draw_against_quality(rows, qualities), tmp_path / path)
    assert not list(tmp_path.iterdir())
