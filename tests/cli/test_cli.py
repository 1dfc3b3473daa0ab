"""The command line and settings; mistakes of users are in ``attack/mistakes.yaml``."""

from __future__ import annotations

import logging
import re
from importlib import import_module
from importlib.metadata import Distribution, distributions, version
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import done_well, few, inputs_of, judge, pictures_of, read_json, refusal
from test_layers import loaded_after
from typer.testing import CliRunner

from judge import commands
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.commands import console, doctor
from judge.commands.app import app
from judge.commands.evaluate import RunConfig, evaluate
from judge.commands.options import resolve
from judge.commands.train import TrainConfig
from judge.config import PANELS, Settings, about_option, flag_of, make_config
from judge.judges.names import EMBEDDED, FILES
from judge.metrics import METRICS, spell_out
from judge.utils.files import warn_damaged


@pytest.mark.slow
def test_a_run_repeats_from_its_own_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captioners = {"none": Captioner(), "much": Captioner(stereotype=0.9)}
    files = few(write_world(make_world(60, seed=2), captioners, tmp_path / "world", pictures=64))
    options = [*inputs_of(files, "none", "much"), *pictures_of(files), "--objects", files.folder / "instances.json"]
    options += ["--metrics", "lic,ba-objects,dba", "--breakdown", "--resamples", 100, "--folds", 3, "--refits", 2]
    done_well("evaluate", *options, "--chance", 1, "--seeds", 1, "--seed", 4, "--workers", 1, "--out", tmp_path / "run")
    done_well("evaluate", tmp_path / "run" / "run.yaml", "--out", tmp_path / "again")
    for name in ("metrics.json", "scores.parquet"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def settings_of(name: str) -> list[type[Settings]]:
    """The settings of the commands in a module of judge.commands."""
    kinds = [kind for kind in vars(import_module(f"judge.commands.{name}")).values() if isinstance(kind, type)]
    own = [kind for kind in kinds if issubclass(kind, Settings) and kind.__module__.endswith(f".{name}")]
    return [kind for kind in own if "command" in vars(kind)]


COMMANDS = [kind for path in sorted(Path(commands.__path__[0]).glob("[a-z]*.py")) for kind in settings_of(path.stem)]


@pytest.mark.parametrize("config", COMMANDS, ids=lambda kind: kind.command)
def test_every_option_is_a_setting_and_the_reverse(config: type[Settings]) -> None:
    """One vocabulary: the command line, YAML and Python share it. ``--help`` shows the essential options."""
    for flag, every in (("--help", False), ("--help-all", True), ("--help", False)):
        arguments = [*config.command.split()[1:], *(["judges"] if config is TrainConfig else []), flag]
        lines = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}).output.splitlines()
        panels: dict[str, list[str]] = {}
        for line in lines:
            if line.startswith("╭"):
                panels[line.strip("╭─╮ ")] = panel = []
            elif re.match("│ [* ]*--", line):
                panel.append(line.strip("│* ").split()[0])
        flags = {
            flag_of(config, name) for name in config.model_fields if every or about_option(config, name)["essential"]
        }
        flags = {flag.split()[0] for flag in flags}  # "--training epochs"
        assert len(flags) <= 80
        assert sorted(flag for panel in panels.values() for flag in panel) == sorted([*flags, "--help", "--help-all"])
        assert list(panels) == ["Arguments", *(panel for panel in PANELS if panel in panels)]
    own = [name for name in config.model_fields if not about_option(config, name)["group"]]
    names = [name for name in own if flag_of(config, name) != f"--{name.replace('_', '-')}"]
    assert {*names} <= {"refusals", "columns", "label_values", "answers", "person_categories", "models"}


def test_options_in_groups() -> None:
    """A group is no field; what is given together is as if each had been given alone."""
    groups = {about_option(kind, name)["group"] for kind in COMMANDS for name in kind.model_fields} - {""}
    assert groups == {"training", "ba"}
    assert not groups & {name for kind in COMMANDS for name in kind.model_fields}
    given: dict[str, Any] = {"human": "h", "captions": ["a.json"], "ba": ["least=3"]}
    given["training"] = ["epochs=3,learning-rate=1e-4", "decay=yes, precision=no"]
    config = resolve(None, given, RunConfig)
    assert (config.epochs, config.learning_rate, config.decay, config.least) == (3, 1e-4, True, 3)
    assert config.precision == "no"
    for words, line in (
        (["--training", "epoch=3"], "--training: unknown name 'epoch'. Did you mean 'epochs'?"),
        (["--training", "clip"], "--training: 'clip' has no value. Write --training clip=VALUE."),
        (["--training", "clip=1,clip=2"], "--training: 'clip' twice. Keep one of 1, 2."),
        (["--learning-rate", "1"], "no such option: --learning-rate. Write --training learning_rate=VALUE."),
        (["--training", "epochs=x"], "'epochs': input should be a valid integer"),
    ):
        assert line in refusal("evaluate", "--human", "h", "--captions", "a.json", *words)


def test_evaluate_names_the_essential_options() -> None:
    """An editor shows them; the others are keywords too."""
    named = {*signature(evaluate).parameters} - {"corpus", "progress", "settings"}
    assert named == {name for name in RunConfig.model_fields if about_option(RunConfig, name)["essential"]}


def test_options_override_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    text = "human: h.json\nseeds: 3\ncolumns: {image_id: id}\nmodels: {a: b}\nout: null\nprecision: no\n"
    path.write_text(text, encoding="utf-8")
    given: dict[str, Any] = {"columns": ["caption=text"], "answers": ["f=lady", "m=man"], "seeds": None, "folds": "4"}
    given |= {"label_values": ["f=1", "f=x=y", "m=0"], "captions": ["x/a.json", "b=c=d.json"], "quality": True}
    config = resolve(path, given, RunConfig)
    assert (config.columns, config.answers) == ({"caption": "text"}, {"f": "lady", "m": "man"})
    assert config.label_values == {"f": ("1", "x=y"), "m": ("0",)}
    assert config.captions == {"a": Path("x/a.json"), "b": Path("c=d.json")}
    assert (config.seeds, config.folds, config.quality, config.models) == (3, 4, True, {"a": "b"})
    assert (config.out, config.precision) == (Path("runs/evaluate"), "no")  # YAML reads "no" as False.
    assert make_config(yaml.safe_load(config.to_yaml()), RunConfig) == config
    codes = make_config({"human": "h", "captions": ["c"], "label_values": {"f": 1, "m": [0]}}, RunConfig).label_values
    assert codes == {"f": ("1",), "m": ("0",)}
    path.write_text("- a list\n", encoding="utf-8")
    assert "not a mapping" in refusal("evaluate", path)


def test_help_names_every_metric_and_judge() -> None:
    metrics, judges = (
        re.findall(r"[\w+-]+", str(RunConfig.model_fields[name].description)) for name in ("metrics", "judge")
    )
    both_ways = {"u", "dbac", "dpac", "dba", "multi", "dpa"}
    assert set(spell_out([name for name in metrics if name in METRICS.keys() | both_ways])) == set(METRICS)
    assert set(FILES) <= set(judges)


def test_help_and_the_doctor_are_quick_and_light() -> None:
    """Nothing slow is imported, by ``import judge`` neither; the doctor imports torch alone, for the GPU."""
    slow = {"torch", "transformers", "accelerate", "sklearn", "matplotlib"}
    of_images = {"cv2", "timm", "ultralytics", "onnxruntime"}
    for arguments, heavy in (
        (["--help"], slow | {"pandas", "pyarrow", "scipy", "numpy", "pydantic"}),
        (["evaluate", "--help"], slow),
        (["doctor"], slow - {"torch"} | of_images),
    ):
        code = f"import sys\nsys.argv = {['judge', *arguments]}\nfrom judge.__main__ import main\n"
        assert not heavy & loaded_after(code + "try: main()\nexcept SystemExit: pass")
    # What workers of linear judges unpickle.
    assert "torch" not in loaded_after("import judge.training.disk_cache, judge.judges.linear")


def test_the_version() -> None:
    assert done_well("--version").stdout == f"caption-judge {version('caption-judge')}\n"


def test_the_doctor_says_what_can_run_and_what_adds_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """As installed here, all of it; without timm and the headed OpenCV, but with the headless one."""
    found = dict(line.split(": ", 1) for line in done_well("doctor").stdout.splitlines()[1:])
    for extra, name in (("networks", "torch"), ("vision", "timm"), ("images", "opencv-python"), ("quality", "nltk")):
        assert f"{name} {version(name)}" in found[f"[{extra}]"].split(", ")
    assert found["judges"].split(", ") == [*EMBEDDED, *FILES, "hf:NAME", "sentence:NAME"]
    assert {"gt", "yolo", "maskrcnn", "hf:NAME"} <= {*found["detectors"].split(", ")}
    assert {"GPU", "Java, for METEOR", "cache runs/cache"} <= found.keys()
    gone, opencv = {"timm", "opencv-python", "onnx"}, Distribution.from_name("opencv-python")
    others = [one for one in distributions() if one.name not in gone]
    headless = type("Headless", (), {"name": "opencv-python-headless", "version": opencv.version})
    monkeypatch.setattr(doctor, "distributions", lambda: [*others, headless])
    found = dict(line.split(": ", 1) for line in done_well("doctor").stdout.splitlines()[1:])
    assert found["[images]"].startswith(f"opencv-python {opencv.version}, ")
    assert re.fullmatch(r"lacks timm>=[\d.]+: pip install 'caption-judge\[vision\]'", found["[vision]"])
    assert re.fullmatch(r"lacks onnx>=[\d.]+: pip install 'caption-judge\[ultralytics\]'", found["[ultralytics]"])
    assert "sat (needs [vision])" in found["judges"]
    assert "lstm," in found["judges"]
    assert "yolo (needs [ultralytics])" in found["detectors"]


@pytest.mark.slow
def test_the_small_demo_needs_no_extra(tmp_path: Path) -> None:
    """It measures what the page on the demo says of conditional leakage and of LIC; their values need few refits."""
    code = f"""
from judge.commands import demo
from judge.commands.app import app
whole = demo.demo_settings
demo.demo_settings = lambda *of, **how: whole(*of, **how) | {{"refits": 2, "chance": 0}}
try: app(["demo", "--small", "--out", {str(tmp_path / "demo")!r}])
except SystemExit as end: assert not end.code
"""
    loaded = loaded_after(code)
    assert not loaded & {"torch", "cv2", "PIL.Image", "pycocotools", "transformers"}
    found = read_json(tmp_path / "demo" / "results" / "metrics.json")["results"]
    page = (Path(__file__).parents[2] / "docs" / "demo.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()]
    rows = {(row[0], row[1].split(" (")[0]): row[2:5] for row in cells if len(row) > 4 and row[1].endswith("(linear)")}
    shown = {
        (row["captioner"], METRICS[row["metric"]].title): [
            *(f"{row[side]:.3f}" for side in ("human", "generated")), f"{row['amplification']:+.3f}"
        ]
        for row in found
    }  # fmt: skip
    assert len(shown) == 6
    assert shown == {key: rows[key] for key in shown}
    assert not (tmp_path / "demo" / "world" / "images").exists()


def test_processes_that_srun_starts_alone_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line in all; a batch script itself, and what a launcher starts, go on."""
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    arguments = ["evaluate", "--human", "no.json", "--captions", "none.json"]
    for rank, message in (("0", "judge: srun: srun started 4 processes that do not know of each other."), ("1", "")):
        monkeypatch.setenv("SLURM_PROCID", rank)
        done = judge(*arguments)
        assert (done.exit_code, done.stderr[: len(message) or None]) == (2, message)
    monkeypatch.setenv("RANK", "0")
    assert "none.json: no such file" in judge(*arguments).stderr


def test_a_command_of_one_process_is_not_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    message = "judge: accelerate launch: this command runs in one process. Give it without a launcher.\n"
    for arguments in (["demo"], ["compare", "a", "b"], ["mask", "--images", "a", "--out", "b"]):
        done = judge(*arguments)
        assert (done.exit_code, done.stderr) == (2, message)


def test_lines_for_a_scheduler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """None of short work; then one where work changes, one a minute, with the time left at the speed so far."""
    now = 0.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    monkeypatch.setattr(console.time, "strftime", lambda _: "12:00:00")
    lines = console._Lines()
    for second in range(201):
        now = float(second)
        if second < 20:
            lines.show("reading", 0, 0)
        else:
            lines.show(f"training judges ({second} of 900), steps", 100 + 2 * (second - 20), 700)
    assert capsys.readouterr().err.splitlines() == [
        "12:00:00 reading",
        "12:00:00 training judges (20 of 900), steps: 100 of 700",
        "12:00:00 training judges (80 of 900), steps: 220 of 700, 0:01:00 elapsed, 0:04:00 left",
        "12:00:00 training judges (140 of 900), steps: 340 of 700, 0:02:00 elapsed, 0:03:00 left",
        "12:00:00 training judges (200 of 900), steps: 460 of 700, 0:03:00 elapsed, 0:02:00 left",
    ]


def test_damaged_files_cost_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with console.show_progress():
        for number in range(12):
            warn_damaged(Path(f"{number:0600}"))
        logging.getLogger("judge").warning("another")
    first, other, count = capsys.readouterr().err.splitlines()
    assert first.endswith("0 is damaged: it is computed again")
    assert len(first) <= 500
    assert other == "judge: another"
    assert count == "judge: 11 more cache files are computed again"
