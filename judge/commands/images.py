"""From settings to images with people hidden: what is hidden, and which detector finds it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from judge.commands.labels import labels_of
from judge.config.inputs import (
    DetectionSettings,
    FolderSettings,
    HidingSettings,
    ImageSettings,
    MaskSettings,
    NetworkSettings,
)
from judge.config.values import listed
from judge.corpus.records import canonical_id
from judge.errors import JudgeError, require
from judge.masking.cache import Cached
from judge.masking.categories import check_categories, names_people, people_among, read_names, stays_visible
from judge.masking.detectors import Detector, make_detector
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import has_image, list_images
from judge.masking.instances import PERSON
from judge.masking.measured import hide_nobody
from judge.masking.people import Hiding, Mode
from judge.types import Labels

# LIC's BA asks that a word occurs with every class at least 100 times; small sets must do with a hundredth.
_OFTEN, _SHARE = 100, 0.01


@dataclass(frozen=True, slots=True)
class Correlated:
    """The category most correlated with the attribute.

    Attributes:
        category: its name.
        class_: the class that it goes with.
        share: of the images with that category, those of that class (BA's b_al), in [0, 1].
        images: images with that category and a label.
    """

    category: str
    class_: str
    share: float
    images: int


def correlated_category(truth: GroundTruth, labels: Labels, *, at_least: int | None = None) -> Correlated:
    """The category, people apart, whose b_al (BA, Zhao et al. 2017) is highest over classes, as in LIC 5.4.

    b_al is a share of images as they are: where one class has most of them (COCO: men), it is mostly that class.
    At a tie the first class, then the first category of the file.

    Args:
        truth: the objects of the images.
        labels: the attribute of the images.
        at_least: images in which a category must occur; default: 100, or 1% of the labelled ones if fewer.

    Raises:
        JudgeError: no labelled image holds such a category.
    """
    where = f"{truth.source} with {labels.source}"
    pairs = [(name, label_of(name, truth, labels)) for name in truth.images]
    known = [(name, label) for name, label in pairs if label is not None]
    if not known:
        raise JudgeError("no image has a label", where=where, mend="use labels of these images")
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
        raise JudgeError(f"no category occurs in {least} labelled images", where=where, mend=mend)
    class_, category = np.unravel_index(np.nanargmax(shares), shares.shape)
    share, images = float(shares[class_, category]), int(total[category])
    return Correlated(categories[category], labels.classes[class_], share, images)


def label_of(name: str, truth: GroundTruth, labels: Labels) -> str | None:
    """The class of the image ``name``: by its "id" in the instances file, else by its name."""
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


def image_names(folder: Path, truth: GroundTruth | None) -> tuple[list[str], int]:
    """The images to mask, and how many of the folder are left out.

    With ground truth those that its file lists: of others nobody knows where the people are. Else the whole folder.

    Raises:
        JudgeError: no folder, no image in it, none in the file.
    """
    if truth is None:
        return list_images(folder), 0
    if not truth.images:
        raise JudgeError("lists no image", where=truth.source, mend="give the file of these images")
    listed, others = set(truth.images), list[str]()
    if not any(has_image(folder, name) for name in truth.images):
        list_images(folder)  # Where there is nothing at all, it says so in one line.
    with suppress(JudgeError):  # The file says where its images lie: others are a matter of courtesy.
        others = [name for name in list_images(folder) if name not in listed]
    return list(truth.images), len(others)


def known_images(folder: Path, truth: GroundTruth | None) -> dict[str, str]:
    """Image id -> the name of its image: by the "id" in the instances file, else by its name.

    Raises:
        JudgeError: no folder, no image in it.
    """
    known: dict[str, str] = {}
    listed = [(truth.image_id(name), name) for name in truth.images] if truth else []
    # What stands first counts; a name that can be no image's is passed over.
    for key, name in [*listed, *((name, name) for name in list_images(folder))]:
        with suppress(ValueError):
            known.setdefault(canonical_id(key), name)
    return known


def find_images(known: Mapping[str, str], image_ids: Sequence[str], folder: Path) -> dict[str, str]:
    """The images of ``image_ids`` among ``known`` ones (see :func:`known_images`) of ``folder``.

    Raises:
        JudgeError: an image without a file.
    """
    missing = [image for image in image_ids if image not in known]
    if missing:
        what = f"no file of image '{missing[0]}' ({len(missing)} of {len(image_ids)} images have none)"
        raise JudgeError(what, where=f"--images {folder}", mend="add them, or leave out their captions")
    return {image: known[image] for image in image_ids}
