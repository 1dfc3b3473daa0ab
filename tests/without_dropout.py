"""Run by a test under ``accelerate launch``: ``judge evaluate`` without dropout.

Each process draws dropout masks for its share, so that one judge on two processes trains under other masks than on one.
Without them gradients alone decide.
"""

from __future__ import annotations

import sys
from functools import partialmethod

from judge.cli import app
from judge.judges.sat import ShowAttendTell

ShowAttendTell.__init__ = partialmethod(ShowAttendTell.__init__, dropout=0.0)

if __name__ == "__main__":
    app(["evaluate", *sys.argv[1:]])
