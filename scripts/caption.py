"""``judge caption`` for several processes.

    accelerate launch --config_file accelerate_config.yaml scripts/caption.py --model CHECKPOINT --images FOLDER
    accelerate launch --config_file scripts/configs/8_gpus.yaml scripts/caption.py --model CHECKPOINT --images FOLDER

Takes every option of ``judge caption``. Pictures are shared out among the processes, whole batches at a time; the
captions are those of one process. Killed, it goes on where it was, on any number of processes.
"""

from __future__ import annotations

import sys

from judge.__main__ import main

if __name__ == "__main__":
    main("caption", *sys.argv[1:])
