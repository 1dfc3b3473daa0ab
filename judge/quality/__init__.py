"""Caption quality: BLEU, METEOR, ROUGE-L, CIDEr and CHAIR, over all images and by attribute class.

The scores are those of the COCO caption evaluation (pycocoevalcap), against the human captions of each image. METEOR
and the Penn Treebank tokeniser need Java; without it this project's tokeniser is used and METEOR is skipped. Every
score is a function of sums over images, so that classes and resamples need no second pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from judge.corpus.tasks import Tasks
from judge.errors import JudgeError, require
from judge.quality import library
from judge.quality.library import BLEU, CHAIR, JavaFault, Part, References, Tokenizer, plain_words
from judge.statistics.intervals import bootstrap_pooled
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize
from judge.types import Captions, FloatArray, IntArray, Interval, Labels, Side

if TYPE_CHECKING:
    import pandas as pd

SCORES = (*BLEU, "METEOR", "ROUGE-L", "CIDEr", *CHAIR)
_Intervals = Callable[[Part, str], list[Interval | None]]
_NO_SPICE = "not offered: it downloads models when it first runs"


@dataclass(frozen=True, slots=True)
class QualityScore:
    """One score of a group of images, or the largest difference of it between two classes.

    Attributes:
        score: one of ``SCORES``.
        group: "all", an attribute class, or "gap: best - worst".
        images: number of images.
        value: in [0, 1], CIDEr in [0, 10]; NaN without images, and CIDEr of a single image. A gap is at least 0.
        interval: over images; None for one image, a class so small that a resample may miss it, or no resamples. That
            of a gap keeps the two classes: it may reach below 0.
    """

    score: str
    group: str
    images: int
    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Quality:
    """The caption quality of a captioner.

    Attributes:
        tokenizer: "ptb" (as the COCO evaluation), or "judge" (``judge.text.tokens``), without Java.
        images: ids of the images scored, [N].
        by_image: score -> value of each image by itself, [N].
        groups: every score of all images and of every class.
        gaps: one per score; none with fewer than two classes that have images.
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
    groups: tuple[QualityScore, ...]
    gaps: tuple[QualityScore, ...]
    skipped: Mapping[str, str]
    vocabulary: Mapping[Side, int]
    mean_length: Mapping[Side, float]
    further: int
    unscored: int

    def value(self, score: str, group: str = "all") -> float:
        """A score of all images, or of one class; NaN where it was skipped."""
        return next((row.value for row in self.groups if (row.score, row.group) == (score, group)), math.nan)

    def table(self) -> pd.DataFrame:
        """A row per score and group, then a row per gap: captioner, score, group, images, value, low and high."""
        import pandas as pd

        rows = [
            (self.captioner, row.score, row.group, row.images, row.value, *_bounds(row.interval))
            for row in (*self.groups, *self.gaps)
        ]
        return pd.DataFrame(rows, columns=["captioner", "score", "group", "images", "value", "low", "high"])


def measure_quality(  # noqa: PLR0913 - what is scored, against what, and how
    human: Captions,
    generated: Captions,
    *,
    labels: Labels | None = None,
    objects: Tasks | None = None,
    java: bool = True,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Quality:
    """Score a captioner against human captions, over the images that have both.

    BLEU and METEOR of a group are the corpus scores of its images; ROUGE-L and CIDEr are means over images, CIDEr
    with the document frequencies of all images scored, whatever the group.

    All human captions of an image are references; of generated captions an image's first counts. Images without a
    generated caption are not scored: read the scores beside ``generated.silent``. ``labels`` give scores by class.
    CHAIR needs annotated ``objects``, of names in the lexicon of COCO's; those in an image's human captions count too.
    Without ``java`` the tokeniser is the same on every machine, and there is no METEOR. Intervals are from a
    bootstrap over images; 0 resamples give none.

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
    if objects is None or objects.derived:
        skipped |= dict.fromkeys(CHAIR, "needs --objects")
    else:
        parts.append(_chair(human, generated, images, objects))
    draw = partial(_intervals, resamples=resamples, level=level, seed=seed)
    sides: dict[Side, list[str]] = {"human": [ref for of in refs for ref in of], "generated": hyps}
    return Quality(
        captioner=generated.name,
        tokenizer=tokenizer,
        images=tuple(images),
        by_image={name: row for part in parts for name, row in zip(part.names, part.pool(part.table.T), strict=True)},
        groups=tuple(row for part in parts for row in _score_groups(part, groups, draw)),
        gaps=tuple(gap for part in parts for gap in _gaps(part, groups, draw)),
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
        return "ptb", library.penn_treebank(captions), ""
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
    parts = [library.bleu(refs, hyps), library.rouge(refs, hyps), library.cider(refs, hyps)]
    if not why:
        try:
            parts.insert(1, library.meteor(refs, hyps))
        except JavaFault as fault:
            why = str(fault)
    return parts, {**({"METEOR": why} if why else {}), "SPICE": _NO_SPICE}


def _chair(human: Captions, generated: Captions, images: Sequence[str], objects: Tasks) -> Part:
    """CHAIR of the captions that are scored."""
    lexicon, known = load_lexicon("coco-objects"), {*objects.names}

    def named(caption: str) -> list[str]:
        return [name for _, _, name in lexicon.find(tokenize(caption)) if name in known]

    shown = [
        {*objects.shown(image), *(name for caption in human.by_image[image] for name in named(caption))}
        if image in objects.by_image
        else None
        for image in images
    ]
    return library.chair([named(generated.by_image[image][0]) for image in images], shown)


def _groups(images: Sequence[str], labels: Labels | None) -> dict[str, IntArray]:
    """Rows of "all" images, and of each class."""
    every = {"all": np.arange(len(images))}
    if labels is None:
        return every
    classes = np.array([labels.by_image.get(image, "") for image in images])
    found = {name: np.flatnonzero(classes == name) for name in labels.classes}
    if not any(map(len, found.values())):
        raise JudgeError("no image that has captions has a label", where=labels.source, mend="check its image ids")
    return every | found | every


def _intervals(part: Part, key: str, *, resamples: int, level: float, seed: int) -> list[Interval | None]:
    """Bootstrap intervals of the scores of ``part``; every key has its own generator."""
    if not resamples or not len(part.table):
        return [None] * len(part.names)
    generator = np.random.default_rng([seed, *map(ord, f"{part.names[0]}/{key}")])
    return bootstrap_pooled(part.table, part.pool, generator=generator, resamples=resamples, level=level)


def _score_groups(part: Part, groups: Mapping[str, IntArray], intervals: _Intervals) -> Iterator[QualityScore]:
    """The part's scores of every group."""
    for group, rows in groups.items():
        own = replace(part, table=part.table[rows])
        values = part.pool(own.table.sum(axis=0)).tolist()
        drawn = intervals(own, "None" if group == "all" else group)
        for name, value, interval in zip(part.names, values, drawn, strict=True):
            yield QualityScore(name, group, len(rows), value, interval)


def _gaps(part: Part, groups: Mapping[str, IntArray], intervals: _Intervals) -> Iterator[QualityScore]:
    """The largest gap of each of the part's scores; scores with the same two classes share their resamples."""
    classes = {name: rows for name, rows in groups.items() if name != "all" and len(rows)}
    values = {name: part.pool(part.table[rows].sum(axis=0)) for name, rows in classes.items()}
    if len(classes) < 2 or not np.isfinite(list(values.values())).all():
        return
    width = part.table.shape[1]
    known: dict[tuple[str, str], list[Interval | None]] = {}
    for number, name in enumerate(part.names):
        worst, *_, best = sorted(classes, key=lambda group: float(values[group][number]))
        if (best, worst) not in known:
            # Both groups' sums stand side by side.
            pads = ((classes[best], (0, width)), (classes[worst], (width, 0)))
            table = np.vstack([np.pad(part.table[rows], ((0, 0), pad)) for rows, pad in pads])
            gap = Part(part.names, table, lambda sums: part.pool(sums[:width]) - part.pool(sums[width:]))
            known[best, worst] = intervals(gap, "gap")
        value = float(values[best][number]) - float(values[worst][number])
        images = len(classes[best]) + len(classes[worst])
        yield QualityScore(name, f"gap: {best} - {worst}", images, value, known[best, worst][number])


def _bounds(interval: Interval | None) -> tuple[float, float]:
    return (interval.low, interval.high) if interval else (math.nan, math.nan)
