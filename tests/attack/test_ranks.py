"""Processes of ``accelerate launch`` that fail or die: the others end in one line, and the same launch goes on."""

from __future__ import annotations

import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from helpers import judge, save_captioner
from launching import ROOT, has_rank, judge_lines, killed, launch, launcher, parent_of, write_run_file

from judge.commands.caption import CaptionConfig, caption
from judge.config import make_config
from judge.masking.images import encode


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run_file(tmp_path_factory.mktemp("ranks"))


def test_a_fault_that_all_processes_meet_is_told_once(run_file: Path, tmp_path: Path) -> None:
    """Before they have met each other, and whichever ends first."""
    given = [run_file, "--human", "no.json", "--out", tmp_path / "out"]
    done = launch("--num_processes", 2, ROOT / "scripts" / "evaluate.py", *given)
    lines = [line for line in done.stderr.splitlines() if "judge: " in line]
    assert lines == ["judge: no.json: no such file. Check the path."]


def test_a_fault_where_one_makes_intervals_for_all_ends_all_processes(run_file: Path) -> None:
    """The others wait for the main process; all end, with one line and code 2."""
    given = [run_file, "--judge", "linear", "--seeds", 1, "--refits", 0, "--chance", 0]
    out = run_file.parent / "fault-main"
    script = ROOT / "tests" / "in_turn.py"
    done = launch("--num_processes", 2, script, "fault", "evaluate", *given, "--out", out, timeout=90)
    assert done.stdout.count("intervals by rank") == 1, done.stderr
    assert not (out / "metrics.json").exists()
    lines = judge_lines(done.stderr)
    go_on = f"The same command (judge evaluate ... --out {out}) goes on from what is finished"
    assert lines == [f"judge: rank 0: no interval. {go_on}."]
    assert re.search(r"exitcode\s*: 2 ", done.stderr)


@pytest.mark.parametrize(("rank", "told"), [("1", 1), ("all", 0)])
def test_a_fault_of_one_process_ends_all_that_train_with_it(run_file: Path, rank: str, told: int) -> None:
    """In the midst of a sum; said by the main process where it has met it too. No process waits for ever."""
    out = run_file.parent / f"fault-{rank}"
    words = [f"no-room-{rank}", "evaluate", run_file, "--judge", "lstm", "--training", "sharing=data", "--out", out]
    done = launch("--num_processes", 2, ROOT / "tests" / "in_turn.py", *words, timeout=90)
    assert done.returncode != 0
    assert f"judge: rank {told}: no room." in judge_lines(done.stderr)
    # Of its own the launcher has one to tell, of ours there is none.
    assert "judge/training" not in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("victim", ["0", "1", "launcher"])
def test_a_process_that_is_killed_ends_the_launch(run_file: Path, tmp_path: Path, victim: str) -> None:
    """In the midst of sums of gradients: at most a line of each that is left, and nobody is left behind."""
    given = [run_file, "--judge", "lstm", "--training", "sharing=data,epochs=500", "--out", tmp_path / "out"]
    command = launcher("--num_processes", 2, ROOT / "scripts" / "evaluate.py", *given)
    log, rank = tmp_path / "out.partial" / "log.jsonl", 0 if victim == "launcher" else int(victim)

    def training() -> bool:
        return log.is_file() and '"epoch"' in log.read_text()

    def kill(process: psutil.Process) -> None:
        (parent_of(process) if victim == "launcher" else process).kill()

    code, printed = killed(command, which=has_rank(rank), ready=training, kill=kill)
    assert code != 0
    lines = judge_lines(printed)
    assert all("another process" in line and "ive the same command again" in line for line in lines)
    assert "judge/training" not in printed


def test_processes_of_a_script_of_ones_own_end_with_their_launcher(tmp_path: Path) -> None:
    """It takes functions of the package, and no command of it."""
    script = tmp_path / "own.py"
    script.write_text(
        "import os, pathlib, sys, time\nfrom judge.training.launch import make_accelerator\nmake_accelerator()\n"
        "pathlib.Path(sys.argv[1], os.environ['RANK']).touch()\ntime.sleep(600)\n"
    )
    met = tmp_path / "met"
    met.mkdir()
    command = launcher("--num_processes", 2, script, met)
    ended = killed(
        command, which=has_rank(0), ready=lambda: len([*met.iterdir()]) == 2, kill=lambda one: parent_of(one).kill()
    )
    assert ended[0] == -signal.SIGKILL


def kill_launch(rank: psutil.Process) -> None:
    """Kill all processes of a launch, the launcher first: it would end the others in its own way."""
    launched = parent_of(rank)
    for process in (launched, *launched.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.usefixtures("one_thread")
def test_captions_of_a_killed_launch_go_on_with_any_number_of_processes(tmp_path: Path) -> None:
    """To the bytes of an uninterrupted run of one process; faults are told once, in the order of pictures."""
    images, out, again = tmp_path / "pictures", tmp_path / "out.json", tmp_path / "again.json"
    images.mkdir()
    save_captioner(tmp_path / "model", "vit_gpt2", seed=8)
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 255, (80, 24, 32, 3), dtype=np.uint8)):
        (images / f"{number:03d}.png").write_bytes(b"" if number in {3, 70} else encode(pixels))
    told = {"model": str(tmp_path / "model"), "images": str(images), "max_tokens": 6, "caption_batch": 2}
    given = [part for name, value in told.items() for part in ("--" + name.replace("_", "-"), value)]
    whole = judge("caption", *given, "--out", tmp_path / "whole.json")
    assert "2 of 80 images" in whole.stderr
    expected = (tmp_path / "whole.json").read_bytes()

    script = "--num_processes", 2, ROOT / "scripts" / "caption.py", *given
    store = tmp_path / ".out.json.partial"

    def stored() -> int:
        return sum(file.read_bytes().count(b"\n") for file in store.glob("*.jsonl"))

    def begun() -> bool:
        return stored() >= 12

    code, _ = killed(launcher(*script, "--out", out), which=has_rank(0), ready=begun, kill=kill_launch)
    assert code == -signal.SIGKILL
    assert not out.exists()
    finished = stored()
    shutil.copytree(store, tmp_path / ".again.json.partial")
    steps: list[int] = []
    caption(make_config(told | {"out": out}, CaptionConfig), progress=lambda what, done, total: steps.append(done))
    assert out.read_bytes() == expected
    assert finished <= steps[0] < 80
    done = launch(*script, "--out", again)
    assert done.returncode == 1
    assert again.read_bytes() == expected
    assert judge_lines(done.stderr) == judge_lines(whole.stderr)
    assert done.stdout.count("78 images captioned") == 1
    # Captions stay beside a picture at fault, for the run that has it mended.
    assert {path.name for path in tmp_path.glob(".*.partial*")} == {
        f".{n}.json.partial" for n in ("whole", "out", "again")
    }
