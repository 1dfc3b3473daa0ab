"""Run by test_scripts.py under ``accelerate launch``: ``judge evaluate``, and who makes intervals says so, or fails.

With "fault" as the first argument the main process meets one after the judges are trained; another would say so.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from judge import measure
from judge.commands.app import app
from judge.errors import JudgeError

made = measure.summarise


def summarise(*arguments: Any) -> Any:
    sys.stdout.write(f"intervals by rank {os.environ['RANK']}\n")
    if sys.argv[1] == "fault":
        raise JudgeError("no interval", where=f"rank {os.environ['RANK']}")
    return made(*arguments)


measure.summarise = summarise

if __name__ == "__main__":
    app(["evaluate", *sys.argv[2:]])
