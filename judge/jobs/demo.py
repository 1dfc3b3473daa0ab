"""The main job, from files to a table, on a world whose true amplification is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge.calibration.grammar import make_world, world_files, write_world
from judge.calibration.truth import true_amplification
from judge.calibration.world import CAPTIONERS, Captioner
from judge.config import RunConfig, make_config
from judge.errors import require
from judge.jobs.evaluate import run
from judge.measure import Result
from judge.metrics import Metric, find_metric
from judge.report.directory import RunDirectory
from judge.types import Report

PIXELS = 160
# Judges that see are trained from nothing but a random, frozen network, in minutes: fewer folds, epochs, and a larger
# step than the papers' own. What a random network tells apart in drawn scenes is enough (README, "Weights").
QUICK: dict[str, Any] = {
    "backbone": "resnet18",
    "backbone_weights": "random",
    "image_size": PIXELS,
    "folds": 3,
    "epochs": 12,
    "learning_rate": 1e-3,
    "batch_size": 32,
}


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo made.

    Attributes:
        result: of the run.
        truth: "captioner metric" -> amplification in closed form, for an optimal judge with unlimited data.
        world, results: folders.
    """

    result: Result
    truth: dict[str, float]
    world: Path
    results: Path


def run_demo(
    out: Path,
    *,
    seed: int = 0,
    images: int = 1200,
    report: Report | None = None,
) -> Demo:
    """Draw a world into ``out/world`` and evaluate its three captioners into ``out/results``.

    An earlier demo in ``out`` is replaced.

    Raises:
        JudgeError: ``out`` holds anything else, or cannot be written.
    """
    again = (out / "world" / "truth.json").is_file() and (out / "world" / "world.yaml").is_file()
    RunDirectory(out / "results" if again else out, overwrite=again).check()
    require("images", "cv2", "PIL", "pycocotools")
    files = world_files(out / "world", CAPTIONERS)
    settings = {
        "human": files.human,
        "captions": {name: files.captions[name] for name in CAPTIONERS},
        "labels": files.labels,
        "images": files.folder / "images",
        "instances": files.folder / "instances.json",
        "features": out / "features",
        "metrics": ("lic", "imagecaptioner2"),
        "judge": ("linear", "sat"),
        "seed": seed,
        **QUICK,
        "out": out / "results",
        "overwrite": again,
    }
    config = make_config(settings, RunConfig, where="judge demo")
    world = make_world(images, seed=seed)
    write_world(world, CAPTIONERS, files.folder, pictures=PIXELS, overwrite=again, report=report)
    result = run(config, report=report)
    truth = {
        f"{name} {metric}": _true(find_metric(metric), captioner)
        for name, captioner in CAPTIONERS.items()
        for metric in config.metrics
    }
    return Demo(result, truth, files.folder, out / "results")


def _true(metric: Metric, captioner: Captioner) -> float:
    return true_amplification(
        captioner=captioner, direction=metric.direction or "A->T", score=metric.score, looks=metric.looks
    )
