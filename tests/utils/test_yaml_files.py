"""YAML of users: what it may say, and what is refused in one line, soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from helpers import fault_of
from hypothesis import given
from hypothesis import strategies as st

from judge.utils.yaml_files import MAX_BYTES, MAX_DEPTH, parse_yaml, read_yaml

# Each line stands for nine times what the one before it stands for.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefghi", "bcdefghij", strict=True)
)
REFUSED = {
    "bomb": (BOMB, "more than 500,000 values, those counted that aliases repeat on line 6"),
    "circle": ("a: &a [*a]", "'*a' stands in what it repeats on line 1"),
    "twice": ("a: 1\nb:\n  c: 1\n  c: 2", "key 'c' is given twice on line 4"),
    "digits": ("a: " + "9" * 5000, "5000 digits"),
    "deep": ("[" * 100 + "]" * 100, f"more than {MAX_DEPTH} lists or mappings in each other on line 1"),
    # PyYAML 6.0.4's own limit, or, before it, ours.
    "very deep": ("[" * 100_000, "on line 1"),
    "deep block": ("- " * 3000 + "x", f"more than {MAX_DEPTH} lists"),
    "NUL": ('a: "x\\0y"', "a character that no text may hold on line 1"),
    "surrogate": ('a: "\\ud800"', "invalid Unicode character"),
    "control": ("\x00", "not allowed"),
    "object": ("a: !!python/object/apply:os.system [x]", "could not determine a constructor"),
    "no date": ("a: !!timestamp 2001-99-99", "month must be in 1..12"),
    "list as key": ("? [a, b]\n: c", "unhashable key"),
    "two documents": ("a: 1\n---\nb: 2", "another document"),
    "number": ("a: !!int x", "invalid literal"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line_at_once(name: str) -> None:
    text, message = REFUSED[name]
    begun = time.process_time()
    line = fault_of(parse_yaml, text, where="f.yaml", mend="write 'a: 1'")
    assert line.startswith("f.yaml: not YAML that can be read (")
    assert message in line
    assert line.endswith("Write 'a: 1'.")
    assert time.process_time() - begun < 1


def test_dates_are_texts_and_anchors_serve() -> None:
    text = "a: 2001-01-01\nb: 2001-99-99\nc: &c {d: 1}\ne:\n  <<: *c\n  f: no\n"
    found = {"a": "2001-01-01", "b": "2001-99-99", "c": {"d": 1}, "e": {"d": 1, "f": False}}
    assert parse_yaml(text, where="", mend="") == found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("aé:# -'\"\n", max_size=8),
    lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text("ab", min_size=1, max_size=3), of, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_what_pyyaml_writes_is_read_back(value: object) -> None:
    assert parse_yaml(yaml.safe_dump(value, allow_unicode=True), where="", mend="") == value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b" " * (MAX_BYTES + 1), "has 4,194,305 bytes, over the limit of 4,194,304"),
        (b"a: \xff", "not UTF-8 (at byte 3)"),
        (None, "no such file"),
    ],
)
def test_files(data: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    if data is not None:
        path.write_bytes(data)
    assert message in fault_of(read_yaml, path, mend="x")
    assert "File name too long" in fault_of(read_yaml, tmp_path / ("x" * 300 + ".yaml"), mend="x")
    assert "null" in fault_of(read_yaml, Path("a\0b"), mend="x")
