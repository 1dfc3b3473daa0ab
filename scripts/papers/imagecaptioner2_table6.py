"""ImageCaptioner2, Table 6: gender bias where different detectors hide people."""

from __future__ import annotations

from _commands import Step
from _job import LIC_CAPTIONERS, NO_PICTURES, Job
from _ours import Column, Ours, Value, value_of
from _published import Published, Row
from _table import PaperTable, Results, main

from judge.commands.ablate_detectors import AblateDetectorsConfig
from judge.commands.train_detector import TrainDetectorConfig
from judge.statistics.correlation import correlate

JUDGES, DETECTORS = ("sat",), {"gt": "gt_masks", "yolo": "yolox", "maskrcnn": "mask_rcnn"}


def steps(job: Job) -> list[Step]:
    """One ablation; of a small run the detectors are new-born networks, which find nobody or noise."""
    names, born, weights = tuple(DETECTORS), list[Step](), dict[str, str]()
    for kind in names[1:]:
        if job.size == "small":
            out = job.out / f"{kind}.safetensors"
            new = {"kind": kind, **job.pictures(), "categories": ("person",), "epochs": 0, "image_size": 64, "out": out}
            born.append(Step(kind, TrainDetectorConfig, new))
            weights[kind] = str(out)
        else:
            weights[kind] = str(job.data / "detectors" / f"{kind}.pt")
    asked = {"detectors": names, "weights": weights, "cache": job.out / "detections", "mask": "segment"}
    asked["allow_unmasked"] = job.size == "small"  # Untrained detectors find nobody.
    inputs = {**job.inputs(LIC_CAPTIONERS), **job.pictures(), **asked, "metrics": ("imagecaptioner2",)}
    ablation = Step("detectors", AblateDetectorsConfig, {**inputs, **job.judging(JUDGES), "out": job.out / "run"})
    return [*born, ablation]


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
