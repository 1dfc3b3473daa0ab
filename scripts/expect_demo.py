"""What the demo's judges find on average over worlds: makes ``judge/calibration/expected.json``.

    python scripts/expect_demo.py --worlds 60 --seen 5

Each world is that of ``judge demo`` with another seed, and is measured with the demo's own settings, without refits:
all by the judges of captions, the first --seen also by those that use images. Results are kept in --out, and the
same command resumes from there. On two cores two seconds a world, five minutes with images.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from bench_trust import read_lines

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import CAPTIONERS, DEMO
from judge.commands.demo import PIXELS, demo_settings
from judge.commands.evaluate import RunConfig, run
from judge.config import make_config

EXPECTED = Path(__file__).parents[1] / "judge" / "calibration" / "expected.json"
# The demo shows worlds of the first seeds: what is expected of them comes from others.
FIRST_SEED = 1000


def main(
    worlds: Annotated[int, typer.Option(min=2)] = 60,
    seen: Annotated[int, typer.Option(help="worlds measured with images as well", min=2)] = 5,
    images: int = 1200,
    out: Annotated[Path, typer.Option(help="file of the results so far")] = Path("runs/expected.jsonl"),
) -> None:
    """Measure worlds, and write their means."""
    out.parent.mkdir(parents=True, exist_ok=True)
    seeds = range(FIRST_SEED, FIRST_SEED + worlds)
    rows = [row for line in read_lines(out) for row in line if row["images"] == images and row["seed"] in seeds]
    for seed in seeds:
        with_images = seed < FIRST_SEED + seen
        if sum(row["seed"] == seed for row in rows) >= len(CAPTIONERS) * (2 if with_images else 1):
            continue
        found = measure(seed, images, with_images=with_images)
        with out.open("a") as file:
            file.write(json.dumps(found) + "\n")
        rows += found
        print(f"world {seed - FIRST_SEED + 1} of {worlds}", flush=True)
    EXPECTED.write_text(json.dumps(summarise(rows, images), indent=1) + "\n", encoding="utf-8")


def measure(seed: int, images: int, *, with_images: bool) -> list[dict[str, Any]]:
    """The table of one world."""
    pictures = PIXELS if with_images else None
    with TemporaryDirectory() as folder:
        files = write_world(
            make_world(images, seed=seed, parameters=DEMO), CAPTIONERS, Path(folder) / "world", pictures=pictures
        )
        settings = demo_settings(files, Path(folder), small=not with_images)
        settings |= {"seed": seed, "refits": 0, "chance": 0, "out": None}
        result = run(make_config(settings, RunConfig))
    return [
        {"seed": seed, "images": images, "row": f"{of.captioner} {of.metric.name}", "amplification": of.amplification}
        for of in result.summaries
    ]


def summarise(rows: Sequence[dict[str, Any]], images: int) -> dict[str, Any]:
    """The mean amplification over worlds, and its standard deviation."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(row["row"] for row in rows):
        values = np.array([row["amplification"] for row in rows if row["row"] == name])
        mean, sd = float(values.mean()), float(values.std(ddof=1))
        found[name] = {"amplification": round(mean, 4), "sd": round(sd, 4), "worlds": len(values)}
    return {"images": images, "rows": found}


if __name__ == "__main__":
    typer.run(main)
