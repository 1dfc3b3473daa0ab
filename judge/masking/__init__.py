"""Images with people hidden: detectors, masks, fills, folders of masked images, and images as judges see them."""

from typing import Literal, get_args

# Here, so that settings can name them without importing numpy.
DetectorName = Literal["gt", "yolo", "maskrcnn"]
DETECTORS: tuple[str, ...] = get_args(DetectorName)
