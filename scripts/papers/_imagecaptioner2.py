"""What the tables of ImageCaptioner2 share: LIC by two judges of words, ImageCaptioner2 by two that see pictures."""

from __future__ import annotations

from collections.abc import Sequence

from _checks import judges_agree
from _commands import Step
from _job import LIC_CAPTIONERS, NO_SKIN, Job
from _ours import Column
from _published import Published
from _table import PaperTable, evaluate_step

TEXT, SEEING = ("lstm", "bert-ft"), ("sat", "grit")


def metric_columns(digits: int = 2) -> tuple[Column, ...]:
    """Amplification by each judge."""
    named = (
        *(("lic_lstm", "LIC (LSTM)", "lic", "lstm"), ("lic_bert", "LIC (BERT)", "lic", "bert-ft")),
        ("ic2_sat", "ImageCaptioner2 (SAT)", "imagecaptioner2", "sat"),
        ("ic2_grit", "ImageCaptioner2 (GRIT)", "imagecaptioner2", "grit"),
    )
    return tuple(
        Column(key, heading, digits, metric=metric, judge=judge, signed=True) for key, heading, metric, judge in named
    )


def imagecaptioner2_table(name: str, number: str, title: str, *, attribute: str, told: Sequence[str]) -> PaperTable:
    """Both metrics by both of their judges; ``told``: what the paper's text says of LIC's judges and of its own."""

    def steps(job: Job) -> list[Step]:
        inputs = job.inputs(LIC_CAPTIONERS, attribute)
        reading = evaluate_step(job, inputs, name="lic", metrics=("lic",), **job.judging(TEXT))
        if job.size == "shared":  # No pictures are at hand.
            return [reading]
        hiding = {"mask": "segment", "metrics": ("imagecaptioner2",)}
        # People are hidden in pictures, whatever the attribute.
        return [reading, evaluate_step(job, inputs | job.pictures(), name="seeing", **hiding, **job.judging(SEEING))]

    def checks(published: Published) -> list[str]:
        lic, own = told
        return [
            judges_agree(published, "lic_lstm", "lic_bert", lic),
            judges_agree(published, "ic2_sat", "ic2_grit", own),
        ]

    return PaperTable(
        name,
        "abdelrahman2024imagecaptioner2",
        number,
        title,
        metric_columns(),
        steps,
        checks=checks,
        not_shared=NO_SKIN if attribute == "skin" else "",
    )
