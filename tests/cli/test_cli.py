"""The command as a user meets it: results, resumption, and one line with exit code 2 for each fault."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import done_well, few, judge, refusal
from test_layers import loaded_after
from typer.testing import CliRunner

from judge import commands
from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import CAPTIONERS, Captioner
from judge.commands import demo
from judge.commands.app import app
from judge.commands.evaluate import RunConfig, evaluate
from judge.commands.options import resolve
from judge.commands.train import TrainConfig
from judge.config import PANELS, Settings, flag_of, make_config, shown
from judge.errors import JudgeError
from judge.judges import FILES
from judge.metrics import METRICS, spell_out
from judge.training.loop import NetworkJudge
from judge.utils.outputs import MANIFEST, write_manifest

FAST = ["--resamples", "100", "--workers", "1", "--folds", "3", "--refits", "3", "--chance", "2"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    captioners = {"none": Captioner(), "much": Captioner(stereotype=0.9)}
    return write_world(make_world(120, seed=2), captioners, tmp_path_factory.mktemp("files") / "world")


def inputs(files: WorldFiles) -> list[object]:
    return ["--human", files.human, "--captions", files.captions["much"], "--labels", files.labels]


def refused(*arguments: object) -> str:
    return refusal("evaluate", *arguments)


def written(out: Path) -> dict[str, Any]:
    """What ``metrics.json`` of a run says."""
    found: dict[str, Any] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    return found


def events(out: Path) -> list[str]:
    """Of a run's log; what trainings tell apart."""
    return [line["event"] for line in logged(out) if "judge" not in line]


def logged(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_run_repeats_from_its_own_yaml_and_options_override_it(finished_run: Path, tmp_path: Path) -> None:
    first, again, other = finished_run, tmp_path / "again", tmp_path / "other"
    done_well("evaluate", first / "run.yaml", "--out", again)
    assert (first / "metrics.json").read_bytes() == (again / "metrics.json").read_bytes()
    assert (first / "scores.parquet").read_bytes() == (again / "scores.parquet").read_bytes()
    assert judge("evaluate", first / "run.yaml", "--metrics", "sc", "--out", other).exit_code == 0
    assert yaml.safe_load((other / "run.yaml").read_text(encoding="utf-8"))["metrics"] == ["sc"]


def test_labels_are_derived_when_none_are_given_and_the_table_says_so(files: WorldFiles, tmp_path: Path) -> None:
    """The captioner's name could be markup."""
    arguments = ["--human", files.human, "--captions", f"a[red]={files.captions['much']}", "--metrics", "sc"]
    done = done_well("evaluate", *arguments, *FAST, "--out", tmp_path / "run")
    assert "Labels DERIVED" in done.stdout
    assert written(tmp_path / "run")["run"]["labels"]["derived"] is True
    assert "a[red] " in done.stdout


ALIKE = "image_id,gender\n" + "".join(f"{i},male\n" for i in range(1, 121))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("much.json", "{not json", "much.json"),
        ("much.json", '[{"image_id": 1, "caption": null}]', "null"),
        ("much.json", '[{"image_id": 990001, "caption": "a cat"}]', "no image in common"),
        ("much.json", "", "empty"),
        ("labels.csv", "image_id,gender\n1,female\n2,purple\n", "purple"),
        ("labels.csv", "image_id,gender\n1,0\n2,1\n", "--label-value"),
        ("labels.csv", ALIKE, "all 120 images are 'male'"),
    ],
)
def test_faulty_files(files: WorldFiles, tmp_path: Path, name: str, content: str, message: str) -> None:
    """Examples of what is tested where files are read; none leaves anything."""
    path, out = tmp_path / name, tmp_path / "deep" / "run"
    path.write_text(content, encoding="utf-8")
    option = "--labels" if name == "labels.csv" else "--captions"
    given = dict(zip(*[iter(inputs(files))] * 2, strict=True)) | {option: path, "--out": out}
    told = refused(*(part for pair in given.items() for part in pair))
    assert message in told
    assert option == "--labels" or str(path) in told
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "lick"], "--metrics: unknown metric 'lick'. Did you mean 'lic'?"),
        (["--judge", "lsmt"], "--judge: unknown judge 'lsmt'. Did you mean 'lstm'?"),
        (["--protocol", "paperr"], "--protocol: unknown value 'paperr'. Did you mean 'paper'?"),
        (["--seeds", "0"], "'seeds'"),
        (["--lexicon", "gendr"], "no lexicon 'gendr'. Did you mean 'gender'?"),
        (["--column", "caption"], "'caption' is not KEY=VALUE"),
        (["--human", "nowhere.json"], "nowhere.json"),
        (["--judge", "lstm", "--protocol", "paper", "--seeds", "1", "--learning-rate", "1e38"], "loss is"),
    ],
)
def test_faulty_options(files: WorldFiles, tmp_path: Path, arguments: list[str], message: str) -> None:
    given = [*inputs(files), "--workers", "1", "--folds", "2", "--out", tmp_path / "run", *arguments]
    assert message in refused(*given)
    assert list(tmp_path.iterdir()) == []


def test_faulty_yaml(files: WorldFiles, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"human: {files.human}\ncaptions: [{files.captions['much']}]\nmetrcs: lic\n", encoding="utf-8")
    assert refused(path) == f"judge: {path}: unknown key 'metrcs'. Did you mean 'metrics'?\n"
    path.write_text("- a list\n", encoding="utf-8")
    assert "not a mapping" in refused(path)
    path.write_text("human: x.json\n", encoding="utf-8")
    assert "'captions' is missing. Give --captions" in refused(path)


def test_places_where_no_run_may_be_written(files: WorldFiles, finished_run: Path, tmp_path: Path) -> None:
    thesis, run = tmp_path / "thesis", tmp_path / "run"
    thesis.mkdir()
    (thesis / "thesis.tex").write_text("years of work", encoding="utf-8")
    assert "holds something that is no run" in refused(*inputs(files), "--out", thesis, "--overwrite")
    shutil.copytree(finished_run, run)
    inside = run / "mine.json"
    inside.write_bytes(files.captions["much"].read_bytes())
    arguments = ["--human", files.human, "--captions", inside, "--out", run, "--overwrite"]
    assert "holds mine.json, which is read" in refused(*arguments)
    assert (thesis / "thesis.tex").exists()
    assert inside.exists()
    for place in (".", "/"):
        refused(*inputs(files), "--out", place, "--overwrite")
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    assert refused(*inputs(files), "--out", blocked) == f"judge: --out {blocked}: is a file. Name a folder.\n"
    assert "cannot be written" in refused(*inputs(files), "--out", blocked / "run")


def test_yaml_words(files: WorldFiles, tmp_path: Path) -> None:
    """What YAML reads as something else: no, 1."""
    labels = tmp_path / "codes.csv"
    names = files.labels.read_text(encoding="utf-8")
    labels.write_text(names.replace("female", "1").replace("male", "0"), encoding="utf-8")
    settings = f"human: {files.human}\ncaptions: {files.captions['much']}\nlabels: {labels}\nprecision: no\nfolds: 2\n"
    settings += f"label_values: {{female: 1, male: [0]}}\nmetrics: sc\nout: {tmp_path / 'run'}\n"
    path = tmp_path / "run.yaml"
    path.write_text(settings, encoding="utf-8")
    done_well("evaluate", path, "--workers", "1")
    assert written(tmp_path / "run")["run"]["captioners"]["much"]["images"] == {"female": 60, "male": 60}


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
        flags = [flag_of(config, name) for name in config.model_fields if every or shown(config, name)["essential"]]
        assert sorted(flag for panel in panels.values() for flag in panel) == sorted([*flags, "--help", "--help-all"])
        assert list(panels) == ["Arguments", *(panel for panel in PANELS if panel in panels)]
    names = [name for name in config.model_fields if flag_of(config, name) != f"--{name.replace('_', '-')}"]
    assert {*names} <= {"refusals", "columns", "label_values", "answers", "person_categories", "models"}


def test_evaluate_names_the_essential_options() -> None:
    """An editor shows them; the others are keywords too."""
    named = {*signature(evaluate).parameters} - {"corpus", "progress", "settings"}
    assert named == {name for name in RunConfig.model_fields if shown(RunConfig, name)["essential"]}


def test_options_override_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("human: h.json\nseeds: 3\ncolumns: {image_id: id}\nmodels: {a: b}\nout: null\n", encoding="utf-8")
    given: dict[str, Any] = {"columns": ["caption=text"], "answers": ["f=lady", "m=man"], "seeds": None, "folds": "4"}
    given |= {"label_values": ["f=1", "f=x=y", "m=0"], "captions": ["x/a.json", "b=c=d.json"], "quality": True}
    config = resolve(path, given, RunConfig)
    assert (config.columns, config.answers) == ({"caption": "text"}, {"f": "lady", "m": "man"})
    assert config.label_values == {"f": ("1", "x=y"), "m": ("0",)}
    assert config.captions == {"a": Path("x/a.json"), "b": Path("c=d.json")}
    assert (config.seeds, config.folds, config.quality, config.models) == (3, 4, True, {"a": "b"})
    assert config.out == Path("runs/evaluate")
    assert make_config(yaml.safe_load(config.to_yaml()), RunConfig) == config


def test_help_names_every_metric_and_judge() -> None:
    metrics, judges = (
        re.findall(r"[\w-]+", str(RunConfig.model_fields[name].description)) for name in ("metrics", "judge")
    )
    both_ways = {"dbac", "dpac", "dba", "multi", "dpa"}
    assert set(spell_out([name for name in metrics if name in METRICS.keys() | both_ways])) == set(METRICS)
    assert set(FILES) <= set(judges)


def test_captions_in_any_script(files: WorldFiles, tmp_path: Path) -> None:
    texts = ("一个人在跑 🏃‍♀️", "व्यक्ति दौड़ रहा है", "شخص يجري", "😀")
    path = tmp_path / "scripts.json"
    records = [{"image_id": i, "caption": texts[i % 4]} for i in range(1, 121)]
    path.write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
    given = ["--human", files.human, "--captions", path, "--labels", files.labels, *FAST, "--out", tmp_path / "r"]
    done_well("evaluate", *given)


def test_a_killed_run_goes_on_with_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL amid LSTM judges, 3 and 18 refits, then a fault; the same command then ends as if nothing had been."""
    files = few(write_world(make_world(60, seed=2), {"much": Captioner(stereotype=0.9)}, tmp_path / "world"), 2)
    arguments = ["evaluate", *inputs(files), "--judge", "lstm", "--protocol", "paper", "--seeds", "1", "--epochs", "2"]
    arguments += ["--learning-rate", 0.002, "--metrics", "lic", "--refits", 2, "--workers", 1, "--resamples", 100]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done_well(*arguments, "--out", whole)
    check_losses(whole)
    command = [sys.executable, "-m", "judge", *map(str, arguments), "--out", str(killed)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    store = killed.with_name("killed.partial") / "members"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(list(store.glob("[0-9a-f]*.safetensors"))) < 5:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not killed.exists()
    finished = [path for path in store.glob("*.safetensors") if "training" not in path.name]
    assert 3 < len(finished) < 21
    with monkeypatch.context() as patched:
        patched.setattr(NetworkJudge, "fit", failing_at(3))
        failed = judge(*arguments, "--out", killed)
    assert failed.exit_code == 2
    go_on = f"the same command (judge evaluate ... --out {killed}) goes on from what is finished."
    # On a slow machine lines of progress go before.
    assert failed.stderr.splitlines()[-1] == f"judge: training: no room. Take less; then {go_on}"
    assert len([path for path in store.glob("*.safetensors") if "training" not in path.name]) == len(finished) + 2
    done_well(*arguments, "--out", killed)
    for name in ("scores.parquet", "replicates.parquet", "metrics.json"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name
    (row,) = written(whole)["results"]
    assert (row["basis"], row["degrees"]) == ("refits", 2)
    assert row["p_value"] is not None
    assert events(killed) == ["started", "resumed", "resumed", "finished"]


def check_losses(out: Path) -> None:
    """The log holds the losses of 3 judges in 2 epochs, and none of refits."""
    told = [line for line in logged(out) if line["event"] == "epoch"]
    assert len({(line["side"], line["index"], line["epoch"]) for line in told}) == len(told) == 6
    assert all(line["loss"] > 0 for line in told)


def failing_at(number: int) -> Callable[..., Any]:
    """``NetworkJudge.fit`` that fails when it is called for the ``number``-th time."""
    fit, calls = NetworkJudge.fit, iter(range(1, number + 1))

    def failing(*given: Any, **extra: Any) -> Any:
        if next(calls) == number:
            raise JudgeError("no room", where="training", mend="take less")
        return fit(*given, **extra)

    return failing


def test_help_is_quick_and_light() -> None:
    """Nothing slow is imported: how long it takes is measured elsewhere."""
    slow = {"torch", "transformers", "sklearn", "matplotlib"}
    for arguments, heavy in (([], slow | {"pandas", "scipy", "numpy", "pydantic"}), (["evaluate"], slow)):
        code = f"import sys\nsys.argv = {['judge', *arguments, '--help']}\nfrom judge.__main__ import main\n"
        assert not heavy & loaded_after(code + "try: main()\nexcept SystemExit: pass")


@pytest.mark.slow
def test_demo_draws_its_world_and_keeps_the_order_of_the_knob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # CI runs the whole demo, the first command of README; judges that use images are not asked for values here.
    monkeypatch.setitem(demo.QUICK, "epochs", 1)
    monkeypatch.setitem(demo.QUICK, "folds", 3)
    # A demo may replace a demo.
    write_world(make_world(20), CAPTIONERS, tmp_path / "demo" / "world")
    (tmp_path / "demo" / "results").mkdir()
    (tmp_path / "demo" / "results" / "run.yaml").write_text("an earlier run", encoding="utf-8")
    write_manifest(tmp_path / "demo" / "results", "run")
    done = done_well("demo", "--out", tmp_path / "demo", "--images", "200")
    found = written(tmp_path / "demo" / "results")
    lic = [row["amplification"] for row in found["results"] if row["metric"] == "lic"]
    assert lic == sorted(lic)
    # Each metric's evidence is aligned as its row says, and told apart.
    aligned = found["run"]["captioners"]["much"]["alignment"]
    assert {name: report["how"] for name, report in aligned.items()} == {"lic": "constant", "imagecaptioner2": "none"}
    kept = aligned["lic"]["tokens_kept"]
    assert kept < aligned["imagecaptioner2"]["tokens_kept"] == 1
    assert any(f"alignment (LIC) keeps {kept:.1%} of human tokens" in line for line in found["notes"]["footnotes"])
    world = tmp_path / "demo" / "world"
    names = f"{MANIFEST} captions captions_human.json contact_sheet.png images instances.json labels.csv"
    names += " truth.json world.yaml"
    assert sorted(path.name for path in world.iterdir()) == names.split()
    truth = json.loads((world / "truth.json").read_text(encoding="utf-8"))
    assert list(truth) == ["none", "some", "much"]
    assert all(set(known) == {"A->T", "T->A"} for known in truth.values())
    assert str(world) in done.stdout
    # What was drawn is COCO as every command reads it: ground truth hides exactly its people.
    out = tmp_path / "masked"
    done_well("mask", "--images", world / "images", "--instances", world / "instances.json", "--out", out)
    assert len(list(out.glob("0*.png"))) == 200
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work", encoding="utf-8")
    assert judge("demo", "--out", tmp_path / "mine").exit_code == 2
