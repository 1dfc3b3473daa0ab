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

    def half(self, number: int, seed: int) -> set[str]:
        """The units of a half; an even number and the next one are the two halves of one draw."""
        draw, second = divmod(number, 2)
        order, chosen = in_random_order(self.strata, f"{seed}/2/{draw}/"), set[str]()
        for place, name in enumerate(sorted(set(self.strata.values()))):
            group = [unit for unit in order if self.strata[unit] == name]
            # The larger half of an odd number goes to each half in turn.
            cut = (len(group) + (draw + place) % 2) // 2
            chosen |= set(group[cut:] if second else group[:cut])
        return chosen

    @lru_cache(maxsize=4)  # noqa: B019 - metrics and captioners mostly have the same images
    def halves(self, count: int, seed: int) -> BoolArray:
        """Which images each of ``count`` halves holds, [count, N]."""
        draws = [self.half(number, seed) for number in range(count)]
        return np.array([[unit in draw for unit in self.of] for draw in draws])

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
    return sorted(names, key=lambda name: hashlib.blake2b((tag + name).encode(), digest_size=8).digest())


def scenes_of(table: pd.DataFrame) -> dict[str, str]:
    """Image id -> scene, of tables with answers or counts; of a run without scenes there are none."""
    known = table[["image_id", "scene"]].dropna().drop_duplicates() if "scene" in table else table[:0]
    return dict(zip(known["image_id"], known["scene"], strict=True)) if len(known) else {}
