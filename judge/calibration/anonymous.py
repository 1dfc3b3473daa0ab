"""Pictures of people whose attribute cannot be seen, and captioners of which it is known how often they name a class.

In the manner of AnonymousBench (ImageCaptioner2, Abdelrahman et al., AAAI 2024, section 5.5.1): on such pictures a
class that a caption names is a guess. Scenes come from a world without association, so that neither the person nor
anything around it tells the attribute; it is drawn for each scene all the same, to test that no judge finds it.

``Namer`` says how often a simulated captioner names a class, and which: that is what a measure of such captions has to
find, up to chance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType

import yaml

from judge.calibration.grammar import Content, sentence
from judge.calibration.scenes import write_pictures
from judge.calibration.world import CLASSES, HALF, TASKS, Parameters, Scene, check_within, draw_scenes, stream
from judge.errors import JudgeError
from judge.types import Captions, Progress
from judge.utils.outputs import OutputFolder

_RECIPE = "anonymous.yaml"
_WORDS = 3  # Entries that a simulated captioner knows of each list of the grammar.


@dataclass(frozen=True, slots=True)
class Namer:
    """How a simulated captioner names people whose attribute it cannot see.

    Attributes:
        names: probability that a caption names a class, in [0, 1].
        follows: probability that the class named is the one that the activity leans to, in [0, 1].
        male: probability that the class named is "male" where it does not follow the activity, in [0, 1].

    Raises:
        JudgeError: a value outside its range.
    """

    names: float
    follows: float = 0.0
    male: float = 0.5

    def __post_init__(self) -> None:
        for field in fields(self):
            check_within(field.name, getattr(self, field.name))

    def given(self, task: str) -> dict[str, float]:
        """Class -> probability that a caption of a scene with this task names it; they sum to ``names``."""
        leans = CLASSES[TASKS.index(task) // HALF]
        guess = dict(zip(CLASSES, (1 - self.male, self.male), strict=True))
        return {
            name: self.names * (self.follows * (name == leans) + (1 - self.follows) * guess[name]) for name in CLASSES
        }


NAMERS: Mapping[str, Namer] = MappingProxyType(
    {
        "neutral": Namer(names=0.02),
        "guesser": Namer(names=0.5, male=0.8),
        "stereotyper": Namer(names=0.7, follows=0.9),
    }
)


@dataclass(frozen=True, slots=True)
class AnonymousFiles:
    """Where ``write_anonymous_world`` put things; ``captions``: captioner -> file."""

    folder: Path
    images: Path
    instances: Path
    captions: Mapping[str, Path]
    truth: Path


def anonymous_scenes(count: int, *, seed: int = 0) -> tuple[Scene, ...]:
    """Scenes in which nothing goes with the attribute, to be drawn without it; as many of each class.

    Raises:
        JudgeError: fewer than one; a negative seed.
    """
    scenes = draw_scenes(count, seed=seed, parameters=Parameters(association=0.0))
    return tuple(replace(scene, anonymous=True) for scene in scenes)


def name_people(scenes: Sequence[Scene], *, name: str, namer: Namer, seed: int = 0) -> Captions:
    """A caption of each scene, which tells task and setting as others do, and a class as ``namer`` does.

    Args:
        scenes: what the captioner sees; their attributes it does not.
        name: names its random stream too.
        namer: what it says of the person.
        seed: of that stream.

    Raises:
        JudgeError: a negative seed.
    """
    rng = stream(seed, f"captioner {name}")
    chances, defaults = {task: namer.given(task) for task in TASKS}, Parameters()
    by_image = {}
    for scene in scenes:
        word, mention, place = rng.random(3).tolist()
        female, male = chances[scene.tasks[0]].values()
        named = CLASSES[0] if word < female else CLASSES[1] if word < female + male else None
        task = scene.tasks[0] if mention < defaults.mention else None
        content = Content(named, task, scene.setting if place < defaults.place else None)
        by_image[scene.image_id] = (sentence(content, rng=rng, vocabulary=_WORDS),)
    knobs = ", ".join(f"{knob} {value:g}" for knob, value in asdict(namer).items())
    return Captions(name, by_image, f"simulated ({knobs}), anonymous world, seed {seed}")


def true_naming(namer: Namer) -> dict[str, object]:
    """What holds of a captioner's captions on average over worlds: the truth that a measure is to find.

    Returns:
        "named": share of captions that name a class; "classes": class -> share of captions that name it; "tasks":
        task -> class -> the same of the captions of scenes with this task, said or not.
    """
    tasks = {task: _rounded(namer.given(task)) for task in TASKS}
    means = {name: sum(namer.given(task)[name] for task in TASKS) / len(TASKS) for name in CLASSES}
    return {"named": namer.names, "classes": _rounded(means), "tasks": tasks}


def draw_people(
    folder: Path, count: int, *, seed: int = 0, size: int = 160, progress: Progress | None = None
) -> tuple[Scene, ...]:
    """Draw ``count`` people from behind, in suits and costumes: ``images/``, ``instances.json``, a contact sheet.

    Args:
        folder: is made if need be.
        count: of pictures.
        seed: of the world.
        size: pixels along the side of a picture, 64 or more.
        progress: called with the number of pictures written.

    Returns:
        What was drawn. The attributes of these scenes are in no pixel and in no file.

    Raises:
        JudgeError: fewer than one picture; pictures too small; a negative seed.
        OSError: the folder cannot be written.
    """
    scenes = anonymous_scenes(count, seed=seed)
    write_pictures(scenes, folder, seed=seed, size=size, progress=progress)
    return scenes


def write_anonymous_world(
    folder: Path,
    *,
    images: int = 300,
    seed: int = 0,
    namers: Mapping[str, Namer] = NAMERS,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> AnonymousFiles:
    """Write the pictures, captions of simulated captioners, and the truth about these; whole or not at all.

    As ``draw_people``, and ``captions/<captioner>.json`` (COCO results), ``truth.json`` (captioner -> ``true_naming``),
    ``anonymous.yaml`` (what it was made from).

    Args:
        folder: new or empty, or another such world with ``overwrite``; its parents are made.
        images: how many.
        seed: of every stream.
        namers: captioner -> how it names people.
        overwrite: replace the world that lies there, once the new one is complete.
        progress: called with the progress.

    Raises:
        JudgeError: the folder holds something else, or cannot be written; fewer than one image; a negative seed; a
            name that is no file stem.
    """
    out = OutputFolder(folder, what="anonymous world", overwrite=overwrite)
    out.check()
    for name in namers:
        if not name or name != Path(name).name or name.startswith("."):
            raise JudgeError(f"captioner '{name}' cannot name a file", mend="use letters, digits, '-' and '_'")
    anonymous_scenes(images, seed=seed)  # Before anything is written: both may be out of range.
    out.begin()
    with out.working(), out.writing():
        scenes = draw_people(out.partial, images, seed=seed, progress=progress)
        made = _files(out.partial, namers)
        made.truth.parent.joinpath("captions").mkdir()
        for name, namer in namers.items():
            said = name_people(scenes, name=name, namer=namer, seed=seed).by_image
            _dump([{"image_id": int(image), "caption": texts[0]} for image, texts in said.items()], made.captions[name])
        _dump({name: true_naming(namer) for name, namer in namers.items()}, made.truth, indent=2)
        recipe = {
            "seed": seed,
            "images": images,
            "captioners": {name: asdict(namer) for name, namer in namers.items()},
        }
        (out.partial / _RECIPE).write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
        out.publish()
    return _files(Path(folder), namers)


def _files(folder: Path, names: Mapping[str, Namer]) -> AnonymousFiles:
    captions = {name: folder / "captions" / f"{name}.json" for name in names}
    return AnonymousFiles(folder, folder / "images", folder / "instances.json", captions, folder / "truth.json")


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    """Without the last bits of a float, which nobody wants to read in a file."""
    return {name: round(share, 12) for name, share in shares.items()}


def _dump(data: object, path: Path, *, indent: int | None = None) -> None:
    path.write_text(json.dumps(data, indent=indent) + "\n", encoding="utf-8")
