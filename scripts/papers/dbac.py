"""Code of the tables of DBAC.

The supplement calls the figures of Tables 10 to 15 DBAC A->T. They are T->A: their LSTM columns are the T->A column of
the paper's Table 9 (gender) and of its Table 4 (race), and section 5.3.1 says that T->A was measured. In Table 9 the
signs of two captioners (Att2in and BLIP) are others.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
from figures import Column, Ours, Row, Value, read_published, value_of
from jobs import DBAC_CAPTIONERS, Job, Step
from masked import MODES, attribute_step, mask_step, model_of, score_of
from tables import Code, Results, evaluate_step
from verb_sets import NAMES, RATIOS, SUBSETS, candidates, sources, write_sets

from judge import ba_mals, dpa
from judge.calibration.world import CLASSES
from judge.metrics.counted.dpa import Dpa
from judge.statistics import coefficient_of_variation, percent_reduction
from judge.statistics.consistency import measure_consistency

# Judge -> its key in the CSVs.
SCRATCH = {
    name: name.replace("-", "_")
    for name in ("lstm", "lstm-bidirectional", "rnn", "rnn-bidirectional", "transformer-1", "transformer-5")
}
PRETRAINED = {
    "sentence:distilbert-base-uncased": "distilbert",
    "sentence:all-distilroberta-v1": "distilroberta",
    "sentence:all-MiniLM-L6-v2": "minilm",
    "sentence:all-mpnet-base-v2": "mpnet",
}
METRICS = ("dbac", "lic")
JUDGE = "lstm+mlp3"
"""For LIC too the paper took a one-directional LSTM below its MLP (supplement, B); LIC's own has two directions."""

Figure = tuple[tuple[Row, str], Value]


def by_encoders(metrics: Sequence[str], encoders: Mapping[str, str], attribute: str) -> Code:
    """Tables 10 to 15: DBAC T->A or LIC of all captioners, by many encoders."""

    def steps(job: Job) -> list[Step]:
        single = len(metrics) == 1
        return [
            _encoder_step(job, metric, [*encoders], attribute, name="run" if single else metric) for metric in metrics
        ]

    single = len(metrics) == 1
    columns = (
        _columns(
            metric,
            attribute,
            key if single else f"{metric}_{key}",
            judge if single else f"{metric.upper()}, {key}",
            judge,
        )
        for metric in metrics
        for judge, key in encoders.items()
    )
    return Code(steps, columns=list(chain.from_iterable(columns)))


def _encoder_step(job: Job, metric: str, judges: Sequence[str], attribute: str, *, name: str) -> Step:
    """One metric of all captioners by some encoders, aligned in context."""
    inputs = job.inputs(DBAC_CAPTIONERS, attribute, three=attribute == "skin")
    if metric != "lic":  # Tasks are those annotated in the image (section 4.1).
        inputs["objects"] = job.objects()
    judging = job.judging([_judge_of(metric, judge) for judge in judges])
    return evaluate_step(job, inputs, name=name, metrics=(_metric_of(metric, attribute),), **job.aligning(), **judging)


def _metric_of(metric: str, attribute: str) -> str:
    """Captions do not name skin tones, so that T->A cannot be counted: DBAC is A->T there."""
    return metric if metric == "lic" else "dbac-ta" if attribute == "gender" else "dbac-at"


def _judge_of(metric: str, judge: str) -> str:
    return JUDGE if (metric, judge) == ("lic", "lstm") else judge


def _columns(metric: str, attribute: str, key: str, heading: str, judge: str) -> Iterator[Column]:
    """The published column, and ours where that is of the other direction: the two are not compared."""
    asked = _metric_of(metric, attribute)
    if asked == "dbac-at":
        yield Column(key, heading, 4, signed=True)
        key, heading = f"{key}_at", f"{heading}, A->T"
    yield Column(key, heading, 4, metric=asked, judge=_judge_of(metric, judge), scale=1, signed=True)


def variation(name: str, attribute: str, sources: tuple[str, str, str]) -> Code:
    """Tables 5 and 6: how much a captioner's figures vary over encoders.

    Args:
        name: of the table.
        attribute: gender or skin.
        sources: the tables that hold the figures: DBAC and LIC from scratch, and both by pretrained encoders.
    """

    def steps(job: Job) -> list[Step]:
        groups = {"scratch": [*SCRATCH], "pretrained": [*PRETRAINED]}
        if job.size == "small":  # Encoders of one group differ, those of the other have one stand-in.
            groups = {"scratch": [*SCRATCH][::2]}
        return [
            _encoder_step(job, metric, judges, attribute, name=f"{metric}-{group}")
            for group, judges in groups.items()
            for metric in METRICS
        ]

    def read(job: Job, results: Results) -> Ours:
        by_row: dict[Row, dict[str, float]] = {}
        for step, result in results.items():
            metric, _, group = step.partition("-")
            for found in measure_consistency(result.summaries).variations:
                row = {"scratch": "from scratch"}.get(group, group), found.captioner
                by_row.setdefault(row, {})[metric] = found.cv
        nan, ending = float("nan"), "" if attribute == "gender" else "_at"
        lines = (_variation(row, of.get("lic", nan), of.get("dbac", nan), ending) for row, of in by_row.items())
        return dict(chain.from_iterable(lines))

    columns = (
        Column("cv_lic", "CV of LIC", 2),
        Column("cv_dbac", "CV of DBAC", 2),
        Column("reduction", "% reduction", 2, signed=True),
        # Ours of skin tones is of the other direction, and is not compared.
        Column("cv_dbac_at", "CV of DBAC A->T", 2),
        Column("reduction_at", "% reduction, A->T", 2, signed=True),
    )
    return Code(steps, read, columns, derived=lambda: _derived(sources), checks=lambda _: _means(name, sources))


def _derived(sources: tuple[str, str, str]) -> Ours:
    """The coefficients, from the published tables that they were made of."""
    dbac, lic, both = map(read_published, sources)
    assert dbac.rows == lic.rows
    series = {
        ("from scratch", *row): [[table.values[row, column] for column in table.columns] for table in (lic, dbac)]
        for row in lic.rows
    }
    for row in both.rows:
        keys = PRETRAINED.values()
        series["pretrained", *row] = [[both.values[row, f"{of}_{key}"] for key in keys] for of in ("lic", "dbac")]
    cv = coefficient_of_variation
    return dict(chain.from_iterable(_variation(row, cv(a), cv(b)) for row, (a, b) in series.items()))


def _variation(row: Row, lic: float, dbac: float, ending: str = "") -> Iterator[Figure]:
    found = {"cv_lic": lic, f"cv_dbac{ending}": dbac, f"reduction{ending}": percent_reduction(lic, dbac)}
    for column, value in found.items():
        if not math.isnan(value):
            yield (row, column), Value(value)


def _means(name: str, sources: tuple[str, str, str]) -> list[str]:
    """How many printed coefficients follow, and the averages of the last column, printed and ours."""
    ours, published = _derived(sources), read_published(name)
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


# ---- Table 2


def _count_candidates(job: Job, results: Results) -> Ours:
    """Images whose human captions could be drawn for a set: one task, one of its verbs, the class and task named."""
    found = candidates(job).items()
    return {((cell.task, cell.verb), cell.attribute): Value(float(len(images))) for cell, images in found}


# ---- Table 3: human captions in which the verb alone tells gender; BA and DPA of annotated classes, one side


def _judge_sets(job: Job) -> list[Step]:
    """The captions of a set on both sides: nothing is amplified, and the human side's score is what counts."""
    steps = []
    for name in NAMES:
        folder = job.out / "sets" / name
        inputs = {"human": folder / "human.json", "captions": {"itself": folder / "itself.json"}}
        inputs |= {"labels": folder / "gender.csv", "objects": folder / "objects.json"}
        metrics = ("lic", "dbac-at:accuracy")
        steps.append(evaluate_step(job, inputs, name=name, metrics=metrics, **job.judging((JUDGE,))))
    return steps


def _read_sets(job: Job, results: Results) -> Ours:
    """What judges find on the human side; counts find nothing."""
    found: dict[tuple[Row, str], Value] = {}
    for (name, result), (more, fewer) in zip(results.items(), RATIOS, strict=True):
        row = (f"{name}, {more}:{fewer:02d}",)
        found |= {(row, key): Value(value) for key, value in _counted(job, name).items()}
        for line in result.summaries:
            if line.metric.name == "lic":
                found |= {(row, "lic_h"): side} if (side := value_of(result, line, "human")) else {}
            elif line.qualities:
                found[row, "omega"] = Value(line.qualities[0])
    return found


def _counted(job: Job, name: str) -> dict[str, float]:
    """BA and DPA of one side: what the annotated class tells of the task."""
    folder = job.out / "sets" / name
    with (folder / "gender.csv").open(encoding="utf-8", newline="") as file:
        classes = {line["image_id"]: CLASSES.index(line["gender"]) for line in csv.DictReader(file)}
    shown = json.loads((folder / "objects.json").read_text(encoding="utf-8"))
    attribute = np.array(list(classes.values()))
    tasks = np.array([[task in shown[image] for task in sorted(SUBSETS)] for image in classes])
    there = dpa(attribute, tasks, variant=Dpa(unit="label", score="balanced"))
    return {"ba": float(ba_mals(attribute, tasks).truth or 0), "dpa": float(there.truth or 0)}


# ---- Table 4: BLIP's captions of partly masked images, and where BLIP looked

BLIP = "Salesforce/blip-image-captioning-base"
BLIP_METRICS = {"lic": "lic", "dpa-ta": "dpa_ta", "dba-g": "ba_ta", "dbac-ta": "dbac_ta"}


def _mask_for_blip(job: Job) -> list[Step]:
    """Mask images, look where BLIP looks in them, and caption and measure with each mask."""
    masks = [mask_step(job, f"masked-{mode}", mode=mode, hide="person") for mode in MODES[1:]]
    folders = [job.pictures()["images"], *(step.settings["out"] for step in masks)]
    model = model_of(job, BLIP)
    looks = [
        attribute_step(job, f"looks-{mode}", images=images, model=model, method="grad-cam")
        for mode, images in zip(MODES, folders, strict=True)
    ]
    return [*masks, *looks, *(_ablation(job, attribute) for attribute in ("gender", "skin"))]


def _ablation(job: Job, attribute: str) -> Step:
    """Skin tones are not named: T->A has nothing to count, and LIC alone is left."""
    from judge.commands.ablate import AblateMasksConfig

    three = attribute == "skin"
    inputs = {**job.inputs(("NIC",), attribute, three=three), "captions": {}}
    inputs |= {"models": {"BLIP": model_of(job, BLIP)}, **job.pictures(), "objects": job.objects()}
    metrics = tuple(BLIP_METRICS) if attribute == "gender" else ("lic",)
    inputs |= {"masks": MODES, "hides": ("person",), "metrics": metrics}
    if job.size == "small" and three:
        inputs["masks"] = ("none", "box")
    settings = {**inputs, **job.aligning(), **job.judging((JUDGE,)), "out": job.out / attribute}
    return Step(attribute, AblateMasksConfig, settings)


def _read_masks(job: Job, results: Results) -> Ours:
    """A row for each attribute and mask."""
    found: dict[tuple[Row, str], Value] = {}
    for attribute, name in (("gender", "gender"), ("skin", "race")):
        for row in results[attribute][0]:
            line = row.line.summary
            value = line.published if line.metric.counted else line.amplification
            if value is not None:
                ours = Value(value, None if line.metric.counted else line.interval)
                found[(name, row.mask), BLIP_METRICS[line.metric.name]] = ours.times(100)
    for mode in MODES:
        if score := score_of(results[f"looks-{mode}"].rows):
            found[("gender", mode), "attribution"] = score
    return found


CODE = {
    "dbac_table2": Code(lambda _: [], _count_candidates, reads=sources),
    "dbac_table3": Code(_judge_sets, _read_sets, prepare=write_sets, reads=sources),
    "dbac_table4": Code(_mask_for_blip, _read_masks),
}
