"""The main job, from files to a table, on a world whose true amplification is known."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import CAPTIONERS
from judge.config import make_config
from judge.measure import Report, Result
from judge.report.directory import RunDirectory
from judge.run import run


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
    images: int = 3000,
    judge: str = "linear",
    report: Report | None = None,
) -> Demo:
    """Write a world to ``out/world`` and evaluate its three captioners into ``out/results``.

    An earlier demo in ``out`` is replaced.

    Raises:
        JudgeError: ``out`` holds anything else, or cannot be written.
    """
    again = (out / "world" / "truth.json").is_file()
    RunDirectory(out / "results" if again else out, overwrite=again).check()
    if again:
        shutil.rmtree(out / "world")
    files = write_world(make_world(images, seed=seed), CAPTIONERS, out / "world")
    settings = {
        "human": files.human,
        "captions": {name: files.captions[name] for name in CAPTIONERS},
        "labels": files.labels,
        "judge": judge,
        "seed": seed,
        "out": out / "results",
        "overwrite": again,
    }
    result = run(make_config(settings, where="judge demo"), report=report)
    known = json.loads(files.truth.read_text(encoding="utf-8"))
    truth = {f"{name} {metric}": known[name][metric] for name in CAPTIONERS for metric in ("lic", "leakage")}
    return Demo(result, truth, files.folder, out / "results")
