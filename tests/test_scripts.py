"""The scripts: the same numbers to the last digit on one process and two; ``bench_judge.py`` counts work rightly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import yaml
from accelerate.commands import launch as accelerate_launch
from helpers import done_well, pictures_of, read_json, refusal, save_captioner
from launching import ROOT, launch, launcher, write_run_file

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import FAITHFUL
from judge.utils.tensors import read_tensors


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run_file(tmp_path_factory.mktemp("scripts"))


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_two_processes_equal_one_to_the_last_digit(run_file: Path, tmp_path: Path) -> None:
    """A run; calibration; a run that captions; an ablation that does so; training. One launch, one after the other."""
    # Refits of the run's judges are shared out like the judges themselves.
    given = [run_file, "--metrics", "lic,dbac-ta,ba-objects,ratio", "--refits", 2, "--chance", 1, "--seeds", 1]
    given += ["--breakdown", "--training", "epochs=1"]
    files = write_world(make_world(120, seed=5), {}, tmp_path / "world")
    calibrate = ["calibrate", "--human", files.human, "--labels", files.labels]
    calibrate += ["--metrics", "lic,error", "--changes", "T->A", "--doses", "0.5"]
    calibrate += ["--draws", 2, "--nulls", 2, "--sample", 60, "--folds", 2, "--judge", "linear"]
    drawn = write_world(make_world(40, seed=5), {"plain": FAITHFUL}, tmp_path / "drawn", pictures=64)
    save_captioner(tmp_path / "git", "git", seed=3)
    folded = ["--folds", 2, "--resamples", 100, "--refits", 0, "--chance", 0]
    told = ["--human", drawn.human, "--labels", drawn.labels, "--model", tmp_path / "git", *folded]
    told += [*pictures_of(drawn)]
    captioned = ["evaluate", *told, "--metrics", "lic,imagecaptioner2", "--judge", "self", "--tuning", "reading"]
    ablate = ["ablate", "masks", *told, "--metrics", "lic", "--masks", "none,box", "--hides", "person"]
    one, two = tmp_path / "one", tmp_path / "two"
    both: list[object] = []
    for number, command in enumerate((["evaluate", *given], calibrate, captioned, ablate)):
        kept = [["--cache", folder / "cache"] if command is captioned else [] for folder in (one, two)]
        done_well(*command, *kept[0], "--workers", 1, "--out", one / str(number))
        both += [*(["then"] if both else []), *command, *kept[1], "--out", two / str(number)]
    train = ["train", run_file, "--metrics", "lic", "--seeds", 1, "--training", "epochs=1", "--checkpoints"]
    done_well(*train, one / "kept")
    done = launch("--num_processes", 2, ROOT / "tests" / "in_turn.py", *both, "then", *train, two / "kept")
    assert done.returncode == 0, done.stderr
    assert "intervals by rank 0" in done.stdout
    assert "intervals by rank 1" not in done.stdout
    assert done.stdout.count("Everything is in") == 1  # Only the main process speaks.
    assert done.stdout.count("The results are in") == 3
    breakdown = [path.relative_to(one) for path in one.glob("0/breakdown/*")]
    assert len(breakdown) > 1
    run = [f"0/{name}" for name in ("scores.parquet", "counts.parquet", "replicates.parquet", "metrics.json")]
    others = "1/calibration.json", "1/trials.parquet", "2/metrics.json", "2/scores.parquet", "2/captions/git.json"
    for name in (*run, *breakdown, *others):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert yaml.safe_load((two / "0" / "run.yaml").read_text())["seeds"] == 1
    answers = [path.name for path in (one / "kept").glob("*.safetensors") if ".weights." not in path.name]
    assert answers
    for name in answers:
        alone, shared = (read_tensors(out / "kept" / name)[0] for out in (one, two))
        assert {key: of.tolist() for key, of in alone.items()} == {key: of.tolist() for key, of in shared.items()}
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


SMALL: dict[str, Any] = {"scenes": 40, "size": 64, "measured": 1, "backbone": "resnet18"}


@pytest.fixture(scope="module")
def bench(one_thread: None) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        module = import_module("bench_judge")
        patch.setattr(module, "EPOCHS", 2)
        yield module


@pytest.mark.slow
def test_both_ways_train_one_judge(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bench.main([bench.Part.CACHE, bench.Part.DECODER], **SMALL)
    out = capsys.readouterr().out
    assert "(extrapolated from 1)" in out
    ratios = re.findall(r"^ratio without / with the cache, .+: ([\d.]+)$", out, flags=re.MULTILINE)
    assert len(ratios) == 2
    assert all(float(value) > 0 for value in ratios)
    # Half precision rounds by a 2,048th at most; the two are not equal, so one does not read the cache.
    (apart,) = re.findall(r"^largest difference .+: (\S+)$", out, flags=re.MULTILINE)
    assert 0 < float(apart) < 2**-11
    table = [line.split(" | ") for line in out.splitlines() if line.startswith(("| sat", "| grit"))]
    assert [cells[1] for cells in table] == ["1"] * 3
    for cells in table:
        samples, work, rate, peak = (float(cell) for cell in cells[2:6])
        assert samples * work / 1e3 == pytest.approx(rate, rel=2e-3)
        assert rate / peak == pytest.approx(float(cells[6].strip(" |")), abs=1e-3)


@pytest.mark.slow
def test_the_gpus_benchmark_runs_in_small_and_resumes(bench: Any, tmp_path: Path) -> None:
    """On a CPU: every part has figures, and what is there is not measured again. One judge is trained twice alike."""
    gpu = import_module("bench_gpu")
    gpu.main(tmp_path, None, small=True)
    found = read_json(tmp_path / "gpu.json")
    assert list(found) == [*gpu.PARTS]
    table = (tmp_path / "gpu.md").read_text()
    assert all(f"| {part} | {what} | " in table for part, of in found.items() for what in of["figures"])
    assert set(found["agreement"]["figures"].values()) == {0}
    before = {part: (tmp_path / f"{part}.json").stat().st_mtime_ns for part in gpu.PARTS}
    (tmp_path / "peak.json").unlink()
    gpu.main(tmp_path, None, small=True)
    after = {part: (tmp_path / f"{part}.json").stat().st_mtime_ns for part in gpu.PARTS}
    assert [part for part in gpu.PARTS if before[part] != after[part]] == ["peak"]


@pytest.mark.slow
def test_work_is_that_of_the_layers(bench: Any, tmp_path: Path) -> None:
    """Linear layers counted by themselves; attention's own products and the patches are little more."""
    drawn = bench.draw(24, 64, tmp_path / "world")
    widths = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    blueprint = bench.save_blip(tmp_path / "blip", drawn, size=64, **widths)
    accelerator = bench.use(cpu=True, precision="bf16")
    judge, _ = bench.fine_tune(blueprint, drawn, accelerator, batch=8, epochs=2, steps=1)
    _, work = bench.step_alone(judge, drawn, accelerator, batch=8, steps=1)
    counted: list[int] = []

    def count(layer: torch.nn.Linear, _: object, output: torch.Tensor) -> None:
        counted.append(3 * 2 * layer.weight.numel() * output.numel() // layer.out_features)

    for layer in judge.network.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.register_forward_hook(count)
    judge.network(judge.network.collate(drawn.samples[: bench.COUNTED]))
    linear = sum(counted) / bench.COUNTED
    assert linear < work < 1.3 * linear
