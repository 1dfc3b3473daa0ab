"""A result as people read it: its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rich.markup import escape
from rich.table import Table

from judge.masking.overlap import DetectorRow
from judge.measure import Result
from judge.metrics import find_metric
from judge.report.layout import digits_of, format_coverage, format_interval, format_number, format_p, start_table
from judge.statistics.comparisons import Conclusion, Difference, conclude
from judge.statistics.summary import Summary


def make_table(result: Result, extra: Mapping[str, Mapping[str, str]] | None = None) -> Table:
    """The table of ``judge evaluate``: one row per captioner, metric and judge. Fractions.

    Args:
        result: of a run.
        extra: heading -> {"captioner metric" -> what stands there}: a further column, e.g. of a known world.
    """
    rows = list(zip(result.summaries, conclude(result.summaries), strict=True))
    cells = {
        heading: [column(row, said) for row, said in rows] for heading, column in _columns(result, extra or {}).items()
    }
    kept = {heading: of for heading, of in cells.items() if heading not in _OPTIONAL or set(of) != {"-"}}
    table = start_table("captioner", "metric (judge)")
    for heading in kept:
        table.add_column(heading, justify="right", no_wrap=True)
    for number, (row, _) in enumerate(rows):
        told = escape(row.captioner), escape(f"{find_metric(row.metric).title} ({row.judge})")
        table.add_row(*told, *(of[number] for of in kept.values()))
    return table


_JUDGED_ALONE = "these judges"
# Columns that are left out where no row has anything to say in them.
_OPTIONAL = {"sd", _JUDGED_ALONE, "as published", "by chance", "chance", "seeds"}
Cell = Callable[[Summary, Conclusion], str]


def _columns(result: Result, extra: Mapping[str, Mapping[str, str]]) -> dict[str, Cell]:
    """Heading -> what stands in a row."""
    level = f"{100 * result.run['level']:g}% interval"

    def signed(value: float | None, row: Summary) -> str:
        return format_number(value, signed=True, digits=digits_of(row.interval))

    def interval(row: Summary, *, alone: bool) -> str:
        held = row.interval if (row.basis == "these judges") == alone else None
        return format_interval(held, signed=True, digits=digits_of(row.interval))

    def coverage(row: Summary) -> str:
        return format_coverage(result.run["captioners"][row.captioner]["coverage"], "generated")

    added: dict[str, Cell] = {
        heading: partial(lambda values, row, _: values.get(f"{row.captioner} {row.metric}", "-"), values)
        for heading, values in extra.items()
    }
    return {
        "human": lambda row, _: format_number(row.human),
        "generated": lambda row, _: format_number(row.generated),
        "amplification": lambda row, _: signed(row.amplification, row),
        **added,
        level: lambda row, _: interval(row, alone=False),
        _JUDGED_ALONE: lambda row, _: interval(row, alone=True),
        "p": lambda row, _: format_p(row.p_value),
        "p (Holm)": lambda _, said: format_p(said.p_holm),
        "verdict": lambda _, said: said.verdict or "-",
        "detectable": lambda row, said: format_number(said.detectable, digits=digits_of(row.interval)),
        "chance": lambda row, _: " / ".join(map(format_number, row.chance)) if row.chance else "-",
        "as published": lambda row, _: signed(row.published, row),
        "by chance": lambda row, _: signed(row.chance_level, row),
        "sd": lambda row, _: format_number(row.sd),
        "images": lambda row, _: f"{row.images:,}",
        "seeds": lambda row, _: str(row.seeds) if row.seeds > 1 else "-",
        f"names {escape(result.run['attribute'])}: one/none/several": lambda row, _: coverage(row),
    }


def difference_table(found: Sequence[Difference]) -> Table:
    """A row per pair of captioners, metric and judge: amplification of the first less that of the second."""
    table = start_table("metric (judge)", "first", "second")
    levels = {row.interval.level for row in found if row.interval}
    interval = f"{100 * max(levels, default=0.95):g}% interval"
    for heading in ("first - second", interval, "p", "p (Holm)"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in found:
        digits = digits_of(row.interval)
        table.add_row(
            escape(f"{find_metric(row.metric).title} ({row.judge})"),
            escape(row.first),
            escape(row.second),
            format_number(row.value, signed=True, digits=digits),
            format_interval(row.interval, signed=True, digits=digits),
            format_p(row.p_value),
            format_p(row.p_holm),
            escape(row.verdict or "-"),
        )
    return table


def parts_table(result: Result) -> Table | None:
    """Of metrics with priors, which of the two moved: how well judges guess, or how frequent is what captions say.

    None for a result without such metrics.
    """
    table = start_table("captioner", "metric (judge)", "Q")
    for heading in ("Q human", "Q generated", "prior", "prior human", "prior generated"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in result.summaries:
        if row.qualities and row.priors:
            metric = find_metric(row.metric)
            cells = [f"{value:.4g}" for value in (*row.qualities, *row.priors)]
            score = metric.score.replace("_", " ")
            name = f"{metric.title} ({row.judge})"
            table.add_row(escape(row.captioner), escape(name), score, *cells[:2], metric.prior, *cells[2:])
    return table if table.row_count else None


def detector_table(rows: Sequence[DetectorRow]) -> Table:
    """The table of ``judge ablate detectors``: a row per detector. Fractions."""
    table = start_table("detector")
    headings = {"recall": "pixels found", "iou": "IoU", "visible": "left visible", "beside": "hidden beside"}
    for heading in headings.values():
        table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("interval", justify="right", no_wrap=True)
    for heading in ("AP", "AP50", "detections/people", "images"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        shares = [(getattr(row.overlap, name), row.intervals[name]) for name in headings]
        cells = [cell for share, found in shares for cell in (format_number(share), format_interval(found))]
        precisions = (format_number(row.precision), format_number(row.precision_50))
        table.add_row(escape(row.detector), *cells, *precisions, f"{row.people}/{row.of}", f"{row.pictures:,}")
    return table
