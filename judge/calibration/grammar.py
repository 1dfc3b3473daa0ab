"""Captions of the scenes of ``world`` by people and by simulated captioners, and their files in COCO's formats.

The content of a caption is drawn first, with known probabilities. Its wording is drawn after that; once attribute words
are hidden, it depends on the content alone, so that the closed forms in ``truth`` are exact. A captioner has the same
words as people for tasks and settings: aligning vocabularies removes no evidence from human captions.
"""

import json
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from judge.calibration.truth import truth
from judge.calibration.world import CLASSES, DEFAULT, Captioner, Parameters, Scene, described_by, draw_scenes, stream
from judge.types import Captions, Labels, Progress
from judge.utils.outputs import OutputFolder
from judge.utils.reading import read_yaml

CAPTIONS_PER_IMAGE = 5
# Shares of the human wording alone; they carry no information, so no closed form knows them.
_ADJECTIVE, _ENDING, _FULL_STOP = 0.3, 0.25, 0.7
_ATTEMPTS = 10


class Content(NamedTuple):
    """The person's class, the task and the setting that a caption names; None for what it does not name."""

    attribute: str | None
    task: str | None
    setting: str | None


@dataclass(frozen=True)
class World:
    """Scenes, their human captions (five an image) and labels, as drawn: all follows from parameters, size and seed."""

    parameters: Parameters
    seed: int
    scenes: tuple[Scene, ...]
    human: Captions
    labels: Labels


class WorldFiles(NamedTuple):
    """The files of ``write_world``; ``captions``: captioner -> file."""

    folder: Path
    human: Path
    labels: Path
    captions: Mapping[str, Path]
    truth: Path


def world_files(folder: Path, captioners: Iterable[str]) -> WorldFiles:
    """Paths of the files of ``write_world``."""
    captions = {name: folder / "captions" / f"{name}.json" for name in captioners}
    return WorldFiles(folder, folder / "captions_human.json", folder / "labels.csv", captions, folder / "truth.json")


def make_world(images: int = 1200, *, seed: int = 0, parameters: Parameters = DEFAULT) -> World:
    """Draw a world of 1 image or more and have people caption it: 5 captions an image, rarely two alike."""
    scenes = draw_scenes(images, seed=seed, parameters=parameters)
    rng = stream(seed, "human")
    by_image: dict[str, tuple[str, ...]] = {}
    for scene in scenes:
        captions: list[str] = []
        while len(captions) < CAPTIONS_PER_IMAGE:
            content = _content(scene, parameters, rng)
            # Only the wording is drawn again, so that repeats stay rare and the evidence keeps its probabilities.
            for _ in range(_ATTEMPTS):
                caption = sentence(content, rng=rng)
                if caption not in captions:
                    break
            captions.append(caption)
        by_image[scene.image_id] = tuple(captions)
    source = f"calibration world, seed {seed}"
    labels = Labels("gender", CLASSES, {scene.image_id: scene.attribute for scene in scenes}, source)
    return World(parameters, seed, scenes, Captions("human", by_image, source), labels)


def simulate(world: World, *, name: str, captioner: Captioner) -> Captions:
    """One caption an image; ``name`` seeds its random stream: captioners do not depend on each other."""
    rng = stream(world.seed, f"captioner {name}")
    by_image = {
        scene.image_id: (sentence(_content(scene, world.parameters, rng), rng=rng, vocabulary=captioner.vocabulary),)
        for scene in described_by(world.scenes, captioner, rng)
    }
    knobs = ", ".join(f"{name} {value:g}" for name, value in asdict(captioner).items() if value is not None)
    return Captions(name, by_image, f"simulated ({knobs}), {world.human.source}")


def sentence(content: Content, *, rng: np.random.Generator, vocabulary: int | None = None) -> str:
    """One caption that names ``content`` and nothing else; ``rng`` draws its wording.

    ``vocabulary``: entries known of each list marked (*) in the grammar, for a captioner, who writes in lower case
    without adjectives and endings; None for people, who know all, with a capital and mostly a full stop.
    """
    grammar = _grammar()
    plain = vocabulary is not None
    person = _pick(grammar["people"][content.attribute], rng, first=vocabulary)
    phrase = {"person": person, "place": "", "where": "", "thing": ""}
    if content.setting is not None:
        phrase["place"] = phrase["where"] = _pick(grammar["settings"][content.setting], rng)
    if content.task is None:
        phrase["doing"] = _pick(grammar["idle"], rng, first=vocabulary)
    else:
        noun = _pick(grammar["tasks"][content.task], rng)
        if not plain and rng.random() < _ADJECTIVE:
            noun = f"{_pick(grammar['adjectives'], rng)} {noun}"
        phrase["thing"] = grammar["thing"].format(noun=noun)
        phrase["doing"] = _pick(grammar["doing"], rng, first=vocabulary).format(thing=phrase["thing"])
    absent = [part for part in ("{thing}", "{place}") if not phrase[part[1:-1]]]
    frames = [frame for frame in grammar["frames"][:vocabulary] if not any(part in frame for part in absent)]
    text = _pick(frames, rng).format(**phrase)
    if not plain and rng.random() < _ENDING:
        text += " " + _pick(grammar["endings"], rng).format(possessive=grammar["possessive"][content.attribute])
    text = " ".join(text.split())
    if plain:
        return text
    return text[0].upper() + text[1:] + ("." if rng.random() < _FULL_STOP else "")


def task_words() -> dict[str, tuple[str, ...]]:
    """Task -> its nouns: every caption that names it has one of them, and no noun belongs to two tasks."""
    return {task: tuple(nouns) for task, nouns in _grammar()["tasks"].items()}


def write_world(
    world: World,
    captioners: Mapping[str, Captioner],
    folder: Path,
    *,
    pictures: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> WorldFiles:
    """Write the world as COCO would ship it, with the truth beside it; whole or not at all.

    ``captions_human.json`` (COCO annotations), ``labels.csv`` (image_id, gender), ``captions/<captioner>.json``
    (COCO results), ``truth.json`` ({captioner: {"A->T", "T->A"}}, closed forms, fractions), ``world.yaml`` (what it was
    made from); with ``pictures``, the side of drawn scenes in pixels, also ``images/``, ``instances.json`` (COCO) and
    ``contact_sheet.png``. A ``folder`` that holds anything but a world to ``overwrite`` is refused.
    """
    out = OutputFolder(folder, what="world", overwrite=overwrite)
    out.check()
    generated = [simulate(world, name=name, captioner=captioner) for name, captioner in captioners.items()]
    recipe = {
        "seed": world.seed,
        "images": len(world.scenes),
        "parameters": asdict(world.parameters),
        "captioners": {name: asdict(captioner) for name, captioner in captioners.items()},
    }
    with out.making():
        (out.partial / "captions").mkdir()
        files = world_files(out.partial, captioners)
        texts = [(int(image), caption) for image, captions in world.human.by_image.items() for caption in captions]
        annotations = [{"id": n, "image_id": image, "caption": text} for n, (image, text) in enumerate(texts, start=1)]
        images = [{"id": int(scene.image_id), "file_name": f"{int(scene.image_id):012d}.png"} for scene in world.scenes]
        info = {"description": world.human.source}
        _dump({"info": info, "images": images, "annotations": annotations}, files.human)
        for side in generated:
            results = [{"image_id": int(image), "caption": text} for image, (text,) in side.by_image.items()]
            _dump(results, files.captions[side.name])
        rows = [("image_id", world.labels.attribute), *world.labels.by_image.items()]
        files.labels.write_text("".join(f"{image},{value}\n" for image, value in rows), encoding="utf-8")
        _dump(truth(captioners, world.parameters), files.truth, indent=2)
        (out.partial / "world.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
        if pictures:
            from judge.calibration.scenes import write_images

            write_images(world.scenes, out.partial, seed=world.seed, size=pictures, progress=progress)
    return world_files(Path(folder), captioners)


@cache
def _grammar() -> Mapping[str, Any]:
    """``grammar.yaml``; people and possessives by attribute, None where the attribute is not said."""
    data: dict[str, Any] = read_yaml(Path(__file__).with_name("grammar.yaml"), mend="install the package again")
    people = dict(zip(CLASSES, zip(*data["people"], strict=True), strict=True))
    possessive = dict(zip((*CLASSES, None), data["possessive"], strict=True))
    return {**data, "people": {**people, None: data["anyone"]}, "possessive": possessive}


@cache
def _steps(entries: int) -> tuple[float, ...]:
    return tuple(accumulate(1 / (2 + position) for position in range(entries)))


def _pick(entries: Sequence[str], rng: np.random.Generator, *, first: int | None = None) -> str:
    """One of the ``first`` entries, earlier ones more often; ``Generator.choice`` would take ten times as long."""
    steps = _steps(len(entries) if first is None else min(first, len(entries)))
    return entries[bisect(steps, rng.random() * steps[-1], hi=len(steps) - 1)]


def _content(scene: Scene, parameters: Parameters, rng: np.random.Generator) -> Content:
    named = rng.random(3) < (parameters.gendered, parameters.mention, parameters.place)
    parts = scene.attribute, scene.task, scene.setting
    return Content(*(part if says else None for part, says in zip(parts, named, strict=True)))


def _dump(data: object, path: Path, *, indent: int | None = None) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")
