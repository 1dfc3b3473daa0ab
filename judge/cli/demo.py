"""``judge demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge.cli.shared import one_line_errors, say, show_progress


def demo(
    out: Annotated[Path, typer.Option(help="folder for the world and the results")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="seed of the world")] = 0,
    images: Annotated[
        int | None, typer.Option(min=200, help="images in the world (default: 1200; with --anonymous 300)")
    ] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="people whose gender no pixel tells, for judge anonymous")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="print all notes too")] = False,
) -> None:
    """The whole story on a small world whose true amplification is known. Needs no download."""
    with one_line_errors():
        if anonymous:
            _anonymous(out, seed=seed, images=images or 300)
            return
        from judge.commands.demo import EXPECTED, run_demo
        from judge.report.directory import REPORT
        from judge.report.printing import print_result

        with show_progress() as progress:
            found = run_demo(out, seed=seed, images=images or 1200, progress=progress)
        print_result(found.result, folder=found.results, verbose=verbose, extra=found.known)
        say("")
        say("optimal: scores of both sides, and their difference, for an optimal judge with unlimited data that")
        say("reads the caption alone, or sees the image too.")
        if EXPECTED in found.known:
            say(f"{EXPECTED}: amplification that this judge finds in worlds of this size, a mean over several; the")
            say("interval is to be compared with that.")
        say("")
        say(f"The world is in {found.world}; the results are in {found.results}; look at {found.results / REPORT}")


def _anonymous(out: Path, *, seed: int, images: int) -> None:
    """Of people from behind, in suits and costumes."""
    from judge.cli.anonymous import show_anonymous
    from judge.commands.demo import run_anonymous_demo

    with show_progress() as progress:
        found, known = run_anonymous_demo(out, seed=seed, images=images, progress=progress)
    show_anonymous(found, out / "results", known)
    say(f"The pictures and captions are in {out / 'world'}")
