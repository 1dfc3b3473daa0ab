"""The table of a run from what its judges answered and its captions say: where it is measured, and where it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from judge.measure.refits import COLUMNS
from judge.statistics.counted import summarise_counts
from judge.statistics.summary import Settings, Summary, summarise


def settings_of(run: Mapping[str, Any]) -> Settings:
    """How the rows of a run were summarised, from the entry "run" of its ``metrics.json``."""
    return Settings(
        level=run["level"], seed=run["seeds"][0], prior=run["prior"] or Settings().prior, **run["statistics"]
    )


def make_table(
    scores: pd.DataFrame, counts: pd.DataFrame, replicates: pd.DataFrame, run: Mapping[str, Any]
) -> list[Summary]:
    """The rows of a run's table, computed again.

    Args:
        scores: the rows of ``scores.parquet``.
        counts: the rows of ``counts.parquet``.
        replicates: the rows of ``replicates.parquet``; those that are no refits are not read.
        run: the entry "run" of ``metrics.json``.

    Raises:
        JudgeError: as :func:`~judge.statistics.summary.summarise`.
    """
    settings = settings_of(run)
    rows = summarise(scores, replicates, settings)
    resamples, level, seed, *_ = settings
    counted = summarise_counts(counts, run["metrics"], resamples=resamples, level=level, seed=seed)
    return in_order([*rows, *counted], list(run["captioners"]), run["metrics"])


def in_order(rows: Iterable[Summary], captioners: Sequence[str], metrics: Sequence[str]) -> list[Summary]:
    """Rows by captioner, then by metric."""
    return sorted(rows, key=lambda row: (captioners.index(row.captioner), metrics.index(row.metric.name)))


def with_parts(refits: pd.DataFrame, summaries: Sequence[Summary]) -> pd.DataFrame:
    """The rows of ``replicates.parquet``: those of refits, and the values of rows on parts of the data.

    Args:
        refits: of judges; further rows of the file are replaced.
        summaries: rows of the table.
    """
    rows = [
        (*row.key, row.replicates.kind, number, value)
        for row in summaries
        if row.replicates and (row.replicates.kind == "split" or row.basis == "images")
        for number, value in enumerate(row.replicates.values)
    ]
    parts = pd.DataFrame(rows, columns=[*COLUMNS[:5], "amplification"]).reindex(columns=COLUMNS)
    replaced = pd.MultiIndex.from_frame(refits[COLUMNS[:4]]).isin(pd.MultiIndex.from_frame(parts[COLUMNS[:4]]))
    return pd.concat([refits[~replaced], parts], ignore_index=True)
