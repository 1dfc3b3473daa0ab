"""``judge train run.yaml`` for several processes.

    accelerate launch --config_file accelerate_config.yaml scripts/train.py run.yaml
    accelerate launch --config_file scripts/configs/8_gpus.yaml scripts/train.py run.yaml --micro-batch auto

Takes every option of ``judge train``. Small judges are shared out among the processes; one large judge is trained by
all of them together (or its weights in shards: scripts/configs/fsdp.yaml). Killed, it goes on where it was.
"""

from __future__ import annotations

import sys

from judge.__main__ import main

if __name__ == "__main__":
    main("train", *sys.argv[1:])
