"""The scripts under ``accelerate launch``: one process, two processes, the same numbers to the last digit."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from helpers import few

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner

ROOT = Path(__file__).parents[1]


def launch(
    *arguments: object, config: Path = ROOT / "accelerate_config.yaml", timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    # Tests run side by side: each launch meets at a port of its own.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launcher = ["-m", "accelerate.commands.launch", "--config_file", config, "--main_process_port", port]
    command = [sys.executable, *launcher, *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    captioners = {"none": Captioner(), "much": Captioner(stereotype=0.9)}
    files = few(write_world(make_world(120, seed=5), captioners, folder / "world"))
    settings = {
        "human": str(files.human), "captions": [*map(str, files.captions.values())], "labels": str(files.labels),
        "judge": ["lstm", "linear"], "protocol": "paper", "seeds": 2, "epochs": 2, "learning_rate": 0.002,
        "resamples": 100, "out": str(folder / "one"),
    }  # fmt: skip
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def test_two_processes_equal_one_to_the_last_digit(run_file: Path) -> None:
    one, two = run_file.parent / "one", run_file.parent / "two"
    # Refits of the run's judges are shared out like the judges themselves.
    metrics = "--metrics", "lic,dbac-ta,ba-objects,ratio", "--refits", 2, "--chance", 2, "--seeds", 1, "--breakdown"
    for processes, out in ((1, one), (2, two)):
        script = ROOT / "scripts" / "evaluate.py"
        done = launch("--num_processes", processes, script, run_file, *metrics, "--out", out)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("The results are in") == 1  # only the main process speaks
    breakdown = [path.relative_to(one) for path in (*one.glob("breakdown/*"), one / "collect.csv")]
    assert len(breakdown) > 1
    for name in ("scores.parquet", "counts.parquet", "replicates.parquet", "metrics.json", *breakdown):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert yaml.safe_load((two / "run.yaml").read_text())["seeds"] == 1


def test_a_calibration_on_two_processes_equals_one(tmp_path: Path) -> None:
    files = write_world(make_world(120, seed=5), {}, tmp_path / "world")
    given = ["--human", files.human, "--labels", files.labels, "--metrics", "lic,error,imagecaptioner2"]
    given += ["--changes", "T->A", "--doses", "0.5", "--draws", 2, "--nulls", 2, "--sample", 60, "--folds", 2]
    given += ["--scenes", 20, "--scene-draws", 2, "--scene-nulls", 2, "--epochs", 1]
    outs = [tmp_path / f"calibration{processes}" for processes in (1, 2)]
    for processes, out in enumerate(outs, 1):
        done = launch("--num_processes", processes, ROOT / "scripts" / "calibrate.py", *given, "--out", out)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Everything is in") == 1
    for name in ("calibration.json", "trials.parquet"):
        assert (outs[0] / name).read_bytes() == (outs[1] / name).read_bytes(), name


def test_one_judge_on_two_processes_equals_one(tmp_path: Path) -> None:
    """Data-parallel and sharded, without dropout's share in it: gradients of two halves are the whole batch's."""
    done = launch("--num_processes", 2, ROOT / "tests" / "data_parallel.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "equal" in done.stdout


@pytest.mark.parametrize(("rank", "told"), [("0", 0), ("1", 1), ("all", 0)])
def test_a_fault_of_one_process_ends_all_that_train_with_it(run_file: Path, rank: str, told: int) -> None:
    """In the midst of a sum; said once, by the main process where it has met it too. No process waits for ever."""
    script, out = ROOT / "tests" / "fault_in_one.py", run_file.parent / f"fault-{rank}"
    launched = ["--num_processes", 2, script, rank, run_file, "--judge", "lstm", "--sharing", "data", "--out", out]
    done = launch(*launched, timeout=90)
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("judge: ")]
    assert lines == [f"judge: rank {told}: no room."]
    # Of its own the launcher has one to tell, of ours there is none.
    assert "judge/training" not in done.stderr
    assert not out.exists()


def test_intervals_are_made_once_and_their_faults_end_all_processes(run_file: Path) -> None:
    """By the main process alone, while the others wait for it; where it cannot, all end, with one line and code 2."""
    script, given = ROOT / "tests" / "fault_in_main.py", [run_file, "--judge", "linear", "--seeds", 1]
    for kind, out in (("well", run_file.parent / "well"), ("fault", run_file.parent / "fault-main")):
        done = launch("--num_processes", 2, script, kind, *given, "--out", out, timeout=90)
        assert done.stdout.count("intervals by rank") == 1, done.stderr
        assert "intervals by rank 0" in done.stdout
        assert (done.returncode == 0) == (kind == "well"), done.stderr
        assert (out / "metrics.json").exists() == (kind == "well")
    lines = [line for line in done.stderr.splitlines() if line.startswith("judge: ")]
    assert lines == ["judge: rank 0: no interval."]
    assert re.search(r"exitcode\s*: 2 ", done.stderr)


def test_a_launch_that_starts_one_process_for_two_is_refused(run_file: Path, tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "accelerate_config.yaml").read_text(encoding="utf-8"))
    config |= {"distributed_type": "MULTI_CPU", "use_cpu": True, "num_processes": 2}
    path = tmp_path / "multi_cpu.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = launch(ROOT / "scripts" / "evaluate.py", run_file, "--out", tmp_path / "out", config=path)
    assert done.returncode != 0
    assert "several processes were asked for, and this one is alone" in done.stderr
    assert not list(tmp_path.glob("out*"))
