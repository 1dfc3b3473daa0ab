"""``judge caption --endpoint``: a small server of our own for faults, and ``transformers serve`` with a tiny model."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from helpers import done_well, judge, read_json, refusal
from launching import free_port, killed, launch
from PIL import Image

from judge.corpus.captions import read_captions
from judge.masking.images import encode
from judge.utils.files import remove

IMAGES = 24  # More than are asked for at a time.
RED = 6
"""Image n has n times as much red."""
Instead = Callable[[int, Mapping[str, Any]], tuple[int, object] | None]


def chat(content: str | None, end: str = "stop", **more: object) -> dict[str, Any]:
    """A chat completion."""
    choice = {"index": 0, "finish_reason": end, "message": {"role": "assistant", "content": content, **more}}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "org/vlm", "choices": [choice]}


class Server:
    """Answers each image of ``folder``, of one colour each and of different sizes, with its mean colour.

    ``instead``: of the mean red and the request, another answer: its status, and JSON or text.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "pictures"
        self.folder.mkdir()
        for number in range(IMAGES):
            pixels = np.full((20 + number, 30, 3), (RED * number, 1, 2), np.uint8)
            (self.folder / f"{number}.png").write_bytes(encode(pixels))
        self.asked: list[dict[str, Any]] = []
        self.reds: list[int] = []
        self.keys: list[str | None] = []
        self.instead: Instead = lambda red, given: None
        self.together, self.most, self.seconds = 0, 0, 0.0
        lock, server = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                shown, text = given["messages"][0]["content"]
                data = base64.b64decode(shown["image_url"]["url"].partition(",")[2])
                red, green, blue = np.asarray(Image.open(io.BytesIO(data))).mean(axis=(0, 1)).astype(int).tolist()
                with lock:
                    server.reds.append(red)
                    server.asked.append({**given, "messages": text["text"]})
                    server.keys.append(self.headers["Authorization"])
                    server.together += 1
                    server.most = max(server.most, server.together)
                time.sleep(server.seconds)
                with lock:
                    server.together -= 1
                if other := server.instead(red, given):
                    return self.send(*other)
                content = "I'm sorry, I can't help with that." if red == RED else f" {red}\n{green} {blue} "
                return self.send(200, chat(content, "length" if red == 2 * RED else "stop"))

            def send(self, status: int, answer: object) -> None:
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/html" if isinstance(answer, str) else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def given(self, *more: object) -> list[object]:
        """``judge caption`` of the images by this server."""
        given = ["caption", "--model", "org/vlm", "--endpoint", self.url, "--images", self.folder]
        return [*given, "--out", self.root / "out.json", *more]

    def captions(self) -> dict[int, str]:
        """Image -> its caption in the file that was written."""
        return {row["image_id"]: row["caption"] for row in read_json(self.root / "out.json")}

    def left(self) -> list[str]:
        """What lies beside the images."""
        return sorted(path.name for path in self.root.iterdir() if path != self.folder)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = Server(tmp_path)
    yield server
    server.http.shutdown()
    server.http.server_close()


def test_each_image_is_captioned_by_the_server(server: Server, tmp_path: Path) -> None:
    """Four requests at a time; refusals and cut captions are counted; model, prompt and settings are recorded."""
    server.seconds = 0.05
    done = done_well(*server.given("--prompt", "Say it.", "--max-tokens", 9, "--caption-batch", 4))
    captions = server.captions()
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
    """A fault of the server's own passes; an image that it refuses is left out.

    The key is sent, without a line break after it.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "secret\n")
    faults = {3 * RED: (503, 1), 5 * RED: (400, 99)}

    def fail(red: int, given: Mapping[str, Any]) -> tuple[int, object] | None:
        status, times = faults.get(red, (200, 0))
        return (status, {"error": {"message": f"no {red}"}}) if server.reds.count(red) <= times else None

    server.instead = fail
    done = judge(*server.given())
    assert done.exit_code == 1
    assert "5.png: " in done.stderr
    assert f"5.png: --endpoint {server.url}: refuses the request (Error code: 400 - no 30). See" in done.stderr
    assert server.captions().keys() == {*range(IMAGES)} - {5}
    assert set(server.keys) == {"Bearer secret"}
    assert "secret" not in (tmp_path / "out.caption.yaml").read_text()


def test_no_server_is_one_line(server: Server) -> None:
    """At once, without retries."""
    url = f"http://127.0.0.1:{free_port()}/v1"
    line = refusal(*server.given("--endpoint", url))
    assert f"--endpoint {url}: cannot be reached ([Errno 111] Connection refused). Start the server" in line
    assert "--endpoint" in refusal(*server.given("--endpoint", "localhost:8000"))


@pytest.mark.slow
def test_two_processes_and_a_resumed_run_write_the_same(server: Server, tmp_path: Path) -> None:
    """What a killed run had of finished batches is not asked again, whatever the number of requests at a time."""
    out, more = tmp_path / "out.json", ("--caption-batch", 2)
    done_well(*server.given(*more))
    whole = out.read_bytes()
    command = ["-m", "judge", *server.given(*more, "--overwrite")]
    launch(*command)
    assert out.read_bytes() == whole
    out.unlink()
    server.seconds = 0.2
    stored = tmp_path / ".out.json.partial"
    command = [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))",
               sys.executable, *command]  # fmt: skip
    killed(command, which=lambda _: True, ready=lambda: any(stored.glob("*.jsonl")))
    before, server.seconds = len(server.asked), 0
    done_well(*server.given("--caption-batch", 5, "--overwrite"))
    assert out.read_bytes() == whole
    assert len(server.asked) - before < IMAGES


ERROR = {"object": "error", "message": "The model `m` does not exist.", "code": 404}
HTML = "<html><body>Log in</body></html>"


WITHOUT_ANSWER: list[tuple[int, object, str]] = [
    (200, {"id": "1", "choices": []}, "answers without a caption ({'id': '1', 'choices': []}). See the server's"),
    (200, {"id": "1", "choices": [{"message": None}]}, "answers without a caption ({"),
    (200, {"error": {"message": "no GPU is left", "code": 502}}, "answers without a caption (no GPU is left)"),
    (200, "{\"choices\": [{", "answers, but with no chat completion: '{"),
    (413, HTML, "refuses an image of this size (Error code: 413). Make it smaller, or leave it out."),
    (400, {"error": {"message": "4090 tokens", "code": "context_length_exceeded"}}, "refuses an image of this size (E"),
    (400, {"error": {"message": "no image"}}, "refuses the request (Error code: 400 - no image). See its message."),
    (403, {"error": {"message": "flagged"}}, "refuses the request (Error code: 403 - flagged). See its"),
    (500, {"error": {"message": "oops"}}, "fails (Error code: 500 - oops). Look at the server's log."),
]  # fmt: skip


def test_requests_without_an_answer_leave_the_other_images(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their faults are told in the server's own words; the same command then asks for these images alone."""
    monkeypatch.setattr("judge.captioning.endpoint._RETRIES", 0)
    # The last by name: others are answered before.
    numbers = sorted(range(IMAGES), key=str)[-len(WITHOUT_ANSWER) :]
    faults = dict(zip(numbers, WITHOUT_ANSWER, strict=True))
    server.instead = lambda red, given: faults[red // RED][:2] if red // RED in faults else None
    done = judge(*server.given("--caption-batch", 1))
    assert done.exit_code == 1, done.stderr
    for number, (_, _, message) in faults.items():
        assert f"judge: {number}.png: --endpoint {server.url}: {message}" in done.stderr
    assert "JPEG" not in done.stderr
    whole = {*range(IMAGES)}
    assert server.captions().keys() == whole - faults.keys()
    before, server.instead = len(server.asked), lambda red, given: None
    done_well(*server.given("--overwrite"))
    assert server.captions().keys() == whole
    assert len(server.asked) == before + len(faults)
    assert server.left() == ["out.caption.yaml", "out.json"]


@pytest.mark.parametrize(("images", "status", "answer", "message"), [
    (3, 200, HTML, f"answers, but with no chat completion: '{HTML}'. Check the URL (it ends in"),
    (IMAGES, 200, 'data: {"choices": []}\n\ndata: [DONE]', "answers, but with no chat completion: 'data: {"),
    (IMAGES, 200, ERROR, "answers without a caption (The model `m` does not exist). See the server's message"),
    (3, 400, {"error": {"message": "m is not multimodal"}}, "refuses the request (Error code: 400 - m is not mult"),
    (IMAGES, 500, {"error": {"message": "oops"}}, "fails (Error code: 500 - oops). Look at the server's log"),
    (IMAGES, 401, {}, "refuses the key (Error code: 401). Set OPENAI_API_KEY to a valid one; the same command conti"),
    (IMAGES, 404, {}, "has no model 'org/vlm', or no chat completions (Error code: 404). Check --model and the URL"),
])  # fmt: skip
def test_a_fault_of_all_requests_is_one_line(
    images: int, status: int, answer: object, message: str, server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """However few images; the others are not sent."""
    monkeypatch.setattr("judge.captioning.endpoint._RETRIES", 0)
    for path in [*server.folder.iterdir()][images:]:
        path.unlink()
    server.instead = lambda red, given: (status, answer)
    line = refusal(*server.given("--caption-batch", 2))
    assert f"--endpoint {server.url}: {message}" in line
    assert len(server.asked) <= 16 + 2
    assert server.left() == []


def test_many_images_that_are_too_large_leave_the_others(server: Server) -> None:
    """Servers refuse these at once, while they still write the captions of the others."""
    server.instead = lambda red, given: (413, HTML) if red < RED * (IMAGES - 1) else None
    assert judge(*server.given()).exit_code == 1
    assert len(server.captions()) == 1


def test_a_server_that_ends_is_not_asked_for_all_images(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three images in a row that fail after all retries; what is captioned is not sent again."""
    monkeypatch.setattr("judge.captioning.endpoint._RETRIES", 6)
    monkeypatch.setattr("openai._base_client.BaseClient._calculate_retry_timeout", lambda *_, **__: 0.0)
    server.instead = lambda red, given: (500, {}) if len({*server.reds}) > 10 else None
    more = "--caption-batch", 1
    assert "fails (Error code: 500). Look at the server's log; the same command continues." in refusal(
        *server.given(*more)
    )
    assert len(server.asked) == 10 + 3 * 7
    server.instead = lambda red, given: None
    done_well(*server.given(*more))
    assert len(server.asked) == 10 + 3 * 7 + IMAGES - 10


def test_refusals_of_the_server_are_refused_captions(server: Server, tmp_path: Path) -> None:
    """By a field, at the end of an answer, or by the code of an error: none is empty, and none stops the run.

    Half a surrogate pair, which no file can hold, is replaced.
    """
    flagged = {"message": "The response was filtered", "code": "content_filter"}
    others = {
        3: (200, chat(None, refusal="Dabei kann ich nicht helfen.")),
        4: (200, chat(None, "content_filter")),
        5: (400, {"error": flagged}),
        7: (400, {"error": {**flagged, "code": "content_policy_violation"}}),
        8: (400, {"error": {**flagged, "code": "invalid_prompt"}}),
        9: (200, chat("a man \ud83d on \ud83d\ude00")),
    }
    server.instead = lambda red, given: others.get(red // RED)
    done = done_well(*server.given())
    assert "6 captions refuse to describe the image" in done.stdout
    assert "empty" not in done.stdout
    captions = server.captions()
    assert captions[3] == "The server refused to caption the image: Dabei kann ich nicht helfen."
    assert captions[4] == "The server refused to caption the image: content_filter"
    assert captions[9] == "a man \ufffd on \U0001f600"
    read = read_captions(tmp_path / "out.json", side="generated")
    assert (read.refused, read.empty, read.silent) == (6, 0, frozenset("134578"))
    assert len(server.asked) == IMAGES


@pytest.mark.parametrize(("names", "left"), [
    (["max_tokens"], {"max_completion_tokens": 9, "temperature": 0.0}),
    (["max_tokens", "temperature"], {"max_completion_tokens": 9}),
])  # fmt: skip
def test_settings_that_a_server_does_not_take_are_left_out(
    names: list[str], left: dict[str, float], server: Server
) -> None:
    """Reasoning models take a length by another name, and no temperature: that is told."""

    def refuse(red: int, given: Mapping[str, Any]) -> tuple[int, object] | None:
        said = "Unsupported parameter: '{}' is not supported with this model. Use 'max_completion_tokens' instead."
        return next(((400, {"error": {"message": said.format(name)}}) for name in names if name in given), None)

    server.instead = refuse
    done = done_well(*server.given("--max-tokens", 9, "--caption-batch", 4))
    settings = [{name: of[name] for name in of if name not in {"messages", "model"}} for of in server.asked]
    assert settings.count(left) == IMAGES
    assert len(settings) <= IMAGES + 4 * len(names)
    assert ("its captions are sampled" in done.stdout) == ("temperature" in names)


def test_an_unfinished_run_is_continued_by_the_same_images_and_settings_alone(server: Server, tmp_path: Path) -> None:
    """A caption of another image, prompt, length, model or server is never taken for one of this run."""
    out, unfinished = tmp_path / "out.json", tmp_path / ".out.json.partial"
    server.instead = lambda red, given: (401, {}) if red == 9 * RED else None  # The last image by name.
    refusal(*server.given("--caption-batch", 1))
    (stored,) = unfinished.iterdir()
    data = stored.read_text()
    assert len(data.splitlines()) == len(server.asked) - 1 == IMAGES - 1
    assert not out.exists()
    server.instead = lambda red, given: None

    def asked(*more: object) -> int:
        """How many images are sent."""
        remove(unfinished)
        unfinished.mkdir()
        (unfinished / "killed.jsonl").write_text(f'{data}["cut", "a m')
        before = len(server.asked)
        done_well(*server.given(*more, "--overwrite"))
        assert not unfinished.exists()
        return len(server.asked) - before

    assert asked() == 1
    whole = read_json(out)
    assert len(whole) == IMAGES
    assert asked("--prompt", "Another.") == asked("--max-tokens", 9) == asked("--model", "other") == IMAGES
    assert asked("--caption-batch", 5) == 1
    (server.folder / "3.png").write_bytes(encode(np.full((20, 30, 3), (200, 1, 2), np.uint8)))
    assert asked() == 2
    new = {row["image_id"]: row["caption"] for row in read_json(out)}
    assert new == {row["image_id"]: row["caption"] for row in whole} | {3: "200 1 2"}


@pytest.mark.parametrize(("variables", "message"), [
    ({"OPENAI_API_KEY": "\u201csecret\u201d"}, "OPENAI_API_KEY: holds a character that no key has"),
    ({"OPENAI_API_KEY": "sec\nret"}, "OPENAI_API_KEY: holds a character that no key has"),
    ({"ALL_PROXY": "socks5://127.0.0.1:9"}, "no connection can be made (Using SOCKS proxy, but the 'socksio' package"),
    ({"ALL_PROXY": "abc://127.0.0.1:9"}, "no connection can be made (Unknown scheme for proxy URL"),
    ({"HTTP_PROXY": "http://127.0.0.1:9"}, "Connection refused). Check the proxy in the environment (HTTP_PROXY"),
])  # fmt: skip
def test_a_wrong_key_or_proxy_is_one_line(
    variables: dict[str, str], message: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "socks" in str(variables) and find_spec("socksio"):
        pytest.skip("socks proxies work here")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    line = refusal(*server.given())
    assert message in line
    assert "secret" not in line
    assert server.left() == []


@pytest.mark.parametrize("more", [("--beams", 3), ("--dtype", "bf16")])
def test_settings_that_a_server_decides_are_refused(more: tuple[object, ...], server: Server) -> None:
    assert f"{more[0]}: a server decides that itself" in refusal(*server.given(*more))


@pytest.mark.slow
def test_transformers_serve_writes_what_the_checkpoint_writes(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    """A real server with a tiny LLaVA; the same captions as ``judge caption`` with the checkpoint itself."""
    folder, model = tmp_path / "pictures", checkpoint("llava")
    folder.mkdir()
    for number in range(IMAGES):
        noise = np.random.default_rng(number).integers(0, 255, (40, 56, 3), dtype=np.uint8)
        (folder / f"{number}.png").write_bytes(encode(noise))
    port = free_port()
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
