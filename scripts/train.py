"""``judge train run.yaml`` for several processes, which share small judges, or train a large one together.

accelerate launch --config_file accelerate_config.yaml scripts/train.py run.yaml
accelerate launch --config_file scripts/configs/fsdp.yaml scripts/train.py run.yaml --training micro_batch=1
"""

import sys

from judge.__main__ import main

if __name__ == "__main__":
    main("train", *sys.argv[1:])
