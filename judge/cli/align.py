"""``judge align``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge.cli import options
from judge.cli.shared import one_line_errors, resolve, say, show_progress


def align(  # noqa: PLR0913, PLR0917 - one parameter an option: that is how Typer reads them
    align_file: Annotated[
        Path | None, typer.Argument(metavar="[ALIGN.yaml]", help="settings; options override them")
    ] = None,
    human: Annotated[Path | None, typer.Option(help="human captions, of any known format")] = None,
    captions: Annotated[
        list[str] | None, typer.Option(help="a captioner's captions: FILE or NAME=FILE; repeatable")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the results [default: runs/aligned]")] = None,
    overwrite: options.Overwrite = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            help="corpus (learnt from the human captions); a file: GloVe, word2vec, fastText, or gzip of one; or "
            "hf:NAME or hf:FOLDER, an encoder's input embeddings [default: corpus]"
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="cosine distance below which a word is substituted [default: by --vectors: 0.65 for corpus, 0.7 for "
            "hf:, 0.4 for a file]"
        ),
    ] = None,
    meteor: Annotated[
        int | None, typer.Option(help="captions that METEOR (needs Java) is taken of; 0 for none [default: 5000]")
    ] = None,
    attribute: options.Attribute = None,
    lexicon: options.Lexicon = None,
    labels: Annotated[
        Path | None, typer.Option(help="attribute class of each image; images without one are left out")
    ] = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    label_value: options.LabelValue = None,
    contractions: Annotated[str | None, typer.Option(help="whole or split [default: whole]")] = None,
    text: Annotated[str | None, typer.Option(help="whole or first-sentence [default: whole]")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="column of caption tables, e.g. caption=text; repeatable")
    ] = None,
    split: Annotated[str | None, typer.Option(help="split of a Karpathy file")] = None,
    several: Annotated[
        bool | None, typer.Option("--several", help="allow several captions an image from a captioner")
    ] = None,
) -> None:
    """Put people's captions into each captioner's vocabulary, and see what that leaves of them.

    Leaves the aligned captions (aligned/NAME.json, COCO's format), substitutions.csv, delta_curve.csv and .png,
    alignment.json and align.yaml in --out.
    """
    given = dict(locals())
    with one_line_errors():
        from judge.commands.align import PLOT, AlignConfig, align_captions
        from judge.report.alignment import alignment_table
        from judge.report.render import print_table

        config = resolve(given.pop("align_file"), given, AlignConfig, out="runs/aligned")
        with show_progress() as progress:
            found = align_captions(config, progress=progress)
        print_table(alignment_table(found.alignments))
        say(f"\nShares of people's words and tokens; contextual: below a cosine distance of {found.delta:g}.")
        say("Of lacking: of people's tokens that the captioner never uses, the share that finds a word that it does.")
        say(f"METEOR: aligned against original captions, both masked. Vectors: {found.vectors}.")
        for line in found.notes:
            say(f"NOTE: {line}")
        plot = config.out / PLOT
        say(f"The results are in {config.out}" + (f"; look at {plot}" if plot.exists() else ""))
