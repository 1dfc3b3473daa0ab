"""From a corpus to what judges see: sides of masked, aligned samples for one captioner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judge.alignment import AlignmentReport, align
from judge.corpus import Corpus, common_images
from judge.corpus.labels import derive_labels
from judge.errors import JudgeError
from judge.lexicon import Lexicon
from judge.masking.coverage import Coverage, measure_coverage
from judge.masking.words import mask
from judge.metrics import Metric
from judge.tokens import Contractions, first_sentence, tokenize
from judge.types import Captions, Labels, Sample, Side, Target

MINIMUM_IMAGES = 10
# An image's 6th or 7th caption has too few companions to train a judge on.
INDEX_COVERAGE = 0.9

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How captions become words: ``contractions`` whole or split, ``text`` whole or first-sentence."""

    contractions: Contractions = "whole"
    text: Literal["whole", "first-sentence"] = "whole"

    def words(self, caption: str) -> Words:
        """The caption's tokens, before any masking."""
        text = first_sentence(caption) if self.text == "first-sentence" else caption
        return tokenize(text, contractions=self.contractions)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the judges of one captioner and one kind of evidence see.

    Attributes:
        captioner: name of the generated side.
        target: what they guess.
        classes: image id -> class, of the images judged.
        samples: (side, caption index) -> one sample per image that has such a caption, sorted by image.
        alignment: what alignment did to the human side.
        coverage: side -> how often its captions name the attribute; None without a lexicon.
        dropped: reason -> images (or captions) left out.
    """

    captioner: str
    target: Target
    classes: Mapping[str, str]
    samples: Mapping[tuple[Side, int], tuple[Sample, ...]]
    alignment: AlignmentReport
    coverage: Mapping[Side, Coverage] | None
    dropped: Mapping[str, int]


def resolve_labels(corpus: Corpus, lexicon: Lexicon | None, options: TextOptions) -> Labels:
    """The corpus's labels, or labels derived from its human captions with ``lexicon``.

    Raises:
        JudgeError: no labels and no lexicon to derive them with.
    """
    if corpus.labels is not None:
        return corpus.labels
    if lexicon is None:
        raise JudgeError("no labels, and no lexicon to derive them from", mend="give --labels or --lexicon")
    mentions = {
        image: [lexicon.mentions(options.words(caption)) for caption in captions]
        for image, captions in corpus.human.by_image.items()
    }
    return derive_labels(mentions, attribute=lexicon.name, classes=sorted(lexicon.classes))


def build_evidence(
    corpus: Corpus,
    captioner: Captions,
    *,
    metric: Metric,
    labels: Labels,
    lexicon: Lexicon | None,
    options: TextOptions,
) -> Evidence:
    """Join, tokenise, mask and align both sides of ``captioner`` for ``metric``.

    Both sides pass through the same functions. An attribute without a lexicon (skin tone is rarely said)
    is not masked, as in LIC.

    Raises:
        JudgeError: no image in common; one class only; a class with fewer than 10 images.
    """
    if metric.target != "attribute" or set(metric.hidden) - {"attribute words", "people"}:
        raise JudgeError(
            f"metric '{metric.name}' hides {', '.join(metric.hidden)} and asks for {metric.target}",
            where="--metrics",
            mend="this version hides attribute words and people, and asks for the attribute",
        )
    images, dropped = common_images(corpus.human, captioner, labels.by_image)
    classes = {image: labels.by_image[image] for image in images}
    _check(classes, corpus.human, captioner, labels)
    raw: dict[Side, dict[str, list[Words]]] = {
        "human": _tokens(corpus.human, images, options),
        "generated": _tokens(captioner, images, options),
    }
    target = Target("attribute", tuple(sorted(set(classes.values()))))
    hidden = lexicon if "attribute words" in metric.hidden else None
    masked = {side: _flatten(by_image, hidden) for side, by_image in raw.items()}
    human, report = align(
        [words for _, _, words in masked["human"]], (words for _, _, words in masked["generated"]), how=metric.alignment
    )
    masked["human"] = [(image, index, words) for (image, index, _), words in zip(masked["human"], human, strict=True)]
    answer_of = {image: target.classes.index(name) for image, name in classes.items()}
    samples: dict[tuple[Side, int], tuple[Sample, ...]] = {}
    for side, rows in masked.items():
        kept, dropped[f"{side} captions beyond the common number"] = _indices(rows, len(images))
        for index in kept:
            samples[side, index] = tuple(
                Sample(image, side, index, words, (answer_of[image],), image=image if metric.looks else None)
                for image, position, words in rows
                if position == index
            )
    sources: dict[Side, Captions] = {"human": corpus.human, "generated": captioner}
    coverage = None if lexicon is None else {side: _coverage(raw[side], lexicon, sources[side]) for side in raw}
    return Evidence(captioner.name, target, classes, samples, report, coverage, dropped)


def _tokens(captions: Captions, images: Sequence[str], options: TextOptions) -> dict[str, list[Words]]:
    return {image: [options.words(caption) for caption in captions.by_image[image]] for image in images}


def _flatten(by_image: Mapping[str, list[Words]], lexicon: Lexicon | None) -> list[tuple[str, int, Words]]:
    return [
        (image, index, mask(words, lexicon))
        for image, captions in by_image.items()
        for index, words in enumerate(captions)
    ]


def _indices(rows: Sequence[tuple[str, int, Words]], images: int) -> tuple[list[int], int]:
    """Caption indices that nearly every image has, and how many captions lie beyond them."""
    counts = Counter(index for _, index, _ in rows)
    kept = [index for index in sorted(counts) if counts[index] >= INDEX_COVERAGE * images]
    return kept, sum(count for index, count in counts.items() if index not in kept)


def _coverage(by_image: Mapping[str, list[Words]], lexicon: Lexicon, source: Captions) -> Coverage:
    captions = (words for captions in by_image.values() for words in captions)
    return measure_coverage(captions, lexicon, empty=source.empty, refused=source.refused)


def _check(classes: Mapping[str, str], human: Captions, captioner: Captions, labels: Labels) -> None:
    where = f"{captioner.source or captioner.name} with {human.source or human.name}"
    if not classes:
        ids = [next(iter(side.by_image), "-") for side in (human, captioner)] + [next(iter(labels.by_image), "-")]
        raise JudgeError(
            f"no image in common (human '{ids[0]}', generated '{ids[1]}', labels '{ids[2]}')",
            where=where,
            mend="check that image ids mean the same in all files",
        )
    counts = Counter(classes.values())
    if len(counts) == 1:
        raise JudgeError(
            f"all {len(classes)} images are '{next(iter(counts))}'",
            where=where,
            mend="a judge needs two classes or more",
        )
    rare = min(counts, key=lambda name: counts[name])
    if counts[rare] < MINIMUM_IMAGES:
        raise JudgeError(
            f"class '{rare}' of {labels.attribute} has {counts[rare]} images; {MINIMUM_IMAGES} are needed",
            where=where,
            mend="add labelled images, or leave the class out of the labels",
        )
