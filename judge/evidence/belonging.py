"""Whether a captioner's captions belong to their images, or to others, as in a file that is moved by one row."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

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
    return float(cohen_kappa_score(*zip(*pairs, strict=True)))


def likeness(
    said: Mapping[str, Collection[str]], people: Mapping[str, Collection[str]], images: Sequence[str]
) -> tuple[float | None, str]:
    """How far captions are like human captions of their own images rather than of others, by words and their rarity.

    ``said`` and ``people``: image -> words of its captions; ``images``: in the order of the captioner's file.

    Returns:
        How much more often an image's captions are more like its own human captions than like those of another image,
        than less: 0 by chance, 1 at most; None if that is not known. And the end of a sentence on them if captions of a
        part of the images seem to be of others, else "".
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(images) < _IMAGES or not any(map(people.get, images)):
        return None, ""
    reader = TfidfVectorizer(analyzer=sorted)
    human, captions = reader.fit_transform(map(people.get, images)), reader.transform(map(said.get, images))
    texts = np.unique([" ".join(sorted(said[image])) for image in images], return_inverse=True)[1]
    own, order = captions.multiply(human).sum(axis=1), np.random.default_rng(0).permutation(len(images))
    signs, known = np.zeros(len(images)), np.zeros(len(images))
    for step in range(1, _OTHERS + 1):
        other = order[(np.argsort(order) + step) % len(order)]
        sign = np.sign(own - captions.multiply(human[other]).sum(axis=1)).A1 * (texts != texts[other])
        signs, known = signs + sign, known + (texts != texts[other])
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
