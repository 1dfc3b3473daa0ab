"""The tables of ``tables.yaml``: what each needs, the commands that make it, its figures and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from figures import Column, Ours, Published, by_captioner, difference, judges_agree, read_published
from jobs import CAPTIONERS, LIC_CAPTIONERS, Job, Size, Step, is_recipe, run_steps

from judge.commands.console import show_progress
from judge.commands.evaluate import RunConfig
from judge.measure import Result

Results = Mapping[str, Any]
"""Name of a step -> what its command returned."""
PAPERS = {
    "hirota2022quantifying": "LIC",
    "abdelrahman2024imagecaptioner2": "ImageCaptioner2",
    "nair2026dbac": "DBAC",
    "nair2025dpac": "DPAC",
}
NOTES: Mapping[Size, str] = {
    "paper": "Ours: the paper's own protocol, on its data.",
    "shared": "Ours: real captions of fewer images than the paper's, with labels derived from the human captions, "
    "and a quicker judge: not a repetition of the published figures.",
    "small": "SMALL RUN: a drawn world of a few scenes, captioners of its own, judges that hardly learnt. It shows "
    "that everything runs; its figures cannot be compared with the published ones.",
}


@dataclass(frozen=True)
class Code:
    """What a table's entry cannot say.

    Attributes:
        steps: the commands of a run.
        read: ours, from what the commands returned; by default a row for each captioner of ``judge evaluate``.
        columns: of figures, where the entry has none.
        prepare: write what the commands read, where that is not the data itself.
        reads: files that ``prepare`` and ``read`` read themselves.
        derived: ours where they follow from other published tables.
        checks: what the published figures say of each other, a line each.
    """

    steps: Callable[[Job], Sequence[Step]]
    read: Callable[[Job, Results], Ours] | None = None
    columns: Sequence[Column] = ()
    prepare: Callable[[Job], None] | None = None
    reads: Callable[[Job], Sequence[Path]] | None = None
    derived: Callable[[], Ours] | None = None
    checks: Callable[[Published], Sequence[str]] | None = None


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper: an entry of ``tables.yaml``, with the name of its CSV of published figures."""

    name: str
    paper: str
    number: str
    title: str
    columns: Sequence[Column]
    code: Code
    note: str = ""
    shared_note: str = ""
    not_shared: str = ""

    @property
    def heading(self) -> str:
        """Paper, number and title."""
        return f"{PAPERS[self.paper]}, {self.number}: {self.title}"

    @property
    def published(self) -> Published:
        """Its figures, as printed."""
        return read_published(self.name)

    @property
    def judges(self) -> list[str]:
        """The judges of its columns."""
        return list(dict.fromkeys(column.judge for column in self.columns if column.judge))

    def about(self, size: Size) -> str:
        """What ours of a run of this size are made of."""
        return self.shared_note if size == "shared" and self.shared_note else NOTES[size]

    def compares(self, size: Size) -> bool:
        """Whether ours of a run of this size can be compared with the published figures."""
        return size == "paper" or (size == "shared" and not self.shared_note)

    @property
    def shown(self) -> Job:
        """The paper's run, on a folder DATA."""
        return Job("paper", Path("DATA"), Path("runs/papers") / self.name, shown=True)

    @property
    def needs(self) -> list[str]:
        """What the paper's run reads below DATA: recipes of data/recipes, and folders that no recipe fills."""
        words = [word.rpartition("=")[2] for step in self.code.steps(self.shown) for word in step.words()]
        paths = [*(self.code.reads(self.shown) if self.code.reads else []), *map(Path, words)]
        first = dict.fromkeys(path.parts[1] for path in paths if path.parts[:1] == ("DATA",))
        return sorted((name if is_recipe(name) else f"DATA/{name}" for name in first), key=lambda name: "DATA" in name)

    @property
    def lines(self) -> list[str]:
        """The note, and what the published figures say of each other."""
        checks = self.code.checks(self.published) if self.code.checks else []
        return [*([self.note] if self.note else []), *checks]

    def commands(self, job: Job | None = None) -> list[str]:
        """The commands of a run for a shell; by default of the paper's, on a folder DATA."""
        return [step.line() for step in self.code.steps(job or self.shown)]

    def run(self, job: Job, *, overwrite: bool = False) -> Ours:
        """Run the commands; with ``overwrite`` in place of earlier results.

        Raises:
            JudgeError: anything that the user can mend.
        """
        for step in self.code.steps(job):
            job.need(step.settings)
        if self.code.prepare:
            self.code.prepare(job)
        with show_progress() as progress:
            steps = self.code.steps(job)
            results = run_steps(steps, progress, overwrite=overwrite, report=job.size != "small")
        if self.code.read:
            return self.code.read(job, results)
        found = [result for result in results.values() if isinstance(result, Result)]
        return by_captioner(self.columns, found, job.stand_ins(self.judges))


@dataclass(frozen=True)
class _Entry:
    """An entry of ``tables.yaml``, as it stands there."""

    paper: str
    number: str
    title: str
    captioners: str = ""
    attribute: str = "gender"
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    columns: Sequence[Mapping[str, Any]] = ()
    family: str = ""
    code: str = ""
    judges: Sequence[str] = ()
    metrics: Sequence[str] = ()
    sources: tuple[str, str, str] = ("", "", "")
    agreement: Sequence[str] = ()
    plain: bool = False
    note: str = ""
    shared_note: str = ""
    not_shared: str = ""


@cache
def load_tables() -> Mapping[str, PaperTable]:
    """Name -> table, in the order of the papers and of their numbers."""
    raw = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {name: _table(name, _Entry(**entry)) for name, entry in raw.items()}


def _table(name: str, entry: _Entry) -> PaperTable:
    columns = [Column(**column) for column in entry.columns]
    if entry.family:
        code: Code = _families()[entry.family](name, entry)
    elif entry.runs:
        code = Code(lambda job: [evaluation(job, entry, run) for run in entry.runs])
        if entry.code:
            code = Code(code.steps, checks=import_module("special").CHECKS[entry.code])
    else:
        code = import_module("dbac" if name.startswith("dbac") else "special").CODE[entry.code]
    texts = entry.note, entry.shared_note, entry.not_shared
    return PaperTable(name, entry.paper, entry.number, entry.title, columns or code.columns, code, *texts)


def _families() -> Mapping[str, Callable[[str, _Entry], Code]]:
    dbac = import_module("dbac")
    return {
        "lic": _lic,
        "imagecaptioner2": _imagecaptioner2,
        "scratch": lambda _, entry: dbac.by_encoders(entry.metrics, dbac.SCRATCH, entry.attribute),
        "pretrained": lambda _, entry: dbac.by_encoders(entry.metrics, dbac.PRETRAINED, entry.attribute),
        "variation": lambda name, entry: dbac.variation(name, entry.attribute, entry.sources),
    }


def evaluation(job: Job, entry: _Entry, name: str) -> Step:
    """The run ``name`` of an entry."""
    run = dict(entry.runs[name])
    inputs = job.inputs(CAPTIONERS[entry.captioners], entry.attribute)
    if run.pop("objects", False):
        inputs["objects"] = job.objects()
    more = {"metrics": tuple(run.pop("metrics")), **job.judging(run.pop("judges"))}
    small = run.pop("small", {})
    return evaluate_step(job, inputs, name=name, **more, **run, **(small if job.size == "small" else {}))


def evaluate_step(job: Job, inputs: Mapping[str, Any], *, name: str = "run", **more: Any) -> Step:
    """``judge evaluate``, into a folder of the job."""
    return Step(name, RunConfig, {**inputs, **more, "out": job.out / name})


_SIDES = (("lic_m", "LIC_M", "generated"), ("lic_d", "LIC_D", "human"), ("lic", "LIC", "amplification"))


def _lic(_: str, entry: _Entry) -> Code:
    """LIC_M, LIC_D and LIC by some judges, of all captioners."""

    def steps(job: Job) -> list[Step]:
        inputs = job.inputs(LIC_CAPTIONERS, entry.attribute)
        return [evaluate_step(job, inputs, metrics=("lic",), **job.judging(entry.judges))]

    prefixes = {judge: "" if entry.plain else f"{judge.replace('-', '_')}_" for judge in entry.judges}
    columns = [
        Column(
            prefixes[judge] + key,
            heading if entry.plain else f"{heading} ({judge})",
            metric="lic",
            judge=judge,
            field=field,  # type: ignore[arg-type]  # mypy does not see the literals in _SIDES
            signed=field == "amplification",
        )
        for judge, (key, heading, field) in product(entry.judges, _SIDES)
    ]

    def checks(published: Published) -> list[str]:
        return [difference(published, f"{of}lic", f"{of}lic_m", f"{of}lic_d") for of in prefixes.values()]

    return Code(steps, columns=columns, checks=checks)


def _imagecaptioner2(_: str, entry: _Entry) -> Code:
    """LIC by two judges of words, and ImageCaptioner2 by two judges that see images."""
    judges = {"lic": ("lstm", "bert-ft"), "imagecaptioner2": ("sat", "grit")}

    def steps(job: Job) -> Iterator[Step]:
        inputs = job.inputs(LIC_CAPTIONERS, entry.attribute)
        yield evaluate_step(job, inputs, name="lic", metrics=("lic",), **job.judging(judges["lic"]))
        if job.size != "shared":  # There, no images are available.
            seeing = {"mask": "segment", "metrics": ("imagecaptioner2",), **job.judging(judges["imagecaptioner2"])}
            yield evaluate_step(job, inputs | job.pictures(), name="seeing", **seeing)

    named = (
        *(("lic_lstm", "LIC (LSTM)", "lic", "lstm"), ("lic_bert", "LIC (BERT)", "lic", "bert-ft")),
        ("ic2_sat", "ImageCaptioner2 (SAT)", "imagecaptioner2", "sat"),
        ("ic2_grit", "ImageCaptioner2 (GRIT)", "imagecaptioner2", "grit"),
    )
    columns = [Column(key, text, 2, metric=metric, judge=judge, signed=True) for key, text, metric, judge in named]

    def checks(published: Published) -> list[str]:
        pairs = ("lic_lstm", "lic_bert"), ("ic2_sat", "ic2_grit")
        return [judges_agree(published, *pair, text) for pair, text in zip(pairs, entry.agreement, strict=True)]

    return Code(lambda job: list(steps(job)), columns=columns, checks=checks)
