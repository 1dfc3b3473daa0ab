"""``judge attribute`` on images: where judges and captioners looked, how much of it lies outside people, maps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
import pandas as pd

from judge.attribution.people import attribution_score, share_outside
from judge.commands.images import known_images, open_detector
from judge.commands.labels import choose_lexicon
from judge.commands.predict import NewCaptionSettings
from judge.commands.run_images import RunImages
from judge.config import make_config
from judge.config.inputs import LabelSettings, ShownSettings
from judge.config.values import Attributes, Checkpoint, Lexicons, list_or_text, lower_names
from judge.errors import JudgeError, require
from judge.masking.images import encode
from judge.masking.instances import PERSON, BoolMask
from judge.masking.masked_images import MaskedImages, find_hidden
from judge.masking.people import Hiding
from judge.report.attribution import MapRow
from judge.training.judge_file import Saved
from judge.types import Progress, Sample
from judge.utils.cells import table_csv
from judge.utils.options import option

if TYPE_CHECKING:
    from judge.attribution.maps import ImageExplanation, MapSettings

PICTURES, MAPS = "pictures.csv", "maps"
ImageMethod = Literal["grad-cam", "gradient-shap"]
IMAGE_METHODS: tuple[ImageMethod, ...] = get_args(ImageMethod)
COLUMNS = ["judge", "masking", "weights", "image_id", "caption", "answer", "value", "method", "score", "area_outside"]
_SAFE = re.compile(r"[^\w.-]+")


Method = Literal["occlusion", "exact", "grad-cam", "gradient-shap"]


class ExplainSettings(NewCaptionSettings, LabelSettings):
    """What is explained, and how."""

    panel = "Output"

    attribute: Attributes = option(
        "gender", "attribute of the labels, and of --model's words", "the first judge's; of --model gender",
        repeated="NAME",
    )  # fmt: skip
    lexicon: Lexicons = option(
        None, "classes of the labels, and words to look for in --model's captions: a shipped lexicon, a .yaml file, or "
        "none", "the attribute's own", repeated="[NAME=]TEXT",
    )  # fmt: skip
    model: Checkpoint | None = option(
        None, "captioner (a checkpoint folder, or a name on the Hugging Face hub) whose own words are explained, "
        "in place of a judge", essential=True, file=True, min_length=1,
    )  # fmt: skip
    methods: Annotated[tuple[Method, ...], list_or_text(lower_names)] = option(
        (),
        "comma-separated: for words occlusion, exact (linear); for images grad-cam, gradient-shap",
        "all that the judge allows",
        essential=True,
    )
    show_people: bool = option(False, "draw maps over images in which nobody is hidden", essential=True)
    maps: int = option(24, "images to draw maps of; 0 for none", essential=True, ge=0)


def image_methods(saved: Saved) -> dict[ImageMethod, str]:
    """Methods by which images of a judge can be explained -> "", or why they cannot."""
    return dict.fromkeys(IMAGE_METHODS, "" if saved.sees else "it sees no images")


@dataclass
class ImageMaps:
    """Maps of several judges, over the same people; a folder of the first images' maps.

    Args:
        people: the images with people hidden, and where they are.
        plain: draw maps over images as they are; else only over those in which a person was found, and is hidden.
        most: images that are drawn, of each judge.
    """

    people: MaskedImages
    plain: bool = False
    most: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)
    rows: list[MapRow] = field(default_factory=list)
    drawn: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, masking: str, weights: str, found: Iterable[ImageExplanation], folder: Path) -> None:
        """Score a judge's maps, and draw some of them into ``folder``."""
        areas: dict[str, float] = {}
        by_method: dict[str, list[tuple[float | None, float]]] = {}
        number = len({row.weights for row in self.rows}) + 1
        for one in found:
            where = self._people(one.image_id, one.mass.shape)
            area, share = float((~where).mean()), share_outside(one.mass, where)
            areas[one.image_id] = area
            by_method.setdefault(one.method, []).append((share, area))
            about = [name, masking, weights, one.image_id, one.caption, one.answer, one.value, one.method, share, area]
            self.lines.append(dict(zip(COLUMNS, about, strict=True)))
            # Where no person was found there may be one whom the detector does not know.
            if len(self.drawn) < self.most and (self.plain or where.any()):
                self.drawn.setdefault(one.image_id, len(self.drawn) + 1)
            if one.image_id in self.drawn:
                self._draw(one, where, folder, f"{number}-{name}-{masking}")
        for method, shares in by_method.items():
            score = attribution_score(
                [share for share, _ in shares], [area for _, area in shares], generator=np.random.default_rng(0)
            )
            self.rows.append(MapRow(name, weights, masking, method, score))

    def _people(self, image: str, size: tuple[int, ...]) -> BoolMask:
        assert self.people.hiding is not None
        return self.people.hiding.region(self.people.hidden[self.people.names[image]], (size[0], size[1]))

    def _draw(self, one: ImageExplanation, where: BoolMask, folder: Path, name: str) -> None:
        from judge.attribution.people import sheet
        from judge.masking.images import read_image

        people = self.people
        file = people.names[one.image_id]
        plain = read_image(people.folder, file, max_pixels=people.max_pixels)
        shown = plain.pixels if self.plain else people.read(one.image_id)
        share = share_outside(one.mass, where)
        told = "-" if share is None else f"{share:.2f}"
        lines = [
            f"'{one.answer}' ({one.value:+.2f}), {one.method}",
            f"{told} of the mass lies outside people, {(~where).mean():.2f} of the image does",
            one.caption,
        ]
        folder.mkdir(exist_ok=True)
        stem = "-".join(_SAFE.sub("_", part)[-60:] for part in (one.image_id, name, one.method))
        drawing = sheet(shown, one.mass, where, lines)
        (folder / f"{self.drawn[one.image_id]:03d}-{stem}.png").write_bytes(encode(drawing))

    def write(self, folder: Path) -> None:
        """Write ``pictures.csv``: a row per image, judge and method."""
        text = table_csv(pd.DataFrame(self.lines, columns=COLUMNS))
        (folder / PICTURES).write_text(text, encoding="utf-8", newline="")


def make_map_settings(methods: Sequence[ImageMethod]) -> MapSettings:
    """How maps are made by these methods.

    Raises:
        JudgeError: Captum is not installed.
    """
    require("vision", "captum")
    from judge.attribution.maps import MapSettings

    return MapSettings(tuple(methods))


def find_people(
    config: ExplainSettings, detector: str | None, names: Mapping[str, str], progress: Progress | None
) -> MaskedImages:
    """Where people are in images, pixel by pixel, whatever was hidden from judges.

    Args:
        config: the settings.
        detector: that a judge was trained with; the settings' own counts first.
        names: image id -> its file.
        progress: called with the images done.

    Raises:
        JudgeError: as ``open_detector`` and ``find_hidden``.
    """
    assert config.images is not None
    name = config.detector if "detector" in config.model_fields_set or not detector else detector
    found = open_detector(name, config, (PERSON,))
    hiding = Hiding((PERSON,))
    return find_hidden(
        config.images, names, detector=found, hiding=hiding, max_pixels=config.max_pixels, progress=progress
    )


def explain_judge(  # noqa: PLR0913 - one judge, what it is asked, where maps go
    maps: ImageMaps,
    saved: Saved,
    weights: str,
    samples: Sequence[Sample],
    explained: Sequence[int],
    pictures: MaskedImages,
    how: MapSettings,
    *,
    folder: Path,
    progress: Progress | None,
) -> list[str]:
    """Add where a judge looked in each image, for its first caption. Returns notes, a line each.

    Raises:
        JudgeError: as :func:`~judge.attribution.judge_views.explain_guesses`.
    """
    from judge.attribution.judge_views import explain_guesses
    from judge.masking.detectors.weights import choose_device

    first: dict[str, tuple[Sample, int]] = {}
    for sample, answer in zip(samples, explained, strict=True):
        first.setdefault(sample.image_id, (sample, int(answer)))
    chosen = [sample for sample, _ in first.values()]
    found, notes = explain_guesses(
        saved,
        chosen,
        pictures,
        how,
        answers=[answer for _, answer in first.values()],
        device=choose_device(None),
        progress=progress,
    )
    maps.add(saved.judge, str(saved.masking.get("mask", "none")), weights, found, folder)
    return notes


def explain_captioner(
    config: ExplainSettings, methods: Sequence[ImageMethod], folder: Path, progress: Progress | None
) -> tuple[ImageMaps, list[str]]:
    """Where a captioner looked in plain images when it said a word of the attribute.

    Raises:
        JudgeError: no images; an attribute without words; as ``explain_captions``.
    """
    how = make_map_settings(methods)
    lexicon = choose_lexicon(config)
    if lexicon is None:
        what = f"attribute '{config.attribute_name}' has no words to look for"
        raise JudgeError(what, where="--attribute", mend="give its words: --lexicon FILE")
    if config.images is None:
        raise JudgeError("a captioner sees images, and there are none", where="--images", mend="give their folder")
    assert config.model is not None
    from judge.attribution.captioner_words import explain_captions
    from judge.masking.detectors.weights import choose_device

    given = {name: getattr(config, name) for name in ("images", "instances", "person_categories", "class_names")}
    truth = RunImages(make_config(given, ShownSettings, where="--images")).truth
    names = known_images(config.images, truth)
    if truth is not None:
        names = {image: name for image, name in names.items() if name in set(truth.images)}
    people = find_people(config, None, names, progress)
    plain = MaskedImages(config.images, people.names, max_pixels=config.max_pixels)
    maps = ImageMaps(people, config.show_people, config.maps)
    found = explain_captions(
        config.model, list(plain.names), plain, lexicon, how, device=choose_device(None), progress=progress
    )
    maps.add(config.model, "none", "", found, folder)
    said = len({line["image_id"] for line in maps.lines})
    if not said:
        what = f"none of its {len(plain.names)} captions says a word of '{config.attribute_name}'"
        raise JudgeError(what, where=f"--model {config.model}", mend="give other images, or another captioner")
    return maps, [f"{said} of {len(plain.names)} captions say a word of '{config.attribute_name}'; maps are of these"]


def chosen_methods(config: ExplainSettings) -> list[ImageMethod]:
    """The methods on images that settings ask for; all where they ask for none at all."""
    named = [method for method in config.methods if method in IMAGE_METHODS]
    return named if config.methods else list(IMAGE_METHODS)
