"""ImageCaptioner2, Table 6: gender bias where different detectors hide people."""

from __future__ import annotations

from typing import Any

from _commands import Step
from _job import LIC_CAPTIONERS, NO_PICTURES, Job
from _ours import Column, Ours, Value, value_of
from _published import Published, Row
from _table import PaperTable, Results, main

from judge.commands.ablate_detectors import AblateDetectorsConfig
from judge.statistics.correlation import correlate

JUDGES, DETECTORS = ("sat",), {"gt": "gt_masks", "yolo": "yolox", "maskrcnn": "mask_rcnn"}


def steps(job: Job) -> list[Step]:
    """One ablation; a small run has ground truth alone."""
    names = ("gt",) if job.size == "small" else tuple(DETECTORS)
    folder, options = job.data / "detectors", dict[str, Any](detectors=names)
    if job.size != "small":
        options |= {"weights": {kind: str(folder / f"{kind}.pt") for kind in names[1:]}, "trust_weights": folder}
    options |= {"cache": job.out / "detections", "mask": "segment"}
    inputs = {**job.inputs(LIC_CAPTIONERS), **job.pictures(), **options, "metrics": ("imagecaptioner2",)}
    return [Step("detectors", AblateDetectorsConfig, {**inputs, **job.judging(JUDGES), "out": job.out / "run"})]


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """A column a detector."""
    found: dict[tuple[Row, str], Value] = {}
    for detector, result in results["detectors"].results.items():
        for row in result.summaries:
            value = value_of(result, row, "amplification")
            if value is not None:
                found[(row.captioner,), DETECTORS[detector]] = value.times(100)
    return found


def checks(published: Published) -> list[str]:
    """The paper calls the columns fully correlated."""
    truth = published.column("gt_masks")
    found = {name: correlate(truth, published.column(name)).pearson for name in ("yolox", "mask_rcnn")}
    return [f"Published {name} goes with the ground truth at Pearson {r:.3f}." for name, r in found.items()]


TABLE = PaperTable(
    "imagecaptioner2_table6",
    "abdelrahman2024imagecaptioner2",
    "Table 6",
    "gender bias where different detectors hide people",
    (
        Column("gt_masks", "ground truth", judge="sat", signed=True),
        Column("yolox", "YOLO", judge="sat", signed=True),
        Column("mask_rcnn", "Mask R-CNN", judge="sat", signed=True),
    ),
    steps,
    read=read,
    checks=checks,
    not_shared=NO_PICTURES,
    note="The paper's YOLOX is Ultralytics' YOLO of ours.",
)

if __name__ == "__main__":
    main(TABLE)
