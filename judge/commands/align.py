"""``judge align``: human captions in each captioner's words, and what that costs at every threshold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from judge.commands.console import say, show_progress
from judge.commands.labels import choose_lexicon, labels_of
from judge.config import OutputSettings
from judge.config.inputs import LabelSettings, ReadingSettings, TokenSettings
from judge.config.values import (
    CAPTIONS,
    HUMAN,
    LABELS,
    RESULTS,
    SEVERAL,
    CaptionFiles,
    Files,
    LabelFiles,
    file_names,
    listed,
)
from judge.corpus import Corpus
from judge.corpus.captions import ReadOptions
from judge.evidence import EvidenceBuilder, TextOptions
from judge.metrics.options import VectorOptions
from judge.quality.library import JavaFault, meteor
from judge.report.alignment import Alignment, alignment_json, curve_csv, curve_png, substitutions_csv
from judge.text.alignment import DELTAS, UNKNOWN, find_gaps, hardly_contextual, is_special, substitute
from judge.text.combined import AND
from judge.text.lexicon import Lexicons
from judge.text.vectors import Vectors, load_vectors
from judge.types import Captions, Labels, Progress, Words
from judge.utils.options import option
from judge.utils.outputs import OutputFolder


class AlignConfig(OutputSettings, VectorOptions, LabelSettings, ReadingSettings, TokenSettings):
    """Options of ``judge align``."""

    command = "judge align"
    panel = "Input"

    human: Files = option(..., HUMAN, repeated="PATH", essential=True)
    captions: Annotated[CaptionFiles, AfterValidator(file_names)] = option(
        ..., CAPTIONS, repeated="[NAME=]FILE", essential=True, min_length=1
    )
    labels: LabelFiles = option(
        None, f"{LABELS}; images without one are left out", repeated="[NAME=]FILE", essential=True
    )
    several: bool = option(False, SEVERAL)
    meteor: int = option(5000, "captions to compute METEOR on (needs Java); 0 for none", panel="Metrics", ge=0)
    out: Path = option(..., RESULTS, "runs/aligned", essential=True)


SUMMARY, CURVE, SUBSTITUTIONS, PLOT, SETTINGS = (
    "alignment.json",
    "delta_curve.csv",
    "substitutions.csv",
    "delta_curve.png",
    "align.yaml",
)
KINDS = ("constant", "contextual")


@dataclass(frozen=True, slots=True)
class AlignedFolder:
    """What ``judge align`` made: per captioner, by which vectors and delta, and in a line each what was not done."""

    alignments: Sequence[Alignment]
    vectors: str
    delta: float
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both sides of one captioner as masked words: (image, words), images sorted."""

    captioner: str
    human: Sequence[tuple[str, Words]]
    generated: Sequence[Words]
    images: int
    dropped: Mapping[str, int]

    @property
    def words(self) -> list[Words]:
        """Of human captions."""
        return [words for _, words in self.human]


def align_captions(config: AlignConfig, *, progress: Progress | None = None) -> AlignedFolder:
    """Align human captions to each captioner's vocabulary; write the results to ``config.out``.

    Captions are cut into words and masked as ``judge evaluate`` does before judging. The folder holds for each
    captioner ``aligned/NAME.json`` (human captions after contextual alignment, COCO's format), and for all
    ``substitutions.csv``, ``delta_curve.csv``, ``delta_curve.png``, ``alignment.json`` and ``align.yaml``.

    Raises:
        JudgeError: what the user can mend; nothing is left behind.
    """
    out = OutputFolder(config.out, what="alignment", overwrite=config.overwrite)
    out.check(config.inputs())
    sides = _read(config)
    vectors = _vectors(config.vectors, sides, progress)
    delta = vectors.delta if config.delta is None else config.delta
    out.begin()
    with out.working(), out.writing():
        folder = out.partial / "aligned"
        folder.mkdir()
        found, pairs = [], []
        for number, side in enumerate(sides):
            if progress:
                progress("aligning", number, len(sides))
            alignment, aligned = _align(side, vectors, delta)
            found.append(alignment)
            pairs += [(side.words, captions) for captions in aligned.values()]
            texts = _coco([image for image, _ in side.human], aligned["contextual"])
            (folder / f"{side.captioner}.json").write_text(texts, encoding="utf-8")
        if progress:
            progress("METEOR", 0, 0)
        scores, notes = _meteor(pairs, config.meteor)
        of_each = zip(*[iter(scores)] * len(KINDS), strict=True)
        found = [replace(a, meteor=dict(zip(KINDS, row, strict=True))) for a, row in zip(found, of_each, strict=True)]
        shares = {entry.captioner: entry.reports["contextual"].lacking_substituted for entry in found}
        notes += hardly_contextual(shares, delta)
        _write(found, vectors, delta, config.to_yaml(), out.partial)
        out.publish()
    return AlignedFolder(found, vectors.source, delta, notes)


def _read(config: AlignConfig) -> list[_Sides]:
    lexicon, labels = choose_lexicon(config), labels_of(config)
    reading = ReadOptions(split=config.split, columns=config.columns, several=config.several, where=config.where)
    corpus = Corpus.read(human=listed(config.human), captions=config.captions, labels=labels, options=reading)
    # Without labels all images count.
    nobody = AND.join("" for _ in config.attributes)
    every = Labels(config.attribute_name, (nobody,), dict.fromkeys(corpus.human.by_image, nobody), "none given")
    labels = labels or every
    options = TextOptions(config.contractions, config.text)
    builder = EvidenceBuilder(replace(corpus, labels=labels), Lexicons(lexicon), options=options)
    return [_sides(builder, captioner) for captioner in corpus.generated]


def _sides(builder: EvidenceBuilder, captioner: Captions) -> _Sides:
    joined, _ = builder.join(captioner, judged=False)
    human, generated = (
        [(image, builder.mask(words, "attribute")) for image, _, words in joined.rows[side]]
        for side in ("human", "generated")
    )
    return _Sides(captioner.name, human, [words for _, words in generated], len(joined.classes), joined.dropped)


def _vectors(reference: str, sides: Sequence[_Sides], progress: Progress | None) -> Vectors:
    """Of all words in use; learnt from every caption of people's that is aligned to any captioner."""
    if progress:
        progress("word vectors", 0, 0)
    human = {image: list[Words]() for side in sides for image, _ in side.human}
    for side in sides:
        new = {image for image, _ in side.human if not human[image]}
        for image, words in side.human:
            if image in new:
                human[image].append(words)
    captions = [words for image in sorted(human) for words in human[image]]
    used = {word for words in captions for word in words}
    used |= {word for side in sides for words in side.generated for word in words}
    return load_vectors(reference, (word for word in used if not is_special(word)), captions=captions)


def _align(side: _Sides, vectors: Vectors, delta: float) -> tuple[Alignment, dict[str, list[Words]]]:
    """What alignment does, METEOR apart; and human captions under each kind."""
    gaps = find_gaps(side.words, side.generated, vectors)
    kinds = dict(zip(KINDS, (0.0, delta), strict=True))
    deltas = sorted({*DELTAS, delta})
    alignment = Alignment(
        captioner=side.captioner,
        images=side.images,
        captions=len(side.human),
        dropped=side.dropped,
        reports={how: gaps.report(threshold) for how, threshold in kinds.items()},
        meteor={},
        curve=[(delta, gaps.report(delta)) for delta in deltas],
        substitutions=gaps.substitutions(delta),
    )
    return alignment, {how: substitute(side.words, gaps.substitutes(threshold)) for how, threshold in kinds.items()}


def _coco(images: Sequence[str], captions: Sequence[Words]) -> str:
    """COCO's format of captions, a record a line; ids that are numbers as such."""
    ids = {image: int(image) if image.isascii() and image.isdigit() else image for image in images}
    listed = ",\n".join(json.dumps({"id": key}, ensure_ascii=False) for key in ids.values())
    annotations = ",\n".join(
        json.dumps({"id": number, "image_id": ids[image], "caption": " ".join(words)}, ensure_ascii=False)
        for number, (image, words) in enumerate(zip(images, captions, strict=True))
    )
    return f'{{"images": [\n{listed}\n],\n"annotations": [\n{annotations}\n]}}\n'


def _meteor(pairs: Sequence[tuple[Sequence[Words], Sequence[Words]]], captions: int) -> tuple[list[float], list[str]]:
    """METEOR of each pair (original captions, aligned ones), over ``captions`` of them at equal steps, all of few.

    Java is started once. NaN for all, and a note why, where it cannot be taken.
    """
    none = [math.nan] * len(pairs)
    if not captions:
        return none, []
    if find_spec("pycocoevalcap") is None:
        return none, ["METEOR skipped: needs the package 'pycocoevalcap'; pip install 'caption-judge[quality]'"]
    references, found, ends = list[list[str]](), list[str](), [0]
    for original, aligned in pairs:
        count = min(captions, len(original))
        chosen = [step * len(original) // count for step in range(count)]
        references += [[_plain(original[row])] for row in chosen]
        found += [_plain(aligned[row]) for row in chosen]
        ends.append(len(found))
    try:
        part = meteor(references, found)
    except JavaFault as fault:
        return none, [f"METEOR skipped: {fault}"]
    return [float(part.pool(part.table[start:end].sum(axis=0))[0]) for start, end in pairwise(ends)], []


def _plain(words: Words) -> str:
    """A caption for METEOR, which would cut "<unk>" into three words."""
    return " ".join(word[1:-1] if is_special(word) else word for word in words) or UNKNOWN[1:-1]


def _write(found: Sequence[Alignment], vectors: Vectors, delta: float, settings: str, folder: Path) -> None:
    """All but captions."""
    texts = {
        SUBSTITUTIONS: substitutions_csv(found),
        CURVE: curve_csv(found),
        SUMMARY: alignment_json(found, vectors, delta),
        SETTINGS: settings,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / PLOT).write_bytes(curve_png(found, delta))


def command(config: AlignConfig) -> None:
    """Align human captions with each captioner's vocabulary, and see what that leaves of them.

    Leaves the aligned captions (aligned/NAME.json, COCO's format), substitutions.csv, delta_curve.csv and .png,
    alignment.json and align.yaml in --out.
    """
    from judge.report.alignment import alignment_table
    from judge.report.render import print_table

    with show_progress() as progress:
        found = align_captions(config, progress=progress)
    print_table(alignment_table(found.alignments))
    say("")
    say(f"Shares of human words and tokens; contextual: below a cosine distance of {found.delta:g}.")
    say("Of lacking: of human tokens that the captioner never uses, the share that finds a word that it does.")
    say(f"METEOR: aligned against original captions, both masked. Vectors: {found.vectors}.")
    for line in found.notes:
        say(f"NOTE: {line}")
    say(f"The results are in {config.out}; look at {config.out / PLOT}")
