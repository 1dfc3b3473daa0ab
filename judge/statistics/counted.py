"""Counted metrics from ``counts.parquet``: values, intervals and tests, without judges.

Images count equally on each side, whatever the number of their captions; with equal numbers this is the papers' plain
count. A metric that chooses pairs by one side (BA, DBA) or adds up sizes (Multi) is not 0 without amplification: pairs
chosen by one side regress to the mean. So the captions of each image are exchanged between the sides, as many as
each has, and pairs are chosen anew each time. The mean of these values is the chance level, the headline is the excess
over it. Interval and p are from exchanged values and halves of the images, as for judged metrics (``inference.py``);
each half has its own pairs and chance level. Labels that few images show vanish from halves (0.76 to 0.88 of the sd
over trials of 900 images for BA, DBA_G, Multi and DPA T->A), but not from exchanged values. Which labels are counted is
chosen before, by both sides' captions (BA) or the annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, vstack

from judge.corpus.units import Units, scenes_of
from judge.metrics import Metric, find_metric, spell_out
from judge.metrics.counted.contingency import ContingencyTable, added
from judge.metrics.counted.spec import CaptionTable, CountedMetric
from judge.statistics.inference import from_halves, halves_of
from judge.statistics.intervals import Exchange, Rows
from judge.statistics.judged import held_names, hot, names_of
from judge.statistics.summary import DEFAULT, Replicates, Settings, Summary, finite
from judge.types import BoolArray, FloatArray, IntArray

# Exchanges of captions in each half of the images.
EXCHANGES = 40
R = TypeVar("R")


def summarise_counts(counts: pd.DataFrame, metrics: Iterable[str], settings: Settings = DEFAULT) -> list[Summary]:
    """One :class:`Summary` per captioner of ``counts`` and counted row of ``metrics``, captioner by captioner.

    ``counts`` has the columns of ``counts.parquet`` (``judge.evidence.counts``). Judged metrics are ignored.
    """
    return each_row(counts, metrics, lambda row: row.summary(settings))


def each_row(counts: pd.DataFrame, metrics: Iterable[str], then: Callable[[CountedRow], R]) -> list[R]:
    """``then`` of each captioner of ``counts`` and counted row of ``metrics``, captioner by captioner."""
    from joblib import Parallel, cpu_count, delayed

    asked = [metric for metric in map(find_metric, spell_out(metrics)) if metric.counted]
    if not asked:
        return []

    def work(rows: pd.DataFrame, metric: Metric) -> R:
        return then(CountedRow(metric, rows, counts))

    captioners = counts.groupby("captioner", sort=False, observed=True)
    jobs = [delayed(work)(rows, metric) for _, rows in captioners for metric in asked]
    # Threads: sparse products, which take most of the time, leave others free to go on.
    return list(Parallel(n_jobs=min(len(jobs), cpu_count()), prefer="threads")(jobs))


class CountedRow:
    """One captioner (``rows``) and counted metric; ``counts`` of all captioners choose classes.

    ``held``: what captions add; None where nothing is to count. ``line``: the row of the table as its paper has it.
    """

    def __init__(self, metric: Metric, rows: pd.DataFrame, counts: pd.DataFrame) -> None:
        assert metric.counted is not None
        self.metric, self.counted = metric, choose_classes(metric.counted, counts)
        self.line = Summary(str(rows["captioner"].iloc[0]), metric, metric.judge)
        self.held = counted_rows(rows, self.counted)
        once = rows.drop_duplicates("image_id")
        classes = dict(zip(once["image_id"].tolist(), once["class"].tolist(), strict=True))
        self.units = Units.make({i: classes[i] for i in (self.held.images if self.held else ())}, scenes_of(rows))
        if self.held:
            self.held = replace(self.held, rows=replace(self.held.rows, units=self.units.index))
            tables = self.held.tables()
            found = self.counted.freeze(*tables).compare(*tables)
            human, generated, published = map(finite, (found.truth, found.predicted, found.value))
            images = len(np.unique(self.held.rows.image))
            self.line = replace(self.line, human=human, generated=generated, published=published, images=images)

    def summary(self, settings: Settings) -> Summary:
        """The row of the table."""
        line, held = self.line, self.held
        if held is None or line.published is None or not self.metric.exchangeable:
            return line

        def anew(before: FloatArray, after: FloatArray) -> FloatArray:
            tables = held.read(before), held.read(after)
            return self.counted.freeze(*tables).compare(*tables).value

        exchange = Exchange(held.rows, anew, generator=self.generator(settings.seed))
        exchanged = exchange.chance(settings.exchanges_of(line.images))
        if exchanged is None:
            return line
        value = line.published - exchanged.mean
        line = replace(line, amplification=value)
        excess = exchange.excess(self.halves(settings.seed), exchanges=EXCHANGES).tolist()
        found = from_halves(value, excess, exchanged._replace(mean=0.0), level=settings.level)
        if found:
            parts = Replicates("half", tuple(excess)).claiming(found.standard_error)
            line = replace(line, **found._asdict(), basis="images", replicates=parts)
        return replace(line, chance_level=exchanged.mean)

    def halves(self, seed: int) -> BoolArray:
        """Which images halves of them hold, [H, N]."""
        return self.units.halves(halves_of(len(self.units.images)), seed)

    def generator(self, seed: int) -> np.random.Generator:
        """The same draws for every captioner: differences between them have no noise of draws."""
        return np.random.default_rng([seed, *map(ord, self.metric.name)])


@dataclass(frozen=True, slots=True, eq=False)
class CountedRows:
    """What captions add to the tables of the truth (human side) and of the predictions (generated side), both [A, L].

    ``images`` are those of ``rows``, by their index there; ``names`` are the labels of ``truth``.
    """

    rows: Rows
    shape: tuple[int, int]
    images: tuple[str, ...]
    truth: CaptionTable
    names: tuple[str, ...]

    def read(self, sums: FloatArray) -> ContingencyTable:
        """Sums of ``rows``, [S, ...], as tables with the leading axes [...]."""
        return ContingencyTable.of_sums(sums, self.shape)

    def tables(self) -> tuple[ContingencyTable, ContingencyTable]:
        """The tables of both sides."""
        human, generated = self.rows.sums()
        return self.read(human), self.read(generated)

    @property
    def label_columns(self) -> slice:
        """Where a row's labels stand among its sums."""
        start = self.shape[0] * self.shape[1] + self.shape[0]
        return slice(start, start + self.shape[1])


def compared_classes(counts: pd.DataFrame, metrics: Iterable[Metric]) -> dict[str, list[str]]:
    """The classes that metrics name or choose (Ratio), by the metrics' names."""
    counted = {metric.name: choose_classes(metric.counted, counts) for metric in metrics if metric.counted}
    return {name: list(of.classes) for name, of in counted.items() if of.classes}


def choose_classes(counted: CountedMetric, counts: pd.DataFrame) -> CountedMetric:
    """The metric with the classes that human captions name most and least (at all), where it compares two classes."""
    named = counts.loc[counts["side"] == "human", "named"]
    by_class = named.value_counts().reindex(sorted(counts["class"].unique()), fill_value=0)
    known = by_class[by_class > 0] if (by_class > 0).sum() > 1 else by_class
    return counted.choose_classes(str(by_class.idxmax()), str(known.iloc[::-1].idxmin()))


def counted_rows(rows: pd.DataFrame, counted: CountedMetric) -> CountedRows | None:
    """What the captions of one captioner add for a counted metric; None if there is nothing to count."""
    known = sorted(rows["class"].unique())
    classes = (*known, *sorted({*counted.classes, *names_of(rows["named"])} - {*known, ""}))
    by_side = dict(iter(rows.groupby("side", observed=True)))
    truth, predicted = by_side["human" if counted.against == "people" else "annotated"], by_side["generated"]
    # Of human and generated captions, what either says; else what is annotated.
    sources = (truth, predicted) if counted.against == "people" else (truth,)
    names = names_of(pd.concat([part[counted.labels] for part in sources])) if counted.labels else []
    if counted.labels and not names:
        return None
    if counted.against == "annotation":
        truth, predicted = _complete(truth, predicted, counted)
    elif counted.direction == "A->T":  # By annotated class, whatever class captions name.
        truth, predicted = (side.assign(named=side["class"]) for side in (truth, predicted))
    if not len(truth):
        return None
    columns = ["class", "named", *([counted.labels] if counted.labels else [])]

    def read(part: pd.DataFrame) -> tuple[CaptionTable, IntArray]:
        kind = part.groupby(columns, sort=False, observed=True).ngroup().to_numpy()
        part = part.iloc[np.unique(kind, return_index=True)[1]]
        labels = held_names(part[counted.labels], names) if counted.labels else csr_array((len(part), 1))
        table = CaptionTable(classes, hot(part["class"], classes), hot(part["named"], classes), labels, len(known))
        return table, np.asarray(kind, dtype=np.int64)

    (before, kinds), (after, others) = read(truth), read(predicted)
    terms = counted.terms(before, after)
    images = pd.Index(truth["image_id"].unique())
    image = images.get_indexer(pd.Index(pd.concat([truth["image_id"], predicted["image_id"]])))
    kind = np.concatenate([kinds, before.labels.shape[0] + others])
    held, generated = image >= 0, np.repeat([False, True], [len(truth), len(predicted)])
    image, kind, generated = image[held], kind[held], generated[held]
    copied = generated & np.isin(images[image], rows["image_id"][rows["copied"].eq(True)]) if "copied" in rows else None
    table = vstack([added(*side) for side in terms], format="csr")
    shape = terms[0][0].shape[1], terms[0][1].shape[1]
    return CountedRows(Rows(table, image, generated, kind, copied=copied), shape, tuple(images), before, tuple(names))


def _complete(
    truth: pd.DataFrame, predicted: pd.DataFrame, counted: CountedMetric
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Complete each row with the truth of its image where it predicts nothing.

    Where classes are predicted, captions that name none, or several, are left out, and images without others (as in
    Princeton's codes): P(a^|l) would else be the smaller the more a captioner keeps silent.
    """
    predicted = predicted[predicted["image_id"].isin(truth["image_id"])]
    given = "named" if counted.direction == "A->T" else counted.labels
    if counted.direction != "A->T":
        predicted = predicted[(predicted["named"] != "") & ~predicted["named"].str.contains("|", regex=False)]
        truth = truth[truth["image_id"].isin(predicted["image_id"])]
    if given:
        shown = truth.set_index("image_id")[given].reindex(predicted["image_id"])
        predicted = predicted.assign(**{given: shown.to_numpy()})
    return truth, predicted
