"""Pipes and devices are refused at once, wherever a file is read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import fault_of, judge

from judge.commands.evaluate import RunConfig
from judge.config import make_config, read_settings
from judge.corpus.shards import find_shards, read_shards
from judge.errors import JudgeError
from judge.masking.detectors.weights import read_weights
from judge.report.saved_run import read_run
from judge.utils.listed import read_list
from judge.utils.locks import Lock
from judge.utils.opening import NotRegularError, open_regular, read_bytes

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "settings": ("x.yaml", read_settings),
    "weights": ("x.safetensors", read_weights),
    "run": ("metrics.json", lambda path: read_run(path.parent)),
    "lock": (".out.judge-lock", lambda path: Lock(path, "--out out").acquire()),
    "shard": ("0.tar", lambda path: read_shards(path.parent, find_shards(path.parent))),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_at_once(name: str, tmp_path: Path) -> None:
    file, read = READERS[name]
    os.mkfifo(tmp_path / file)
    begun = time.monotonic()
    assert "regular file" in (line := fault_of(read, tmp_path / file)) or "no lock of this program" in line
    assert time.monotonic() - begun < 5


def test_a_list_that_is_a_pipe_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".caption-judge")
    assert read_list(tmp_path) is None


def test_devices_folders_and_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotRegularError):
        open_regular(Path("/dev/zero"))
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    (tmp_path / "x").write_bytes(b"12345")
    assert read_bytes(tmp_path / "x") == b"12345"
    with pytest.raises(JudgeError, match="JUDGE_READ_MEMORY"):
        read_bytes(tmp_path / "x", 4)


@pytest.mark.parametrize("given", [{"out": Path("o\udcff")}, {"captions": "m\udcff.json"}, {"out": "o\udcff"}])
def test_names_that_are_not_utf_8_are_refused_first(given: dict[str, object]) -> None:
    line = fault_of(make_config, {"human": "a.json", **given}, RunConfig)
    assert "is not UTF-8. Rename it" in line


@pytest.mark.parametrize(
    "command", ["report o", "compare a b --out o", "data show o", "data check artemis-v1 o", "demo --out o"]
)
def test_commands_without_settings_refuse_such_names_too(command: str) -> None:
    done = judge(*(word + "\udcff" * (word == "o") for word in command.split()))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("' is not UTF-8. Rename it, or name a place without such bytes.\n")


@pytest.mark.parametrize("name", ["seeds", "refits", "resamples", "folds", "workers", "batch_size", "epochs"])
def test_counts_have_an_end(name: str) -> None:
    assert "less than or equal to" in fault_of(make_config, {"human": "a.json", name: 16**100}, RunConfig)
