"""Whether judges agree with each other, and with people: tables."""

from __future__ import annotations

import math
from functools import partial

from judge.metrics import Metric
from judge.report.table import COUNT, NUMBER, SIGNED, Column, Table, names
from judge.statistics.consistency import Consistency, HumanAlignment, JudgePair, percent_reduction
from judge.statistics.summary import name_row

INTERVAL_NOTE = (
    "Intervals are for other captioners; of fewer than four there is none. That values and scores are estimates "
    "themselves is not in them: it draws correlations towards 0."
)


def pair_table(consistency: Consistency) -> Table[JudgePair]:
    """A row per metric and pair of judges: conflict of sign, and correlation of amplifications, over captioners."""
    columns: tuple[Column[JudgePair], ...] = (
        names("metric", lambda pair: pair.metric.title),
        names("judges", lambda pair: f"{pair.first}, {pair.second}"),
        Column("captioners", lambda pair: pair.captioners, COUNT),
        Column("conflict", lambda pair: pair.conflict, ".2%"),
        Column("ranking", lambda pair: pair.ranking.pearson, SIGNED),
        Column("interval", lambda pair: pair.ranking.interval, SIGNED),
    )
    notes = (
        "Conflict: share of captioners that one judge calls biased (it amplifies) and the other does not.",
        "Ranking: Pearson's correlation of two judges' amplifications over captioners.",
    )
    return Table(columns, consistency.pairs, "Agreement of judges", notes)


def variation_table(consistency: Consistency) -> Table[str]:
    """DBAC's Table 5: a row per captioner; per metric its coefficient of variation over judges.

    Beside each metric after the first: by how much its coefficient is smaller than the first's, in percent; a dash
    where one of the two is a ratio, whose values lie around 1 and not around 0.
    """
    found = {(row.metric, row.captioner): row.cv for row in consistency.variations}
    metrics = list(dict.fromkeys(metric for metric, _ in found))

    def variation(metric: Metric, captioner: str) -> float:
        return found.get((metric, captioner), math.nan)

    def reduction(metric: Metric, captioner: str) -> float:
        alike = metric.neutral == metrics[0].neutral
        first, other = (variation(of, captioner) for of in (metrics[0], metric))
        return percent_reduction(first, other) / 100 if alike else math.nan

    columns: list[Column[str]] = [names("captioner", str)]
    for metric in metrics:
        columns.append(Column(f"CV ({metric.title})", partial(variation, metric), NUMBER))
        if metric != metrics[0]:
            columns.append(Column("reduction", partial(reduction, metric), ".1%"))
    note = "CV: sd over judges of a captioner's amplification, over |mean|; of a mean near 0 it says little."
    captioners = dict.fromkeys(captioner for _, captioner in found)
    return Table(tuple(columns), tuple(captioners), "Variation over judges", (note,))


def people_table(consistency: Consistency) -> Table[HumanAlignment]:
    """A row per metric and judge: both correlations of amplifications with people's scores of the captioners."""
    columns: tuple[Column[HumanAlignment], ...] = (
        names("metric (judge)", lambda row: name_row(row.metric, row.judge)),
        Column("captioners", lambda row: row.alignment.pairs, COUNT),
        Column("human alignment", lambda row: row.alignment.pearson, SIGNED),
        Column("interval", lambda row: row.alignment.interval, SIGNED),
        Column("Spearman", lambda row: row.alignment.spearman, SIGNED),
        Column("interval", lambda row: row.alignment.spearman_interval, SIGNED),
    )
    note = "Human alignment: Pearson's correlation of amplifications with people's scores, over captioners."
    return Table(columns, consistency.alignments, "Agreement with people", (note, INTERVAL_NOTE))
