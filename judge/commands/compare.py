"""``judge compare``: differences between the captioners of several runs, e.g. two checkpoints of one model."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from judge.commands.console import say
from judge.errors import JudgeError
from judge.measure.comparing import Pairing
from judge.report.ablations import variant_notes
from judge.report.directory import difference_row, line_row
from judge.report.notes import pair_notes
from judge.report.render import open_console, print_table, print_text
from judge.report.several_runs import name_apart, put_together, read_runs
from judge.report.tables import difference_table, lines_of
from judge.statistics.comparisons import Pair, differences
from judge.statistics.summary import Summary
from judge.utils.outputs import OutputFile


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of finished runs, two or more")],
    level: Annotated[float, typer.Option(min=0.5, max=0.999, help="confidence level of the intervals")] = 0.95,
    out: Annotated[Path | None, typer.Option(help="JSON file for the differences")] = None,
    kind: Annotated[Literal["table", "json"], typer.Option("--format", help="what to print")] = "table",
) -> None:
    """Compare captioners of different runs: differences in amplification, with intervals and tests.

    A metric is compared where both runs measured it with the same settings, against the same human captions and labels;
    two checkpoints of one model, for example. Images that one captioner lacks are left out for both.
    """
    if len(runs) < 2:
        raise JudgeError("one run alone has nothing to compare with", where="judge compare", mend="give two folders")
    output = OutputFile(out, mend="name a new file") if out is not None else None
    if output:
        output.check()
    read = read_runs(runs)
    joined, notes = put_together(read)
    result = joined.result
    run_of = {name: run.name for run in name_apart(read) for name in run.result.run["captioners"]}
    pairing = Pairing(result.scores, result.counts, result.run)

    def pair(first: Summary, second: Summary) -> Pair | None:
        return pairing(first, second) if run_of[first.captioner] != run_of[second.captioner] else None

    found = differences(result.summaries, pair, level=level, void=result.void, cancels=result.cancels)
    of_runs = variant_notes({run.name: run.result for run in read})
    document = {
        "runs": [run.name for run in read],
        "differences": list(map(difference_row, found)),
        "results": [line_row(line, str(result.run["attribute"])) for line in lines_of(result)],
        "notes": [*notes, *of_runs],
    }
    text = json.dumps(document, indent=2) + "\n"
    lines = [*(f"NOTE: {note}" for note in [*pair_notes(found), *notes]), *of_runs]
    if output:
        with output.working():
            output.write(text.encode())
    if kind == "json":
        typer.echo(text, nl=False)
        say(*lines, err=True)
    else:
        print_table(difference_table(found), console := open_console())
        console.print()
        for line in lines:
            print_text(line, console)
    if out:
        say("", f"The differences are in {out}", err=kind == "json")
