"""LIC, Table 4: gender bias of captions of partly masked pictures.

Pictures are masked by ``judge mask``; the captioner under test captions each folder (a checkpoint of transformers by
``judge caption``, SAT and OSCAR by their own code; the paper removes OSCAR's region features in place of pixels).
"""

from __future__ import annotations

from _commands import Step
from _job import NO_PICTURES, STEMS, Job
from _masked import caption_step, mask_step, model_of
from _ours import Column, Ours, Value, value_of
from _published import Published, Row
from _table import PaperTable, Results, evaluate_step, main

JUDGES = ("lstm",)
CAPTIONERS, HIDDEN = ("SAT", "OSCAR"), ("original", "object", "person", "both")
CHANCE = 25.0


def steps(job: Job) -> list[Step]:
    """Mask, caption (small runs alone), and judge all captions together."""
    masks = [mask_step(job, f"masked-{hide}", mode="segment", hide=hide) for hide in HIDDEN[1:]]
    writing, captions = [], {}
    for hidden in HIDDEN:
        if job.size == "small":
            images = job.pictures()["images"] if hidden == "original" else job.out / f"masked-{hidden}"
            writing.append(caption_step(job, f"untrained-{hidden}", images=images, model=model_of(job, "")))
            captions[f"untrained-{hidden}"] = job.out / f"untrained-{hidden}.json"
            continue
        for name in CAPTIONERS:
            captions[f"{name}-{hidden}"] = job.data / "masked" / f"{STEMS[name]}-{hidden}.json"
    inputs = {**job.inputs(("SAT",)), "captions": captions}
    return [*masks, *writing, evaluate_step(job, inputs, metrics=("lic",), **job.judging(JUDGES))]


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """LIC_M, and how far it is from chance and from the unmasked pictures."""
    found: dict[tuple[Row, str], Value] = {}
    result = results["run"]
    sides = {row.captioner: value_of(result, row, "generated") for row in result.summaries}
    for captioner, side in sides.items():
        name, _, hidden = captioner.rpartition("-")
        plain = sides[f"{name}-original"]
        if side is None or plain is None:
            continue
        row = name, hidden if hidden == "original" else f"w/o {hidden}"
        found[row, "lic_m"] = side.times(100)
        found[row, "over_unbiased"] = Value(100 * side.value - CHANCE)
        found[row, "over_original"] = Value(100 * (side.value - plain.value))
    return found


def checks(published: Published) -> list[str]:
    """Both differences follow from LIC_M."""
    lines = []
    for key, heading in (("over_unbiased", "Δ Unbias"), ("over_original", "Δ Original")):
        off = []
        for row in published.rows:
            base = CHANCE if key == "over_unbiased" else published.values[(row[0], "original"), "lic_m"]
            expected = published.values[row, "lic_m"] - base
            if abs(expected - published.values[row, key]) > 0.1001:
                off.append(f"{' '.join(row)} ({expected:+.1f}, printed {published.values[row, key]:+.1f})")
        told = f", not in {', '.join(off)}" if off else ""
        lines.append(f"Published {heading} follows from LIC_M in {len(published.rows) - len(off)} of 8 rows{told}.")
    return lines


TABLE = PaperTable(
    "lic_table4",
    "hirota2022quantifying",
    "Table 4",
    "gender bias of captions of partly masked pictures",
    (
        Column("lic_m", "LIC_M", judge="lstm"),
        Column("over_unbiased", "Δ Unbias", judge="lstm", signed=True),
        Column("over_original", "Δ Original", judge="lstm", signed=True),
    ),
    steps,
    read=read,
    checks=checks,
    not_shared=NO_PICTURES,
    note="In between the captioner captions each folder of masked pictures: a checkpoint of transformers by judge "
    "caption, SAT and OSCAR by their own code, into DATA/masked/sat-object.json and so on.",
)

if __name__ == "__main__":
    main(TABLE)
