"""What the tables of LIC share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from _checks import difference
from _commands import Step
from _job import LIC_CAPTIONERS, NO_SKIN, Job
from _ours import Column, Field
from _published import Published
from _table import PaperTable, evaluate_step

_SIDES: tuple[tuple[str, str, Field], ...] = (
    ("lic_m", "LIC_M", "generated"),
    ("lic_d", "LIC_D", "human"),
    ("lic", "LIC", "amplification"),
)


def lic_columns(judges: Sequence[str], *, named: bool = True) -> tuple[Column, ...]:
    """LIC_M, LIC_D and LIC of each judge."""
    return tuple(
        Column(
            f"{judge.replace('-', '_')}_{key}" if named else key,
            f"{heading} ({judge})" if named else heading,
            metric="lic",
            judge=judge,
            field=field,
            signed=field == "amplification",
        )
        for judge in judges
        for key, heading, field in _SIDES
    )


def lic_table(
    name: str, number: str, title: str, *, judges: Sequence[str], attribute: str, named: bool = True, note: str = ""
) -> PaperTable:
    """LIC_M, LIC_D and LIC by some judges, of all captioners."""

    def steps(job: Job) -> list[Step]:
        inputs = job.inputs(LIC_CAPTIONERS, attribute)
        return [evaluate_step(job, inputs, metrics=("lic",), **job.judging(judges))]

    return PaperTable(
        name,
        "hirota2022quantifying",
        number,
        title,
        lic_columns(judges, named=named),
        steps,
        checks=partial(_differences, [f"{judge.replace('-', '_')}_" if named else "" for judge in judges]),
        note=note,
        not_shared=NO_SKIN if attribute == "skin" else "",
    )


def _differences(prefixes: Sequence[str], published: Published) -> list[str]:
    return [difference(published, f"{of}lic", f"{of}lic_m", f"{of}lic_d") for of in prefixes]
