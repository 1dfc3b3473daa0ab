"""The scripts under ``accelerate launch``: one process, two processes, the same numbers to the last digit."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import psutil
import pytest
import yaml
from accelerate.commands import launch as accelerate_launch
from helpers import done_well, judge, pictures_of, refusal, save_captioner
from launching import ROOT, launch, launcher, write_run_file

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import FAITHFUL
from judge.commands.caption import caption
from judge.config import CaptionConfig, make_config
from judge.masking.images import encode


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run_file(tmp_path_factory.mktemp("scripts"))


@pytest.mark.usefixtures("one_thread")
def test_two_processes_equal_one_to_the_last_digit(run_file: Path, tmp_path: Path) -> None:
    """A run; calibration; a run that captions; an ablation that does so. One launch, one after the other."""
    # Refits of the run's judges are shared out like the judges themselves.
    given = [run_file, "--metrics", "lic,dbac-ta,ba-objects,ratio", "--refits", 2, "--chance", 1, "--seeds", 1]
    given += ["--breakdown"]
    files = write_world(make_world(120, seed=5), {}, tmp_path / "world")
    calibrate = ["calibrate", "--human", files.human, "--labels", files.labels]
    calibrate += ["--metrics", "lic,error,imagecaptioner2", "--changes", "T->A", "--doses", "0.5"]
    calibrate += ["--draws", 2, "--nulls", 2, "--sample", 60, "--folds", 2]
    calibrate += ["--scenes", 20, "--scene-draws", 2, "--scene-nulls", 2, "--epochs", 1]
    calibrate += ["--backbone", "test_resnet", "--backbone-weights", "random", "--image-size", 64]
    drawn = write_world(make_world(40, seed=5), {"plain": FAITHFUL}, tmp_path / "drawn", pictures=64)
    save_captioner(tmp_path / "git", "git", seed=3)
    folded = ["--folds", 2, "--resamples", 100, "--refits", 0, "--chance", 0]
    told = ["--human", drawn.human, "--labels", drawn.labels, "--metrics", "lic", "--model", tmp_path / "git", *folded]
    captioned = ["evaluate", *told, "--images", drawn.folder / "images", "--caption-batch", 4]
    ablate = ["ablate", "masks", *told, *pictures_of(drawn), "--masks", "none,box", "--hides", "person"]
    one, two = tmp_path / "one", tmp_path / "two"
    both: list[object] = []
    for number, command in enumerate((["evaluate", *given], calibrate, captioned, ablate)):
        done_well(*command, "--workers", 1, "--out", one / str(number))
        both += [*(["then"] if both else []), *command, "--out", two / str(number)]
    done = launch("--num_processes", 2, ROOT / "tests" / "in_turn.py", *both)
    assert done.returncode == 0, done.stderr
    assert "intervals by rank 0" in done.stdout
    assert "intervals by rank 1" not in done.stdout
    assert done.stdout.count("Everything is in") == 1  # Only the main process speaks.
    assert done.stdout.count("The results are in") == 3
    breakdown = [path.relative_to(one) for path in (*one.glob("0/breakdown/*"), one / "0" / "collect.csv")]
    assert len(breakdown) > 1
    run = [f"0/{name}" for name in ("scores.parquet", "counts.parquet", "replicates.parquet", "metrics.json")]
    others = "1/calibration.json", "1/trials.parquet", "2/metrics.json", "2/captions/git.json"
    for name in (*run, *breakdown, *others):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert yaml.safe_load((two / "0" / "run.yaml").read_text())["seeds"] == 1
    ablated, again = (json.loads((out / "3" / "masks.json").read_text())["results"] for out in (one, two))
    assert ablated == again
    assert len(ablated) == 2


def kill_when(command: list[str], files: list[Path], lines: int) -> None:
    """Start a launch; SIGKILL all its processes once each of ``files`` has so many lines."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        end = time.monotonic() + 120
        while not all(file.exists() and file.read_bytes().count(b"\n") >= lines for file in files):
            assert started.poll() is None
            assert time.monotonic() < end
            time.sleep(0.005)
        processes = [psutil.Process(started.pid), *psutil.Process(started.pid).children(recursive=True)]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=30)  # Until then their locks hold.


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
    assert "2 of 80 pictures" in whole.stderr
    expected = (tmp_path / "whole.json").read_bytes()

    script = "--num_processes", 2, ROOT / "scripts" / "caption.py", *given
    notes = [tmp_path / ".out.json.partial", tmp_path / ".out.json.partial.1"]
    kill_when(launcher(*script, "--out", out), notes, lines=4)
    assert not out.exists()
    finished = sum(file.read_bytes().count(b"\n") - 1 for file in notes)
    for file in notes:
        shutil.copy(file, file.with_name(file.name.replace("out", "again")))
    steps: list[int] = []
    caption(make_config(told | {"out": out}, CaptionConfig), progress=lambda what, done, total: steps.append(done))
    assert out.read_bytes() == expected
    # The neighbour of a picture at fault is captioned anew, with its batch.
    assert finished <= steps[0] < 80
    done = launch(*script, "--out", again)
    assert done.returncode == 1
    assert again.read_bytes() == expected
    assert [line for line in done.stderr.splitlines() if line.startswith("judge: ")] == whole.stderr.splitlines()
    assert done.stdout.count("78 pictures captioned") == 1
    assert not list(tmp_path.glob(".*.partial*"))


def test_one_judge_on_two_processes_equals_one(tmp_path: Path) -> None:
    """Data-parallel and sharded, without dropout's share in it: gradients of two halves are the whole batch's."""
    done = launch("--num_processes", 2, ROOT / "tests" / "data_parallel.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "equal" in done.stdout


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
    script = ROOT / "tests" / "fault_in_main.py"
    done = launch("--num_processes", 2, script, "fault", *given, "--out", out, timeout=90)
    assert done.stdout.count("intervals by rank") == 1, done.stderr
    assert not (out / "metrics.json").exists()
    lines = [line for line in done.stderr.splitlines() if line.startswith("judge: ")]
    go_on = f"Go on from what is finished with: judge evaluate --out {out}"
    assert lines == [f"judge: rank 0: no interval. {go_on}."]
    assert re.search(r"exitcode\s*: 2 ", done.stderr)


def test_a_launch_that_starts_one_process_for_two_is_refused(
    run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Accelerate's launcher would start is started in this process: the one command, with its environment."""
    config = yaml.safe_load((ROOT / "accelerate_config.yaml").read_text(encoding="utf-8"))
    config |= {"distributed_type": "MULTI_CPU", "use_cpu": True, "num_processes": 2}
    path = tmp_path / "multi_cpu.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    started = Mock(return_value=Mock(returncode=0))
    monkeypatch.setattr(accelerate_launch.subprocess, "Popen", started)
    asked = launcher(ROOT / "scripts" / "evaluate.py", run_file, "--out", tmp_path / "out", config=path)
    accelerate_launch.launch_command(accelerate_launch.launch_command_parser().parse_args(asked[3:]))
    (command,), environment = started.call_args.args, started.call_args.kwargs["env"]
    assert [Path(part).name for part in command[-4:]] == ["evaluate.py", run_file.name, "--out", "out"]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    line = refusal("evaluate", *command[-3:])
    assert "several processes were asked for, and this one is alone" in line
    assert not list(tmp_path.glob("out*"))
