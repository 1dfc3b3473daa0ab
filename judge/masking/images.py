"""Reading and writing pictures: nothing outside the folder is read, nothing is written with loss."""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from judge.corpus.records import canonical_id
from judge.errors import JudgeError
from judge.masking import MAX_PIXELS
from judge.masking.archives import SUFFIXES, find_archive
from judge.masking.instances import BoolMask, Picture, Pixels
from judge.utils.files import is_encodable, named_alike, resolved
from judge.utils.limits import PICTURE
from judge.utils.opening import NotRegularError, open_regular, size_of

if TYPE_CHECKING:
    from PIL.Image import Image

ImageFormat = Literal["png", "webp"]

# What a folder of masked pictures holds beside them.
SHEET_NAME, TABLE_NAME = "contact_sheet.png", "masks.parquet"

# What Pillow may open: each of its other formats is a parser that no data set of captions needs. (Its JPEG
# reader opens MPO too.)
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
# JPEG's markers: not the zeros that scans put after 255, nor the restarts within them, nor padding.
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_END, _TEM = 0xD9, 0x01
_ORIENTATION, _TURNED = 0x0112, range(2, 9)
_NOT_A_PICTURE = "give a JPEG, PNG, WebP, BMP, GIF or TIFF file, or download it again"


def list_pictures(folder: Path) -> list[str]:
    """The names of the pictures in ``folder`` and below (POSIX paths relative to it), sorted; recognised by suffix.

    Links to folders are not followed. Hidden files and folders are left out, and the contact sheet of masked pictures.
    WebDataset shards and data sets with pictures serve as folders do: see :mod:`judge.masking.archives`.

    Raises:
        JudgeError: no such folder; no picture in it; a folder below that cannot be read.
    """
    if archive := find_archive(folder):
        return archive.names()
    if not folder.is_dir():
        mend = "give the folder that holds the pictures" if folder.exists() else named_alike(folder)
        raise JudgeError("is no folder", where=f"--images {folder}", mend=mend)
    names = []
    for root, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(root) / name for name in files if not name.startswith(".")]
        found = [path for path in paths if path.suffix.lower() in SUFFIXES and not shows_people(path)]
        names += [path.relative_to(folder).as_posix() for path in found]
    if not names:
        raise JudgeError("holds no picture", where=f"--images {folder}", mend="give the folder that holds the pictures")
    return sorted(names)


def shows_people(path: Path) -> bool:
    """Whether ``path`` is the contact sheet of a masked folder, which still shows people."""
    return path.name == SHEET_NAME and (path.parent / TABLE_NAME).is_file()


def _refuse(error: OSError) -> None:
    mend = "make it readable, or move it away"
    raise JudgeError(f"cannot be read ({error.strerror})", where=str(error.filename), mend=mend) from error


def inside(folder: Path, name: str) -> Path:
    """The path of ``name`` in ``folder``.

    Raises:
        JudgeError: an absolute name, one that climbs out by "..", one that names nothing, or a link that leads out of
            the folder.
    """
    mend = "use names relative to the folder of pictures"
    parts = PurePosixPath(name.replace("\\", "/"))
    if not parts.parts or "\0" in name or not is_encodable(name):
        raise JudgeError("is no name of a file", where=f"picture {name!a}", mend=mend)
    if parts.is_absolute() or ".." in parts.parts or PureWindowsPath(name).drive:
        raise JudgeError("the name leads out of the folder of pictures", where=f"picture '{name}'", mend=mend)
    path = folder / parts
    if not resolved(path).is_relative_to(resolved(folder)):
        mend = "copy the picture into the folder, or give the folder that it lies in"
        raise JudgeError("is a link out of the folder of pictures", where=str(path), mend=mend)
    return path


def read_picture(folder: Path, name: str, *, max_pixels: int = MAX_PIXELS) -> Picture:
    """Read ``folder / name`` as 8-bit RGB, upright (EXIF orientation applied).

    Palettes are looked up, grey becomes RGB, CMYK is converted as Pillow does; of 16 bits the upper 8 count;
    an alpha channel is dropped, as captioners' own preprocessing drops it; of an animation the first frame counts.

    Args:
        folder: of pictures; or shards, or a data set.
        name: relative to it.
        max_pixels: more (width x height) is taken for a decompression bomb.

    Raises:
        JudgeError: outside the folder, missing, empty, not a picture, truncated, too large, of floating-point pixels.
    """
    data = read_bytes(folder, name)
    archive = find_archive(folder)
    where = archive.where(name) if archive else str(folder / name)
    return Picture(name, *_decode(data, where, max_pixels))


def read_bytes(folder: Path, name: str) -> bytes:
    """The file of picture ``name``, not decoded.

    Raises:
        JudgeError: outside the folder, missing, cannot be read, too large.
    """
    if archive := find_archive(folder):
        return archive.read(name)
    return _read_bytes(inside(folder, name))


def holds(folder: Path, name: str) -> bool:
    """Whether picture ``name`` is there."""
    archive = find_archive(folder)
    return archive.holds(name) if archive else (folder / name).exists()


def decode(data: bytes, *, where: str, max_pixels: int = MAX_PIXELS) -> Pixels:
    """A file's bytes as ``read_picture`` returns them; ``where`` names the file in messages."""
    return _decode(data, where, max_pixels)[0]


def _decode(data: bytes, where: str, max_pixels: int) -> tuple[Pixels, bool]:
    """The pixels, and whether EXIF's orientation turned or mirrored them."""
    from PIL import UnidentifiedImageError

    if not data:
        raise JudgeError("is empty (0 bytes)", where=where, mend="download it again")
    try:
        with _open(data) as image:
            _check_size(*image.size, max_pixels, where)
            is_jpeg = image.format in {"JPEG", "MPO"}
            if is_jpeg:
                _check_end(data, where)
            if is_jpeg and image.mode in {"RGB", "L"}:
                orientation = image.getexif().get(_ORIENTATION, 1)
                return _decode_jpeg(data, orientation, where), orientation in _TURNED
            pixels = _decode_slowly(image, where)
            return pixels, image.getexif().get(_ORIENTATION, 1) in _TURNED
    except UnidentifiedImageError:
        raise JudgeError("is not a picture", where=where, mend=_NOT_A_PICTURE) from None
    except JudgeError:
        raise
    except Exception as error:  # Pillow's readers raise whatever a damaged file leads them into.
        reason = str(error).split("(")[0].strip() or type(error).__name__
        raise JudgeError(f"is damaged ({reason})", where=where, mend="download it again") from error


def encode(pixels: Pixels, kind: ImageFormat = "png") -> bytes:
    """``pixels``, [H, W, 3] RGB, as PNG or lossless WebP.

    Raises:
        JudgeError: larger than the format allows (WebP: 16,383 a side).
    """
    import cv2

    # Any quality above 100 is WebP's lossless mode. OpenCV's own settings for PNG are its quickest.
    options = [cv2.IMWRITE_WEBP_QUALITY, 101] if kind == "webp" else []
    reason = ""
    try:
        done, data = cv2.imencode(f".{kind}", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), options)
    except cv2.error as error:
        done, reason = False, f" ({error.err})"
    if not done:
        height, width = pixels.shape[:2]
        raise JudgeError(f"a picture of {width} x {height} does not fit into {kind}{reason}", mend="use --format png")
    return bytes(data)


def read_mask(path: Path) -> BoolMask:
    """The pixels of a mask file that are not 0 (black, in colour), [H, W]; an alpha channel is dropped.

    Raises:
        JudgeError: missing, cannot be read, not an image.
    """
    import cv2

    pixels = cv2.imdecode(np.frombuffer(_read_bytes(path), dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise JudgeError("is not an image", where=str(path), mend="save the mask as PNG again")
    return np.asarray(pixels[..., :3].any(axis=2) if pixels.ndim > 2 else pixels != 0)


def place(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Name in a file -> the image's name in ``folder``, for those that lie in another place below it.

    An image is found by the last part of its name, or its number: "000000000139.jpg" in "val2017/000000000139.jpg".
    Names that are found nowhere are left out.

    Raises:
        JudgeError: two images in the folder may be meant.
    """
    absent = [name for name in names if not holds(folder, name)]
    below: dict[str, list[str]] = {}
    for name in list_pictures(folder) if absent else ():
        below.setdefault(_last_part(name), []).append(name)
    found = {name: below[part] for name in absent if (part := _last_part(name)) in below}
    for name, several in found.items():
        if len(several) > 1:
            what = f"image '{name}' may be {several[0]} or {several[1]}"
            raise JudgeError(what, where=f"--images {folder}", mend="give the folder that the images lie in")
    return {name: one for name, [one] in found.items()}


def _last_part(name: str) -> str:
    last = PurePosixPath(name.replace("\\", "/")).name
    with suppress(ValueError):
        return canonical_id(last)
    return last


def _read_bytes(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            PICTURE.refuse(size_of(file) / 2**30, str(path), instead=_NOT_A_PICTURE)
            return file.read()
    except (NotRegularError, IsADirectoryError):
        raise JudgeError("is not a regular file", where=str(path), mend=_NOT_A_PICTURE) from None
    except FileNotFoundError:
        raise JudgeError("no such picture", where=str(path), mend="check --images, or download it") from None
    except OSError as error:
        raise JudgeError(f"cannot be read ({error.strerror})", where=str(path), mend="check its permissions") from error


def _check_size(width: int, height: int, max_pixels: int, where: str) -> None:
    if width * height > max_pixels:
        what = f"has {width} x {height} pixels, over the limit of {max_pixels:,}"
        raise JudgeError(what, where=where, mend="if you trust it, raise --max-pixels")


def _decode_jpeg(data: bytes, orientation: int, where: str) -> Pixels:
    """Decode by OpenCV, several times as fast as Pillow.

    Pillow turns it: it finds orientations that OpenCV does not (in XMP, or as a long number), and every other format
    is turned by it as well.
    """
    import cv2

    flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
    pixels = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), flags)
    if pixels is None:
        raise JudgeError("is damaged", where=where, mend="download it again")
    if orientation == 1:
        return cast("Pixels", pixels)
    from PIL import Image, ImageOps

    turned = Image.fromarray(pixels)
    turned.getexif()[_ORIENTATION] = orientation
    return np.asarray(ImageOps.exif_transpose(turned))


def _check_end(data: bytes, where: str) -> None:
    """Refuse a JPEG without an end: OpenCV fills one up with grey and says nothing, Pillow takes zeros for the rest.

    As a rule an end-of-image marker follows the last start of a scan (a thumbnail in the header has markers of its
    own; within a scan both cannot occur). Where it does not, something may have been appended to a good picture, such
    as a phone's film: then the markers decide, one after the other. A scan that is cut short and yet followed by an
    end passes.
    """
    if data.rfind(b"\xff\xd9") > data.rfind(b"\xff\xda"):
        return
    place = 2
    while found := _MARKER.search(data, place):
        marker, place = found[0][1], found.end()
        if marker == _END:
            return
        if marker != _TEM:  # Every other one has a length.
            place += int.from_bytes(data[place : place + 2])
    raise JudgeError("is truncated", where=where, mend="download it again")


def _decode_slowly(image: Image, where: str) -> Pixels:
    """Decode by Pillow: every other format, and whatever looks damaged."""
    from PIL import ImageOps

    # Of a TIFF Pillow looks at the size of its tiles too, as it decodes.
    above = image.width * image.height > MAX_PIXELS
    with _limit(lifted=above) if above or image.format == "TIFF" else nullcontext():
        upright = ImageOps.exif_transpose(image)
    if upright.mode == "F":
        mend = "save it with 8 or 16 bits a channel"
        raise JudgeError("has floating-point pixels, whose range nobody knows", where=where, mend=mend)
    if upright.mode.startswith("I"):
        grey = np.asarray(upright).astype(np.int64)
        # Mode "I" holds 16 bits in 32, from older versions of Pillow; or 32, from TIFF.
        if image.format == "TIFF" and upright.mode == "I":
            mend = "save it with 8 or 16 bits a channel"
            raise JudgeError("has 32-bit pixels, whose range nobody knows", where=where, mend=mend)
        return np.repeat((grey >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
    # Pillow would warn that a palette's several transparent colours are lost; they are meant to be.
    upright.info.pop("transparency", None)
    return np.asarray(upright.convert("RGB"))


def _open(data: bytes) -> Image:
    """Read the header."""
    from PIL import Image

    with _limit(lifted=True):
        return Image.open(io.BytesIO(data), formats=_FORMATS)


_LIMIT = threading.Lock()


@contextmanager
def _limit(*, lifted: bool) -> Iterator[None]:
    """Pillow's limit of pixels is a constant, and first a warning; ours is an option, and an error.

    One thread at a time, so that the limit is off for none that relies on it: for a header's time, or a rare picture's.
    """
    from PIL import Image

    with _LIMIT:
        limit = Image.MAX_IMAGE_PIXELS
        Image.MAX_IMAGE_PIXELS = None if lifted else limit
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit
