"""The figures of a report: what is drawn is what the table holds, on axes that hold what is neutral."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from helpers import measure_quality, run_of

from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.measure import Result
from judge.metrics import METRICS
from judge.quality import Quality
from judge.report.plots import GENERATED, PALE, Drawing, save, style
from judge.report.sections import SECTIONS
from judge.report.tables import result_table
from judge.statistics.summary import Summary
from judge.types import Interval

pytestmark = pytest.mark.figures

NOTHING = pd.DataFrame()
Drawn = dict[str, tuple[str, Drawing]]
"""Name -> section, drawing."""


def row(captioner: str, metric: str, judge: str, value: float, **more: Any) -> Summary:
    found: dict[str, Any] = {"human": 0.4, "generated": 0.4 + value, "images": 120, "basis": "refits"}
    return Summary(captioner, METRICS[metric], judge, amplification=value, **{**found, **more})


ROWS = (
    row("a", "lic", "linear", 0.05, interval=Interval(0.02, 0.08), p_value=0.001, chance_level=0.01),
    row("a", "lic", "lstm", -0.03, interval=Interval(-0.05, -0.01), p_value=0.002),
    row("b", "lic", "linear", 0.01, interval=Interval(-0.02, 0.04), p_value=0.5),
    row("b", "lic", "lstm", 0.02),
    row("a", "dbac-at", "linear", 0.1, interval=Interval(0.05, 0.15)),
    row("a", "dbac-ta", "linear", -0.2, interval=Interval(-0.3, -0.1)),
    Summary("a", METRICS["dba-o"], "counted", amplification=0.03),
    Summary("a", METRICS["dba-g"], "counted", amplification=-0.04),
    row("b", "imagecaptioner2-ratio", "sat", 1.2, interval=Interval(1.1, 1.3)),
    # Without a value that can be drawn.
    row("c", "error", "counted", np.inf),
    row("c", "sc", "linear", np.nan),
    Summary("c", METRICS["leakage"], "linear"),
)


def result_of(*rows: Summary, **more: Any) -> Result:
    same: Any = defaultdict(dict)  # All rows were measured on the same data, with the same settings.
    facts = run_of({of.captioner: {"female": 60, "male": 60} for of in rows})
    for entry in facts["captioners"].values():
        entry.update({"reads": defaultdict(lambda: same), "marks": same, "sources": ""})
    for of in rows:
        facts["captioners"][of.captioner]["reads"][of.metric.name][of.judge] = {}
    return Result(rows, NOTHING, NOTHING, NOTHING, facts, **more)


def drawings(result: Result) -> Iterator[tuple[str, Drawing]]:
    with style():
        yield from [(section.name, drawing) for section in SECTIONS for drawing in section.figures(result)]


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    return {drawing.name: (section, drawing) for section, drawing in drawings(result_of(*ROWS))}


def points(axes: Any) -> list[tuple[float, float, str]]:
    """Marked points: x, y, marker."""
    return [
        (float(x), float(y), str(line.get_marker()))
        for line in axes.lines
        if line.get_marker() not in {"None", "", None}
        for x, y in zip(*line.get_data(), strict=True)
    ]


def test_what_there_is_to_draw(drawn: Drawn) -> None:
    by_section: dict[str, list[str]] = {}
    for name, (section, _) in drawn.items():
        by_section.setdefault(section, []).append(name)
    metrics = "lic", "dbac-at", "dbac-ta", "dba-o", "dba-g", "imagecaptioner2-ratio"
    assert by_section == {
        "amplification": [f"forest-{name}" for name in metrics],
        "sides": ["sides-lic", "sides-dbac-at", "sides-dbac-ta", "sides-imagecaptioner2-ratio"],
    }


def test_a_forest_has_values_intervals_and_chance(drawn: Drawn) -> None:
    _, drawing = drawn["forest-lic"]
    (axes,) = drawing.figure.axes
    # In the order of the table; values above and below human captions, and others, look different.
    assert points(axes) == [(0.05, 0, "o"), (-0.03, 1, "s"), (0.01, 2, "D"), (0.02, 3, "D")]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["a (linear)", "a (lstm)", "b (linear)", "b (lstm)"]
    low, high = axes.get_xlim()
    assert low < -0.05
    assert high > 0.08
    bars = [tuple(line.get_xdata()) for line in axes.lines if line.get_linewidth() == 2]
    assert bars == [(0.02, 0.08), (-0.05, -0.01), (-0.02, 0.04)]
    assert [0.01, 0.01] in [list(line.get_xdata()) for line in axes.lines if line.get_linestyle() == ":"]
    assert "n = 120 images. Bars: 95% interval" in drawing.note
    assert "chance" in drawing.note
    assert "a, LIC (linear): +0.050 [+0.020, +0.080]" in drawing.text
    # Ratios are neutral at 1.
    low, high = drawn["forest-imagecaptioner2-ratio"][1].figure.axes[0].get_xlim()
    assert low < 1
    assert high > 1.3


def test_sides_begin_at_nothing(drawn: Drawn) -> None:
    (axes,) = drawn["sides-lic"][1].figure.axes
    # Points at nothing are not cut in half.
    assert axes.get_xlim()[0] < 0
    found = points(axes)
    assert [x for x, _, mark in found if mark == "o"] == [0.4] * 4
    assert [x for x, _, mark in found if mark == "s"] == pytest.approx([0.45, 0.37, 0.41, 0.42])
    # LIC's chance with two classes.
    assert [0.25, 0.25] in [list(line.get_xdata()) for line in axes.lines if line.get_linestyle() == ":"]


def test_a_figure_is_the_same_again(drawn: Drawn) -> None:
    again = next(drawing for _, drawing in drawings(result_of(*ROWS)))
    svg = save(again.figure, "svg")
    assert svg == save(drawn[again.name][1].figure, "svg")
    assert b"fill: #ffffff" not in svg.partition(b"<pattern")[0]  # No background.


@pytest.mark.parametrize("interval", [None, Interval(-np.inf, 0.2), Interval(0.0, np.inf)])
@pytest.mark.parametrize("human", [None, -0.3, np.inf])
def test_infinite_values_run_off_the_axes(human: float | None, interval: Interval | None) -> None:
    rows = tuple(row(name, "lic", name, 0.1, human=human, interval=interval) for name in "ab")
    for section, drawing in drawings(result_of(*rows)):
        figure = drawing.figure
        low, high = figure.axes[0].get_xlim()
        assert np.isfinite([low, high]).all()
        if interval and section == "amplification":
            left, right = np.asarray(figure.axes[0].lines[0].get_xdata(), dtype=np.float64)
            assert (left < low, right > high) == (interval.low == -np.inf, interval.high == np.inf)


@pytest.mark.parametrize("name", ["]]><!--", "$x$", "_hidden", '">\'<g id="text_1">', "a\x01"])
def test_names_in_figures_are_text(name: str) -> None:
    (_, drawing), *_ = drawings(result_of(row(name, "lic", "linear", 0.1)))
    texts = [element.text or "" for element in ElementTree.fromstring(save(drawing.figure, "svg")).iter()]
    assert any(name.replace("\x01", r"\x01") in text for text in texts)


# ---- LIC's Figure 3 --------------------------------------------------------------------------------------------------

LIC = {"nic_plus": 0.072, "nic_equalizer": 0.118, "nic_balanced": 0.06, "nic_upweight": 0.085}


@pytest.fixture(scope="module")
def qualities() -> dict[str, Quality]:
    """Of captioners that look, guess and err more or less."""
    drawn = make_world(60, seed=3)
    told = {name: simulate(drawn, name=name, captioner=Captioner(10 * of, error=of)) for name, of in LIC.items()}
    return {name: measure_quality(drawn.human, side, resamples=0) for name, side in told.items()}


def test_amplification_against_quality(qualities: dict[str, Quality], tmp_path: Path) -> None:
    rows = [
        row(name, "lic", "lstm", value, interval=Interval(value - 0.02, value + 0.03)) for name, value in LIC.items()
    ]
    (drawing,) = (found for section, found in drawings(result_of(*rows, quality=qualities)) if section == "quality")
    figure = drawing.figure
    left, right = figure.axes
    assert left.get_ylabel() == "amplification by LIC\n(lstm)"
    for axes, across in (
        (left, [qualities[name].vocabulary["generated"] for name in LIC]),
        (right, [qualities[name].value("CIDEr") for name in LIC]),
    ):
        assert [(x, y) for x, y, _ in points(axes)] == list(zip(across, LIC.values(), strict=True))
        bars = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 2][1:5]
        assert np.array(bars) == pytest.approx(np.array([[value - 0.02, value + 0.03] for value in LIC.values()]))
        squared = np.corrcoef(across, list(LIC.values()))[0, 1] ** 2
        assert axes.get_title() == f"R\u00b2 = {squared:.2f} over 4 captioners"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(LIC)
    drawing.write(tmp_path / "figure")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert ">nic_equalizer</text>" in (tmp_path / "figure.svg").read_text()
    assert "n = 120 images" in (tmp_path / "figure.svg").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.png", "figure.svg"]
    # Also a long name stays beside the axes.
    long = [row(name, "dbac-ta", "words+embedding", 0.1) for name in LIC]
    (named,) = (found for section, found in drawings(result_of(*long, quality=qualities)) if section == "quality")
    named.figure.canvas.draw()
    beside = named.figure.axes[0]
    assert beside.yaxis.label.get_window_extent().height < beside.get_window_extent().height
    # Three captioners have no trend.
    (few,) = (found for section, found in drawings(result_of(*rows[:3], quality=qualities)) if section == "quality")
    assert [axes.get_title() for axes in few.figure.axes] == ["", ""]


def test_a_row_at_chance_is_last_pale_and_without_an_interval() -> None:
    """In the table its reason is beside it. A coin's LIC is 0.25."""
    blind = row("a", "lic", "linear", 0.3, human=0.24, human_error=0.02, interval=Interval(0.1, 0.5), p_value=0.001)
    result = result_of(blind, replace(blind, captioner="b", human=0.5), replace(blind, captioner="c"))
    table = result_table(result)
    cells = {column.heading: of for column, of in table.shown()}
    reason = "no verdict: judges of human captions are no better than chance (0.240, chance 0.250)"
    assert cells["captioner"] == ["b", "a", "c"]
    assert cells["verdict"] == ["above human captions", reason, reason]
    assert cells["amplification [95% interval]"] == ["+0.300 [+0.100, +0.500]", "+0.300", "+0.300"]
    sides = {column.heading: of for column, of in result_table(result, sides=True).shown()}
    assert (sides["95% interval"], sides["p"]) == (["[+0.100, +0.500]", "-", "-"], ["0.001", "-", "-"])
    assert [*map(table.quiet, table.rows)] == [False, True, True]
    # Human captions cancel in the difference of two such rows.
    assert result.cancels == {row.key for row in result.summaries if row.captioner != "b"}
    (drawing,) = (drawing for _, drawing in drawings(result) if drawing.name == "forest-lic")
    axes = drawing.figure.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["b", "a", "c"]
    assert points(axes) == [(0.3, 0, "o"), (0.3, 1, "D"), (0.3, 2, "D")]
    assert [line.get_color() for line in axes.lines if len(line.get_xdata()) == 1] == [GENERATED, PALE, PALE]
    assert drawing.text.count("[") == 1
