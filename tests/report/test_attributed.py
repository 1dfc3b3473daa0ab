"""Folders of ``judge attribute`` on a report page: read, or refused in one line; maps are pictures."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge.commands.report import Shown, _attributed
from judge.errors import JudgeError
from judge.report.attributed import read_attributed

ROW = {
    "judge": "sat<b>", "weights": "w", "masking": "none", "method": "grad-cam", "images": 3, "without": 0,
    "score": 0.5, "ci": [0.1, 0.2], "level": 0.95, "area_outside": 0.3,
}  # fmt: skip
HEAD = "judge,weights,method,image_id,index,place,word,contribution,explained,probability,base\n"


def png(side: int) -> bytes:
    """A grey picture that says that it has this side, with the pixels of one of 20."""

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


def test_a_page_without_pictures_has_no_maps(tmp_path: Path) -> None:
    write(tmp_path, {}, "a,w,m,1,0,0,dog,0.5,male,0.3,0\n")
    found = [_attributed(Shown(attributions=tmp_path, images=images)) for images in (True, False)]
    assert [len(one.maps) for one in found if one] == [1, 0]
    assert [len(one.captions) for one in found if one] == [1, 1]
    assert _attributed(Shown()) is None


@pytest.mark.parametrize(
    "fault",
    [
        {"row": {"score": "<b>"}},
        {"row": {"score": float("nan")}},
        {"row": {"images": float("inf")}},
        {"words": "a,w,m,1,0,0,dog,inf,male,0.3,0\n"},
        {"words": "a,w,m,1,0,0,dog,much,male,0.3,0\n"},
        {"words": "a,w,m,1,0,0,dog,1,male,x,0\n"},
        {"picture": b"GIF89a"},
        {"picture": png(300)},
        {"picture": png(12_000)},
        {"picture": png(60_000)},
    ],
    ids=str,
)
def test_what_is_no_attribution_is_refused(tmp_path: Path, fault: dict[str, Any]) -> None:
    write(tmp_path, **{"row": {}, **fault})
    with pytest.raises(JudgeError, match="no attributions can be read there"):
        read_attributed(tmp_path)
