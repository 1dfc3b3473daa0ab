"""DPAC, Table 4: human captions after constant and contextual substitution: METEOR, LIC_D, psi of T->A."""

from __future__ import annotations

import math

from _commands import Step
from _job import DPAC_CAPTIONERS, Job
from _ours import Column, Ours, Value, value_of
from _published import Published, Row
from _table import PaperTable, Results, evaluate_step, main

from judge.commands.align import AlignConfig

JUDGES, KINDS = ("lstm-bidirectional+mlp5",), ("constant", "contextual")
METRICS = {"lic": "lic_d", "dpac-ta": "psi"}
SCALES = {"lic": 100, "dpac-ta": 1}
"""Times 100, psi of a judge that knows nothing would be P(a), over 50: the paper's 10 to 22 can only be plain."""

PSI = "psi is read as it is, not times 100, and has no interval: the rarer a picture's tasks the more they weigh."


def steps(job: Job) -> list[Step]:
    """One alignment, and a run with each kind."""
    inputs = job.inputs(DPAC_CAPTIONERS)
    vectors = {name: value for name, value in job.aligning().items() if name != "alignment"}
    align = Step(
        "align",
        AlignConfig,
        {**inputs, **vectors, "meteor": 0 if job.size == "small" else 5000, "out": job.out / "align"},
    )
    judging = job.judging(JUDGES)
    return [
        align,
        *(
            evaluate_step(
                job, inputs, objects=job.objects(), name=how, metrics=tuple(METRICS), **job.aligning(how), **judging
            )
            for how in KINDS
        ),
    ]


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """Both kinds beside each other."""
    found: dict[tuple[Row, str], Value] = {}
    for entry in results["align"].alignments:
        for how in KINDS:
            row = (entry.captioner,)
            if not math.isnan(entry.meteor[how]):
                found[row, f"meteor_{how}"] = Value(entry.meteor[how])
            report = entry.reports[how]
            found[row, f"kept_{how}"] = Value(100 * (report.tokens_kept + report.tokens_substituted))
    for how in KINDS:
        for line in results[how].summaries:
            if side := value_of(results[how], line, "human"):
                found[(line.captioner,), f"{METRICS[line.metric.name]}_{how}"] = side.times(SCALES[line.metric.name])
    return found


def checks(published: Published) -> list[str]:
    """What the paper concludes."""
    lines = []
    for key, heading in (("meteor", "METEOR"), ("lic_d", "LIC_D"), ("psi", "psi_D")):
        pairs = zip(*(published.column(f"{key}_{how}") for how in KINDS), strict=True)
        more = sum(later > before for before, later in pairs)
        lines.append(f"Published {heading} is higher after contextual substitution for {more} of 8 captioners.")
    return lines


TABLE = PaperTable(
    "dpac_table4",
    "nair2025dpac",
    "Table 4",
    "human captions after constant and contextual substitution",
    (
        *(Column(f"meteor_{how}", f"METEOR, {how}", 2, scale=1) for how in KINDS),
        *(Column(f"kept_{how}", f"% of words not <unk>, {how}") for how in KINDS),
        *(Column(f"lic_d_{how}", f"LIC_D, {how}", 2, judge=JUDGES[0]) for how in KINDS),
        *(Column(f"psi_{how}", f"psi_D, {how}", 2, judge=JUDGES[0]) for how in KINDS),
    ),
    steps,
    read=read,
    checks=checks,
    note="METEOR needs Java. Words that are not <unk> are ours alone: words kept, and words exchanged for a near one. "
    "Which encoder the paper took is not said: its Table 2 has the figures of its Table 3 by the bidirectional LSTM. "
    f"{PSI}",
)

if __name__ == "__main__":
    main(TABLE)
