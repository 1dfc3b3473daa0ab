"""From settings to pictures with people hidden: what is hidden, and which detector finds it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from judge.commands.labels import labels_of
from judge.config.inputs import (
    DetectionSettings,
    FolderSettings,
    HidingSettings,
    ImageSettings,
    MaskSettings,
    NetworkSettings,
    ShownSettings,
)
from judge.config.values import listed
from judge.corpus.records import canonical_id
from judge.errors import JudgeError, require
from judge.judges import find_judge
from judge.masking.cache import Cached
from judge.masking.categories import check_categories, names_people, people_among, read_names, stays_visible
from judge.masking.detectors import Detector, make_detector
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import has_image, list_images
from judge.masking.instances import PERSON
from judge.masking.masked_images import MaskedImages, find_hidden, hides_people, make_thumbnails
from judge.masking.measured import hide_nobody
from judge.masking.people import Hiding, Mode
from judge.types import Labels, Progress

# LIC's BA asks that a word occurs with every class at least 100 times; small sets must do with a hundredth.
_OFTEN, _SHARE = 100, 0.01


@dataclass(frozen=True, slots=True)
class Correlated:
    """The category most correlated with the attribute.

    Attributes:
        category: its name.
        class_: the class that it goes with.
        share: of the pictures with that category, those of that class (BA's b_al), in [0, 1].
        images: pictures with that category and a label.
    """

    category: str
    class_: str
    share: float
    images: int


def correlated_category(truth: GroundTruth, labels: Labels, *, at_least: int | None = None) -> Correlated:
    """The category, people apart, whose b_al (BA, Zhao et al. 2017) is highest over classes, as in LIC 5.4.

    b_al is a share of pictures as they are: where one class has most of them (COCO: men), it is mostly that class.
    At a tie the first class, then the first category of the file.

    Args:
        truth: the objects of the pictures.
        labels: the attribute of the pictures.
        at_least: pictures in which a category must occur; default: 100, or 1% of the labelled ones if fewer.

    Raises:
        JudgeError: no labelled picture holds such a category.
    """
    where = f"{truth.source} with {labels.source}"
    pairs = [(name, label_of(name, truth, labels)) for name in truth.images]
    known = [(name, label) for name, label in pairs if label is not None]
    if not known:
        raise JudgeError("no picture has a label", where=where, mend="use labels of these pictures")
    categories = [category for category in truth.categories if category != PERSON]
    present = np.zeros((len(known), len(categories)), dtype=np.bool_)
    for row, (name, _) in enumerate(known):
        held = truth.categories_in(name)
        present[row] = [category in held for category in categories]
    attribute = np.array([labels.classes.index(label) for _, label in known], dtype=np.int64)
    table = (attribute == np.arange(len(labels.classes))[:, None]).astype(np.int64) @ present
    least = max(1, min(_OFTEN, round(_SHARE * len(known)))) if at_least is None else at_least
    total = table.sum(axis=0)
    shares = np.divide(table, total, out=np.full(table.shape, np.nan), where=total >= least)
    if not np.isfinite(shares).any():
        mend = "name the object with --category"
        raise JudgeError(f"no category occurs in {least} labelled pictures", where=where, mend=mend)
    class_, category = np.unravel_index(np.nanargmax(shares), shares.shape)
    share, images = float(shares[class_, category]), int(total[category])
    return Correlated(categories[category], labels.classes[class_], share, images)


def label_of(name: str, truth: GroundTruth, labels: Labels) -> str | None:
    """The class of the picture ``name``: by its "id" in the instances file, else by its name."""
    for key in (truth.image_id(name), name):
        with suppress(ValueError):  # Names nothing that an image can be called.
            if (label := labels.by_image.get(canonical_id(key))) is not None:
                return label
    return None


def choose_hiding(
    config: HidingSettings, mode: Mode, *, seed: int, truth: GroundTruth | None = None
) -> tuple[Hiding, Correlated | None, GroundTruth | None]:
    """What ``config`` hides; how the object was chosen where BA chose it; and the instances if they have been read.

    Raises:
        JudgeError: an object is to be hidden and neither named nor to be chosen (instances and labels missing).
    """
    chosen, category = None, config.category
    if config.hide == PERSON and category is not None:
        mend = "add --hide object, or --hide both"
        raise JudgeError(f"only people are hidden, no {category}", where=f"--category {category}", mend=mend)
    if config.hide != PERSON and category is None:
        labels = labels_of(config)
        if not config.instances or labels is None:
            mend = "give --instances and --labels, or name the object with --category"
            raise JudgeError("nothing says which object goes with the attribute", where="--hide", mend=mend)
        truth = truth or read_truth(config)
        chosen = correlated_category(truth, labels)
        category = chosen.category
    wanted = {"person": (PERSON,), "object": (category,), "both": (PERSON, category)}[config.hide]
    same = {name: getattr(config, name) for name in ("threshold", "foreground", "share", "dilation", "fill")}
    return Hiding(tuple(label for label in wanted if label), mode=mode, seed=seed, **same), chosen, truth


def read_truth(config: ImageSettings, labels: Collection[str] | None = None) -> GroundTruth:
    """The instances that ``config`` names; ``labels``: the categories that are read, None for all.

    Raises:
        JudgeError: there are none; as :meth:`GroundTruth.read`.
    """
    if not config.instances:
        raise JudgeError("detector 'gt' needs the instances", where="--instances", mend="give their COCO file")
    names, people = read_names(config.class_names), config.person_categories
    truth = GroundTruth.read(listed(config.instances), labels=labels, people=people, names=names, images=config.images)
    if config.finders == ("gt",):  # Of several detectors each may have categories of its own.
        check_categories(people, truth.renamed, truth.source)
    return truth


def truth_beside(
    config: ImageSettings, detector: Detector, labels: Collection[str], truth: GroundTruth | None = None
) -> GroundTruth | None:
    """Ground truth to measure a network by, read unless it is given; None where there is none of these categories."""
    if detector.name == "gt" or not config.instances:
        return None
    truth = truth or read_truth(config)
    return truth.only(labels) if {*labels} <= {*truth.categories} else None


def open_detector(
    name: str,
    config: DetectionSettings,
    labels: tuple[str, ...],
    *,
    truth: GroundTruth | None = None,
    device: str | None = None,
) -> Detector:
    """The detector called ``name``: ``truth`` for "gt", where it has been read already; a network with its cache.

    Raises:
        JudgeError: as ``read_truth`` and ``load_detector``.
    """
    require("images", "cv2", "PIL", "pycocotools")
    if name == "gt":
        return (truth or read_truth(config, labels)).only(labels)
    detector, names, doubts = load_detector(name, config, labels, device=device)
    return Cached(detector, config.cache, names, doubts)


def load_detector(
    name: str,
    config: NetworkSettings,
    labels: tuple[str, ...],
    *,
    device: str | None = None,
) -> tuple[Detector, dict[str, str], list[str]]:
    """The network called ``name``; category -> its name here, "person" for people; what a user must know of these.

    Raises:
        JudgeError: as ``make_detector``; one that does not know all of ``labels``: it would hide nothing.
    """
    detector = make_detector(
        name,
        weights=config.weights.get(name) or config.weights.get(""),
        trust=config.trust_weights,
        device=device,
        mask_threshold=config.mask_threshold if isinstance(config, MaskSettings) else 0.5,
    )
    source = f"detector '{name}'"
    own = {category: category for category in detector.categories}
    if (names := read_names(config.class_names)) is not None:
        places = [str(place) for place in range(len(detector.categories))]
        if {*names} != {*places}:
            what, mend = f"does not name the {len(places)} classes of {source}", "name each class, from 0 on"
            raise JudgeError(what, where=f"--class-names {config.class_names}", mend=mend)
        own = dict(zip(detector.categories, map(names.__getitem__, places), strict=True))
    people = people_among(own.values(), config.person_categories)
    if config.finders == (name,):
        check_categories(config.person_categories, own.values(), source)
    check_categories(labels, {PERSON for _ in people} | {*own.values()}, f"--weights: {source}")
    visible = sorted(other for other in {*own.values()} - people if names_people(other))
    renamed = {category: PERSON if other in people else other for category, other in own.items()}
    return detector, renamed, [stays_visible(other, source) for other in visible]


def refuse_unmasked(config: HidingSettings, masks: Mapping[str, Any] | None, doubts: Sequence[str]) -> None:
    """Refuse masks that hide almost nobody, unless the settings allow them.

    Raises:
        JudgeError: they do, with the figure.
    """
    if masks and (what := hide_nobody(masks)) and not config.allow_unmasked:
        mend = next((doubt for doubt in doubts if "--person-category" in doubt), "give other weights or instances")
        mend = f"{mend.rstrip('.')}; or go on as it is with --allow-unmasked"
        raise JudgeError(what, where=f"--detector {config.finders[0]}", mend=mend)


def prepare_masking(
    config: FolderSettings, mode: Mode
) -> tuple[Hiding, Correlated | None, Detector, GroundTruth | None]:
    """What a command on a folder hides, how BA chose the object, the detector, and ground truth beside a network.

    Args:
        config: of the command.
        mode: how much is hidden.

    Raises:
        JudgeError: as ``choose_hiding`` and ``open_detector``.
    """
    hiding, correlated, truth = choose_hiding(config, mode, seed=config.seed)
    detector = open_detector(config.detector, config, hiding.labels, truth=truth, device=config.device)
    return hiding, correlated, detector, truth_beside(config, detector, hiding.labels)


def picture_names(folder: Path, truth: GroundTruth | None) -> tuple[list[str], int]:
    """The pictures to mask, and how many of the folder are left out.

    With ground truth those that its file lists: of others nobody knows where the people are. Else the whole folder.

    Raises:
        JudgeError: no folder, no picture in it, none in the file.
    """
    if truth is None:
        return list_images(folder), 0
    if not truth.images:
        raise JudgeError("lists no picture", where=truth.source, mend="give the file of these pictures")
    listed, others = set(truth.images), list[str]()
    if not any(has_image(folder, name) for name in truth.images):
        list_images(folder)  # Where there is nothing at all, it says so in one line.
    with suppress(JudgeError):  # The file says where its pictures lie: others are a matter of courtesy.
        others = [name for name in list_images(folder) if name not in listed]
    return list(truth.images), len(others)


@dataclass(eq=False)
class RunImages:
    """The pictures of a run with ``images``; instances, names and weights are read once, when first needed.

    Raises:
        JudgeError: there are no such images, whether or not a judge sees them.
    """

    config: ShownSettings
    judges: Sequence[str] = ()
    seed: int = 0
    progress: Progress | None = None
    _shown: MaskedImages | None = None

    def __post_init__(self) -> None:
        if self.config.images and not self.config.images.exists():
            list_images(self.config.images)  # Which says so in one line; shards may be named by a pattern.

    @cached_property
    def truth(self) -> GroundTruth | None:
        """The instances, of all categories, where the run names their file."""
        require("images", "cv2", "PIL", "pycocotools")
        return read_truth(self.config) if self.config.instances else None

    @cached_property
    def plain(self) -> MaskedImages:
        """All pictures that have an image id; nothing is hidden."""
        assert self.config.images is not None
        known = known_pictures(self.config.images, self.truth)
        return MaskedImages(self.config.images, known, max_pixels=self.config.max_pixels)

    def hidden(self, image_ids: Sequence[str]) -> MaskedImages:
        """The pictures of ``image_ids`` as judges see them, and where things are, if a judge asks for regions.

        Regions come from the detector; where nothing is hidden it does not run, and the instances file has them.

        Raises:
            JudgeError: an image without a picture; as ``choose_hiding``, ``open_detector`` and ``find_hidden``.
        """
        from judge.training.launch import in_main_process

        found = in_main_process(lambda: self._hidden(image_ids))
        if image_ids:
            self._shown = found
            self.free()
        return found

    def of_examples(self, examples: pd.DataFrame) -> dict[str, bytes]:
        """Image id -> small picture, people hidden, of a report's examples; none where the run hides nobody whole.

        None either where no judge asked for pictures and they cannot be had, which is told: numbers do not depend on
        them.
        """
        if self.config.images is None or not len(examples) or self.config.mask in {"none", "partial"}:
            return {}
        wanted = list(dict.fromkeys(examples["image_id"]))
        try:
            shown = self._shown or self._hidden([image for image in wanted if image in self.plain.names])
            return make_thumbnails(shown, wanted) if hides_people(shown) else {}
        except JudgeError as error:
            logging.getLogger(__name__).info("NOTE: examples are shown without pictures: %s", error)
            return {}

    @property
    def masks(self) -> dict[str, Any]:
        """Measure what masks hide from judges: ``{"masks": ...}``, or {} if nothing is hidden."""
        return {"masks": self._shown.masks} if self._shown and self._shown.masks else {}

    @property
    def notes(self) -> list[str]:
        """What a user must know of the masks that judges saw, a sentence each."""
        return list(self._shown.doubts) if self._shown else []

    def free(self) -> None:
        """Give back what is read again if it is asked for: instances (a gigabyte of COCO's) and the detector."""
        for name in ("truth", "_hiding"):
            self.__dict__.pop(name, None)

    def _hidden(self, image_ids: Sequence[str]) -> MaskedImages:
        names = name_pictures(self.plain.names, image_ids, self.plain.folder)
        regions = any(find_judge(name).regions for name in self.judges)
        hiding, detector = self._hiding
        if self.truth and regions and (detector is None or detector.name == "gt"):
            detector = self.truth  # Things of all categories, which no other judge needs.
        if detector is None:
            return replace(self.plain, names=names)
        found = find_hidden(
            self.plain.folder,
            names,
            detector=detector,
            hiding=hiding,
            truth=truth_beside(self.config, detector, hiding.labels, self.truth) if hiding else None,
            max_pixels=self.plain.max_pixels,
            regions=regions,
            progress=self.progress,
        )
        refuse_unmasked(self.config, found.masks, found.doubts)
        return found

    @cached_property
    def _hiding(self) -> tuple[Hiding, Detector] | tuple[None, None]:
        config = self.config
        if config.mask == "none":
            return None, None
        hiding, _, truth = choose_hiding(config, config.mask, seed=self.seed, truth=self.truth)
        return hiding, open_detector(config.detector, config, hiding.labels, truth=truth)


def known_pictures(folder: Path, truth: GroundTruth | None) -> dict[str, str]:
    """Image id -> the name of its picture: by the "id" in the instances file, else by its name.

    Raises:
        JudgeError: no folder, no picture in it.
    """
    known: dict[str, str] = {}
    listed = [(truth.image_id(name), name) for name in truth.images] if truth else []
    # What stands first counts; a name that can be no image's is passed over.
    for key, name in [*listed, *((name, name) for name in list_images(folder))]:
        with suppress(ValueError):
            known.setdefault(canonical_id(key), name)
    return known


def name_pictures(known: Mapping[str, str], image_ids: Sequence[str], folder: Path) -> dict[str, str]:
    """The pictures of ``image_ids`` among ``known`` ones (see :func:`known_pictures`) of ``folder``.

    Raises:
        JudgeError: an image without a picture.
    """
    missing = [image for image in image_ids if image not in known]
    if missing:
        what = f"no picture of image '{missing[0]}' ({len(missing)} of {len(image_ids)} images have none)"
        raise JudgeError(what, where=f"--images {folder}", mend="add them, or leave out their captions")
    return {image: known[image] for image in image_ids}
