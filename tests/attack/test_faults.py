"""Faults below us, in small: of the file system, of memory in a worker, of a rank in the midst of a sum; and the soak.

The long form is ``run.py``.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from helpers import done_well, few

from attack.deaths import WORKERS, Harm, evaluate, harmed, is_worker, kill, members
from attack.soak import COUNTS, MEMORY, growing
from attack.writers import Tree, Writers, chosen, tree
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner

pytestmark = pytest.mark.usefixtures("one_thread")
SINGLE = {"anonymous": 6, "evaluate": 2, "mask": 6, "train": 4}
"""Command -> single faults."""


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Writers:
    return Writers(tmp_path_factory.mktemp("faults") / "root")


@pytest.mark.parametrize("name", SINGLE)
def test_a_fault_of_the_disk_costs_one_line_and_the_same_command_goes_on(writers: Writers, name: str) -> None:
    """Single faults at places of the package by chance; disks that are full, read-only or gone from then on."""
    whole, faults = writers.undisturbed(name)
    count = SINGLE[name]
    numbers = random.Random(0).sample(chosen(faults, seed=0), count + 3)
    plan = [(at, "once") for at in numbers[:count]]
    plan += zip(numbers[count:], ("full", "read-only", "gone"), strict=True)
    trials = [writers.attempt(name, at, disk, whole) for at, disk in plan]  # type: ignore[arg-type]
    assert [trial for trial in trials if trial.found] == []
    assert sum(trial.code == 2 for trial in trials) >= 3
    assert sum(trial.met is not None for trial in trials) > count


@pytest.fixture(scope="module")
def run_options(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    captioners = {"much": Captioner(stereotype=0.9)}
    files = few(write_world(make_world(100, seed=5), captioners, tmp_path_factory.mktemp("deaths") / "world"))
    return ["--human", files.human, "--captions", files.captions["much"], "--labels", files.labels, *WORKERS]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run") / "out"


@pytest.fixture(scope="module")
def undisturbed(run_options: list[object], out: Path) -> Tree:
    done_well("evaluate", *run_options, "--out", out)
    found = tree(out)
    shutil.rmtree(out)
    return found


@pytest.mark.parametrize("harm", [kill])
def test_a_worker_without_memory_costs_one_line_and_nothing_finished(
    run_options: list[object], undisturbed: Tree, out: Path, harm: Harm
) -> None:
    """It is ended, as by the system. The same command then gives the same bytes."""
    ended = harmed(evaluate(out, *run_options), out, harm=harm, which=is_worker, ready=lambda: len(members(out)) >= 2)
    assert (ended.code, len(ended.lines)) == (2, 1), ended.whole
    assert "memory" in ended.lines[0]
    assert ended.lines[0].endswith(f"the same command (judge evaluate ... --out {out}) goes on from what is finished.")
    assert "Traceback" not in ended.whole
    assert len(ended.kept) >= 2
    done_well("evaluate", *run_options, "--out", out)
    assert tree(out) == undisturbed
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    shutil.rmtree(out)


def test_the_soak_finds_what_grows() -> None:
    """One megabyte a loop of 500 in noise of five; a file a loop. Noise alone is neither."""
    rng = random.Random(0)
    flat = [{MEMORY: 500 + rng.uniform(-5, 5), **dict.fromkeys(COUNTS, 9.0)} for _ in range(30)]
    assert growing(flat) == []
    grown = [one | {MEMORY: one[MEMORY] + n, COUNTS[0]: 9.0 + n} for n, one in enumerate(flat)]
    assert [line.partition(":")[0] for line in growing(grown)] == ["memory", COUNTS[0]]
