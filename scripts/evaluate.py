"""``judge evaluate run.yaml`` for several processes.

    accelerate launch --config_file accelerate_config.yaml scripts/evaluate.py run.yaml
    accelerate launch --config_file accelerate_config.yaml --num_processes 2 scripts/evaluate.py run.yaml --overwrite

Takes every option of ``judge evaluate``. Judges (seed x side x caption index x fold) are shared out among the
processes; the numbers are those of one process, to the last digit.
"""

from __future__ import annotations

import sys

from judge.__main__ import main

if __name__ == "__main__":
    main("evaluate", *sys.argv[1:])
