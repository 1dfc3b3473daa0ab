"""LIC, Table 1: gender bias by seven metrics, and how well captioners describe."""

from __future__ import annotations

from typing import Any

from _checks import equal
from _commands import Step
from _job import LIC_CAPTIONERS, Job
from _ours import Column
from _published import Published, read_published
from _table import PaperTable, evaluate_step, main

JUDGES = ("lstm",)


def steps(job: Job) -> list[Step]:
    """One run: judged and counted metrics, and scores of captions."""
    inputs = job.inputs(LIC_CAPTIONERS)
    metrics = ("lic", "ratio", "error", "ba", "dba-g", "dba-o")
    few: dict[str, Any] = {"least": 1} if job.size == "small" else {}
    return [
        evaluate_step(job, inputs, objects=job.objects(), metrics=metrics, **job.judging(JUDGES), quality=True, **few)
    ]


def checks(published: Published) -> list[str]:
    """LIC and LIC_M are Table 2's."""
    second = read_published("lic_table2")
    return [
        equal(published.column(mine), second.column(f"lstm_{mine}"), f"{heading} here and in Table 2 (LSTM)")
        for mine, heading in (("lic", "LIC"), ("lic_m", "LIC_M"))
    ]


TABLE = PaperTable(
    "lic_table1",
    "hirota2022quantifying",
    "Table 1",
    "gender bias by seven metrics, and accuracy",
    (
        Column("lic", "LIC", metric="lic", judge="lstm", signed=True),
        Column("lic_m", "LIC_M", metric="lic", judge="lstm", field="generated"),
        Column("ratio", "Ratio", 2, metric="ratio", field="generated", scale=1),
        Column("error", "Error", metric="error", field="generated"),
        Column("ba", "BA", 2, metric="ba", field="published", signed=True),
        Column("dba_g", "DBA_G", 2, metric="dba-g", field="published", signed=True),
        Column("dba_o", "DBA_O", 2, metric="dba-o", field="published", signed=True),
        Column("bleu_4", "BLEU-4", metric="BLEU-4", field="quality"),
        Column("cider", "CIDEr", metric="CIDEr", field="quality"),
        Column("meteor", "METEOR", metric="METEOR", field="quality"),
        Column("rouge_l", "ROUGE-L", metric="ROUGE-L", field="quality"),
    ),
    steps,
    checks=checks,
    note="Intervals of BA, DBA_G and DBA_O are for what a captioner adds, moved to the published form of the metric; "
    "METEOR needs Java. The paper has LIC on 6,628 images in equal classes, and all other columns on the whole of "
    "COCO's val2014; the released files have 10,780. "
    "DBA_G here, and BA of NIC+Equalizer, have the other sign than published: the images, the labels (derived) and the "
    "objects are others, and which of these it is was not found out. The threshold of words is not it: by --least 100 "
    "BA is +5.1 and -0.3.",
)

if __name__ == "__main__":
    main(TABLE)
