"""Run by test_scripts.py under ``accelerate launch``: several ``judge`` commands, one after the other, "then" between.

Every process imports once what each command needs, and leaves the others after the last one only. Who makes intervals
says so.
"""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Any

import fault_in_main  # noqa: F401 - its line about intervals

from judge.commands.app import app
from judge.training import launch

leave = launch.end_launch
launch.end_launch = lambda: None


def run(arguments: list[str]) -> None:
    """A command that fails ends the process, as it would alone."""
    try:
        app(arguments)
    except SystemExit as ended:
        if ended.code:
            raise


def main() -> None:
    commands: list[list[Any]] = [
        list(part) for between, part in groupby(sys.argv[1:], lambda word: word == "then") if not between
    ]
    for number, arguments in enumerate(commands, start=1):
        if number == len(commands):
            launch.end_launch = leave
        run(arguments)


if __name__ == "__main__":
    main()
