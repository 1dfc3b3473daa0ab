"""Damaged files, faults of the file system, kills of commands and of a worker."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals

import pytest
from containers import tar_bytes
from helpers import done_well, few, inputs_of
from launching import is_worker, judge_lines, killed, members
from mutations import as_json, mutated_bytes, mutated_values, outcome

from attack import fuzz
from attack.kills import check_kills
from attack.targets import human, reader_targets
from attack.writers import Writers, chosen, tree
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner

pytestmark = pytest.mark.usefixtures("one_thread")
SINGLE = {"anonymous": 6, "evaluate": 2, "mask": 6, "train": 4}
"""Command -> single faults."""


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Writers:
    return Writers(tmp_path_factory.mktemp("faults") / "root")


@pytest.mark.parametrize(("name", "number", "whom", "shares"), [
    ("mask", SIGKILL, "group", [0.8, 0.9]), ("evaluate", SIGTERM, "group", [0.8]),
    ("evaluate", SIGINT, "parent", [0.9]), ("evaluate", SIGKILL, "parent", [0.7, 0.9]),
])  # fmt: skip
def test_a_killed_command_makes_the_same_when_it_is_given_again(
    writers: Writers, name: str, number: Signals, whom: str, shares: list[float]
) -> None:
    check_kills(writers, name, number, whom, shares)


@pytest.mark.parametrize("name", SINGLE)
def test_a_fault_of_the_disk_costs_one_line_and_the_same_command_goes_on(writers: Writers, name: str) -> None:
    """Single faults at places of the package by chance; disks that are full, read-only or gone from then on."""
    whole, faults = writers.undisturbed(name)
    count = SINGLE[name]
    numbers = random.Random(0).sample(chosen(faults, seed=0), count + 3)
    plan = [(at, "once") for at in numbers[:count]]
    plan += zip(numbers[count:], ("full", "read-only", "gone"), strict=True)
    trials = [writers.attempt(name, at, disk, whole) for at, disk in plan]  # type: ignore[arg-type]
    assert sum(code == 2 for _, code in trials) >= 3
    assert sum(met is not None for met, _ in trials) > count


def test_a_worker_without_memory_costs_one_line_and_nothing_finished(tmp_path: Path) -> None:
    """The system kills it. The same command then makes the same bytes as an undisturbed one."""
    captioners, out = {"much": Captioner(stereotype=0.9)}, tmp_path / "run" / "out"
    files = few(write_world(make_world(100, seed=5), captioners, tmp_path / "world"))
    quick = ["--metrics", "lic", "--judge", "linear", "--resamples", 100, "--workers", 2]
    command = ["evaluate", *inputs_of(files, "much"), *quick, "--folds", 5, "--refits", 30, "--chance", 5, "--out", out]
    done_well(*command)
    undisturbed = tree(out)
    shutil.rmtree(out)
    words = [sys.executable, "-m", "judge", *command]
    code, printed = killed(words, which=is_worker, ready=lambda: len(members(out)) >= 2)
    (line,) = judge_lines(printed)
    assert code == 2
    assert "memory" in line
    assert line.endswith(f"the same command (judge evaluate ... --out {out}) goes on from what is finished.")
    assert "Traceback" not in printed
    assert len(members(out)) >= 2
    done_well(*command)
    assert tree(out) == undisturbed
    assert [path.name for path in out.parent.iterdir()] == ["out"]


MANY = 1000
TARGETS = reader_targets()
# Few damages of these leave a valid file.
FEW = {"glove", "gzip", "scores", "results"}


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_file_is_read_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    found = fuzz.attack(TARGETS[name], tmp_path, count=MANY, seed=0)
    assert MANY <= found.total() < 1.1 * MANY
    assert found["refused"] > MANY / 10
    assert found["read"] > MANY / (200 if name in FEW else 50)


@pytest.mark.parametrize("name", ["json", "txt"])
def test_damaged_members_of_archives(name: str, tmp_path: Path) -> None:
    """A thousand whole archives with a fault in one of its texts."""
    values = map(as_json, mutated_values({"caption": "a man", "key": "1"}, MANY))
    found, path = Counter[str](), tmp_path / "file"
    for content in values if name == "json" else mutated_bytes(b"a man", MANY):
        path.write_bytes(tar_bytes([("1.jpg", b""), (f"1.{name}", content)]))
        found[outcome(lambda: human(path), repr(content))] += 1
    assert min(found["read"], found["refused"]) > MANY / 50
