"""Run by test_ranks.py under ``accelerate launch``: ``judge evaluate``, and one process meets a fault in training.

The first argument is its rank, or "all". The fault stands for any that the others do not meet: memory that runs out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from judge.commands.app import app
from judge.errors import JudgeError
from judge.judges import Batch
from judge.judges.encoders import EncoderClassifier
from judge.types import Sample

collate = EncoderClassifier.collate
calls = 0


def fail(self: EncoderClassifier, samples: Sequence[Sample]) -> Batch:
    global calls  # noqa: PLW0603 - batches of this process
    calls += 1
    if calls == 3 and sys.argv[1] in {os.environ["RANK"], "all"}:
        raise JudgeError("no room", where=f"rank {os.environ['RANK']}")
    return collate(self, samples)


EncoderClassifier.collate = fail  # type: ignore[method-assign]

if __name__ == "__main__":
    app(["evaluate", *sys.argv[2:]])
