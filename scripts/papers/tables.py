"""The tables of ``tables.yaml``: what each needs, the commands that make it, its figures and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from figures import Column, Ours, Published, Row, Value, comparison, read_published, values_of
from jobs import Job, Size, Step, captioners, is_recipe, read_declared

from judge.commands.console import show_progress
from judge.measure import Result
from judge.report.table import Table

Results = Mapping[str, Any]
"""Name of a step -> what its command returned."""


@dataclass(frozen=True)
class Code:
    """The part of a table that its entry cannot declare.

    Attributes:
        steps: the commands of a run, from those that the entry declares.
        row: the row of a captioner in a run; by default the captioner alone.
        more: figures of ours besides those that the columns read from results, given what these have read.
        prepare: write what the commands read, where that is not the data itself.
        reads: files that ``prepare`` and ``more`` read themselves.
        derived: ours where they follow from other published tables.
    """

    steps: Callable[[Job, list[Step]], Sequence[Step]] = lambda _, declared: declared
    row: Callable[[str, str], Row] = lambda _, captioner: (captioner,)
    more: Callable[[Job, Results, Ours], Ours] | None = None
    prepare: Callable[[Job], None] | None = None
    reads: Callable[[Job], Sequence[Path]] = lambda _: ()
    derived: Callable[[], Ours] | None = None


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper: an entry of ``tables.yaml``, with the name of its CSV of published figures.

    ``labs``: columns of ``published/labs``, where others have published the same figures.
    """

    name: str
    paper: str
    number: str
    title: str
    columns: Sequence[Column]
    code: Code
    labs: Sequence[Column] = ()
    captioners: str = "lic"
    attribute: str = "gender"
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    note: str = ""
    facts: Sequence[str] = ()
    shared_note: str = ""
    not_shared: str = ""

    @property
    def label(self) -> str:
        """Paper and number."""
        return f"{read_declared()['papers'][self.paper]}, {self.number}"

    @property
    def heading(self) -> str:
        """Paper, number and title."""
        return f"{self.label}: {self.title}"

    @property
    def published(self) -> Published:
        """Its figures, as printed."""
        return read_published(self.name)

    def by_labs(self) -> Table[tuple[Any, ...]]:
        """Its figures by the paper, other labs and this project, side by side."""
        return comparison(read_published(f"labs/{self.name}"), self.labs, {}, f"{self.label}: by several labs")

    @property
    def judges(self) -> list[str]:
        """The judges of its columns."""
        return list(dict.fromkeys(column.judge for column in self.columns if column.judge))

    def about(self, size: Size) -> str:
        """What ours of a run of this size are made of."""
        return str(self.shared_note if size == "shared" and self.shared_note else read_declared()["notes"][size])

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
        words = [word.rpartition("=")[2] for step in self.steps(self.shown) for word in step.words()]
        paths = [*self.code.reads(self.shown), *map(Path, words)]
        first = dict.fromkeys(path.parts[1] for path in paths if path.parts[:1] == ("DATA",))
        return sorted((name if is_recipe(name) else f"DATA/{name}" for name in first), key=lambda name: "DATA" in name)

    @property
    def lines(self) -> list[str]:
        """The note, and what the published figures say of each other."""
        changed = any("balance" in step.settings for step in self.steps(self.shown))
        return [
            *([self.note] if self.note else []),
            *([read_declared()["protocol_note"]] if changed else []),
            *self.facts,
        ]

    def steps(self, job: Job) -> Sequence[Step]:
        """The commands of a run, with the paper's protocol for LIC."""
        own = read_declared()["protocols"].get(self.paper, {})
        own = {key: value for key, value in own.items() if key != "holdout" or job.size != "shared"}
        steps = self.code.steps(job, [*self._declared(job)])
        return [
            replace(step, settings={**step.settings, **own}) if "lic" in step.settings.get("metrics", ()) else step
            for step in steps
        ]

    def _declared(self, job: Job) -> Iterator[Step]:
        """The runs of ``judge evaluate`` that the entry declares."""
        for name, declared in self.runs.items():
            run = dict(declared)
            if run.pop("not_shared", False) and job.size == "shared":
                continue
            inputs = job.inputs(captioners(self.captioners), self.attribute)
            if run.pop("all_captioners", False) and not job.is_paper:
                inputs["captions"] = job.found()
            inputs |= {**job.images(), "mask": "segment"} if run.pop("images", False) else {}
            inputs |= {"objects": job.objects()} if run.pop("objects", False) else {}
            inputs["metrics"] = tuple(run.pop("metrics"))
            inputs |= job.aligning(run.pop("align")) if "align" in run else {}
            inputs |= job.judging(run.pop("judges"))
            sized = {size: run.pop(size, {}) for size in ("small", "shared")}
            yield job.evaluate(inputs | run | sized.get(job.size, {}), name=name)

    def commands(self, job: Job | None = None) -> list[str]:
        """The commands of a run for a shell; by default of the paper's, on a folder DATA."""
        return [step.line() for step in self.steps(job or self.shown)]

    def run(self, job: Job, *, overwrite: bool = False) -> Ours:
        """Run the commands; with ``overwrite`` in place of earlier results.

        Raises:
            JudgeError: anything that the user can mend.
        """
        for step in self.steps(job):
            job.need(step.settings)
        if self.code.prepare:
            self.code.prepare(job)
        with show_progress() as progress:
            report = not job.is_small
            steps = self.steps(job)
            results = {step.name: step.run(progress, overwrite=overwrite, report=report) for step in steps}
        ours = dict(self._read(job, results))
        return {**ours, **(self.code.more(job, results, ours) if self.code.more else {})}

    def _read(self, job: Job, results: Results) -> Iterator[tuple[tuple[Row, str], Value]]:
        """What the columns read. A stand-in's figures stand once, under the first judge that it replaces."""
        stand_ins = job.stand_ins(self.judges)
        once: dict[tuple[str, ...], Column] = {}
        for column in self.columns:
            judge = stand_ins.get(column.judge, column.judge)
            once.setdefault((judge, column.metric, column.run, column.field), column)
        # An ablation of detectors has a result for each.
        found = {name: of for result in results.values() for name, of in getattr(result, "results", {}).items()}
        for name, result in {**results, **found}.items():
            for (judge, *_), column in once.items():
                if isinstance(result, Result) and column.run in {"", name}:
                    for captioner, value in values_of(result, column, judge):
                        yield (self.code.row(name, captioner), column.key), value.times(column.scale)


@cache
def load_tables() -> Mapping[str, PaperTable]:
    """Name -> table, in the order of the papers and of their numbers."""
    codes: Mapping[str, Code] = import_module("special").CODE
    found = {}
    for name, entry in read_declared().items():
        if "number" in entry:
            of = {key: [Column(**column) for column in entry.get(key, ())] for key in ("columns", "labs")}
            found[name] = PaperTable(name, **{**entry, **of, "code": codes.get(name, Code())})
    return found
