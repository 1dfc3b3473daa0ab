"""A detector of people who are painted red, for images that are made for tests."""

from judge.masking.detectors import Detector
from judge.masking.instances import PERSON, Instance, LoadedImage, from_mask


class Red:
    name = "red"
    key = "red 1.0"  # All that decides what it finds: detections are cached by it.
    categories = (PERSON,)

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        mask = (image.pixels == [255, 0, 0]).all(axis=-1)
        return (from_mask(mask, PERSON),) if mask.any() else ()


def make_detector(weights: str | None, device: str | None) -> Detector:
    """Called with ``--weights`` and ``--device``."""
    return Red()
