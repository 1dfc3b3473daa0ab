"""The figures of a report: what is drawn is what the table says, on axes that hold what is neutral."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from judge.measure import Result
from judge.metrics import METRICS
from judge.report.figures import Drawing, drawings
from judge.report.page import inline
from judge.report.plots import as_svg
from judge.statistics.breakdown import Breakdown, TaskPart
from judge.statistics.summary import Summary
from judge.types import Interval

NOTHING = pd.DataFrame()


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
    row("c", "error", "counted", float("inf")),
    Summary("c", METRICS["leakage"], "linear"),
)
FACTS: dict[str, Any] = {"level": 0.95, "captioners": {name: {"images": {"female": 60, "male": 60}} for name in "abc"}}
TASKS = tuple(
    TaskPart("a", "lic", "linear", f"task {n}", 0.01 * (5 - n), None, 20, 20, Interval(-0.1, 0.1), 0.4, "splits", 1.0)
    for n in range(20)
)


@pytest.fixture(scope="module")
def drawn() -> dict[str, tuple[Drawing, Any]]:
    result = Result(ROWS, NOTHING, NOTHING, NOTHING, FACTS, breakdown=Breakdown(TASKS, NOTHING, NOTHING))
    return {drawing.name: (drawing, drawing.draw()) for drawing in drawings(result)}


def points(axes: Any) -> list[tuple[float, float, str]]:
    """Marked points: x, y, marker."""
    return [
        (float(x), float(y), str(line.get_marker()))
        for line in axes.lines
        if line.get_marker() not in {"None", "", None}
        for x, y in zip(*line.get_data(), strict=True)
    ]


def told(figure: Any) -> str:
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


def test_what_there_is_to_draw(drawn: dict[str, tuple[Drawing, Any]]) -> None:
    kinds: dict[str, list[str]] = {}
    for name, (drawing, _) in drawn.items():
        kinds.setdefault(drawing.kind, []).append(name)
    assert kinds == {
        "forest": [
            f"forest-{name}" for name in ("lic", "dbac-at", "dbac-ta", "dba-o", "dba-g", "imagecaptioner2-ratio")
        ],
        "sides": ["sides-lic", "sides-dbac-at", "sides-dbac-ta", "sides-imagecaptioner2-ratio"],
        "judges": ["judges-lic"],
        "directions": ["directions-dbac-at-linear", "directions-dba-o-counted"],
        "tasks": ["tasks-a-lic-linear"],
    }


def test_a_forest_has_values_intervals_and_chance(drawn: dict[str, tuple[Drawing, Any]]) -> None:
    drawing, figure = drawn["forest-lic"]
    (axes,) = figure.axes
    # In the order of the table; amplifies, mitigates, cannot tell and no test look different.
    assert points(axes) == [(0.05, 0, "o"), (-0.03, 1, "s"), (0.01, 2, "D"), (0.02, 3, "D")]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "a (linear)",
        "a (lstm)",
        "b (linear)",
        "b (lstm)",
    ]
    low, high = axes.get_xlim()
    assert low < -0.05
    assert high > 0.08
    bars = [tuple(line.get_xdata()) for line in axes.lines if line.get_linewidth() == 2]
    assert bars == [(0.02, 0.08), (-0.05, -0.01), (-0.02, 0.04)]
    assert [0.01, 0.01] in [list(line.get_xdata()) for line in axes.lines if line.get_linestyle() == ":"]
    assert "n = 120 images. Bars: 95% interval" in told(figure)
    assert "chance" in told(figure)
    assert "a, LIC (linear): +0.050 [+0.020, +0.080]" in drawing.text
    # Ratios are neutral at 1.
    low, high = drawn["forest-imagecaptioner2-ratio"][1].axes[0].get_xlim()
    assert low < 1
    assert high > 1.3


def test_sides_begin_at_nothing(drawn: dict[str, tuple[Drawing, Any]]) -> None:
    _, figure = drawn["sides-lic"]
    (axes,) = figure.axes
    # Points at nothing are not cut in half.
    assert axes.get_xlim()[0] < 0
    found = points(axes)
    assert [x for x, _, mark in found if mark == "o"] == [0.4] * 4
    assert [x for x, _, mark in found if mark == "s"] == pytest.approx([0.45, 0.37, 0.41, 0.42])
    # LIC's chance with two classes.
    assert [0.25, 0.25] in [list(line.get_xdata()) for line in axes.lines if line.get_linestyle() == ":"]


def test_judges_directions_and_tasks(drawn: dict[str, tuple[Drawing, Any]]) -> None:
    axes = drawn["judges-lic"][1].axes[0]
    assert sorted(round(y, 3) for _, y, _ in points(axes)) == [-0.03, 0.01, 0.02, 0.05]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["linear", "lstm"]
    assert points(drawn["directions-dbac-at-linear"][1].axes[0]) == [(0.1, -0.2, "o")]
    assert points(drawn["directions-dba-o-counted"][1].axes[0]) == [(0.03, -0.04, "o")]
    axes = drawn["tasks-a-lic-linear"][1].axes[0]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([part.contribution for part in TASKS[:12]])
    assert "12 of 20 tasks" in told(drawn["tasks-a-lic-linear"][1])


def test_in_a_page_colours_are_its_own(drawn: dict[str, tuple[Drawing, Any]]) -> None:
    for drawing, figure in drawn.values():
        svg = as_svg(figure)
        shown = str(inline(svg, '<"&'))
        assert shown.startswith('<svg class="chart" role="img" aria-label="&lt;&#34;&amp;"')
        assert "var(--ink)" in shown
        assert "fill: #ffffff" not in shown
        assert as_svg(drawing.draw()) == svg


@pytest.mark.parametrize("interval", [None, Interval(-np.inf, 0.2), Interval(0.0, np.inf)])
@pytest.mark.parametrize("human", [None, -0.3, np.inf])
def test_odd_values_are_no_end_of_a_run(human: float | None, interval: Interval | None) -> None:
    rows = tuple(row(name, "lic", name, 0.1, human=human, interval=interval) for name in "ab")
    for drawing in drawings(Result(rows, NOTHING, NOTHING, NOTHING, FACTS)):
        figure = drawing.draw()
        assert np.isfinite(figure.axes[0].get_xlim()).all()
        if interval and drawing.kind == "forest":
            bar = np.asarray(figure.axes[0].lines[0].get_xdata(), dtype=np.float64)
            low, high = figure.axes[0].get_xlim()
            assert (bar[0] < low) == (interval.low == -np.inf)
            assert (bar[1] > high) == (interval.high == np.inf)
        elif drawing.kind == "sides":
            assert figure.axes[0].get_xlim()[0] < cast("float", human)
        as_svg(figure)


@pytest.mark.parametrize(
    "name", ['id="p0123456789"', "@0@", 'style="#d55e00"', "<!--", "]]>", "$x$", '">\'<g id="text_1">']
)
def test_names_in_figures_are_text(name: str) -> None:
    rows = (row(name, "lic", "linear", 0.1), row("b", "lic", "linear", 0.2))
    for drawing in drawings(
        Result(
            rows,
            NOTHING,
            NOTHING,
            NOTHING,
            {**FACTS, "captioners": {name: FACTS["captioners"]["a"], "b": FACTS["captioners"]["b"]}},
        )
    ):
        found = ElementTree.fromstring(str(inline(as_svg(drawing.draw()), drawing.title)).replace("xlink:", ""))
        assert name in [element.text for element in found.iter()]


def test_control_characters_are_no_xml() -> None:
    rows = (row("a\x00\x01", "lic", "linear", 0.1),)
    facts = {**FACTS, "captioners": {rows[0].captioner: FACTS["captioners"]["a"]}}
    for drawing in list(drawings(Result(rows, NOTHING, NOTHING, NOTHING, facts)))[:1]:
        ElementTree.fromstring(as_svg(drawing.draw()))


def test_a_metric_without_directions_has_one_sign() -> None:
    rows = tuple(row("a", "multi-at", "counted", value, human=None, p_value=0.0) for value in (0.2,))
    (drawing,) = drawings(Result(rows, NOTHING, NOTHING, NOTHING, FACTS))
    figure = drawing.draw()
    assert points(figure.axes[0]) == [(0.2, 0, "o")]
    assert "Circles: changes; hollow" in told(figure)


def test_figures_of_tasks_leave_no_captioner_out() -> None:
    parts = tuple(
        TaskPart(name, metric, "x", "task", 0.1, None, 9, 9, None, None, None, 1.0)
        for name in "ab"
        for metric in METRICS
        if not METRICS[metric].counted
    )
    rows = tuple(row(name, metric, "x", 0.1) for name in "ab" for metric in METRICS)
    result = Result(rows, NOTHING, NOTHING, NOTHING, FACTS, breakdown=Breakdown(parts, NOTHING, NOTHING))
    names = [drawing.title[0] for drawing in drawings(result) if drawing.kind == "tasks"]
    assert sorted(names) == ["a"] * 6 + ["b"] * 6


def test_what_has_no_value_is_not_drawn() -> None:
    alone = replace(ROWS[0], amplification=np.nan, interval=None)
    assert list(drawings(Result((alone,), NOTHING, NOTHING, NOTHING, FACTS))) == []
