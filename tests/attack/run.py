"""The attack in its long form: ``python tests/attack/run.py --seed 1 --minutes 120``; a table of each part.

Parts: ``fuzz`` (damaged files for every reader), ``faults`` (of the file system), ``kills`` (of commands, three one
after the other, at seeded moments), ``soak`` (the demo in a loop). Ends with code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

PARTS = {"fuzz": "fuzz", "faults": "writers", "kills": "kills", "soak": "soak"}
"""Part -> the module with its ``long_form``."""


def main() -> int:
    """Run one part here, or several one after the other, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60, help="for all; a part ends what it has begun")
    parser.add_argument("--only", nargs="*", default=[], help="readers or commands of the one part; all by default")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="all by default")
    given = parser.parse_args()
    parts = given.parts or list(PARTS)
    if len(parts) == 1:
        module = importlib.import_module(f"attack.{PARTS[parts[0]]}")
        return min(module.long_form(given.seed, time.monotonic() + 60 * given.minutes, given.only), 1)
    found, minutes = 0, given.minutes / len(parts)
    for name in parts:
        print(f"\n## {name} ({minutes:.0f} minutes)\n", flush=True)
        command = [sys.executable, __file__, name, "--seed", str(given.seed), "--minutes", str(minutes)]
        found |= subprocess.run(command, check=False).returncode
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
