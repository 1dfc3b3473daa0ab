"""The paintings of ``_emotion_world`` in English, as tables of ArtEmis's own columns, and as pictures.

What an utterance *tells* is drawn first, with known probabilities; how it is worded after that, from words that are
shared by people and speakers and depend on nothing else once the lexicon "emotion" has hidden how the writer feels.
Hence the closed forms are exact. Motifs, like the tasks of ``world``, are a device and claim nothing.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from _emotion_world import (
    DEFAULT,
    EMOTIONS,
    SPEAKERS,
    EmotionParameters,
    Paintings,
    Speaker,
    describe_world,
    draw_paintings,
    emotion_truth,
    other_than,
    told_motifs,
)

from judge.calibration.world import stream
from judge.errors import JudgeError
from judge.types import IntArray
from judge.utils.outputs import OutputFolder

MOTIFS = ("dancers", "hunters", "mountains", "gardens", "insects", "horses", "towers", "windows", "squares")
"""Motif k goes with emotion k."""
FEELINGS = (
    ("amused", "funny", "playful"), ("angry", "furious", "mad"), ("awed", "awestruck", "amazed"),
    ("content", "calm", "peaceful"), ("disgusted", "gross", "nasty"), ("excited", "thrilled", "energetic"),
    ("afraid", "terrified", "fearful"), ("sad", "lonely", "mournful"), ("confused", "curious", "bored"),
)  # fmt: skip
"""Of each emotion, in order; the lexicon hides them all."""
_FRAMES = (
    "the {motif} in {time} {medium} make me feel {feeling}",
    "i feel {feeling} before the {motif} in {time} {medium}",
)
_SILENT = "brushwork"
_TIMES = ("winter", "summer")
_MEDIA = ("oil", "ink", "chalk")
STYLES = ("Cubism", "Expressionism", "Impressionism", "Realism", "Romanticism")
# Of nine colours, RGB; pictures differ by noise too, so that no two are alike.
_PALETTE = (
    (200, 40, 40), (40, 160, 60), (50, 70, 190), (220, 190, 40), (150, 60, 170), (40, 180, 190), (230, 130, 40),
    (110, 80, 50), (150, 150, 150),
)  # fmt: skip
_NOISE = 12

V1 = ("art_style", "painting", "emotion", "utterance", "repetition")
V2 = ("emotion", "utterance", "art_style", "painting", "anchor_art_style", "anchor_painting", "repetition")
_SPOKEN = ("art_style", "painting", "grounding_emotion", "caption")
_RECIPE = "world.yaml"

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class EmotionFiles:
    """Where :func:`write_world` put things.

    Attributes:
        folder: of all.
        human: people's utterances and emotions, as ArtEmis v1 was released.
        captions: speaker -> its captions.
        truth: the amplifications, ``_emotion_world.emotion_truth``.
        images: the folder of pictures; None where none were painted.
        contrastive: v2's part, and ``combined`` both, as its code joins them; None without contrastive paintings.
    """

    folder: Path
    human: Path
    captions: Mapping[str, Path]
    truth: Path
    images: Path | None = None
    contrastive: Path | None = None
    combined: Path | None = None


def write_world(  # noqa: PLR0913 - a world is its parameters
    folder: Path,
    *,
    images: int = 1200,
    seed: int = 0,
    parameters: EmotionParameters = DEFAULT,
    speakers: Mapping[str, Speaker] = SPEAKERS,
    pictures: int | None = None,
    contrastive: int = 0,
    overwrite: bool = False,
) -> EmotionFiles:
    """Write a world of paintings as ArtEmis was released, with the truth beside it; whole or not at all.

    ``artemis_dataset_release_v0.csv``: five utterances a painting, the majority of whose emotions is the painting's.
    ``speakers/<name>.csv``: a caption a painting, with the emotion that it was given. ``truth.json``, ``world.yaml``
    (what it was made from). With ``contrastive``: ``Contrastive.csv``, ``combined_artemis.csv``. With ``pictures``:
    ``images/<style>/<painting>.jpg``, of one colour each.

    Args:
        folder: new or empty, or another such world with ``overwrite``; its parents are made.
        images: paintings of v1 with a class, nine or more; there are some more on whose emotion people do not agree,
            which a majority leaves out.
        seed: of every stream.
        parameters: of the world.
        speakers: the captioners, by name.
        pictures: pixels along the side of each picture; None paints nothing.
        contrastive: further paintings, of v2: each beside one of v1 with another emotion.
        overwrite: replace a world that lies there, once the new one is complete.

    Raises:
        JudgeError: the folder holds something, or cannot be written; a name that is no file stem; numbers out of range.
    """
    out = OutputFolder(folder, what="emotion world", overwrite=overwrite)
    out.check()
    for name in speakers:
        if not name or name != Path(name).name or name.startswith("."):
            raise JudgeError(f"speaker '{name}' cannot name a file", mend="use letters, digits, '-' and '_'")
    if contrastive < 0:
        raise JudgeError(f"{contrastive} contrastive paintings", mend="ask for 0 or more")
    if isinstance(pictures, bool) or (pictures is not None and pictures < 0):
        raise JudgeError(f"pictures={pictures} is no number of pixels", mend="give those along a side, such as 64")
    paintings = draw_paintings(images + contrastive, seed=seed, parameters=parameters)
    files = _files(Path(folder), speakers, pictures=bool(pictures), contrastive=contrastive > 0)
    out.begin()
    with out.working(), out.writing():
        inside = _files(out.partial, speakers, pictures=bool(pictures), contrastive=contrastive > 0)
        _write_people(paintings, inside, contrastive)
        for name, path in inside.captions.items():
            path.parent.mkdir(exist_ok=True)
            _write_rows(path, _SPOKEN, speak(paintings, name=name, speaker=speakers[name]))
        if inside.images and pictures:
            _paint(paintings, inside.images, pictures)
        inside.truth.write_text(json.dumps(emotion_truth(speakers, parameters), indent=2) + "\n", encoding="utf-8")
        recipe = yaml.safe_dump(describe_world(paintings, speakers), sort_keys=False)
        (out.partial / _RECIPE).write_text(recipe, encoding="utf-8")
        out.publish()
    return files


def speak(paintings: Paintings, *, name: str, speaker: Speaker) -> list[Row]:
    """What a speaker says of each painting: rows of art_style, painting, grounding_emotion ("" where none), caption.

    ``name`` names its random stream too: speakers do not disturb each other.
    """
    rng = stream(paintings.seed, f"speaker {name}")
    # People do not agree on some paintings: the vote among equals, or the classifier, picks what two of them feel.
    voted = np.array([np.bincount(felt, minlength=len(EMOTIONS)).argmax() for felt in paintings.felt])
    emotion = other_than(np.where(paintings.emotion < 0, voted, paintings.emotion), 1 - speaker.right, rng)
    motif = told_motifs(paintings, emotion, speaker.dwell, rng)
    rows = []
    for number, (own, told) in enumerate(zip(emotion, motif, strict=True)):
        cells = *_name(number), EMOTIONS[own] if speaker.grounded else "", _word(told, own, rng)
        rows.append(dict(zip(_SPOKEN, cells, strict=True)))
    return rows


def people_say(paintings: Paintings) -> list[Row]:
    """Rows of v1's columns, five for each painting, in order."""
    rng = stream(paintings.seed, "people")
    motif = told_motifs(paintings, paintings.felt, paintings.parameters.dwell, rng)
    rows = []
    for number, (felt, told) in enumerate(zip(paintings.felt, motif, strict=True)):
        style, name = _name(number)
        for own, what in zip(felt, told, strict=True):
            text = _word(what, own, rng)
            utterance = f"{text[0].upper()}{text[1:]}."
            cells = style, name, EMOTIONS[own], utterance, str(len(felt))
            rows.append(dict(zip(V1, cells, strict=True)))
    return rows


def _word(motif: int, emotion: int, rng: np.random.Generator) -> str:
    frame, feeling, time, medium = (int(rng.integers(count)) for count in (len(_FRAMES), 3, len(_TIMES), len(_MEDIA)))
    return _FRAMES[frame].format(
        motif=MOTIFS[motif] if motif >= 0 else _SILENT,
        feeling=FEELINGS[emotion][feeling],
        time=_TIMES[time],
        medium=_MEDIA[medium],
    )


def _name(number: int) -> tuple[str, str]:
    """Style and name of a painting, as WikiArt's folders have them."""
    return STYLES[number % len(STYLES)], f"made-up-painter-{number % 7}_picture-{number}"


def _files(folder: Path, speakers: Iterable[str], *, pictures: bool, contrastive: bool) -> EmotionFiles:
    return EmotionFiles(
        folder,
        folder / "artemis_dataset_release_v0.csv",
        {name: folder / "speakers" / f"{name}.csv" for name in speakers},
        folder / "truth.json",
        folder / "images" if pictures else None,
        folder / "Contrastive.csv" if contrastive else None,
        folder / "combined_artemis.csv" if contrastive else None,
    )


def _write_people(paintings: Paintings, files: EmotionFiles, contrastive: int) -> None:
    rows = people_say(paintings)
    decided = np.flatnonzero(paintings.emotion >= 0)
    new = decided[len(decided) - contrastive :]
    anchors = _anchors(paintings, new)
    names = {number: _name(number) for number in range(len(paintings.emotion))}
    places = {name: number for number, name in names.items()}
    old, fresh = list[Row](), list[Row]()
    for row in rows:
        number = places[row["art_style"], row["painting"]]
        if number not in anchors:
            old.append(row)
            continue
        style, name = names[anchors[number]]
        fresh.append(row | {"anchor_art_style": style, "anchor_painting": name})
    _write_rows(files.human, V1, old)
    if files.contrastive and files.combined:
        _write_rows(files.contrastive, V2, fresh)
        # As pandas writes what v2's script joins: the name of an anchor that is missing is spelled out.
        both = [row | {"version": "new"} for row in fresh]
        both += [row | {"anchor_art_style": "", "anchor_painting": "nan", "version": "old"} for row in old]
        _write_rows(files.combined, (*V2, "version"), both)


def _anchors(paintings: Paintings, new: IntArray) -> dict[int, int]:
    """Number of a contrastive painting -> that of a painting of v1 with another emotion."""
    rng = stream(paintings.seed, "anchors")
    old = np.setdiff1d(np.flatnonzero(paintings.emotion >= 0), new)
    found = {}
    for number in new:
        others = old[paintings.emotion[old] != paintings.emotion[number]]
        found[int(number)] = int(rng.choice(others))
    return found


def _write_rows(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _paint(paintings: Paintings, folder: Path, size: int) -> None:
    import cv2

    rng = stream(paintings.seed, "pictures")
    for number, colour in enumerate(paintings.colour):
        style, name = _name(number)
        pixels = np.array(_PALETTE[colour]) + rng.integers(-_NOISE, _NOISE + 1, (size, size, 1))
        path = folder / style / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        done, data = cv2.imencode(".jpg", pixels.clip(0, 255).astype(np.uint8)[:, :, ::-1])
        assert done
        path.write_bytes(data.tobytes())
