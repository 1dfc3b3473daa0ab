"""Read and write images: nothing outside the folder is read, nothing is written with loss."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from judge.errors import JudgeError
from judge.masking.archives import SUFFIXES, find_archive, usable_id
from judge.masking.instances import LoadedImage, Pixels
from judge.utils.files import is_encodable, resolved
from judge.utils.hub import explaining
from judge.utils.identity import digest_of
from judge.utils.reading import PICTURE, named_alike, open_regular

if TYPE_CHECKING:
    from PIL.Image import Image

# What a folder of masked images holds beside them.
SHEET_NAME, TABLE_NAME = "contact_sheet.png", "masks.parquet"

# Pillow's other formats are parsers that no data set of captions needs. (Its JPEG reader opens MPO too.)
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
_ORIENTATION, _TURNED, _ON_ITS_SIDE = 0x0112, range(2, 9), range(5, 9)
# Pillow's own limit against decompression bombs, 2**30 / 12: an image of 9,459 x 9,459.
MAX_PIXELS = 89_478_485
_NOT_AN_IMAGE = "give a JPEG, PNG, WebP, BMP, GIF or TIFF file, or download it again"


def list_images(folder: Path) -> list[str]:
    """The names of the images in ``folder`` and below (POSIX paths relative to it), sorted; recognised by suffix.

    Links to folders are not followed. Hidden files and folders are left out, and the contact sheet of masked images.
    """
    if archive := find_archive(folder):
        return list(archive.names)
    if not folder.is_dir():
        mend = "give the folder that holds the images" if folder.exists() else named_alike(folder)
        raise JudgeError("is no folder", where=f"--images {folder}", mend=mend)

    def refuse(error: OSError) -> None:
        raise JudgeError(f"cannot be read ({error.strerror})", where=str(error.filename), mend="make it readable")

    names = []
    for root, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        sheet = SHEET_NAME if TABLE_NAME in files else ""  # People are visible on a contact sheet.
        paths = [Path(root) / name for name in files if not name.startswith(".") and name != sheet]
        names += [path.relative_to(folder).as_posix() for path in paths if path.suffix.lower() in SUFFIXES]
    if not names:
        raise JudgeError("holds no image", where=f"--images {folder}", mend="give the folder that holds the images")
    return sorted(names)


def path_inside(folder: Path, name: str) -> Path:
    """The path of ``name`` in ``folder``; names that lead out of it are refused, and so are folders that are links.

    A file may be a link: caches of data sets (Hugging Face, git-annex, DVC) consist of links to files.
    """
    mend = "use names relative to the folder of images"
    parts = PurePosixPath(name.replace("\\", "/"))
    if not parts.parts or "\0" in name or not is_encodable(name):
        raise JudgeError("is no name of a file", where=f"image {name!a}", mend=mend)
    if parts.is_absolute() or ".." in parts.parts or PureWindowsPath(name).drive:
        raise JudgeError("the name leads out of the folder of images", where=f"image '{name}'", mend=mend)
    if not resolved((folder / parts).parent).is_relative_to(resolved(folder)):
        mend = "copy the images into the folder, or give the folder that holds them"
        raise JudgeError("lies behind a link out of the folder of images", where=str(folder / parts), mend=mend)
    return folder / parts


def read_image(folder: Path, name: str) -> LoadedImage:
    """Read ``folder / name`` as 8-bit RGB, upright (EXIF orientation applied).

    Palettes are looked up, grey becomes RGB, CMYK is converted as Pillow does; of 16 bits the upper 8 count;
    an alpha channel is dropped, as captioners' own preprocessing drops it; of an animation the first frame counts.
    Images of more than ``MAX_PIXELS`` (width x height) are refused as decompression bombs.
    """
    archive, data = find_archive(folder), read_bytes(folder, name)
    pixels, turned = decode(data, where=archive.where(name) if archive else str(folder / name))
    return LoadedImage(name, pixels, turned, digest_of(data))


def read_size(folder: Path, name: str) -> tuple[int, int] | None:
    """Height and width of an image as :func:`read_image` returns it, from the head of its file; None if it has none."""
    from PIL import Image

    archive = find_archive(folder)
    try:
        data = io.BytesIO(archive.read(name)) if archive else open_regular(path_inside(folder, name))
        with data, _limit(lifted=True), Image.open(data, formats=_FORMATS) as image:
            # Pillow has turned the size of a TIFF.
            on_its_side = image.format != "TIFF" and image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE
            return image.size if on_its_side else image.size[::-1]
    except Exception:
        return None


def read_bytes(folder: Path, name: str) -> bytes:
    """The file of image ``name``, not decoded; errors are those of :func:`read_image`."""
    archive = find_archive(folder)
    return archive.read(name) if archive else _read_bytes(path_inside(folder, name))


def has_image(folder: Path, name: str) -> bool:
    """Whether image ``name`` is there."""
    archive = find_archive(folder)
    return archive.holds(name) if archive else (folder / name).exists()


def decode(data: bytes, *, where: str) -> tuple[Pixels, bool]:
    """The pixels of a file, and whether EXIF's orientation turned or mirrored them; ``where`` names it in messages."""
    from PIL import Image, UnidentifiedImageError

    if not data:
        raise JudgeError("is empty (0 bytes)", where=where, mend="download it again")
    with explaining("is damaged", where, "download it again"):  # Pillow's readers raise many kinds of errors.
        try:
            with _limit(lifted=True):
                image = Image.open(io.BytesIO(data), formats=_FORMATS)
        except (UnidentifiedImageError, ModuleNotFoundError):  # Ultralytics makes Pillow look for a reader of HEIF.
            raise JudgeError("is not an image", where=where, mend=_NOT_AN_IMAGE) from None
        with image:
            return _decode(image, data, where)


def _decode(image: Image, data: bytes, where: str) -> tuple[Pixels, bool]:
    from PIL import ImageOps

    if image.width * image.height > MAX_PIXELS:
        what = f"has {image.width} x {image.height} pixels, over the limit of {MAX_PIXELS:,}"
        raise JudgeError(what, where=where, mend="make it smaller")
    # Broken downloads fill up files with zeros.
    if image.format == "JPEG" and data.endswith(b"\0\0") and not data.rstrip(b"\0").endswith(b"\xff\xd9"):
        raise JudgeError("is truncated", where=where, mend="download it again")
    turned = image.getexif().get(_ORIENTATION, 1) in _TURNED  # Before pixels are read: Pillow turns a TIFF as it does.
    # For a TIFF, Pillow also checks the size of its tiles as it decodes.
    with _limit(lifted=False) if image.format == "TIFF" else nullcontext():
        upright = ImageOps.exif_transpose(image)
    # Mode "I" holds 16 bits in 32, from older versions of Pillow; or 32, from TIFF.
    if upright.mode == "F" or (upright.mode == "I" and image.format == "TIFF"):
        what = f"has {'floating-point' if upright.mode == 'F' else '32-bit'} pixels, whose range is unknown"
        raise JudgeError(what, where=where, mend="save it with 8 or 16 bits a channel")
    if upright.mode.startswith("I"):
        grey = np.asarray(upright).astype(np.int64)
        return np.repeat((grey >> 8).astype(np.uint8)[:, :, None], 3, axis=2), turned
    # Pillow would warn that a palette's several transparent colours are lost; this is intended.
    upright.info.pop("transparency", None)
    return np.asarray(upright.convert("RGB")), turned


def encode(pixels: Pixels) -> bytes:
    """``pixels``, [H, W, 3] RGB, as PNG, with OpenCV's own settings, its quickest. Sides over a million are refused."""
    import cv2

    done, data = cv2.imencode(".png", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
    if not done:
        what = f"an image of {pixels.shape[1]} x {pixels.shape[0]} does not fit into PNG"
        raise JudgeError(what, mend="leave it out, or make it smaller")
    return bytes(data)


def read_mask(path: Path) -> npt.NDArray[np.int64]:
    """The values of a mask file, [H, W]: grey levels, or colours as 0xRRGGBB; an alpha channel is dropped."""
    import cv2

    pixels = cv2.imdecode(np.frombuffer(_read_bytes(path), dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise JudgeError("is not an image", where=str(path), mend="save the mask as PNG again")
    blue, green, red = ((pixels[..., channel] if pixels.ndim > 2 else pixels).astype(np.int64) for channel in range(3))
    return np.where((blue == green) & (green == red), blue, (red << 16) + (green << 8) + blue)


def locate(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Name in a file -> the image's name in ``folder``, for images that lie in another place below it.

    An image is found by the last part of its name, or its number: "000000000139.jpg" in "val2017/000000000139.jpg".
    """

    def last_part(name: str) -> str:
        last = PurePosixPath(name.replace("\\", "/")).name
        return usable_id(last) or last

    absent = [name for name in names if not has_image(folder, name)]
    below: dict[str, list[str]] = {}
    for name in list_images(folder) if absent else ():
        below.setdefault(last_part(name), []).append(name)
    found = {name: several for name in absent if (several := below.get(last_part(name)))}
    for name, several in found.items():
        if len(several) > 1:
            what = f"image '{name}' may be {several[0]} or {several[1]}"
            raise JudgeError(what, where=f"--images {folder}", mend="give the folder that the images lie in")
    return {name: several[0] for name, several in found.items()}


def _read_bytes(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            PICTURE.refuse(os.fstat(file.fileno()).st_size, str(path), instead=_NOT_AN_IMAGE)
            return file.read()
    except FileNotFoundError:
        raise JudgeError("no such image", where=str(path), mend="check --images, or download it") from None
    except OSError as error:  # A folder, a pipe or a device among them.
        raise JudgeError(f"cannot be read ({error.strerror})", where=str(path), mend=_NOT_AN_IMAGE) from error


_LIMIT = threading.Lock()


@contextmanager
def _limit(*, lifted: bool) -> Iterator[None]:
    """Lift Pillow's limit of pixels, a global constant, for one thread at a time; ours is ``MAX_PIXELS``."""
    from PIL import Image

    with _LIMIT:
        limit = Image.MAX_IMAGE_PIXELS
        Image.MAX_IMAGE_PIXELS = None if lifted else limit
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit
