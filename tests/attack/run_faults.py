"""Faults in their long form: ``python tests/attack/run_faults.py --seed 1``; its figures as a table.

Of each command operations of the file system fail, one at a time, at every place of the package that asks for one; then
disks that are full, read-only or gone from some operation on. Ends with code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attack.writers import Trial, Writers, chosen


def main() -> int:
    """Print a line a command, then what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=1, help="operations of a kind at a place")
    parser.add_argument("--lasting", type=int, default=6, help="of each lasting fault, operations at which it begins")
    parser.add_argument("--disks", type=int, default=0, help="sizes of a small disk, for those who may mount one")
    parser.add_argument("--most", type=int, default=10_000, help="single faults of a command")
    parser.add_argument("--minutes", type=float, default=600, help="when no further fault begins, shared by commands")
    parser.add_argument("commands", nargs="*", help="names; all unless given")
    given = parser.parse_args()
    trials: list[Trial] = []
    sys.stdout.write("| command | operations | disturbed | one line | went on | again the same | found |\n")
    sys.stdout.write("| --- | --: | --: | --: | --: | --: | --: |\n")
    with tempfile.TemporaryDirectory() as folder:
        writers = Writers(Path(folder, "root"))
        writers.prepare()
        names, end = given.commands or list(writers.commands()), time.monotonic() + 60 * given.minutes
        for place, name in enumerate(names):
            share = (end - time.monotonic()) / (len(names) - place)
            trials += _disturb(writers, name, given, end=time.monotonic() + share)
    counts = Counter(trial.command for trial in trials)
    told = sum(bool(trial.found) for trial in trials)
    sys.stdout.write(f"\n{len(trials)} faults in {len(counts)} commands, {told} found; seed {given.seed}\n")
    return min(told, 1)


def _disturb(writers: Writers, name: str, given: argparse.Namespace, *, end: float) -> list[Trial]:
    begun = time.monotonic()
    whole, faults = writers.undisturbed(name)
    numbers = chosen(faults, seed=given.seed, each=given.each)
    step = max(1, len(faults.seen) // max(1, given.lasting))
    if len(numbers) > given.most:
        numbers = sorted(random.Random(given.seed).sample(numbers, given.most))
    plan = [(number, "once") for number in numbers]
    if given.lasting:
        plan += [(at, disk) for disk in ("full", "read-only", "gone") for at in range(0, len(faults.seen), step)]
    random.Random(given.seed).shuffle(plan)  # Of all kinds something, also where time is short.
    trials = []
    for at, disk in plan:
        if time.monotonic() > end:
            break
        trials.append(writers.attempt(name, at, disk, whole, seed=given.seed))  # type: ignore[arg-type]
        _tell(trials[-1], f"{at} {disk} at {faults.seen[at][2]}")
    needed = sum(path.stat().st_size for path in writers.place.rglob("*") if path.is_file()) // 1024
    for share in range(given.disks):
        kilobytes = round(needed * (share + 0.5) / given.disks)
        try:
            trials.append(writers.on_disk(name, kilobytes, whole))
        except PermissionError:
            sys.stdout.write("no small disks: this user may mount none\n")
            break
        _tell(trials[-1], f"on a disk of {kilobytes} of some {needed} KB")
    ended = Counter(trial.code for trial in trials)
    told, reused = sum(bool(trial.found) for trial in trials), sum(trial.reused for trial in trials)
    row = [name, len(faults.seen), len(trials), ended[2], ended[0] + ended[1], reused, told]
    sys.stdout.write("| " + " | ".join(map(str, row)) + f" | {time.monotonic() - begun:.0f} s\n")
    sys.stdout.flush()
    return trials


def _tell(trial: Trial, how: str) -> None:
    for what in trial.found:
        sys.stdout.write(f"FOUND {trial.command} {how}, {trial.met}: exit {trial.code}: {what}\n")
        sys.stdout.write(f"    {trial.line.strip()[-300:]}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
