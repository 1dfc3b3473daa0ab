"""Whether judges agree, as people read it: a table of pairs of judges, and one of captioners."""

from __future__ import annotations

import math

from rich.markup import escape
from rich.table import Table

from judge.metrics import find_metric
from judge.report.layout import format_interval, format_number, start_table
from judge.statistics.consistency import Consistency, percent_reduction


def pair_table(consistency: Consistency) -> Table:
    """A row per metric and pair of judges: conflict of sign, and correlation of amplifications, over captioners."""
    table = start_table("metric", "judges")
    for heading in ("captioners", "conflict", "ranking", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for pair in consistency.pairs:
        table.add_row(
            find_metric(pair.metric).title,
            escape(f"{pair.first}, {pair.second}"),
            str(pair.captioners),
            _percent(100 * pair.conflict, digits=2),
            format_number(pair.ranking.pearson, signed=True),
            format_interval(pair.ranking.interval, signed=True),
        )
    return table


def variation_table(consistency: Consistency) -> Table:
    """DBAC's Table 5: a row per captioner; per metric its coefficient of variation over judges.

    Beside each metric after the first: by how much its coefficient is smaller than the first's, in percent; a dash
    where one of the two is a ratio, whose values lie around 1 and not around 0.
    """
    found = {(row.metric, row.captioner): row.cv for row in consistency.variations}
    first, *others = dict.fromkeys(metric for metric, _ in found) or [""]
    table = start_table("captioner")
    for metric in [first, *others] if first else []:
        table.add_column(f"CV ({find_metric(metric).title})", justify="right", no_wrap=True)
        if metric != first:
            table.add_column("reduction", justify="right", no_wrap=True)
    for captioner in dict.fromkeys(name for _, name in found):
        cells = [format_number(found.get((first, captioner)))]
        for metric in others:
            cv = found.get((metric, captioner), math.nan)
            alike = find_metric(metric).neutral == find_metric(first).neutral
            reduction = percent_reduction(found.get((first, captioner), math.nan), cv) if alike else math.nan
            cells += [format_number(cv), _percent(reduction, digits=1)]
        table.add_row(escape(captioner), *cells)
    return table


def alignment_with_people(consistency: Consistency) -> Table:
    """A row per metric and judge: correlation of amplifications with people's scores of the captioners."""
    table = start_table("metric (judge)")
    for heading in ("captioners", "human alignment", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in consistency.alignments:
        table.add_row(
            escape(f"{find_metric(row.metric).title} ({row.judge})"),
            str(row.alignment.pairs),
            format_number(row.alignment.pearson, signed=True),
            format_interval(row.alignment.interval, signed=True),
        )
    return table


def consistency_notes(consistency: Consistency) -> list[str]:
    """What a reader must know beside the tables, a line each; none for a run with one judge a metric."""
    conflict = "Conflict: share of captioners that one judge calls biased and the other does not (biased: amplifies)."
    ranking = "Ranking: Pearson's correlation of two judges' amplifications over captioners."
    variation = (
        "CV: sd over judges of a captioner's amplification, over the size of its mean; of a mean near 0 it says little."
    )
    people = "Human alignment: Pearson's correlation of amplifications with people's scores, over captioners."
    return [
        *([conflict, ranking] if consistency.pairs else []),
        *([variation] if consistency.variations else []),
        *([people] if consistency.alignments else []),
    ]


def _percent(value: float, *, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}%"
