"""Small pictures for reports: never of a person, unless that is asked for."""

from __future__ import annotations

import io
from collections.abc import Iterable
from contextlib import suppress

from judge.errors import JudgeError
from judge.masking.hidden import HiddenPictures
from judge.masking.instances import PERSON

# Pixels along the longer side.
SIDE = 320
_QUALITY = 72


def hides_people(pictures: HiddenPictures) -> bool:
    """Whether people are hidden whole in these pictures (where its detector found them)."""
    hiding = pictures.hiding
    if hiding is None or PERSON not in hiding.labels:
        return False
    return hiding.mode != "partial" and hiding.foreground == "all"


def finds_people(pictures: HiddenPictures, image: str) -> bool:
    """Whether a person was found in a picture whose people are hidden.

    Where none was, there may be one whom the detector does not know.
    """
    found = pictures.hidden.get(pictures.names.get(image, ""), ())
    return any(instance.label == PERSON for instance in found)


def make_thumbnails(pictures: HiddenPictures, images: Iterable[str]) -> dict[str, bytes]:
    """Image id -> its picture as JPEG, made small after people were hidden.

    Images without a picture are left out; so are, where people are hidden, those in which none was found.
    """
    from PIL import Image

    found: dict[str, bytes] = {}
    for image in images:
        if pictures.hiding is not None and not finds_people(pictures, image):
            continue
        with suppress(JudgeError):
            picture = Image.fromarray(pictures.read(image))
            picture.thumbnail((SIDE, SIDE))
            buffer = io.BytesIO()
            picture.save(buffer, "JPEG", quality=_QUALITY, optimize=True)
            found[image] = buffer.getvalue()
    return found
