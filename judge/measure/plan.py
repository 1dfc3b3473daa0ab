"""What a run measures, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, TypedDict

import pandas as pd

from judge.corpus.splits import Protocol, Split, make_splits
from judge.evidence import Aligning, ResampleKind, TextOptions
from judge.evidence.counts import Vocabulary
from judge.judges import SELF, find_judge
from judge.measure.comparing import Pairing
from judge.metrics import Metric
from judge.metrics.scores import PriorForm
from judge.quality import Quality
from judge.statistics.breakdown import Breakdown
from judge.statistics.comparisons import Conclusion, Difference, Key, conclude, differences
from judge.statistics.summary import Replicates, Summary
from judge.statistics.validity import void_rows
from judge.types import Interval, TargetKind

SEEDS: dict[Protocol, int] = {"paper": 10, "crossfit": 1}
# Of judges that train in seconds. Those that guess tasks have dozens of answers to learn.
REFITS: dict[TargetKind, int] = {"attribute": 20, "tasks": 8}
CHANCE = 2


class Resampling(TypedDict):
    """Arguments of every function that makes intervals."""

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
        label_least: where labels are derived, how many human captions must name the class.
        models: captioner -> the checkpoint that wrote its captions, where known: the judge "self".
        aligning: how the human side is made comparable.
        prior: how frequencies of sets of tasks are counted (DBAC, DPAC).
        vocabulary: which words of captions BA counts.
        quality: whether captions are scored too, beside their bias.
        resamples, level: of intervals and tests.
        refits: how often judges are trained again for the test, and as often for the interval, on each half of the
            images; None: those that train in seconds, 20 times or, of tasks, 8 times; others not at all.
        chance: how often judges are trained on shuffled labels; None: twice those that train in seconds.
        breakdown: whether the tasks, images and words that carry each metric are wanted too.
        examples: whether examples of captions are chosen, for those who look at them.
    """

    metrics: tuple[str, ...] = ("lic", "leakage")
    judges: tuple[str, ...] = ("linear",)
    protocol: Protocol = "crossfit"
    seeds: int | None = None
    folds: int = 10
    first_seed: int = 0
    text: TextOptions = field(default_factory=TextOptions)
    label_least: int = 1
    models: Mapping[str, str] = field(default_factory=dict)
    aligning: Aligning = field(default_factory=Aligning)
    prior: PriorForm = "joint"
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    quality: bool = False
    resamples: int = 2000
    level: float = 0.95
    refits: int | None = None
    chance: int | None = None
    breakdown: bool = False
    examples: bool = True

    def resamples_of(self, judge: str, target: TargetKind) -> dict[ResampleKind, int]:
        """How often a judge of this target is trained again, by kind of resample."""
        quick = judge != SELF and find_judge(judge).joint is not None
        refits = self.refits if self.refits is not None else REFITS[target] if quick else 0
        chance = self.chance if self.chance is not None else CHANCE if quick else 0
        found: dict[ResampleKind, int] = {"exchanged": refits, "half": 2 * refits, "shuffled": chance}
        return {kind: count for kind, count in found.items() if count}

    def ratio(self, metric: Metric) -> float:
        """Tested images of a split over those that judges learn from."""
        test, validation = metric.holdout
        if metric.aggregate == "best" and len(self.seed_numbers) == 1:
            validation = 0.0
        if self.protocol == "crossfit":
            # The same share of what is not tested is kept to choose an epoch, or a training.
            return 1 / ((self.folds - 1) * (1 - validation / (1 - test)))
        return test / (1 - test - validation)

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

        Where the best of several trainings counts, all are scored on the images of the first, and images are kept to
        choose among them by.
        """
        test, validation = metric.holdout
        best = metric.aggregate == "best"
        drawn = {
            seed: make_splits(
                self.protocol,
                classes,
                seed=self.first_seed if best else seed,
                folds=self.folds,
                holdout=(test, 0.0 if best and len(self.seed_numbers) == 1 else validation),
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
        scores: the rows of ``scores.parquet``: answers of judges; none where no metric asks one.
        counts: the rows of ``counts.parquet``: what captions mention; none where no metric counts it.
        replicates: the rows of ``replicates.parquet``: values on parts of the data, and on data drawn anew.
        run: what the numbers depend on: protocol, labels, coverage, alignment, dropped images, chosen C.
        quality: captioner -> how well it describes, by class; empty where that was not asked for.
        breakdown: what tasks, images and words add to every row; None where that was not asked for.
        examples: the rows of ``examples.parquet``: captions of images that carry most of every row, and of random ones.
    """

    summaries: tuple[Summary, ...]
    scores: pd.DataFrame
    counts: pd.DataFrame
    replicates: pd.DataFrame
    run: Mapping[str, Any]
    quality: Mapping[str, Quality] = field(default_factory=dict)
    breakdown: Breakdown | None = None
    examples: pd.DataFrame = field(default_factory=pd.DataFrame)

    def differences(self) -> list[Difference]:
        """All pairs of captioners that compare (:mod:`~judge.measure.comparing`), by metric and judge."""
        return self._differences

    @cached_property
    def _differences(self) -> list[Difference]:
        pairing = Pairing(self.scores, self.counts, self.run)
        return differences(self.summaries, pairing, level=self.run["level"], reasons=self.void)

    @cached_property
    def void(self) -> Mapping[Key, str]:
        """Key of a row -> why it has no verdict, of the rows that the run's own checks void."""
        return void_rows(self.summaries, self.run)

    def conclusions(self) -> list[Conclusion]:
        """What each of the summaries allows to say, in their order."""
        return conclude(self.summaries, self.void)

    def table(self) -> pd.DataFrame:
        """One row per captioner, metric and judge, values as fractions, absent ones NaN.

        Columns: captioner, metric, judge, human, generated, amplification, sd, low, high, basis (what the interval is
        from), standard_error, p_value, p_holm, verdict, detectable, chance_level, published (of counted metrics),
        human_chance, generated_chance, images, seeds, human_quality, generated_quality, human_prior, generated_prior (Q
        and mean w; of metrics with priors), quality_p (of Q by itself), reason (why there is no verdict), protocol,
        labels ("given" or "derived"), and the coverage of the generated captions: names_one, names_none, names_several
        (shares), refused, empty (counts).
        """
        rows = zip(self.summaries, self.conclusions(), strict=True)
        return pd.DataFrame([self._row(*row) for row in rows])

    def _row(self, summary: Summary, conclusion: Conclusion) -> dict[str, Any]:
        known = {part.name: getattr(summary, part.name) for part in fields(summary)}
        row = {name: value for name, value in known.items() if not isinstance(value, Interval | Replicates)}
        guessing = row.pop("guessing")
        row["quality_p"] = guessing.p_value if guessing else None
        pairs = {"quality": "qualities", "prior": "priors", "chance": "chance"}
        for name, found in [(name, row.pop(held)) for name, held in pairs.items()]:
            row["human_" + name], row["generated_" + name] = found or (None, None)
        entry = self.run["captioners"][summary.captioner]
        covered = (entry["coverage"] or {}).get("generated", {})
        interval = summary.interval
        row |= asdict(conclusion) | {
            "metric": summary.metric.name,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "protocol": self.run["protocol"],
            "labels": "derived" if self.run["labels"]["derived"] else "given",
        }
        row |= {f"names_{share}": covered.get(share) for share in ("one", "none", "several")}
        row |= {count: entry["text"]["generated"][count] for count in ("refused", "empty")}
        texts = {"basis", "verdict", "reason", *(f"names_{share}" for share in ("one", "none", "several"))}
        return {n: float("nan") if v is None and n not in texts else v for n, v in row.items()}
