"""``judge caption --endpoint``: a small server of our own for faults, and ``transformers serve`` with a tiny model."""

from __future__ import annotations

import base64
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from helpers import done_well, judge, read_json, refusal
from launching import killed, launch
from PIL import Image

from judge.captioning.endpoint import EndpointWriter
from judge.masking.images import encode

IMAGES = 40
RED = 6
"""Image n has n times as much red."""


class Server:
    """Answers each image with its mean colour; ``faults``: (status, times) of requests, by mean red of the image."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.faults: dict[int, tuple[int, int]] = {}
        self.together, self.most, self.seconds = 0, 0, 0.0
        lock, tries, server = threading.Lock(), Counter[int](), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                shown, text = given["messages"][0]["content"]
                data = base64.b64decode(shown["image_url"]["url"].partition(",")[2])
                red, green, blue = np.asarray(Image.open(io.BytesIO(data))).mean(axis=(0, 1)).astype(int).tolist()
                with lock:
                    server.asked.append({**given, "messages": text["text"]})
                    server.keys.append(self.headers["Authorization"])
                    server.together += 1
                    server.most = max(server.most, server.together)
                    tries[red] += 1
                time.sleep(server.seconds)
                with lock:
                    server.together -= 1
                status, times = server.faults.get(red, (200, 0))
                if tries[red] <= times:
                    return self.send(status, {"error": {"message": f"no {red}"}})
                content = "I'm sorry, I can't help with that." if red == RED else f" {red}\n{green} {blue} "
                choice = {"index": 0, "message": {"role": "assistant", "content": content}}
                choice["finish_reason"] = "length" if red == 2 * RED else "stop"
                about = {"id": "1", "object": "chat.completion", "created": 0, "model": given["model"]}
                return self.send(200, {**about, "choices": [choice]})

            def send(self, status: int, answer: object) -> None:
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


def pictures(root: Path) -> Path:
    """Images of one colour, and of different sizes."""
    folder = root / "pictures"
    folder.mkdir()
    for number in range(IMAGES):
        pixels = np.full((20 + number, 30, 3), (RED * number, 1, 2), np.uint8)
        (folder / f"{number}.png").write_bytes(encode(pixels))
    return folder


def given(root: Path, url: str, *more: object) -> list[object]:
    folder, out = root / "pictures", root / "out.json"
    return ["caption", "--model", "org/vlm", "--endpoint", url, "--images", folder, "--out", out, *more]


def test_each_image_is_captioned_by_the_server(server: Server, tmp_path: Path) -> None:
    """Four requests at a time; refusals and cut captions are counted; model, prompt and settings are recorded."""
    pictures(tmp_path)
    server.seconds = 0.05
    done = done_well(*given(tmp_path, server.url, "--prompt", "Say it.", "--max-tokens", 9, "--caption-batch", 4))
    captions = {row["image_id"]: row["caption"] for row in read_json(tmp_path / "out.json")}
    expected = {number: f"{RED * number} 1 2" for number in range(IMAGES)}
    assert captions == expected | {1: "I'm sorry, I can't help with that."}
    assert list(captions) == sorted(range(IMAGES), key=str)
    assert "1 captions were cut off at 9 tokens" in done.stdout
    assert "1 captions refuse to describe the image" in done.stdout
    assert 1 < server.most <= 4
    asked = {(of["model"], of["messages"], of["max_tokens"], of["temperature"]) for of in server.asked}
    assert asked == {("org/vlm", "Say it.", 9, 0.0)}
    settings = yaml.safe_load((tmp_path / "out.caption.yaml").read_text(encoding="utf-8"))
    assert [settings[name] for name in ("endpoint", "model", "prompt")] == [server.url, "org/vlm", "Say it."]


def test_a_request_is_sent_again_and_a_refused_image_is_listed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of the server's own passes; an image that it refuses is left out, and the key is sent."""
    pictures(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    server.faults = {3 * RED: (503, 1), 5 * RED: (400, 99)}
    done = judge(*given(tmp_path, server.url))
    assert done.exit_code == 1
    assert "5.png: " in done.stderr
    assert "the server refuses it (Error code: 400" in done.stderr
    assert {row["image_id"] for row in read_json(tmp_path / "out.json")} == {*range(IMAGES)} - {5}
    assert set(server.keys) == {"Bearer secret"}
    assert "secret" not in (tmp_path / "out.caption.yaml").read_text()


@pytest.mark.parametrize(("status", "message"), [
    (401, "refuses the key. Set OPENAI_API_KEY to a valid one"),
    (404, "has no model 'org/vlm', or no chat completions. Check --model and the URL"),
])  # fmt: skip
def test_a_server_that_answers_nobody_is_one_line(status: int, message: str, server: Server, tmp_path: Path) -> None:
    pictures(tmp_path)
    server.faults = {RED * number: (status, 99) for number in range(IMAGES)}
    line = refusal(*given(tmp_path, server.url))
    assert f"--endpoint {server.url}: {message}" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures"]


def test_no_server_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judge.captioning.endpoint._RETRIES", 0)
    pictures(tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
    assert f"--endpoint {url}: cannot be reached. Start the server" in refusal(*given(tmp_path, url))
    assert "--endpoint" in refusal(*given(tmp_path, "localhost:8000"))


@pytest.mark.slow
def test_two_processes_and_a_resumed_run_write_the_same(server: Server, tmp_path: Path) -> None:
    """What a killed run had of finished batches is not asked again, whatever the number of requests at a time."""
    pictures(tmp_path)
    out, more = tmp_path / "out.json", ("--caption-batch", 2)
    done_well(*given(tmp_path, server.url, *more))
    whole = out.read_bytes()
    command = ["-m", "judge", *given(tmp_path, server.url, *more, "--overwrite")]
    launch(*command)
    assert out.read_bytes() == whole
    out.unlink()
    server.seconds = 0.2
    stored = tmp_path / ".out.json.partial"
    command = [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))",
               sys.executable, *command]  # fmt: skip
    killed(command, which=lambda _: True, ready=lambda: any(stored.glob("*.safetensors")))
    before, server.seconds = len(server.asked), 0
    done_well(*given(tmp_path, server.url, "--caption-batch", 5, "--overwrite"))
    assert out.read_bytes() == whole
    assert len(server.asked) - before <= IMAGES - EndpointWriter.at_a_time


@pytest.mark.parametrize("more", [("--beams", 3), ("--dtype", "bf16")])
def test_settings_that_a_server_decides_are_refused(more: tuple[object, ...], tmp_path: Path) -> None:
    pictures(tmp_path)
    assert f"{more[0]}: a server decides that itself" in refusal(*given(tmp_path, "http://127.0.0.1:1/v1", *more))


@pytest.mark.slow
def test_transformers_serve_writes_what_the_checkpoint_writes(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    """A real server with a tiny LLaVA; the same captions as ``judge caption`` with the checkpoint itself."""
    folder, model = pictures(tmp_path), checkpoint("llava")
    for number in range(IMAGES):
        noise = np.random.default_rng(number).integers(0, 255, (40, 56, 3), dtype=np.uint8)
        (folder / f"{number}.png").write_bytes(encode(noise))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["transformers.cli.transformers", "serve", "--port", port, "--host", "127.0.0.1", "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with (tmp_path / "log").open("w") as log:
        serving = [sys.executable, "-m", *map(str, command), "--dtype", "float32"]
        process = subprocess.Popen(serving, env=environment, stdout=log, stderr=log)
    try:
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 120
        while True:
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline
            try:
                urllib.request.urlopen(f"{url}/health").close()
                break
            except OSError:
                time.sleep(0.5)
        same = ["caption", "--model", model, "--images", folder, "--max-tokens", 6, "--out"]
        done_well(*same, tmp_path / "served.json", "--endpoint", f"{url}/v1")
        done_well(*same, tmp_path / "own.json")
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "served.json").read_bytes() == (tmp_path / "own.json").read_bytes()
    assert len({row["caption"] for row in read_json(tmp_path / "own.json")}) > 2
