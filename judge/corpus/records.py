"""Records of a file as rows or (image, value) pairs, the place of each, and the canonical spelling of image ids."""

import math
import numbers
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, cast

from judge.errors import JudgeError, nearest
from judge.utils.files import is_encodable

Row = dict[str, object]
MISSING = object()
"""The value of a field that a record lacks; ``None`` is the value null."""

PAINTING = "art_style/painting"
"""The id column that tables of ArtEmis get: "Impressionism/claude-monet_haystacks", as in WikiArt's folders."""
_STYLE, _NAME, _FILE, _EMOTION = "art_style", "painting", "image_file", "grounding_emotion"

SUFFIX = re.compile(r"\.(?:jpe?g|png|bmp|gif|webp|tiff?|heic|avif)$", re.IGNORECASE)
"""The end of the name of an image file."""
_DIGITS = re.compile(r"(-?)0*([0-9]+)(?:\.0+)?")
# COCO numbers its images with twelve digits, in whatever folder they lie.
_COCO = re.compile(r"(?:.*/)?(?:COCO_(?:train|val|test)[0-9]{4}_)?([0-9]{12})", re.DOTALL)


class Placed(dict[str, object]):
    """A row that knows its place in the user's files, in words: "00000.tar, sample '000000042'"."""

    __slots__ = ("at",)

    def __init__(self, values: Mapping[str, object], at: str) -> None:
        super().__init__(values)
        self.at = at


class Entry(NamedTuple):
    """One record, not checked yet: its image id, its caption, label or objects, and its place, in words."""

    image: object
    value: object
    at: str


def records(value: object, *, source: str, shapes: str = "write each record as an object") -> list[Row]:
    """``value`` as rows. Tables of ArtEmis, which name a painting by two columns, get a column :data:`PAINTING`.

    ``shapes``: what to give instead of anything but a list of objects, for messages.
    """
    if not isinstance(value, list):
        raise JudgeError(f"JSON of the wrong shape ({kind_of(value)})", where=source, mend=shapes)
    if not value:
        raise JudgeError("holds no records", where=source, mend="give at least one")
    for number, row in enumerate(value, start=1):
        if not isinstance(row, dict):
            raise JudgeError(f"is {kind_of(row)}, not an object", where=f"{source}, record {number}", mend=shapes)
    rows = cast("list[Row]", value)
    known = rows[0].keys()
    if _STYLE in known and _NAME in known:
        column, cell_of = PAINTING, _painting
    elif _FILE in known and _EMOTION in known:
        column, cell_of = _FILE, _style_and_file
    else:
        return rows
    changed = (row | {column: cell_of(row)} for row in rows)
    return [Placed(new, row.at) if isinstance(row, Placed) else new for new, row in zip(changed, rows, strict=True)]


def _painting(row: Row) -> object:
    """None if the style or the name is no text; "" if one is empty."""
    style, name = row.get(_STYLE), row.get(_NAME)
    if not isinstance(style, str) or not isinstance(name, str):
        return None
    return f"{style.strip()}/{name.strip()}" if style.strip() and name.strip() else ""


def _style_and_file(row: Row) -> object:
    """The end of the path; neural speakers write the whole path on their machine."""
    path = row.get(_FILE)
    return "/".join(path.replace("\\", "/").split("/")[-2:]) if isinstance(path, str) else path


def chosen_rows(rows: Sequence[Row], where: Mapping[str, str], *, source: str, needed: bool) -> list[tuple[int, Row]]:
    """The rows whose columns hold the texts of ``where`` (column -> cell), numbered as in the file, from 1.

    If no row has such a column, all rows are taken, unless the column is ``needed``. A text of no row is an error.
    """
    chosen = list(enumerate(rows, start=1))
    for column, cell in where.items():
        cells = {cell_text(row[column]) for _, row in chosen if column in row}
        if cells:
            chosen = [(number, row) for number, row in chosen if cell_text(row.get(column, "")) == cell]
        elif needed:
            known = list(dict.fromkeys(str(name) for row in rows[:1000] for name in row))
            raise JudgeError(f"no column '{column}' for --where", where=source, mend=nearest(column, known))
        if not chosen:
            what = f"no record where {column} is '{cell}'"
            raise JudgeError(what, where=source, mend=f"values in the file: {', '.join(sorted(cells)[:10])}")
    return chosen


def cell_text(value: object) -> str:
    """A cell to compare; "" for a list or an object, whose text may have any length."""
    return "" if isinstance(value, list | tuple | dict | set | frozenset) else str(value).strip()


def place_of(row: Mapping[str, object], number: int) -> str:
    """Which record a row is, in words."""
    return row.at if isinstance(row, Placed) else f"record {number}"


def annotation_of(row: Mapping[str, object], number: int) -> str:
    """Which annotation of a COCO file a row is, in words: by its id, else by its number, from 1."""
    return f"annotation {row['id']}" if type(row.get("id")) is int else f"annotations, record {number}"


def row_entries(numbered: Iterable[tuple[int, Row]], image: str, value: str) -> list[Entry]:
    """Entries of numbered rows, from the column of image ids and the column of values."""
    return [Entry(row.get(image, MISSING), row.get(value, MISSING), place_of(row, number)) for number, row in numbered]


def mapping_entries(value: Mapping[object, object]) -> list[Entry]:
    """Entries of ``{image: value}``."""
    pairs = enumerate(value.items(), start=1)
    return [Entry(image, held, f"record {number} ('{str(image)[:60]}')") for number, (image, held) in pairs]


def image_id(image: object, where: str, suffixes: dict[str, str] | None = None) -> str:
    """The canonical image id; a JudgeError if it is missing, or no id.

    ``suffixes``: of the images of one file, by id; two images whose names differ by their suffix alone are refused.
    """
    try:
        key = canonical_id(image)
    except (ValueError, OverflowError) as error:
        raise JudgeError(f"image id {error}", where=where, mend="give the record a number or a file name") from None
    found = SUFFIX.search(image.strip().lower()) if suffixes is not None and isinstance(image, str) else None
    if suffixes is not None and found:
        suffix = found[0].replace("jpeg", "jpg")
        if (first := suffixes.setdefault(key, suffix)) != suffix:
            what = f"image '{key}' is a file {suffix} here and {first} in another record"
            raise JudgeError(what, where=where, mend="rename one of the two images, as ids have no endings")
    return key


def canonical_id(value: object) -> str:
    """The canonical spelling of an image id, so that files from different sources join. It is idempotent.

    - 139, 139.0, "139", "000139", "139.0" and "139.jpg" are "139";
    - "val2014/COCO_val2014_000000522418.jpg" and "any/folder/000000522418.jpg" are "522418";
    - other names keep their folder ("b/cat.jpg" is "b/cat"), since two folders may hold the same name. Back slashes
      become slashes, a leading "./" is removed, and letters are normalised to Unicode NFC (macOS writes NFD);
    - an address is an id as a whole, except addresses of COCO's own images.

    Raises:
        ValueError: neither a whole number nor a text (None, True, 1.5, NaN, a list), or a text that names nothing.
    """
    if type(value) is int:
        return str(value)
    if isinstance(value, str):
        return _id_of_text(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"is {kind_of(value)}")  # noqa: TRY004  # callers handle one kind
    number = float(value)
    if not math.isfinite(number) or number != math.floor(number):
        raise ValueError(f"is {number}")
    return str(math.floor(value))


def _id_of_text(value: str) -> str:
    if "\\" in value:
        value = value.replace("\\", "/")
    if not value.isascii():
        value = unicodedata.normalize("NFC", value)
        if not is_encodable(value):
            raise ValueError("is not valid Unicode")
    name = value.strip()
    while name.startswith("./"):
        name = name[2:].strip()
    while (stem := SUFFIX.sub("", name).rstrip()) != name:
        name = stem
    if not name or name.endswith("/"):
        raise ValueError(f"is {value!r}, which names no image" if value.strip() else "is empty")
    if found := _DIGITS.fullmatch(name):
        sign, digits = found.groups()
        return digits if digits == "0" else sign + digits
    if (found := _COCO.fullmatch(name)) and ("://" not in name or "coco" in name.lower()):
        return found[1].lstrip("0") or "0"
    return name


def number_of(value: object) -> float | None:
    """A number, or a text that spells one; None for anything else, and for one that is not finite."""
    with suppress(ValueError, OverflowError):
        if isinstance(value, str | int | float) and not isinstance(value, bool) and math.isfinite(of := float(value)):
            return of
    return None


def kind_of(value: object) -> str:
    """The kind of a value, in words for messages: "missing", "null", "a number", "a list" ..."""
    if value is None or value is MISSING:
        return "null" if value is None else "missing"
    if isinstance(value, bool):
        return f"{value}".lower()
    if isinstance(value, numbers.Number):
        return "a number"
    names: dict[type, str] = {str: "a text", list: "a list", tuple: "a list", dict: "an object", bytes: "bytes"}
    return names.get(type(value), f"a {type(value).__name__}")
