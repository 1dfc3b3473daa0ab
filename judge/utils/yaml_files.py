"""YAML that people write, read by PyYAML's safe loader within limits; a key that is given twice is refused."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from judge.errors import FAULTS, JudgeError
from judge.utils.files import named_alike

MAX_BYTES = 4 * 2**20
MAX_DEPTH = 40
MAX_NODES = 500_000
"""Values in a file, those that an alias repeats counted again: nine short lines can stand for billions."""

# libyaml's, where PyYAML was built with it, is ten times as fast.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "<<"


class _Loader(_Base):  # type: ignore[misc]  # chosen when the module is imported
    """Refuses keys given twice, and takes dates for texts, which they are everywhere here."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # as PyYAML declares it
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, _ in node.value:
                if key.value != _MERGE and isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        raise yaml.MarkedYAMLError(None, None, f"key '{key.value}' is given twice", key.start_mark)
                    seen.add(key.value)
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found


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
        JudgeError: it cannot be read, is larger than ``MAX_BYTES``, or is not UTF-8.
    """
    where = str(path)
    try:
        if path.is_dir():
            raise JudgeError("is a folder", where=where, mend=f"name the file in it, such as {path / 'run.yaml'}")
        size = path.stat().st_size
        if size > MAX_BYTES:
            what = f"has {size:,} bytes, over the limit of {MAX_BYTES:,}"
            raise JudgeError(what, where=where, mend="keep captions and labels in files of their own")
        return path.read_text(encoding="utf-8-sig")
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
        JudgeError: not YAML; a key given twice in one mapping; more than ``MAX_DEPTH`` lists or mappings in each other
            or ``MAX_NODES`` values; a character that no text may hold (NUL, half of a surrogate pair).
    """
    try:
        _check_size(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" on line {mark.line + 1}" if mark else ""
        raise JudgeError(f"not YAML that can be read ({error.problem}{line})", where=where, mend=mend) from error
    except (yaml.YAMLError, *FAULTS) as error:  # FAULTS: numbers of thousands of digits, and the like.
        reason = " ".join(str(error).split())[:200]
        raise JudgeError(f"not YAML that can be read ({reason})", where=where, mend=mend) from error


def _check_size(text: str) -> None:
    """Walk the events of a text, which takes no memory, before its values are built.

    Raises:
        yaml.MarkedYAMLError: over a limit; an alias inside what it stands for.
    """
    sizes: dict[str, int] = {}  # Anchor -> values that it stands for.
    open_ones: list[tuple[str | None, int]] = []  # Anchor, values counted before it.
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
        if len(open_ones) > MAX_DEPTH:
            _refuse(f"more than {MAX_DEPTH} lists or mappings in each other", event)
        if count > MAX_NODES:
            _refuse(f"more than {MAX_NODES:,} values, those counted that aliases repeat", event)


def _check_text(event: yaml.ScalarEvent) -> None:
    if "\0" in event.value or any("\ud800" <= one <= "\udfff" for one in event.value):
        _refuse("a text holds a character that no text may hold", event)


def _refuse(problem: str, event: Any) -> None:
    raise yaml.MarkedYAMLError(None, None, problem, event.start_mark)
