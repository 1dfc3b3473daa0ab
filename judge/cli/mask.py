"""Commands that work on pictures: ``judge mask``, ``judge train detector``, ``judge ablate detectors``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge.cli import options
from judge.cli.shared import one_line_errors, resolve, say, show_progress, tell_failures

if TYPE_CHECKING:
    from judge.commands.mask import MaskedFolder


def mask(  # noqa: PLR0913, PLR0917 - one parameter an option: that is how Typer reads them
    mask_file: Annotated[
        Path | None, typer.Argument(metavar="[MASK.yaml]", help="settings; options override them")
    ] = None,
    images: options.Images = None,
    instances: options.Instances = None,
    out: Annotated[Path | None, typer.Option(help="folder for the masked pictures [default: runs/masked]")] = None,
    overwrite: options.Overwrite = None,
    detector: Annotated[str | None, typer.Option(help="gt, yolo or maskrcnn [default: gt]")] = None,
    mode: options.Mode = None,
    hide: options.Hide = None,
    category: options.Category = None,
    fill: options.Fill = None,
    share: options.Share = None,
    dilation: options.Dilation = None,
    foreground: options.Foreground = None,
    threshold: options.Threshold = None,
    mask_threshold: options.MaskThreshold = None,
    image_format: Annotated[
        str | None, typer.Option("--format", help="png or webp, both lossless [default: png]")
    ] = None,
    weights: options.Weights = None,
    trust_weights: options.TrustWeights = None,
    device: options.Device = None,
    batch_size: options.DetectorBatch = None,
    cache: options.Cache = None,
    max_pixels: options.MaxPixels = None,
    attribute: options.Attribute = None,
    lexicon: options.Lexicon = None,
    labels: options.ObjectLabels = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    label_value: options.LabelValue = None,
    workers: options.PictureWorkers = None,
    seed: options.NoiseSeed = None,
) -> None:
    """Hide people, or things, in a folder of pictures; without loss, at the same size.

    Leaves the masked pictures, masks.parquet, contact_sheet.png and mask.yaml in --out. Exit code 1: some pictures
    could not be masked; they are listed.
    """
    given = dict(locals())
    given["format"] = given.pop("image_format")
    with one_line_errors():
        from judge.commands.mask import mask as run_mask
        from judge.config import MaskConfig

        config = resolve(given.pop("mask_file"), given, MaskConfig, out="runs/masked")
        with show_progress() as progress:
            found = run_mask(config, progress=progress)
        _tell(found, config.out)


def train_detector(  # noqa: PLR0913, PLR0917 - one parameter an option: that is how Typer reads them
    train_file: Annotated[
        Path | None, typer.Argument(metavar="[TRAIN.yaml]", help="settings; options override them")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="yolo (Ultralytics, AGPL-3.0) or maskrcnn (torchvision)")] = None,
    images: options.Images = None,
    instances: options.Instances = None,
    out: Annotated[
        Path | None, typer.Option(help="the file of weights [default: checkpoints/detector.safetensors]")
    ] = None,
    overwrite: options.Overwrite = None,
    categories: Annotated[str | None, typer.Option(help="what it shall tell apart [default: all of the file]")] = None,
    start: Annotated[
        str | None, typer.Option(help="weights to go on from [default: none, a small network from nothing]")
    ] = None,
    trust_weights: options.TrustWeights = None,
    epochs: Annotated[int | None, typer.Option(help="passes over the pictures [default: 40]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="pictures a step [default: 8]")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="the highest [default: the kind's own]")] = None,
    image_size: Annotated[
        int | None, typer.Option(help="pixels of the longer side, a multiple of 32 [default: 160]")
    ] = None,
    validation: Annotated[float | None, typer.Option(help="share of the pictures held out [default: 0.1]")] = None,
    seed: Annotated[int | None, typer.Option(help="of weights, split, order and flips [default: 0]")] = None,
    device: options.Device = None,
) -> None:
    """Train a small detector from nothing, or weights at hand further, on any pictures with instances.

    Leaves one file that --weights takes. It holds numbers alone: reading it runs nothing.
    """
    given = dict(locals())
    with one_line_errors():
        from judge.commands.train_detector import train
        from judge.config import TrainDetectorConfig

        config = resolve(given.pop("train_file"), given, TrainDetectorConfig, out="checkpoints/detector.safetensors")
        with show_progress() as progress:
            found = train(config, progress=progress)
        recall = found.overlap.recall
        held = "no pixel to find" if math.isnan(recall) else f"{recall:.1%} of the pixels found"
        say(f"Trained on {found.pictures} pictures in {found.seconds:.0f} s; in {found.held_out} held out: {held}")
        say(f"The weights are in {found.path}; use them with --detector {config.kind} --weights {found.path}")


def _tell(found: MaskedFolder, out: Path) -> None:
    """What was done, and what was not."""
    from judge.masking.images import SHEET_NAME

    rows, failures = found.masked.rows, found.masked.failures
    if not rows:
        tell_failures(failures, len(failures), "masked")
    if correlated := found.correlated:
        say(
            f"Hidden object: {correlated.category} ({correlated.share:.0%} of {correlated.images} pictures with it are "
            f"{correlated.class_})"
        )
    share = sum(row.share_hidden for row in rows) / len(rows)
    with_any = sum(row.instances > 0 for row in rows)
    say(
        f"{len(rows)} pictures masked; {with_any} hold {' or '.join(found.hidden)}; "
        f"{sum(row.instances for row in rows)} instances, {share:.1%} of the pixels hidden"
    )
    if found.left_out:
        say(f"NOTE: {found.left_out} pictures of the folder are not in the instances file; they were left out")
    say(f"They are in {out}; look at {out / SHEET_NAME}")
    tell_failures(failures, len(rows) + len(failures), "masked")
