"""Steps of the tables of masked images: mask them, caption them, see where the captioner looked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from figures import Value
from jobs import Job, Step
from small_world import FEW, MODEL

from judge.attribution.people import AttributionScore
from judge.commands.attribute import AttributeConfig
from judge.commands.caption import CaptionConfig
from judge.commands.mask import MaskConfig

MODES = ("none", "partial", "segment", "box")


def mask_step(job: Job, name: str, *, mode: str, hide: str) -> Step:
    """``judge mask`` into a folder of the job called ``name``; objects are chosen by the labels."""
    settings: dict[str, Any] = {**job.pictures(), "mode": mode, "hide": hide}
    if hide != "person":
        settings["labels"] = job.inputs(("SAT",))["labels"]
    return Step(name, MaskConfig, settings | {"out": job.out / name})


def caption_step(job: Job, name: str, *, images: Path, model: str) -> Step:
    """``judge caption`` of a folder of images, into NAME.json."""
    short = {"max_tokens": 8} if job.size == "small" else {}
    settings = {"model": model, "images": images, "instances": job.pictures()["instances"], **short}
    return Step(name, CaptionConfig, settings | {"out": job.out / f"{name}.json"})


def attribute_step(job: Job, name: str, *, images: Path, model: str, method: str) -> Step:
    """``judge attribute`` of a captioner's words of gender in a folder of images."""
    instances = job.data / FEW if job.size == "small" else job.pictures()["instances"]
    settings = {"model": model, "images": images, "instances": instances, "methods": (method,)}
    return Step(name, AttributeConfig, settings | {"maps": 0, "out": job.out / name})


def model_of(job: Job, name: str) -> str:
    """The checkpoint of a captioner: of a small run one that was never trained."""
    return str(job.data / MODEL) if job.size == "small" else name


def score_of(found: Iterable[Any]) -> Value | None:
    """The attribution score of a folder of images, as a share of 100."""
    for row in found:
        score: AttributionScore = row.found
        if score.score is not None:
            return Value(score.score, score.interval).times(100)
    return None
