"""``judge evaluate run.yaml`` for several processes, which share the judges (seed x side x caption index x fold).

accelerate launch --config_file accelerate_config.yaml --num_processes 2 scripts/evaluate.py run.yaml --overwrite
"""

import sys

from judge.__main__ import main

if __name__ == "__main__":
    main("evaluate", *sys.argv[1:])
