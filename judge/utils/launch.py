"""Launches of several processes: whether this is one, and whether this process is the main one."""

from __future__ import annotations

import os

_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def launched() -> bool:
    """Whether ``accelerate launch``, torchrun or mpirun started this process."""
    return "ACCELERATE_MIXED_PRECISION" in os.environ or any(name in os.environ for name in _RANKS)


def is_main_process() -> bool:
    """Whether this process writes the files and talks to the user."""
    return next((os.environ[name] for name in _RANKS if name in os.environ), "0") == "0"
