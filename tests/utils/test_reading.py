"""Files that are read: pipes and devices are refused at once; YAML, and the limits on what a file may hold."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from helpers import fault_of, judge
from hypothesis import given
from hypothesis import strategies as st

from judge.commands.evaluate import RunConfig
from judge.config import make_config, read_settings
from judge.corpus.shards import find_shards, read_shards
from judge.errors import JudgeError
from judge.masking.detectors import read_weights
from judge.report.saved_run import read_run
from judge.utils.outputs import read_manifest
from judge.utils.reading import LIMITS, NotRegularError, open_regular, parse_yaml, read_bytes, read_yaml, refuse_large

# Each line stands for nine times what the one before it stands for.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefghi", "bcdefghij", strict=True)
)
REFUSED = {
    "twice": ("a: 1\nb:\n  c: 1\n  c: 2", "key 'c' is given twice on line 4"),
    "twice as values": ("{yes: 1, true: 2}", "key 'true' is given twice on line 1"),
    # PyYAML 6.0.4's own limit, or, before it, ours.
    "very deep": ("[" * 100_000, "on line 1"),
    "NUL": ('a: "x\\0y"', "a character that no text may hold on line 1"),
    "surrogate": ('a: "\\ud800"', "invalid Unicode character"),
    "control": ("\x00", "not allowed"),
    "object": ("a: !!python/object/apply:os.system [x]", "could not determine a constructor"),
    "merge": ("a: {<<: {b: 1}}", "could not determine a constructor"),
    "list as key": ("? [a, b]\n: c", "a key is a list or a mapping"),
    "two documents": ("a: 1\n---\nb: 2", "another document"),
    "number": ("a: !!int x", "invalid literal"),
}


OVER = {
    "bomb": (BOMB, "has over 500,000 values, repetitions by aliases included (line 1)", "JUDGE_NO_LIMITS=1"),
    "circle": ("a: &a [*a]", "has over 40 nested lists or mappings (line 1)", "JUDGE_NO_LIMITS=1"),
    "deep": ("[" * 100 + "]" * 100, "has over 40 nested lists or mappings (line 1)", "JUDGE_NO_LIMITS=1"),
    "deep block": ("- " * 3000 + "x", "has over 40 nested lists or mappings (line 1)", "JUDGE_NO_LIMITS=1"),
    "digits": (f"a: {'9' * 6000}", "holds a number of over 4,300 digits", "PYTHONINTMAXSTRDIGITS"),
    "hexadecimal": (f"a: 0x{'f' * 6000}", "holds a number of over 4,300 digits", "PYTHONINTMAXSTRDIGITS"),
}


@pytest.mark.parametrize("name", OVER)
def test_a_limit_names_the_variable_that_lifts_it(name: str) -> None:
    text, message, variable = OVER[name]
    line = fault_of(parse_yaml, text, where="f.yaml", mend="write 'a: 1'")
    assert line.startswith(f"f.yaml: {message}. ")
    assert f"set the environment variable {variable}" in line


def test_one_variable_lifts_all_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    with pytest.raises(JudgeError, match="JUDGE_NO_LIMITS=1"):
        read_bytes(tmp_path / "x", 4)
    monkeypatch.setenv("JUDGE_NO_LIMITS", "1")
    assert parse_yaml("[" * 100 + "]" * 100, where="", mend="")
    assert read_bytes(tmp_path / "x") == b"12345"
    assert all(limit.value() > 2**40 for limit in LIMITS)
    refuse_large(2**45, "x", packed=True)


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


def test_dates_are_texts_and_anchors_serve() -> None:
    text = "a: 2001-01-01\nb: 2001-99-99\nc: &c {d: 1}\ne: *c\nf: no\n"
    found = {"a": "2001-01-01", "b": "2001-99-99", "c": {"d": 1}, "e": {"d": 1}, "f": False}
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


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "settings": ("x.yaml", read_settings),
    "weights": ("x.safetensors", read_weights),
    "run": ("metrics.json", lambda path: read_run(path.parent)),
    "shard": ("0.tar", lambda path: read_shards(path.parent, find_shards(path.parent))),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_at_once(name: str, tmp_path: Path) -> None:
    file, read = READERS[name]
    os.mkfifo(tmp_path / file)
    begun = time.monotonic()
    assert "regular file" in fault_of(read, tmp_path / file)
    assert time.monotonic() - begun < 5


def test_a_manifest_that_is_a_pipe_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".caption-judge")
    assert read_manifest(tmp_path) is None


def test_devices_and_folders_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(NotRegularError):
        open_regular(Path("/dev/zero"))
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


@pytest.mark.parametrize("settings", [{"out": Path("o\udcff")}, {"captions": "m\udcff.json"}, {"out": "o\udcff"}])
def test_names_that_are_not_utf_8_are_refused_first(settings: dict[str, object]) -> None:
    line = fault_of(make_config, {"human": "a.json", **settings}, RunConfig)
    assert "is not UTF-8. Rename it" in line


@pytest.mark.parametrize("command", ["report o", "compare a b --out o", "data show o", "demo --out o"])
def test_commands_without_settings_refuse_such_names_too(command: str) -> None:
    done = judge(*(word + "\udcff" * (word == "o") for word in command.split()))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("' is not UTF-8. Rename it, or name a place without such bytes.\n")
