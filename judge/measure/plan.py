"""The plan of a run, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import pandas as pd

from judge.corpus.splits import Protocol, Split, make_splits
from judge.evidence import Aligning, Evidence, ResampleKind, TextOptions
from judge.evidence.counts import Vocabulary
from judge.judges.names import DEFAULT_JUDGE, find_judge
from judge.measure.comparing import Pairing
from judge.metrics import Metric
from judge.quality import ImageScores, Quality
from judge.statistics.breakdown import Breakdown
from judge.statistics.comparisons import Conclusion, Difference, Key, conclude, differences
from judge.statistics.inference import MANY
from judge.statistics.summary import Summary
from judge.statistics.validity import AT_CHANCE, Finding, void_rows
from judge.types import TargetKind

SEEDS: dict[Protocol, int] = {"paper": 10, "crossfit": 1}
# Draws of folds under crossfit, for judges that train in seconds and guess an attribute. With one draw, more verdicts
# change with the seed (docs/trust.md). Values of judges that guess tasks vary by a fifth of their standard error.
DRAWS = 3
# Refits of judges that train in seconds; those that guess tasks learn dozens of answers. With 8 intervals are a tenth
# wider: there are fewer degrees of freedom.
REFITS: dict[TargetKind, int] = {"attribute": 20, "tasks": 8}
QUICK_REFITS = 8
# Refits of an attribute in a run of many images, where each takes seconds. Intervals are 5 to 7% wider than with 20: of
# 8,000 simulated values without amplification p was below 0.05 in 3.7% (with exchanges) and 5.3% (halves alone).
REFITS_OF_MANY = 10
# Folds of refits under crossfit. With ten they take twice as long, and standard errors are the same. A half of the
# images has as many of each class, because a run needs ten (MINIMUM_IMAGES).
REFIT_FOLDS = 5
# A run of few images has more refits of judges of an attribute, which take half a minute: fewer verdicts then change
# with the seed.
REFITS_OF_FEW, FEW = 40, 2000
CHANCE = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and how.

    Attributes:
        metrics: names of rows of METRICS, or of families ("dbac": both directions).
        judges: names of judges; every metric is measured with each.
        protocol: "crossfit" (every image is scored by a judge that never saw it) or "paper" (LIC's hold-out).
        seeds: repetitions, from ``first_seed`` on; None for 10 under ``paper``; under ``crossfit`` for 3 for judges of
            an attribute that train in seconds and have refits (1 for metrics of the best seed), and 1 for others.
        folds: number of folds of ``crossfit``.
        text, aligning: how captions become words, and how human captions are aligned.
        label_least: if labels are derived, how many human captions must name the class.
        models: captioner -> the checkpoint that wrote its captions, if known, for the judge "self".
        vocabulary: which words of captions BA counts.
        quality: whether to measure caption quality too.
        image_scores: captioner -> its scores image by image that other tools computed, for its quality.
        baseline: captioner that the others are compared with; "" to compare all pairs.
        resamples, level: of intervals and tests.
        small: largest amplification that is "like a person", as a share of the class's variance.
        refits: number of refits for the test, and on each half of the images for the interval; None: for judges that
            train in seconds 20 (40 of fewer than 2,000 images, 10 of 20,000 or more; 8 for tasks, or if ``quick``), 0
            for others. Conditional leakage has 20 for few images, too.
        chance: number of judges trained on shuffled labels; None: 2 for judges that train in seconds, 0 for others.
        breakdown: whether to compute contributions of tasks, images and words.
        quick: whether it is a first look, with few refits.
    """

    metrics: tuple[str, ...] = ("conditional", "lic")
    judges: tuple[str, ...] = (DEFAULT_JUDGE,)
    protocol: Protocol = "crossfit"
    seeds: int | None = None
    folds: int = 10
    first_seed: int = 0
    text: TextOptions = field(default_factory=TextOptions)
    label_least: int = 1
    models: Mapping[str, str] = field(default_factory=dict)
    aligning: Aligning = field(default_factory=Aligning)
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    quality: bool = False
    image_scores: Mapping[str, ImageScores] = field(default_factory=dict)
    baseline: str = ""
    resamples: int = 2000
    level: float = 0.95
    small: float = 0.02
    refits: int | None = None
    chance: int | None = None
    breakdown: bool = False
    examples: bool = True
    quick: bool = False

    def resamples_of(self, judge: str, target: TargetKind, images: int) -> dict[ResampleKind, int]:
        """Number of refits of a judge, by kind of resample; ``images``: of the run's captioner that has most."""
        quick = is_quick(judge)
        few = target == "attribute" and images < FEW and not self.quick
        default = REFITS_OF_FEW if few else self.refits_of(target, images)
        refits = self.refits if self.refits is not None else default if quick else 0
        chance = self.chance if self.chance is not None else CHANCE if quick else 0
        found: dict[ResampleKind, int] = {"exchanged": refits, "half": 2 * refits, "shuffled": chance}
        return {kind: count for kind, count in found.items() if count}

    def refits_of(self, target: TargetKind, images: int) -> int:
        """How often judges that train in seconds are trained again; a run of few images has more (REFITS_OF_FEW)."""
        if self.refits is not None:
            return self.refits
        default = REFITS_OF_MANY if target == "attribute" and images >= MANY else REFITS[target]
        return min(default, QUICK_REFITS) if self.quick else default

    def ratio(self, metric: Metric) -> float:
        """Number of test images of a split over the number of training images."""
        test, validation = metric.holdout
        if metric.aggregate == "best" and len(self.seeds_of(metric, metric.judge)) == 1:
            validation = 0.0
        if self.protocol == "crossfit":
            # The same share of the other images is held out to choose an epoch, or a seed.
            return 1 / ((self.folds - 1) * (1 - validation / (1 - test)))
        return test / (1 - test - validation)

    def seeds_of(self, metric: Metric, judge: str) -> range:
        """The seeds of a judge's trainings for a metric."""
        fitting = metric.target == "attribute" and metric.aggregate == "mean" and is_quick(judge)
        averaged = fitting and self.protocol == "crossfit" and self.refits != 0
        number = self.seeds or (DRAWS if averaged else SEEDS[self.protocol])
        return range(self.first_seed, self.first_seed + number)

    def splits(self, evidence: Evidence, metric: Metric, judge: str) -> list[tuple[int, Split]]:
        """(seed, split) for all seeds of a judge; images of one scene are together.

        If the best of several seeds counts, all share the split of the first, and images are held out to choose by.
        Refits under crossfit draw fewer folds, and once: what the draw adds to the error is small.
        """
        test, validation = metric.holdout
        best, seeds, folds = metric.aggregate == "best", self.seeds_of(metric, judge), self.folds
        single = best and len(seeds) == 1
        if evidence.resample and self.protocol == "crossfit":
            seeds, folds = seeds if best else seeds[:1], min(folds, REFIT_FOLDS)
        drawn = {
            seed: make_splits(
                self.protocol,
                evidence.classes,
                seed=self.first_seed if best else seed,
                folds=folds,
                holdout=(test, 0.0 if single else validation),
                balanced=metric.balanced,
                scenes=evidence.sides.scenes,
            )
            for seed in seeds
        }
        return [(seed, split) for seed, splits in drawn.items() for split in splits]

    def has_refits(self, metric: Metric, seed: int, fold: int) -> bool:
        """Whether refits have this draw and fold of a run: see :meth:`splits`."""
        first = metric.aggregate == "best" or seed == self.first_seed
        return self.protocol != "crossfit" or (first and fold < REFIT_FOLDS)


def is_quick(judge: str) -> bool:
    """Whether a judge trains in seconds, because all folds and refits are trained together."""
    return find_judge(judge).joint is not None


BRIEF = [
    *("captioner", "metric", "judge", "human", "generated", "published", "amplification", "low", "high", "p_value"),
    "verdict",
]
"""The columns of :meth:`Result.table`."""
ALL = [
    *("captioner", "metric", "judge", "human", "generated", "published", "chance_level", "amplification", "sd", "low"),
    *("high", "basis", "standard_error", "degrees", "p_value", "verdict", "because", "detectable"),
    *("human_error", "human_chance", "generated_chance"),
    *("known", "human_quality", "generated_quality", "quality_p", "human_prior", "generated_prior", "images"),
    *("seeds", "protocol", "labels", "names_one", "names_none", "names_several", "refused", "empty"),
]
"""The columns of :meth:`Result.table` with ``all``, whatever was measured."""


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run.

    Attributes:
        summaries: one per captioner, metric and judge.
        scores, counts, replicates, examples: the rows of the files of these names (data/README.md), texts as
            categories; empty where there are none.
        run: what the numbers depend on: protocol, labels, coverage, alignment, dropped images, chosen C.
        quality: captioner -> its caption quality, by class; empty unless ``Plan.quality``.
        breakdown: contributions of tasks, images and words to every row; None unless ``Plan.breakdown``.
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
        """The differences of comparable captioners (:mod:`~judge.measure.comparing`), by metric and judge.

        All pairs are compared, or each captioner with the run's baseline.
        """
        return self._differences

    @cached_property
    def _differences(self) -> list[Difference]:
        baseline = self.run.get("baseline", "")
        how = {"level": self.run["level"], "void": self.void, "cancels": self.cancels, "baseline": baseline}
        return differences(self.summaries, self._pairing, **how)

    @property
    def _pairing(self) -> Pairing:
        return Pairing(self.scores, self.counts, self.run)

    @cached_property
    def findings(self) -> Mapping[Key, Finding]:
        """Key of each row that the checks of :mod:`~judge.statistics.validity` void -> what they found."""
        return void_rows(self.summaries, self.run)

    @property
    def void(self) -> Mapping[Key, str]:
        """Key of each row that the checks void -> why it has no verdict."""
        return {key: finding.because for key, finding in self.findings.items()}

    @property
    def cancels(self) -> set[Key]:
        """Keys of void rows whose reason lies in the human captions, which cancel in differences of captioners."""
        rows = (row for row in self.summaries if row.metric.amplification == "difference" and row.key in self.findings)
        return {row.key for row in rows if self.findings[row.key].rule == AT_CHANCE}

    def conclusions(self) -> list[Conclusion]:
        """The conclusion from each summary, in their order."""
        return self._conclusions

    @cached_property
    def _conclusions(self) -> list[Conclusion]:
        return conclude(self.summaries, self.void, small=self.run["small"])

    def __repr__(self) -> str:
        names = dict.fromkeys(row.captioner for row in self.summaries)
        hidden = "" if self.run.get("lexicon", True) else "; no words hidden"
        return f"Result({', '.join(names)}: {', '.join(dict.fromkeys(row.title for row in self.summaries))}{hidden})"

    def table(self, *, all: bool = False) -> pd.DataFrame:  # noqa: A002 - the word that users expect
        """One row per captioner, metric and judge; values are fractions, missing ones NaN.

        The columns are ``BRIEF``, or with ``all`` these, in this order: captioner, metric, judge, human, generated,
        published, chance_level (of counted metrics: amplification is published less that; of others the level is
        that of exchanged captions), amplification, sd, low, high, basis (source of the interval), standard_error,
        degrees (of freedom), p_value, verdict, because (the reason of the verdict), detectable, human_error (standard
        error of the human side), human_chance, generated_chance, known (share of the classes' variance that what is
        known explains), human_quality, generated_quality, quality_p (p of Q alone), human_prior, generated_prior (Q
        and mean w of metrics with priors), images, seeds, protocol, labels ("given" or "derived"), and the coverage of
        the generated captions: names_one, names_none, names_several (shares), refused, empty (counts).
        """
        rows = zip(self.summaries, self.conclusions(), strict=True)
        return pd.DataFrame([self._row(*row) for row in rows], columns=ALL if all else BRIEF)

    def _row(self, summary: Summary, conclusion: Conclusion) -> dict[str, Any]:
        row = {part.name: getattr(summary, part.name) for part in fields(summary)}
        guessing, interval = row.pop("guessing"), summary.interval
        row["quality_p"] = guessing.p_value if guessing else None
        for name, of in (("quality", "qualities"), ("prior", "priors"), ("chance", "chance")):
            row["human_" + name], row["generated_" + name] = row.pop(of) or (None, None)
        entry = self.run["captioners"][summary.captioner]
        covered = (entry["coverage"] or {}).get("generated", {})
        row |= {part.name: getattr(conclusion, part.name) for part in fields(conclusion)}
        row |= {
            "metric": summary.metric.name,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "protocol": self.run["protocol"],
            "labels": "derived" if self.run["labels"]["derived"] else "given",
        }
        row |= {f"names_{share}": covered.get(share) for share in ("one", "none", "several")}
        row |= {count: entry["text"]["generated"][count] for count in ("refused", "empty")}
        texts = {"basis", "verdict", "because", *(f"names_{share}" for share in ("one", "none", "several"))}
        return {n: float("nan") if v is None and n not in texts else v for n, v in row.items()}
