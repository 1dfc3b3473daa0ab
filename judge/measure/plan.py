"""What a run measures, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

import pandas as pd

from judge.corpus.splits import Protocol, Split, make_splits
from judge.evidence import Aligning, TextOptions
from judge.metrics import Metric
from judge.priors import PriorForm
from judge.quality import Quality
from judge.statistics.summary import Summary
from judge.tally import Vocabulary

SEEDS: dict[Protocol, int] = {"paper": 10, "crossfit": 1}


class Resampling(TypedDict):
    """What every function that makes intervals takes."""

    resamples: int
    level: float
    seed: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and how.

    Attributes:
        metrics: names of rows of METRICS, or of families of them ("dbac": both directions).
        judges: names of judges; every metric is measured with each.
        protocol: "crossfit" (every image scored by a judge that never saw it) or "paper" (LIC's hold-out).
        seeds: repetitions; None for 10 under ``paper`` and 1 under ``crossfit``.
        folds: of ``crossfit``.
        first_seed: seeds are first_seed, first_seed + 1, ...
        text: how captions become words.
        models: captioner -> the checkpoint that wrote its captions, where known: the judge "self".
        aligning: how the human side is made comparable.
        prior: how frequencies of sets of tasks are counted (DBAC, DPAC).
        vocabulary: which words of captions BA counts.
        quality: whether captions are scored too, beside their bias.
        resamples, level: of intervals and tests.
    """

    metrics: tuple[str, ...] = ("lic", "leakage")
    judges: tuple[str, ...] = ("linear",)
    protocol: Protocol = "crossfit"
    seeds: int | None = None
    folds: int = 10
    first_seed: int = 0
    text: TextOptions = field(default_factory=TextOptions)
    models: Mapping[str, str] = field(default_factory=dict)
    aligning: Aligning = field(default_factory=Aligning)
    prior: PriorForm = "joint"
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    quality: bool = False
    resamples: int = 2000
    level: float = 0.95

    @property
    def resampling(self) -> Resampling:
        """How intervals and tests are made."""
        return {"resamples": self.resamples, "level": self.level, "seed": self.first_seed}

    @property
    def seed_numbers(self) -> range:
        """The seeds that will run."""
        return range(self.first_seed, self.first_seed + (self.seeds or SEEDS[self.protocol]))

    def splits(self, classes: Mapping[str, str], metric: Metric) -> list[tuple[int, Split]]:
        """(seed, split) for all seeds, over images and their classes.

        Where the best of several trainings counts, all are scored on the images of the first.
        """
        drawn = {
            seed: make_splits(
                self.protocol,
                classes,
                seed=self.first_seed if metric.aggregate == "best" else seed,
                folds=self.folds,
                holdout=metric.holdout,
                balanced=metric.balanced,
            )
            for seed in self.seed_numbers
        }
        return [(seed, split) for seed, splits in drawn.items() for split in splits]


@dataclass(frozen=True)
class Result:
    """What a run found.

    Attributes:
        summaries: one per captioner, metric and judge.
        scores: the rows of ``scores.parquet``: what judges said; none where no metric asks one.
        counts: the rows of ``counts.parquet``: what captions say; none where no metric counts it.
        run: what the numbers depend on: protocol, labels, coverage, alignment, dropped images, chosen C.
        quality: captioner -> how well it describes, by class; empty where that was not asked for.
    """

    summaries: tuple[Summary, ...]
    scores: pd.DataFrame
    counts: pd.DataFrame
    run: Mapping[str, Any]
    quality: Mapping[str, Quality] = field(default_factory=dict)

    def table(self) -> pd.DataFrame:
        """One row per captioner, metric and judge, values as fractions, absent ones NaN.

        Columns: captioner, metric, judge, human, generated, amplification, sd, low, high, by_chance (of counted
        metrics), p_value, images, seeds, human_quality, generated_quality, human_prior, generated_prior (Q and mean w;
        of metrics with priors), protocol, labels ("given" or "derived"), and the coverage of the generated captions:
        names_one, names_none, names_several (shares), refused, empty (counts).
        """
        return pd.DataFrame([self._row(summary) for summary in self.summaries])

    def _row(self, summary: Summary) -> dict[str, Any]:
        row = asdict(summary)
        row.pop("interval")
        interval = summary.interval
        row["by_chance"] = float("nan") if row["by_chance"] is None else row["by_chance"]
        for name, part in (("quality", row.pop("qualities")), ("prior", row.pop("priors"))):
            row["human_" + name], row["generated_" + name] = part or (float("nan"), float("nan"))
        covered = (self.run["captioners"][summary.captioner]["coverage"] or {}).get("generated", {})
        row |= {
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "protocol": self.run["protocol"],
            "labels": "derived" if self.run["labels"]["derived"] else "given",
        }
        row |= {f"names_{share}": covered.get(share) for share in ("one", "none", "several")}
        row |= {count: covered.get(count) for count in ("refused", "empty")}
        numbers = ("human", "generated", "amplification", "sd", "low", "high", "p_value")
        return row | {name: float("nan") if row[name] is None else row[name] for name in numbers}
