"""A run's folder is computed again as it was; folders that are damaged, or say something else, are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import done_well, fault_of, with_captions
from pandas.testing import assert_frame_equal

from judge import evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.corpus import Corpus
from judge.corpus.attributes import multiply_labels
from judge.measure import Result
from judge.report.directory import RunDirectory, metrics_json
from judge.report.notes import footnotes
from judge.report.render import markdown
from judge.report.saved_run import SavedRun, read_run
from judge.report.sections import tables_of
from judge.report.several_runs import join_runs, read_runs
from judge.report.tables import result_table
from judge.report.warnings import warnings
from judge.types import Labels

Made = Mapping[str, tuple[Result, Path]]
QUICK: dict[str, Any] = {"resamples": 100, "workers": 1, "folds": 5, "refits": 0, "chance": 0, "least": 1}
QUICK["judge"] = "linear"
TESTED: dict[str, Any] = {"metrics": "lic,sc,ba", "folds": 2, "seeds": 1, "refits": 2, "chance": 1}
# A captioner's name as hostile as a file system allows.
NAMES = ("none", 'mu|ch, of "it" é')


def open_runs(folders: list[Path]) -> SavedRun:
    """Several runs as one, as ``judge report`` opens them."""
    return join_runs(read_runs(folders))


@pytest.fixture(scope="module")
def small() -> Corpus:
    """A world with two human captions an image, and two captioners of other leanings."""
    world = make_world(90, seed=4)
    knobs = dict(zip(NAMES, (0.0, 0.9), strict=True))
    captioners = (simulate(world, name=name, captioner=Captioner(stereotype=knob)) for name, knob in knobs.items())
    return with_captions(Corpus(world.human, tuple(captioners), world.labels))


@pytest.fixture(scope="module")
def made(small: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Result, Path]]:
    """Runs of every kind: what they found, and the folder that they left."""
    folder = tmp_path_factory.mktemp("runs")

    def run(name: str, corpus: Corpus = small, **settings: Any) -> tuple[Result, Path]:
        return evaluate(corpus, out=folder / name, **QUICK | settings), folder / name

    labels = small.labels
    assert labels is not None
    skin = {image: ("dark", "light")[place % 2] for place, image in enumerate(labels.by_image)}
    both = multiply_labels([labels, Labels("skin", ("dark", "light"), skin, "made up")])
    first = small.generated[0].name
    alone = replace(small, generated=small.generated[:1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder))  # No Java, which takes seconds to start.
        splits = run("splits", metrics="lic,dbac-ta,dba,ratio", breakdown=True, quality=True, baseline=first)
    return {
        "refits": run("refits", **TESTED),
        "splits": splits,
        "seeds": run("seeds", alone, metrics="lic,dpac-at", protocol="paper", seeds=2),
        "counted": run("counted", metrics="ba,dpa", breakdown=True),
        "several": run("several", replace(alone, labels=both), metrics="leakage,dba", folds=2),
    }


def same(one: object, other: object, *tables: str) -> None:
    """The tables of two results, or breakdowns, are equal; those without rows may lack columns, categories are text."""
    for name in tables:
        first, second = (
            of.astype(dict.fromkeys(of.select_dtypes("category"), str))
            for of in (getattr(one, name), getattr(other, name))
        )
        if len(first) or len(second):
            assert_frame_equal(first, second, check_dtype=False, check_column_type=False, check_index_type=False)


@pytest.mark.parametrize("kind", ["refits", "splits", "seeds", "counted", "several"])
def test_what_is_read_is_what_was_written(made: Made, kind: str) -> None:
    """Byte for byte the same metrics.json, the same tables and notes, the same rows; and no contradiction in it."""
    result, folder = made[kind]
    saved = read_run(folder)
    assert metrics_json(saved.result) == (folder / "metrics.json").read_text(encoding="utf-8")
    assert saved.result.summaries == result.summaries
    for read in (footnotes, warnings, lambda of: list(map(markdown, tables_of(of)))):
        assert read(saved.result) == read(result)
    same(saved.result, result, "scores", "counts", "replicates")
    if result.breakdown:
        same(saved.result.breakdown, result.breakdown, "tasks", "images", "captions", "words")
    assert len(result_table(result).shown()) <= 10
    for name, quality in result.quality.items():
        assert saved.result.quality[name] == replace(quality, images=(), by_image={})


Tamper = Callable[[Path], object]


def in_metrics(change: Callable[[dict[str, Any]], object]) -> Tamper:
    def tamper(folder: Path) -> None:
        document = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        change(document)
        (folder / "metrics.json").write_text(json.dumps(document), encoding="utf-8")

    return tamper


def picture(data: bytes | None) -> Tamper:
    def tamper(folder: Path) -> None:
        held = pd.DataFrame({"image_id": ["0", "1"], "picture": [b"\xff\xd8\xff", data]})
        held.to_parquet(folder / "pictures.parquet", index=False)

    return tamper


def in_table(name: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Tamper:
    def tamper(folder: Path) -> None:
        change(pd.read_parquet(folder / f"{name}.parquet")).to_parquet(folder / f"{name}.parquet", index=False)

    return tamper


def text(name: str, content: str) -> Tamper:
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


ROWS = ": the tables have other rows than metrics.json. Run judge evaluate again."
CASES: dict[str, tuple[Tamper, str]] = {
    "other captioner": (in_metrics(lambda of: of["results"][0].update(captioner="another")), ROWS),
    "row lacks": (in_metrics(lambda of: of["results"].pop(0)), ROWS),
    "twice": (in_metrics(lambda of: of["results"].append(of["results"][0])), ROWS),
    "NaN": (in_table("scores", lambda of: of.assign(loss=np.nan)), "NaN, or images scored on one side only"),
    "fit": (in_table("scores", lambda of: of.assign(fit="well")), "not those of a finished run"),
    "other metric": (in_metrics(lambda of: of["run"].update(metrics=["lic", "magic"])), "unknown metric 'magic'"),
    "draws": (
        in_metrics(lambda of: of["run"]["statistics"].update(resamples=10**12)),
        "'level' or 'resamples' of the entry 'run' of metrics.json is out of range",
    ),
    "no scores": (lambda folder: (folder / "scores.parquet").unlink(), "(scores.parquet is missing)"),
    "half written": (text("log.jsonl", '{"event": "started"}\n'), "the run is not finished; the command that began it"),
    "older": (in_metrics(lambda of: of["run"].pop("level")), "not those of a finished run: 'level' is missing"),
    "cut JSON": (text("metrics.json", '{"run": {'), "metrics.json is damaged: line 1"),
    "nested": (text("metrics.json", "[" * 100_000), "not those of a finished run"),
    "cut YAML": (text("run.yaml", "a: ["), "run.yaml: not YAML"),
    "cut parquet": (text("scores.parquet", "PAR1"), "scores.parquet is damaged"),
    "chosen": (in_table("examples", lambda of: of.assign(chosen="<b>")), "not those of a finished run"),
    "picture": (picture(b"');}</style><script>"), "that of image 1 is no small JPEG"),
    "poster": (picture(b"\xff\xd8\xff" + bytes(2 << 20)), "that of image 1 is no small JPEG"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_damage_is_reported_in_one_line(made: Made, case: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(made["refits"][1], folder)
    tamper, message = CASES[case]
    tamper(folder)
    fault = fault_of(open_runs, [folder])
    assert fault.startswith(str(folder))
    assert message in fault


def test_what_is_computed_again_is_never_read(made: Made, tmp_path: Path) -> None:
    """Numbers that are made from answers and counts may be lost or changed: the result is as it was."""
    result, folder = made["splits"]
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    in_metrics(lambda of: of["results"][0].update(generated=0.123))(run)
    in_metrics(lambda of: of["differences"].clear())(run)
    in_table("breakdown/images", lambda of: of.assign(contribution=of["contribution"] * 2))(run)
    (run / "breakdown" / "tasks.csv").unlink()
    saved = read_run(run).result
    assert metrics_json(saved) == (folder / "metrics.json").read_text(encoding="utf-8")
    assert result.breakdown
    same(saved.breakdown, result.breakdown, "images", "tasks")


def test_a_run_that_is_under_way(made: Made, tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "later")
    directory.begin()
    fault = fault_of(open_runs, [tmp_path / "later"])
    assert "the run is not finished; the command that began it goes on from later.partial" in fault
    fault = fault_of(open_runs, [directory.partial])
    assert "log.jsonl has no entry 'finished': the run is not finished" in fault
    assert "No such file" in fault_of(open_runs, [tmp_path / "nothing"])


@pytest.mark.slow
def test_runs_joined_are_one_run_of_both(small: Corpus, made: Made, tmp_path: Path) -> None:
    """A run of each captioner alone: the same rows, corrected p and differences as in the run of both."""
    result, _ = made["refits"]
    settings = QUICK | TESTED
    folders = [tmp_path / f"{place}" for place in range(2)]
    for folder, captioner in zip(folders, small.generated, strict=True):
        evaluate(replace(small, generated=(captioner,)), out=folder, **settings)
    joined = open_runs(folders)
    assert joined.name == "0, 1"
    written, wanted = (json.loads(metrics_json(of)) for of in (joined.result, result))
    assert written["differences"] == wanted["differences"]
    assert [row["verdict"] for row in written["results"]] == [row["verdict"] for row in wanted["results"]]
    assert joined.result.run["captioners"].keys() == result.run["captioners"].keys()
    assert len(joined.result.scores) == len(result.scores)
    # The same captioner twice.
    shutil.copytree(folders[0], tmp_path / "again")
    twice = open_runs([folders[0], tmp_path / "again"])
    assert [*twice.result.run["captioners"]] == ["0/none", "again/none"]
    assert {*twice.result.counts["captioner"]} == {"0/none", "again/none"}
    assert "the same run twice" in fault_of(open_runs, [folders[0], folders[0]])


def test_runs_without_refits_have_a_page_together(made: Made, tmp_path: Path) -> None:
    """Nor values of five splits: neither has rows of replicates."""
    shutil.copytree(made["several"][1], tmp_path / "again")
    done_well("report", made["several"][1], tmp_path / "again", "--out", tmp_path / "both.html")
    assert "Leakage: " in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_runs_of_other_metrics_keep_their_rows(made: Made) -> None:
    seeds, counted, refits = (replace(read_run(made[kind][1]), name=kind) for kind in ("seeds", "counted", "refits"))
    assert "the runs cannot be compared: " in fault_of(join_runs, [seeds, counted])
    joined = join_runs([refits, counted]).result
    assert {row.key for row in joined.summaries} == {
        (f"{run.name}/{row.captioner}", *row.key[1:]) for run in (refits, counted) for row in run.result.summaries
    }
    assert joined.breakdown is not None
    assert set(joined.breakdown.tasks["captioner"]) == {f"counted/{name}" for name in NAMES}
    tables = "".join(map(markdown, tables_of(joined)))
    assert "refits/none - counted/none" in tables
    level = replace(counted, result=replace(counted.result, run={**counted.result.run, "level": 0.9}))
    assert "level is 0.95 in one and 0.9 in the other" in fault_of(join_runs, [refits, level])
