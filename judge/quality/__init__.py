"""How well captions describe: BLEU, METEOR, ROUGE-L and CIDEr, over all images and by attribute class.

The scores are those of the COCO caption evaluation (pycocoevalcap), against an image's human captions. METEOR and the
Penn Treebank tokeniser need Java; without it the project's own tokeniser serves, and what is missing is named. Every
score of a group of images is made of sums over its images, so that classes and resamples cost no second pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from judge.errors import JudgeError, require
from judge.quality.library import (
    BLEU,
    JavaFault,
    Part,
    References,
    Tokenizer,
    bleu,
    cider,
    meteor,
    penn_treebank,
    plain_words,
    rouge,
)
from judge.statistics.intervals import bootstrap_pooled
from judge.types import Captions, FloatArray, IntArray, Interval, Labels, Side

if TYPE_CHECKING:
    import pandas as pd

SCORES = (*BLEU, "METEOR", "ROUGE-L", "CIDEr")
_NO_SPICE = "not offered: it downloads models when it first runs"


@dataclass(frozen=True, slots=True)
class GroupScore:
    """One score of a group of images.

    Attributes:
        score: one of ``SCORES``.
        group: an attribute class; None for all images.
        images: how many.
        value: in [0, 1], CIDEr in [0, 10]; NaN for no image, and CIDEr where one image is all there is.
        interval: 95% over images; None for one image, a class so small that a resample may miss it, or where none
            was asked for.
    """

    score: str
    group: str | None
    images: int
    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Gap:
    """The largest difference of a score between two attribute classes.

    Attributes:
        score: one of ``SCORES``.
        best, worst: the classes.
        value: score of ``best`` minus that of ``worst``, at least 0.
        interval: 95% over images. Resamples keep ``best`` and ``worst`` as they are: it may reach below 0.
    """

    score: str
    best: str
    worst: str
    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a captioner describes.

    Attributes:
        captioner: its name.
        tokenizer: of captions: "ptb" (as the COCO evaluation), or "judge" (``judge.text.tokens``), without Java.
        images: ids of the images scored, [N].
        by_image: score -> value of each image by itself, [N].
        groups: every score of all images and of every class.
        gaps: a row per score; none without labels, or with fewer than two classes.
        skipped: score -> why it is not here.
        vocabulary: side -> distinct words of the captions scored, punctuation left out.
        mean_length: side -> words of a caption, on average, punctuation left out.
        further: generated captions after an image's first one: they are not scored.
        unscored: images of one side alone, or whose human captions hold no word.
    """

    captioner: str
    tokenizer: Tokenizer
    images: tuple[str, ...]
    by_image: Mapping[str, FloatArray]
    groups: tuple[GroupScore, ...]
    gaps: tuple[Gap, ...]
    skipped: Mapping[str, str]
    vocabulary: Mapping[Side, int]
    mean_length: Mapping[Side, float]
    further: int
    unscored: int

    def value(self, score: str, group: str | None = None) -> float:
        """A score of all images, or of one class; NaN where it was skipped."""
        return next((row.value for row in self.groups if (row.score, row.group) == (score, group)), math.nan)

    def table(self) -> pd.DataFrame:
        """A row per score and group, then a row per gap.

        Columns: captioner, score, group ("all" for all images, "gap: best - worst" for gaps), images, value, low,
        high. Absent values are NaN.
        """
        import pandas as pd

        images = {row.group: row.images for row in self.groups}
        rows = [
            (row.score, "all" if row.group is None else row.group, row.images, row.value, *_bounds(row.interval))
            for row in self.groups
        ]
        for gap in self.gaps:
            name, both = f"gap: {gap.best} - {gap.worst}", images[gap.best] + images[gap.worst]
            rows.append((gap.score, name, both, gap.value, *_bounds(gap.interval)))
        columns = ["score", "group", "images", "value", "low", "high"]
        table = pd.DataFrame(rows, columns=columns)
        table.insert(0, "captioner", self.captioner)
        return table


def measure_quality(
    human: Captions,
    generated: Captions,
    *,
    labels: Labels | None = None,
    java: bool = True,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Quality:
    """Score a captioner against people's captions, over the images that have both.

    BLEU and METEOR of a group are the corpus scores of its images; ROUGE-L and CIDEr are means over images, CIDEr
    with the document frequencies of all images scored, whatever the group.

    Args:
        human: references; every caption of an image counts.
        generated: candidates; an image's first caption counts. Images on which the captioner kept silent are not
            scored: read the scores together with ``generated.silent``.
        labels: attribute classes, for scores by class.
        java: use it where it runs; False for the same tokeniser on every machine, and no METEOR.
        resamples: of the bootstrap over images; 0 for no intervals.
        level: of the intervals.
        seed: of the resamples; every row has a generator of its own.

    Raises:
        JudgeError: pycocoevalcap is not installed; no image has captions of both sides, or a label.
    """
    require("quality", "pycocoevalcap")
    both = [image for image in human.by_image if image in generated.by_image]
    tokenizer, lines, why = _words(human, generated, both, java=java)
    images, refs, hyps = _pair(human, both, lines)
    if not images:
        where = f"{human.source or human.name}, {generated.source or generated.name}"
        raise JudgeError("no image has captions in both", where=where, mend="check that they name images alike")
    groups = _groups(images, labels)
    parts, skipped = _score(refs, hyps, why)
    values, gaps = _measure(parts, groups, Bootstrap(resamples, level, seed))
    sides: dict[Side, list[str]] = {"human": [ref for of in refs for ref in of], "generated": hyps}
    return Quality(
        captioner=generated.name,
        tokenizer=tokenizer,
        images=tuple(images),
        by_image={name: row for part in parts for name, row in zip(part.names, part.pool(part.table.T), strict=True)},
        groups=tuple(values),
        gaps=tuple(gaps),
        skipped=skipped,
        vocabulary={side: len({word for line in of for word in line.split()}) for side, of in sides.items()},
        mean_length={side: float(np.mean([len(line.split()) for line in of])) for side, of in sides.items()},
        further=sum(len(generated.by_image[image]) - 1 for image in images),
        unscored=len(human.by_image.keys() | generated.by_image.keys()) - len(images),
    )


def _words(
    human: Captions, generated: Captions, images: Sequence[str], *, java: bool
) -> tuple[Tokenizer, list[str], str]:
    """References of all images, then their candidates, as words; and why METEOR cannot run ("" where it may)."""
    captions = [caption for image in images for caption in human.by_image[image]]
    captions += [generated.by_image[image][0] for image in images]
    if not java:
        return "judge", plain_words(captions), "needs Java, which was not to be used"
    try:
        return "ptb", penn_treebank(captions), ""
    except JavaFault as fault:
        return "judge", plain_words(captions), str(fault)


def _pair(human: Captions, images: Sequence[str], lines: Sequence[str]) -> tuple[list[str], list[list[str]], list[str]]:
    """Images, their references and their candidate; without images whose references hold no word."""
    following = iter(lines)
    refs = [[ref for ref in [next(following) for _ in human.by_image[image]] if ref] for image in images]
    kept = [row for row in zip(images, refs, following, strict=True) if row[1]]
    return [row[0] for row in kept], [row[1] for row in kept], [row[2] for row in kept]


def _score(refs: References, hyps: Sequence[str], why: str) -> tuple[list[Part], dict[str, str]]:
    """What images add to every score, in the order of ``SCORES``, and which scores are skipped."""
    parts = [bleu(refs, hyps), rouge(refs, hyps), cider(refs, hyps)]
    if not why:
        try:
            parts.insert(1, meteor(refs, hyps))
        except JavaFault as fault:
            why = str(fault)
    return parts, {**({"METEOR": why} if why else {}), "SPICE": _NO_SPICE}


def _groups(images: Sequence[str], labels: Labels | None) -> dict[str | None, IntArray]:
    """Rows of all images (None), and of those of each class."""
    found: dict[str | None, IntArray] = {None: np.arange(len(images))}
    if labels is None:
        return found
    classes = np.array([labels.by_image.get(image, "") for image in images])
    found |= {name: np.flatnonzero(classes == name) for name in labels.classes}
    if not any(len(found[name]) for name in labels.classes):
        raise JudgeError("no image that has captions has a label", where=labels.source, mend="check its image ids")
    return found


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How intervals are made: resamples (0: none), level, and seed of the generators."""

    resamples: int
    level: float
    seed: int

    def intervals(self, table: FloatArray, part: Part, *, key: str) -> list[Interval | None]:
        """Of the scores of ``part``, whose sums are those of ``table``; every key has a generator of its own."""
        if not self.resamples or not len(table):
            return [None] * len(part.names)
        generator = np.random.default_rng([self.seed, *map(ord, f"{part.names[0]}/{key}")])
        return bootstrap_pooled(table, part.pool, generator=generator, resamples=self.resamples, level=self.level)


def _measure(
    parts: Sequence[Part], groups: Mapping[str | None, IntArray], bootstrap: Bootstrap
) -> tuple[list[GroupScore], list[Gap]]:
    """Every score of every group, and the gaps between classes."""
    values: list[GroupScore] = []
    gaps: list[Gap] = []
    for part in parts:
        classes: dict[str, FloatArray] = {}
        for group, rows in groups.items():
            table = part.table[rows]
            pooled = part.pool(table.sum(axis=0))
            found = bootstrap.intervals(table, part, key=f"{group}")
            for name, value, interval in zip(part.names, pooled, found, strict=True):
                values.append(GroupScore(name, group, len(rows), float(value), interval))
            if group is not None and len(rows):
                classes[group] = pooled
        gaps += _gaps(part, groups, classes, bootstrap)
    return values, gaps


def _gaps(
    part: Part,
    groups: Mapping[str | None, IntArray],
    classes: Mapping[str, FloatArray],
    bootstrap: Bootstrap,
) -> Iterator[Gap]:
    """The largest gap of each of the part's scores; scores of the same two classes share their resamples."""
    if len(classes) < 2 or not np.isfinite(list(classes.values())).all():
        return
    known: dict[tuple[str, str], list[Interval | None]] = {}
    for number, name in enumerate(part.names):
        values = {group: float(pooled[number]) for group, pooled in classes.items()}
        worst, *_, best = sorted(values, key=values.__getitem__)
        pair = best, worst
        if pair not in known:
            known[pair] = _gap_intervals(part, [groups[group] for group in pair], bootstrap)
        yield Gap(name, best, worst, values[best] - values[worst], known[pair][number])


def _gap_intervals(part: Part, pair: Sequence[IntArray], bootstrap: Bootstrap) -> list[Interval | None]:
    """Of the first group's scores minus the second's: sums of both, side by side."""
    width = part.table.shape[1]
    sides = ((0, width), (width, 0))
    table = np.vstack([np.pad(part.table[rows], ((0, 0), side)) for rows, side in zip(pair, sides, strict=True)])
    joint = Part(part.names, table, lambda sums: part.pool(sums[:width]) - part.pool(sums[width:]))
    return bootstrap.intervals(table, joint, key="gap")


def _bounds(interval: Interval | None) -> tuple[float, float]:
    return (interval.low, interval.high) if interval else (math.nan, math.nan)
