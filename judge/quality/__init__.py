"""Caption quality: BLEU, METEOR, ROUGE-L, CIDEr and CHAIR, over all images and by attribute class.

The scores are those of the COCO caption evaluation (pycocoevalcap), against the human captions of each image. METEOR
and the Penn Treebank tokeniser need Java; without it this project's tokeniser is used and METEOR is skipped. Every
score is a function of sums over images, so that classes and resamples need no second pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from judge.corpus.tasks import Tasks
from judge.corpus.units import Units
from judge.errors import JudgeError, require
from judge.quality import library
from judge.quality.exchange import exchange_p, values_of
from judge.quality.library import BLEU, CHAIR, JavaFault, Part, Tokenizer, plain_words
from judge.statistics.intervals import bootstrap_pooled
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize
from judge.types import Captions, FloatArray, IntArray, Interval, Labels, Side

if TYPE_CHECKING:
    import pandas as pd

SCORES = (*BLEU, "METEOR", "ROUGE-L", "CIDEr", *CHAIR)
GAP = "gap"
COLUMNS = ["captioner", "score", "group", "images", "value", "low", "high", "p_value"]
ImageScores = Mapping[str, Mapping[str, float]]
"""Score -> image id -> value, of scores that other tools compute (CLIPScore, SPICE)."""
_NO_SPICE = "not offered: it downloads models when it first runs"


@dataclass(frozen=True, slots=True)
class QualityScore:
    """One score of a group of images, or the largest difference of it between two classes.

    Attributes:
        score: one of ``SCORES``, or of those given.
        group: "all", an attribute class, or "gap: highest - lowest" class.
        images: number of images.
        value: in [0, 1], CIDEr in [0, 10], or as given; NaN without images, and CIDEr of a single image. A gap is >= 0.
        interval: over images; None for one image, a class so small that a resample may miss it, or no resamples. That
            of a gap keeps the two classes: it may reach below 0.
        p_value: of a gap, where classes are exchanged among images; else None.
    """

    score: str
    group: str
    images: int
    value: float
    interval: Interval | None
    p_value: float | None = None


def change(after: QualityScore, before: QualityScore) -> tuple[float, float] | None:
    """The difference of a score between two captioners, and its p; None where one has no interval.

    Standard errors are those that the intervals imply, taken as independent: a test on pairs would give a smaller p.
    Without any error p is 1 for equal scores, else 0.
    """
    from scipy import stats

    if after.interval is None or before.interval is None:
        return None
    ends = (of.interval for of in (after, before))
    errors = [(of.high - of.low) / 2 / stats.norm.isf((1 - of.level) / 2) for of in ends if of]
    value, error = after.value - before.value, math.hypot(*errors)
    return value, float(2 * stats.norm.sf(abs(value) / error)) if error else float(value == 0)


class _Draws(NamedTuple):
    """Resamples of images; of ``units``, [N], where some show one scene (:mod:`judge.corpus.units`)."""

    resamples: int
    level: float
    seed: int
    units: IntArray | None = None

    def _generator(self, part: Part, key: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *map(ord, f"{part.names[0]}/{key}")])

    def intervals(self, part: Part, rows: IntArray, key: str) -> list[Interval | None]:
        """Bootstrap intervals of the scores of ``part``, whose table has these rows of all images."""
        if not self.resamples or not len(part.table):
            return [None] * len(part.names)
        units = None if self.units is None else np.unique(self.units[rows], return_inverse=True)[1]
        how: dict[str, Any] = {"generator": self._generator(part, key), "level": self.level, "units": units}
        return bootstrap_pooled(part.table, part.pool, resamples=self.resamples, **how)

    def p_values(self, part: Part, groups: Sequence[IntArray], key: str) -> list[float | None]:
        if not self.resamples:
            return [None] * len(part.names)
        generator = self._generator(part, f"{key} p")
        return exchange_p(part, groups, generator=generator, resamples=self.resamples, units=self.units)


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

    def row(self, score: str, group: str = "all") -> QualityScore | None:
        """A score of all images, or of one class; None where it was skipped."""
        return next((row for row in self.groups if (row.score, row.group) == (score, group)), None)

    def value(self, score: str, group: str = "all") -> float:
        """The value of :meth:`row`; NaN where it was skipped."""
        return row.value if (row := self.row(score, group)) else math.nan

    def table(self) -> pd.DataFrame:
        """A row per score and group, and per gap: captioner, score, group, images, value, low, high, p_value."""
        import pandas as pd

        rows = []
        for row in (*self.groups, *self.gaps):
            low, high = (row.interval.low, row.interval.high) if row.interval else (math.nan, math.nan)
            rows.append((self.captioner, row.score, row.group, row.images, row.value, low, high, row.p_value))
        return pd.DataFrame(rows, columns=COLUMNS)


def measure_qualities(  # noqa: PLR0913
    human: Captions,
    captioners: Sequence[Captions],
    *,
    labels: Labels | None = None,
    objects: Tasks | None = None,
    given: Mapping[str, ImageScores] = MappingProxyType({}),
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], object] = lambda _: None,
) -> dict[str, Quality]:
    """Captioner -> its quality over the images that both sides describe.

    BLEU and METEOR of a group are the corpus scores of its images; ROUGE-L, CIDEr and the scores that are ``given``,
    captioner -> its scores from elsewhere, are means over images, CIDEr with the document frequencies of all images.

    All human captions of an image are references; of generated captions an image's first counts. ``labels`` give scores
    by class. CHAIR needs annotated ``objects``, of names in the lexicon of COCO's; those in an image's human captions
    count too. Intervals are from a bootstrap over images, p-values of gaps from permutations of classes.

    Raises:
        JudgeError: pycocoevalcap is not installed; no image has captions of both sides, or a label.
    """
    require("quality", "pycocoevalcap")
    draws, found = _Draws(resamples, level, seed), dict[str, Quality]()
    for number, captioner in enumerate(captioners):
        progress(number)
        scores = given.get(captioner.name, {})
        found[captioner.name] = _measure(human, captioner, objects, scores, labels, draws)
    return found


def _measure(
    human: Captions,
    generated: Captions,
    objects: Tasks | None,
    given: ImageScores,
    labels: Labels | None,
    draws: _Draws,
) -> Quality:
    both = [image for image in human.by_image if image in generated.by_image]
    captions = [caption for image in both for caption in human.by_image[image]]
    captions += [generated.by_image[image][0] for image in both]
    tokenizer: Tokenizer = "ptb"
    try:
        lines, why = library.penn_treebank(captions), ""
    except JavaFault as fault:
        tokenizer, lines, why = "judge", plain_words(captions), str(fault)
    images, refs, hyps = _pair(human, both, lines)
    if not images:
        where = f"{human.source or human.name}, {generated.source or generated.name}"
        raise JudgeError("no image has captions in both", where=where, mend="check that they name images alike")
    parts = [library.bleu(refs, hyps), library.rouge(refs, hyps), library.cider(refs, hyps)]
    if not why:
        try:
            parts.insert(1, library.meteor(refs, hyps))
        except JavaFault as fault:
            why = str(fault)
    skipped = ({"METEOR": why} if why else {}) | {"SPICE": _NO_SPICE}
    if objects is None or objects.derived:
        skipped |= dict.fromkeys(CHAIR, "needs --objects")
    else:
        parts.append(_chair(human, generated, images, objects))
    for name, values in given.items():
        if all(name not in part.names for part in parts):  # Scores that are computed here are corpus scores.
            parts.append(library.means(name, [values.get(image, math.nan) for image in images]))
            skipped.pop(name, None)
    scenes = labels.scenes if labels else {}
    groups, draws = _groups(images, labels), draws._replace(units=Units.make(dict.fromkeys(images, ""), scenes).index)
    sides: dict[Side, list[str]] = {"human": [ref for of in refs for ref in of], "generated": hyps}
    return Quality(
        captioner=generated.name,
        tokenizer=tokenizer,
        images=tuple(images),
        by_image={name: of for part in parts for name, of in zip(part.names, part.pool(part.table.T), strict=True)},
        groups=tuple(row for part in parts for row in _score_groups(part, groups, draws)),
        gaps=tuple(gap for part in parts for gap in _gaps(part, groups, draws)),
        skipped=skipped,
        vocabulary={side: len({word for line in of for word in line.split()}) for side, of in sides.items()},
        mean_length={side: float(np.mean([len(line.split()) for line in of])) for side, of in sides.items()},
        further=sum(len(generated.by_image[image]) - 1 for image in images),
        unscored=len(human.by_image.keys() | generated.by_image.keys()) - len(images),
    )


def _pair(human: Captions, images: Sequence[str], lines: Sequence[str]) -> tuple[list[str], list[list[str]], list[str]]:
    """Images, references and candidates; images whose references hold no word are left out."""
    following = iter(lines)
    refs = [[ref for ref in [next(following) for _ in human.by_image[image]] if ref] for image in images]
    kept = [row for row in zip(images, refs, following, strict=True) if row[1]]
    return [row[0] for row in kept], [row[1] for row in kept], [row[2] for row in kept]


def _chair(human: Captions, generated: Captions, images: Sequence[str], objects: Tasks) -> Part:
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


def _score_groups(part: Part, groups: Mapping[str, IntArray], draws: _Draws) -> Iterator[QualityScore]:
    for group, rows in groups.items():
        own = replace(part, table=part.table[rows])
        intervals = draws.intervals(own, rows, "None" if group == "all" else group)
        for of in zip(part.names, values_of(part, rows).tolist(), intervals, strict=True):
            yield QualityScore(of[0], group, len(rows), *of[1:])


def _gaps(part: Part, groups: Mapping[str, IntArray], draws: _Draws) -> Iterator[QualityScore]:
    classes = {name: rows for name, rows in groups.items() if name != "all" and len(rows)}
    values = {name: values_of(part, rows) for name, rows in classes.items()}
    if len(classes) < 2 or not np.isfinite(list(values.values())).all():
        return
    p_values = draws.p_values(part, list(classes.values()), GAP)
    for number, (name, p_value) in enumerate(zip(part.names, p_values, strict=True)):
        order = sorted(values, key=lambda group: -float(values[group][number]))
        high, low = classes[order[0]], classes[order[-1]]
        gap = _gap(part, high, low, number)
        value = float(values[order[0]][number] - values[order[-1]][number])
        (interval,) = draws.intervals(gap, np.concatenate([high, low]), GAP)
        yield QualityScore(name, f"{GAP}: {order[0]} - {order[-1]}", len(gap.table), value, interval, p_value)


def _gap(part: Part, high: IntArray, low: IntArray, score: int) -> Part:
    """A score of one group less that of another, all sums side by side."""
    width = part.table.shape[1]
    table = np.vstack([np.pad(part.table[high], ((0, 0), (0, width))), np.pad(part.table[low], ((0, 0), (width, 0)))])

    def pool(sums: FloatArray) -> FloatArray:
        return np.asarray(part.pool(sums[:width])[score] - part.pool(sums[width:])[score])[None]

    return Part(part.names[:1], table, pool)
