"""From settings to what is hidden in pictures: which things, found by which detector."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from judge.commands.labels import choose_lexicon, labels_of
from judge.config import HidingSettings, RunConfig
from judge.corpus.ids import canonical_id
from judge.errors import JudgeError, nearest, require
from judge.judges import find_judge
from judge.masking.cache import Cached
from judge.masking.detectors import Detector, make_detector
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.folder import Hiding
from judge.masking.hidden import HiddenPictures, find_hidden
from judge.masking.images import list_pictures
from judge.masking.instances import PERSON
from judge.masking.people import Mode
from judge.training.setup import in_main_process
from judge.types import Labels, Progress

# LIC's BA asks that a word occurs with every class at least 100 times; small sets must do with a hundredth.
_OFTEN, _SHARE = 100, 0.01


@dataclass(frozen=True, slots=True)
class Correlated:
    """The category that tells most of the attribute.

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
    pairs = [(name, label_of(name, truth, labels)) for name in truth.pictures]
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
    return Correlated(
        categories[category],
        labels.classes[class_],
        float(shares[class_, category]),
        int(total[category]),
    )


def label_of(name: str, truth: GroundTruth, labels: Labels) -> str | None:
    """The class of the picture ``name``: by its "id" in the instances file, else by its name."""
    for key in (truth.image_id(name), name):
        with suppress(ValueError):  # Names nothing that an image can be called.
            if (label := labels.by_image.get(canonical_id(key))) is not None:
                return label
    return None


def choose_hiding(config: HidingSettings, mode: Mode, *, seed: int) -> tuple[Hiding, Correlated | None]:
    """What ``config`` hides, and how the object was chosen where BA chose it.

    Raises:
        JudgeError: an object is to be hidden and neither named nor to be chosen (instances and labels missing).
    """
    chosen, category = None, config.category
    if config.hide == PERSON and category is not None:
        mend = "add --hide object, or --hide both"
        raise JudgeError(f"only people are hidden, no {category}", where=f"--category {category}", mend=mend)
    if config.hide != PERSON and category is None:
        labels = labels_of(config, choose_lexicon(config))
        if config.instances is None or labels is None:
            mend = "give --instances and --labels, or name the object with --category"
            raise JudgeError("nothing says which object goes with the attribute", where="--hide", mend=mend)
        chosen = correlated_category(GroundTruth.read(config.instances), labels)
        category = chosen.category
    wanted = {"person": (PERSON,), "object": (category,), "both": (PERSON, category)}[config.hide]
    hiding = Hiding(
        labels=tuple(label for label in wanted if label),
        threshold=config.threshold,
        foreground=config.foreground,
        mode=mode,
        share=config.share,
        dilation=config.dilation,
        fill=config.fill,
        seed=seed,
    )
    return hiding, chosen


def open_detector(
    name: str,
    config: HidingSettings,
    labels: tuple[str, ...],
    *,
    device: str | None = None,
    batch: int = 8,
    progress: Progress | None = None,
) -> Detector:
    """The detector called ``name``, what it finds kept in ``config.cache`` (ground truth apart, which is a file).

    Raises:
        JudgeError: as ``make_detector``; one that does not know all of ``labels``: it would hide nothing.
    """
    require("images", "cv2", "PIL", "pycocotools")
    detector = make_detector(
        name,
        instances=config.instances,
        labels=labels,
        weights=config.weights.get(name) or config.weights.get(""),
        trust=config.trust_weights,
        device=device,
        batch=batch,
        mask_threshold=config.mask_threshold,
        say=(lambda line: progress(line, 0, 0)) if progress else None,
    )
    for label in labels:
        if label not in detector.categories:
            mend = nearest(label, sorted(detector.categories))
            raise JudgeError(f"detector '{name}' does not know '{label}'", where="--weights", mend=mend)
    return detector if name == "gt" else Cached(detector, config.cache)


def picture_names(folder: Path, truth: GroundTruth | None) -> tuple[list[str], int]:
    """The pictures to mask, and how many of the folder are left out.

    With ground truth those that its file lists: of others nobody knows where the people are. Else the whole folder.

    Raises:
        JudgeError: no folder, no picture in it, none in the file.
    """
    if truth is None:
        return list_pictures(folder), 0
    if not truth.pictures:
        raise JudgeError("lists no picture", where=truth.source, mend="give the file of these pictures")
    listed, others = set(truth.pictures), list[str]()
    if not any((folder / name).exists() for name in truth.pictures):
        list_pictures(folder)  # Where there is nothing at all, it says so in one line.
    with suppress(JudgeError):  # The file says where its pictures lie: others are a matter of courtesy.
        others = [name for name in list_pictures(folder) if name not in listed]
    return list(truth.pictures), len(others)


def see(config: RunConfig, image_ids: Sequence[str], *, progress: Progress | None = None) -> HiddenPictures:
    """The pictures of ``image_ids`` as judges see them, and where things are, if one of them asks.

    Where things are is the detector's to say; with nothing to be hidden it is not run, but the instances file is read.

    Raises:
        JudgeError: an image without a picture; as ``choose_hiding``, ``open_detector`` and ``find_hidden``.
    """
    return in_main_process(lambda: _see(config, image_ids, progress))


def _see(config: RunConfig, image_ids: Sequence[str], progress: Progress | None) -> HiddenPictures:
    assert config.images is not None
    require("images", "cv2", "PIL", "pycocotools")
    truth = GroundTruth.read(config.instances) if config.instances else None
    names = name_pictures(config.images, truth, image_ids)
    regions = any(find_judge(name).regions for name in config.judge)
    look = partial(find_hidden, config.images, names, max_pixels=config.max_pixels, regions=regions, progress=progress)
    if config.mask == "none":
        plain = HiddenPictures(config.images, names, max_pixels=config.max_pixels)
        return look(detector=truth, hiding=None) if regions and truth else plain
    hiding, _ = choose_hiding(config, config.mask, seed=config.seed)
    if config.detector == "gt" and truth and set(truth.categories) >= set(hiding.labels):
        # Read already. Where things of all categories are, only judges with an eye for regions ask.
        known = truth if regions else replace(truth, labels=frozenset(hiding.labels))
        return look(detector=known, hiding=hiding)
    return look(detector=open_detector(config.detector, config, hiding.labels, progress=progress), hiding=hiding)


def known_pictures(folder: Path, truth: GroundTruth | None) -> dict[str, str]:
    """Image id -> the name of its picture: by the "id" in the instances file, else by its name.

    Raises:
        JudgeError: no folder, no picture in it.
    """
    known: dict[str, str] = {}
    listed = [(truth.image_id(name), name) for name in truth.pictures] if truth else []
    # What stands first counts; a name that can be no image's is passed over.
    for key, name in [*listed, *((name, name) for name in list_pictures(folder))]:
        with suppress(ValueError):
            known.setdefault(canonical_id(key), name)
    return known


def name_pictures(folder: Path, truth: GroundTruth | None, image_ids: Sequence[str]) -> dict[str, str]:
    """The pictures of ``image_ids``; see :func:`known_pictures`.

    Raises:
        JudgeError: no folder, no picture in it; an image without a picture.
    """
    known = known_pictures(folder, truth)
    missing = [image for image in image_ids if image not in known]
    if missing:
        what = f"no picture of image '{missing[0]}' ({len(missing)} of {len(image_ids)} images have none)"
        raise JudgeError(what, where=f"--images {folder}", mend="add them, or leave out their captions")
    return {image: known[image] for image in image_ids}
