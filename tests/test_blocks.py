"""Every code block of README and docs runs as it stands, in a folder with small files of the names that it uses."""

from __future__ import annotations

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import yaml
from block_files import FILES, JAPANESE, BlockFiles
from helpers import instead, judge
from launching import launch
from test_docs import PAGES, ROOT, commands, parse

from judge import evaluate
from judge.text.lexicon import load_lexicon

FENCED = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
APART = {
    "python -m pip install -e": ".ci/run runs it (test_docs.py)",
    "pytest": ".ci/run runs it",
    "judge demo": ".ci/run runs it; minutes",
    "python -m pip install vllm": "a server with a GPU; test_endpoint.py captions from `transformers serve`",
    "vllm serve": "as above",
    "judge caption --endpoint": "as above",
    "accelerate launch --config_file scripts/configs/8_gpus": "eight GPUs; test_scripts.py starts two CPU processes",
    "accelerate launch --config_file scripts/configs/fsdp": "several GPUs; test_sharding.py shards on CPUs",
    "judge calibrate --human captions_human.json --labels gender.csv --metrics lic,leakage --judge lstm": "an hour",
    "python scripts/bench_scenes.py": "test_scene_trials.py runs it in small; minutes",
    "judge ablate detectors run.yaml --detectors gt,yolo,maskrcnn": "fetches 170 MB of weights",
    "yolo ": "trains a network from weights that are fetched",
    "import safetensors.torch": "as above; test_detectors.py reads such a file",
    "judge ablate detectors --images runs/demo": "needs the network that the page trains",
    "judge ablate detectors --images coco-mini": "as above",
    "judge ablate detectors coco-mini.yaml": "as above",
    "judge ablate masks coco-mini.yaml": "as above",
    "python scripts/papers/anonymousbench.py": "test_anonymousbench.py runs it; a diffusion model, 1,000 images",
    "from trl import": "test_reward.py runs it",
    "from judge import AmplificationCallback": "test_reward.py runs it",
    "import lightning": "test_reward.py runs it",
    "on: pull_request": "test_the_workflow_runs",
}
"""Commands and blocks, by their beginning, that are only parsed here, and why."""
APART_PAGES = {"docs/reproduction.md": "the papers' data, or hours; test_papers.py runs each table in small"}

SMALL: dict[str, object] = {
    "folds": 2, "refits": 0, "chance": 0, "resamples": 100, "workers": 1, "epochs": 1, "seeds": 1, "least": 1,
    "backbone": "test_resnet", "backbone_weights": "random", "image_size": 64, "max_tokens": 5, "threshold": 0.05,
    "changes": "A->T", "doses": "0.5", "draws": 2, "nulls": 2, "sample": 40, "overwrite": True, "allow_unmasked": True,
}  # fmt: skip
"""Options that a command gets if it has and does not give them: the defaults take hours on many images, and masks of
untrained networks are refused."""
GROUPED = {"epochs": "training", "least": "ba"}
"""Of these, the ones that an option takes with others."""
FEWER = {"seeds": 2}
"""Of what a page asks for the protocol of a paper, so many are enough."""
EARLIER = ["--human", "captions_human.json", "--captions", "nic_plus.json", "--labels", "gender.csv"]
"""For "...", the options that an earlier example gave."""


def is_apart(text: str) -> bool:
    return any(text.startswith(beginning) for beginning in APART)


def blocks_of(page: Path) -> list[tuple[str, str, str]]:
    """Language, text and the words before, of each block that is code."""
    text = page.read_text(encoding="utf-8")
    found = [(match[1], match[2], text[: match.start()]) for match in FENCED.finditer(text)]
    return [block for block in found if block[0] not in {"", "text"} and not block[0].startswith("{")]


PLACES = {str(page.relative_to(ROOT)): page for page in PAGES}
CODE = [name for name in PLACES if blocks_of(PLACES[name]) and name not in APART_PAGES]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> BlockFiles:
    return BlockFiles(tmp_path_factory.mktemp("blocks"))


@pytest.fixture
def folder(files: BlockFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a page's blocks run, one after the other, without a network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(files.root / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "papers"))
    # No Java: METEOR reads paraphrases for many seconds. test_quality.py starts it.
    monkeypatch.setenv("PATH", str(tmp_path))
    # Python gets what commands get.
    few = {name: SMALL[name] for name in ("folds", "refits", "chance", "resamples", "workers")}
    monkeypatch.setattr("judge.evaluate", lambda *of, **how: evaluate(*of, **{**few, **how}))
    return tmp_path


def test_the_languages_of_blocks_are_known() -> None:
    """And no reason is out of date."""
    found = [block for page in PLACES.values() for block in blocks_of(page)]
    assert {language for language, *_ in found} == {"bash", "python", "yaml"}
    texts = [text for _, text, _ in found] + [
        " ".join(words) for language, text, _ in found if language == "bash" for words in commands(text)
    ]
    assert [beginning for beginning in APART if not any(text.startswith(beginning) for text in texts)] == []


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore")  # Of tiny models, in other libraries.
@pytest.mark.parametrize("name", CODE)
def test_blocks_run(name: str, files: BlockFiles, folder: Path) -> None:
    """A page's blocks, in order; what they write stays for the next."""
    for one, make in JAPANESE.items() if "languages" in name else ():
        make(files, folder / one)
    for language, text, before in blocks_of(PLACES[name]):
        if language == "bash":
            for words in commands(text):
                if not is_apart(" ".join(words)):
                    run(words, files, folder)
        elif not is_apart(text):
            (run_python if language == "python" else write_yaml)(text, before, files, folder)
    # Figures of a page are those that its run draws.
    drawn = {path.stem for path in folder.glob("runs/*/figures/*.svg")}
    figures = re.findall(r"images/question-([\w-]+)\.svg", PLACES[name].read_text(encoding="utf-8"))
    assert {f"forest-{figure}" for figure in figures} <= drawn


def run_python(text: str, before: str, files: BlockFiles, folder: Path) -> None:
    """Run Python where the files are that it names; it must print."""
    for one in FILES:
        if f'"{one}' in text:
            files.make(one, (), folder)
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(text, "docs", "exec"), {})
    assert printed.getvalue()
    assert "nic_plus" in printed.getvalue() or "Corpus" not in text


def write_yaml(text: str, before: str, files: BlockFiles, folder: Path) -> None:
    """Write a file that the page names in its text, or the block in its first line; later commands read it."""
    found = re.match(r"# (\w+\.yaml)\n", text) or re.search(r"`([\w-]+\.yaml)`:\s*$", before)
    assert found, text
    (folder / found[1]).write_text(text, encoding="utf-8")
    if "classes:" in text:
        assert text.startswith(f"# source: {load_lexicon(found[1]).source}\n")


def run(words: list[str], files: BlockFiles, folder: Path) -> None:
    """Run a command after the files that it names are made; it must succeed, and write what it says it writes."""
    words = [part for word in words for part in (EARLIER if word == "..." else [word])]
    for word in words:
        for one in {word, *(part.rpartition("=")[2] for part in word.split(","))}:
            files.make(one, words, folder)
    launched = next((place for place, word in enumerate(words) if word.startswith("scripts/")), 0)
    own = [Path(words[launched]).stem, *words[launched + 1 :]] if launched else words[words.index("judge") + 1 :]
    given = parse(own)
    # A checkpoint of transformers has weights of its own.
    whole = str(given.get("backbone")).startswith("hf:")
    for name, value in SMALL.items():
        if name == "backbone_weights" and whole:
            continue
        group, told = GROUPED.get(name, ""), given.get(GROUPED.get(name, ""))
        if group in given and not any(f"{name}=" in text for text in told or ()):
            own += [f"--{group}", f"{name}={value}"]
        elif name in given and given[name] in (None, (), [], {}):
            own += ["--" + name.replace("_", "-"), *([str(value)] if value is not True else [])]
    for name, most in FEWER.items():
        if int(given.get(name) or 0) > most:
            own = instead(own, f"--{name}", most)
    if launched:
        files.make("scripts", (), folder)
        assert words[:2] == ["accelerate", "launch"]
        done = launch(*words[2:launched], words[launched], *own[1:])
        code, output = done.returncode, done.stdout + done.stderr
    elif words[0] == "accelerate":
        done = launch(*words[2 : words.index("judge") + 1], *own)
        code, output = done.returncode, done.stdout + done.stderr
    else:
        found = judge(*own)
        code, output = found.exit_code, found.output
    assert code in ((0, 3) if "--fail-if" in words else (0,)), f"{shlex.join(words)}: {output[-2000:]}"
    assert output
    assert not given.get("out") or (folder / given["out"]).exists()


@pytest.mark.slow
def test_the_workflow_runs(files: BlockFiles, folder: Path) -> None:
    """Its gate passes or fails, by the captions that the user has; both are exit codes of a run that is done."""
    ((_, text, _),) = [block for name in CODE for block in blocks_of(PLACES[name]) if "jobs:" in block[1]]
    assert len(text.splitlines()) <= 10
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    install, measure = [shlex.split(step["run"]) for step in steps if "run" in step]
    assert install == ["pip", "install", "caption-judge"]
    run(measure, files, folder)
    for limit, codes in (("lic.value > -1", {3}), ("lic.value < -1", {0, 3})):  # 3 too if a row has no verdict.
        done = judge(*measure[1:-1], limit, "--workers", 1, "--folds", 2, "--refits", 0, "--chance", 0, "--overwrite")
        assert done.exit_code in codes
        assert ("judge: --fail-if" in done.stderr) == (done.exit_code == 3)
