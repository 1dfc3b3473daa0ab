"""A made-up world of paintings with ArtEmis's nine emotions, in which the amplification of emotion is known exactly.

A painting has an emotion and a motif. Motif k belongs to emotion k: P(motif | emotion) is ASSOCIATION +
(1 - ASSOCIATION) / 9 for its own, (1 - ASSOCIATION) / 9 for others. Colours are independent of emotions.

The writer of an utterance has an emotion: that of the painting with probability ``right``, else any of the other
eight. The utterance names the feeling (always, in words that the lexicon "emotion" hides) and with probability MENTION
a motif: with probability ``dwell`` the motif of the writer's emotion, else that of the painting. Its other words
(medium, season) are drawn at random. So the evidence is one motif of nine or none, and

    P(motif of the painting's emotion | mentioned) = dwell * right + (1 - dwell) * (ASSOCIATION + (1 - ASSOCIATION) / 9)

Most of five annotators feel the painting's emotion. A speaker is given an emotion by a classifier ("predicted") or by
the vote of annotators ("voted", always right), or infers one from the painting ("vanilla").
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from judge.calibration.truth import optimal_score
from judge.calibration.world import stream
from judge.types import FloatArray, IntArray

EMOTIONS = (
    "amusement", "anger", "awe", "contentment", "disgust", "excitement", "fear", "sadness", "something else"
)  # fmt: skip
SHARES = (0.10, 0.06, 0.15, 0.22, 0.07, 0.09, 0.10, 0.12, 0.09)
"""Of paintings."""
ASSOCIATION, MENTION, TIES, UTTERANCES = 0.15, 0.8, 0.05, 5
MOST = UTTERANCES // 2
MOTIFS = ("dancers", "hunters", "mountains", "gardens", "insects", "horses", "towers", "windows", "squares")
FEELINGS = (
    ("amused", "funny", "playful"), ("angry", "furious", "mad"), ("awed", "awestruck", "amazed"),
    ("content", "calm", "peaceful"), ("disgusted", "gross", "nasty"), ("excited", "thrilled", "energetic"),
    ("afraid", "terrified", "fearful"), ("sad", "lonely", "mournful"), ("confused", "curious", "bored"),
)  # fmt: skip
_FRAMES = (
    "the {motif} in {time} {medium} make me feel {feeling}",
    "i feel {feeling} before the {motif} in {time} {medium}",
)
_SILENT = "brushwork"
_TIMES, _MEDIA = ("winter", "summer"), ("oil", "ink", "chalk")
_STYLES = ("Cubism", "Expressionism", "Impressionism", "Realism", "Romanticism")
_PALETTE = (
    (200, 40, 40), (40, 160, 60), (50, 70, 190), (220, 190, 40), (150, 60, 170), (40, 180, 190), (230, 130, 40),
    (110, 80, 50), (150, 150, 150),
)  # fmt: skip
_NOISE = 12  # No two images are alike.
_SAID = ("art_style", "painting", "emotion", "utterance", "repetition")
_SPOKEN = ("art_style", "painting", "grounding_emotion", "caption")


class Speaker(NamedTuple):
    """A writer of utterances.

    Attributes:
        right: probability that its emotion is that of the painting; all others are equally likely.
        dwell: probability that a motif that it mentions is that of its emotion.
        grounded: its emotion was given to it, and is in its file.
    """

    right: float
    dwell: float
    grounded: bool = True


PEOPLE = Speaker(0.8, 0.3)
SPEAKERS = {
    "vanilla": Speaker(0.7, 0.6, grounded=False),
    "predicted": Speaker(0.75, 0.8),
    "voted": Speaker(1.0, 0.8),
}


def true_lic(speaker: Speaker) -> float:
    """LIC of an optimal judge that reads one utterance at a time."""
    people, spoken = (optimal_score(_evidence(of), "confident_accuracy") for of in (PEOPLE, speaker))
    return spoken - people


def _evidence(of: Speaker) -> FloatArray:
    """P(emotion, motif), [9, 10], each emotion 1/9; the last column: no motif."""

    def leaning(right: float) -> FloatArray:
        return np.where(np.eye(len(EMOTIONS), dtype=np.bool_), right, (1 - right) / (len(EMOTIONS) - 1))

    said = of.dwell * leaning(of.right) + (1 - of.dwell) * leaning(_diagonal(ASSOCIATION))
    silent = np.full((len(EMOTIONS), 1), 1 - MENTION)
    return np.concatenate([MENTION * said, silent], axis=1) / len(EMOTIONS)


def _diagonal(association: float) -> float:
    return association + (1 - association) / len(EMOTIONS)


def write_world(folder: Path, *, images: int, pixels: int, seed: int = 0) -> None:
    """Write a world as ArtEmis v1 was released, into a new folder.

    ``artemis_dataset_release_v0.csv`` has five utterances a painting, ``speakers/NAME.csv`` a caption a painting, and
    ``images/STYLE/PAINTING.jpg`` the paintings, of one colour each.

    Args:
        folder: created, with its parents.
        images: paintings with an emotion that most annotators feel; 5% more have none.
        pixels: along the side of each image.
        seed: of every random stream.
    """
    (folder / "speakers").mkdir(parents=True, exist_ok=True)
    emotion, motif, colour, felt = draw_paintings(images, seed)
    people = stream(seed, "people")
    mentioned = _mentioned(motif, felt, PEOPLE.dwell, people)
    rows = (
        (*_name(number), EMOTIONS[own], f"{text[0].upper()}{text[1:]}.", UTTERANCES)
        for number, (of, what) in enumerate(zip(felt, mentioned, strict=True))
        for own, text in ((own, _sentence(said, own, people)) for own, said in zip(of, what, strict=True))
    )
    _write(folder / "artemis_dataset_release_v0.csv", _SAID, rows)
    for name in SPEAKERS:
        _write(folder / "speakers" / f"{name}.csv", _SPOKEN, _speak(emotion, motif, felt, name, seed))
    (folder / "truth.json").write_text(json.dumps({name: true_lic(of) for name, of in SPEAKERS.items()}), "utf-8")
    _paint(colour, folder / "images", pixels, seed)


def draw_paintings(images: int, seed: int = 0) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Emotion (-1 where none is felt by most), motif and colour of each painting, [N], and what people feel, [N, 5]."""
    rng = stream(seed, "paintings")
    counts = np.floor(np.array(SHARES) * images).astype(np.int64)
    counts[0] += images - counts.sum()
    emotion = rng.permutation(np.repeat(np.arange(len(EMOTIONS)), counts))
    undecided = rng.integers(len(EMOTIONS), size=round(TIES * images))
    looks = np.concatenate([emotion, undecided])
    motif = _other(looks, 1 - _diagonal(ASSOCIATION), rng)
    colour = _other(looks, 1 - _diagonal(0.0), rng)
    # Of two places in a row at most others are felt, each with so great a probability; then places are shuffled.
    others = np.zeros((len(emotion), UTTERANCES))
    others[:, :MOST] = (1 - PEOPLE.right) * UTTERANCES / MOST
    decided = rng.permuted(_other(np.repeat(emotion[:, None], UTTERANCES, axis=1), others, rng), axis=1)
    second, third = (undecided + 1) % len(EMOTIONS), (undecided + 2) % len(EMOTIONS)
    tied = rng.permuted(np.stack([undecided, undecided, second, second, third], axis=1), axis=1)
    order = rng.permutation(len(looks))
    emotion = np.concatenate([emotion, np.full(len(undecided), -1)])
    return emotion[order], motif[order], colour[order], np.concatenate([decided, tied])[order]


def _other(values: IntArray, probability: float | FloatArray, rng: np.random.Generator) -> IntArray:
    """``values``, each with ``probability`` replaced by one of the other eight indices."""
    other = (values + rng.integers(1, len(EMOTIONS), values.shape)) % len(EMOTIONS)
    return np.where(rng.random(values.shape) < probability, other, values)


def _mentioned(motif: IntArray, emotion: IntArray, dwell: float, rng: np.random.Generator) -> IntArray:
    """The motif that utterances written with ``emotion`` [N, ...] mention, or -1 for none."""
    of_painting = motif.reshape(-1, *[1] * (emotion.ndim - 1))
    said = np.where(rng.random(emotion.shape) < dwell, emotion, of_painting)
    return np.where(rng.random(emotion.shape) < MENTION, said, -1)


def _speak(emotion: IntArray, motif: IntArray, felt: IntArray, name: str, seed: int) -> Iterator[tuple[object, ...]]:
    """A caption of each painting. Each speaker has a random stream of its own."""
    rng, speaker = stream(seed, f"speaker {name}"), SPEAKERS[name]
    # Where people do not agree, the speaker takes an emotion that two of them feel.
    voted = np.array([np.bincount(of, minlength=len(EMOTIONS)).argmax() for of in felt])
    given = _other(np.where(emotion < 0, voted, emotion), 1 - speaker.right, rng)
    for number, (own, said) in enumerate(zip(given, _mentioned(motif, given, speaker.dwell, rng), strict=True)):
        yield *_name(number), EMOTIONS[own] if speaker.grounded else "", _sentence(said, own, rng)


def _sentence(motif: int, emotion: int, rng: np.random.Generator) -> str:
    frame, feeling, time, medium = (int(rng.integers(count)) for count in (len(_FRAMES), 3, len(_TIMES), len(_MEDIA)))
    what = MOTIFS[motif] if motif >= 0 else _SILENT
    return _FRAMES[frame].format(
        motif=what, feeling=FEELINGS[emotion][feeling], time=_TIMES[time], medium=_MEDIA[medium]
    )


def _name(number: int) -> tuple[str, str]:
    """Style and name of a painting, as in WikiArt's folders."""
    return _STYLES[number % len(_STYLES)], f"made-up-painter-{number % 7}_picture-{number}"


def _write(path: Path, columns: Sequence[str], rows: Iterator[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])


def _paint(colour: IntArray, folder: Path, size: int, seed: int) -> None:
    import cv2

    rng = stream(seed, "pictures")
    for number, index in enumerate(colour):
        style, name = _name(number)
        pixels = np.array(_PALETTE[index]) + rng.integers(-_NOISE, _NOISE + 1, (size, size, 1))
        (folder / style).mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / style / f"{name}.jpg"), pixels.clip(0, 255).astype(np.uint8)[:, :, ::-1])
