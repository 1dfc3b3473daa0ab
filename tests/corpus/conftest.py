"""Fixtures of the reading tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from judge.corpus.reading import ReadOptions, read_captions
from judge.errors import JudgeError
from judge.types import Side


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write bytes, a text or JSON, under a name that tells nothing of the format."""

    def write(content: object, name: str = "file") -> Path:
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text, encoding="utf-8", newline="")
        return path

    return write


@pytest.fixture(scope="session")
def fault() -> Callable[..., str]:
    """Read captions (or what ``read`` reads) that cannot be read; the one-line message, without the path in front."""

    def fault(
        path: Path, side: Side = "generated", read: Callable[..., object] | None = None, **options: object
    ) -> str:
        with pytest.raises(JudgeError) as caught:
            read(path, **options) if read else read_captions(path, ReadOptions(**options), side=side)
        message = str(caught.value)
        assert message.startswith(str(path))
        assert "\n" not in message
        return message.removeprefix(str(path)).lstrip(":, ")

    return fault
