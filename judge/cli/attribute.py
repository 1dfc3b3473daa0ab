"""``judge attribute``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress

if TYPE_CHECKING:
    from judge.config import AttributeConfig


def attribute(config: AttributeConfig) -> None:
    """Find which words of captions, and which parts of pictures, a trained judge's answers come from.

    Captions and pictures are masked as in its training. With --model, where a captioner looked when it said a word of
    the attribute. Leaves attribution.json, words.csv, pictures.csv, attribute.yaml and maps/ in --out.
    """
    from judge.commands.attribute import attribute as run_attribute
    from judge.report.attribution import map_table, print_shaded
    from judge.report.render import open_console, print_table

    with show_progress() as progress:
        found = run_attribute(config, progress=progress)
    console = open_console()
    for one in found.examples:
        heading = f"{one.judge}, {one.method}: image {one.image}, p({one.explained}) = {one.probability:.3f}"
        print_shaded(heading, one.words, one.contributions, console)
    if found.examples:
        say("Orange, +: the word speaks for the class; blue, -: against it.")
    if found.pictures:
        print_table(map_table(found.pictures), console)
    say(f"{found.captions} captions of {found.images} images, by {', '.join(dict.fromkeys(found.judges))}")
    for line in found.notes:
        say(f"NOTE: {line}")
    say(f"The results are in {config.out}")
