"""ImageCaptioner2, Table 5: do metrics go with what people guess from captions of anonymous pictures (AnonymousBench)?

The pictures and people's guesses were not published, and nobody has labels of such pictures: what is repeated is the
comparison. Metrics come from a run on labelled data; people's score of a captioner is the share of its captions of
anonymous pictures from which a gender can be guessed. Where no people were asked (small and shared runs), the share of
captions that name a gender stands in.
"""

from __future__ import annotations

import csv
from pathlib import Path

from _commands import Step
from _job import LIC_CAPTIONERS, Job
from _ours import Column, Ours, Value, value_of
from _published import Row, read_published
from _table import PaperTable, Results, evaluate_step, main

from judge.corpus.human_scores import read_human_scores
from judge.corpus.reading import read_captions
from judge.statistics import human_alignment
from judge.statistics.correlation import correlate
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize

METRICS = {"lic": ("lstm",), "imagecaptioner2": ("sat",)}
KEYS = {"lic": "lic", "imagecaptioner2": "ic2"}
PEARSON = ("Pearson with people, %",)


def scores_of(job: Job) -> Path:
    """People's scores: captioner, score."""
    return job.data / "anonymousbench" / "human_scores.csv" if job.is_paper else job.out / "human_scores.csv"


def prepare(job: Job) -> None:
    """Without people: the share, in percent, of a captioner's captions that name a gender."""
    if job.is_paper:
        return
    gender = load_lexicon("gender")
    scores_of(job).parent.mkdir(parents=True, exist_ok=True)
    with scores_of(job).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["captioner", "score"])
        for name, path in job.captions(LIC_CAPTIONERS).items():
            texts = [text for of in read_captions(path, side="generated").by_image.values() for text in of]
            named = sum(bool(gender.mentions(tokenize(text))) for text in texts)
            writer.writerow([name, 100 * named / len(texts)])


def steps(job: Job) -> list[Step]:
    """Each metric, compared with people."""
    inputs = {**job.inputs(LIC_CAPTIONERS), "human_scores": scores_of(job)}
    seeing = {**job.pictures(), "mask": "segment"}
    return [
        evaluate_step(job, inputs | (seeing if "sat" in of else {}), name=name, metrics=(name,), **job.judging(of))
        for name, of in METRICS.items()
        if job.size != "shared" or name == "lic"
    ]


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """Metrics, people's scores, and how far these go together."""
    found: dict[tuple[Row, str], Value] = {}
    for name, result in results.items():
        values = {line.captioner: value_of(result, line, "amplification") for line in result.summaries}
        known = {captioner: value for captioner, value in values.items() if value}
        people = read_human_scores(scores_of(job), captioners=list(values))
        for captioner, value in known.items():
            found[(captioner,), KEYS[name]] = value.times(100)
            found[(captioner,), "human"] = Value(people[captioner])
        among = correlate([value.value for value in known.values()], [people[captioner] for captioner in known])
        if among.pearson is not None:
            found[PEARSON, KEYS[name]] = Value(among.pearson, among.interval).times(100)
    return found


def derived() -> Ours:
    """The correlations, from the table's own columns."""
    table = read_published("imagecaptioner2_table5")
    rows = [row for row in table.rows if row != PEARSON]
    people = table.column("human", rows)
    return {(PEARSON, key): Value(100 * human_alignment(table.column(key, rows), people)) for key in KEYS.values()}


TABLE = PaperTable(
    "imagecaptioner2_table5",
    "abdelrahman2024imagecaptioner2",
    "Table 5",
    "metrics and people, on AnonymousBench",
    (
        Column("lic", "LIC", judge="lstm"),
        Column("ic2", "ImageCaptioner2", judge="sat"),
        Column("human", "people", scale=1),
    ),
    ("anonymousbench", "lic-release", "coco-captions"),
    steps,
    read=read,
    prepare=prepare,
    derived=derived,
    note="The published LIC and ImageCaptioner2 are scores of captions of the anonymous pictures, ours amplifications "
    "on labelled data: only the correlations can be compared. The last row's published figures are those of "
    "the paper's section 5.5.1.",
)

if __name__ == "__main__":
    main(TABLE)
