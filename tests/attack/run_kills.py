"""Kills in their long form: ``python tests/attack/run_kills.py --seed 1 --moments 20 --minutes 30``; their table.

Each command is killed by each signal, all its processes or it alone, at moments drawn by the seed, or at steps on the
disk, and given again. Ends with code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from itertools import chain, product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from attack.kills import CASES, SIGNALS, WHOM, Attack
from attack.strikes import STEP, Struck


def main() -> int:
    """Print what was found as it is, then a line a command, signal and whom."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--moments", type=int, default=20, help="for each command, signal and whom")
    parser.add_argument(
        "--chain", type=int, default=1, help="kills one after the other before a command is let through"
    )
    parser.add_argument(
        "--steps", type=int, default=0, help="for each command and signal: kills at its steps on the disk"
    )
    parser.add_argument("--minutes", type=float, default=600, help="when no further command is killed")
    parser.add_argument("commands", nargs="*", help="names; all but the costly ones unless given")
    given = parser.parse_args()
    names = given.commands or [name for name, case in CASES.items() if not case.costly]
    kills: Counter[tuple[str, str, str]] = Counter()
    runs, found = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    end = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as folder:
        attacks: dict[str, Any] = {name: Attack(name, Path(folder)) for name in names}
        struck: dict[str, Any] = {name: Struck(name, Path(folder)) for name in names} if given.steps else {}
        # Of each command something, also where time is short.
        at_moments = product(range(given.moments), SIGNALS, WHOM, names)
        for turn, which, whom, name in chain(at_moments, product(range(given.steps), SIGNALS, [STEP], names)):
            if time.monotonic() > end:
                break
            rng = random.Random(f"{given.seed} {turn} {name} {which} {whom}")
            attack, key = (struck if whom == STEP else attacks)[name], (name, which, whom)
            before = len(attack.findings)
            kills[key] += attack.kill(which, whom, [rng.random() for _ in range(given.chain)])
            runs[key] += 1
            for one in attack.findings[before:]:
                print(f"{one.case}, {one.how}: {one.what}\n", flush=True)
            found[key] += len(attack.findings) > before
    print("| command | signal | to | kills | equal | findings |\n| --- | --- | --- | --: | --: | --: |")
    for key, count in kills.items():
        print(f"| {' | '.join(key)} | {count} | {runs[key] - found[key]} of {runs[key]} | {found[key]} |")
    print(f"\n{kills.total()} kills, {found.total()} with findings; seed {given.seed}")
    return min(found.total(), 1)


if __name__ == "__main__":
    sys.exit(main())
