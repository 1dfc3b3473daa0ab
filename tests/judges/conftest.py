"""Fixtures shared by the tests of judges."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT as transformers saves one; to be copied before it is changed."""
    from tiny_bert import save_bert

    return save_bert(tmp_path_factory.mktemp("readers") / "bert")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the hub, and with an empty cache of it; otherwise its client tries five times."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
