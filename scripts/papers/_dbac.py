"""What Tables 5, 6 and 10 to 15 of DBAC share: DBAC T->A and LIC of captioners, by many encoders.

The supplement calls the figures of Tables 10 to 15 DBAC A->T. They are T->A: their LSTM columns are the T->A column of
the paper's Table 9 (gender) and of its Table 4 (race), and section 5.3.1 says that T->A was measured. In Table 9 the
signs of two captioners (Att2in and BLIP) are others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from _commands import Step
from _job import DBAC_CAPTIONERS, NO_SKIN, Job
from _ours import Column, Ours, Value
from _published import Row, read_published
from _table import PaperTable, Results, evaluate_step

from judge.statistics import coefficient_of_variation, percent_reduction
from judge.statistics.consistency import measure_consistency

SCRATCH = ("lstm", "lstm-bidirectional", "rnn", "rnn-bidirectional", "transformer-1", "transformer-5")
PRETRAINED = {
    "distilbert": "sentence:distilbert-base-uncased",
    "distilroberta": "sentence:all-distilroberta-v1",
    "minilm": "sentence:all-MiniLM-L6-v2",
    "mpnet": "sentence:all-mpnet-base-v2",
}
METRICS = ("dbac", "lic")
_HEADINGS = {"dbac": "DBAC", "lic": "LIC"}
ONE_ENCODER = "linear stands in for every encoder there, and its figures are in Tables 10 and 11"


def metric_of(metric: str, attribute: str) -> str:
    """Of skin tones, which captions do not name, T->A cannot be counted: DBAC is A->T."""
    if metric == "lic":
        return metric
    return "dbac-ta" if attribute == "gender" else "dbac-at"


def encoder_step(job: Job, metric: str, judges: Sequence[str], attribute: str, *, name: str) -> Step:
    """One metric of all captioners by some encoders, aligned in context."""
    inputs = job.inputs(DBAC_CAPTIONERS, attribute, three=attribute == "skin")
    if metric != "lic":  # Tasks are those annotated in the image (section 4.1).
        inputs["objects"] = job.objects()
    judging = job.judging([judge_of(metric, judge) for judge in judges])
    return evaluate_step(job, inputs, name=name, metrics=(metric_of(metric, attribute),), **job.aligning(), **judging)


def _columns(metric: str, attribute: str, key: str, heading: str, judge: str) -> Iterator[Column]:
    """The published column, and ours where that is of the other direction: figures of two are not compared."""
    asked, by = metric_of(metric, attribute), judge_of(metric, judge)
    if asked == "dbac-at":
        yield Column(key, heading, 4, signed=True)
        key, heading = f"{key}_at", f"{heading}, A->T"
    yield Column(key, heading, 4, metric=asked, judge=by, scale=1, signed=True)


def judge_of(metric: str, judge: str) -> str:
    """For LIC too the paper took a one-directional LSTM below its MLP (supplement, B); LIC's own has two directions."""
    return "lstm+mlp3" if (metric, judge) == ("lic", "lstm") else judge


def scratch_table(name: str, number: str, *, metric: str, attribute: str) -> PaperTable:
    """Tables 10, 11, 13 and 14: encoders that are trained from scratch."""

    def steps(job: Job) -> list[Step]:
        return [encoder_step(job, metric, SCRATCH, attribute, name="run")]

    pairs = (_columns(metric, attribute, judge.replace("-", "_"), judge, judge) for judge in SCRATCH)
    columns = tuple(chain.from_iterable(pairs))
    title = f"{_HEADINGS[metric]}, {_named(attribute)}, by encoders trained from scratch"
    why = NO_SKIN if attribute == "skin" else ""
    note = _note(number, metric, attribute)
    return PaperTable(name, "nair2026dbac", number, title, columns, steps, note=note, not_shared=why)


def pretrained_table(name: str, number: str, *, attribute: str) -> PaperTable:
    """Tables 12 and 15: DBAC (a) and LIC (b), by pretrained encoders."""

    def steps(job: Job) -> list[Step]:
        return [encoder_step(job, metric, [*PRETRAINED.values()], attribute, name=metric) for metric in METRICS]

    pairs = (
        _columns(metric, attribute, f"{metric}_{key}", f"{_HEADINGS[metric]}, {key}", judge)
        for metric in METRICS
        for key, judge in PRETRAINED.items()
    )
    columns = tuple(chain.from_iterable(pairs))
    title = f"DBAC and LIC, {_named(attribute)}, by pretrained encoders"
    why = NO_SKIN if attribute == "skin" else ONE_ENCODER
    note = _note(number, "dbac", attribute)
    return PaperTable(name, "nair2026dbac", number, title, columns, steps, note=note, not_shared=why)


def _named(attribute: str) -> str:
    return "race" if attribute == "skin" else attribute


# What shows which direction a table has.
_DIRECTIONS = {
    "Table 10": "Its LSTM column is the T->A column of the paper's Table 9, but for the signs of Att2in and BLIP",
    "Table 13": "BLIP's figure by the LSTM is that of T->A in the paper's Table 4, and section 5.3.1 says T->A",
}


def _note(number: str, metric: str, attribute: str) -> str:
    notes = []
    if metric == "dbac":
        shown = _DIRECTIONS.get(number, "Section 5.3.1 says that DBAC is T->A here")
        notes.append(f"{shown}; the supplement's captions say A->T.")
    if attribute == "skin":
        notes.append("All captioners' captions are of DATA/captions: LIC's release lacks the images of class Unsure.")
        if metric == "dbac":
            notes.append(
                "Captions do not name skin tones: P(a^) of T->A has nothing to count, and the paper does not say what "
                "it counted; ours of DBAC is A->T."
            )
    if number == "Table 13":
        notes.append("The figures of LLAVA are those of Table 10.")
    return " ".join(notes)


Series = Mapping[Row, Sequence[float]]


def variation_table(name: str, number: str, *, attribute: str, sources: tuple[str, str, str]) -> PaperTable:
    """Tables 5 and 6: how much a captioner's figures vary over encoders.

    Args:
        name: of the script.
        number: of the table.
        attribute: gender or skin.
        sources: the tables that hold the figures: DBAC and LIC from scratch, and both by pretrained encoders.
    """

    def steps(job: Job) -> list[Step]:
        groups = {"scratch": SCRATCH, "pretrained": [*PRETRAINED.values()]}
        if job.size == "small":  # Encoders of one group differ, those of the other have one stand-in.
            groups = {"scratch": SCRATCH[::2]}
        return [
            encoder_step(job, metric, judges, attribute, name=f"{metric}-{group}")
            for group, judges in groups.items()
            for metric in METRICS
        ]

    columns = (
        Column("cv_lic", "CV of LIC", 2),
        Column("cv_dbac", "CV of DBAC", 2),
        Column("reduction", "% reduction", 2, signed=True),
        # Ours of skin tones is of the other direction: nothing to compare with.
        Column("cv_dbac_at", "CV of DBAC A->T", 2),
        Column("reduction_at", "% reduction, A->T", 2, signed=True),
    )
    return PaperTable(
        name,
        "nair2026dbac",
        number,
        f"how much {_named(attribute)} figures vary over encoders",
        columns,
        steps,
        read=partial(_variations, ending="" if attribute == "gender" else "_at"),
        derived=lambda: _from_published(sources),
        checks=lambda _: _means(name, sources),
        note="Coefficient of variation: sample standard deviation over |mean|; % reduction from LIC to DBAC.",
        not_shared=ONE_ENCODER if attribute == "gender" else NO_SKIN,
    )


def _from_published(sources: tuple[str, str, str]) -> Ours:
    """By our own code, from the tables that the coefficients were made of."""
    dbac, lic, both = map(read_published, sources)
    rows = [(row, dbac.rows[place]) for place, row in enumerate(lic.rows)]
    series: dict[Row, tuple[list[float], list[float]]] = {}
    for row, same in rows:
        assert row == same
        series["from scratch", *row] = (
            [lic.values[row, column] for column in lic.columns],
            [dbac.values[row, column] for column in dbac.columns],
        )
    for row in both.rows:
        mine = [[both.values[row, f"{metric}_{key}"] for key in PRETRAINED] for metric in ("lic", "dbac")]
        series["pretrained", *row] = mine[0], mine[1]
    cv = coefficient_of_variation
    return dict(chain.from_iterable(_figures(row, cv(a), cv(b)) for row, (a, b) in series.items()))


def _figures(row: Row, lic: float, dbac: float, ending: str = "") -> Iterator[tuple[tuple[Row, str], Value]]:
    found = {"cv_lic": lic, f"cv_dbac{ending}": dbac, f"reduction{ending}": percent_reduction(lic, dbac)}
    for column, value in found.items():
        if not math.isnan(value):
            yield (row, column), Value(value)


def _variations(table: PaperTable, job: Job, results: Results, *, ending: str) -> Ours:
    """Of a run with several encoders; ``ending``: of the columns that hold DBAC of our direction."""
    by_row: dict[Row, dict[str, float]] = {}
    for name, result in results.items():
        metric, _, group = name.partition("-")
        encoders = {"scratch": "from scratch"}.get(group, group)
        for found in measure_consistency(result.summaries).variations:
            by_row.setdefault((encoders, found.captioner), {})[metric] = found.cv
    nan = float("nan")
    lines = (_figures(row, of.get("lic", nan), of.get("dbac", nan), ending) for row, of in by_row.items())
    return dict(chain.from_iterable(lines))


def _means(name: str, sources: tuple[str, str, str]) -> list[str]:
    """How many printed coefficients follow, and the averages of the last column, printed and ours."""
    ours, published = _from_published(sources), read_published(name)
    lines = []
    for group in ("from scratch", "pretrained"):
        rows = [row for row in published.rows if row[0] == group]
        cells = [(row, column) for row in rows for column in ("cv_lic", "cv_dbac")]
        equal = sum(cell in ours and abs(ours[cell].value - published.values[cell]) < 0.00501 for cell in cells)
        made = {row: ours[row, "reduction"].value for row in rows if (row, "reduction") in ours}
        printed = published.column("reduction", rows)
        off = [
            f"{row[1]} (printed {published.values[row, 'reduction']:.2f}, ours {value:.2f})"
            for row, value in made.items()
            if abs(value - published.values[row, "reduction"]) > 0.5
        ]
        told = f"; more than half a point apart: {', '.join(off)}" if off else ""
        lost = [row[1] for row in rows if row not in made]
        told += f"; of {', '.join(lost)} the published figures have a mean of 0, and no coefficient" if lost else ""
        lines.append(
            f"Encoders {group}: {equal} of {len(cells)} printed coefficients follow to two decimals from the published "
            f"figures of four; mean reduction {sum(made.values()) / len(made):.2f}, of the printed rows "
            f"{sum(printed) / len(printed):.2f}{told}."
        )
    return lines
