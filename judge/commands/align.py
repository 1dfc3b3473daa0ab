"""``judge align``: human captions in each captioner's words, and how many words that changes at every threshold."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from judge.commands.console import say, show_progress
from judge.commands.setup import check_hidden, choose_lexicon, labels_of, reading_options
from judge.config import OutputSettings, values
from judge.config.inputs import LabelSettings, ReadingSettings, TokenSettings
from judge.corpus import Corpus
from judge.corpus.attributes import parts_of
from judge.evidence import EvidenceBuilder, TextOptions
from judge.metrics.options import VectorOptions
from judge.quality.library import meteor_nltk
from judge.report.alignment import Alignment, alignment_json, alignment_table, curve_csv, curve_png, substitutions_csv
from judge.report.render import print_table
from judge.text.alignment import DELTAS, find_gaps, hardly_contextual, is_special, substitute
from judge.text.combined import AND
from judge.text.lexicon import Lexicons
from judge.text.vectors import Vectors, load_vectors
from judge.types import Labels, Progress, Words
from judge.utils.options import option
from judge.utils.outputs import OutputFolder


class AlignConfig(OutputSettings, VectorOptions, LabelSettings, ReadingSettings, TokenSettings):
    """Options of ``judge align``."""

    command = "judge align"
    panel = "Input"

    human: values.Files = option(..., values.HUMAN, repeated="PATH", essential=True)
    captions: Annotated[values.CaptionFiles, AfterValidator(values.file_names)] = option(
        ..., values.CAPTIONS, repeated="[NAME=]FILE", essential=True, min_length=1
    )
    labels: values.LabelFiles = option(
        None, f"{values.LABELS}; images without one are left out", repeated="[NAME=]FILE", essential=True
    )
    several: bool = option(False, values.SEVERAL)
    out: Path = option(..., values.RESULTS, "runs/aligned", essential=True)


SUMMARY, SETTINGS, SUBSTITUTIONS = "alignment.json", "align.yaml", "substitutions.csv"
CURVE, PLOT = "delta_curve.csv", "delta_curve.png"


class _Sides(NamedTuple):
    """Both sides of one captioner as masked words; of each human caption its image and the caption as written."""

    captioner: str
    images: Sequence[str]
    written: Sequence[str]
    human: Sequence[Words]
    generated: Sequence[Words]
    dropped: Mapping[str, int]


def align_captions(config: AlignConfig, *, progress: Progress | None = None) -> tuple[list[Alignment], list[str]]:
    """Align human captions to each captioner's vocabulary, and write ``config.out``; also return lines to print."""
    out = OutputFolder(config.out, what="alignment", overwrite=config.overwrite)
    out.check(config.inputs())
    sides, captions = _read(config)
    if progress:
        progress("word vectors", 0, 0)
    used = {word for texts in (captions, *(side.generated for side in sides)) for words in texts for word in words}
    vectors = load_vectors(config.vectors, (word for word in used if not is_special(word)), captions=captions)
    delta = vectors.delta if config.delta is None else config.delta
    with out.making():
        folder = out.partial / "aligned"
        folder.mkdir()
        found = []
        for number, side in enumerate(sides):
            if progress:
                progress("aligning", number, len(sides))
            alignment, aligned = _align(side, vectors, delta)
            found.append(alignment)
            (folder / f"{side.captioner}.json").write_text(_coco(side.images, aligned), encoding="utf-8")
        shares = {entry.captioner: entry.reports["contextual"].lacking_substituted for entry in found}
        texts = {SUBSTITUTIONS: substitutions_csv(found), CURVE: curve_csv(found)}
        texts |= {SUMMARY: alignment_json(found, vectors, delta), SETTINGS: config.to_yaml()}
        out.write({**texts, PLOT: curve_png(found, delta)})
    lines = [
        f"Shares of human words and tokens; contextual: below a cosine distance of {delta:g}.",
        "Of lacking: share of the human tokens that the captioner never uses for which a word of its own is found.",
        f"METEOR: masked and aligned captions against the captions as written. Vectors: {vectors.source}.",
    ]
    lines += [f"NOTE: {note}" for note in hardly_contextual(shares, delta)]
    if not find_spec("nltk"):
        lines.append("NOTE: METEOR needs the package 'nltk': pip install 'caption-judge[quality]'")
    return found, lines


def _read(config: AlignConfig) -> tuple[list[_Sides], list[Words]]:
    """The sides of each captioner, and all human captions that are aligned, by image."""
    lexicon, labels = choose_lexicon(config), labels_of(config)
    check_hidden(config, parts_of(labels))
    reading = reading_options(config, several=config.several, command=True)
    corpus = Corpus.read(human=values.listed(config.human), captions=config.captions, labels=labels, options=reading)
    if labels is None:  # All images count.
        no_class = AND.join("" for _ in config.attributes)
        by_image = dict.fromkeys(corpus.human.by_image, no_class)
        labels = Labels(config.attribute_name, (no_class,), by_image, "none given")
    options = TextOptions(config.contractions, config.text)
    builder = EvidenceBuilder(replace(corpus, labels=labels), Lexicons(lexicon), options=options)
    sides, captions = [], dict[tuple[str, int], Words]()
    for captioner in corpus.generated:
        joined, _ = builder.join(captioner, judged=False)
        human, generated = ([*joined.words[side].masked] for side in ("human", "generated"))
        places = [(image, index) for image, index, _ in joined.rows["human"]]
        captions |= dict(zip(places, human, strict=True))
        images, written = zip(*((image, corpus.human.by_image[image][index]) for image, index in places), strict=True)
        sides.append(_Sides(captioner.name, images, written, human, generated, joined.dropped))
    return sides, [captions[place] for place in sorted(captions)]


def _align(side: _Sides, vectors: Vectors, delta: float) -> tuple[Alignment, list[Words]]:
    """How alignment changes the words; and human captions after contextual substitution."""
    gaps = find_gaps(side.human, side.generated, vectors)
    thresholds = {"constant": 0.0, "contextual": delta}
    score = meteor_nltk if find_spec("nltk") else lambda *_: math.nan
    aligned = {kind: substitute(side.human, gaps.substitutes(threshold)) for kind, threshold in thresholds.items()}
    alignment = Alignment(
        captioner=side.captioner,
        images=len({*side.images}),
        captions=len(side.human),
        dropped=side.dropped,
        reports={kind: gaps.report(threshold) for kind, threshold in thresholds.items()},
        meteor={kind: fmean(map(score, side.written, words)) for kind, words in aligned.items()},
        curve=[(at, gaps.report(at)) for at in sorted({*DELTAS, delta})],
        substitutions=gaps.substitutions(delta),
    )
    return alignment, aligned["contextual"]


def _coco(images: Sequence[str], captions: Sequence[Words]) -> str:
    ids = {image: int(image) if image.isascii() and image.isdigit() else image for image in images}
    annotations = [
        {"id": number, "image_id": ids[image], "caption": " ".join(words)}
        for number, (image, words) in enumerate(zip(images, captions, strict=True))
    ]
    content = {"images": [{"id": key} for key in ids.values()], "annotations": annotations}
    return json.dumps(content, ensure_ascii=False) + "\n"


def command(config: AlignConfig) -> None:
    """Align human captions with each captioner's vocabulary, and measure how many words that changes.

    METEOR is the mean over captions of NLTK's, with equal words and stems: masked and aligned captions, without full
    stops and commas, against captions as written, in lower case and cut at white space (DPAC, Table 4; DBAC, Table 7).

    Leaves the aligned captions (aligned/NAME.json, COCO's format), substitutions.csv, delta_curve.csv and .png,
    alignment.json and align.yaml in --out.
    """
    with show_progress() as progress:
        found, lines = align_captions(config, progress=progress)
    print_table(alignment_table(found))
    say("", *lines, f"The results are in {config.out}; look at {config.out / PLOT}")
