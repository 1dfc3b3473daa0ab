"""Attributions: shaded captions on a terminal, and folders of ``judge attribute`` on a report page."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from judge.commands.report import _attributed
from judge.errors import JudgeError
from judge.report.attribution import FOR, print_shaded, read_attribution, shade, shaded

ROW = {
    "judge": "sat<b>", "weights": "w", "masking": "none", "method": "grad-cam", "images": 3, "without": 0,
    "score": 0.5, "ci": [0.1, 0.2], "level": 0.95, "area_outside": 0.3,
}  # fmt: skip
HEAD = "judge,weights,method,image_id,index,place,word,contribution,explained,probability,base\n"


def png(side: int) -> bytes:
    """A grey PNG whose header claims this side, with the pixels of one of 20."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(20 * 21))) + chunk(b"IEND", b"")


def write(folder: Path, row: Mapping[str, Any], words: str = "", picture: bytes = b"") -> Path:
    (folder / "maps").mkdir()
    (folder / "attribution.json").write_text(json.dumps({"judges": [], "pictures": [{**ROW, **row}]}))
    (folder / "attribute.yaml").write_text("show_people: false\n")
    (folder / "maps" / "001.png").write_bytes(picture or png(20))
    if words:
        (folder / "words.csv").write_text(HEAD + words)
    return folder


def test_a_page_without_images_has_no_maps(tmp_path: Path) -> None:
    write(tmp_path, {}, "a,w,m,1,0,0,dog,0.5,male,0.3,0\n")
    found = [_attributed(tmp_path, images=images) for images in (True, False)]
    assert [len(one.maps) for one in found if one] == [1, 0]
    assert [len(one.captions) for one in found if one] == [1, 1]
    assert _attributed(None, images=True) is None


@pytest.mark.parametrize(
    "fault",
    [
        {"row": {"score": "<b>"}},
        {"row": {"score": float("nan")}},
        {"words": "a,w,m,1,0,0,dog,inf,male,0.3,0\n"},
        {"words": "a,w,m,1,0,0,dog,1,male,x,0\n"},
        {"picture": b"GIF89a"},
        {"picture": png(60_000)},
    ],
    ids=str,
)
def test_damaged_attributions_are_refused(tmp_path: Path, fault: dict[str, Any]) -> None:
    write(tmp_path, **{"row": {}, **fault})
    with pytest.raises(JudgeError, match="no attributions can be read there"):
        read_attribution(tmp_path)


@pytest.mark.parametrize("terminal", [True, False])
def test_numbers_stand_beside_colours(terminal: bool) -> None:
    """A pipe shows numbers alone; words with hardly any contribution have neither."""
    text = io.StringIO()
    system = "truecolor" if terminal else None
    console = Console(file=text, force_terminal=terminal, color_system=system, width=40, highlight=False)
    words, amounts = ("a", "surfboard", "[b]", "of"), (-0.2, 0.812, 0.001, 0.0)
    print_shaded("heading", words, amounts, console)
    found = text.getvalue()
    assert shaded(words, amounts).plain == "a(-0.2) surfboard(+0.81) [b] of"
    if terminal:
        assert f"48;2;{';'.join(map(str, FOR))}m" in found
    else:
        assert found == "heading\n  a(-0.2) surfboard(+0.81) [b] of\n"


def contrast(background: tuple[int, int, int], black: bool) -> float:
    """WCAG 2: of text in black or white."""
    parts = [part / 255 for part in background]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (luminance + 0.05) / 0.05 if black else 1.05 / (luminance + 0.05)


def test_text_is_readable_on_every_shade() -> None:
    assert [shade(strength).split("on ")[1] for strength in (1.0, 0.0)] == [
        f"rgb({','.join(map(str, FOR))})",
        "rgb(255,255,255)",
    ]
    for step in range(-20, 21):
        ink, background = shade(step / 20).split(" on rgb")
        red, green, blue = map(int, background.strip("()").split(","))
        assert contrast((red, green, blue), ink == "black") >= 4.5, step
