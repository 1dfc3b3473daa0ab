"""``judge calibrate`` for several processes, which share the judges of each trial.

accelerate launch --config_file accelerate_config.yaml scripts/calibrate.py calibrate.yaml --judge lstm
"""

import sys

from judge.__main__ import main

if __name__ == "__main__":
    main("calibrate", *sys.argv[1:])
