"""ImageCaptioner2, Table 7: emotion bias on ArtEmis v1 and v2, of speakers that are told an emotion or are not.

Nothing is hidden in the paintings; words of emotion are hidden in captions. A painting has the emotion of most of its
annotators. A small run reads a made-up world of paintings, where this project has one; else drawn scenes, whose classes
then stand in for emotions.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _commands import Step
from _job import Job
from _ours import Column, Field, Ours, Value, value_of
from _published import Row
from _table import PaperTable, Results, evaluate_step, main

from judge.config import RunConfig

JUDGES = ("lstm", "sat")
METRICS = {"lic": "LIC", "imagecaptioner2": "ImageCaptioner2"}
SIDES: dict[str, Field] = {"_m": "generated", "_d": "human", "": "amplification"}
KEYS = {"lic": "lic", "imagecaptioner2": "ic2"}
# Of each version: its name in the table, its recipe, and the table of people's utterances.
VERSIONS = {
    "v1": ("ArtEmis v1", "artemis-v1", "artemis_dataset_release_v0.csv"),
    "v2": ("ArtEmis v2", "artemis-v2", "combined_artemis.csv"),
}
SPEAKERS = {"sat": ("SAT", "none"), "img2emo": ("EG-SAT", "Img2Emo"), "voting": ("EG-SAT", "voting")}
WORLD = "judge.calibration.emotions"
# One emotion a painting, of those that annotators told.
RULE = {"label_rule": "majority"} if "label_rule" in RunConfig.model_fields else {}


def steps(job: Job) -> list[Step]:
    """A run for each version."""
    versions = VERSIONS if job.size == "paper" else {"v1": VERSIONS["v1"]}
    return [_step(job, version, *VERSIONS[version][1:]) for version in versions]


def _step(job: Job, version: str, recipe: str, table: str) -> Step:
    inputs: dict[str, Any]
    if job.size == "paper":
        human = job.data / recipe / table
        captions = {name: job.data / recipe / f"{name}.csv" for name in SPEAKERS}
        inputs = {"human": human, "captions": captions, "labels": human, "attribute": "emotion", **RULE}
        inputs["images"] = job.data / "wikiart"
    elif _has_world():
        folder = job.out / "paintings"
        human = folder / "artemis_dataset_release_v0.csv"
        captions = {path.stem: path for path in sorted((folder / "speakers").glob("*.csv"))}
        inputs = {"human": human, "captions": captions, "labels": human, "attribute": "emotion", **RULE}
        inputs["images"] = folder / "images"
    else:
        inputs = {**job.inputs(()), "attribute": "emotion", "lexicon": "none", "label_column": "gender"}
        inputs |= {"images": job.pictures()["images"]}
    return evaluate_step(job, inputs, name=version, mask="none", metrics=tuple(METRICS), **job.judging(JUDGES))


def _has_world() -> bool:
    return find_spec(WORLD) is not None


def prepare(job: Job) -> None:
    """A made-up world of paintings, for a run that is not the paper's."""
    if job.size != "paper" and _has_world():
        folder: Path = job.out / "paintings"
        import_module(WORLD).write_world(folder, images=200, pictures=32)


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """A row a version and speaker."""
    found: dict[tuple[Row, str], Value] = {}
    for version, result in results.items():
        for line in result.summaries:
            row = VERSIONS[version][0], *SPEAKERS.get(line.captioner, (line.captioner, "-"))
            for ending, side in SIDES.items():
                if value := value_of(result, line, side):
                    found[row, KEYS[line.metric.name] + ending] = value.times(100)
    return found


TABLE = PaperTable(
    "imagecaptioner2_table7",
    "abdelrahman2024imagecaptioner2",
    "Table 7",
    "emotion bias on ArtEmis",
    tuple(
        Column(KEYS[metric] + ending, f"{name} {heading}", 2, judge=judge, signed=not ending)
        for (metric, name), judge in zip(METRICS.items(), JUDGES, strict=True)
        for ending, heading in zip(SIDES, ("M", "D", "amplification"), strict=True)
    ),
    ("artemis-v1", "artemis-v2"),
    steps,
    read=read,
    prepare=prepare,
    note="DATA/artemis-v1 and DATA/artemis-v2 also hold sat.csv, img2emo.csv and voting.csv, captions of one's own "
    "speakers; DATA/wikiart the paintings.",
)

if __name__ == "__main__":
    main(TABLE)
