"""The scripts under ``accelerate launch``: one process, two processes, the same numbers to the last digit."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from accelerate.commands import launch as accelerate_launch
from helpers import done_well, pictures_of, read_json, refusal, save_captioner
from launching import ROOT, launch, launcher, write_run_file

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import FAITHFUL


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run_file(tmp_path_factory.mktemp("scripts"))


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_two_processes_equal_one_to_the_last_digit(run_file: Path, tmp_path: Path) -> None:
    """A run; calibration; a run that captions; an ablation that does so. One launch, one after the other."""
    # Refits of the run's judges are shared out like the judges themselves.
    given = [run_file, "--metrics", "lic,dbac-ta,ba-objects,ratio", "--refits", 2, "--chance", 1, "--seeds", 1]
    given += ["--breakdown", "--epochs", 1]
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
    breakdown = [path.relative_to(one) for path in one.glob("0/breakdown/*")]
    assert len(breakdown) > 1
    run = [f"0/{name}" for name in ("scores.parquet", "counts.parquet", "replicates.parquet", "metrics.json")]
    others = "1/calibration.json", "1/trials.parquet", "2/metrics.json", "2/captions/git.json"
    for name in (*run, *breakdown, *others):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert yaml.safe_load((two / "0" / "run.yaml").read_text())["seeds"] == 1
    ablated, again = (read_json(out / "3" / "masks.json")["results"] for out in (one, two))
    assert ablated == again
    assert len(ablated) == 2


@pytest.mark.slow
def test_one_judge_on_two_processes_equals_one(tmp_path: Path) -> None:
    """Data-parallel and sharded, without dropout's share in it: gradients of two halves are the whole batch's."""
    done = launch("--num_processes", 2, ROOT / "tests" / "data_parallel.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "equal" in done.stdout


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
    assert "several processes were requested, and this one is alone" in line
    assert not list(tmp_path.glob("out*"))
