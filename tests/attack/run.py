"""The attack in its long form: ``python tests/attack/run.py --seed 1 --minutes 60``; a table of each part.

Parts: ``fuzz`` (damaged files for every reader), ``faults`` (of the file system), ``kills`` (of commands, at seeded
moments and steps), ``ranks`` (a process of a launch dies), ``soak`` (the demo in a loop). Each is a script of its own
here, with options of its own. Ends with code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

SHARES = {"fuzz": 0.3, "faults": 0.2, "kills": 0.3, "ranks": 0.05, "soak": 0.15}
"""Part -> its share of the minutes."""


def main() -> int:
    """Run the parts one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60, help="for all; a part ends what it has begun")
    parser.add_argument("parts", nargs="*", choices=[[], *SHARES], help="all unless given")
    given = parser.parse_args()
    shares = {name: SHARES[name] for name in given.parts or SHARES}
    found = 0
    for name, share in shares.items():
        minutes = given.minutes * share / sum(shares.values())
        print(f"\n## {name} ({minutes:.0f} minutes)\n", flush=True)
        seed = [] if name == "soak" else ["--seed", str(given.seed)]
        script = Path(__file__).with_name(f"run_{name}.py")
        found |= subprocess.run([sys.executable, script, *seed, "--minutes", str(minutes)], check=False).returncode
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
