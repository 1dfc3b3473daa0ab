"""Time and memory of the parts of a run that no GPU does, as the data grow.

    python scripts/bench_scale.py words linear memory
    python scripts/bench_scale.py files --share 0.0625 --share 0.25 --share 1
    python scripts/bench_scale.py linear --human ../shared/data/coco-captions/captions_human.json \
        --objects ../shared/data/coco-captions/objects.json

- words: a million captions tokenised, masked and aligned ("constant", and "contextual" by vectors learnt from them).
- linear: one ``linear`` judge of 80 tasks, of 4,500, 9,000, 18,000 and 36,000 captions; of given files, or drawn.
- memory: ``judge evaluate --metrics lic`` of 40,504 images with five human captions, one captioner.
- files: 118,000 images with five human captions, ten captioners; from files to the table of counted metrics.

Captions are drawn by a seeded generator: words as frequent as in English, followed by words that like to follow them,
with the gender and the objects of the image among them. Every part runs in a process of its own, on one core; seconds
are those of the processor, peaks those of the process and its children. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer

from judge.commands.evaluate import RunConfig
from judge.commands.labels import choose_lexicons
from judge.commands.setup import make_plan, read_corpus
from judge.config import make_config
from judge.corpus.captions import ReadOptions, read_captions
from judge.corpus.tasks import read_tasks
from judge.judges.linear import LinearJudge
from judge.measure import measure
from judge.report.directory import metrics_json
from judge.text.alignment import align
from judge.text.lexicon import load_lexicon
from judge.text.masking import mask
from judge.text.tokens import tokenize
from judge.text.vectors import VectorCache
from judge.types import IntArray, Sample, Target

IMAGES, OF_LIC, CAPTIONERS, CAPTIONS = 118_000, 40_504, 10, 5
COUNTED = ["ba", "dba", "multi", "dpa", "ratio", "error"]
_PEOPLE = {"male": ("man", "boy", "guy"), "female": ("woman", "girl", "lady"), "": ("person", "people")}
_OBJECTS = sorted(name for name in load_lexicon("coco-objects").classes if name != "person")
_LENGTH = 10
# Of words that follow one: how many different, and how often one of them comes.
_FOLLOWING, _EXPECTED = 40, 0.75


class Language:
    """Draws captions. People use all words; captioners few, and the likeliest follow."""

    def __init__(self, words: int, *, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.words = np.array([_spell(number) for number in range(words)], dtype=object)
        self._often = np.cumsum(1 / (np.arange(words) + 2.7))
        self._following = self._any(generator, (words, _FOLLOWING))
        self._next = np.cumsum(1 / (np.arange(_FOLLOWING) + 1.0))

    def _any(self, generator: np.random.Generator, shape: tuple[int, ...]) -> IntArray:
        return np.asarray(np.searchsorted(self._often, generator.random(shape) * self._often[-1]))

    def captions(self, people: Sequence[str], objects: Sequence[Sequence[int]], *, seed: int, dull: bool) -> list[str]:
        """One caption of each image, whose gender and objects are given; of a captioner (``dull``) or of people."""
        generator, count = np.random.default_rng(seed), len(people)
        tokens = np.empty((count, _LENGTH), dtype=np.int64)
        tokens[:, 0] = generator.integers(0, 20, count) if dull else self._any(generator, (count,))
        for place in range(1, _LENGTH):
            reach = self._next[1 if dull else -1]
            choice = np.searchsorted(self._next, generator.random(count) * reach)
            expected = generator.random(count) < (0.98 if dull else _EXPECTED)
            after = self._following[tokens[:, place - 1], choice]
            tokens[:, place] = np.where(expected, after, self._any(generator, (count,)))
        lengths = generator.integers(5, _LENGTH + 1, count).tolist()
        said, which = generator.random((count, 4)), generator.integers(0, 3, count).tolist()
        found = []
        for row, length, person, shown, say, kind in zip(
            self.words[tokens].tolist(), lengths, people, objects, said.tolist(), which, strict=True
        ):
            words = row[:length]
            for place, thing in enumerate(shown[:3]):
                if say[place] < 0.4:
                    words[2 + place] = _OBJECTS[thing]
            if say[3] < 0.7:
                names = _PEOPLE[person]
                words[0] = f"a {names[kind % len(names)]}"
            found.append(" ".join(words).capitalize() + ".")
        return found


def _spell(number: int) -> str:
    """A word for a number: syllables."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    text = syllables[number % len(syllables)]
    while number := number // len(syllables):
        text += syllables[number % len(syllables)]
    return text + "q"


class World:
    """Images, each with a gender and some objects, the same for every seed."""

    def __init__(self, images: int) -> None:
        generator = np.random.default_rng(images)
        self.ids = [str(10_000 + number) for number in range(images)]
        self.people = generator.choice(["male", "female"], images, p=[0.7, 0.3]).tolist()
        often = 1 / (np.arange(len(_OBJECTS)) + 3.0)
        self.objects = generator.choice(len(_OBJECTS), (images, 3), p=often / often.sum()).tolist()
        self.language = Language(12_000)

    def side(self, *, seed: int, dull: bool) -> list[str]:
        """A caption of each image."""
        return self.language.captions(self.people, self.objects, seed=seed, dull=dull)

    def human(self) -> list[list[str]]:
        """Five rounds of captions."""
        return [self.side(seed=number, dull=False) for number in range(CAPTIONS)]

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
            told = self.side(seed=100 + number, dull=True)
            _write(path, [{"image_id": int(i), "caption": text} for i, text in zip(self.ids, told, strict=True)])
        shown = {image: sorted(set(held)) for image, held in zip(self.ids, self.objects, strict=True)}
        _write(folder / "objects.json", {"categories": _OBJECTS, "objects": shown})
        lines = [f"{image},{person}\n" for image, person in zip(self.ids, self.people, strict=True)]
        (folder / "gender.csv").write_text("image_id,gender\n" + "".join(lines), encoding="utf-8")
        found = {"human": "human.json", "labels": "gender.csv", "objects": "objects.json"}
        return {key: str(folder / name) for key, name in found.items()} | {"captions": list(map(str, names))}


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def peak() -> float:
    """Gigabytes: the most that this process, or a child of it, has held."""
    both = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(both) / 2**20 / (1024 if sys.platform == "darwin" else 1)


def timed(name: str, work: Callable[[], Any], units: int) -> Any:
    """What ``work`` returns; its time is printed, and how many captions a second that is."""
    began = time.process_time()
    found = work()
    spent = time.process_time() - began
    print(f"{name}: {spent:.2f} s, {units / max(spent, 1e-9):,.0f} a second; peak {peak():.2f} GB", flush=True)
    return found


def measure_words(captions: int) -> None:
    """By stages, and together."""
    world = World(captions // CAPTIONS)
    human = [text for of in world.human() for text in of]
    told = world.side(seed=100, dull=True)
    del world
    count = len(human)
    print(f"{count:,} captions, {len(set(human)):,} different, {len(set(told)):,} of {len(told):,} of the captioner")
    lexicon = load_lexicon("gender")
    generated = [mask(tokenize(text), lexicon) for text in told]
    began = time.process_time()
    words = timed("tokenised", lambda: [tokenize(text) for text in human], count)
    masked = timed("masked", lambda: [mask(of, lexicon) for of in words], count)
    _, report = timed("aligned, constant", lambda: align(masked, generated, how="constant"), count)
    spent = time.process_time() - began
    print(f"together: {spent:.2f} s, {count / spent:,.0f} a second; tokens kept {report.tokens_kept:.1%}", flush=True)
    vectors = timed("vectors learnt", lambda: VectorCache("corpus", set).vectors(masked), count)
    timed("aligned, contextual", lambda: align(masked, generated, how="contextual", vectors=vectors), count)


def measure_linear(sizes: Sequence[int], human: Path | None, objects: Path | None) -> None:
    """A judge of tasks by captions with the objects' words hidden."""
    lexicon, target = load_lexicon("coco-objects"), Target("tasks", tuple(_OBJECTS))
    if human and objects:
        tasks = read_tasks(objects)
        target = Target("tasks", tasks.names)
        by_image = read_captions(human, ReadOptions(refusals=()), side="human").by_image
        texts = [(i, k, of[k], tasks.by_image[i]) for k in range(CAPTIONS) for i, of in by_image.items() if k < len(of)]
    else:
        world = World(max(sizes))
        shown = [tuple(sorted(set(held))) for held in world.objects]
        texts = [(i, 0, c, of) for i, c, of in zip(world.ids, world.side(seed=0, dull=False), shown, strict=True)]
    samples = [Sample(i, "human", k, mask(tokenize(text), lexicon), of) for i, k, text, of in texts[: max(sizes)]]
    for size in sizes:
        timed(f"linear of {size:,} captions, {len(target.classes)} tasks", _fit(target, samples[:size]), size)


def _fit(target: Target, samples: Sequence[Sample]) -> Callable[[], object]:
    return lambda: LinearJudge(target).fit(samples, seed=0)


def measure_memory(images: int) -> None:
    """A whole run; its memory does not depend on the numbers of folds and refits, which are small to save time."""
    with TemporaryDirectory() as folder:
        given = World(images).write(Path(folder), 1)
        files = ["--human", given["human"], "--captions", given["captions"][0], "--labels", given["labels"]]
        quick = ["--folds", "3", "--refits", "2", "--workers", "1"]
        command = [sys.executable, "-m", "judge", "evaluate", "--metrics", "lic", *files, *quick]
        began = time.perf_counter()
        done = [*command, "--out", f"{folder}/run"]
        subprocess.run(done, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - this package
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(f"{images:,} images: {time.perf_counter() - began:.0f} s by the clock, ", end="")
        print(f"peak {most:.2f} GB", flush=True)


def measure_files(folder: Path, images: int) -> None:
    """From files to tables of counted metrics."""
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    config = make_config(settings | {"metrics": COUNTED}, RunConfig)
    captions = images * (CAPTIONS + CAPTIONERS)
    corpus = timed("read", lambda: read_corpus(config), captions)
    stages = [("laid out", time.process_time())]

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
    FILES = "files"


def main(
    parts: Annotated[list[Part], typer.Argument(help="what is measured")],
    size: Annotated[list[int] | None, typer.Option(min=10, help="captions of linear")] = None,
    human: Annotated[Path | None, typer.Option(help="captions of linear, with --objects; without, drawn")] = None,
    objects: Annotated[Path | None, typer.Option(help="their tasks")] = None,
    share: Annotated[list[float] | None, typer.Option(min=0, max=1, help="of the images of files")] = None,
    inside: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure each part in a process of its own."""
    sizes = size or [4_500, 9_000, 18_000, 36_000]
    work: dict[Part, Callable[[], None]] = {
        Part.WORDS: lambda: measure_words(1_000_000),
        Part.LINEAR: lambda: measure_linear(sizes, human, objects),
        Part.MEMORY: lambda: measure_memory(OF_LIC),
    }
    if inside:
        work.get(parts[0], lambda: measure_files(inside, len((inside / "gender.csv").read_bytes().splitlines()) - 1))()
        return
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for part in parts:
        for images in [round(IMAGES * of) for of in share or [1 / 16, 1 / 4]] if part is Part.FILES else [0]:
            print(f"\n{part}{f', {images:,} images' if images else ''}", flush=True)
            with TemporaryDirectory() as folder:
                if images:
                    _write(Path(folder, "settings.json"), World(images).write(Path(folder), CAPTIONERS))
                own = [*sys.argv[1:], "--inside", folder]
                own = [part.value, *(word for word in own if word not in set(Part))]
                alone = os.environ | {"OMP_NUM_THREADS": "1"}
                subprocess.run([sys.executable, __file__, *own], check=True, env=alone)  # noqa: S603 - this file


if __name__ == "__main__":
    typer.run(main)
