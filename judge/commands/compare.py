"""``judge compare``: differences between the captioners of several runs, e.g. two checkpoints of one model."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from judge.commands.console import say
from judge.errors import JudgeError
from judge.measure.comparing import Pairing
from judge.report.ablations import variant_notes
from judge.report.directory import difference_row, line_row
from judge.report.gate import GATE, Check, junit, outcomes, read_change
from judge.report.notes import pair_notes
from judge.report.render import markdown, open_console, print_table, print_text
from judge.report.sections import plain
from judge.report.several_runs import name_apart, put_together, read_runs
from judge.report.tables import difference_table, lines_of
from judge.statistics.comparisons import Difference, Pair, differences
from judge.statistics.summary import Summary
from judge.utils.outputs import OutputFile


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of finished runs, two or more")],
    level: Annotated[float, typer.Option(min=0.5, max=0.999, help="confidence level of the intervals")] = 0.95,
    out: Annotated[Path | None, typer.Option(help="JSON file for the differences")] = None,
    kind: Annotated[Literal["table", "json", "md"], typer.Option("--format", help="what to print")] = "table",
    fail_if: Annotated[
        list[str] | None,
        typer.Option("--fail-if", help="exit code 3 if a change, the later run less the earlier, meets it: 'lic > 0'"),
    ] = None,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", help="JUnit XML file for the conditions of --fail-if")
    ] = None,
) -> None:
    """Compare captioners of different runs: amplification of the later run less the earlier, with intervals and tests.

    A metric is compared where both runs measured it with the same settings, against the same human captions and labels;
    two checkpoints of one model, for example. Images that one captioner lacks are left out for both.
    """
    if len(runs) < 2:
        raise JudgeError("one run alone has nothing to compare with", where="judge compare", mend="give two folders")
    if junit_file is not None and not fail_if:
        raise JudgeError("there is no condition to report on", where="--junit", mend="give --fail-if too")
    if junit_file is not None and junit_file == out:
        raise JudgeError("is the file of --out too", where=f"--junit {junit_file}", mend="name another file")
    places = (("--out", out), ("--junit", junit_file))
    files = {name: OutputFile(path, where=f"{name} {path}", mend="name a new file") for name, path in places if path}
    for file in files.values():
        file.check()
    read = read_runs(runs)
    joined, notes = put_together(read)
    result = joined.result
    conditions = {text.strip(): read_change(text, result.run["metrics"]) for text in fail_if or ()}
    run_of = {name: run.name for run in name_apart(read) for name in run.result.run["captioners"]}
    pairing = Pairing(result.scores, result.counts, result.run)

    def pair(first: Summary, second: Summary) -> Pair | None:
        return pairing(second, first) if run_of[first.captioner] != run_of[second.captioner] else None

    found = differences(result.summaries, pair, level=level, void=result.void, cancels=result.cancels)
    gates = {text: [*condition(found)] for text, condition in conditions.items()}
    checks = [check for of in gates.values() for check in of]
    of_runs = variant_notes({run.name: run.result for run in read})
    document = {
        "runs": [run.name for run in read],
        "differences": list(map(difference_row, found)),
        "results": [line_row(line, str(result.run["attribute"])) for line in lines_of(result)],
        "notes": [*notes, *of_runs],
        "checks": [check._asdict() for check in checks],
    }
    text = json.dumps(document, indent=2) + "\n"
    for name, file in files.items():
        with file.working():
            file.write(text.encode() if name == "--out" else junit(checks))
    lines = [*(f"NOTE: {note}" for note in [*pair_notes(found), *notes]), *of_runs]
    met = [check.line for check in checks if check.failure]
    if kind == "json":
        typer.echo(text, nl=False)
        say(*lines, err=True)
    else:
        _print(found, gates, lines, kind)
    if out:
        say("", f"The differences are in {out}", err=kind != "table")
    say(*(f"judge: {line}" for line in met), err=True)
    if met:
        raise typer.Exit(GATE)


def _print(found: Sequence[Difference], gates: Mapping[str, Sequence[Check]], lines: Sequence[str], kind: str) -> None:
    if kind == "md":
        for line in outcomes({f"`{text}`": of for text, of in gates.items()}, plain):
            typer.echo(f"{line}\n")
        typer.echo(markdown(difference_table(found, verbose=False)))
        typer.echo("\n".join(f"- {plain(line)}" for line in lines))
        return
    console = open_console()
    for line in outcomes(gates):
        print_text(line, console, bold=True)
    print_table(difference_table(found), console)
    console.print()
    for line in lines:
        print_text(line, console)
