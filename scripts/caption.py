"""``judge caption`` for several processes, which share the images in whole batches; a killed launch can be resumed.

accelerate launch --config_file scripts/configs/8_gpus.yaml scripts/caption.py --model CHECKPOINT --images FOLDER
"""

import sys

from judge.__main__ import main

if __name__ == "__main__":
    main("caption", *sys.argv[1:])
