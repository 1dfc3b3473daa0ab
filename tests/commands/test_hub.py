"""``judge predict`` with an exported judge on the hub: the hub's own client, a small server."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from helpers import GENDER, done_well, make_samples, refusal

from judge.evidence import Preparation
from judge.judges import Recipe, find_judge
from judge.text.lexicon import load_lexicon
from judge.training.judge_file import save_network
from judge.training.launch import make_accelerator
from judge.training.loop import NetworkJudge, Trainer
from judge.utils.outputs import MANIFEST

COMMIT = "0123456789" * 4


class Hub(ThreadingHTTPServer):
    """The part of the hub that one repository needs."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self._answer(self._found())

    def do_HEAD(self) -> None:
        self._answer(self._found())

    def _found(self) -> bytes | None:
        if self.path.startswith("/api/models/me/judge/revision/"):
            listed = [{"rfilename": name} for name in self.server.files]
            return json.dumps({"id": "me/judge", "sha": COMMIT, "siblings": listed}).encode()
        if self.path.startswith(f"/api/models/me/judge/tree/{COMMIT}"):
            files = self.server.files.items()
            tree = [{"type": "file", "path": name, "size": len(data), "oid": _oid(data)} for name, data in files]
            return json.dumps(tree).encode()
        name = self.path.removeprefix(f"/me/judge/resolve/{COMMIT}/")
        return self.server.files.get(name)

    def _answer(self, data: bytes | None) -> None:
        self.send_response(404 if data is None else 200)
        if data is not None:
            self.send_header("ETag", f'"{_oid(data)}"')
            self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data or b"")

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _oid(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    from huggingface_hub import constants

    server = Hub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A judge of few words, by itself."""
    judge = NetworkJudge(find_judge("lstm"), GENDER, Recipe(1, 0.01), Trainer(make_accelerator()))
    judge.fit(make_samples(12), seed=0)
    path = tmp_path / "lstm.weights.safetensors"
    save_network(judge, path, {"preparation": Preparation("gender", lexicon=load_lexicon("gender"))})
    return path


def test_there_and_back(hub: Hub, weights: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text('{"1": "noise1 clue0", "2": "a woman, clue1"}')
    out = tmp_path / "judge"
    done_well("export", "--judge-weights", weights, "--out", out)
    hub.files = {path.name: path.read_bytes() for path in out.iterdir() if path.name != MANIFEST}
    answers = []
    for name in ("me/judge", weights):
        path = tmp_path / f"{len(answers)}.csv"
        done_well("predict", "--judge-weights", name, "--captions", new, "--out", path)
        answers.append(path.read_text())
    assert answers[0] == answers[1]
    assert "<gender>" in answers[0]


@pytest.mark.usefixtures("hub")
def test_what_is_not_there(tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text('{"1": "noise1"}')
    told = refusal("predict", "--judge-weights", "you/judge", "--captions", new, "--out", tmp_path / "a.csv")
    assert "--judge-weights you/judge: cannot be fetched" in told
