"""Pickles of plain values are read; a pickle that asks for anything else is refused before it runs."""

from __future__ import annotations

import datetime
import io
import os
import pickle
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import fault_of

from judge.corpus.captions import ReadOptions, read_captions
from judge.corpus.labels import read_labels
from judge.corpus.tables import load_pickle
from judge.errors import JudgeError

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

# The shape of LIC's release files.
LIC = [
    {"img_id": 522418, "bb_gender": "Female", "bb_skin": "Light", "split": "test", "ratio": 0.25, "race": None},
    {"img_id": 139, "bb_gender": "Male", "bb_skin": "Both", "split": "train", "ratio": 0.5, "race": None},
]
LIC[0] |= {"rmdup_object_list": ["person", "cake"], "pred": "a woman cutting a cake"}
LIC[0] |= {"caption_list": ["a woman cuts a cake", "a lady with a knife"]}
LIC[1] |= {"rmdup_object_list": [], "caption_list": ["a man stands"], "pred": "a man standing"}


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lic_pickle_holds_both_sides_and_labels(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "lic.pkl"
    path.write_bytes(pickle.dumps(LIC, protocol=protocol))
    human = read_captions(path, side="human")
    assert human.by_image == {"522418": ("a woman cuts a cake", "a lady with a knife"), "139": ("a man stands",)}
    generated = read_captions(path, side="generated")
    assert (generated.name, generated.by_image["139"]) == ("lic", ("a man standing",))
    assert read_captions(path, ReadOptions(split="test"), side="generated").by_image.keys() == {"522418"}
    assert read_labels(path).by_image == {"522418": "Female", "139": "Male"}
    skin = read_labels(path, attribute="skin")
    assert (skin.by_image, skin.ignored) == ({"522418": "Light"}, {"Both": 1})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_malicious_pickle_is_refused_and_does_not_run(tmp_path: Path, protocol: int) -> None:
    target, path = tmp_path / "ran", tmp_path / "evil.pkl"
    path.write_bytes(pickle.dumps(Evil(target), protocol=protocol))
    told = fault_of(read_captions, path, side="generated")
    assert not target.exists()
    assert f"pickle holds the class '{os.system.__module__}.system', which is refused" in told
    assert "json.dump(data, file, default=str)" in told
    pickle.loads(path.read_bytes())  # the plain loader does run it, so the test above is worth something
    assert target.exists()
    target.unlink()
    inside = pickle.dumps([{"img_id": 1, "pred": Evil(target)}], protocol=protocol)
    with pytest.raises(JudgeError, match="system', which is refused"):
        load_pickle(inside, source="x.pkl")
    assert not target.exists()


def test_classes_persistent_ids_extensions_and_buffers_are_refused() -> None:
    for value in (np.int64(3), np.zeros(2), datetime.date(2020, 1, 1), io.BytesIO):
        with pytest.raises(JudgeError, match=r"^x\.pkl: pickle holds the class '"):
            load_pickle(pickle.dumps([value], protocol=2), source="x.pkl")
    huge = b"\x80\x05\x96" + struct.pack("<Q", 2**40)
    for data in (b"Pabc\n.", b"\x80\x02K\x01Q.", b"\x80\x02\x82\x01.", b"\x80\x05\x97.", huge):
        with pytest.raises(JudgeError, match="which is refused"):
            load_pickle(data, source="x.pkl")
    # The C unpickler would size its memo for this number: 64 GB.
    assert load_pickle(b"\x80\x02]r\xff\xff\xff\xff.", source="x.pkl") == []


def test_truncated_anywhere() -> None:
    for protocol in PROTOCOLS:
        data = pickle.dumps(LIC, protocol=protocol)
        for length in range(2, len(data), 7):
            with pytest.raises(JudgeError, match="pickle cannot be read"):
                load_pickle(data[:length], source="x.pkl")


def test_integers_as_keys_and_text_of_python_2(tmp_path: Path) -> None:
    # What cPickle of Python 2 wrote for [{'img_id': 1, 'pred': 'caf\xc3\xa9'}], bytes in UTF-8.
    old = b"\x80\x02]q\x01}q\x02(U\x06img_idq\x03K\x01U\x04predq\x04U\x05caf\xc3\xa9q\x05ua."
    new = pickle.dumps({139: "a man", 285: "a bear"})
    for data, expected in ((old, {"1": ("café",)}), (new, {"139": ("a man",), "285": ("a bear",)})):
        (tmp_path / "captions.p").write_bytes(data)
        assert read_captions(tmp_path / "captions.p", side="generated").by_image == expected


def _text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


BOMBS = {
    "pairs as a key": (b"}(K\x01K\x02\x86" + _text("a man") + b"u.", "builds objects, tuples or sets"),
    "colliding keys": (b"}\x8a\x14" + b"\x01" * 20 + b"K\x01s.", "a number of over 64 bits"),
    "repeats": (b"}" + _text("a") + b"]q\x00" + b"h\x00a" * 45 + b"s.", "repeats a list or dict"),
    "itself": (b"]q\x00h\x00a.", "repeats a list or dict"),
    "digits": (b"]L0x" + b"f" * 6000 + b"L\na.", "a number of over 64 bits"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_few_bytes_that_stand_for_many_are_refused_at_once(name: str) -> None:
    data, message = BOMBS[name]
    begun = time.process_time()
    with pytest.raises(JudgeError, match=message):
        load_pickle(b"\x80\x02" + data, source="x.pkl")
    assert time.process_time() - begun < 5


def test_a_pickle_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judge.utils.reading.memory_limit", lambda: 2**23)
    with pytest.raises(JudgeError, match="of memory when it is read"):
        load_pickle(b"\x80\x02](" + b"]" * 2**18 + b"e.", source="x.pkl")
