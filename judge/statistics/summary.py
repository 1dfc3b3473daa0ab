"""scores.parquet and replicates.parquet -> the table. Any number of a report comes from files, without a judge.

One estimate for every protocol: the quantities of captions (``scores.py``), one for each seed that tests them, are
averaged within each class, and classes count equally (images do for metrics that are not balanced); the captions of an
image share its weight, and it counts as often as seeds test it. With balanced classes and equal numbers of captions
this is the papers' plain mean. Losses and priors are averaged before pooled scores (1/CE) and normalised values.

The interval and p of a row are for the procedure on another sample of images, judges trained anew: from refits, or from
five splits or more (``inference.py``). For untrained judges they are from halves of the images, and from captions that
are exchanged after judges answered. Otherwise the interval is for the judges as trained, and there is no p.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack

from judge.corpus.units import Units, scenes_of
from judge.errors import JudgeError
from judge.metrics import Metric, find_metric
from judge.statistics.inference import (
    Exchanged,
    Inference,
    chance_draws_of,
    from_halves,
    from_splits,
    half_error,
    halves_of,
    split_error,
)
from judge.statistics.intervals import Exchange, bootstrap_pooled
from judge.statistics.judged import Measured, Statistic, caption_table
from judge.types import SIDES, FloatArray, Interval

ROW = ["captioner", "metric", "judge"]
Basis = Literal["refits", "splits", "images", "these judges"]
"""What an interval is from: judges trained again, the splits of the run, images where no judge is trained; or images
alone, for the judges as they were trained."""


@dataclass(frozen=True, slots=True)
class Replicates:
    """Values of the amplification on parts of the data; less another row's, they give the error of a difference.

    Attributes:
        kind: "half" of the images each, judges trained again, two by two of images that have none in common; or
            "split": one split of the run.
        ratio: of splits, tested / trained images.
        scale: what the parts' own standard error is multiplied by.
    """

    kind: Literal["half", "split"]
    values: tuple[float, ...]
    ratio: float = 0.0
    scale: float = 1.0

    @property
    def degrees(self) -> int:
        """Degrees of freedom of the parts' standard error."""
        return len(self.values) // 2 if self.kind == "half" else len(self.values) - 1

    def error(self, values: Sequence[float]) -> float:
        """Standard error from ``values`` on these parts."""
        return self.scale * (half_error(values) if self.kind == "half" else split_error(values, self.ratio))

    def claiming(self, error: float) -> Replicates | None:
        """The parts rescaled to have this standard error, or as they are if all are equal; None if one has no value."""
        if not np.isfinite(self.values).all():
            return None
        own = self.error(self.values)
        return replace(self, scale=self.scale * error / own) if own else self


class Guessing(NamedTuple):
    """Q of a metric with priors (how well judges guess, without the prior), tested as the metric is.

    ``human_error``: standard error of Q of the human side; ``chance``: Q of both sides where labels are shuffled.
    """

    amplification: float
    p_value: float | None = None
    human_error: float | None = None
    chance: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of the table; values are fractions, absent ones None.

    Attributes:
        human, generated: score of each side (of DBAC omega, of DPAC psi); None where the metric has no such side, and
            of DBA and Multi->, which are changes and have none.
        amplification: the metric's value; positive means amplified (for ``ratio``: above 1). For counted metrics the
            published value's excess over the chance level.
        sd: sample standard deviation of the amplification over seeds; None for one seed.
        interval, p_value, standard_error, degrees: of the amplification, by one t
            (:mod:`~judge.statistics.inference`); ``basis``: what they are from.
        seeds: seeds averaged, or chosen from; 0 where no judge was trained.
        qualities, priors: Q (without the prior) and mean weight w of both sides; None without priors.
        chance_level: mean amplification of exchanged captions.
        published: value of a counted metric as its paper defines it.
        these_judges: interval over images alone, for the judges as trained.
        chance: scores of both sides with shuffled labels.
        known: share of the classes' variance that what is known explains; None where nothing is given.
        human_error: standard error of the human side's score.
        human_loss: mean -log p of the true class, of human captions; None for metrics of tasks, or given something.
        guessing: the test of Q alone; None without priors or without an interval.
        replicates: values on parts of the data, for differences between captioners.
    """

    captioner: str
    metric: Metric
    judge: str
    human: float | None = None
    generated: float | None = None
    amplification: float | None = None
    sd: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    images: int = 0
    seeds: int = 0
    qualities: tuple[float, float] | None = None
    priors: tuple[float, float] | None = None
    chance_level: float | None = None
    published: float | None = None
    basis: Basis | None = None
    standard_error: float | None = None
    degrees: int = 0
    these_judges: Interval | None = None
    chance: tuple[float, float] | None = None
    known: float | None = None
    human_error: float | None = None
    human_loss: float | None = None
    guessing: Guessing | None = None
    replicates: Replicates | None = field(default=None, repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """The names of captioner, metric and judge, as files have them."""
        return self.captioner, self.metric.name, self.judge

    @property
    def value(self) -> float | None:
        """The metric as its paper defines it: of counted metrics with what is due to chance."""
        return self.amplification if self.published is None else self.published

    @property
    def distance(self) -> float:
        """How far the amplification is from none; of ratios by their logarithm; infinite without a value."""
        value, neutral = self.amplification, self.metric.neutral
        if value is None or math.isnan(value):
            return math.inf
        return abs(math.log(value)) if neutral and value > 0 else abs(value - neutral)

    @property
    def title(self) -> str:
        """Metric and judge as tables name them: "LIC (lstm)"."""
        return name_row(self.metric, self.judge)


def name_row(metric: Metric, judge: str) -> str:
    """Metric and judge as tables name them: "LIC (lstm)"; counted metrics have no judge."""
    return metric.title if metric.counted else f"{metric.title} ({judge})"


class Settings(NamedTuple):
    """How summaries are made.

    ``resamples`` are of the bootstrap over images, and of the test of judges that are not trained (``untrained``).
    ``ratios``: metric -> tested / trained images of a split. Every row has its own generator of this ``seed``, so that
    rows do not depend on each other.
    """

    resamples: int = 2000
    level: float = 0.95
    seed: int = 0
    ratios: Mapping[str, float] = {}
    untrained: Collection[str] = ()

    def exchanges_of(self, images: int) -> int:
        """Draws of captions that change sides, of so many images."""
        return min(self.resamples, chance_draws_of(images))


DEFAULT = Settings()


def summarise(
    scores: pd.DataFrame, replicates: pd.DataFrame | None = None, settings: Settings = DEFAULT
) -> list[Summary]:
    """One :class:`Summary` per captioner, metric and judge of ``scores``, in order of appearance.

    ``scores`` has the columns of ``scores.parquet``, ``replicates`` those of ``replicates.parquet`` (None: no refits).

    Raises:
        JudgeError: NaN among the scores, or images scored on one side only.
    """
    known = {} if replicates is None or replicates.empty else dict(iter(replicates.groupby(ROW, observed=True)))
    return [
        JudgedRow(find_metric(str(key[1])), rows, settings).summary(known.get(key, pd.DataFrame()))
        for key, rows in (scores.groupby(ROW, sort=False, observed=True) if len(scores) else ())
    ]


class JudgedRow:
    """One captioner, metric and judge.

    Attributes:
        line: the row of the table, without any number.
        captions: :func:`~judge.statistics.judged.caption_table` of its judges.
        table: what each caption adds, in that order.
        images: ids of all images, sorted; ``table.image`` holds each caption's place among them.
        units: of these images, with what judges guess of them.
        strata: of units, where classes count equally.

    Raises:
        JudgeError: NaN among the scores, or images that the judges (of ``best``, the chosen ones) scored on one side
            only.
    """

    def __init__(self, metric: Metric, rows: pd.DataFrame, settings: Settings) -> None:
        self.metric, self.settings = metric, settings
        self.line = Summary(str(rows["captioner"].iloc[0]), metric, str(rows["judge"].iloc[0]))
        self.compared = metric.amplification != "one_side"
        asked = rows["probability"].notna()
        self._seeds = int(rows["seed"][asked].nunique())
        choose = metric.aggregate == "best" and self._seeds > 1
        if rows.loc[asked, ["loss", "validation_loss"] if choose else ["loss"]].isna().any(axis=None):
            self._refuse()
        rows = _best(rows) if choose else rows
        if not self.compared:  # The generated side is read twice.
            alone = rows[rows["side"] == "generated"]
            rows = pd.concat([alone, alone.assign(side="human")])
        self._answers = rows
        self.captions = captions = caption_table(rows, metric.score)
        self.statistic = Statistic(metric, captions)
        table, scored = self.statistic.rows(captions), captions["n"].to_numpy() > 0
        human, generated = (np.unique(table.image[scored & side]) for side in (~table.generated, table.generated))
        if not len(generated) or not np.array_equal(human, generated):
            self._refuse()
        self._asked = len(generated)
        first = np.unique(table.image, return_index=True)[1]
        self.images = captions["image_id"].iloc[first].reset_index(drop=True)
        answers = dict(zip(self.images, captions["answer"].iloc[first], strict=True))
        self.units = Units.make(answers, scenes_of(rows))
        self.strata = pd.factorize(np.array([*self.units.strata.values()]))[0] if metric.balanced else None
        self.table = replace(table, units=self.units.index)

    def _refuse(self) -> NoReturn:
        what = f"NaN, or images scored on one side only, for '{self.line.captioner}'"
        raise JudgeError(what, where="scores", mend="recompute the scores")

    def value(self, captions: pd.DataFrame | None = None) -> Measured:
        """The value of all captions, or of those of another ``caption_table``."""
        return self.statistic(*(self.table if captions is None else self.statistic.rows(captions)).sums())

    def splits(self) -> list[pd.DataFrame]:
        """The ``caption_table`` of each split, a fold of the first seed or a hold-out: the captions its judges scored.

        Folds of other seeds hold the same images: with them, the error would seem smaller than it is.
        """
        answers = self._answers[self._answers["probability"].notna()]
        if answers["fold"].max() > 0:  # Hold-outs are folds 0.
            answers = answers[answers["seed"] == answers["seed"].min()]
        return [caption_table(part, self.metric.score) for _, part in answers.groupby(["seed", "fold"])]

    def summary(self, refits: pd.DataFrame) -> Summary:
        """The line of the table."""
        found, prior = self.value(), self.metric.prior
        line = replace(
            self.line,
            human=_known(found.human.value) if self.compared else None,
            generated=_known(found.generated.value),
            amplification=_known(found.value),
            sd=self._seed_sd(),
            images=self._asked,
            seeds=self._seeds,
            qualities=(float(found.human.quality), float(found.generated.quality)) if prior else None,
            priors=(float(found.human.prior), float(found.generated.prior)) if prior else None,
            chance=_chance(refits),
            known=self._known() if self.metric.given else None,
            human_loss=None if self.metric.given or self.metric.target == "tasks" else self._human_loss(),
        )
        # Judges that are right and certain everywhere have an infinite Q: there is no value to be uncertain of.
        return self._infer(line, refits) if np.isfinite(found.value) else line

    def _known(self) -> float:
        """Share of the classes' variance that what is known explains; classes count equally."""
        return float(1 - self._answers.groupby("answer", observed=True)["baseline"].mean().mean())

    def _human_loss(self) -> float | None:
        """Mean loss of judges on human captions, classes counting as in the metric."""
        human = self._answers[self._answers["side"] == "human"]
        of_class = human.groupby("answer", observed=True)["loss"].mean()
        return finite(of_class.mean() if self.metric.balanced else human["loss"].mean())

    def _seed_sd(self) -> float | None:
        """Standard deviation over seeds, whose priors are of all captions; None for one seed."""
        asked = self._answers["probability"].notna().to_numpy()
        of_seed = [asked & (self._answers["seed"] == seed).to_numpy() for seed in self._answers["seed"][asked].unique()]
        tables = [caption_table(self._answers, self.metric.score, of) for of in of_seed if of.any()]
        return float(np.std([float(self.value(of).value) for of in tables], ddof=1)) if len(tables) > 1 else None

    def _infer(self, line: Summary, refits: pd.DataFrame) -> Summary:
        generator = np.random.default_rng([self.settings.seed, *map(ord, "/".join(line.key))])
        alone, human = self._bootstrap(generator)
        line = replace(line, these_judges=alone, human_error=finite(human))
        basis: Basis = "these judges"
        if line.judge in self.settings.untrained:  # There is no noise of training.
            found, basis = self._from_answers(line, generator), "images"
            found = found and replace(found, human_error=line.human_error)
        else:
            found = self._from_refits(line, refits) or self._from_splits(line)
        return found or replace(line, interval=alone, basis=basis if alone else None)

    def _from_refits(self, line: Summary, refits: pd.DataFrame) -> Summary | None:
        if refits.empty:
            return None
        # What exchanged captions are to two sides, shuffled labels are to one.
        kinds = "half", "exchanged" if self.compared else "shuffled"
        half, exchanged = (refits[refits["kind"] == kind].sort_values("number") for kind in kinds)
        drawn, how = self._with_quality(exchanged), {**self._how, "given": bool(self.metric.given)}

        def infer(value: float, parts: Sequence[float], name: _Tested) -> Inference | None:
            return from_halves(value, parts, Exchanged.of(drawn[name]), **how)

        return self._tested(replace(line, basis="refits"), half, infer, chance=_chance(refits, "_quality"))

    @property
    def _how(self) -> dict[str, Any]:
        return {"neutral": self.metric.neutral, "level": self.settings.level}

    def _from_splits(self, line: Summary) -> Summary | None:
        """With interval and p from splits; their priors are of their own captions, and vary as part of the error."""
        ratio = self.settings.ratios.get(self.metric.name)
        if ratio is None:
            return None
        parts, how = _frame([self.value(part) for part in self.splits()]), {**self._how, "ratio": ratio}
        line = replace(line, basis="splits")
        return self._tested(line, parts, lambda value, own, _: from_splits(value, own, **how), ratio=ratio)

    def _from_answers(self, line: Summary, generator: np.random.Generator) -> Summary | None:
        """Inference for an untrained judge: halves of the images, and captions that change sides after it answered."""
        drawn = self.units.halves(halves_of(len(self.units.images)), self.settings.seed)
        halves = [self.value(self.captions[half[self.table.image]]) for half in drawn]

        def infer(value: float, parts: Sequence[float], name: _Tested) -> Inference | None:
            def statistic(human: FloatArray, generated: FloatArray) -> FloatArray:
                of = self.statistic(human, generated)
                if name == "amplification":
                    return of.value
                return self.statistic.amplify(of.human.quality, of.generated.quality)

            exchange = Exchange(self.table, statistic, generator=generator) if self.compared else None
            chance = exchange.chance(self.settings.exchanges_of(len(self.images))) if exchange else None
            return from_halves(value, parts, chance, **self._how)

        return self._tested(replace(line, basis="images"), _frame(halves), infer)

    def _tested(
        self,
        line: Summary,
        parts: pd.DataFrame,
        infer: Callable[[float, Sequence[float], _Tested], Inference | None],
        *,
        ratio: float = 0.0,
        chance: tuple[float, float] | None = None,
    ) -> Summary | None:
        """The line with interval and p and, for metrics with priors, the same test of Q alone.

        ``parts``: values on parts of the data, as of :func:`_frame`; ``infer``: inference of a value, its values there,
        and the name of what is tested.
        """
        assert line.amplification is not None
        parts = self._with_quality(parts)
        values = parts["amplification"].tolist()
        found = infer(line.amplification, values, "amplification")
        if found is None:
            return None
        replicates = Replicates("split" if line.basis == "splits" else "half", tuple(values), ratio)
        line = replace(
            line,
            **found._asdict(),
            human_error=finite(replicates.error(parts["human"].tolist())),
            replicates=replicates if line.basis == "splits" else replicates.claiming(found.standard_error),
        )
        if not line.qualities:
            return line
        own = float(self.statistic.amplify(*map(np.asarray, line.qualities)))
        tested = infer(own, parts["quality"].tolist(), "quality")
        if tested is None:
            return line
        error = replicates.error(parts["human_quality"].tolist())
        return replace(line, guessing=Guessing(own, tested.p_value, error, chance))

    def _with_quality(self, parts: pd.DataFrame) -> pd.DataFrame:
        human, generated = (parts[f"{side}_quality"].to_numpy(dtype=np.float64) for side in SIDES)
        return parts.assign(quality=self.statistic.amplify(human, generated))

    def _bootstrap(self, generator: np.random.Generator) -> tuple[Interval | None, float | None]:
        """Over images, for the judges as trained, priors estimated anew: interval, and error of the human side."""
        width, level = self.statistic.width, self.settings.level

        def values(sums: FloatArray) -> FloatArray:
            found = self.statistic(sums[:width], sums[width:])
            return np.stack([found.value, found.human.value])

        interval, human = bootstrap_pooled(
            csr_array(hstack(self.table.by_image())),
            values,
            generator=generator,
            resamples=self.settings.resamples,
            level=level,
            strata=self.strata,
            units=self.units.index,
        )
        width_of_one = 2 * NormalDist().inv_cdf((1 + level) / 2)
        return interval, (human.high - human.low) / width_of_one if human else None


_Tested = Literal["amplification", "quality"]


def _frame(found: Sequence[Measured]) -> pd.DataFrame:
    rows = [(of.value, of.human.value, of.human.quality, of.generated.quality) for of in found]
    columns = ["amplification", "human", "human_quality", "generated_quality"]
    return pd.DataFrame(rows, columns=columns, dtype=np.float64)


def _best(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of each side's seed with the best judges on validation images (DPAC, section 3.2.1), and unasked rows."""
    asked = rows[rows["probability"].notna()]
    judges = asked.drop_duplicates(["side", "seed", "fold", "index"])  # Judges count equally, as of refits.
    losses = judges.groupby(["side", "seed"], observed=True)["validation_loss"].mean()
    chosen = {side: losses[side].idxmin() for side in losses.index.unique("side")}
    kept = (rows["seed"] == rows["side"].map(chosen)) | rows["probability"].isna()
    return rows[kept].assign(seed=0)


def _chance(refits: pd.DataFrame, of: Literal["", "_quality"] = "") -> tuple[float, float] | None:
    """Mean scores (or Q) of both sides where labels are shuffled."""
    shuffled = refits[refits["kind"] == "shuffled"] if len(refits) else refits
    if shuffled.empty:
        return None
    return float(shuffled["human" + of].mean()), float(shuffled["generated" + of].mean())


def _known(value: FloatArray) -> float | None:
    return None if np.isnan(value) else float(value)


def finite(value: FloatArray | float | None) -> float | None:
    """A number; None for one that is not finite."""
    return None if value is None or not np.isfinite(value) else float(value)
