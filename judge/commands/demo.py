"""``judge demo``: measure simulated captioners in a drawn world whose true amplification is known.

An optimal judge's scores with unlimited data are known in closed form. A judge trained on some hundred images does not
reach them; the amplification that the demo's judges find at this size, a mean over worlds, is in
``judge/calibration/expected.json``, which ``scripts/expect_demo.py`` writes. Intervals are to be compared with that.
"""

import json
from collections.abc import Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from judge.calibration.grammar import WorldFiles, make_world, world_files, write_world
from judge.calibration.truth import bayes_score
from judge.calibration.world import CAPTIONERS, DEMO, FAITHFUL
from judge.commands.console import say, show_progress
from judge.commands.evaluate import RunConfig, run
from judge.config import make_config
from judge.errors import require
from judge.judges.names import PATCHES
from judge.metrics import find_metric
from judge.report.directory import REPORT, RunDirectory
from judge.report.sections import print_result

PIXELS = 160
# The heading of the amplification that these judges are expected to find at this size.
EXPECTED = "expected here"


def demo_settings(files: WorldFiles, out: Path, *, small: bool = False) -> dict[str, Any]:
    """The settings of the demo's run, as of ``judge evaluate``; ``small``: of captions alone."""
    settings = {
        "human": files.human,
        "captions": {name: files.captions[name] for name in CAPTIONERS},
        "labels": files.labels,
        "judge": ("linear",),
        "folds": 5,
        "refits": 20,
        "out": out / "results",
    }
    if small:
        return settings | {"metrics": ("conditional", "lic")}
    return settings | {
        "images": files.folder / "images",
        "instances": files.folder / "instances.json",
        "cache": out / "cache",
        "metrics": ("conditional", "lic", "imagecaptioner2"),
        # Patches tell drawn things apart, which a random network does not.
        "backbone": PATCHES,
    }


def _optima(metrics: Sequence[str], *, uses_images: bool) -> dict[str, str]:
    """Scores of the human and the generated side for an optimal judge with unlimited data."""
    found = {}
    for name, captioner in CAPTIONERS.items():
        for metric in map(find_metric, metrics):
            if (metric.uses_images or not uses_images) and not metric.given:
                score = partial(bayes_score, DEMO, score=metric.score, uses_images=uses_images)
                human, generated = score(FAITHFUL), score(captioner)
                found[f"{name} {metric.name}"] = f"{human:.3f} / {generated:.3f} ({generated - human:+.3f})"
    return found


def read_expected(images: int) -> dict[str, str]:
    """Captioner and metric -> mean amplification over worlds of this size; nothing for a size not measured."""
    text = (resources.files("judge.calibration") / "expected.json").read_text(encoding="utf-8")
    known = json.loads(text)
    if known["images"] != images:
        return {}
    return {name: f"{row['amplification']:+.3f}" for name, row in known["rows"].items()}


def command(
    out: Annotated[Path, typer.Option(help="folder for the world and the results")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="seed of the world")] = 0,
    images: Annotated[int, typer.Option(min=200, help="images in the world")] = 1200,
    small: Annotated[bool, typer.Option("--small", help="judge captions alone: needs no extra; a minute")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="print all notes too")] = False,
) -> None:
    """Measure a small drawn world whose true amplification is known. Needs no download."""
    world_folder, results = out / "world", out / "results"
    # An earlier demo is replaced; anything else is refused.
    again = (world_folder / "truth.json").is_file() and (world_folder / "world.yaml").is_file()
    RunDirectory(results if again else out, overwrite=again).check()
    if not small:
        require("images", "cv2", "PIL", "pycocotools")
    files, pixels = world_files(world_folder, CAPTIONERS), None if small else PIXELS
    settings = demo_settings(files, out, small=small) | {"seed": seed, "overwrite": again}
    config = make_config(settings, RunConfig, where="judge demo")
    with show_progress() as progress:
        world = make_world(images, seed=seed, parameters=DEMO)
        write_world(world, CAPTIONERS, files.folder, pictures=pixels, overwrite=again, progress=progress)
        result = run(config, progress=progress)
    known = {
        "optimal, caption": _optima(config.metrics, uses_images=False),
        "optimal, image too": _optima(config.metrics, uses_images=True),
    }
    if expected := read_expected(images):
        known[EXPECTED] = expected
    print_result(result, folder=results, verbose=verbose, extra=known)
    say("", "optimal: scores of both sides, and their difference, for an optimal judge with unlimited data that")
    say("reads the caption alone, or sees the image too.")
    if expected:
        say(f"{EXPECTED}: amplification that this judge finds in worlds of this size, a mean over several; the")
        say("interval is to be compared with that.")
    else:
        say("The amplification to expect was measured for 1,200 images alone (--images 1200).")
    say("", f"The world is in {files.folder}; the results are in {results}; look at {results / REPORT}")
