"""Hostile values in the place of one value, or one key, of a valid file: strategies of hypothesis, a form a format."""

from __future__ import annotations

import csv
import io
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from mutations import places_in

_MARK = "here-it-goes"
_BATCH = 50  # Drawn at a time: what watches an attack counts the time between two inputs.
_DEEP = (30, 45, 500, 990, 5000, 100_000)
_TEXTS = (
    *("", " ", "\0", "a\0b", "\ud83d", "\udcff", "\x1b[2J", "\u202e", "\u2028", "\r", "\n", '"', "'", "\\", "\ufeff"),
    *("=1+1", "../../x", "/etc/passwd", "C:\\x", "nan", "NULL", "yes", "[", "{}", "a,b;c\td", "x" * 60_000, "9" * 5000),
)
TEXTS = st.sampled_from(_TEXTS) | st.text(st.characters(codec=None, categories=("Cc", "Cs", "Cf", "L", "N", "Zl")))
_JSON = (
    *("null", "true", "false", "0", "-0", "-1", "1.5", "1e999", "-1e999", "1e-999", "NaN", "Infinity", "-Infinity"),
    *(f"{2**31}", f"-{2**63}", f"{2**64}", "9" * 400, "9" * 4300, "9" * 5000, "[]", "{}", "[[]]", '[""]', "[null]"),
    *("[" * deep + "]" * deep for deep in _DEEP),
    *('{"a":' * deep + "1" + "}" * deep for deep in _DEEP),
    *('{"a": 1, "a": 2}', '{"": null}', "[1, true, 1.0]", "[" + "0," * 50_000 + "0]", "", "[", "'a'"),
)
_YAML = (
    *(".nan", "-.inf", "~", "yes", "1:30:00", f"0x{'f' * 6000}", f"0b{'1' * 9000}", "1_000", "2001-01-01"),
    *("!!binary aGk=", "!!set {a, b}", "!!int x", "!!float x", "!!omap [a: 1]", "!own x", "!!python/name:os.system"),
    *("&a [*a]", "*none", "{<<: {a: 1}}", "{<<: 1}", "{yes: 1, true: 2}", "{[a]: 1}", "{1: a, 1.0: b}", "? a", "- a"),
    "[&a0 [x], " + ", ".join(f"&a{n + 1} [" + f"*a{n}, " * 9 + "]" for n in range(12)) + "]",
)
_GLOBAL, _ITSELF, _TWICE = b"cos\nsystem\n", b"]q\xf0h\xf0a", b"}(K\x01NK\x01Nu"
_BOMB = b"]q\xf0" + b"".join(b"](" + b"h%c" % (0xF0 - n) * 9 + b"eq%c" % (0xEF - n) for n in range(12))
_PICKLED = (
    *(_GLOBAL, _ITSELF, _TWICE, b"(" + _BOMB + b"l", _GLOBAL + b"X\x02\0\0\0id\x85R", b"\x8a\xff" + b"\x7f" * 255),
    *(b"I" + b"9" * 5000 + b"\n", b"}]Ns", b"}(K\x01\x85NKu", b"X\xff\xff\xff\x7f", b"\x8d" + b"\x7f" * 8),
    *(b"F1e999\n", b"T\x01\0\0\0\xff", b"h\xee"),
    *(b"]" * deep + b"a" * (deep - 1) for deep in _DEEP),
    *(b"}K\x01" * deep + b"N" + b"s" * deep for deep in _DEEP),
    *(b"N" + b"\x85" * deep for deep in _DEEP),
)
_PLAIN = (
    *(None, True, False, -1, 2**31, 2**64, 10**400, 1.5, float("nan"), float("inf"), b"", b"\xff", 1j),
    *([], {}, (), set(), frozenset({1}), [[]], [None], {None: 1}, {(1,): 2}, range(3)),
)


@dataclass(frozen=True)
class Form:
    """A file's value, and how such a value is written.

    Attributes:
        text: how a text is written in it.
        hostile: what may stand in the place of such a text.
        alone: the value that is nothing but a text.
    """

    value: Any
    write: Callable[[Any], bytes]
    text: Callable[[str], bytes]
    hostile: st.SearchStrategy[bytes]
    alone: Callable[[str], Any] = str


def _coded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _json(text: str) -> bytes:
    return json.dumps(text).encode()


def _pickled(value: Any) -> bytes:
    """As part of a pickle: without its beginning and end, and without notes of what it holds."""
    return pickle.dumps(value, 2)[2:-1].partition(b"q\0")[0] if isinstance(value, str) else pickle.dumps(value, 2)[2:-1]


def _lines(value: Any) -> bytes:
    return "".join(f"{json.dumps(line)}\n" for line in value).encode()


def _rows(delimiter: str) -> Callable[[Any], bytes]:
    def write(value: Any) -> bytes:
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(value)
        return _coded(text.getvalue())

    return write


_QUOTED = TEXTS.map(lambda text: _coded('"' + text.replace('"', '""') + '"'))
_AS_JSON = st.sampled_from(_JSON).map(str.encode) | TEXTS.map(_json)
_AS_YAML = st.sampled_from(_YAML).map(str.encode) | _AS_JSON
_AS_CELL = TEXTS.map(_coded) | _QUOTED | st.sampled_from(_JSON).map(str.encode)
_AS_PICKLE = st.sampled_from(_PICKLED) | st.sampled_from(_PLAIN).map(_pickled) | TEXTS.map(_pickled)


def form_of(path: Path) -> Form | None:
    """The form of a valid file; None of a format that holds no texts as they are, such as pictures."""
    data = path.read_bytes()
    if path.suffix in {".yaml", ".yml"}:
        write = lambda value: _coded(yaml.safe_dump(value, sort_keys=False))  # noqa: E731
        return Form(yaml.safe_load(data), write, _coded, _AS_YAML)
    with suppress(ValueError):
        return Form(json.loads(data), lambda value: json.dumps(value).encode(), _json, _AS_JSON)
    with suppress(ValueError):
        return Form(
            [json.loads(line) for line in data.split(b"\n") if line], _lines, _json, _AS_JSON, lambda text: [text]
        )
    with suppress(Exception):
        return Form(pickle.loads(data), lambda value: pickle.dumps(value, 2), _pickled, _AS_PICKLE)
    with suppress(ValueError, StopIteration):
        text = data.decode()
        delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
        if len(rows) > 1 and len(rows[0]) > 1 and len(set(map(len, rows))) == 1:
            return Form(rows, _rows(delimiter), _coded, _AS_CELL, lambda text: [[text]])
    return None


@st.composite
def hostile_copies(draw: st.DrawFn, form: Form) -> bytes:
    """The file with a hostile value in the place of one of its own, or of a key, or with a key given twice."""
    value = pickle.loads(pickle.dumps(form.value))
    held = [(value, None), *places_in(value)]
    holder, key = held[draw(st.integers(0, len(held) - 1))]
    mark, kinds = _MARK, ["value", "value", "value"]
    if isinstance(holder, dict) and key is not None:
        kinds += ["key", "twice"]
    kind = draw(st.sampled_from(kinds))
    if key is None:
        value = form.alone(mark)
    elif kind == "value":
        holder[key] = mark
    else:
        holder[mark] = holder[key] if kind == "twice" else holder.pop(key)
    new = form.text(key) if kind == "twice" and isinstance(key, str) else draw(form.hostile)
    return form.write(value).replace(form.text(mark), new)


def drawn(form: Form, count: int, number: int) -> Iterator[bytes]:
    """About ``count`` such copies, the same for each ``number``: few files have fewer."""
    for place in range(0, count, _BATCH):
        yield from _drawn(form, min(_BATCH, count - place), 1000 * number + place)


def _drawn(form: Form, count: int, number: int) -> Sequence[bytes]:
    found: list[bytes] = []

    @seed(number)
    @settings(
        max_examples=count, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck]
    )
    @given(hostile_copies(form))
    def collect(content: bytes) -> None:
        found.append(content)

    collect()
    return found
