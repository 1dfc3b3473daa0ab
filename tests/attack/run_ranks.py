"""A rank that dies in the midst of a sum, under ``accelerate launch``: ``python tests/attack/run_ranks.py --seed 1``.

Two processes train the same judges; one is killed, by chance, once some judges are finished and another is at work. The
other must end within a minute with one line, and the same command must then give the numbers of an undisturbed launch.
Ends with code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import few
from launching import ROOT, launcher

from attack.deaths import harmed, has_rank, kill, members
from attack.writers import tree
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner

MINUTE = 60.0


def main() -> int:
    """Print a line a death, and what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=600, help="when no further rank is killed")
    given = parser.parse_args()
    rng, found, done, end = random.Random(given.seed), 0, 0, time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        files = few(write_world(make_world(80, seed=5), {"much": Captioner(stereotype=0.9)}, Path(folder, "world")))
        told = ["--human", files.human, "--captions", files.captions["much"], "--labels", files.labels]
        told += ["--judge", "lstm", "--sharing", "data", "--protocol", "paper", "--seeds", 3, "--epochs", 8]
        told += ["--refits", 0, "--chance", 0, "--resamples", 100, "--out", out]
        script = "--num_processes", 2, ROOT / "scripts" / "evaluate.py", *told

        def launched() -> dict[str, str]:
            subprocess.run(launcher(*script), check=True, capture_output=True, timeout=600)
            whole = tree(out)
            out.rename(out.with_name(f"done-{rng.random()}"))
            return whole

        whole = launched()
        for number in range(given.count):
            if time.monotonic() > end:
                break
            done += 1
            rank, least = rng.randrange(2), rng.randrange(1, 5)
            ended = harmed(launcher(*script), out, harm=kill, which=has_rank(rank), ready=_at_work(out, least))
            wrong = [
                *([] if ended.code else ["exit code 0"]),
                *([] if len(ended.lines) == 1 else [f"lines: {ended.lines}"]),
                *([] if ended.seconds < MINUTE else ["over a minute"]),
                *(["a traceback of ours"] if "judge/training" in ended.whole else []),
                *([] if len(ended.kept) >= least else ["finished members are gone"]),
            ]
            again = launched()
            wrong += [f"again other bytes: {name}" for name in whole if again.get(name) != whole[name]]
            found += bool(wrong)
            told_now = "; ".join(ended.lines)
            sys.stdout.write(
                f"{number}: rank {rank} of 2 killed with {len(ended.kept)} judges finished; exit {ended.code} "
            )
            sys.stdout.write(
                f"after {ended.seconds:.1f} s: {told_now}\n" + "".join(f"  FOUND {one}\n" for one in wrong)
            )
            sys.stdout.flush()
    sys.stdout.write(f"{done} deaths, {found} found; seed {given.seed}\n")
    return min(found, 1)


def _at_work(out: Path, least: int) -> Callable[[], bool]:
    log = out.with_name(f"{out.name}.partial") / "log.jsonl"

    def ready() -> bool:
        if len(members(out)) < least or not log.is_file():
            return False
        return any(
            json.loads(line).get("event") == "epoch" for line in log.read_text().splitlines() if line[-1:] == "}"
        )

    return ready


if __name__ == "__main__":
    sys.exit(main())
