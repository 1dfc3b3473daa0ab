"""Processes that tests start: ``accelerate launch`` of this repository's scripts, and commands that are killed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from helpers import few

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner

ROOT = Path(__file__).parents[1]


def launch(
    *arguments: object, config: Path = ROOT / "accelerate_config.yaml", timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    command = launcher(*arguments, config=config)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def launcher(*arguments: object, config: Path = ROOT / "accelerate_config.yaml") -> list[str]:
    # Tests run side by side: each launch meets at a port of its own.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launching = ["-m", "accelerate.commands.launch", "--config_file", config, "--main_process_port", port]
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
