"""A table of a paper: what it needs, the commands that make it, its figures and ours.

A script declares a :class:`PaperTable` and gives it to :func:`main`, which prints what the table needs, the commands
and the published figures, runs the commands where it is told to, and prints ours beside.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from _commands import Step, run_steps
from _compare import comparison, distance_table, distances
from _job import Job, Size, is_recipe
from _ours import Column, Ours, Value, by_captioner
from _published import Published, Row, read_published

from judge.commands.console import one_line_errors, say, show_progress
from judge.commands.evaluate import RunConfig
from judge.errors import JudgeError
from judge.measure import Result
from judge.report.page import bibliography
from judge.report.render import markdown, open_console, print_table, print_text
from judge.types import Interval

MADE = Path(__file__).parent / "made"
Results = Mapping[str, Any]
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
class PaperTable:
    """A table of a paper.

    Attributes:
        name: of the script, and of the CSV of published figures.
        paper: key of references.bib.
        number: as the paper calls it.
        title: what it shows.
        columns: of figures.
        steps: the commands of a run.
        read: ours, out of what the commands gave; of tables with a row a captioner their columns say it.
        prepare: writes what the commands read, where that is not the data itself.
        reads: files that the script itself reads.
        derived: ours where they follow from other published tables.
        checks: what the published figures say of each other, a line each.
        note: what must be known beside.
        shared_note: what ours of a shared run is made of, where that is not real captions: then it is not compared.
        not_shared: why there is no shared run.
    """

    name: str
    paper: str
    number: str
    title: str
    columns: tuple[Column, ...]
    steps: Callable[[Job], Sequence[Step]]
    read: Callable[[PaperTable, Job, Results], Ours] | None = None
    prepare: Callable[[Job], None] | None = None
    reads: Callable[[Job], Sequence[Path]] | None = None
    derived: Callable[[], Ours] | None = None
    checks: Callable[[Published], Sequence[str]] | None = None
    note: str = ""
    shared_note: str = ""
    not_shared: str = ""

    def __post_init__(self) -> None:
        assert self.paper in bibliography(), self.paper

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
        """Of its columns."""
        return list(dict.fromkeys(column.judge for column in self.columns if column.judge))

    def about(self, size: Size) -> str:
        """What ours of a run of this size is."""
        return self.shared_note if size == "shared" and self.shared_note else NOTES[size]

    def compares(self, size: Size) -> bool:
        """Whether ours of a run of this size can be set against the published figures."""
        return size == "paper" or (size == "shared" and not self.shared_note)

    @property
    def shown(self) -> Job:
        """The paper's run, on a folder DATA."""
        return Job("paper", Path("DATA"), Path("runs/papers") / self.name, shown=True)

    @property
    def needs(self) -> list[str]:
        """What the paper's run reads below DATA: recipes of data/recipes, and folders that no recipe fills."""
        words = [word.rpartition("=")[2] for step in self.steps(self.shown) for word in step.words()]
        paths = [*(self.reads(self.shown) if self.reads else []), *map(Path, words)]
        first = dict.fromkeys(path.parts[1] for path in paths if path.parts[:1] == ("DATA",))
        return sorted((name if is_recipe(name) else f"DATA/{name}" for name in first), key=lambda name: "DATA" in name)

    def commands(self, job: Job | None = None) -> list[str]:
        """The commands of a run for a shell; by default of the paper's, on a folder DATA."""
        return [step.line() for step in self.steps(job or self.shown)]

    def run(self, job: Job, *, overwrite: bool = False) -> Ours:
        """Run the commands; with ``overwrite`` in place of earlier results.

        Raises:
            JudgeError: anything that the user can mend.
        """
        steps = self.steps(job)
        for step in steps:
            job.need(step.settings)
        if self.prepare:
            self.prepare(job)
            steps = self.steps(job)
        with show_progress() as progress:
            results = run_steps(steps, progress, overwrite=overwrite, report=job.size != "small")
        return self.read(self, job, results) if self.read else read_captioners(self, job, results)


def read_captioners(table: PaperTable, job: Job, results: Results) -> Ours:
    """Of tables with a row a captioner, out of runs of ``judge evaluate``."""
    found = [result for result in results.values() if isinstance(result, Result)]
    return by_captioner(table.columns, found, job.stand_ins(table.judges))


def evaluate_step(job: Job, inputs: Mapping[str, Any], *, name: str = "run", **more: Any) -> Step:
    """``judge evaluate``, into a folder of the job's."""
    return Step(name, RunConfig, {**inputs, **more, "out": job.out / name})


def main(table: PaperTable, arguments: Sequence[str] | None = None) -> None:
    """Print a table, and make ours where that is asked for. Faults that can be mended are one line, exit code 2."""
    given = _parser(table).parse_args(arguments)
    try:
        with one_line_errors():
            _answer(table, given)
    except typer.Exit as end:
        sys.exit(end.exit_code)


def _parser(table: PaperTable) -> argparse.ArgumentParser:
    told = "Without --data, --shared or --small: the published figures, and the commands that make the table."
    parser = argparse.ArgumentParser(description=f"{table.heading}. {told}")
    layout = "scripts/papers/README.md says what it holds"
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--data", type=Path, metavar="DIR", help=f"make the table from the paper's data; {layout}")
    quick = "make the table from real captions of fewer images, with a quick judge, as in docs/reproduction.md"
    which.add_argument("--shared", type=Path, metavar="DIR", help=f"{quick}; {layout}")
    small = "try the commands on a drawn world, in a minute; with --data on that folder, laid out as for --shared"
    parser.add_argument("--small", action="store_true", help=f"{small}; its figures mean nothing")
    out = Path("runs/papers") / table.name
    parser.add_argument("--out", type=Path, metavar="DIR", default=out, help="folder for the results (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="write ours to scripts/papers/made, for that page")
    parser.add_argument("--overwrite", action="store_true", help="replace earlier results in --out")
    return parser


def _answer(table: PaperTable, given: argparse.Namespace) -> None:
    """Do what was asked for."""
    if given.small and given.shared:
        raise JudgeError("goes with --data, not with --shared", where="--small", mend="leave one of the two out")
    if given.shared and table.not_shared:
        raise JudgeError(table.not_shared, where="--shared", mend="use --data, or --small to see that it runs")
    if given.small and not given.data:
        from _small import write_small

        with TemporaryDirectory() as folder:
            _make(table, Job("small", write_small(Path(folder) / "world"), Path(folder)), given)
    elif given.data or given.shared:
        size: Size = "small" if given.small else "shared" if given.shared else "paper"
        _make(table, Job(size, given.shared or given.data, given.out), given)
    else:
        _print(table, table.derived() if table.derived else {})


def _make(table: PaperTable, job: Job, given: argparse.Namespace) -> None:
    """Run, print and keep."""
    if not job.data.is_dir():
        mend = "give the folder that scripts/papers/README.md describes"
        raise JudgeError("no such folder", where=str(job.data), mend=mend)
    ours = table.run(job, overwrite=given.overwrite)
    if not ours:
        mend = "see scripts/papers/README.md for the files that it needs"
        raise JudgeError("nothing of this table could be measured there", where=f"--data {job.data}", mend=mend)
    _print(table, ours, job)
    if given.keep:
        write_made(table, job, ours)


def _print(table: PaperTable, ours: Ours, job: Job | None = None) -> None:
    console = open_console()
    print_text(table.heading, console, bold=True)
    print_text(f"Data: {', '.join(table.needs)}. Commands of the paper's run:", console)
    for line in ["", *"\n".join(table.commands()).splitlines(), ""]:
        say(line)
    comparable = job is None or table.compares(job.size)
    if job is not None:
        print_text(table.about(job.size), console)
    title = f"{table.heading}: {'published figures and ours' if ours else 'published figures'}"
    print_table(comparison(table.published, table.columns, ours, title, apart=comparable), console)
    if found := distances(table.published, table.columns, ours if comparable else {}):
        where = f"{PAPERS[table.paper]}, {table.number}: how far ours is from the published figures"
        print_table(distance_table(found, where), console)
    for line in [*([table.note] if table.note else []), *(table.checks(table.published) if table.checks else [])]:
        print_text(line, console)


def write_made(table: PaperTable, job: Job, ours: Ours) -> None:
    """Keep ours, with the commit that made them."""
    changed = bool(_git("status", "--porcelain", "--", ":/judge", ":/scripts/papers/*.py"))
    values = [
        {"row": list(row), "column": column, "value": found.value}
        | ({"low": found.interval.low, "high": found.interval.high} if found.interval else {})
        for (row, column), found in ours.items()
    ]
    told = {
        "size": job.size,
        "commit": _git("rev-parse", "--short", "HEAD") + (" (with changes)" if changed else ""),
        "stand_ins": job.stand_ins(table.judges),
        "commands": [
            line.replace(str(job.data), "DATA").replace(str(job.out), f"runs/papers/{table.name}")
            for line in table.commands(job)
        ],
        "values": values,
    }
    MADE.mkdir(exist_ok=True)
    (MADE / f"{table.name}.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False, cwd=Path(__file__).parent)  # noqa: S603, S607 - git, of the checkout
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class Made:
    """Ours as they were kept."""

    size: Size
    commit: str
    stand_ins: Mapping[str, str]
    commands: Sequence[str]
    ours: Ours


def read_made(name: str) -> Made | None:
    """What ``--keep`` left; None where nothing."""
    path = MADE / f"{name}.json"
    if not path.is_file():
        return None
    told = json.loads(path.read_text(encoding="utf-8"))
    ours: dict[tuple[Row, str], Value] = {}
    for entry in told["values"]:
        bounds = Interval(entry["low"], entry["high"]) if "low" in entry else None
        ours[tuple(entry["row"]), entry["column"]] = Value(entry["value"], bounds)
    return Made(told["size"], told["commit"], told["stand_ins"], told["commands"], ours)


__all__ = [
    "MADE",
    "NOTES",
    "PaperTable",
    "Results",
    "evaluate_step",
    "main",
    "markdown",
    "read_captioners",
    "read_made",
]
