"""``judge compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge.cli.shared import one_line_errors, say


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of finished runs, two or more")],
    level: Annotated[float, typer.Option(min=0.5, max=0.999, help="confidence level of the intervals")] = 0.95,
    out: Annotated[Path | None, typer.Option(help="JSON file for the differences")] = None,
) -> None:
    """Compare captioners of different runs: differences in amplification, with intervals and tests.

    A metric is compared where both runs measured it with the same settings, against the same human captions and labels;
    two checkpoints of one model, for example. Images that one captioner lacks are left out for both.
    """
    with one_line_errors():
        from judge.commands.compare import compare_runs
        from judge.errors import JudgeError
        from judge.report.notes import difference_notes, pair_notes
        from judge.report.render import open_console, print_table, print_text
        from judge.report.tables import difference_table

        if len(runs) < 2:
            raise JudgeError(
                "one run alone has nothing to compare with", where="judge compare", mend="give two folders"
            )
        found, others, of_runs = compare_runs(runs, level=level, out=out)
        console = open_console()
        print_table(difference_table(found), console)
        console.print()
        for line in [*difference_notes(found), *(f"NOTE: {note}" for note in [*pair_notes(found), *others]), *of_runs]:
            print_text(line, console)
        if out:
            say("")
            say(f"The differences are in {out}")
