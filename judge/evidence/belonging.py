"""Whether a captioner's captions belong to their images, or to others, as in a file that is moved by one row."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from judge.types import FloatArray

# Images from which likeness, and captions that name one class from which kappa, is computed; other images for each.
_IMAGES, _CAPTIONS, _OTHERS = 30, 100, 10
# Share of images with captions that are less like their own human captions than others', of all and in a tenth of them,
# that shows captions of other images; beyond a standard error, or three in one of the many tenths. It is 0.16 at most
# for COCO's four captioners and 40 forms, 0.24 to 0.28 where a third of the captions are of other images, 0.6 where all
# are.
_MANY, _IN_PART = 0.2, 0.35
#: Kappa and likeness that are near chance.
STRAY = 0.2


def class_kappa(named: Sequence[Collection[str]], classes: Sequence[str]) -> float | None:
    """Cohen's kappa of the one class that a caption names and that of its image; None for few, or the same always."""
    from sklearn.metrics import cohen_kappa_score

    pairs = [(*found, name) for found, name in zip(named, classes, strict=True) if len(found) == 1]
    if len(pairs) < _CAPTIONS or len({found for found, _ in pairs}) < 2:
        return None
    # Strings would take twenty times as long.
    numbers = pd.factorize(np.array(pairs, dtype=object).ravel())[0].reshape(-1, 2)
    return float(cohen_kappa_score(*numbers.T))


class PeoplesWords:
    """The words of human captions by their rarity, with which captioners are compared.

    ``words``: image -> words of its human captions.
    """

    def __init__(self, words: Mapping[str, Collection[str]]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._place = {image: place for place, image in enumerate(words)}
        self._reader = TfidfVectorizer(analyzer=sorted)
        self._table = self._reader.fit_transform(words.values()) if any(words.values()) else None

    def likeness(self, said: Mapping[str, Collection[str]], images: Sequence[str]) -> tuple[float | None, str]:
        """How far captions are like human captions of their own images rather than of others.

        ``said``: image -> words of its captions; ``images``: in the order of the captioner's file.

        Returns:
            How much more often an image's captions are more like its own human captions than like those of another
            image, than less: 0 by chance, 1 at most; None if that is not known. And the end of a sentence on them if
            captions of a part of the images seem to be of others, else "".
        """
        if len(images) < _IMAGES or self._table is None:
            return None, ""
        human = self._table[[self._place[image] for image in images]]
        captions = self._reader.transform(map(said.get, images))
        texts = pd.factorize(np.array([" ".join(sorted(said[image])) for image in images], dtype=object))[0]
        own, order = captions.multiply(human).sum(axis=1), np.random.default_rng(0).permutation(len(images))
        signs, known = np.zeros(len(images)), np.zeros(len(images))
        for step in range(1, _OTHERS + 1):
            other = order[(np.argsort(order) + step) % len(order)]
            sign = np.sign(own - captions.multiply(human[other]).sum(axis=1)).A1 * (texts != texts[other])
            signs, known = signs + sign, known + (texts != texts[other])
        return _likeness(signs, known, images)


def _likeness(signs: FloatArray, known: FloatArray, images: Sequence[str]) -> tuple[float | None, str]:
    """The result of comparisons: by image how many it has won less those that it has lost, and how many are known."""
    if not known.any():
        return None, ""
    size, share = max(_IMAGES, len(images) // 10), float((signs < 0).mean())
    parts = [slice(start, start + size) for start in range(0, len(images) - size + 1, size // 2)]
    error = np.sqrt(share * (1 - share))
    limit = max(_IN_PART, share + 3 * error / np.sqrt(size))
    apart = [part for part in parts if (signs[part] < 0).mean() > limit]
    where = f", mostly from image {images[apart[0].start]} to {images[apart[-1].stop - 1]} of the file" if apart else ""
    told = f"are more like human captions of other images than like those of their own in {share:.0%} of images{where}"
    found = float(signs.sum() / known.sum())
    return found, told if found >= STRAY and (apart or share - error / np.sqrt(len(images)) > _MANY) else ""
