"""ImageCaptioner2, Table 7: emotion bias on ArtEmis v1 and v2, of speakers that are told an emotion or are not.

Nothing is hidden in the paintings; words of emotion are hidden in captions. A painting has the emotion of most of its
annotators. Runs that are not the paper's read a made-up world of paintings.
"""

from __future__ import annotations

from typing import Any

from _commands import Step
from _emotions import write_world
from _job import Job
from _ours import Column, Field, Ours, Value, value_of
from _published import Row
from _table import PaperTable, Results, evaluate_step, main

JUDGES = ("lstm", "sat")
METRICS = {"lic": "LIC", "imagecaptioner2": "ImageCaptioner2"}
SIDES: dict[str, Field] = {"_m": "generated", "_d": "human", "": "amplification"}
KEYS = {"lic": "lic", "imagecaptioner2": "ic2"}
# Of each version: its name in the table, its recipe, and the table of people's utterances.
VERSIONS = {
    "v1": ("ArtEmis v1", "artemis-v1", "artemis_dataset_release_v0.csv"),
    "v2": ("ArtEmis v2", "artemis-v2", "combined_artemis.csv"),
}
SPEAKERS = {"vanilla": ("SAT", "none"), "predicted": ("EG-SAT", "Img2Emo"), "voted": ("EG-SAT", "voting")}


def steps(job: Job) -> list[Step]:
    """A run for each version."""
    versions = VERSIONS if job.is_paper else {"v1": VERSIONS["v1"]}
    return [_step(job, version, *VERSIONS[version][1:]) for version in versions]


def _step(job: Job, version: str, recipe: str, table: str) -> Step:
    if job.is_paper:
        human, images = job.data / recipe / table, job.data / recipe / "wikiart"
        captions = {name: job.data / recipe / f"{name}.csv" for name in SPEAKERS}
    else:
        folder = job.out / "paintings"
        human, images = folder / table, folder / "images"
        captions = {path.stem: path for path in sorted((folder / "speakers").glob("*.csv"))}
    # One emotion a painting, of those that annotators told.
    inputs: dict[str, Any] = {"human": human, "captions": captions, "labels": human, "attribute": "emotion"}
    inputs |= {"label_rule": "majority", "images": images, "mask": "none"}
    judging = job.judging(JUDGES)
    if job.size == "shared":  # Pictures of one colour ask for no more; refits would take hours, weights a hub.
        judging |= {"backbone": "resnet18", "backbone_weights": "random", "image_size": 64}
        judging |= {"folds": 2, "refits": 0, "chance": 0}
    return evaluate_step(job, inputs, name=version, metrics=tuple(METRICS), **judging)


def prepare(job: Job) -> None:
    """A made-up world of paintings, for a run that is not the paper's."""
    if not job.is_paper:
        write_world(job.out / "paintings", images=200 if job.size == "small" else 1200, pictures=32)


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """A row a version and speaker."""
    found: dict[tuple[Row, str], Value] = {}
    for version, result in results.items():
        for line in result.summaries:
            row = VERSIONS[version][0], *SPEAKERS[line.captioner]
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
    steps,
    read=read,
    prepare=prepare,
    note="vanilla.csv, predicted.csv and voted.csv are captions of one's own speakers; wikiart, the paintings, may be "
    "a link to one folder for both versions.",
    shared_note="Ours: a made-up world of 1,200 paintings of one colour each, and three made-up speakers that amplify "
    "by known amounts (LIC's truth: 8, 20 and 44, times 100); SAT sees them through a random network. Nothing of it "
    "is ArtEmis's.",
)

if __name__ == "__main__":
    main(TABLE)
