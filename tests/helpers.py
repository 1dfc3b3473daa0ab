"""What several tests share: small samples and scores, the ``judge`` command, messages of faults."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner, Result

from judge import evaluate
from judge.calibration.grammar import WorldFiles
from judge.commands import evaluate as evaluating
from judge.commands.app import app
from judge.corpus import Corpus
from judge.corpus.captions import ReadOptions, read_captions
from judge.errors import JudgeError
from judge.judges import NOTHING, Blueprint, Materials, Recipe
from judge.judges.names import find_judge
from judge.measure import Result as Measured
from judge.quality import Quality, library, measure_qualities
from judge.training.launch import make_accelerator
from judge.training.loop import NetworkJudge, Trainer
from judge.training.member import Member, TrainingSetup, identify
from judge.types import Captions, FloatArray, Predictions, Sample, Side, Target
from judge.utils.identity import key_of

GENDER = Target("attribute", ("female", "male"))
THREE = Target("attribute", ("a", "b", "c"))
EVEN = {"female": 1.0, "male": 1.0}

Write = Callable[..., Path]


def make_samples(images: int, *, target: Target = GENDER, clue: float = 1.0, seed: int = 0) -> list[Sample]:
    """Captions of noise in which, with probability ``clue``, one word gives the class away."""
    rng = np.random.default_rng(seed)
    samples = []
    for image in range(images):
        answer = int(rng.integers(len(target.classes)))
        shown = answer if rng.random() < clue else int(rng.integers(len(target.classes)))
        noise = [f"noise{n}" for n in rng.integers(8, size=int(rng.integers(1, 6)))]
        words = [*noise, f"clue{shown}"]
        rng.shuffle(words)
        samples.append(Sample(str(image), "human", 0, tuple(words), (answer,), image=f"{image}.png"))
    return samples


TASKS = Target("tasks", ("cup", "dog", "never named"))


def make_tasks(images: int, *, seed: int = 0) -> list[Sample]:
    """Captions of noise; "clue0" and "clue1" stand for the first two labels, each in half of the captions."""
    rng = np.random.default_rng(seed)
    samples = []
    for image in range(images):
        labels = np.flatnonzero(rng.random(3) < [0.5, 0.5, 0.8])
        words = [f"noise{n}" for n in rng.integers(8, size=int(rng.integers(5)))]
        words += [f"clue{n}" for n in labels if n < 2]
        rng.shuffle(words)
        samples.append(Sample(str(image), "human", 0, tuple(words), tuple(int(n) for n in labels)))
    return samples


def keep_predictions(member: Member, predictions: Predictions) -> Predictions:
    """The answers of a trained member, as they are."""
    return predictions


def judge_with(
    network: Any, recipe: Recipe, trainer: Trainer | None = None, *, target: Target = GENDER
) -> NetworkJudge:
    """A judge that trains ``network`` as it is."""
    blueprint = Blueprint("test", "this test", network=lambda *_: network, recipe=recipe)
    judge = NetworkJudge(blueprint, target, recipe, trainer or Trainer(make_accelerator()))
    judge.network = network
    return judge


def judge_of(name: str, materials: Materials = NOTHING, *, target: Target = GENDER, **recipe: Any) -> NetworkJudge:
    """An untrained judge; ``recipe`` are changes of its own recipe."""
    blueprint = find_judge(name)
    assert blueprint.recipe
    how = replace(blueprint.recipe, **recipe)
    return NetworkJudge(blueprint, target, how, Trainer(make_accelerator()), materials)


class Glimpses:
    """Features of images in memory: image id -> [P, D]; zeros for a sample without an image."""

    regions = 0

    def __init__(self, pictures: Mapping[str, np.ndarray], shape: tuple[int, int]) -> None:
        self.pictures, self.shape = pictures, shape

    def rows(self, samples: Sequence[Sample]) -> Tensor:
        found = np.zeros((len(samples), *self.shape), dtype=np.float32)
        for row, sample in zip(found, samples, strict=True):
            if sample.image is not None:
                row[:] = self.pictures[sample.image]
        return torch.from_numpy(found)


def make_glimpses(
    samples: Sequence[Sample], *, clue: float = 0.0, shape: tuple[int, int] = (4, 12), regions: int = 0, seed: int = 0
) -> Glimpses:
    """Noise, in which with probability ``clue`` one position gives the class of the image's sample away.

    ``regions``: further positions, of objects; their boxes (4 columns) and presence (1) follow their features.
    """
    rng = np.random.default_rng(seed)
    positions, columns = (shape[0] + regions, shape[1] + 5) if regions else shape
    pictures = {}
    for sample in samples:
        picture = np.zeros((positions, columns))
        picture[:, : shape[1]] = rng.normal(size=(positions, shape[1]))
        if regions:
            picture[shape[0] :, shape[1] :] = [0.25, 0.25, 0.75, 0.75, 1]
        if rng.random() < clue:
            picture[rng.integers(positions), sample.answers[0]] += 8
        assert sample.image is not None
        pictures[sample.image] = picture
    glimpses = Glimpses(pictures, (positions, columns))
    glimpses.regions = regions
    return glimpses


def accuracy(probabilities: np.ndarray, samples: Sequence[Sample]) -> float:
    """Share of right answers."""
    return float(np.mean(probabilities.argmax(axis=1) == [sample.answers[0] for sample in samples]))


def judge(*arguments: object) -> Result:
    """Run the ``judge`` command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def evaluate_numbers(corpus: Corpus | None = None, **settings: Any) -> Measured:
    """As ``judge.evaluate``, without examples of captions, which take a third of the time of a small run."""
    with patch.object(evaluating, "run", partial(evaluating.run, examples=False)):
        return evaluate(corpus, **settings)


def caption_options(files: WorldFiles) -> list[str]:
    """Human captions and those of every captioner, as options of ``judge evaluate``."""
    return [str(part) for part in inputs_of(files, *files.captions)[:-2]]


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def tree(path: Path) -> dict[str, bytes]:
    """Files of an output by name; the log, which states times, is empty."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): b"" if file.name == "log.jsonl" else file.read_bytes() for file in files}


def few(files: WorldFiles, count: int = 1) -> WorldFiles:
    """Keep the first ``count`` human captions of each image."""
    human, seen = read_json(files.human), Counter[int]()
    kept = []
    for annotation in human["annotations"]:
        seen[annotation["image_id"]] += 1
        if seen[annotation["image_id"]] <= count:
            kept.append(annotation)
    files.human.write_text(json.dumps(human | {"annotations": kept}), encoding="utf-8")
    return files


def with_captions(corpus: Corpus, count: int = 2) -> Corpus:
    """The corpus with the first ``count`` human captions of each image: judges of each are trained."""
    by_image = {image: texts[:count] for image, texts in corpus.human.by_image.items()}
    return replace(corpus, human=replace(corpus.human, by_image=by_image))


def save_captioner(folder: Path, family: str = "git", *, seed: int = 0) -> Path:
    """A tiny captioner of a family, with random weights large enough that captions depend on the picture."""
    from captioners import FAMILIES

    from judge.utils.hub import quiet

    with quiet():
        torch.manual_seed(seed)
        model, *others = FAMILIES[family]()
        for parameter in model.parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter.data, std=0.2)
        for part in (model, *others):
            part.save_pretrained(folder)
    return folder


def fault_of(do: Callable[..., object], *arguments: object, **options: object) -> str:
    """The one-line message of a call that must fail."""
    with pytest.raises(JudgeError) as caught:
        do(*arguments, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line


def network_of(
    name: str, samples: Sequence[Sample] = (), materials: Materials = NOTHING, *, target: Target = GENDER
) -> Any:
    """The network of a judge, untrained and not in training; the same every time."""
    torch.manual_seed(0)
    return find_judge(name).network(target, samples, materials).eval()  # type: ignore[misc, attr-defined]


def enlarge(network: Any, std: float) -> Any:
    """Make weights so large that no layer is nearly linear."""
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return network.eval()


def logits(network: Any, samples: Sequence[Sample]) -> FloatArray:
    """Logits of a batch."""
    with torch.no_grad():
        return network(network.collate(samples)).double().numpy()


def unmoved(network: Any, samples: Sequence[Sample]) -> FloatArray:
    """Logits of a batch; neither its other samples nor their order nor padded word ids change a sample's logits."""
    together = logits(network, samples)
    assert np.concatenate([logits(network, [sample]) for sample in samples]) == pytest.approx(together, abs=1e-5)
    assert logits(network, samples[::-1])[::-1] == pytest.approx(together, abs=1e-5)
    batch = dict(network.collate(samples))
    if "tokens" in batch:
        batch["tokens"] = torch.nn.functional.pad(batch["tokens"], (0, 7), value=3)
        for row, length in zip(batch["tokens"], batch["lengths"], strict=True):
            row[length:] = 3
        with torch.no_grad():
            assert network(batch).double().numpy() == pytest.approx(together, abs=1e-5)
    return together


def done_well(*arguments: object) -> Result:
    """Run the ``judge`` command in this process; it must succeed."""
    done = judge(*arguments)
    assert done.exit_code == 0, done.output
    return done


def publish(weights: Path, hub: Path, patch: pytest.MonkeyPatch, *options: str) -> None:
    """Put a judge, as ``judge export`` writes it, into the hub's cache as "me/judge"; without a connection."""
    patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))
    patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    done_well("export", "--judge-weights", weights, "--out", hub / "exported", *options)
    fill_hub(hub, "me/judge", hub / "exported")


def fill_hub(cache: Path, name: str, folder: Path) -> str:
    """Put a checkpoint's folder into the hub's cache as the newest commit of ``name``; returns the commit."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    commit = f"{len([*repository.glob('snapshots/*')]):040x}"
    shutil.copytree(folder, repository / "snapshots" / commit)
    (repository / "refs" / "main").write_text(commit)
    return commit


def instead(words: Sequence[object], *other: object) -> list[str]:
    """Words of a command in which the options of ``other`` replace those of the same name."""
    found, names = [*map(str, words)], {str(word) for word in other if str(word).startswith("--")}
    for place in reversed(range(len(found))):
        if found[place] in names:
            del found[place : place + 2]
    return [*found, *map(str, other)]


def refusal(*arguments: object) -> str:
    """The line on standard error of a ``judge`` command that is refused."""
    done = judge(*arguments)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    assert done.stderr.startswith("judge: ")
    return done.stderr


@contextmanager
def one_line(*parts: str) -> Iterator[list[str]]:
    """Expect a fault in one line that holds each of ``parts``; the line is then in what is yielded."""
    lines: list[str] = []
    with pytest.raises(JudgeError) as caught:
        yield lines
    lines.append(str(caught.value))
    assert "\n" not in lines[0]
    for part in parts:
        assert part in lines[0]


def table_bytes(frame: pd.DataFrame, kind: str) -> bytes:
    """A table as the bytes of a file: "parquet" or "tsv"."""
    buffer = io.BytesIO()
    if kind == "parquet":
        frame.to_parquet(buffer)
    else:
        frame.to_csv(buffer, sep="\t", index=False)
    return buffer.getvalue()


def fault(path: Path, side: Side = "generated", read: Callable[..., object] | None = None, **options: Any) -> str:
    """The message of captions (or what ``read`` reads) that cannot be read, without the path in front."""
    line = fault_of(read, path, **options) if read else fault_of(read_captions, path, ReadOptions(**options), side=side)
    assert line.startswith(str(path))
    return line.removeprefix(str(path)).lstrip(":, ")


Value = TypeVar("Value")


def known(value: Value | None) -> Value:
    """``value``, which is not None."""
    assert value is not None
    return value


def inputs_of(files: WorldFiles, *captioners: str) -> list[object]:
    """Human captions, those of some captioners and the labels, as options of ``judge evaluate``."""
    captions = [part for name in captioners for part in ("--captions", files.captions[name])]
    return ["--human", files.human, *captions, "--labels", files.labels]


def settings_of(files: WorldFiles, folder: Path) -> dict[str, Any]:
    """Settings of a small run of judges of images (64 pixels wide) on a drawn world; features are in ``folder``."""
    drawn = files.folder
    return {
        "human": str(files.human), "captions": [str(path) for path in files.captions.values()],
        "labels": str(files.labels), "images": str(drawn / "images"), "instances": str(drawn / "instances.json"),
        "cache": str(folder / "cache"), "image_size": 64, "backbone": "test_resnet", "backbone_weights": "random",
        "protocol": "paper", "seeds": 1, "epochs": 1, "learning_rate": 0.002, "refits": 0, "chance": 0,
        "resamples": 100, "workers": 1,
    }  # fmt: skip


def pictures_of(files: WorldFiles) -> list[object]:
    """Images of a drawn world and their instances, as options."""
    return ["--images", files.folder / "images", "--instances", files.folder / "instances.json"]


def results_of(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Metric and judge -> the row of a finished run of one captioner."""
    found = read_json(out / "metrics.json")["results"]
    return {(row["metric"], row["judge"]): row for row in found}


def first_images(coco: Path, names: Sequence[str], count: int) -> Corpus:
    """Human and generated captions of the first labelled images of the shared captions."""
    captions = [coco / "results" / f"{name}.json" for name in names]
    corpus = Corpus.read(human=coco / "captions_human.json", captions=captions, labels=coco / "gender.csv")
    labels = known(corpus.labels)
    images = list(labels.by_image)[:count]

    def chosen(side: Captions) -> Captions:
        return replace(side, by_image={image: side.by_image[image] for image in images})

    labels = replace(labels, by_image={image: labels.by_image[image] for image in images})
    return Corpus(chosen(corpus.human), tuple(map(chosen, corpus.generated)), labels)


def make_scores(images: int, *, seeds: int = 1, captions: int = 3, classes: str = "ab", seed: int = 0) -> pd.DataFrame:
    """Random scores; classes of unequal size, some captions missing, every image on both sides."""
    rng = np.random.default_rng(seed)
    rows = []
    for image in range(images):
        answer = classes[0] if image < 3 else rng.choice([*classes])
        human = [("human", index) for index in range(captions) if not index or rng.random() > 0.1]
        for number, (side, index) in product(range(seeds), [*human, ("generated", 0)]):
            judged = number, 0, answer, rng.random(), rng.choice([*classes])
            rows.append((str(image), "cap", side, index, "lic", "linear", *judged))
    columns = "image_id captioner side index metric judge seed fold answer probability predicted"
    return whole(pd.DataFrame(rows, columns=columns.split()))


def whole(scores: pd.DataFrame) -> pd.DataFrame:
    """Add the columns that follow from others or that LIC does not use."""
    return scores.assign(named="", tasks="", loss=-np.log(scores["probability"]), validation_loss=np.nan)


def name_members(members: Sequence[Member], setup: TrainingSetup) -> list[str]:
    """A key for each member's result: equal keys, equal numbers up to rounding."""
    return [key_of(found) for found in identify(members, setup)]


def measure_quality(human: Captions, generated: Captions, *, java: bool = False, **how: Any) -> Quality:
    """The quality of one captioner; without ``java`` as on a machine that has none, and so the same on every one."""
    given = {generated.name: how.pop("given", {})}
    fault = library.JavaFault("needs Java, which was not to be used")
    with nullcontext() if java else patch.object(library, "_java", side_effect=fault):
        return measure_qualities(human, [generated], given=given, **how)[generated.name]


def run_of(captioners: Mapping[str, Mapping[str, int]], **more: Any) -> dict[str, Any]:
    """The entry "run" of a run of captioners (name -> images of each class), of which nothing else was measured."""
    text = {"captions": 0, "foreign": False, "affected": 0, "revealing": {}, "kappa": None, "likeness": None}
    same = {"coverage": None, "text": {"generated": text}, "without_value": {}, "rewarded_by": None, "masks": None}
    entries = {name: {"images": dict(images), **same} for name, images in captioners.items()}
    settings = {"attribute": "gender", "lexicon": None, "labels": {"agreement": None}, "level": 0.95, "small": 0.02}
    return {**settings, "masks": None, "captioners": entries, **more}
