"""An index page over the finished runs in a folder: their verdicts, and values from run to run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judge.errors import FAULTS, JudgeError, printable, some
from judge.metrics import find_metric
from judge.report import plots
from judge.report.directory import METRICS, REPORT
from judge.report.page import make_plain_page
from judge.report.plots import Drawing
from judge.report.sections import Section
from judge.report.table import SIGNED, TEXT, Table, digits_of, grouped, table_of, write
from judge.statistics.comparisons import NO_VERDICT
from judge.statistics.summary import name_row
from judge.types import Interval
from judge.utils.files import LOG, read_json_lines
from judge.utils.reading import read_text

INDEX = "index.html"
_WIDEST = 12  # Inches of a figure.
_TITLE = "Runs"
_MARK = f'<meta name="generator" content="Caption Judge: {_TITLE}">'.encode()  # In templates/head.html.
_NUMBERS = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of a run's table, as its ``metrics.json`` has it; a void row has no interval.

    ``finished``: when its run was, as text. ``about``: what values must share to stand in one figure: attribute,
    protocol and number of images.
    """

    run: str
    finished: str
    captioner: str
    title: str
    about: str
    value: float | None
    interval: Interval | None
    verdict: str
    neutral: float
    void: bool = False


def runs_in(folder: Path) -> list[Path]:
    """The finished runs in a folder, the one that was finished first first; those of one moment by name.

    Numbers in names count as numbers ("epoch-2" before "epoch-10").
    """

    def order(run: Path) -> tuple[datetime, list[tuple[int, int | str]]]:
        return _finished(run), [(0, int(of)) if of.isdigit() else (1, of) for of in _NUMBERS.split(run.name)]

    return sorted((of for of, why in _folders(folder).items() if not why), key=order)


def is_index(path: Path) -> bool:
    """Whether a file is an index that this package wrote."""
    with suppress(OSError):
        return path.is_file() and _MARK in path.read_bytes()[:1000]
    return False


def _folders(folder: Path) -> dict[Path, str]:
    """The folders in a folder, but for hidden ones, and why each is no finished run; "" for one that is."""

    def why(path: Path) -> str:
        if path.name.endswith(".partial"):
            return "unfinished"
        return "" if (path / METRICS).exists() else "no run"

    return {path: why(path) for path in sorted(folder.glob("*/")) if not path.name.startswith(".")}


def _finished(run: Path) -> datetime:
    """When a run was finished: by its log, which copies keep, else by the time of its file."""
    with suppress(OSError, JudgeError, *FAULTS):
        times = [float(of["time"]) for of in read_json_lines(run / LOG) if of["event"] == "finished"]
        return datetime.fromtimestamp(max(times), UTC)
    return datetime.fromtimestamp((run / METRICS).stat().st_mtime, UTC)


def index_page(folder: Path, runs: Sequence[Path]) -> str:
    """The page, as HTML; a run that cannot be read is listed with the reason, and so is a folder that is no run."""
    entries = [entry for run in runs for entry in _read(run)]
    links = [(printable(run.name), f"{run.name}/{REPORT}") for run in runs if (run / REPORT).is_file()]
    skipped = [f"{printable(of.name)} ({why})" for of, why in _folders(folder).items() if why]
    sections = [
        Section("amplification", "From run to run", figures=lambda _: _drawings(entries)),
        Section("table", "All runs", tables=lambda _, verbose: [] if verbose else [_table(entries)]),
    ]
    lead = f"{len(runs)} finished runs of {folder.resolve().name}, the oldest first."
    lead += f" Folders left out: {some(skipped, 20)}." if skipped else ""
    return make_plain_page(sections, title=_TITLE, lead=lead, links=links)


def _read(run: Path) -> Iterator[Entry]:
    finished = f"{_finished(run):%Y-%m-%d %H:%M}"
    try:
        document = json.loads(read_text(run / METRICS))
        for row in document["results"]:
            yield _entry(run.name, finished, row, document["run"])
    except (JudgeError, *FAULTS) as error:
        # One run at fault must not hide the others.
        why = str(error) if isinstance(error, JudgeError) else type(error).__name__
        yield Entry(run.name, finished, "-", "-", "", None, None, f"cannot be read ({why}): measure it again", 0.0)


def _entry(run: str, finished: str, row: Mapping[str, Any], about: Mapping[str, Any]) -> Entry:
    verdict, because = row["verdict"] or "not tested", row["because"]
    void = verdict == NO_VERDICT
    low, high = row["ci"] or (None, None)
    interval = None if void or low is None or high is None else Interval(float(low), float(high), float(about["level"]))
    metric, value = find_metric(row["metric"]), row["amplification"]
    said = f"{verdict}: {because}" if void and because else verdict
    shared = f"{about['attribute']}, {about['protocol']}, {row['images']:,} images"
    names = str(row["captioner"]), name_row(metric, row["judge"]), shared
    value = None if value is None else float(value)
    return Entry(run, finished, *names, value, interval, said, metric.neutral, void)


def _table(entries: Sequence[Entry]) -> Table[Any]:
    rows = []
    for of in entries:
        value, interval = (write(part, SIGNED, digits_of(of.interval)) for part in (of.value, of.interval))
        rows.append((of.run, of.finished, of.captioner, of.title, of.about, of.verdict, value, interval))
    numbers = [("amplification", TEXT), ("interval", TEXT)]
    note = "Compare values of two runs only if their settings, images and labels are equal; judge compare checks this."
    texts = ["run", "finished (UTC)", "captioner", "metric (judge)", "of", "verdict"]
    return table_of(texts, numbers, rows, "Amplification", [note])


def _drawings(entries: Sequence[Entry]) -> Iterator[Drawing]:
    """Yield a figure for each metric and judge that two runs or more have, with a line for each captioner.

    Void values are hollow, and no line joins them.
    """
    for (title, about), known in grouped(((of.title, of.about), of) for of in entries if of.value is not None).items():
        runs = list(dict.fromkeys(of.run for of in known))
        if len(runs) > 1:
            yield _drawing(f"{title}: {about}", known, runs)


def _drawing(title: str, known: Sequence[Entry], runs: Sequence[str]) -> Drawing:
    figure = plots.new_figure(min(_WIDEST, max(plots.WIDTH, 0.5 * len(runs) + 2)), 3)
    axes, captioners = figure.subplots(), list(dict.fromkeys(of.captioner for of in known))
    axes.axhline(known[0].neutral, color=plots.INK, linewidth=0.8)
    for number, name in enumerate(captioners):
        own = {runs.index(of.run) + 0.06 * number: of for of in known if of.captioner == name}
        look = plots.look(number)
        for void, style in ((False, {"linestyle": "-"}), (True, {"linestyle": "", "markerfacecolor": "none"})):
            points = {place: of.value for place, of in own.items() if of.void == void}
            axes.plot([*points], [*points.values()], label=name, **look, **style)  # type: ignore[arg-type]
        for place, of in own.items():
            plots.draw_interval(axes, of.interval, place, vertical=True, color=look["color"], linewidth=1.2)
    axes.set_xticks(range(len(runs)), list(map(plots.shorten, runs)), rotation=30, ha="right")
    axes.set_ylabel("amplification")
    if len(captioners) > 1:
        plots.legend(figure, axes, captioners)
    values = "; ".join(f"{of.run}, {of.captioner}: {of.value:+.3f}{' (no verdict)' * of.void}" for of in known)
    note = "Bars: intervals. Hollow: a check voids the value. The horizontal line: no amplification."
    return Drawing(f"runs-{title}", title, f"{values}.", note, figure)
