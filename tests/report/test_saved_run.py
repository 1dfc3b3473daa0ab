"""A run's folder read back is the result that was written; folders that are damaged, or tampered with, are refused."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from helpers import fault_of
from pandas.testing import assert_frame_equal

from judge import evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.commands.report import open_runs
from judge.corpus import Corpus
from judge.corpus.products import multiply_labels
from judge.measure import Result, _replicates
from judge.report.caveats import warnings
from judge.report.directory import RunDirectory, metrics_json
from judge.report.notes import footnotes
from judge.report.render import markdown
from judge.report.result import tables_of
from judge.report.saved_run import read_run, read_table
from judge.report.several_runs import join_runs
from judge.report.verification import check_run
from judge.statistics.summary import Settings, summarise
from judge.types import Labels

Made = Mapping[str, tuple[Result, Path]]
QUICK: dict[str, Any] = {"resamples": 100, "workers": 1, "folds": 5, "refits": 0, "chance": 0, "least": 1}
# A captioner's name as hostile as a file system allows.
NAMES = ("none", 'mu|ch, of "it" é')


def few_captions(images: int) -> Corpus:
    """A world with two human captions an image, and two captioners of other leanings."""
    world = make_world(images, seed=4)
    human = replace(world.human, by_image={image: of[:2] for image, of in world.human.by_image.items()})
    knobs = dict(zip(NAMES, (0.0, 0.9), strict=True))
    told = (simulate(world, name=name, captioner=Captioner(stereotype=knob)) for name, knob in knobs.items())
    return Corpus(human, tuple(told), world.labels)


@pytest.fixture(scope="module")
def small() -> Corpus:
    return few_captions(90)


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
    alone = replace(small, generated=small.generated[:1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder))  # No Java, which takes seconds to start.
        splits = run("splits", metrics="lic,dbac,dba,ratio", breakdown=True, quality=True)
    return {
        "refits": run("refits", metrics="lic,sc,ba", refits=2, chance=1),
        "splits": splits,
        "seeds": run("seeds", alone, metrics="lic,dpac-at", protocol="paper", seeds=2),
        "counted": run("counted", metrics="ba,dpa", breakdown=True),
        "several": run("several", replace(alone, labels=both), metrics="leakage,dba", folds=3),
    }


KINDS = ("refits", "splits", "seeds", "counted", "several")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_is_what_was_written(made: Made, kind: str) -> None:
    """Byte for byte the same metrics.json, the same tables and notes, the same rows; and no contradiction in it."""
    result, folder = made[kind]
    saved = read_run(folder)
    assert metrics_json(saved.result) == (folder / "metrics.json").read_text(encoding="utf-8")
    assert saved.result.summaries == result.summaries
    for read in (footnotes, warnings, lambda of: list(map(markdown, tables_of(of)))):
        assert read(saved.result) == read(result)
    frames = [[of.scores, of.counts, of.replicates] for of in (saved.result, result)]
    if result.breakdown and saved.result.breakdown:
        broken = saved.result.breakdown, result.breakdown
        frames += [[of.images, of.captions, of.words] for of in broken]
        assert broken[0].tasks == broken[1].tasks
    for one, other in zip(chain(*frames[::2]), chain(*frames[1::2]), strict=True):
        if not len(one):
            assert not len(other)
            continue
        assert_frame_equal(one, other, check_dtype=False, check_column_type=False, check_index_type=False)
    for name, quality in result.quality.items():
        assert saved.result.quality[name] == replace(quality, images=(), by_image={})
    check_run(saved)
    table = read_table(folder).result
    assert (table.summaries, table.differences()) == (result.summaries, result.differences())


def test_values_that_are_infinite_are_kept(made: Made, tmp_path: Path) -> None:
    result, folder = made["seeds"]
    first, *others = result.summaries
    odd = replace(first, amplification=math.inf, interval=None, basis=None, replicates=None, p_value=None,
                  qualities=(math.inf, math.nan))  # fmt: skip
    copy = replace(result, summaries=(odd, *others))
    written = write(copy, folder, tmp_path / "odd")
    read = read_run(written).result
    assert read.summaries[0].amplification == math.inf
    assert read.summaries[0].qualities is not None
    assert (read.summaries[0].qualities[0], math.isnan(read.summaries[0].qualities[1])) == (math.inf, True)
    assert metrics_json(read) == metrics_json(copy)


def write(result: Result, like: Path, out: Path) -> Path:
    """A run's folder with the settings of another."""
    directory = RunDirectory(out)
    directory.begin()
    directory.finish((like / "run.yaml").read_text(encoding="utf-8"), result)
    return out


def test_judges_that_are_asked_as_they_are(made: Made, tmp_path: Path) -> None:
    """Their intervals are from draws, and are not made again; their values are."""
    result, folder = made["splits"]
    mine = result.scores[result.scores["metric"] == "lic"]
    rows = tuple(summarise(mine, None, Settings(resamples=100, untrained={"linear"})))
    assert {row.basis for row in rows} == {"images"}
    bare = replace(result, summaries=rows, scores=mine, counts=pd.DataFrame(), replicates=_replicates(rows),
                   breakdown=None, quality={},
                   examples=result.examples[result.examples["metric"] == "lic"])  # fmt: skip
    out = write(bare, folder, tmp_path / "asked")
    settings = yaml.safe_load((out / "run.yaml").read_text(encoding="utf-8"))
    (out / "run.yaml").write_text(yaml.safe_dump(settings | {"breakdown": False, "quality": False}), encoding="utf-8")
    saved = read_run(out)
    assert saved.result.summaries == rows
    check_run(saved)


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


def put(row: int, column: str, value: object) -> Tamper:
    return in_metrics(lambda document: document["results"][row].update({column: value}))


def remove(name: str) -> Tamper:
    return lambda folder: (folder / name).unlink()


def text(name: str, content: str) -> Tamper:
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


def louder(scores: pd.DataFrame) -> pd.DataFrame:
    """One answer that was wrong is right."""
    place = scores.index[(scores["metric"] == "lic") & (scores["predicted"] != scores["answer"])][0]
    scores.loc[place, ["predicted", "probability"]] = [scores.loc[place, "answer"], 0.99]
    return scores


CASES: dict[str, tuple[Tamper, str]] = {
    "value": (put(0, "generated", 0.123), "metrics.json: none, LIC (linear), generated: scores.parquet gives 0."),
    "value, told": (put(0, "generated", 0.123), "metrics.json says 0.123. Run judge evaluate again."),
    "counted": (put(2, "published", 9.0), "none, BA, published: counts.parquet gives "),
    "counted, excess": (put(2, "amplification", 0.5), "none, BA, amplification: metrics.json, published less"),
    "images": (put(0, "images", 12), "images: scores.parquet gives 90, metrics.json says 12"),
    "interval": (put(0, "ci", [0.0, 0.9]), "LIC (linear), ci: scores.parquet gives [-"),
    "p": (put(0, "p_value", 0.001), "LIC (linear), p_value: scores.parquet gives "),
    "corrected p": (put(0, "p_holm", 1e-9), "none, lic (linear), p_holm: the table gives "),
    "verdict": (put(3, "verdict", "perfect"), "metrics.json says perfect"),
    "difference": (in_metrics(lambda of: of["differences"][0].update(value=3)), ", value: the table gives "),
    "answer": (in_table("scores", louder), "metrics.json says 0."),
    "counts": (in_table("counts", lambda of: of[of["image_id"] != of["image_id"].iloc[0]]), "BA, "),
    "replicates": (
        in_table("replicates", lambda of: of.assign(amplification=of["amplification"] + 1)),
        "none, LIC (linear), p_value: scores.parquet gives 0.",
    ),
    "row lacks": (in_metrics(lambda of: of["results"].pop(0)), "scores.parquet has this row, metrics.json has not"),
    "answers lack": (
        in_table("scores", lambda of: of[of["metric"] != "sc"]),
        "metrics.json has this row, scores.parquet has not",
    ),
    "captioner lacks": (in_table("counts", lambda of: of[of["captioner"] == "none"]), "counts.parquet has not"),
    "NaN": (in_table("scores", lambda of: of.assign(loss=np.nan)), "'loss' is nan"),
    "probability": (in_table("scores", lambda of: of.assign(probability=7.0)), "'probability' is 7.0"),
    "side": (in_table("scores", lambda of: of.assign(side="left")), "'side' is left"),
    "no table": (remove("metrics.json"), "(metrics.json is missing)"),
    "no settings": (remove("run.yaml"), "(run.yaml is missing)"),
    "no scores": (remove("scores.parquet"), "(scores.parquet is missing)"),
    "no counts": (remove("counts.parquet"), "(counts.parquet is missing)"),
    "no replicates": (remove("replicates.parquet"), "replicates.parquet lacks the rows of none, lic (linear)"),
    "half written": (text("log.jsonl", '{"event": "started"}\n'), "the run is not finished; the command that began it"),
    "older": (in_metrics(lambda of: of["run"].pop("level")), "lacks 'level' of the entry 'run': it is of an older"),
    "older captioner": (
        in_metrics(lambda of: of["run"]["captioners"]["none"].pop("marks")),
        "lacks 'marks' of none: it is of an older version",
    ),
    "cut JSON": (text("metrics.json", '{"run": {'), "metrics.json is damaged: line 1"),
    "a list": (text("metrics.json", "[]"), "metrics.json holds no object"),
    "nested": (text("metrics.json", "[" * 100_000), "metrics.json is damaged: nested too deeply"),
    "huge": (text("metrics.json", '{"run": 1e999}'), "metrics.json holds 1e999, which is no number"),
    "digits": (text("metrics.json", f'{{"run": {"9" * 5000}}}'), "its files are not those of a finished run"),
    "infinity": (text("metrics.json", '{"run": Infinity}'), "metrics.json holds Infinity"),
    "text": (put(0, "human", "0.4"), "none, lic (linear), 'human' is '0.4', not a number"),
    "truth": (put(0, "images", True), "'images' is True, not a count"),
    "long": (put(0, "human", 10**400), "'human' is a number of 401 digits"),
    "pair": (put(0, "ci", [1, 2, 3]), "'ci' is [1, 2, 3], not two numbers"),
    "metric": (put(0, "metric", "magic"), "unknown metric 'magic'"),
    "twice": (in_metrics(lambda of: of["results"].append(of["results"][0])), "none, lic (linear) stands there twice"),
    "odd": (put(0, "not_finite", {"captioner": "x"}), "'not_finite' holds 'captioner'"),
    "facts": (in_metrics(lambda of: of["run"].update(captioners=[])), "'captioners' of the entry 'run'"),
    "deep facts": (in_metrics(lambda of: of["run"]["labels"].clear()), "its files are not those of a finished run"),
    "cut YAML": (text("run.yaml", "a: ["), "run.yaml is damaged"),
    "alias": (text("run.yaml", "a: &a [*a]\n"), "run.yaml is damaged"),
    "cut parquet": (text("scores.parquet", "PAR1"), "scores.parquet is damaged"),
    "column": (in_table("scores", lambda of: of.drop(columns="loss")), "scores.parquet has no column 'loss'"),
    "kind": (in_table("scores", lambda of: of.assign(seed="a")), "column 'seed' of scores.parquet is large_string"),
    "chosen": (in_table("examples", lambda of: of.assign(chosen="<b>")), "row 0: 'chosen' is another"),
    "no side": (in_table("examples", lambda of: of.assign(side="x")), "row 0: 'side' is another"),
    "no text": (in_table("examples", lambda of: of.assign(words=None)), "row 0: a text is missing"),
    "amounts": (in_table("examples", lambda of: of.assign(words="1 a")), "'words' holds something else than numbers"),
    "no row": (in_table("examples", lambda of: of.assign(judge="x")), "row 0: the table has no such row"),
    "cards": (in_table("examples", lambda of: of.assign(rank=of["rank"] + 9)), "row 0: 'rank' is not below 6"),
    "again": (in_table("examples", lambda of: pd.concat([of, of])), "the same caption twice"),
    "sure": (in_table("examples", lambda of: of.assign(probability=2.0)), "'probability' is none"),
    "added": (in_table("examples", lambda of: of.assign(contribution=np.inf)), "'contribution' is no number"),
    "picture": (picture(b"');}</style><script>"), "that of image 1 is no small JPEG"),
    "no picture": (picture(None), "a picture is missing"),
    "poster": (picture(b"\xff\xd8\xff" + bytes(2 << 20)), "that of image 1 is no small JPEG"),
    "more": (in_table("counts", lambda of: of.assign(x=1)), "counts.parquet has a column 'x', which no run writes"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_damage_is_told_in_one_line(made: Made, case: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(made["refits"][1], folder)
    tamper, message = CASES[case]
    tamper(folder)
    told = fault_of(open_runs, [folder])
    assert told.startswith(str(folder))
    assert message in told


SPLIT_CASES: dict[str, tuple[Tamper, str]] = {
    "splits": (
        in_table("replicates", lambda of: of.assign(amplification=of["amplification"] + 1)),
        "scores.parquet gives other values of the splits",
    ),
    "quality": (in_metrics(lambda of: of["quality"][0].update(value=0.9)), "quality.csv gives 0."),
    "no quality": (remove("quality.csv"), "quality.csv is missing"),
    "older": (in_metrics(lambda of: of.pop("scoring")), "lacks 'scoring': it is of an older version"),
    "breakdown": (
        in_table("breakdown/images", lambda of: of.assign(contribution=of["contribution"] * 2)),
        "sum of contributions: breakdown/images.parquet gives",
    ),
    "no breakdown": (remove("breakdown/captions.parquet"), "breakdown/captions.parquet is missing"),
    "no tasks": (remove("breakdown/tasks.csv"), "breakdown/tasks.csv is missing"),
    "tasks": (text("breakdown/tasks.csv", "a,b\n1\n2,3,4\n"), "no run can be read there"),
}


@pytest.mark.parametrize("case", SPLIT_CASES)
def test_damage_of_further_files_is_told(made: Made, case: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(made["splits"][1], folder)
    tamper, message = SPLIT_CASES[case]
    tamper(folder)
    assert message in fault_of(open_runs, [folder])


def test_a_run_that_is_under_way(made: Made, tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "later")
    directory.begin()
    told = fault_of(open_runs, [tmp_path / "later"])
    assert "the run is not finished; the command that began it goes on from later.partial" in told
    told = fault_of(open_runs, [directory.partial])
    assert "metrics.json is missing: the run is not finished" in told
    assert "No such file" in fault_of(open_runs, [tmp_path / "nothing"])


def test_runs_joined_are_one_run_of_both(small: Corpus, made: Made, tmp_path: Path) -> None:
    """A run of each captioner alone: the same rows, corrected p and differences as in the run of both."""
    result, _ = made["refits"]
    settings = QUICK | {"metrics": "lic,sc,ba", "refits": 2, "chance": 1}
    folders = [tmp_path / f"{place}" for place in range(2)]
    for folder, captioner in zip(folders, small.generated, strict=True):
        evaluate(replace(small, generated=(captioner,)), out=folder, **settings)
    joined = open_runs(folders)
    assert joined.name == "0, 1"
    written, wanted = (json.loads(metrics_json(of)) for of in (joined.result, result))
    assert written["differences"] == wanted["differences"]
    assert [row["p_holm"] for row in written["results"]] == [row["p_holm"] for row in wanted["results"]]
    assert joined.result.run["captioners"].keys() == result.run["captioners"].keys()
    assert len(joined.result.scores) == len(result.scores)
    # The same captioner twice.
    shutil.copytree(folders[0], tmp_path / "again")
    twice = open_runs([folders[0], tmp_path / "again"])
    assert [*twice.result.run["captioners"]] == ["0/none", "again/none"]
    assert {*twice.result.counts["captioner"]} == {"0/none", "again/none"}
    assert "the same run twice" in fault_of(open_runs, [folders[0], folders[0]])


def test_runs_of_other_metrics_keep_their_rows(made: Made) -> None:
    runs = [replace(read_run(made[kind][1]), name=kind) for kind in ("splits", "counted")]
    alike = replace(runs[1], settings=runs[0].settings)
    assert "the runs cannot be compared: breakdown" not in fault_of(join_runs, [runs[0], alike])
    refits = replace(read_run(made["refits"][1]), name="refits", settings=alike.settings)
    joined = join_runs([refits, alike]).result
    assert {row.key for row in joined.summaries} == {
        (f"{run.name}/{row.captioner}", *row.key[1:]) for run in (refits, alike) for row in run.result.summaries
    }
    assert joined.breakdown is not None
    assert {part.captioner for part in joined.breakdown.tasks} == {f"counted/{name}" for name in NAMES}
    tables = "".join(map(markdown, tables_of(joined)))
    assert "refits/none - counted/none" in tables
    level = replace(alike, result=replace(alike.result, run={**alike.result.run, "level": 0.9}))
    assert "level is 0.95 in one and 0.9 in the other" in fault_of(join_runs, [refits, level])
