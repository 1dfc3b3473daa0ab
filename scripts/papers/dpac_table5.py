"""DPAC, Table 5: captions of FC, trained anew on partly masked pictures, and where it looked.

FC is trained on each version of the pictures outside of this project; what is needed is a checkpoint of each.
"""

from __future__ import annotations

from _commands import Step
from _job import NO_PICTURES, Job
from _masked import MODES, attribute_step, caption_step, mask_step, model_of, score_of
from _ours import Column, Ours, Value, value_of
from _published import Row
from _table import PaperTable, Results, evaluate_step, main
from dpac_table4 import PSI, SCALES

JUDGES = ("lstm-bidirectional+mlp5",)  # As in Table 4.
METRICS = {"lic": "lic_m", "dpac-ta": "psi_m"}


def steps(job: Job) -> list[Step]:
    """Mask, caption by the captioner of that mask, look where it looked, and judge all captions."""
    masks = [mask_step(job, f"masked-{mode}", mode=mode, hide="person") for mode in MODES[1:]]
    places = [job.pictures()["images"], *(step.settings["out"] for step in masks)]
    models = {mode: model_of(job, str(job.data / "models" / f"fc-{mode}")) for mode in MODES}
    written = [caption_step(job, m, images=p, model=models[m]) for m, p in zip(MODES, places, strict=True)]
    looks = [
        attribute_step(job, f"looks-{mode}", images=images, model=models[mode], method="gradient-shap")
        for mode, images in zip(MODES, places, strict=True)
    ]
    captions = {step.name: step.settings["out"] for step in written}
    inputs = {**job.inputs(("FC",)), "captions": captions, "objects": job.objects()}
    judged = evaluate_step(job, inputs, metrics=tuple(METRICS), **job.aligning(), **job.judging(JUDGES))
    return [*masks, *written, *looks, judged]


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """A row a mask: the generated side alone."""
    found: dict[tuple[Row, str], Value] = {}
    for line in results["run"].summaries:
        if side := value_of(results["run"], line, "generated"):
            found[(line.captioner,), METRICS[line.metric.name]] = side.times(SCALES[line.metric.name])
    for mode in MODES:
        if score := score_of(results[f"looks-{mode}"].pictures):
            found[(mode,), "attribution"] = score
    return found


TABLE = PaperTable(
    "dpac_table5",
    "nair2025dpac",
    "Table 5",
    "T->A of captions of a captioner that was trained on partly masked pictures",
    (
        Column("attribution", "attribution score", 2),
        Column("lic_m", "LIC_M", 2, judge=JUDGES[0]),
        Column("psi_m", "psi_M, T->A", 2, judge=JUDGES[0]),
    ),
    steps,
    read=read,
    not_shared=NO_PICTURES,
    note=f"{PSI} "
    "DATA/models/fc-none, fc-partial, fc-segment and fc-box: checkpoints of transformers, one trained on each "
    "version of the pictures.",
)

if __name__ == "__main__":
    main(TABLE)
