"""Work in worker processes, as another process sees it."""

from __future__ import annotations

import subprocess
import sys

LEFT_BEHIND = """
from joblib import delayed
from joblib.externals.loky.backend import resource_tracker
from judge.utils.parallel import unordered

print(sorted(unordered([delayed(abs)(-1), delayed(abs)(2)], 2)), flush=True)
resource_tracker.register("/judge-left", "semlock")
"""


def test_what_a_signal_leaves_is_removed_without_a_word() -> None:
    """loky's own process does so at the end, after our last line."""
    done = subprocess.run([sys.executable, "-c", LEFT_BEHIND], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[1, 2]\n", "")
