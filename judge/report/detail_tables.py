"""Tables of details: agreement of judges, tasks and words that carry a metric, and what a run was measured on."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from judge.measure import Result
from judge.metrics import find_metric
from judge.report.notes import labels_left_out, left_out_of
from judge.report.table import COUNT, NUMBER, SHARE, SIGNED, TEXT, Table, digits_of, grouped, table_of, write, write_p
from judge.report.tables import write_interval
from judge.statistics.breakdown import judged_rows
from judge.statistics.consistency import Consistency, measure_consistency, percent_reduction
from judge.statistics.summary import DEFAULT, ROW, name_row
from judge.types import Interval

# About how many rows a table of tasks or words has, and at most how many for a row of the main table; long and short.
_ROWS = {True: (96, 12), False: (24, 3)}
Row = tuple[Any, ...]
_INTERVAL_NOTE = (
    "Intervals are for other captioners; of fewer than four there is none. That values and scores are estimates "
    "themselves is not in them: it draws correlations towards 0."
)


def consistency_tables(result: Result, verbose: bool) -> Iterator[Table[Row]]:
    """Whether judges agree with each other, and with human scores."""
    found = measure_consistency(result.summaries, result.run.get("human_scores"))
    yield pair_table(found)
    if verbose:
        yield variation_table(found)
    rows = (
        (name_row(row.metric, row.judge), of.pairs, of.pearson, of.interval, of.spearman, of.spearman_interval)
        for row in found.alignments
        for of in [row.alignment]
    )
    numbers = [("captioners", COUNT), ("human alignment", SIGNED), ("interval", SIGNED), ("Spearman", SIGNED)]
    notes = (
        "Human alignment: Pearson's correlation of amplifications with human scores, over captioners.",
        _INTERVAL_NOTE,
    )
    yield table_of(["metric (judge)"], [*numbers, ("interval", SIGNED)], rows, "Agreement with human scores", notes)


def pair_table(consistency: Consistency) -> Table[Row]:
    """A row per metric and pair of judges: conflict of sign, and correlation of amplifications, over captioners."""
    rows = (
        (pair.metric.title, f"{pair.first}, {pair.second}", pair.captioners, pair.conflict, of.pearson, of.interval)
        for pair in consistency.pairs
        for of in [pair.ranking]
    )
    notes = (
        "Conflict: share of captioners that one judge calls biased (it amplifies) and the other does not.",
        "Ranking: Pearson's correlation of two judges' amplifications over captioners.",
    )
    numbers = [("captioners", COUNT), ("conflict", ".2%"), ("ranking", SIGNED), ("interval", SIGNED)]
    return table_of(["metric", "judges"], numbers, rows, "Agreement of judges", notes)


def variation_table(consistency: Consistency) -> Table[Row]:
    """DBAC's Table 5: a row per captioner; per metric its coefficient of variation over judges.

    Beside each metric after the first: by how much its coefficient is smaller than the first's; absent beside a ratio.
    """
    found = {(row.metric, row.captioner): row.cv for row in consistency.variations}
    metrics = list(dict.fromkeys(metric for metric, _ in found))
    numbers, rows = [], []
    for metric in metrics:
        numbers += [(f"CV ({metric.title})", NUMBER), *([("reduction", SHARE)] if metric != metrics[0] else [])]
    for captioner in dict.fromkeys(name for _, name in found):
        row: list[Any] = [captioner]
        for metric in metrics:
            first, own = (found.get((of, captioner), math.nan) for of in (metrics[0], metric))
            alike = metric.neutral == metrics[0].neutral
            reduction = percent_reduction(first, own) / 100 if alike else math.nan
            row += [own, *([reduction] if metric != metrics[0] else [])]
        rows.append(tuple(row))
    note = "CV: sd over judges of a captioner's amplification, over |mean|; of a mean near 0 it says little."
    return table_of(["captioner"], numbers, rows, "Variation over judges", [note])


def breakdown_tables(result: Result, verbose: bool) -> Iterator[Table[Row]]:
    """Tasks and words that matter most, of each row of the main table (the files hold all of them)."""
    found = result.breakdown
    if found is None:
        return
    about = ["captioner", "metric (judge)"]
    rows: list[Row] = []
    for row in _first(found.tasks, verbose):
        interval = None if pd.isna(row["low"]) else Interval(row["low"], row["high"])
        digits = _digits(row, interval)
        cells = [
            write(row["contribution"], SIGNED, digits),
            write_interval(interval, row["basis"], digits),
            None if pd.isna(row["p_holm"]) else write_p(row["p_holm"]),
            f"{row['human']:,} / {row['generated']:,}",
        ]
        rows.append((row["captioner"], _metric(row), row["task"], *cells))
    notes = ["Contributions of all tasks add up to the amplification. Captions: human / generated."]
    if len(found.tasks) and (found.tasks["basis"] == "these judges").any():
        notes.append("* For these judges alone, as they were trained.")
    numbers = [("contribution", TEXT), ("interval", TEXT), ("p (Holm)", TEXT), ("captions", TEXT)]
    yield table_of([*about, "task"], numbers, rows, "Tasks that contribute most", notes)
    rows = []
    for row in _first(found.words, verbose):
        value = write(row["contribution"], SIGNED, _digits(row, None))
        captions = f"{row['captions_human']:,} / {row['captions_generated']:,}"
        rows.append((row["captioner"], _metric(row), row["term"], value, row["leans_to"], captions))
    numbers = [("contribution", TEXT), ("leans to", TEXT), ("captions", TEXT)]
    title = "Words that contribute most to the log-odds of the true class"
    note = "What the judge of generated captions takes from a word, less what that of human captions takes."
    yield table_of([*about, "word"], numbers, rows, title, [note])


def _first(every: pd.DataFrame, verbose: bool) -> list[dict[Any, Any]]:
    """The first rows of each row of the main table; tables list what matters most first."""
    if not len(every):
        return []
    groups = every.groupby(ROW, sort=False, observed=True)
    rows, most = _ROWS[verbose]
    return groups.head(max(1, min(most, rows // groups.ngroups))).to_dict("records")


def _metric(row: Mapping[str, Any]) -> str:
    return ", ".join(name_row(find_metric(name), row["judge"]) for name in str(row["metric"]).split("|"))


def _digits(row: Mapping[str, Any], interval: Interval | None) -> int:
    """Enough digits to distinguish small contributions from 0."""
    return 5 if abs(row["contribution"]) < 0.002 else digits_of(interval)


def run_tables(result: Result, verbose: bool) -> Iterator[Table[Row]]:
    """If ``verbose``: tables of classes, scores by class, coverage, alignment, choices, and what was left out."""
    if not verbose:
        return
    run, entries = result.run, result.run["captioners"].items()
    yield class_table(run)
    yield class_score_table(result)
    kinds = "one", "none", "several"
    coverage = (
        (name, side, *(shares[kind] for kind in kinds))
        for name, entry in entries
        for side, shares in (entry["coverage"] or {}).items()
    )
    named = f"How many captions name a class of {run['attribute']}."
    notes = [f"{named} A captioner that always says 'person' reveals nothing."]
    yield table_of(["captioner", "captions"], [(f"name {of}", SHARE) for of in kinds], coverage, "Coverage", notes)
    # Shares of tokens; "of lacking": exchanged, of those that the captioner lacks.
    shares = {"tokens kept": "tokens_kept", "exchanged": "tokens_substituted", "of lacking": "lacking_substituted"}
    shares["words kept"] = "words_kept"
    alignments = (
        (name, find_metric(metric).title, report["how"], *(report.get(share) for share in shares.values()))
        for name, entry in entries
        for metric, report in entry["alignment"].items()
    )
    note = "Words of human captions that the captioner lacks become <unk>, or the nearest word that it has."
    headings, numbers = ["captioner", "metric", "alignment"], [(heading, SHARE) for heading in shares]
    yield table_of(headings, numbers, alignments, "Alignment of human captions", [note])
    chosen = (
        (name, setting, side, ", ".join(f"{value} in {judges[value]}" for value in sorted(judges, key=float)))
        for name, entry in entries
        for setting, sides in entry["chosen"].items()
        for side, judges in sides.items()
    )
    note = "How many judges chose each value. C is the inverse of a penalty; with 0, the judges do not read that part."
    yield table_of(["captioner", "setting", "captions", "values"], [], chosen, "What judges chose", [note])
    left_out = [(name, why, count) for name, entry in entries for why, count in left_out_of(entry).items()]
    left_out += [("labels", f"no class: {why}", count) for why, count in labels_left_out(run["labels"]).items()]
    yield table_of(["captioner", "reason"], [("images, captions or tasks", COUNT)], left_out, "Left out")


def class_table(run: Mapping[str, Any]) -> Table[Row]:
    """Number of images of each class; captioners with the same numbers share their rows."""
    counts = grouped((tuple(entry["images"].items()), captioner) for captioner, entry in run["captioners"].items())
    rows = (
        ("all" if len(captioners) == len(run["captioners"]) > 1 else ", ".join(captioners), name, images)
        for of, captioners in counts.items()
        for name, images in of
    )
    return table_of(["captioner", f"{run['attribute']}, as perceived"], [("images", COUNT)], rows, "Images by class")


def class_score_table(result: Result) -> Table[Row]:
    """Scores by class, each caption as in the metric, of metrics without priors whose judges guess the attribute."""
    rows = []
    for row in judged_rows(result.scores, DEFAULT):
        if row.metric.prior or row.metric.target == "tasks" or row.metric.from_annotation:
            continue
        scored = row.captions[row.captions["n"] > 0]
        sums = scored.groupby(["answer", "side"], observed=True)[["n", "q"]].sum()
        means = (sums["q"] / sums["n"]).unstack("side")
        images = scored.groupby("answer")["image_id"].nunique()
        for name, human, generated in means[["human", "generated"]].sort_index().itertuples(name=None):
            values = int(images[name]), float(human), float(generated), float(generated - human)
            rows.append((row.line.captioner, row.line.title, str(name), *values))
    headings = ["captioner", "metric (judge)", "class"]
    numbers = [("images", COUNT), ("human", NUMBER), ("generated", NUMBER), ("difference", SIGNED)]
    note = "Mean score of a class's captions. No interval and no test: a guide to where to look."
    return table_of(headings, numbers, rows, "Scores by class", [note])
