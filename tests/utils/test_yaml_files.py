"""YAML of users: what it may say, and what is refused in one line, soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from helpers import fault_of
from hypothesis import given
from hypothesis import strategies as st

from judge.utils.reading import parse_yaml, read_yaml

# Each line stands for nine times what the one before it stands for.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefghi", "bcdefghij", strict=True)
)
REFUSED = {
    "circle": ("a: &a [*a]", "'*a' stands in what it repeats on line 1"),
    "twice": ("a: 1\nb:\n  c: 1\n  c: 2", "key 'c' is given twice on line 4"),
    "twice as values": ("{yes: 1, true: 2}", "key 'true' is given twice on line 1"),
    # PyYAML 6.0.4's own limit, or, before it, ours.
    "very deep": ("[" * 100_000, "on line 1"),
    "NUL": ('a: "x\\0y"', "a character that no text may hold on line 1"),
    "surrogate": ('a: "\\ud800"', "invalid Unicode character"),
    "control": ("\x00", "not allowed"),
    "object": ("a: !!python/object/apply:os.system [x]", "could not determine a constructor"),
    "no date": ("a: !!timestamp 2001-99-99", "could not determine a constructor"),
    "list as key": ("? [a, b]\n: c", "a key is a list or a mapping"),
    "merged twice": ("<<: {a: b}\n<<: {c: d}", "key '<<' is given twice"),
    "two documents": ("a: 1\n---\nb: 2", "another document"),
    "number": ("a: !!int x", "invalid literal"),
}


OVER = {
    "bomb": (BOMB, "has over 500,000 values, those counted that aliases repeat (line 6)", "JUDGE_READ_VALUES"),
    "deep": ("[" * 100 + "]" * 100, "has over 40 lists or mappings in each other (line 1)", "JUDGE_READ_DEPTH"),
    "deep block": ("- " * 3000 + "x", "has over 40 lists or mappings in each other (line 1)", "JUDGE_READ_DEPTH"),
    "digits": (f"a: {'9' * 6000}", "holds a number of over 4,300 digits", "PYTHONINTMAXSTRDIGITS"),
    "hexadecimal": (f"a: 0x{'f' * 6000}", "holds a number of over 4,300 digits", "PYTHONINTMAXSTRDIGITS"),
}


@pytest.mark.parametrize("name", OVER)
def test_limits_name_the_variable_that_raises_them(name: str) -> None:
    text, message, variable = OVER[name]
    line = fault_of(parse_yaml, text, where="f.yaml", mend="write 'a: 1'")
    assert line.startswith(f"f.yaml: {message}. ")
    assert f"set the environment variable {variable} to more than" in line


def test_limits_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_READ_DEPTH", "100")
    assert parse_yaml("[" * 100 + "]" * 100, where="", mend="")
    monkeypatch.setenv("JUDGE_READ_DEPTH", "deep")
    line = fault_of(parse_yaml, "a: 1", where="", mend="")
    assert line.startswith("JUDGE_READ_DEPTH: 'deep' is no number of lists or mappings in each other. Set it to 80")


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line_at_once(name: str) -> None:
    text, message = REFUSED[name]
    begun = time.process_time()
    line = fault_of(parse_yaml, text, where="f.yaml", mend="write 'a: 1'")
    assert line.startswith("f.yaml: not YAML that can be read (")
    assert message in line
    assert line.endswith("Write 'a: 1'.")
    assert time.process_time() - begun < 1


def test_numbers_to_the_base_of_60_are_texts_at_once() -> None:
    long = "1" + ":1" * 400_000
    begun = time.process_time()
    found = parse_yaml(f"a: {long}\nb: 12:30\nc: 1:30.5\nd: !!int 1:1", where="", mend="")
    assert found == {"a": long, "b": "12:30", "c": "1:30.5", "d": "1:1"}
    assert time.process_time() - begun < 1


def test_what_is_merged_may_be_said_anew() -> None:
    text = "a: {n: &a {<<: &b {x: 1}, x: 2}}\nc: {<<: *a}\n"
    assert parse_yaml(text, where="", mend="") == yaml.safe_load(text)


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
        (b" " * (2**22 + 1), "has over 4,194,304 bytes. Keep captions and labels in files of their own, or set the"),
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
