"""DBAC, Table 4: T->A of BLIP's captions of partly masked pictures, and where BLIP looked."""

from __future__ import annotations

from _commands import Step
from _dbac import judge_of
from _job import NO_PICTURES, Job
from _masked import MODES, attribute_step, mask_step, model_of, score_of
from _ours import Column, Ours, Value
from _published import Row
from _table import PaperTable, Results, main

from judge.commands.ablate_masks import AblateMasksConfig
from judge.statistics.summary import Summary

JUDGES = (judge_of("lic", "lstm"),)
BLIP = "Salesforce/blip-image-captioning-base"
METRICS = {"lic": "lic", "dpa-ta": "dpa_ta", "dba-g": "ba_ta", "dbac-ta": "dbac_ta"}


def steps(job: Job) -> list[Step]:
    """Mask pictures, look where BLIP looks in them; and caption and measure with each mask."""
    masks = [mask_step(job, f"masked-{mode}", mode=mode, hide="person") for mode in MODES[1:]]
    looks = [
        attribute_step(job, f"looks-{mode}", images=images, model=model_of(job, BLIP), method="grad-cam")
        for mode, images in zip(
            MODES, [job.pictures()["images"], *(step.settings["out"] for step in masks)], strict=True
        )
    ]
    return [*masks, *looks, *(_ablation(job, attribute) for attribute in ("gender", "skin"))]


def _ablation(job: Job, attribute: str) -> Step:
    """Skin tones are not named: T->A has nothing to count, and LIC alone is left."""
    three = attribute == "skin"
    inputs = {**job.inputs(("NIC",), attribute, three=three), "captions": {}}
    inputs |= {"models": {"BLIP": model_of(job, BLIP)}, **job.pictures(), "objects": job.objects()}
    inputs |= {"masks": MODES, "hides": ("person",), "metrics": tuple(METRICS) if attribute == "gender" else ("lic",)}
    if job.size == "small" and three:
        inputs["masks"] = ("none", "box")
    settings = {**inputs, **job.aligning(), **job.judging(JUDGES), "out": job.out / attribute}
    return Step(attribute, AblateMasksConfig, settings)


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """A row an attribute and mask."""
    found: dict[tuple[Row, str], Value] = {}
    for attribute, name in (("gender", "gender"), ("skin", "race")):
        rows, _ = results[attribute]
        for row in rows:
            value = _amplification(row.line.summary)
            if value:
                found[(name, row.mask), METRICS[row.line.summary.metric.name]] = value.times(100)
    for mode in MODES:
        if score := score_of(results[f"looks-{mode}"].pictures):
            found[("gender", mode), "attribution"] = score
    return found


def _amplification(row: Summary) -> Value | None:
    value = row.published if row.metric.counted else row.amplification
    return None if value is None else Value(value, None if row.metric.counted else row.interval)


TABLE = PaperTable(
    "dbac_table4",
    "nair2026dbac",
    "Table 4",
    "T->A of BLIP's captions of partly masked pictures",
    (
        Column("attribution", "attribution score", 2),
        Column("lic", "LIC", 2, judge=JUDGES[0], signed=True),
        Column("dpa_ta", "DPA T->A", 2, signed=True),
        Column("ba_ta", "BA T->A", 2, signed=True),
        Column("dbac_ta", "DBAC T->A", 2, judge=JUDGES[0], signed=True),
    ),
    steps,
    read=read,
    not_shared=NO_PICTURES,
    note="Captions do not name skin tones: T->A has no P(a^) to count for race, and the paper does not say what it "
    "counted; ours has LIC alone there.",
)

if __name__ == "__main__":
    main(TABLE)
