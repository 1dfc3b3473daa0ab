"""Options that several commands share: each is written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Overwrite = Annotated[bool | None, typer.Option("--overwrite", help="replace what lies in --out")]

Images = Annotated[Path | None, typer.Option(help="folder of pictures")]
Instances = Annotated[Path | None, typer.Option(help="COCO instances of these pictures")]
MaxPixels = Annotated[
    int | None, typer.Option(help="more (width x height) is a decompression bomb [default: 89478485]")
]
PictureWorkers = Annotated[int | None, typer.Option(help="pictures masked at a time [default: one a core]")]

Mode = Annotated[str | None, typer.Option(help="partial, segment or box [default: segment]")]
Hide = Annotated[
    str | None, typer.Option(help="person, object (what goes most with the attribute) or both [default: person]")
]
Category = Annotated[str | None, typer.Option(help="the object to hide [default: chosen by BA]")]
Fill = Annotated[str | None, typer.Option(help="black, mean, blur or noise [default: black]")]
Share = Annotated[float | None, typer.Option(help="of each mask, from the top, that partial hides [default: 0.5]")]
Dilation = Annotated[int | None, typer.Option(help="pixels by which the hidden region grows [default: 0]")]
Foreground = Annotated[
    str | None, typer.Option(help="all, largest, or a share of the picture, e.g. 0.05 [default: all]")
]
NoiseSeed = Annotated[int | None, typer.Option(help="of the noise [default: 0]")]

Threshold = Annotated[float | None, typer.Option(help="least score of a detected instance [default: 0.5]")]
MaskThreshold = Annotated[
    float | None, typer.Option(help="probability from which a pixel belongs to a mask; less hides more [default: 0.5]")
]
TrustWeights = Annotated[
    Path | None, typer.Option(help="folder whose .pt files may be unpickled, which can run any code in them")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 [default: a GPU where there is one]")]
DetectorBatch = Annotated[int | None, typer.Option(help="pictures that a detector sees at a time [default: 8]")]
Cache = Annotated[Path | None, typer.Option(help="where detections are kept [default: runs/detections]")]

Attribute = Annotated[str | None, typer.Option(help="the protected attribute [default: gender]")]
Lexicon = Annotated[
    str | None, typer.Option(help="words to hide: a shipped name, a .yaml, or none [default: the attribute's]")
]
ObjectLabels = Annotated[Path | None, typer.Option(help="attribute class of each image, to choose the object by")]
IdColumn = Annotated[str | None, typer.Option(help="image column of the label table")]
LabelColumn = Annotated[str | None, typer.Option(help="class column of the label table")]
LabelValue = Annotated[
    list[str] | None, typer.Option(help="CLASS=SPELLING of the label table, e.g. female=1; repeatable")
]
Weights = Annotated[
    list[str] | None, typer.Option(help="of a detector: a file, or a name that its library knows; or yolo=FILE ...")
]
Resamples = Annotated[int | None, typer.Option(help="of bootstrap and test [default: 2000]")]
Level = Annotated[float | None, typer.Option(help="of the intervals [default: 0.95]")]
