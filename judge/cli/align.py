"""``judge align``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress

if TYPE_CHECKING:
    from judge.config import AlignConfig


def align(config: AlignConfig) -> None:
    """Align human captions with each captioner's vocabulary, and see what that leaves of them.

    Leaves the aligned captions (aligned/NAME.json, COCO's format), substitutions.csv, delta_curve.csv and .png,
    alignment.json and align.yaml in --out.
    """
    from judge.commands.align import PLOT, align_captions
    from judge.report.alignment import alignment_table
    from judge.report.render import print_table

    with show_progress() as progress:
        found = align_captions(config, progress=progress)
    print_table(alignment_table(found.alignments))
    say("")
    say(f"Shares of people's words and tokens; contextual: below a cosine distance of {found.delta:g}.")
    say("Of lacking: of people's tokens that the captioner never uses, the share that finds a word that it does.")
    say(f"METEOR: aligned against original captions, both masked. Vectors: {found.vectors}.")
    for line in found.notes:
        say(f"NOTE: {line}")
    say(f"The results are in {config.out}; look at {config.out / PLOT}")
