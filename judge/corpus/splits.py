"""Images that train a judge, and others on which it is scored."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import numpy as np

from judge.corpus.units import Units

Protocol = Literal["paper", "crossfit"]


@dataclass(frozen=True, slots=True)
class Split:
    """Image ids of one training and of the images that it is scored on; pairwise disjoint.

    ``validation``: images that choose among epochs, empty where the metric has none. ``weights``: class -> weight of
    its images in training, 1 on average; equal if classes are balanced. ``fold``: number, from 0, within one seed.
    """

    train: tuple[str, ...]
    test: tuple[str, ...]
    weights: Mapping[str, float]
    validation: tuple[str, ...] = ()
    fold: int = 0


def holdout_split(
    classes: Mapping[str, str], *, seed: int, test: float = 0.1, validation: float = 0.0, balanced: bool = True
) -> Split:
    """LIC's split: every class subsampled to the size of the rarest, unless not ``balanced``, then a hold-out.

    ``test``, ``validation``: shares of each class that are held out (LIC 0.1; ImageCaptioner2 0.2), and that choose an
    epoch (0.1). Source: CVPR 2022, section 5 ("balanced split with equal number of images per value").
    """
    generator = np.random.default_rng(seed)
    images, names = sorted(classes), sorted(set(classes.values()))
    groups = {name: [image for image in images if classes[image] == name] for name in names}
    size = min(map(len, groups.values())) if balanced else None
    train, tested, validated = list[str](), list[str](), list[str]()
    for group in groups.values():
        drawn = [group[i] for i in generator.permutation(len(group))[:size]]
        first = max(1, round(test * len(drawn)))
        second = first + round(validation * len(drawn))
        tested += drawn[:first]
        validated += drawn[first:second]
        train += drawn[second:]
    weights = dict.fromkeys(groups, 1.0)
    return Split(tuple(sorted(train)), tuple(sorted(tested)), weights, tuple(sorted(validated)))


def stratified_folds(
    classes: Mapping[str, str],
    *,
    seed: int,
    folds: int = 10,
    validation: float = 0.0,
    scenes: Mapping[str, str] = MappingProxyType({}),
) -> list[Split]:
    """``folds`` splits in which every image is scored exactly once, by a judge that never saw it.

    Classes are balanced by weight, not by leaving images out: an image of class k weighs n / (K n_k) in training, where
    n and n_k count that fold's training images. A share ``validation`` of these, by class, chooses an epoch instead.
    Images of one of the ``scenes`` stay together.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, train_test_split

    ids = sorted(classes)
    names, place = np.unique([classes[image] for image in ids], return_inverse=True)
    units = Units.make({image: classes[image] for image in ids}, scenes)
    kind = StratifiedKFold if units.index is None else StratifiedGroupKFold
    cut = kind(folds, shuffle=True, random_state=seed).split(ids, place, units.index)
    splits = []
    for fold, (learnt, scored) in enumerate(cut):
        train, chosen = np.sort(learnt), learnt[:0]
        if validation:
            drawn = np.random.RandomState([seed, fold])  # scikit-learn's kind
            known = list(dict.fromkeys(units.of[i] for i in train.tolist()))
            size = max(math.ceil(validation * len(known)), len(names))  # At least one of each class.
            strata = [units.strata[unit] for unit in known]
            held = {*train_test_split(known, test_size=size, stratify=strata, random_state=drawn)[1]}
            out = np.array([units.of[i] in held for i in train.tolist()])
            train, chosen = train[~out], train[out]
        counts = Counter(place[train].tolist())
        weights = {str(names[of]): len(train) / (len(counts) * count) for of, count in counts.items()}
        parts = [tuple(ids[i] for i in part.tolist()) for part in (train, np.sort(scored), chosen)]
        splits.append(Split(parts[0], parts[1], weights, parts[2], fold=fold))
    return splits


def make_splits(
    protocol: Protocol,
    classes: Mapping[str, str],
    *,
    seed: int,
    folds: int = 10,
    holdout: tuple[float, float] = (0.1, 0.0),
    balanced: bool = True,
    scenes: Mapping[str, str] = MappingProxyType({}),
) -> list[Split]:
    """The splits of one seed: one hold-out under ``paper``, ``folds`` of them under ``crossfit``.

    Args:
        protocol: "paper" or "crossfit".
        classes: image id -> class; each part has its share of every class.
        seed: the seed of the draw.
        folds: the number of folds of ``crossfit``.
        holdout: the shares of images that the paper's judges are scored on, and that choose their epoch; under
            ``crossfit`` the same share of the images that are not scored chooses.
        balanced: whether classes count equally: by size (``paper``) or weight. Else all images are used and weigh the
            same (DBAC's 80/20).
        scenes: image id -> scene, whose images are in one fold of ``crossfit``; empty for none.
    """
    test, validation = holdout
    if protocol == "paper":
        return [holdout_split(classes, seed=seed, test=test, validation=validation, balanced=balanced)]
    known = tuple(classes.items()), tuple(scenes.items())
    splits = _known_folds(*known, seed, folds, validation / (1 - test))
    return splits if balanced else [replace(split, weights=dict.fromkeys(split.weights, 1.0)) for split in splits]


# Refits of all captioners mostly draw the same images; folds of each would take hundreds of megabytes.
@lru_cache(maxsize=64)
def _known_folds(
    classes: tuple[tuple[str, str], ...], scenes: tuple[tuple[str, str], ...], seed: int, folds: int, validation: float
) -> list[Split]:
    return stratified_folds(dict(classes), seed=seed, folds=folds, validation=validation, scenes=dict(scenes))
