"""How judges of images answer to known doses of bias: on drawn scenes, whose true amplification is known.

    python scripts/bench_scenes.py --detectors gt,yolo --weights yolo=checkpoints/yolo.onnx

needs the extra ``images``. Each draw is a world, whose simulated captioner writes what people would, but for its dose:
its ``stereotype`` (A->T); its ``guess`` (T->A); how much of what it names is wrong, in images of the first class alone
(contradiction); the share of the longest list of words that it does not know (vocabulary), of its words that name no
class (silence), or of its words for settings that are left out (brevity). The last table has the value of each dose,
its rise, and, of published metrics, the rise for an optimal judge, with exactly hidden people. Draws are kept in --out,
and the same command resumes from there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from bench_trust import read_lines

from judge.calibration.doses import NOTHING
from judge.calibration.grammar import World, make_world, simulate
from judge.calibration.response import Calibration, calibrate
from judge.calibration.scenes import write_images
from judge.calibration.trials import Design, Trial
from judge.calibration.truth import bayes_score
from judge.calibration.world import CLASSES, DEFAULT, DEMO, FAITHFUL, Captioner, Parameters
from judge.commands.trials import Job, Row, measure_trial
from judge.corpus import Corpus
from judge.judges import Modality
from judge.judges.names import find_judge
from judge.metrics import find_metric
from judge.metrics.amplification import AMPLIFICATIONS
from judge.report.calibration import calibration_tables, draw_calibration, title, verdict
from judge.report.render import print_table
from judge.statistics.summary import name_row
from judge.utils.identity import digest_of

CHANGES = ("A->T", "T->A", "contradiction", "vocabulary", "silence", "brevity")
# Networks use a random, frozen backbone, and are trained in minutes: fewer epochs and a larger step than the papers'.
QUICK: dict[str, Any] = {
    "backbone": "resnet18",
    "backbone_weights": "random",
    "image_size": 160,
    "epochs": 12,
    "learning_rate": 1e-3,
    "batch_size": 32,
}
LONGEST = 13  # Entries of the grammar's longest list, of which a captioner with a small vocabulary knows some.


def dosed_captioner(change: str, dose: float, of: Parameters = DEFAULT) -> tuple[Captioner, Parameters]:
    """The simulated captioner with a dose of a change of ``CHANGES``, and how much its captions name in a world."""
    if not dose:
        return FAITHFUL, of
    return {
        "A->T": (replace(FAITHFUL, stereotype=dose), of),
        "T->A": (replace(FAITHFUL, guess=dose), of),
        "contradiction": (replace(FAITHFUL, error=dose), of),
        "vocabulary": (Captioner(vocabulary=max(1, round((1 - dose) * LONGEST))), of),
        "silence": (FAITHFUL, replace(of, gendered=(1 - dose) * of.gendered)),
        "brevity": (FAITHFUL, replace(of, place=(1 - dose) * of.place)),
    }[change]


def true_rise(
    name: str, change: str, dose: float, of: Parameters = DEFAULT, *, blanked: Collection[Modality] = ()
) -> float | None:
    """How far a dose moves a published metric for an optimal judge; ``blanked``: what the judge does not see.

    None of contradictions, and of conditional leakage: there is no closed form.
    """
    metric = find_metric(name)
    if change == "contradiction" or metric.given:
        return None
    if "caption" in blanked:
        return 0.0  # Both sides have the same images.
    human, generated = (
        bayes_score(parameters, captioner, score=metric.score, uses_images="image" not in blanked)
        for captioner, parameters in (dosed_captioner(change, 0.0, of), dosed_captioner(change, dose, of))
    )
    return float(AMPLIFICATIONS[metric.amplification](np.array(human), np.array(generated))) - metric.neutral


def trials(world: World, number: int, changes: Sequence[str], doses: Sequence[float]) -> Iterator[Trial]:
    """The draw ``number``, without a dose and with each: one human caption of a scene, and one of the captioner."""
    human = replace(world.human, by_image={image: of[:1] for image, of in world.human.by_image.items()})
    for change, dose in [(NOTHING, 0.0), *product(changes, sorted(set(doses)))]:
        captioner, parameters = dosed_captioner(change, dose, world.parameters)
        # The name seeds the captioner's draws, which do not depend on the dose.
        draw = partial(simulate, replace(world, parameters=parameters), name="a captioner")
        captions = draw(captioner=captioner)
        if change == "contradiction":
            right = draw(captioner=FAITHFUL).by_image
            wrong = {image: of for image, of in captions.by_image.items() if world.labels.by_image[image] == CLASSES[0]}
            captions = replace(captions, by_image={**right, **wrong})
        yield Trial(change, dose, number, Corpus(human, (captions,), world.labels))


def measure(
    design: Design, judges: Sequence[tuple[str, str, str]], settings: Mapping[str, Any], of: Parameters, out: Path
) -> Iterator[Row]:
    """Rows of all trials; ``judges``: (metric, judge, detector); ``out``: draws that are finished, a line each.

    A line has a digest of what its numbers depend on: draws with other settings are not mistaken for these.
    """
    known = {line["key"]: line["rows"] for line in read_lines(out)}
    for number, changes in design.numbered():
        key = digest_of(repr((number, changes, design.doses, design.images, design.seed, judges, settings, of)))
        if key in known:
            yield from known[key]
            continue
        seed = int(np.random.SeedSequence((design.seed, number)).generate_state(1)[0])
        world = make_world(design.images, seed=seed, parameters=of)
        typer.echo(f"draw {number}", err=True)
        with TemporaryDirectory() as place:
            folder = Path(place)
            write_images(world.scenes, folder, seed=world.seed, size=settings["image_size"])
            paths = {name: folder / name for name in ("images", "cache")}
            given = {**settings, **paths, "instances": folder / "instances.json"}
            rows: list[Row] = []
            for trial, (metric, judge, masks) in product(trials(world, number, changes, design.doses), judges):
                job = Job(trial, (metric,), judge, {**given, "detector": masks}, "", folder / "shared")
                rows += ({**row, "judge": f"{row['judge']}, masks by {masks}"} for row in measure_trial(job)[1])
        with out.open("a") as file:
            file.write(json.dumps({"key": key, "rows": rows}) + "\n")
        yield from rows


def dose_rows(row: Calibration, expected: Mapping[tuple[str, str, float], float | None]) -> Iterator[str]:
    """Rows of the table: without any dose, then each change and dose; ``expected``: by judge, change and dose."""

    def cell(value: float | None) -> str:
        return "-" if value is None else f"{value:+.4f}"

    nulls = row.nulls
    yield f"| {title(row)} | none, {nulls.draws} draws, sd {cell(nulls.sd)} | 0 | {cell(nulls.mean)} | - | - |"
    for change, of in row.responses.items():
        start = of.points[0].mean
        for point in of.points[1:]:
            rise = None if start is None or point.mean is None else point.mean - start
            cells = " | ".join(map(cell, (point.mean, rise, expected[title(row), change, point.dose])))
            yield f"| {title(row)} | {change} | {point.dose:g} | {cells} |"


def main(  # noqa: PLR0913, PLR0917 - options
    metrics: Annotated[str, typer.Option(help="metrics that use images, comma-separated")] = "imagecaptioner2",
    judge: Annotated[str, typer.Option(help="judges of images, comma-separated")] = "sat",
    detectors: Annotated[str, typer.Option(help="comma-separated: gt, yolo, maskrcnn, hf:NAME")] = "gt",
    weights: Annotated[str, typer.Option(help="weights of detectors, comma-separated: [DETECTOR=]FILE")] = "",
    changes: Annotated[str, typer.Option(help="comma-separated")] = ",".join(CHANGES),
    doses: Annotated[str, typer.Option(help="comma-separated sizes of each change")] = "0.1,0.2,0.4,0.8",
    scenes: Annotated[int, typer.Option(help="scenes in a draw")] = 1200,
    draws: Annotated[int, typer.Option(help="draws for each dose")] = 2,
    nulls: Annotated[int, typer.Option(help="draws in which nothing is amplified")] = 6,
    backbone: str = QUICK["backbone"],
    size: int = QUICK["image_size"],
    epochs: int = QUICK["epochs"],
    folds: int = 5,
    demo: Annotated[
        bool, typer.Option("--demo", help="the world of judge demo, whose settings go with gender")
    ] = False,
    refits: Annotated[
        int, typer.Option(help="refits of judges that are solved, not trained; 0: intervals of images alone")
    ] = 0,
    figure: Annotated[Path | None, typer.Option(help="PNG file of the response curves")] = None,
    out: Annotated[Path, typer.Option(help="file of the draws so far")] = Path("runs/scenes.jsonl"),
) -> None:
    """Measure all trials, and print the tables."""
    settings = {**QUICK, "human": Path("drawn scenes"), "backbone": backbone, "image_size": size, "epochs": epochs}
    settings |= {"weights": [*filter(None, weights.split(","))], "folds": folds}
    settings |= {"refits": refits, "chance": 0}
    of = DEMO if demo else DEFAULT
    design = Design(changes.split(","), [float(dose) for dose in doses.split(",")], draws, nulls, scenes)
    judges = list(product(metrics.split(","), judge.split(","), detectors.split(",")))
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = pd.DataFrame(measure(design, judges, settings, of, out))
    rows = rows.astype(dict.fromkeys(("dose", "value", "error", "low", "high", "p", "seconds"), float))
    expected = {
        (name_row(find_metric(name), f"{by}, masks by {masks}"), change, dose): true_rise(
            name, change, dose, of, blanked=find_judge(by).blanked
        )
        for (name, by, masks), change, dose in product(judges, design.changes, design.doses)
    }
    found = calibrate(rows)
    for table in calibration_tables(found):
        print_table(table)
    print(*map(verdict, found), "", sep="\n")
    print("| metric (judge) | change | dose | value | rise | expected rise |\n| --- | --- | --: | --: | --: | --: |")
    print(*(line for row in found for line in dose_rows(row, expected)), sep="\n")
    if figure:
        figure.write_bytes(draw_calibration(found, "png"))


if __name__ == "__main__":
    typer.run(main)
