"""Faulty files made from a valid one, the same every time.

``mutated_bytes`` damages a file as disks and downloads do, ``mutated_values`` as programs write it wrongly.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from judge.errors import JudgeError, printable

LONGEST = 500
HUGE = (10**25, -(10**25), 2**63, 1e308, -1, 0, float("nan"), float("inf"), True, "9" * 400, "x" * 5000)
ODD: tuple[Any, ...] = (None, "", " ", "\ud83d", "\0", "../x", "[", {}, [], [[]], {"a": {}}, *HUGE)


def mutated_bytes(data: bytes, count: int, *, seed: int = 0) -> Iterator[bytes]:
    """``count`` damaged copies: bits turned, bytes overwritten, cut off, cut out, doubled or put in."""
    rng = random.Random(seed)
    for number in range(count):
        found = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 8))):
            place = rng.randrange(max(1, len(found)))
            end = place + rng.choice((1, 4, 64, 1024))
            kind = rng.randrange(6)
            if kind == 0 and found:
                found[place] ^= 1 << rng.randrange(8)
            elif kind == 1:
                found[place : place + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"9999"))
            elif kind == 2:
                del found[place : (len(found) if number % 2 else end)]
            elif kind == 3:
                found[place:place] = found[place:end]
            elif kind == 4:
                found[place:place] = rng.choice((b"[" * 2000, b"\xff", b'"', b"\n", b"9" * 5000, b"\xed\xa0\x80"))
            else:
                found[place:end] = rng.randbytes(end - place)
        yield bytes(found)


def mutated_values(value: Any, count: int, *, seed: int = 0) -> Iterator[Any]:
    """``count`` changed copies of a JSON value: parts removed, of another type, huge, nested, doubled, renamed."""
    rng = random.Random(seed)
    whole = json.dumps(value)
    for _ in range(count):
        found = json.loads(whole)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            found = _change(found, rng)
        yield found


def _change(value: Any, rng: random.Random) -> Any:
    places = list(places_in(value))
    if not places or rng.random() < 0.02:
        return copy.deepcopy(rng.choice(ODD))
    holder, key = rng.choice(places)
    kind = rng.randrange(6)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif kind == 1:
        holder[rng.choice(("", "id", "image_id", "caption", f"{key} ", str(key).upper()))] = holder.pop(key)
    elif kind == 2:
        holder[key] = [holder[key]]
    elif kind == 3:
        holder[key] = {"caption": holder[key]}
    else:
        holder[key] = copy.deepcopy(rng.choice(ODD))
    return value


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (holder, key or index) below ``value``."""
    if isinstance(value, dict | list):
        for key, held in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from places_in(held)


def as_json(value: Any) -> bytes:
    """A value as the bytes of a JSON file."""
    return json.dumps(value).encode()


def outcome(read: Callable[[], object], what: str) -> str:
    """Return "read" or "refused"; the refusal must be one line."""
    try:
        read()
    except JudgeError as error:
        line = str(error)
        assert "\n" not in line, what
        assert len(line) <= LONGEST, f"{len(line)} characters: {line}\n{what}"
        assert line == printable(line), f"{line!a}\n{what}"
        return "refused"
    except BaseException as error:
        error.add_note(what)
        raise
    return "read"
