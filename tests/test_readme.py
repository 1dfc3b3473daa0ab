"""README says what is true: its commands, its example files, its Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_ci_runs_the_readmes_own_two_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line.strip() for block in blocks("bash") for line in block.splitlines() if "pip install" in line]
    assert len(commands) == 2
    for command in commands:
        assert command in README
        assert command in script


def test_every_option_in_readme_exists() -> None:
    commands = (
        ["evaluate"], ["mask"], ["caption"], ["demo"], ["train", "judges"], ["train", "detector"],
        ["ablate", "detectors"], ["ablate", "masks"], ["align"],
    )  # fmt: skip
    helps = [CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"}).output for command in commands]
    known = set(re.findall(r"(?<![\w-])--[a-z][a-z_-]+", " ".join(helps)))
    others = {"--config_file", "--num_processes"}  # accelerate's
    ours = set(re.findall(r"(?<![\w-])--[a-z][a-z_-]+", README)) - others
    assert len(ours) > 20
    assert ours <= known


def test_links_lead_somewhere() -> None:
    for name in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / name).exists(), name


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that README's examples name."""
    files = write_world(
        make_world(80, seed=0),
        {"nic_plus": Captioner(stereotype=0.2), "nic_equalizer": Captioner(stereotype=0.6)},
        tmp_path / "world",
    )
    files.human.rename(tmp_path / "captions_human.json")
    files.labels.rename(tmp_path / "gender.csv")
    for name, path in files.captions.items():
        path.rename(tmp_path / f"{name}.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_readmes_yaml_runs(user: Path) -> None:
    (text,) = blocks("yaml")
    (user / "run.yaml").write_text(text, encoding="utf-8")
    assert yaml.safe_load(text)["judge"] == ["linear"]
    done = CliRunner().invoke(app, ["evaluate", "run.yaml", "--overwrite", "--workers", "1", "--folds", "2"])
    assert done.exit_code == 0, done.output
    assert (user / "runs" / "coco" / "metrics.json").exists()


def test_readmes_python_runs(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert "nic_plus" in capsys.readouterr().out
