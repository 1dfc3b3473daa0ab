"""``judge anonymous``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judge.cli.shared import say, show_progress

if TYPE_CHECKING:
    from judge.config import AnonymousConfig
    from judge.report.anonymous import Anonymous
    from judge.report.table import Table

RATINGS = "rating-NAME.csv"


def anonymous(config: AnonymousConfig) -> None:
    """How often captions name an attribute that cannot be seen, and a sheet for people to rate them.

    The protocol of AnonymousBench: captions of images in which nobody can tell the attribute. Leaves anonymous.json,
    anonymous.yaml, rating.html, rating.csv and rating_key.csv in --out; and human_scores.csv with --ratings.
    """
    from judge.commands.anonymous import measure_anonymous

    with show_progress() as progress:
        found = measure_anonymous(config, progress=progress)
    show_anonymous(found, config.out)


def show_anonymous(found: Anonymous, out: Path, known: Mapping[str, float] | None = None) -> None:
    """Print what was measured, and where it lies; ``known``: captioner -> its true share, of simulated ones."""
    from judge.commands.anonymous import PAGE, SCORES, SETTINGS, SHEET
    from judge.report.anonymous import (
        anonymous_notes,
        metric_table,
        naming_table,
        score_table,
        share_difference_table,
    )
    from judge.report.render import open_console, print_table, print_text
    from judge.report.table import how_many

    tables: list[Table[Any]] = [naming_table(found, known), share_difference_table(found)]
    if found.rated:
        tables += [score_table(found, found.rated), metric_table(found.rated)]
    for table in tables:
        if table.rows:
            print_table(table)
            say("")
    console = open_console()
    for line in anonymous_notes(found):
        print_text(f"NOTE: {line}", console)
    if not found.rated:
        (question,) = found.sheet.questions
        say(f"{how_many(len(found.sheet.items), 'caption')} to rate: open {out / PAGE}, or fill in {out / SHEET}")
        say(f"(its column '{question.name}': {', '.join(question.choices[:-1])} or {question.choices[-1]})")
        rated = out.with_name(f"{out.name}-rated")
        command = shlex.join(["judge", "anonymous", str(out / SETTINGS), "--ratings", RATINGS, "--out", str(rated)])
        say(f"Then, with the file that the page saves ({RATINGS}, or --ratings of each rater):")
        say(f"  {command}")
    else:
        say(f"People's scores, for judge evaluate --human-scores: {out / SCORES}")
    say(f"The results are in {out}")
