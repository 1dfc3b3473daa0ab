"""From settings to images as judges and captioners see them: what is hidden, and which detector finds it."""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from judge.commands.setup import labels_of
from judge.config import inputs
from judge.config.values import Files, listed
from judge.corpus.records import canonical_id
from judge.errors import JudgeError, require
from judge.judges.names import find_judge
from judge.masking.cache import Cached, make_detector
from judge.masking.categories import check_categories, names_people, people_among, read_names, stays_visible
from judge.masking.detectors import Detector
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import has_image, list_images
from judge.masking.instances import PERSON
from judge.masking.masked_images import MaskedImages, find_hidden, hides_people, make_thumbnails
from judge.masking.measured import hide_nobody
from judge.masking.people import Hiding, Mode
from judge.types import Labels, Progress


class Correlated(NamedTuple):
    """The category most correlated with a class; ``share`` of its labelled ``images`` are of the class (BA's b_al)."""

    category: str
    class_: str
    share: float
    images: int


def correlated_category(truth: GroundTruth, labels: Labels) -> Correlated:
    """The category other than people whose b_al (BA, Zhao et al. 2017) is highest over classes, as in LIC 5.4.

    b_al does not correct for the size of classes: where one class has most images (COCO: men), it is mostly that class.
    A category must occur in 100 labelled images, or in 1% of them if they are fewer.
    """
    where = f"{truth.source} with {labels.source}"
    classes: dict[str, str] = {}
    for name in truth.images:
        for key in (truth.image_id(name), name):  # The "id" in the instances file goes before the name.
            with suppress(ValueError):  # Not every name is an id.
                if (label := labels.by_image.get(canonical_id(key))) is not None:
                    classes.setdefault(name, label)
    if not classes:
        raise JudgeError("no image has a label", where=where, mend="use labels of these images")
    counts = Counter((label, category) for image, label in classes.items() for category in truth.categories_in(image))
    categories = [category for category in truth.categories if category != PERSON]
    columns = {category: [counts[label, category] for label in labels.classes] for category in categories}
    table = pd.DataFrame(columns, index=list(labels.classes))
    # LIC's BA counts words that occur with every class at least 100 times.
    least = max(1, min(100, round(0.01 * len(classes))))
    total = table.sum()
    common = total.index[total >= least]
    if common.empty:
        mend = "name the object with --category"
        raise JudgeError(f"no category occurs in {least} labelled images", where=where, mend=mend)
    shares = table[common] / total[common]
    class_ = str(shares.max(axis=1).idxmax())
    category = str(shares.loc[class_].idxmax())
    return Correlated(category, class_, float(shares.to_numpy().max()), int(total[category]))


class Masking(NamedTuple):
    """What is hidden, what finds it, ground truth to measure a network by, and how BA chose the object, if so."""

    hiding: Hiding
    detector: Detector
    truth: GroundTruth | None
    correlated: Correlated | None


def open_masking(config: inputs.MaskedSettings, mode: Mode, *, truth: GroundTruth | None = None) -> Masking:
    """What settings with one detector hide, and the detector; ``truth``: the instances, where they have been read."""
    hiding, correlated, truth = choose_hiding(config, mode, truth=truth)
    detector = open_detector(config.detector, config, hiding.labels, truth=truth)
    beside = None
    if detector.name != "gt" and config.instances:
        truth = truth or read_truth(config)
        beside = truth.only(hiding.labels) if {*hiding.labels} <= {*truth.categories} else None
    return Masking(hiding, detector, beside, correlated)


def choose_hiding(
    config: inputs.HidingSettings, mode: Mode, *, truth: GroundTruth | None = None
) -> tuple[Hiding, Correlated | None, GroundTruth | None]:
    """What ``config`` hides; how the object was chosen where BA chose it; and the instances if they have been read."""
    chosen, category = None, config.category
    if config.hide not in {"object", "both"} and category is not None:
        mend = "add --hide object, or --hide both"
        raise JudgeError(f"--hide {config.hide} hides no {category}", where=f"--category {category}", mend=mend)
    if config.hide in {"object", "both"} and category is None:
        labels, truth = labels_for_ba(config, config.instances), truth or read_truth(config)
        chosen = correlated_category(truth, labels)
        category = chosen.category
    wanted = {"person": (PERSON,), "object": (category,), "both": (PERSON, category)}.get(config.hide, ())
    same = {name: getattr(config, name) for name in ("threshold", "foreground", "share", "dilation", "fill")}
    named, outside = tuple(label for label in wanted if label), config.hide == "background"
    return Hiding(named, mode=mode, background=outside, **same), chosen, truth


def labels_for_ba(config: inputs.LabelSettings, instances: Files | None) -> Labels:
    """The labels by which BA chooses the object that is hidden; refused without them, or without instances."""
    labels = labels_of(config)
    if instances and labels is not None:
        return labels
    absent = [] if instances else ["--instances"]
    absent += ["--labels"] if labels is None else []
    mend = f"give {' and '.join(absent)}, or name the object with --category"
    raise JudgeError("nothing says which object goes with the attribute", where="--hide", mend=mend)


def read_truth(
    config: inputs.DetectionSettings, labels: Collection[str] | None = None, *, found: bool = False
) -> GroundTruth:
    """The instances that ``config`` names, of the categories ``labels``, None for all.

    ``found``: whether they are what a tool found (see :meth:`GroundTruth.read`); settings may say so themselves.
    """
    if not config.instances:
        raise JudgeError("detector 'gt' needs the instances", where="--instances", mend="give their COCO file")
    names, people = read_names(config.names_of("gt")), config.person_categories
    given, images, found = listed(config.instances), config.images, found or config.found
    truth = GroundTruth.read(given, labels=labels, people=people, names=names, images=images, found=found)
    if config.finders == ("gt",):  # Each of several detectors may have categories of its own.
        check_categories(people, truth.renamed, truth.source)
    return truth


def open_detector(
    name: str, config: inputs.DetectionSettings, labels: tuple[str, ...], *, truth: GroundTruth | None = None
) -> Detector:
    """The detector called ``name``: ``truth`` for "gt", where it has been read already; a network with its cache."""
    require("images", "cv2", "PIL", "pycocotools")
    if name == "gt":
        return (truth or read_truth(config, labels or None)).only(labels)
    weights = config.weights.get(name) or config.weights.get("")
    device = getattr(config, "device", None)  # Commands that train judges have no such option.
    detector = make_detector(name, weights=weights, trust=config.trust_weights, device=device)
    source = f"detector '{name}'"
    own = {category: category for category in detector.categories}
    if (names := read_names(config.names_of(name))) is not None:
        places = [str(place) for place in range(len(detector.categories))]
        if {*names} != {*places}:
            what, mend = f"does not name the {len(places)} classes of {source}", "name each class, from 0 on"
            raise JudgeError(what, where=f"--class-names {config.names_of(name)}", mend=mend)
        own = dict(zip(detector.categories, map(names.__getitem__, places), strict=True))
    people = people_among(own.values(), config.person_categories)
    if config.finders == (name,):
        check_categories(config.person_categories, own.values(), source)
    check_categories(labels or (PERSON,), {PERSON for _ in people} | {*own.values()}, f"--weights: {source}")
    visible = sorted(other for other in {*own.values()} - people if names_people(other))
    renamed = {category: PERSON if other in people else other for category, other in own.items()}
    return Cached(detector, config.cache / "detections", renamed, [stays_visible(other, source) for other in visible])


def refuse_unmasked(
    config: inputs.HidingSettings, masks: Mapping[str, Any] | None, doubts: Sequence[str], where: str = ""
) -> None:
    """Refuse masks that hide almost nobody, unless the settings allow them; ``where``: for a detector among several."""
    if masks and (what := hide_nobody(masks)) and not config.allow_unmasked:
        mend = next((doubt for doubt in doubts if "--person-category" in doubt), "give other weights or instances")
        mend = f"{mend.rstrip('.')}; or go on as it is with --allow-unmasked"
        raise JudgeError(what, where=where or f"--detector {config.finders[0]}", mend=mend)


def find_masked(
    config: inputs.MaskedSettings, names: Mapping[str, str], masking: Masking | None, *, detector: Detector, **how: Any
) -> MaskedImages:
    """Find what is hidden in the images ``names``, and refuse masks that hide almost nobody."""
    assert config.images is not None
    hiding, truth = (masking.hiding, masking.truth) if masking else (None, None)
    how |= {"hiding": hiding, "truth": truth}
    found = find_hidden(config.images, names, detector=detector, **how)
    refuse_unmasked(config, found.masks, found.doubts)
    return found


def image_names(folder: Path, truth: GroundTruth | None) -> tuple[list[str], int]:
    """The images to mask, and how many of the folder are left out: those that the ground truth does not list."""
    if truth is None:
        return list_images(folder), 0
    if not truth.images:
        raise JudgeError("lists no image", where=truth.source, mend="give the file of these images")
    if not any(has_image(folder, name) for name in truth.images):
        list_images(folder)  # Where there is no image at all, it says so in one line.
        what = f"none of the images that {truth.source} lists is there"
        raise JudgeError(what, where=f"--images {folder}", mend="give the folder that they lie in")
    others = 0
    with suppress(JudgeError):  # The file says where its images are; others are only counted.
        others = len({*list_images(folder)} - {*truth.images})
    return list(truth.images), others


def known_images(folder: Path, truth: GroundTruth | None) -> dict[str, str]:
    """Image id -> the name of its image: by the "id" in the instances file, else by its name; the first one counts."""
    known: dict[str, str] = {}
    listed = [(truth.image_id(name), name) for name in truth.images] if truth else []
    for key, name in [*listed, *((name, name) for name in list_images(folder))]:
        with suppress(ValueError):  # Not every name is an id.
            known.setdefault(canonical_id(key), name)
    return known


def described_images(known: Mapping[str, str], described: Collection[str], *, whose: str, where: str) -> dict[str, str]:
    """The images of ``described`` that are known (see :func:`known_images`), at least one; ``whose`` they are."""
    names = {image: known[image] for image in described if image in known}
    if not names:
        what = f"no file of any of the {len(described)} images with {whose}"
        raise JudgeError(what, where=where, mend="check that ids mean the same in all files")
    return names


def find_images(known: Mapping[str, str], image_ids: Sequence[str], folder: Path) -> dict[str, str]:
    """The images of ``image_ids`` among ``known`` ones (see :func:`known_images`) of ``folder``."""
    missing = [image for image in image_ids if image not in known]
    if missing:
        what = f"no file of image '{missing[0]}' ({len(missing)} of {len(image_ids)} images have none)"
        raise JudgeError(what, where=f"--images {folder}", mend="add them, or leave out their captions")
    return {image: known[image] for image in image_ids}


@dataclass(eq=False)
class RunImages:
    """The images of a run; instances, names and weights are read once, when first needed."""

    config: inputs.ShownSettings
    judges: Sequence[str] = ()
    progress: Progress | None = None
    _shown: MaskedImages | None = None

    def __post_init__(self) -> None:
        if self.config.images and not self.config.images.exists():
            list_images(self.config.images)  # Raises; but shards may be named by a pattern.

    @cached_property
    def truth(self) -> GroundTruth | None:
        """The instances, of all categories, where the run names their file."""
        require("images", "cv2", "PIL", "pycocotools")
        return read_truth(self.config) if self.config.instances else None

    @cached_property
    def plain(self) -> MaskedImages:
        """All images with a usable id; nothing is hidden."""
        assert self.config.images is not None
        known = known_images(self.config.images, self.truth)
        return MaskedImages(self.config.images, known)

    def hidden(self, image_ids: Sequence[str]) -> MaskedImages:
        """The images of ``image_ids`` as judges see them, and where things are, if a judge asks for regions.

        Regions come from the detector, or where nothing is hidden from the instances file.
        """
        from judge.training.launch import in_main_process

        found = in_main_process(lambda: self._hidden(image_ids))
        if image_ids:
            self._shown = found
            self.free()
        return found

    def of_examples(self, examples: pd.DataFrame) -> dict[str, bytes]:
        """Image id -> small image, people hidden, of a report's examples; none where the run hides nobody whole.

        None either where they cannot be read and no judge asked for images.
        """
        if self.config.images is None or not len(examples) or self.config.mask in {"none", "partial"}:
            return {}
        wanted = list(dict.fromkeys(examples["image_id"]))
        try:
            hidden = self._shown or self._hidden([image for image in wanted if image in self.plain.names])
            return make_thumbnails(hidden, wanted) if hides_people(hidden) else {}
        except JudgeError as error:
            logging.getLogger(__name__).info("NOTE: examples are shown without images: %s", error)
            return {}

    @property
    def masks(self) -> dict[str, Any]:
        """Measures of what masks hide from judges: ``{"masks": ...}``, or {} if nothing is hidden."""
        return {"masks": self._shown.masks} if self._shown and self._shown.masks else {}

    @property
    def notes(self) -> list[str]:
        """What a user must know of the masks that judges saw, a sentence each."""
        return list(self._shown.doubts) if self._shown else []

    def free(self) -> None:
        """Free the memory of instances (a gigabyte of COCO's) and the detector, which are read again when needed."""
        for name in ("truth", "_masking"):
            self.__dict__.pop(name, None)

    @cached_property
    def _masking(self) -> Masking | None:
        mode = self.config.mask
        return None if mode == "none" else open_masking(self.config, mode, truth=self.truth)

    def _hidden(self, image_ids: Sequence[str]) -> MaskedImages:
        names = find_images(self.plain.names, image_ids, self.plain.folder)
        regions = any(find_judge(name).regions for name in self.judges)
        masking = self._masking
        detector = masking and masking.detector
        if self.truth and regions and (detector is None or detector.name == "gt"):
            detector = self.truth  # Things of all categories, which no other judge needs.
        if detector is None:
            return replace(self.plain, names=names)
        return find_masked(self.config, names, masking, detector=detector, regions=regions, progress=self.progress)
