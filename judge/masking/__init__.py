"""Images with people hidden: detectors, masks, fills, folders of masked images, and images as judges see them."""

from typing import Literal, get_args

# Here, so that settings can name them without importing numpy.
DetectorName = Literal["gt", "yolo", "maskrcnn"]
DETECTORS: tuple[str, ...] = get_args(DetectorName)
# Pillow's own limit against decompression bombs, 2**30 / 12: an image of 9,459 x 9,459.
MAX_PIXELS = 89_478_485
