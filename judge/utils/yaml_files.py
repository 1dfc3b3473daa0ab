"""YAML that people write, read by PyYAML's safe loader within limits; a key that is given twice is refused."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from judge.errors import FAULTS, JudgeError
from judge.utils.files import named_alike
from judge.utils.limits import BYTES, DEPTH, VALUES, long_number, refuse_long
from judge.utils.opening import open_regular, size_of

# libyaml's, where PyYAML was built with it, is ten times as fast.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_KINDS = "null", "bool", "int", "float", "str", "seq", "map"


class _Loader(_Base):  # type: ignore[misc]  # chosen when the module is imported
    """Mappings, lists, texts, numbers, truths and null: dates and 1:30 are texts, which they are everywhere here."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # as PyYAML declares it
        first: [(tag, pattern) for tag, pattern in found if tag != f"{_TAG}timestamp"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    # Without those of sets, bytes and dates, which nothing here reads.
    yaml_constructors = {  # noqa: RUF012  # likewise; None: of any other tag
        tag: yaml.SafeLoader.yaml_constructors[tag] for tag in (*(f"{_TAG}{kind}" for kind in _KINDS), None)
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._checked = set[int]()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """As PyYAML, which puts what ``<<`` names among the keys; before that, keys given twice are refused."""
        if id(node) not in self._checked:
            self._checked.add(id(node))
            seen = set[Hashable]()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    _refuse("a key is a list or a mapping", key)
                value = _MERGE if key.tag == _MERGE else self.construct_object(key)
                if value in seen:  # yes and true are one.
                    _refuse(f"key '{key.value}' is given twice", key)
                seen.add(value)
        super().flatten_mapping(node)

    def number(self, node: yaml.ScalarNode) -> int | float | str:
        """A number; what YAML 1.1 reads to the base of 60 is a text: its value takes time that grows with the square.

        Raises:
            JudgeError: it has more digits than Python writes.
        """
        text = self.construct_scalar(node)
        if ":" in text:
            return str(text)
        read = self.construct_yaml_int if node.tag == f"{_TAG}int" else self.construct_yaml_float
        found: int | float = read(node)
        if isinstance(found, int):
            refuse_long(found, "")
        return found


for _kind in ("int", "float"):
    _Loader.add_constructor(f"{_TAG}{_kind}", _Loader.number)


def read_yaml(path: Path, *, mend: str) -> Any:
    """The value of a YAML file.

    Args:
        path: of the file.
        mend: what to write instead, for messages.

    Raises:
        JudgeError: as ``read_text`` and ``parse_yaml``.
    """
    return parse_yaml(read_text(path), where=str(path), mend=mend)


def read_text(path: Path) -> str:
    """The text of a small file, without a byte order mark.

    Raises:
        JudgeError: it cannot be read, is no regular file, is larger than ``BYTES``, or is not UTF-8.
    """
    where = str(path)
    try:
        if path.is_dir():
            raise JudgeError("is a folder", where=where, mend=f"name the file in it, such as {path / 'run.yaml'}")
        with open_regular(path) as file:
            BYTES.refuse(size_of(file), where, instead="keep captions and labels in files of their own")
            return file.read().decode("utf-8-sig")
    except FileNotFoundError:
        raise JudgeError("no such file", where=where, mend=named_alike(path)) from None
    except UnicodeDecodeError as error:
        raise JudgeError(f"not UTF-8 (at byte {error.start})", where=where, mend="save it as UTF-8") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path.
        reason = getattr(error, "strerror", None) or error
        raise JudgeError(f"cannot be read ({reason})", where=where, mend="check the path") from error


def parse_yaml(text: str, *, where: str, mend: str) -> Any:
    """The value of a YAML text: mappings, lists, texts, numbers, true, false and null; dates stay texts.

    Raises:
        JudgeError: not YAML; a key given twice in one mapping; over
            ``DEPTH`` or ``VALUES``; a character that no text may hold (NUL, half of a surrogate pair).
    """
    try:
        _check_size(text, where, mend)
        return yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader
    except JudgeError as error:
        raise JudgeError(error.what, where=error.where or where, mend=error.mend) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" on line {mark.line + 1}" if mark else ""
        raise JudgeError(f"not YAML that can be read ({error.problem}{line})", where=where, mend=mend) from error
    except (yaml.YAMLError, *FAULTS) as error:  # FAULTS: numbers of thousands of digits, and the like.
        reason = " ".join(str(error).split())[:200]
        told = JudgeError(f"not YAML that can be read ({reason})", where=where, mend=mend)
        raise long_number(error, where) or told from error


def _check_size(text: str, where: str, mend: str) -> None:
    """Walk the events of a text, which takes no memory, before its values are built.

    Raises:
        JudgeError: over a limit.
        yaml.MarkedYAMLError: an alias inside what it stands for.
    """
    sizes: dict[str, int] = {}  # Anchor -> values that it stands for.
    open_ones: list[tuple[str | None, int]] = []  # Anchor, values counted before it.
    limits = {limit: limit.value() for limit in (DEPTH, VALUES)}
    count = 0
    event: Any
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_ones.pop()
            if anchor:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.NodeEvent):
            count += sizes.get(event.anchor or "", 1) if isinstance(event, yaml.AliasEvent) else 1
            if isinstance(event, yaml.AliasEvent) and event.anchor in dict(open_ones):
                _refuse(f"'*{event.anchor}' stands in what it repeats", event)
            if isinstance(event, yaml.CollectionStartEvent):
                open_ones.append((event.anchor, count - 1))
            elif isinstance(event, yaml.ScalarEvent):
                _check_text(event)
                if event.anchor:
                    sizes[event.anchor] = 1
        for limit, reached in limits.items():
            if reached < (len(open_ones) if limit is DEPTH else count):
                what = f"{limit.fault()} (line {event.start_mark.line + 1})"
                raise JudgeError(what, where=where, mend=limit.raise_it(mend))


def _check_text(event: yaml.ScalarEvent) -> None:
    if "\0" in event.value or any("\ud800" <= one <= "\udfff" for one in event.value):
        _refuse("a text holds a character that no text may hold", event)


def _refuse(problem: str, event: Any) -> None:
    raise yaml.MarkedYAMLError(None, None, problem, event.start_mark)
