"""``judge calibrate run.yaml`` for several processes.

    accelerate launch --config_file accelerate_config.yaml scripts/calibrate.py calibrate.yaml --judge lstm

Takes every option of ``judge calibrate``. The judges of each trial are shared out among the processes; the numbers are
those of one process, to the last digit.
"""

from __future__ import annotations

import sys

from judge.__main__ import main

if __name__ == "__main__":
    main("calibrate", *sys.argv[1:])
