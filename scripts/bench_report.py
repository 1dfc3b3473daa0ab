"""What a report takes: made from a run's folder, and opened in a browser.

    python scripts/bench_report.py runs/mine

Times, in this order: reading and checking the folder, making the page (figures and examples), and opening it in
Debian's Chromium (``apt-get install chromium``) until it is laid out and its script has run; each as often as
``--rounds`` says. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeVar

import typer

from judge.commands.console import one_line_errors

T = TypeVar("T")


def timed(what: str, rounds: int, work: Callable[[], T]) -> T:
    """Print the median seconds of ``work``; what it gives."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - start)
    print(f"{what}: {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")
    return found


def main(
    run: Annotated[Path, typer.Argument(help="folder of a finished run")],
    rounds: Annotated[int, typer.Option(min=1)] = 5,
) -> None:
    """Time the report of a run."""
    with one_line_errors():
        from judge.commands.report import open_runs
        from judge.report.page import Contents, make_page

        saved = timed("folder read and checked", rounds, lambda: open_runs([run]))
        contents = Contents(saved.result, saved.texts, pictures=saved.pictures)
        page = timed("page made", rounds, lambda: make_page(contents))
        cards = page.count('<article class="card"')
        print(f"{len(page.encode()) / 1e6:.2f} MB, {cards} examples, {len(saved.result.scores):,} answers")
        with TemporaryDirectory() as folder:
            path = Path(folder) / "report.html"
            path.write_text(page, encoding="utf-8")
            _open(path, rounds)


def _open(path: Path, rounds: int) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()

        def load() -> None:
            page.goto(path.as_uri())
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

        timed("page opened", rounds, load)
        timed("examples sorted", rounds, lambda: page.locator("#f-sort").select_option("size"))
        browser.close()


if __name__ == "__main__":
    typer.run(main)
