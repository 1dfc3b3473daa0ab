"""Run by test_known_worlds.py: a command of ``judge`` that SIGKILLs itself at the end of an epoch.

Usage: killed.py EPOCH COMMAND ... Checkpoints are written after every epoch, not once a minute.
"""

from __future__ import annotations

import os
import signal
import sys

from judge.commands.app import app
from judge.training import loop


class Killed(loop.Trainer):
    def __init__(self, *args: object, **rest: object) -> None:
        super().__init__(*args, **{**rest, "seconds": 0.0, "on_epoch": kill})


def kill(done: int, history: object) -> None:
    if done == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    loop.Trainer = Killed
    app(sys.argv[2:])
