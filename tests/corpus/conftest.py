"""Fixtures of the reading tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
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
