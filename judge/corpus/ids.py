"""One spelling per image, so that files from different sources join."""

from __future__ import annotations

import math
import numbers
import re
import unicodedata

from judge.utils.files import is_encodable

_SUFFIX = re.compile(r"\.(?:jpe?g|png|bmp|gif|webp|tiff?|heic|avif)$", re.IGNORECASE)
_DIGITS = re.compile(r"(-?)0*([0-9]+)(?:\.0+)?")
# COCO numbers its pictures with twelve digits, whatever folder they lie in.
_COCO = re.compile(r"(?:.*/)?(?:COCO_(?:train|val|test)[0-9]{4}_)?([0-9]{12})", re.DOTALL)


def canonical_id(value: object) -> str:
    """The canonical spelling of an image id; applying it twice changes nothing.

    - 139, 139.0, "139", "000139", "139.0" and "139.jpg" are "139";
    - "val2014/COCO_val2014_000000522418.jpg" and "any/folder/000000522418.jpg" are "522418";
    - anything else keeps its folder ("b/cat.jpg" is "b/cat"): two folders may hold the same name. Back slashes
      become slashes, a leading "./" goes, and letters are put in Unicode NFC (macOS writes them otherwise);
    - an address is an id as a whole, apart from addresses of COCO's own pictures.

    Raises:
        ValueError: not a whole number or a text (None, True, 1.5, NaN, a list), or a text that names nothing.
    """
    if type(value) is int:
        return str(value)
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"is {kind_of(value)}")  # noqa: TRY004  # callers handle one kind
    number = float(value)
    if not math.isfinite(number) or number != math.floor(number):
        raise ValueError(f"is {number}")
    return str(math.floor(value))


def _from_text(value: str) -> str:
    if "\\" in value:
        value = value.replace("\\", "/")
    if not value.isascii():
        value = unicodedata.normalize("NFC", value)
        if not is_encodable(value):
            raise ValueError("is not valid Unicode")
    name = value.strip()
    while name.startswith("./"):
        name = name[2:].strip()
    while (stem := _SUFFIX.sub("", name).rstrip()) != name:
        name = stem
    if not name or name.endswith("/"):
        raise ValueError(f"is {value!r}, which names no image" if value.strip() else "is empty")
    if found := _DIGITS.fullmatch(name):
        sign, digits = found.groups()
        return digits if digits == "0" else sign + digits
    if (found := _COCO.fullmatch(name)) and ("://" not in name or "coco" in name.lower()):
        return found[1].lstrip("0") or "0"
    return name


def kind_of(value: object) -> str:
    """What a value is, in the words of messages: "null", "a number", "a list" ..."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"{value}".lower()
    if isinstance(value, numbers.Number):
        return "a number"
    names: dict[type, str] = {str: "a text", list: "a list", tuple: "a list", dict: "an object", bytes: "bytes"}
    return names.get(type(value), f"a {type(value).__name__}")
