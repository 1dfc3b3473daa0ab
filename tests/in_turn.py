"""Launched by tests under ``accelerate launch``: ``judge`` commands one after the other, "then" between.

Each process imports once what the commands need, and leaves the others after the last one. The process that makes
intervals prints its rank. Words before a command change it: "fault" fails where intervals are made; "no-room-1" and
"no-room-all" fail in the third batch of a training, in the process of rank 1 or in all.
"""

from __future__ import annotations

import os
import sys
from itertools import count, groupby
from typing import Any

from judge import measure
from judge.commands.app import app
from judge.errors import JudgeError
from judge.judges.encoders import EncoderClassifier
from judge.training import launch

made, leave, collate = measure.summarise, launch.end_launch, EncoderClassifier.collate
batches = count(1)
WORDS = {"fault", "no-room-1", "no-room-all"}


def summarise(*arguments: Any) -> Any:
    sys.stdout.write(f"intervals by rank {os.environ['RANK']}\n")
    if "fault" in sys.argv:
        raise JudgeError("no interval", where=f"rank {os.environ['RANK']}")
    return made(*arguments)


def no_room(*arguments: Any) -> Any:
    """Stands for any fault that the other processes do not meet, such as memory that runs out."""
    if next(batches) == 3:
        raise JudgeError("no room", where=f"rank {os.environ['RANK']}")
    return collate(*arguments)


def main() -> None:
    """A command that fails ends the process, as it would alone."""
    commands = [[*words] for between, words in groupby(sys.argv[1:], "then".__eq__) if not between]
    measure.summarise, launch.end_launch = summarise, lambda: None
    for number, words in enumerate(commands, start=1):
        if {f"no-room-{os.environ['RANK']}", "no-room-all"} & {*words}:
            EncoderClassifier.collate = no_room
        if number == len(commands):
            launch.end_launch = leave
        try:
            app([word for word in words if word not in WORDS])
        except SystemExit as ended:
            if ended.code:
                raise


if __name__ == "__main__":
    main()
