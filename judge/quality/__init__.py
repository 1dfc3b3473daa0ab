"""Caption quality: BLEU, METEOR, ROUGE-L and CIDEr, over all images and by attribute class.

The scores are those of the COCO caption evaluation (pycocoevalcap), against the human captions of each image. METEOR
and the Penn Treebank tokeniser need Java; without it this project's tokeniser is used and METEOR is skipped. Every
score is a function of sums over images, so that classes and resamples need no second pass.
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
        images: number of images.
        value: in [0, 1], CIDEr in [0, 10]; NaN without images, and CIDEr of a single image.
        interval: over images; None for one image, a class so small that a resample may miss it, or no resamples.
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
        interval: over images. Resamples keep ``best`` and ``worst``: it may reach below 0.
    """

    score: str
    best: str
    worst: str
    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Quality:
    """The caption quality of a captioner.

    Attributes:
        captioner: its name.
        tokenizer: "ptb" (as the COCO evaluation), or "judge" (``judge.text.tokens``), without Java.
        images: ids of the images scored, [N].
        by_image: score -> value of each image by itself, [N].
        groups: every score of all images and of every class.
        gaps: one per score; none without labels or with fewer than two classes.
        skipped: score -> why it is missing.
        vocabulary: side -> distinct words of the captions scored, punctuation left out.
        mean_length: side -> words of a caption, on average, punctuation left out.
        further: generated captions after an image's first one: they are not scored.
        unscored: images with captions on one side only, or whose human captions hold no word.
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
    """Score a captioner against human captions, over the images that have both.

    BLEU and METEOR of a group are the corpus scores of its images; ROUGE-L and CIDEr are means over images, CIDEr
    with the document frequencies of all images scored, whatever the group.

    Args:
        human: references; every caption of an image counts.
        generated: candidates; an image's first caption counts. Images without a generated caption are not
            scored: read the scores together with ``generated.silent``.
        labels: attribute classes, for scores by class.
        java: use it where it runs; False for the same tokeniser on every machine, and no METEOR.
        resamples: the number of resamples of the bootstrap over images; 0 for no intervals.
        level: the level of the intervals.
        seed: the seed of the resamples; every row has a generator of its own.

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
    bootstrap = _Bootstrap(resamples, level, seed)
    sides: dict[Side, list[str]] = {"human": [ref for of in refs for ref in of], "generated": hyps}
    return Quality(
        captioner=generated.name,
        tokenizer=tokenizer,
        images=tuple(images),
        by_image={name: row for part in parts for name, row in zip(part.names, part.pool(part.table.T), strict=True)},
        groups=tuple(row for part in parts for row in _score_groups(part, groups, bootstrap)),
        gaps=tuple(gap for part in parts for gap in _gaps(part, groups, bootstrap)),
        skipped=skipped,
        vocabulary={side: len({word for line in of for word in line.split()}) for side, of in sides.items()},
        mean_length={side: float(np.mean([len(line.split()) for line in of])) for side, of in sides.items()},
        further=sum(len(generated.by_image[image]) - 1 for image in images),
        unscored=len(human.by_image.keys() | generated.by_image.keys()) - len(images),
    )


def _words(
    human: Captions, generated: Captions, images: Sequence[str], *, java: bool
) -> tuple[Tokenizer, list[str], str]:
    """The tokenizer, the words of all references and then all candidates, and why METEOR cannot run ("": it can)."""
    captions = [caption for image in images for caption in human.by_image[image]]
    captions += [generated.by_image[image][0] for image in images]
    if not java:
        return "judge", plain_words(captions), "needs Java, which was not to be used"
    try:
        return "ptb", penn_treebank(captions), ""
    except JavaFault as fault:
        return "judge", plain_words(captions), str(fault)


def _pair(human: Captions, images: Sequence[str], lines: Sequence[str]) -> tuple[list[str], list[list[str]], list[str]]:
    """Images, their references and their candidate; images whose references hold no word are left out."""
    following = iter(lines)
    refs = [[ref for ref in [next(following) for _ in human.by_image[image]] if ref] for image in images]
    kept = [row for row in zip(images, refs, following, strict=True) if row[1]]
    return [row[0] for row in kept], [row[1] for row in kept], [row[2] for row in kept]


def _score(refs: References, hyps: Sequence[str], why: str) -> tuple[list[Part], dict[str, str]]:
    """The parts of every score, in the order of ``SCORES``, and score -> why it is skipped."""
    parts = [bleu(refs, hyps), rouge(refs, hyps), cider(refs, hyps)]
    if not why:
        try:
            parts.insert(1, meteor(refs, hyps))
        except JavaFault as fault:
            why = str(fault)
    return parts, {**({"METEOR": why} if why else {}), "SPICE": _NO_SPICE}


def _groups(images: Sequence[str], labels: Labels | None) -> dict[str | None, IntArray]:
    """Rows of all images (None), and of each class."""
    found: dict[str | None, IntArray] = {None: np.arange(len(images))}
    if labels is None:
        return found
    classes = np.array([labels.by_image.get(image, "") for image in images])
    found |= {name: np.flatnonzero(classes == name) for name in labels.classes}
    if not any(len(found[name]) for name in labels.classes):
        raise JudgeError("no image that has captions has a label", where=labels.source, mend="check its image ids")
    return found


@dataclass(frozen=True, slots=True)
class _Bootstrap:
    """How intervals are computed: number of resamples (0: no intervals), level, and seed."""

    resamples: int
    level: float
    seed: int

    def intervals(self, table: FloatArray, part: Part, *, key: str) -> list[Interval | None]:
        """Intervals of the scores of ``part`` over the images of ``table``; every key has its own generator."""
        if not self.resamples or not len(table):
            return [None] * len(part.names)
        generator = np.random.default_rng([self.seed, *map(ord, f"{part.names[0]}/{key}")])
        return bootstrap_pooled(table, part.pool, generator=generator, resamples=self.resamples, level=self.level)

    def difference(self, part: Part, first: IntArray, second: IntArray) -> list[Interval | None]:
        """Intervals of the first group's scores minus the second's: both groups' sums stand side by side."""
        width = part.table.shape[1]
        table = np.vstack([np.pad(part.table[first], ((0, 0), (0, width))),
                           np.pad(part.table[second], ((0, 0), (width, 0)))])  # fmt: skip
        joint = Part(part.names, table, lambda sums: part.pool(sums[:width]) - part.pool(sums[width:]))
        return self.intervals(table, joint, key="gap")


def _score_groups(part: Part, groups: Mapping[str | None, IntArray], bootstrap: _Bootstrap) -> Iterator[GroupScore]:
    """The part's scores of every group."""
    for group, rows in groups.items():
        table = part.table[rows]
        intervals = bootstrap.intervals(table, part, key=f"{group}")
        for name, value, interval in zip(part.names, part.pool(table.sum(axis=0)), intervals, strict=True):
            yield GroupScore(name, group, len(rows), float(value), interval)


def _gaps(part: Part, groups: Mapping[str | None, IntArray], bootstrap: _Bootstrap) -> Iterator[Gap]:
    """The largest gap of each of the part's scores; scores with the same two classes share their resamples."""
    classes = {name: part.pool(part.table[rows].sum(axis=0)) for name, rows in groups.items() if name and len(rows)}
    if len(classes) < 2 or not np.isfinite(list(classes.values())).all():
        return
    intervals: dict[tuple[str, str], list[Interval | None]] = {}
    for number, name in enumerate(part.names):
        values = {group: float(pooled[number]) for group, pooled in classes.items()}
        worst, *_, best = sorted(values, key=values.__getitem__)
        if (best, worst) not in intervals:
            intervals[best, worst] = bootstrap.difference(part, groups[best], groups[worst])
        yield Gap(name, best, worst, values[best] - values[worst], intervals[best, worst][number])


def _bounds(interval: Interval | None) -> tuple[float, float]:
    return (interval.low, interval.high) if interval else (math.nan, math.nan)
