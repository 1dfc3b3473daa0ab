"""ImageCaptioner2, Table 5: do metrics go with what people guess from captions of anonymous pictures (AnonymousBench)?

The pictures and people's guesses were not published, and nobody has labels of such pictures: what is repeated is the
comparison. Metrics come from a run on labelled data; people's score of a captioner is the share of its captions of
anonymous pictures from which a gender can be guessed. A small run asks no people: it has the share of captions that
name a gender, and ordinary pictures.
"""

from __future__ import annotations

from _commands import Step
from _job import LIC_CAPTIONERS, STEMS, Job
from _ours import Column, Ours, Value, value_of
from _published import Row, read_published
from _table import PaperTable, Results, evaluate_step, main

from judge.commands.anonymous import AnonymousConfig
from judge.report.anonymous import Anonymous
from judge.statistics import human_alignment
from judge.statistics.correlation import correlate

METRICS = {"lic": ("lstm",), "imagecaptioner2": ("sat",)}
KEYS = {"lic": "lic", "imagecaptioner2": "ic2"}
LEAST = 4  # Captioners of a correlation: of two it is 1 or -1.
PEARSON = ("Pearson with people, %",)
RATERS = ("rater1", "rater2", "rater3")


def steps(job: Job) -> list[Step]:
    """Each metric on labelled data; and people's scores, or what stands in for them."""
    seeing = {**job.pictures(), "mask": "segment"}
    inputs = job.inputs(LIC_CAPTIONERS)
    runs = [
        evaluate_step(job, inputs | (seeing if "sat" in of else {}), name=name, metrics=(name,), **job.judging(of))
        for name, of in METRICS.items()
    ]
    settings = {"captions": inputs["captions"]}
    if job.is_paper:
        folder = job.data / "anonymousbench"
        settings["captions"] = {name: folder / "captions" / f"{STEMS[name]}.json" for name in LIC_CAPTIONERS}
        settings |= {"images": folder / "images", "ratings": tuple(folder / "ratings" / f"{n}.csv" for n in RATERS)}
    return [*runs, Step("anonymous", AnonymousConfig, {**settings, "out": job.out / "anonymous"})]


def people_of(found: Anonymous) -> dict[str, Value]:
    """Captioner -> share, in percent, of captions from which people guess the class; without people, that name one."""
    rows = found.rated.scores if found.rated else found.captioners
    return {row.captioner: Value(row.share.value, row.share.interval).times(100) for row in rows}


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """Metrics, people's scores, and how far these go together; none of the captioners' figures is a published one's."""
    people = people_of(results["anonymous"])
    asked = "guessed" if results["anonymous"].rated else "named"
    found: dict[tuple[Row, str], Value] = {((name,), asked): score for name, score in people.items()}
    for name in METRICS.keys() & results.keys():
        values = {line.captioner: value_of(results[name], line, "amplification") for line in results[name].summaries}
        known = {captioner: value for captioner, value in values.items() if value and captioner in people}
        found |= {((captioner,), f"{KEYS[name]}_labelled"): value.times(100) for captioner, value in known.items()}
        if len(known) < LEAST:
            continue
        among = correlate([value.value for value in known.values()], [people[captioner].value for captioner in known])
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
        Column("lic_labelled", "LIC on labelled data"),
        Column("ic2_labelled", "ImageCaptioner2 on labelled data"),
        Column("guessed", "captions that people guess from, %"),
        Column("named", "captions that name a gender, %"),
    ),
    steps,
    read=read,
    derived=derived,
    not_shared="captions of pictures whose people show no gender are not at hand, nor has anybody rated any",
    note="The published LIC and ImageCaptioner2 are scores of captions of the anonymous pictures, ours amplifications "
    "on labelled data: only the correlations can be compared. The last row's published figures are those of "
    "the paper's section 5.5.1. DATA/anonymousbench/ratings holds the rating.csv that the last command leaves without "
    "--ratings, as raters filled it in.",
)

if __name__ == "__main__":
    main(TABLE)
