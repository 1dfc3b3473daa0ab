"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

# Side by side on the cores of one machine, each process keeps to one thread (before torch is imported).
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from helpers import done_well, few, inputs_of, pictures_of
from matplotlib.figure import Figure

from judge.calibration.grammar import World, WorldFiles, make_world, simulate, world_files, write_world
from judge.calibration.world import Captioner
from judge.corpus import Corpus

# How long an example takes depends on what else the machine does.
settings.register_profile("judge", deadline=None)
settings.load_profile("judge")

_DRAW = Figure.savefig
LONGEST = (
    *("blocks", "known_worlds", "scripts", "calibrate", "trust", "detectors", "measure", "cli", "train", "contract"),
    *("sharding", "papers", "compare", "caption", "predict", "counted", "ending", "truth", "page", "saved_run"),
    "huggingface",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files that take longest first: begun last, one core would wait for the other."""
    order = {f"test_{name}.py": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not look through it again, hundreds of times."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The real COCO captions and images; a user's clone lacks them, CI must not."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        if os.environ.get("CI"):
            pytest.fail("../shared/data is missing, and this is CI")
        pytest.skip("../shared/data is not here")
    return folder


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """As judges are trained; with more, networks as small as here are slower."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", autouse=True)
def undrawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Figures are not drawn, which takes half of a small run's time; files marked ``figures`` look at them."""
    with pytest.MonkeyPatch.context() as patch:
        if not any(mark.name == "figures" for mark in request.node.iter_markers()):
            patch.setattr(Figure, "savefig", lambda *_, **__: None)
        yield


@pytest.fixture(scope="module")
def no_report() -> Iterator[None]:
    """Runs write their numbers, but no page, which takes longer than all else of a small run; ``report/`` makes them.

    Not for files that use ``finished_run``, whose page other files look at.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("judge.report.directory.make_page", lambda *of, **how: "")
        yield


@pytest.fixture(scope="session")
def coco(shared: Path) -> Path:
    """Captions of four real captioners and of people for 10,301 COCO images."""
    return shared / "coco-captions"


@pytest.fixture(scope="session")
def world() -> World:
    """A small world; tests that need certainty make a larger one."""
    return make_world(240, seed=3)


@pytest.fixture(scope="session")
def corpus(world: World) -> Corpus:
    """The small world with two captioners, one faithful and one that stereotypes."""
    captioners = tuple(
        simulate(world, name=name, captioner=Captioner(stereotype=knob))
        for name, knob in (("none", 0.0), ("much", 0.9))
    )
    return Corpus(world.human, captioners, world.labels)


@pytest.fixture(scope="session")
def finished_world(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    """The files of a small drawn world with two captioners, "none" and "much". Read only."""
    return world_files(_finished(tmp_path_factory) / "world", ("none", "much"))


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished ``judge evaluate`` on ``finished_world``. Read only; ``printed.txt`` lies beside it."""
    return _finished(tmp_path_factory) / "run"


def _finished(factory: pytest.TempPathFactory) -> Path:
    """Make the world and the run once in a pytest run, for all xdist workers."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "finished"
    with FileLock(f"{folder}.lock"):
        if not (folder / "printed.txt").exists():
            captioners = {"none": Captioner(), "much": Captioner(stereotype=0.9)}
            drawn = make_world(120, seed=2)
            # Judges of each human caption are trained: three are as many as conditional leakage needs.
            files = few(write_world(drawn, captioners, folder / "world", pictures=64, overwrite=True), 3)
            options = [*inputs_of(files, "none", "much"), *pictures_of(files)]
            options += ["--objects", files.folder / "instances.json", "--metrics", "lic,leakage,ba,ba-objects,dba"]
            options += ["--breakdown", "--resamples", 100, "--folds", 3, "--refits", 2, "--chance", 1, "--seeds", 1]
            options += ["--workers", 1, "--overwrite", "--out", folder / "run"]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Figure, "savefig", _DRAW)
                (folder / "printed.txt").write_text(done_well("evaluate", *options).stdout, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT as transformers saves one; to be copied before it is changed."""
    from tiny_bert import save_bert

    return save_bert(tmp_path_factory.mktemp("readers") / "bert")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without the hub, whose client tries five times; its cache, which is empty, is returned."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Family of captioners -> the folder of its checkpoint, written when it is first asked for. Read only.

    Its captions depend on the image. It asks for sampling, which captioning must not follow.
    """
    from helpers import save_captioner

    root = tmp_path_factory.mktemp("captioners")

    @cache
    def make(family: str) -> Path:
        folder = save_captioner(root / family, family, seed=len(family))
        settings = folder / "generation_config.json"
        drawn = {"do_sample": True, "temperature": 0.7}
        settings.write_text(json.dumps(json.loads(settings.read_text()) | drawn))
        return folder

    return make
