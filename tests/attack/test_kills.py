"""Kills in small: three commands at seeded moments and steps; and what the attack finds of one that is at fault."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from attack import kills
from attack.kills import Attack, Case

RUN = Path(__file__).with_name("run_kills.py")
FAULTY = """
import subprocess, time
open("out", "w").write(str(time.time()))
subprocess.Popen(["sleep", "60"])
time.sleep(3)
"""


@pytest.mark.parametrize(
    ("options", "least"), [("--moments 1 mask", 4), ("--moments 0 --steps 1 mask linear report", 7)]
)
def test_killed_and_given_again_is_undisturbed(options: str, least: int) -> None:
    """In a process of its own, which forks."""
    command = [sys.executable, RUN, "--seed", "3", *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, total = done.stdout.splitlines()
    count, found = total.split(" kills, ")
    assert int(count) >= least
    assert found == "0 with findings; seed 3"


@dataclass(frozen=True)
class Faulty(Case):
    def command(self) -> list[str]:
        return [sys.executable, "-c", FAULTY]


def test_faults_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback, another exit code, a process that goes on, and another result."""
    monkeypatch.setitem(kills.CASES, "faulty", Faulty(""))
    monkeypatch.setattr(kills, "SOON", 0.2)
    (tmp_path / "inputs").mkdir()
    attack = Attack("faulty", tmp_path)
    assert attack.kill("SIGINT", "parent", [0.7]) == 1
    told = [one.what.splitlines()[0] for one in attack.findings]
    assert [line.split(":")[0] for line in told] == [
        "a process outlived it by 0.2 s",
        "it ended with -2",
        "Traceback (most recent call last)",
        "given again it made others",
    ]
    assert told[-1] == "given again it made others: out is different"
