"""Damaged files in their long form: ``python tests/attack/run_fuzz.py --seed 1 --minutes 30``; a table.

Each reader is attacked by damaged files in turn, until the time is over. Ends with code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attack.fuzz import Finding, all_targets, watched


def main() -> int:
    """Print a line a reader, then what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30, help="when no further round begins")
    parser.add_argument("--count", type=int, default=500, help="damaged files a reader and round")
    parser.add_argument("readers", nargs="*", help="names; all unless given")
    given = parser.parse_args()
    names = given.readers or list(all_targets())
    told: dict[str, Counter[str]] = {name: Counter() for name in names}
    findings: list[Finding] = []
    end, turn = time.monotonic() + 60 * given.minutes, 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            for name in names:
                done, found = watched(name, Path(folder, name), count=given.count, seed=1000 * given.seed + turn)
                told[name] += done
                findings += found
            turn += 1
    print("| reader | read | refused | found |\n| --- | --: | --: | --: |")
    for name, counts in told.items():
        print(
            f"| {name} | {counts['read']:,} | {counts['refused']:,} | {sum(one.target == name for one in findings)} |"
        )
    total = sum(counts.total() for counts in told.values())
    print(f"\n{total:,} inputs, {len(findings)} found; seed {given.seed}, {turn} rounds of {given.count}")
    for one in findings:
        print(f"\n{one.target}, seed {one.seed}, input {one.number}: {one.what}")
    return min(len(findings), 1)


if __name__ == "__main__":
    sys.exit(main())
