"""A rank that dies in the midst of a sum, a worker without memory: ``python tests/attack/run_ranks.py --seed 1``.

Two processes of ``accelerate launch`` train the same judges; one is killed, the one and the other in turn, once some
judges are finished and another is at work. The other must end within a minute with one line. Workers of a run are
allotted nothing any more: it must end with one line too, beside what their own interpreters say. The same command must
then give the bytes of an undisturbed one. Ends with code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import few
from launching import ROOT, launcher

from attack.deaths import WORKERS, evaluate, harmed, has_rank, kill, members, starve, worker_for
from attack.writers import Tree, tree
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner

MINUTE = 60.0


def main() -> int:
    """Print a line a death, and what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=4, help="ranks that are killed")
    parser.add_argument("--starved", type=int, default=10, help="workers that are allotted nothing any more")
    parser.add_argument("--minutes", type=float, default=600, help="when nothing further is harmed; for each a half")
    given = parser.parse_args()
    rng, found = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        files = few(write_world(make_world(80, seed=5), {"much": Captioner(stereotype=0.9)}, Path(folder, "world")))
        told = ["--human", files.human, "--captions", files.captions["much"], "--labels", files.labels]
        parts = (Ranks(Path(folder, "out"), told), given.count), (Workers(Path(folder, "one"), told), given.starved)
        for part, count in parts:
            whole, end, done = part.whole(), time.monotonic() + 30 * given.minutes, 0
            while done < count and time.monotonic() < end:
                wrong = part.harm(given.seed + done, rng, whole)
                sys.stdout.write("".join(f"  FOUND {one}\n" for one in wrong))
                sys.stdout.flush()
                done, found = done + 1, found + bool(wrong)
            sys.stdout.write(f"{done} {part.what}{part.figures()}; seed {given.seed}\n")
    sys.stdout.write(f"{found} found\n")
    return min(found, 1)


class Ranks:
    """Ranks of a launch that are killed, one and the other in turn."""

    what = "ranks killed"

    def __init__(self, out: Path, told: Sequence[object]) -> None:
        told = [*told, "--judge", "lstm", "--sharing", "data", "--protocol", "paper", "--seeds", 3, "--epochs", 8]
        told += ["--refits", 0, "--chance", 0, "--resamples", 100, "--out", out]
        self.out, self.command = out, launcher("--num_processes", 2, ROOT / "scripts" / "evaluate.py", *told)

    def whole(self) -> Tree:
        """What the command makes; it is taken away."""
        subprocess.run([str(part) for part in self.command], check=True, capture_output=True, timeout=600)
        whole = tree(self.out)
        shutil.rmtree(self.out)
        return whole

    def harm(self, number: int, rng: random.Random, whole: Tree) -> list[str]:
        """What is wrong with how the launch ended, and with what it then makes."""
        rank, least = number % 2, rng.randrange(1, 5)
        ended = harmed(self.command, self.out, harm=kill, which=has_rank(rank), ready=_at_work(self.out, least))
        sys.stdout.write(f"rank {rank} of 2 killed with {len(ended.kept)} judges finished; exit {ended.code} ")
        sys.stdout.write(f"after {ended.seconds:.1f} s: {'; '.join(ended.lines)}\n")
        return [
            *([] if ended.code else ["exit code 0"]),
            *([] if len(ended.lines) == 1 else [f"lines: {ended.lines}"]),
            *([] if ended.seconds < MINUTE else ["over a minute"]),
            *(["a traceback of ours"] if "judge/training" in ended.whole else []),
            *([] if len(ended.kept) >= least else ["finished members are gone"]),
            *([] if self.whole() == whole else ["again other bytes"]),
        ]

    def figures(self) -> str:
        return ""


class Workers(Ranks):
    """Workers that are allotted nothing any more, at some moment of their first 1.5 s, imports included."""

    what = "workers starved"

    def __init__(self, out: Path, told: Sequence[object]) -> None:
        self.out, self.command = out, evaluate(out, *told, *WORKERS)
        self.ends: Counter[str] = Counter()

    def harm(self, number: int, rng: random.Random, whole: Tree) -> list[str]:
        age = rng.uniform(0, 1.5)
        ended = harmed(self.command, self.out, harm=starve, which=worker_for(age), ready=lambda: True)
        own = len(ended.whole.splitlines()) > len(ended.lines)
        self.ends.update([f"exit {ended.code}", *(["its interpreter said so too"] if own else [])])
        sys.stdout.write(f"starved {age:.1f} s old; exit {ended.code}: {'; '.join(ended.lines)}\n")
        if ended.code == 0:  # It needed nothing more.
            made = tree(self.out)
            shutil.rmtree(self.out)
            return [] if made == whole else ["other bytes"]
        wrong = [] if (ended.code, len(ended.lines)) == (2, 1) else [f"exit {ended.code}: {ended.whole[-3000:]}"]
        return [*wrong, *([] if self.whole() == whole else ["again other bytes"])]

    def figures(self) -> str:
        return "".join(f"; {what}: {count}" for what, count in sorted(self.ends.items()))


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
