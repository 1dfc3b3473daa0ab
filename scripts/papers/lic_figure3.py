"""LIC, Figure 3: does LIC go with a captioner's vocabulary, and with how well it describes (BLEU-4)?"""

from __future__ import annotations

from _commands import Step
from _job import LIC_CAPTIONERS, Job
from _ours import Column, Ours, Value
from _published import Published, Row, read_published
from _table import PaperTable, Results, evaluate_step, main

from judge.statistics.correlation import correlate

JUDGES = ("lstm",)
VOCABULARY, BLEU = ("LIC over vocabulary size",), ("LIC over BLEU-4",)


def steps(job: Job) -> list[Step]:
    """All captioners there are: a trend needs many."""
    inputs = job.inputs(LIC_CAPTIONERS)
    if not job.is_paper:
        inputs["captions"] = job.found()
    # Of the values a trend is made; their intervals, which take longest, are not read.
    judging = job.judging(JUDGES) | {"refits": 0, "chance": 0}
    return [evaluate_step(job, inputs, metrics=("lic",), **judging, quality=True)]


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """The share of LIC's variance that a straight line explains."""
    result = results["run"]
    values = {row.captioner: row.amplification for row in result.summaries}
    sizes = {name: float(found.vocabulary["generated"]) for name, found in result.quality.items()}
    scores = {name: found.value("BLEU-4") for name, found in result.quality.items()}
    found: dict[tuple[Row, str], Value] = {}
    for row, of in ((VOCABULARY, sizes), (BLEU, scores)):
        both = [name for name in values if name in of and values[name] is not None]
        pearson = correlate([of[name] for name in both], [values[name] for name in both]).pearson
        if pearson is not None and len(both) > 2:
            found[row, "r_squared"] = Value(pearson**2)
    return found


def derived() -> Ours:
    """BLEU-4 and LIC stand in Table 1; sizes of vocabularies are not published."""
    table = read_published("lic_table1")
    pearson = correlate(table.column("bleu_4"), table.column("lic")).pearson
    assert pearson is not None
    return {(BLEU, "r_squared"): Value(pearson**2)}


def checks(published: Published) -> list[str]:
    """Without the captioner that the figure calls an outlier."""
    table = read_published("lic_table1")
    rows = [row for row in table.rows if row != ("NIC+Equalizer",)]
    pearson = correlate(table.column("bleu_4", rows), table.column("lic", rows)).pearson
    assert pearson is not None
    whole = derived()[BLEU, "r_squared"].value
    return [
        (
            f"From Table 1's figures R² of LIC over BLEU-4 is {whole:.3f}; without NIC+Equalizer, the outlier, "
            f"{pearson**2:.3f}."
        )
    ]


TABLE = PaperTable(
    "lic_figure3",
    "hirota2022quantifying",
    "Figure 3",
    "LIC against vocabulary and BLEU-4",
    (Column("r_squared", "R²", 3, judge="lstm"),),
    steps,
    read=read,
    derived=derived,
    checks=checks,
    note="The figure's points are not published; R² over BLEU-4 follows from Table 1. The tests' real captions "
    "are of four variants of one captioner (NIC+), with nearly the same BLEU-4: no trend can be expected of them. "
    "In the paper BLEU-4 is of COCO's whole val2014, LIC of 6,628 images.",
)

if __name__ == "__main__":
    main(TABLE)
