"""Processes that tests start: ``accelerate launch`` of this repository's scripts, and commands that are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml
from helpers import few

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner

ROOT = Path(__file__).parents[1]
Which = Callable[[psutil.Process], bool]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def launch(
    *arguments: object, config: Path = ROOT / "accelerate_config.yaml", timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    command = launcher(*arguments, config=config)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def launcher(*arguments: object, config: Path = ROOT / "accelerate_config.yaml") -> list[str]:
    # Tests run side by side: each launch meets at a port of its own.
    launching = ["-m", "accelerate.commands.launch", "--config_file", config, "--main_process_port", free_port()]
    return [str(part) for part in [sys.executable, *launching, *arguments]]


def start(*command: object, **how: Any) -> subprocess.Popen[str]:
    """Start a command that obeys SIGINT and SIGHUP; tests in the background of a shell, or below nohup, ignore them."""
    ours = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in ours.items()}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*map(str, command)], text=True, **pipes | how)
    for number, handler in before.items():
        signal.signal(number, handler)
    return process


def killed(
    command: Sequence[object],
    *,
    which: Which,
    ready: Callable[[], bool],
    kill: Callable[[psutil.Process], Any] = psutil.Process.kill,
) -> tuple[int, str]:
    """Start a command, kill the first of its descendants that is ``which`` once it is ``ready``; wait for all to end.

    Returns:
        Its exit code, and what it printed on standard error.
    """
    process = start(*command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        victim, deadline = None, time.monotonic() + 120
        while victim is None:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
            children = psutil.Process(process.pid).children(recursive=True) if ready() else []
            with suppress(psutil.Error):
                victim = next(filter(which, children), None)
        kill(victim)
        _, printed = process.communicate(timeout=60)
        assert psutil.wait_procs(children, timeout=10)[1] == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, printed


def judge_lines(printed: str) -> list[str]:
    """The lines that the package itself printed."""
    return [line for line in printed.splitlines() if line.startswith("judge: ")]


def members(out: Path) -> list[Path]:
    """Answers of finished members, of an unfinished run."""
    store = out.with_name(f"{out.name}.partial") / "members"
    return [path for path in store.glob("*.safetensors") if "." not in path.stem]


def is_worker(process: psutil.Process) -> bool:
    """Whether a process is one of joblib's that is at work: its interpreter has long started."""
    return "loky.backend.popen_loky_posix" in " ".join(process.cmdline()) and process.memory_info().rss > 2**27


def parent_of(process: psutil.Process) -> psutil.Process:
    """The process that started another."""
    found = process.parent()
    assert found
    return found


def has_rank(number: int) -> Which:
    """Which process of a launch."""
    return lambda process: process.environ().get("RANK") == str(number)


def write_run_file(folder: Path) -> Path:
    """``run.yaml`` of a small run of networks and a linear judge, and what it reads."""
    files = few(write_world(make_world(120, seed=5), {"much": Captioner(stereotype=0.9)}, folder / "world"))
    settings = {
        "human": str(files.human), "captions": [*map(str, files.captions.values())], "labels": str(files.labels),
        "judge": ["lstm", "linear"], "protocol": "paper", "seeds": 2, "epochs": 2, "learning_rate": 0.002,
        "resamples": 100, "out": str(folder / "one"),
    }  # fmt: skip
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path
