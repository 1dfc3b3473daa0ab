"""What is drawn together: single images or, where several images show one scene, the scenes.

Folds, refits, halves of the images, exchanged captions, bootstraps and permutations draw these units. Images of a scene
are alike: drawn one by one, they would seem to be more evidence than they are, and errors would be too small.

Units are drawn within the classes of their images. Where a unit has images of several classes, as in counterfactual
sets, all units are drawn together, and labels are shuffled within units instead of among them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import numpy as np

from judge.types import BoolArray, IntArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Units:
    """The units of some images; ``of`` has the unit of each image, and ``classes`` its class, [N] each."""

    images: tuple[str, ...]
    of: tuple[str, ...]
    classes: tuple[str, ...]

    @classmethod
    def make(cls, classes: Mapping[str, str], scenes: Mapping[str, str] = MappingProxyType({})) -> Self:
        """The units of the images of ``classes``; ``scenes``: image id -> scene, empty where images are units."""
        return cls(tuple(classes), tuple(scenes.get(image, image) for image in classes), tuple(classes.values()))

    @cached_property
    def index(self) -> IntArray | None:
        """Number of each image's unit, [N], in the order of ``strata``; None where each image is a unit."""
        places = {unit: place for place, unit in enumerate(self.strata)}
        return None if len(places) == len(self.of) else np.array([places[unit] for unit in self.of], dtype=np.int64)

    @cached_property
    def strata(self) -> Mapping[str, str]:
        """Unit -> the class that it is drawn within; "" for all if some unit has images of several classes."""
        found = dict(zip(self.of, self.classes, strict=True))
        mixed = any(found[unit] != name for unit, name in zip(self.of, self.classes, strict=True))
        return dict.fromkeys(found, "") if mixed else found

    def half(self, number: int, seed: int) -> BoolArray:
        """Which images a half holds, [N]; an even number and the next one are the two halves of one draw."""
        return np.asarray(self._halves_of(number // 2, seed)[number % 2])

    @lru_cache(maxsize=4)  # noqa: B019 - metrics and captioners mostly have the same images
    def halves(self, count: int, seed: int) -> BoolArray:
        """Which images each of ``count`` halves holds, [count, N]."""
        draws = [self._halves_of(draw, seed) for draw in range((count + 1) // 2)]
        return np.concatenate([np.zeros((0, len(self.images)), dtype=np.bool_), *draws])[:count]

    def _halves_of(self, draw: int, seed: int) -> BoolArray:
        """Which images the two halves of a draw hold, [2, N]."""
        names, stratum = np.unique(list(self.strata.values()), return_inverse=True)
        order, second = _random_order(self.strata, f"{seed}/2/{draw}/"), np.zeros(len(self.strata), dtype=np.bool_)
        for place in range(len(names)):
            group = order[stratum[order] == place]
            # The larger half of an odd number goes to each half in turn.
            second[group[(len(group) + (draw + place) % 2) // 2 :]] = True
        held = second if self.index is None else second[self.index]
        return np.stack([~held, held])

    def shuffled(self, number: int, seed: int) -> dict[str, str]:
        """Image id -> the image whose label it gets: of its own unit, if units have images of several classes."""
        tag, unit = f"{seed}/3/{number}/", dict(zip(self.images, self.of, strict=True))
        if "" in self.strata.values():
            order = in_random_order(self.images, tag)
            return dict(zip(*(sorted(images, key=unit.__getitem__) for images in (self.images, order)), strict=True))
        other = dict(zip(self.strata, in_random_order(self.strata, tag), strict=True))
        first = dict(zip(reversed(self.of), reversed(self.images), strict=True))
        return {image: first[other[of]] for image, of in unit.items()}


def in_random_order(names: Iterable[str], tag: str) -> list[str]:
    """The names in random order; the order of two names does not depend on the others."""
    names = list(names)
    return [names[place] for place in _random_order(names, tag).tolist()]


def _random_order(names: Iterable[str], tag: str) -> IntArray:
    """Places of the names in that order, [N]."""
    digests = b"".join(hashlib.blake2b((tag + name).encode(), digest_size=8).digest() for name in names)
    return np.argsort(np.frombuffer(digests, dtype=">u8"), kind="stable")


def scenes_of(table: pd.DataFrame) -> dict[str, str]:
    """Image id -> scene, of tables with answers or counts; of a run without scenes there are none."""
    known = table[["image_id", "scene"]].dropna().drop_duplicates() if "scene" in table else table[:0]
    return dict(zip(known["image_id"], known["scene"], strict=True)) if len(known) else {}
