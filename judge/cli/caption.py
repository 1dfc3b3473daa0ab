"""``judge caption``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge.cli import options
from judge.cli.shared import one_line_errors, resolve, say, show_progress, tell_failures


def caption(  # noqa: PLR0913, PLR0917 - one parameter an option: that is how Typer reads them
    caption_file: Annotated[
        Path | None, typer.Argument(metavar="[CAPTION.yaml]", help="settings; options override them")
    ] = None,
    model: Annotated[str | None, typer.Option(help="checkpoint of a captioner: a folder, or a name on the hub")] = None,
    images: options.Images = None,
    out: Annotated[Path | None, typer.Option(help="the file of captions [default: runs/captions.json]")] = None,
    overwrite: options.Overwrite = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            help="COCO file whose 'images' say which pictures, and their ids [default: --instances, or names]"
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="what it is asked, or how its captions begin [default: its family's own]")
    ] = None,
    beams: Annotated[int | None, typer.Option(help="of the beam search [default: 1, greedy]")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="of a caption [default: 30]")] = None,
    instances: options.Instances = None,
    mask: Annotated[
        str | None, typer.Option(help="what is hidden of pictures: none, partial, segment or box [default: none]")
    ] = None,
    detector: Annotated[str | None, typer.Option(help="gt, yolo or maskrcnn [default: gt]")] = None,
    hide: options.Hide = None,
    category: options.Category = None,
    fill: options.Fill = None,
    share: options.Share = None,
    dilation: options.Dilation = None,
    foreground: options.Foreground = None,
    threshold: options.Threshold = None,
    mask_threshold: options.MaskThreshold = None,
    weights: options.Weights = None,
    trust_weights: options.TrustWeights = None,
    cache: options.Cache = None,
    max_pixels: options.MaxPixels = None,
    attribute: options.Attribute = None,
    lexicon: options.Lexicon = None,
    labels: options.ObjectLabels = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    label_value: options.LabelValue = None,
    batch_size: Annotated[int | None, typer.Option(help="pictures at a time [default: 8]")] = None,
    precision: Annotated[str | None, typer.Option(help="no or bf16 [default: no]")] = None,
    device: options.Device = None,
    seed: options.NoiseSeed = None,
) -> None:
    """Caption a folder of pictures with any checkpoint that transformers loads; nothing is drawn by chance.

    Leaves COCO results in --out and the settings beside it. A killed run goes on where it was. Exit code 1: some
    pictures could not be captioned; they are listed.
    """
    given = dict(locals())
    with one_line_errors():
        from judge.commands.caption import caption as run_caption
        from judge.config import CaptionConfig

        config = resolve(given.pop("caption_file"), given, CaptionConfig, out="runs/captions.json")
        with show_progress() as progress:
            found = run_caption(config, progress=progress)
        if found.captions:
            say(f"{found.captions} pictures captioned; the captions are in {config.out}")
        if found.empty:
            say(f"NOTE: {found.empty} captions are empty")
        tell_failures(found.failures, found.captions + len(found.failures), "captioned")
