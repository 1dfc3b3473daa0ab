"""The attack in its long form: ``python tests/attack/run.py --seed 1 --minutes 120``; a table of each part.

Parts: ``fuzz`` (damaged files for every reader), ``faults`` (of the file system, and small disks), ``kills`` (of
commands, up to three one after the other, at seeded moments), ``steps`` (kills at steps on the disk), ``demo`` (kills
of the demo, which takes minutes), ``ranks`` (a process of a launch dies, a worker has no memory), ``soak`` (the demo in
a loop: 30 minutes of 120). Each is a script here, with options of its own. Ends with code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

PARTS: dict[str, tuple[float, str, str]] = {
    "fuzz": (0.2, "fuzz", ""),
    "faults": (0.15, "faults", "--disks 3"),
    "kills": (0.2, "kills", "--chain 3"),
    "steps": (0.05, "kills", "--moments 0 --steps 20"),
    "demo": (0.1, "kills", "demo"),
    "ranks": (0.05, "ranks", ""),
    "soak": (0.25, "soak", ""),
}
"""Part -> its share of the minutes, its script, and options."""


def main() -> int:
    """Run the parts one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60, help="for all; a part ends what it has begun")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="all unless given")
    given = parser.parse_args()
    parts = {name: PARTS[name] for name in given.parts or PARTS}
    total = sum(share for share, *_ in parts.values())
    found = 0
    for name, (share, script, options) in parts.items():
        minutes = given.minutes * share / total
        print(f"\n## {name} ({minutes:.0f} minutes)\n", flush=True)
        told = [*options.split(), *([] if name == "soak" else ["--seed", str(given.seed)]), "--minutes", str(minutes)]
        file = Path(__file__).with_name(f"run_{script}.py")
        found |= subprocess.run([sys.executable, file, *told], check=False).returncode
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
