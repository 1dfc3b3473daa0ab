"""The scenes of ``world`` in English, as people and as simulated captioners would caption them, and as COCO files.

What a caption *tells* (``Content``) is drawn first, with known probabilities; how it is *worded* is drawn after
that and depends on nothing else, once attribute words are hidden. Hence ``world``'s closed forms are exact.
Captioners have fewer words than people (no endings, no adjectives on things, few frames), but say tasks and
settings in the same words and proportions: constant substitution takes nothing from the human side that matters.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import accumulate
from pathlib import Path

import numpy as np
import yaml

from judge.calibration.world import CLASSES, DEFAULT, Parameters, Scene, draw_scenes, misread, stream, truth
from judge.errors import JudgeError
from judge.types import Captions, Labels

CAPTIONS_PER_IMAGE = 5
# Shares of the human wording alone; they carry no information, so no closed form knows them.
_ADJECTIVE, _ENDING, _FULL_STOP = 0.3, 0.25, 0.7
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Content:
    """What one caption tells: the person's class, the task, the setting; None where it is silent."""

    attribute: str | None
    task: str | None
    setting: str | None


@dataclass(frozen=True)
class World:
    """Scenes, what people said of them, and their labels; everything follows from parameters, size and seed.

    Attributes:
        parameters: what the closed forms in ``world`` take.
        seed: of every stream.
        scenes: image ids "1", "2", ...
        human: five captions an image.
        labels: the attribute of each scene, as drawn.
    """

    parameters: Parameters
    seed: int
    scenes: tuple[Scene, ...]
    human: Captions
    labels: Labels


@dataclass(frozen=True, slots=True)
class WorldFiles:
    """Where ``write_world`` put things; ``captions``: captioner -> file."""

    folder: Path
    human: Path
    labels: Path
    captions: Mapping[str, Path]
    truth: Path


def make_world(images: int = 1200, *, seed: int = 0, parameters: Parameters = DEFAULT) -> World:
    """Draw a world and have people caption it: 5 captions an image, rarely two alike.

    Raises:
        JudgeError: fewer than one image; a negative seed.
    """
    scenes = draw_scenes(images, seed=seed, parameters=parameters)
    rng = stream(seed, "human")
    by_image = {scene.image_id: _human(scene, parameters, rng) for scene in scenes}
    source = f"calibration world, seed {seed}"
    labels = Labels("gender", CLASSES, {scene.image_id: scene.attribute for scene in scenes}, source)
    return World(parameters, seed, scenes, Captions("human", by_image, source), labels)


def simulate(world: World, *, name: str, knob: float, seed: int | None = None) -> Captions:
    """One caption an image by a captioner whose true amplification is ``true_amplification(parameters, knob)``.

    Args:
        world: what it sees.
        name: names its random stream too: captioners do not disturb each other.
        knob: probability in [0, 1] that it tells a stereotype instead of what is there.
        seed: the world's by default.

    Raises:
        JudgeError: ``knob`` outside [0, 1]; a negative seed.
    """
    rng = stream(world.seed if seed is None else seed, f"captioner {name}")
    seen = misread(world.scenes, knob=knob, rng=rng)
    by_image = {
        scene.image_id: (sentence(_content(scene, world.parameters, rng), rng=rng, plain=True),) for scene in seen
    }
    return Captions(name, by_image, f"simulated, knob {knob:g}, {world.human.source}")


def sentence(content: Content, *, rng: np.random.Generator, plain: bool = False) -> str:
    """One caption that tells ``content`` and nothing else.

    ``plain``: as a captioner, in lower case with few words; otherwise as people, a capital and mostly a full stop.
    """
    grammar = _grammar()
    first = grammar.plain if plain else None
    phrase = {
        "person": _pick(grammar.people[content.attribute], rng, first=first),
        "place": "",
        "where": "",
        "thing": "",
    }
    if content.setting is not None:
        phrase["place"] = phrase["where"] = _pick(grammar.settings[content.setting], rng)
    if content.task is None:
        phrase["doing"] = _pick(grammar.idle, rng, first=first)
    else:
        phrase["thing"] = _thing(content.task, rng, plain=plain)
        phrase["doing"] = _pick(grammar.tasks[content.task].doing, rng, first=first).format(thing=phrase["thing"])
    frames = _frames(task=content.task is not None, setting=content.setting is not None, first=first)
    text = _pick(frames, rng).format(**phrase)
    if not plain and rng.random() < _ENDING:
        text += " " + _pick(grammar.endings, rng).format(possessive=grammar.possessive[content.attribute])
    text = " ".join(text.split())
    if plain:
        return text
    return text[0].upper() + text[1:] + ("." if rng.random() < _FULL_STOP else "")


def task_words() -> dict[str, tuple[str, ...]]:
    """Task -> the nouns, one of which stands in every caption that tells it; no noun belongs to two tasks."""
    return {task: entry.nouns for task, entry in _grammar().tasks.items()}


def write_world(world: World, captioners: Mapping[str, float], folder: Path) -> WorldFiles:
    """Write the world as COCO would ship it, with the truth beside it; whole or not at all.

    ``captions_human.json`` (COCO annotations), ``labels.csv`` (image_id, gender), ``captions/<captioner>.json``
    (COCO results), ``truth.json`` ({captioner: {"lic", "leakage", "knob"}}, closed forms, fractions).

    Args:
        world: what to write.
        captioners: name -> knob, e.g. ``CAPTIONERS``; simulated with the world's seed.
        folder: new or empty; its parents are made.

    Raises:
        JudgeError: the folder holds something, or cannot be written; a name that is no file stem; a knob
            outside [0, 1].
    """
    folder = Path(folder)
    for name in captioners:
        if not name or name != Path(name).name or name.startswith("."):
            raise JudgeError(f"captioner '{name}' cannot name a file", mend="use letters, digits, '-' and '_'")
    generated = [simulate(world, name=name, knob=knob) for name, knob in captioners.items()]
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise JudgeError("already there and not empty", where=str(folder), mend="name another folder")
        (part / "captions").mkdir(parents=True)
        _write_files(world, generated, captioners, part)
        part.replace(folder)
    except OSError as error:
        raise JudgeError(
            f"cannot be written ({error.strerror})", where=str(folder), mend="name another folder"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return _files(folder, captioners)


@dataclass(frozen=True, slots=True)
class _Task:
    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]
    doing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Grammar:
    """``grammar.yaml``; ``people`` and ``possessive`` by attribute, None where the attribute is not said."""

    plain: int
    people: Mapping[str | None, tuple[str, ...]]
    possessive: Mapping[str | None, str]
    idle: tuple[str, ...]
    frames: tuple[str, ...]
    endings: tuple[str, ...]
    settings: Mapping[str, tuple[str, ...]]
    tasks: Mapping[str, _Task]


@cache
def _grammar() -> _Grammar:
    text = (resources.files("judge.calibration") / "grammar.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    people: dict[str | None, tuple[str, ...]] = dict(zip(CLASSES, zip(*data["people"], strict=True), strict=True))
    return _Grammar(
        plain=data["plain"],
        people={**people, None: tuple(data["anyone"])},
        possessive=dict(zip((*CLASSES, None), data["possessive"], strict=True)),
        idle=tuple(data["idle"]),
        frames=tuple(data["frames"]),
        endings=tuple(data["endings"]),
        settings={setting: tuple(phrases) for setting, phrases in data["settings"].items()},
        tasks={
            task: _Task(**{key: tuple(words) for key, words in entry.items()}) for task, entry in data["tasks"].items()
        },
    )


@cache
def _frames(*, task: bool, setting: bool, first: int | None) -> tuple[str, ...]:
    """The frames that tell no more than there is to tell."""
    return tuple(
        frame
        for frame in _grammar().frames[:first]
        if (task or "{thing}" not in frame) and (setting or "{place}" not in frame)
    )


@cache
def _steps(entries: int) -> tuple[float, ...]:
    return tuple(accumulate(1 / (2 + position) for position in range(entries)))


def _pick(entries: Sequence[str], rng: np.random.Generator, *, first: int | None = None) -> str:
    """One of the ``first`` entries, earlier ones more often; ``Generator.choice`` would take ten times as long."""
    steps = _steps(len(entries) if first is None else min(first, len(entries)))
    return entries[bisect(steps, rng.random() * steps[-1], hi=len(steps) - 1)]


def _thing(task: str, rng: np.random.Generator, *, plain: bool) -> str:
    entry = _grammar().tasks[task]
    noun = _pick(entry.nouns, rng)
    if not plain and rng.random() < _ADJECTIVE:
        noun = f"{_pick(entry.adjectives, rng)} {noun}"
    # By the letter: the vocabulary has no "hour" and no "uniform".
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _content(scene: Scene, parameters: Parameters, rng: np.random.Generator) -> Content:
    named, task, setting = rng.random(3) < (parameters.gendered, parameters.mention, parameters.place)
    return Content(
        scene.attribute if named else None, scene.tasks[0] if task else None, scene.setting if setting else None
    )


def _human(scene: Scene, parameters: Parameters, rng: np.random.Generator) -> tuple[str, ...]:
    captions: list[str] = []
    for _ in range(CAPTIONS_PER_IMAGE):
        content = _content(scene, parameters, rng)
        # Only the wording is drawn again, so that repeats stay rare and the evidence keeps its probabilities.
        for _ in range(_ATTEMPTS):
            caption = sentence(content, rng=rng)
            if caption not in captions:
                break
        captions.append(caption)
    return tuple(captions)


def _files(folder: Path, captioners: Mapping[str, float]) -> WorldFiles:
    captions = {name: folder / "captions" / f"{name}.json" for name in captioners}
    return WorldFiles(folder, folder / "captions_human.json", folder / "labels.csv", captions, folder / "truth.json")


def _write_files(world: World, generated: Sequence[Captions], captioners: Mapping[str, float], folder: Path) -> None:
    files = _files(folder, captioners)
    said = [(int(image), caption) for image, captions in world.human.by_image.items() for caption in captions]
    images = [{"id": int(scene.image_id), "file_name": f"{int(scene.image_id):012d}.png"} for scene in world.scenes]
    annotations = [
        {"id": number, "image_id": image, "caption": caption} for number, (image, caption) in enumerate(said, start=1)
    ]
    _dump({"info": {"description": world.human.source}, "images": images, "annotations": annotations}, files.human)
    for captions in generated:
        results = [{"image_id": int(image), "caption": told[0]} for image, told in captions.by_image.items()]
        _dump(results, files.captions[captions.name])
    _dump(truth(captioners, world.parameters), files.truth, indent=2)
    with files.labels.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image_id", world.labels.attribute])
        writer.writerows(world.labels.by_image.items())


def _dump(data: object, path: Path, *, indent: int | None = None) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")
