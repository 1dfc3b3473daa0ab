"""Time and memory of the parts of a run that use no GPU, as the data grow.

    python scripts/bench_scale.py words linear memory counted
    python scripts/bench_scale.py files --images 118000

- words: a million captions tokenised, masked and aligned ("constant", and "contextual" by vectors learnt from them).
- linear: one ``linear`` judge of 79 tasks, of 4,500, 9,000, 18,000 and 36,000 captions.
- memory: ``judge evaluate --metrics lic`` of 40,504 images with five human captions, one captioner.
- default: ``judge evaluate`` as it is, conditional leakage and LIC of one captioner, on all cores.
- seen: ImageCaptioner2 and conditional leakage given the image, of --captioners, on all cores; a file has 768 features
  of each image.
- counted: the functions of counted metrics on a million samples and 80 tasks.
- files: images with five human captions, ten captioners; from files to the table of counted metrics.

Captions are drawn by a seeded generator: words as frequent as in English, with the gender and the objects of the image
among them. Every part runs in a process of its own, but for "default" and "seen" on one core; seconds are those of the
processor. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Annotated, Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import typer
from timing import machine

from judge import ba_mals, dba, dpa, error, multi, ratio
from judge.commands.evaluate import RunConfig, run
from judge.commands.setup import choose_lexicons, make_plan, read_corpus
from judge.config import make_config
from judge.judges.linear import LinearJudge
from judge.measure import measure
from judge.metrics.counted.multi import Multi
from judge.report.directory import metrics_json
from judge.text.alignment import Aligner
from judge.text.lexicon import load_lexicon, mask
from judge.text.tokens import tokenize
from judge.text.vectors import VectorCache
from judge.types import Sample, Target

CAPTIONERS, CAPTIONS = 10, 5
_PEOPLE = {"male": ("man", "boy", "guy"), "female": ("woman", "girl", "lady")}
_OBJECTS = sorted(name for name in load_lexicon("coco-objects").classes if name != "person")
_LENGTH = 10
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


class World:
    """Images, each with a gender and up to three objects, and their captions; the same in every call."""

    def __init__(self, images: int) -> None:
        generator = np.random.default_rng(images)
        self.ids = [str(10_000 + number) for number in range(images)]
        self.people = generator.choice(["male", "female"], images, p=[0.7, 0.3]).tolist()
        often = 1 / (np.arange(len(_OBJECTS)) + 3.0)
        self.objects = generator.choice(len(_OBJECTS), (images, 3), p=often / often.sum()).tolist()

    def side(self, *, seed: int, words: int = 12_000) -> list[str]:
        """A caption of each image: by Zipf's law one of ``words`` words at each place; most name gender and objects."""
        generator, count = np.random.default_rng(seed), len(self.ids)
        often = np.cumsum(1 / (np.arange(words) + 2.7))
        tokens = np.searchsorted(often, generator.random((count, _LENGTH)) * often[-1]).tolist()
        lengths = generator.integers(5, _LENGTH + 1, count).tolist()
        chances, names = generator.random((count, 4)).tolist(), generator.integers(0, 3, count).tolist()
        found = []
        for row, length, person, objects, chance, name in zip(
            tokens, lengths, self.people, self.objects, chances, names, strict=True
        ):
            caption = [_spell(token) for token in row[:length]]
            for place, thing in enumerate(objects):
                if chance[place] < 0.4:
                    caption[2 + place] = _OBJECTS[thing]
            if chance[3] < 0.7:
                caption[0] = f"a {_PEOPLE[person][name]}"
            found.append(" ".join(caption).capitalize() + ".")
        return found

    def human(self) -> list[list[str]]:
        """Five rounds of captions."""
        return [self.side(seed=number) for number in range(CAPTIONS)]

    def write(self, folder: Path, captioners: int) -> dict[str, Any]:
        """Files, as settings of a run name them."""
        rounds = self.human()
        rows = [
            {"image_id": int(image), "id": 5 * place + number, "caption": captions[place]}
            for place, image in enumerate(self.ids)
            for number, captions in enumerate(rounds)
        ]
        images = [{"id": int(image), "file_name": f"{image}.jpg"} for image in self.ids]
        _write(folder / "human.json", {"images": images, "annotations": rows})
        names = [folder / f"captioner{number}.json" for number in range(captioners)]
        for number, path in enumerate(names):
            texts = self.side(seed=100 + number, words=1_000)
            _write(path, [{"image_id": int(i), "caption": text} for i, text in zip(self.ids, texts, strict=True)])
        shown = {image: sorted(set(held)) for image, held in zip(self.ids, self.objects, strict=True)}
        _write(folder / "objects.json", {"categories": _OBJECTS, "objects": shown})
        lines = [f"{image},{person}\n" for image, person in zip(self.ids, self.people, strict=True)]
        (folder / "gender.csv").write_text("image_id,gender\n" + "".join(lines), encoding="utf-8")
        files = {"human": "human.json", "labels": "gender.csv", "objects": "objects.json"}
        return {key: folder / name for key, name in files.items()} | {"captions": names}


@cache
def _spell(number: int) -> str:
    """A word for a number, in syllables."""
    text = ""
    while number or not text:
        number, place = divmod(number, len(_SYLLABLES))
        text += _SYLLABLES[place]
    return text + "q"


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def timed(name: str, work: Callable[[], Any], units: int) -> Any:
    """Return what ``work`` returns; print its time, and how many captions a second that is."""
    began = time.process_time()
    found = work()
    spent = time.process_time() - began
    print(f"{name}: {spent:.2f} s, {units / max(spent, 1e-9):,.0f} a second", flush=True)
    return found


def measure_words() -> None:
    """Stage by stage."""
    world, lexicon = World(1_000_000 // CAPTIONS), load_lexicon("gender")
    human = [text for of in world.human() for text in of]
    generated = [mask(tokenize(text), lexicon) for text in world.side(seed=100, words=1_000)]
    count = len(human)
    words = timed("tokenised", lambda: [tokenize(text) for text in human], count)
    masked = timed("masked", lambda: [mask(of, lexicon) for of in words], count)
    timed("aligned, constant", lambda: Aligner("constant").align(masked, generated), count)
    vectors = timed("vectors learnt", lambda: VectorCache("corpus", set).vectors(masked), count)
    timed("aligned, contextual", lambda: Aligner("contextual", vectors).align(masked, generated), count)


def measure_linear(sizes: Sequence[int] = (4_500, 9_000, 18_000, 36_000)) -> None:
    """A judge of tasks from captions whose words for objects are hidden."""
    lexicon, target, world = load_lexicon("coco-objects"), Target("tasks", tuple(_OBJECTS)), World(max(sizes))
    samples = [
        Sample(image, "human", 0, mask(tokenize(text), lexicon), tuple(sorted(set(objects))))
        for image, text, objects in zip(world.ids, world.side(seed=0), world.objects, strict=True)
    ]
    for size in sizes:
        timed(f"linear of {size:,} captions", partial(LinearJudge(target).fit, samples[:size], seed=0), size)


def measure_memory() -> None:
    """A whole run; its memory does not depend on the numbers of folds and refits, which are small to save time."""
    with TemporaryDirectory() as folder:
        settings = World(40_504).write(Path(folder), 1) | {"metrics": ["lic"], "folds": 3, "refits": 2, "workers": 1}
        timed("judge evaluate", lambda: run(make_config(settings | {"out": Path(folder) / "run"}, RunConfig)), 40_504)


def measure_default(images: int) -> None:
    """A whole run with default judges, folds and refits."""
    with TemporaryDirectory() as folder:
        watched(World(images).write(Path(folder), 1) | {"out": Path(folder) / "run"})


def measure_seen(images: int, captioners: int) -> None:
    """The same of judges that see: some features tell a little of the gender, and some of the first object."""
    generator, world = np.random.default_rng(1), World(images)
    features = generator.standard_normal((images, 768), dtype=np.float32)
    features[:, :100] += 0.1 * (np.array(world.people) == "male")[:, None]
    features[np.arange(images), 100 + np.array(world.objects)[:, 0]] += 1
    with TemporaryDirectory() as folder:
        settings = world.write(Path(folder), captioners) | {"out": Path(folder) / "run", "judge": ["linear"]}
        np.savez(Path(folder) / "features.npz", image_id=np.array(world.ids), features=features)
        settings |= {"metrics": ["imagecaptioner2", "conditional"], "given": ["image"]}
        watched(settings | {"image_features": Path(folder) / "features.npz"})


def watched(settings: dict[str, Any]) -> None:
    """Run ``judge evaluate``; print the time that passes, and the memory of all its processes together.

    What processes share counts once (proportional set size).
    """
    largest, over = [0.0], Event()

    def watch() -> None:
        while not over.wait(0.5):
            with suppress(psutil.Error):
                every = [psutil.Process(), *psutil.Process().children(recursive=True)]
                largest[0] = max(largest[0], sum(of.memory_full_info().pss for of in every) / 2**30)

    Thread(target=watch, daemon=True).start()
    began = time.monotonic()
    run(make_config(settings, RunConfig))
    over.set()
    print(f"{time.monotonic() - began:.0f} s, {largest[0]:.2f} GB in all processes", flush=True)


def measure_counted(samples: int = 1_000_000, tasks: int = 80) -> None:
    """Samples of one of two classes and about three tasks; predictions differ in one task of a hundred."""
    generator = np.random.default_rng(0)
    attribute = np.eye(2, dtype=np.bool_)[generator.integers(0, 2, samples)]
    held = generator.random((samples, tasks), dtype=np.float32) < 3 / tasks
    predicted = held ^ (generator.random((samples, tasks), dtype=np.float32) < 0.01)
    single = generator.integers(0, tasks, (2, samples))
    timed("ba_mals", lambda: ba_mals(attribute, held, predicted), samples)
    timed("dba A->T", lambda: dba(attribute, held, predicted), samples)
    timed("dba T->A", lambda: dba(attribute, held, None, ~attribute, "T->A"), samples)
    timed("dpa A->T", lambda: dpa(attribute, held, predicted), samples)
    timed("multi A->T, one label", lambda: multi(attribute, *single), samples)
    timed("multi A->T, sets of up to two", lambda: multi(attribute, held, predicted, variant=Multi(largest=2)), samples)
    timed("ratio", lambda: ratio(attribute), samples)
    timed("error", lambda: error(attribute, ~attribute), samples)


def measure_files(images: int) -> None:
    """From files to tables of counted metrics."""
    metrics = ["ba", "dba", "multi", "dpa", "ratio", "error"]
    with TemporaryDirectory() as folder:
        config = make_config(World(images).write(Path(folder), CAPTIONERS) | {"metrics": metrics}, RunConfig)
        captions = images * (CAPTIONS + CAPTIONERS)
        corpus = timed("read", lambda: read_corpus(config), captions)
    stages = [("prepared", time.process_time())]

    def progress(what: str, _done: int, _total: int) -> None:
        stages.append((what, time.process_time()))

    plan, lexicons = make_plan(config), choose_lexicons(config)
    result = timed("measured", lambda: measure(corpus, plan, lexicons=lexicons, progress=progress), captions)
    for (what, began), (_, ended) in pairwise(stages):
        print(f"  {what}: {ended - began:.2f} s")
    timed("tables and differences", lambda: (result.table(), metrics_json(result)), captions)


class Part(StrEnum):
    """What is measured."""

    WORDS = "words"
    LINEAR = "linear"
    MEMORY = "memory"
    DEFAULT = "default"
    SEEN = "seen"
    COUNTED = "counted"
    FILES = "files"


def main(
    parts: Annotated[list[Part], typer.Argument(help="what is measured")],
    images: Annotated[int, typer.Option(min=10, help="of files, default and seen")] = 7_375,
    captioners: Annotated[int, typer.Option(min=1, help="of seen")] = 4,
    inside: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Measure each part in a process of its own."""
    work: dict[Part, Callable[[], None]] = {
        Part.WORDS: measure_words,
        Part.LINEAR: measure_linear,
        Part.MEMORY: measure_memory,
        Part.DEFAULT: lambda: measure_default(images),
        Part.SEEN: lambda: measure_seen(images, captioners),
        Part.COUNTED: measure_counted,
        Part.FILES: lambda: measure_files(images),
    }
    if inside:
        work[parts[0]]()
        print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")
        return
    print(machine())
    for part in parts:
        print(f"\n{part}", flush=True)
        sizes = ["--images", str(images), "--captioners", str(captioners)]
        own = [sys.executable, __file__, part.value, *sizes, "--inside"]
        subprocess.run(own, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})  # noqa: S603 - this file


if __name__ == "__main__":
    typer.run(main)
