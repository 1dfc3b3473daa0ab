"""Images are read right, or refused in one line; nothing outside the folder is read; nothing is written with loss."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from helpers import one_line
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from judge.errors import JudgeError
from judge.masking.images import MAX_PIXELS, decode, encode, list_images, read_image, read_size

Array = np.ndarray
RNG = np.random.default_rng(0)
COLOURS = RNG.integers(0, 256, (13, 21, 3), dtype=np.uint8)
GREY = RNG.integers(0, 256, (13, 21), dtype=np.uint8)
DEEP = RNG.integers(0, 65536, (13, 21), dtype=np.uint16)
PALETTE = RNG.integers(0, 256, (256, 3), dtype=np.uint8)
SMOOTH = cv2.resize(COLOURS, (64, 40), interpolation=cv2.INTER_CUBIC)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.copy().save(file, kind, **options)  # type: ignore[arg-type]
    return file.getvalue()


def read(data: bytes, **options: int) -> Array:
    pixels, _ = decode(data, where="x", **options)
    assert (pixels.dtype, pixels.shape[2:]) == (np.uint8, (3,))
    return pixels


def pillow(data: bytes) -> Array:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def three(grey: Array) -> Array:
    return np.stack([grey, grey, grey], axis=2)


def refuse(data: bytes, message: str, **options: int) -> None:
    with one_line(message):
        read(data, **options)


# Orientation n means: "row 0 of what is stored is the ... side of what was seen" (EXIF 2.3, tag 274).
UPRIGHT: dict[int, Callable[[Array], Array]] = {
    1: lambda stored: stored,
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.transpose(1, 0, 2),
    6: lambda stored: stored[::-1].transpose(1, 0, 2),  # A quarter turn clockwise.
    7: lambda stored: stored[::-1, ::-1].transpose(1, 0, 2),
    8: lambda stored: stored.transpose(1, 0, 2)[::-1],  # A quarter turn counterclockwise.
    9: lambda stored: stored,  # No orientation.
}


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize(("mode", "kind"), [("RGB", "JPEG"), ("P", "PNG"), ("RGBA", "WEBP"), ("RGB", "TIFF")])
def test_exif_orientation(orientation: int, mode: str, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(SMOOTH).convert(mode)
    data = saved(stored, kind, exif=exif)
    np.testing.assert_array_equal(read(data), UPRIGHT[orientation](pillow(saved(stored, kind))))
    assert decode(data, where="x")[1] == (1 < orientation < 9)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_sizes_are_those_of_the_upright_image(kind: str, tmp_path: Path) -> None:
    """By the head of a file, for every orientation; 9 and more are none."""
    for orientation in range(12):
        exif = Image.Exif()
        exif[0x0112] = orientation
        (tmp_path / "x").write_bytes(saved(Image.fromarray(SMOOTH), kind, exif=exif))
        assert (
            read_size(tmp_path, "x") == read_image(tmp_path, "x").size == (64, 40)[:: 1 if 4 < orientation < 9 else -1]
        )
    for name, (data, pixels) in FORMATS.items():
        (tmp_path / "x").write_bytes(data)
        assert read_size(tmp_path, "x") == pixels.shape[:2], name
    assert read_size(tmp_path, "gone") is None


def palette_image(indices: Array) -> Image.Image:
    image = Image.frombytes("P", indices.shape[::-1], indices.tobytes())
    image.putpalette(PALETTE.tobytes())
    return image


def by_opencv(pixels: Array, suffix: str) -> bytes:
    """BGR; Pillow has no 16-bit colours."""
    return cv2.imencode(suffix, np.ascontiguousarray(pixels))[1].tobytes()


DEEP_COLOURS = RNG.integers(0, 65536, (13, 21, 3), dtype=np.uint16)
BITS = three(np.where(GREY > 128, 255, 0).astype(np.uint8))
FULL, ONE_BIT, PALETTES = Image.fromarray(COLOURS), Image.fromarray(GREY > 128), palette_image(GREY)
RGBA = Image.fromarray(np.dstack([COLOURS, GREY]))
FORMATS: dict[str, tuple[bytes, Array]] = {
    "png, grey": (saved(Image.fromarray(GREY), "PNG"), three(GREY)),
    "png, colours and alpha": (saved(RGBA, "PNG"), COLOURS),
    "png, palette, all transparent": (saved(PALETTES, "PNG", transparency=bytes(range(256))), PALETTE[GREY]),
    "png, 16 bits, grey": (by_opencv(DEEP, ".png"), three((DEEP // 256).astype(np.uint8))),
    "tiff, deflated": (saved(FULL, "TIFF", compression="tiff_deflate"), COLOURS),
    "gif": (saved(PALETTES, "GIF"), PALETTE[GREY]),
    "gif, animated": (saved(PALETTES, "GIF", save_all=True, append_images=[palette_image(GREY[::-1])]), PALETTE[GREY]),
    "webp": (saved(FULL, "WEBP", lossless=True), COLOURS),
    "webp, alpha": (saved(RGBA, "WEBP", lossless=True, exact=True), COLOURS),
    "png, 16 bits, colours": (by_opencv(DEEP_COLOURS[:, :, ::-1], ".png"), (DEEP_COLOURS >> 8).astype(np.uint8)),
    "tiff, 16 bits, colours": (by_opencv(DEEP_COLOURS[:, :, ::-1], ".tiff"), (DEEP_COLOURS >> 8).astype(np.uint8)),
    **{kind: (saved(FULL, kind), COLOURS) for kind in ("png", "tiff", "bmp")},
    **{f"{kind}, palette": (saved(PALETTES, kind), PALETTE[GREY]) for kind in ("png", "tiff", "bmp")},
    **{f"{kind}, 1 bit": (saved(ONE_BIT, kind), BITS) for kind in ("png", "tiff", "bmp")},
}


@pytest.mark.parametrize("name", FORMATS)
def test_lossless_formats_are_read_to_the_last_bit(name: str) -> None:
    data, expected = FORMATS[name]
    np.testing.assert_array_equal(read(data), expected)


def test_jpeg_is_what_pillow_reads(shared: Path) -> None:
    """Whatever follows the image."""
    files = [path.read_bytes() for path in sorted((shared / "coco-mini" / "val2017").glob("*.jpg"))[:6]]
    files.append(saved(Image.fromarray(SMOOTH), "MPO", save_all=True, append_images=[FULL.copy()]))
    whole = saved(Image.fromarray(SMOOTH), "JPEG")
    files += [whole + tail for tail in (b"\0" * 10, b"motion picture", b"\xff\xda not a scan")]
    for data in files:
        np.testing.assert_array_equal(read(data), pillow(data))


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("mode", ["RGB", "CMYK"])
def test_a_truncated_jpeg_is_refused_wherever_it_ends(*, progressive: bool, mode: str) -> None:
    """The end mark of a thumbnail, which EXIF keeps in the header, must not count as the image's own."""
    noise = Image.fromarray(RNG.integers(0, 256, (64, 96, 3), dtype=np.uint8)).convert(mode)
    plain = saved(noise, "JPEG", progressive=progressive)
    block = Image.Exif().tobytes() + saved(Image.fromarray(SMOOTH[::4, ::4].copy()), "JPEG")
    for data in (plain, plain[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + plain[2:]):
        assert read(data).shape == (64, 96, 3)
        for end in [1, 2, 3, *range(20, len(data) - 64, 397)]:
            refuse(data[:end], "")
        # With zeros in place of the rest, as some downloads leave it, which Pillow reads as pixels.
        for end in range(data.rfind(b"\xff\xda") + 2, len(data), 397):
            refuse(data[:end] + bytes(len(data) - end), "is truncated. Download it again.")


def only_with_heif(*arguments: object, **options: object) -> None:
    """What ``import ultralytics`` makes of ``Image.open``, for a file that Pillow does not know."""
    raise ModuleNotFoundError("No module named 'pi_heif'")


def test_other_files_that_are_no_images_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("png", "gif", "bmp", "tiff, deflated", "webp"):
        data = FORMATS[name][0]
        for end in (1, 10, len(data) // 2):
            refuse(data[:end], "")
    for data in (b"hello", b"<svg/>", b"\xff\xd8", b"\x89PNG\r\n\x1a\n"):
        refuse(data, "")
    for kind in ("PPM", "ICO", "TGA"):
        refuse(saved(FULL, kind), "is not an image")
    with monkeypatch.context() as patch:
        patch.setattr(Image, "open", only_with_heif)
        refuse(b"hello", "is not an image")
    refuse(saved(Image.fromarray(GREY.astype(np.float32)), "TIFF"), "floating-point")


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


def test_decompression_bombs_are_refused_before_they_are_decoded() -> None:
    jpeg = saved(Image.fromarray(SMOOTH), "JPEG")
    place = jpeg.index(b"\xff\xc0")
    for data in (
        png_header(50_000, 50_000),
        jpeg[: place + 5] + struct.pack(">HH", 65_000, 65_000) + jpeg[place + 9 :],
        b"GIF89a" + struct.pack("<HH", 65_000, 65_000) + FORMATS["gif"][0][10:],
        FORMATS["bmp"][0][:18] + struct.pack("<ii", 60_000, 60_000) + FORMATS["bmp"][0][26:],
    ):
        refuse(data, f"over the limit of {MAX_PIXELS:,}. Make it smaller.")


@pytest.mark.parametrize("name", ["png", "gif", "webp", "tiff"])
def test_the_limit_of_pixels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, expected = FORMATS[name]
    monkeypatch.setattr("judge.masking.images.MAX_PIXELS", 21 * 13)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 21 * 13)  # Pillow warns above it, and fails above twice as many.
    np.testing.assert_array_equal(read(data), expected)
    monkeypatch.setattr("judge.masking.images.MAX_PIXELS", 21 * 13 - 1)
    refuse(data, "has 21 x 13 pixels, over the limit of 272")
    assert Image.MAX_IMAGE_PIXELS == 21 * 13


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)).flatmap(lambda size: arrays.arrays(np.uint8, size)),
    st.sampled_from([lambda p: p, np.asfortranarray, lambda p: p[::-1, ::-1], lambda p: p.transpose(1, 0, 2)]),
)
def test_images_are_written_without_loss(pixels: Array, layout: Callable[[Array], Array]) -> None:
    pixels = layout(pixels)
    data = encode(pixels)
    np.testing.assert_array_equal(pillow(data), pixels)
    np.testing.assert_array_equal(read(data), pixels)


def test_images_too_wide_for_png_are_refused() -> None:
    with one_line("an image of 1000001 x 1 does not fit into PNG. Leave it out"):
        encode(np.zeros((1, 1_000_001, 3), dtype=np.uint8))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images, a file beside their folder, and links of every kind."""
    folder = tmp_path / "images"
    for path in (folder / "a.png", folder / "sub" / "b.PNG", tmp_path / "secret.png"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(FORMATS["png"][0])
    links: dict[str, str | Path] = {"file.png": tmp_path / "secret.png", "twice.png": folder / "file.png"}
    links |= {"relative.png": "../secret.png", "device.png": "/dev/zero", "up": tmp_path, "again.png": "a.png"}
    for link, target in (links | {"dangling.png": "gone.png", "loop.png": "loop.png"}).items():
        (folder / link).symlink_to(target)
    return folder


OUTSIDE = ["../secret.png", "sub/../../secret.png", "sub/../a.png", "/etc/passwd", "//etc/passwd", ".."]
OUTSIDE += ["..\\secret.png", "C:\\secret.png", "C:secret.png", "\\\\server\\share\\secret.png"]


@pytest.mark.parametrize(("names", "message"), [
    (OUTSIDE, "leads out of the folder of images"),
    (["", ".", "./", "a\0.png", "\ud800.png"], "is no name of a file"),
    (["up/secret.png", "up/images/a.png/../../secret.png"], "out of the folder of images"),
    (["device.png"], "cannot be read (it is not a regular file)"),
    (["text.png"], "is not an image"),
    (["loop.png"], "link"),
    (["dangling.png", "gone.png"], "no such image. Check --images, or download it."),
    (["a.png/b.png"], "cannot be read (Not a directory)"),
    (["x" * 300 + ".png"], "cannot be read (File name too long)"),
    (["pipe.png"], "cannot be read (it is not a regular file)"),
    (["sub"], "cannot be read ("),
])  # fmt: skip
def test_names_that_are_refused(folder: Path, names: list[str], message: str) -> None:
    os.mkfifo(folder / "pipe.png")
    (folder / "text.png").symlink_to(Path(__file__))
    for name in names:
        with one_line(message):
            read_image(folder, name)
    assert all(read_image(folder, name).name == name for name in ("./a.png", "sub\\b.PNG", "again.png"))


def test_a_folder_of_links_to_files(folder: Path) -> None:
    """As the caches of Hugging Face, git-annex and DVC hold data sets: files without suffix, in a folder elsewhere."""
    blobs = folder.parent / "blobs"
    blobs.mkdir()
    snapshot = folder.parent / "snapshots" / "main" / "val"
    snapshot.mkdir(parents=True)
    (blobs / "0a1b2c").write_bytes(FORMATS["png"][0])
    (snapshot / "1.png").symlink_to("../../../blobs/0a1b2c")
    assert list_images(snapshot.parent) == ["val/1.png"]
    np.testing.assert_array_equal(read_image(snapshot.parent, "val/1.png").pixels, COLOURS)
    for name in ("file.png", "twice.png", "relative.png"):
        np.testing.assert_array_equal(read_image(folder, name).pixels, COLOURS)


def test_the_images_of_a_folder(folder: Path) -> None:
    for name in ("c.JPG", ".hidden.png", "notes.txt", "g.gif", "no_suffix"):
        (folder / name).write_bytes(b"")
    for link in [path for path in folder.iterdir() if path.is_symlink()]:
        link.unlink()
    (folder / "folder.png").mkdir()
    (folder / "loop").symlink_to(folder)
    expected = ["a.png", "c.JPG", "g.gif", "sub/b.PNG"]
    assert list_images(folder) == expected
    (folder / "contact_sheet.png").write_bytes(b"")
    assert len(list_images(folder)) == 5
    (folder / "masks.parquet").write_bytes(b"")  # Then people are visible on the sheet.
    assert list_images(folder) == expected
    for place, message in (("folder.png", "holds no image"), ("gone", "is no folder"), ("a.png", "is no folder")):
        with pytest.raises(JudgeError, match=message):
            list_images(folder / place)
