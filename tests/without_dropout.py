"""Run by test_train.py under ``accelerate launch``: ``scripts/train.py``, "then" ``judge evaluate`` without dropout.

Both in the same processes, which import once what they need. Each process draws dropout masks for its share, so that
one judge on two processes trains under other masks than on one. Without them gradients alone decide.
"""

from __future__ import annotations

import runpy
import sys
from functools import partialmethod
from pathlib import Path

from judge.commands.app import app
from judge.judges.sat import ShowAttendTell
from judge.training import launch

SCRIPT = Path(__file__).parents[1] / "scripts" / "train.py"


def main() -> None:
    """A command that fails ends the process, as it would alone."""
    between = sys.argv.index("then")
    leave, launch.end_launch = launch.end_launch, lambda: None
    after, sys.argv[:] = sys.argv[between + 1 :], [str(SCRIPT), *sys.argv[1:between]]
    try:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    launch.end_launch = leave
    ShowAttendTell.__init__ = partialmethod(ShowAttendTell.__init__, dropout=0.0)
    app(["evaluate", *after])


if __name__ == "__main__":
    main()
