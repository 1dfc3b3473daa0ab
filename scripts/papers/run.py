"""Make a table of a paper again, or the page of all of them.

python scripts/papers/run.py lic_table2 --shared DATA
python scripts/papers/run.py --page
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import typer
import yaml
from figures import Ours, Row, Value, comparison, distances
from jobs import Job, Size, read_declared
from small_world import write_small
from tables import PaperTable, load_tables

from judge.commands.console import one_line_errors, say
from judge.errors import JudgeError, nearest
from judge.report.render import markdown, open_console, print_table, print_text
from judge.types import Interval

FOLDER = Path(__file__).parent
MADE, PAGE = FOLDER / "made", FOLDER.parents[1] / "docs" / "reproduction.md"
README = "scripts/papers/README.md"
app = typer.Typer(add_completion=False)


@app.command(
    help=f"{__doc__}\n\nWithout --data, --shared or --small: the commands and the published figures of a table."
)
def main(  # noqa: PLR0913, PLR0917  # options
    name: Annotated[str, typer.Argument(help="a table of tables.yaml, such as lic_table2")] = "",
    data: Annotated[Path | None, typer.Option(help=f"make it from the paper's data; {README} has the layout")] = None,
    shared: Annotated[
        Path | None, typer.Option(help="make it from real captions of fewer images, with a quick judge")
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="run the commands on a drawn world; its figures mean nothing")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="folder for the results", show_default="runs/papers/NAME")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="write ours to scripts/papers/made, for the page")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace earlier results in --out")] = False,
    page: Annotated[bool, typer.Option("--page", help="write docs/reproduction.md; nothing is run")] = False,
) -> None:
    """See ``help`` above."""
    with one_line_errors():
        if page:
            PAGE.write_text(make_page(), encoding="utf-8")
            say(f"{PAGE} has {len(load_tables())} tables.")
            return
        tables = load_tables()
        if name not in tables:
            raise JudgeError(f"no table '{name}'", where=str(FOLDER / "tables.yaml"), mend=nearest(name, [*tables]))
        table = tables[name]
        if small and shared:
            raise JudgeError("goes with --data, not with --shared", where="--small", mend="leave one of the two out")
        if shared and table.not_shared:
            raise JudgeError(table.not_shared, where="--shared", mend="use --data, or --small to see that it runs")
        if not (data or shared or small):
            show(table, table.code.derived() if table.code.derived else {})
            return
        with TemporaryDirectory() as folder:
            size: Size = "small" if small else "shared" if shared else "paper"
            place = out or (Path(folder) if small and not data else Path("runs/papers") / name)
            job = Job(size, shared or data or write_small(Path(folder) / "world"), place)
            ours = make(table, job, overwrite=overwrite)
            if keep:
                write_made(table, job, ours)


def make(table: PaperTable, job: Job, *, overwrite: bool = False) -> Ours:
    """Run a table and print it.

    Raises:
        JudgeError: anything that the user can mend.
    """
    if not job.data.is_dir():
        raise JudgeError("no such folder", where=str(job.data), mend=f"give the folder that {README} describes")
    ours = table.run(job, overwrite=overwrite)
    if not ours:
        mend = f"see {README} for the files that it needs"
        raise JudgeError("nothing of this table could be measured there", where=f"--data {job.data}", mend=mend)
    show(table, ours, job)
    return ours


def show(table: PaperTable, ours: Ours, job: Job | None = None) -> None:
    """Print the commands, the published table with ours, and how far the two are apart."""
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
    where = f"{table.label}: how far ours is from the published figures"
    if apart := distances(table.published, table.columns, ours if comparable else {}, where):
        print_table(apart, console)
    if table.labs:
        print_table(table.by_labs(), console)
    for line in table.lines:
        print_text(line, console)


class Made(NamedTuple):
    """Ours as ``--keep`` wrote them."""

    size: Size
    commit: str
    stand_ins: Mapping[str, str]
    commands: Sequence[str]
    ours: Ours


def write_made(table: PaperTable, job: Job, ours: Ours) -> None:
    """Keep ours, with the commit that made them."""
    changed = bool(_git("status", "--porcelain", "--", ":/judge", ":/scripts/papers/*.py", ":/scripts/papers/*.yaml"))
    place = f"runs/papers/{table.name}"
    values = [
        {"row": list(row), "column": column, "value": found.value}
        | ({"low": found.interval.low, "high": found.interval.high} if found.interval else {})
        for (row, column), found in ours.items()
    ]
    made = {
        "size": job.size,
        "commit": _git("rev-parse", "--short", "HEAD") + (" (with changes)" if changed else ""),
        "stand_ins": job.stand_ins(table.judges),
        "commands": [line.replace(str(job.data), "DATA").replace(str(job.out), place) for line in table.commands(job)],
        "values": values,
    }
    (MADE / f"{table.name}.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False, cwd=FOLDER)  # noqa: S603, S607
    return done.stdout.strip()


def read_made(name: str) -> Made | None:
    """Ours as ``--keep`` wrote them; None where it wrote nothing."""
    path = MADE / f"{name}.json"
    if not path.is_file():
        return None
    made: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    ours: dict[tuple[Row, str], Value] = {}
    for entry in made.pop("values"):
        bounds = Interval(entry["low"], entry["high"]) if "low" in entry else None
        ours[tuple(entry["row"]), entry["column"]] = Value(entry["value"], bounds)
    return Made(**made, ours=ours)


def make_page() -> str:
    """The text of ``docs/reproduction.md``: an index of the tables, and the papers' rows."""
    known = load_tables().values()
    rows = []
    for paper, label in read_declared()["papers"].items():
        rows += [f"| {of.label} | `{of.name}` | {_status(of)} |" for of in known if of.paper == paper]
        missing = read_declared()["missing"][paper].items()
        rows += [f"| {label}, {number} | | no command: {reason.strip()} |" for number, reason in missing]
    index = "\n".join(["| table | name | status |", "| --- | --- | --- |", *rows])
    head = (FOLDER / "page.md").read_text(encoding="utf-8")
    return "\n".join([head, index, "", *_rows()]).rstrip() + "\n"


def make_sections() -> str:
    """A section for each table: its commands, its figures and ours, from ``made`` or from other published tables."""
    return "\n".join(part for table in load_tables().values() for part in _section(table))


def _rows() -> Iterator[str]:
    """Every row of the papers, with its command, and whether it holds."""
    declared: dict[str, list[dict[str, str]]] = yaml.safe_load((FOLDER / "rows.yaml").read_text(encoding="utf-8"))
    rows = [(paper, row) for paper, of in declared.items() for row in of]
    hold = sum("holds" in row for _, row in rows)
    yield "## Every row of the papers\n"
    yield (
        f"What the papers define, train or report, and whether this package does the same: {hold} of {len(rows)} rows "
        f"hold, {len(rows) - hold} depart. Commands take the files of a run besides (captions, labels, images).\n"
    )
    yield "| # | paper | row | command | status |\n| ---: | --- | --- | --- | --- |"
    for number, (paper, row) in enumerate(rows, start=1):
        status = f"departs, because {row['departs']}" if "departs" in row else "holds"
        status += f"; {row['also']}" if "also" in row else ""
        yield f"| {number} | {paper} | {row['row']} | `{row['command'].strip()}` | {status.strip()} |"
    yield ""


def _status(table: PaperTable) -> str:
    """Whether ours are there, and what the paper's run needs."""
    found = []
    if made := read_made(table.name):
        what = "made here, on made-up data" if table.shared_note else "made here"
        found.append(f"{what} (commit {made.commit})")
    elif table.code.derived:
        found.append("made from published tables")
    if not made:
        found.append(f"not made here: {table.not_shared or 'its run (--shared) has not been kept yet'}")
    return "; ".join([*found, f"the paper's run needs {', '.join(table.needs)}"])


def _section(table: PaperTable) -> Iterator[str]:
    made = read_made(table.name)
    ours: Ours = {}
    yield f"## {table.heading}\n"
    yield f"Status: {_status(table)}.\n"
    if commands := table.commands():
        first = f"python scripts/papers/run.py {table.name} --data DATA"
        yield "The paper's run:\n"
        yield _bash([first, "# which runs:", *commands] if table.code.prepare else commands)
    if made:
        ours = made.ours
        yield f"{table.about(made.size)}{_stand_ins(made.stand_ins)} Commit {made.commit}:\n"
        runs = ["# which runs:", *made.commands] if made.commands else []
        yield _bash([f"python scripts/papers/run.py {table.name} --shared DATA", *runs])
    elif table.code.derived:
        ours = table.code.derived()
        yield "Ours: computed from figures of other published tables.\n"
    alike = made is None or table.compares(made.size)
    yield markdown(comparison(table.published, table.columns, ours, "", apart=alike))
    if apart := distances(table.published, table.columns, ours if alike else {}):
        yield markdown(apart)
    if table.labs:
        yield markdown(table.by_labs())
    yield "\n".join(f"- {line}" for line in table.lines) + "\n" if table.lines else ""


def _bash(lines: Sequence[str]) -> str:
    return "```bash\n" + "\n".join(lines) + "\n```\n"


def _stand_ins(stand_ins: Mapping[str, str]) -> str:
    """Which judge replaced which."""
    places = {of: [judge for judge, mine in stand_ins.items() if mine == of] for of in stand_ins.values()}
    text = ", ".join(f"{of} in place of {', '.join(judges)}" for of, judges in places.items())
    once = "; its figures stand once, under the first" if any(len(judges) > 1 for judges in places.values()) else ""
    return f" Judge: {text}{once}." if text else ""


if __name__ == "__main__":
    app()
