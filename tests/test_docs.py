"""README and docs say what is true: their commands, their options, their tables, their links."""

from __future__ import annotations

import re
import shlex
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import typer
from helpers import done_well, read_json

from judge.commands.app import app
from judge.judges.names import find_judge
from judge.metrics import find_metric, spell_out
from judge.utils.reading import LIMITS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
VALUE = "amplification [95% interval]"
# Pages that people write; those of the Python interface are made from docstrings.
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("data/*.md"), *ROOT.glob("checkpoints/*.md"), *ROOT.glob("docs/**/*.md")]
)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def all_blocks(language: str) -> list[tuple[str, str]]:
    return [(str(page.relative_to(ROOT)), block) for page in PAGES for block in blocks(page, language)]


def commands(block: str) -> list[list[str]]:
    """The words of each command in a block: continued lines joined, comments dropped, ``a && b`` two commands."""
    lines = [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]
    return [list(words) for line in lines for apart, words in groupby(line, "&&".__eq__) if not apart]


COMMANDS = [(page, words) for page, block in all_blocks("bash") for words in commands(block)]
assert len([words for _, words in COMMANDS if words[0] == "judge"]) > 20


def parse(words: list[str]) -> dict[str, Any]:
    """What Typer makes of a command; it says itself which option or command does not exist."""
    command: Any = typer.main.get_command(app)
    # "..." stands for options that an earlier example gave.
    name, given = "judge", [word for word in words if word != "..."]
    context = command.make_context(name, given)
    while hasattr(command, "resolve_command"):
        name, command, given = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, given, parent=context)
    parameters: dict[str, Any] = context.params
    return parameters


def names_in(value: list[str] | None) -> list[str]:
    return [name for part in value or () for name in part.split(",")]


def check(words: list[str]) -> None:
    """A command of ours is parsed; another must be one that we know."""
    if words[:2] == ["accelerate", "launch"]:
        if words[4:6] == ["-m", "judge"]:  # With a file that the page has.
            return check(words[5:])
        (script,) = [word for word in words if word.startswith("scripts/") and word.endswith(".py")]
        assert (ROOT / words[words.index("--config_file") + 1]).is_file()
        return check(["judge", Path(script).stem, *words[words.index(script) + 1 :]])
    if words[0] == "python" and words[1].startswith("scripts/"):
        assert (ROOT / words[1]).is_file()
        return None
    if words[0] != "judge":
        assert words[0] in {"pytest", "vllm", "yolo"} or words[:4] == ["python", "-m", "pip", "install"]
        return None
    given = parse(words[1:])
    for name in spell_out(names_in(given.get("metrics"))):
        find_metric(name)
    for name in names_in(given.get("judge")):
        if not name.startswith(("hf:", "sentence:")):
            find_judge(name)
    return None


@pytest.mark.parametrize("words", [words for _, words in COMMANDS], ids=[page for page, _ in COMMANDS])
def test_commands_parse(words: list[str]) -> None:
    check(words)


def options(command: Any) -> set[str]:
    """Of a command and of those below it."""
    context = command.make_context("judge", ["x"], resilient_parsing=True)
    own = {name for part in command.get_params(context) for name in (*part.opts, *part.secondary_opts)}
    return own.union(*(options(child) for child in getattr(command, "commands", {}).values()))


# Ours, those of other programs, and of scripts/.
OPTIONS = options(typer.main.get_command(app))
OPTIONS |= {"--config_file", "--num_processes", "--keep-going", "--help", "--parts", "--plain", "--step", "--shared"}
OPTIONS |= {"--pipeline", "--answers", "--data", "--minutes", "--mixed_precision", "--exchanged", "--local-dir"}
OPTIONS |= {"--scenes"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_in_the_text_exists(page: Path) -> None:
    """CHANGELOG names options that are gone."""
    text = re.sub(r"<!--.*?-->|^\| ?-.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z_-]+", text)) <= OPTIONS or page.name == "CHANGELOG.md"


def test_every_metric_in_the_text_exists() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z-]+(?::[a-zA-Z/_-]+)+)`", page)
    assert len(named) > 15
    for name in named:
        assert [find_metric(row) for row in spell_out([name])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_the_files_that_are_named_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"\]\((?!http|#)([^)#\s]+)[^)]*\)", text):
        assert (page.parent / name).exists(), name
    for name in re.findall(r"`((?:scripts|tests|judge|docs)/[\w./-]+\.\w+)`", text):
        assert (ROOT / name).exists() or page.name == "CHANGELOG.md", name
    # No absolute path, whatever the folder; no machine.
    assert not re.search(r"(?<![\w./:)\]>}*-])/[a-z]+/[\w.]|localhost", text)


def test_ci_runs_the_readmes_own_two_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    found = [line.strip() for block in blocks(README, "bash") for line in block.splitlines() if "pip install" in line]
    assert len(found) == 2
    assert all(command in script for command in found)


@pytest.mark.parametrize(
    ("page", "words"), [("README.md", 900), ("CHANGELOG.md", 1000), ("BENCHMARKS.md", 2500), ("docs/trust.md", 1800)]
)
def test_pages_are_short(page: str, words: int) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").split()) <= words


def test_what_readme_shows_stands_in_the_docs_too() -> None:
    """Values of a table are those of the longer table in the docs."""
    columns = {"docs/demo.md": "judge demo", "docs/guides/your-captioner.md": "judge evaluate"}
    for page, title in columns.items():
        short, long = (read_table(ROOT / name, title) for name in ("README.md", page))
        assert {row["captioner"] for row in long} == {row["captioner"] for row in short}
        for row in long:  # The page on the demo has them apart, as --verbose has.
            row.setdefault(VALUE, " ".join(row.get(part, "") for part in ("amplification", "95% interval")))
        assert all(row in [{key: one[key] for key in row} for one in long] for row in short)


@pytest.mark.slow
def test_the_first_table_is_what_the_command_finds(coco: Path, tmp_path: Path) -> None:
    """Scores and amplifications: they need no refits."""
    given = ["--human", coco / "captions_human.json", "--labels", coco / "gender.csv", "--out", tmp_path / "run"]
    given += [part for name in ("nic_plus", "nic_equalizer") for part in ("--captions", coco / f"results/{name}.json")]
    done_well("evaluate", *given, "--seeds", 3, "--refits", 0, "--chance", 0)
    found = read_json(tmp_path / "run/metrics.json")["results"]
    shown = read_table(ROOT / "docs/guides/your-captioner.md", "judge evaluate")
    assert len(found) == len(shown) == 4
    for row, line in zip(found, shown, strict=True):
        assert line["captioner"] == row["captioner"]
        assert line["metric (judge)"] == f"{find_metric(row['metric']).title} ({row['judge']})"
        assert line[VALUE].split()[0] == f"{row['amplification']:+.3f}"


def test_all_limits_are_documented() -> None:
    found = read_table(ROOT / "docs/reference/file-formats.md", "limits")
    assert found == [{"of": one.of, "at most": f"{one.most:,} {one.unit}"} for one in LIMITS]


def read_table(page: Path, title: str) -> list[dict[str, str]]:
    (found,) = re.findall(rf"<!-- table: {title}.*?-->\n((?:\|.*\n)+)", page.read_text(encoding="utf-8"))
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows]
