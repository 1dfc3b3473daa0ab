"""Values under judges of other families are those that a run with these judges finds, and come from files again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judge import evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.corpus import Corpus
from judge.errors import JudgeError
from judge.judges import other_families
from judge.report.render import markdown
from judge.report.saved_run import read_run
from judge.report.tables import result_table

QUICK: dict[str, Any] = {"resamples": 100, "workers": 1, "folds": 5, "refits": 0, "chance": 0}


@pytest.fixture(scope="module")
def small() -> Corpus:
    world = make_world(120, seed=4)
    human = replace(world.human, by_image={image: of[:2] for image, of in world.human.by_image.items()})
    return Corpus(human, (simulate(world, name="much", captioner=Captioner(stereotype=0.9)),), world.labels)


@pytest.mark.parametrize(
    ("judge", "others"),
    [
        ("words+embedding", ("linear", "embedding")),
        ("words+embedding:table.npz", ("linear", "embedding:table.npz")),
        ("linear", ("embedding",)),
        ("embedding:a:b", ("linear",)),
        ("lstm", ("words+embedding",)),
        ("sentence:all-MiniLM-L6-v2", ("words+embedding",)),
    ],
)
def test_other_families(judge: str, others: tuple[str, ...]) -> None:
    assert other_families(judge) == others


@pytest.mark.parametrize(
    ("judge", "embedding", "others"),
    [
        ("linear", "table.npz", ("embedding:table.npz",)),
        ("lstm", "table.npz", ("words+embedding:table.npz",)),
        ("linear", "none", ()),
        ("lstm", "none", ("linear",)),
        ("embedding:own.npz", "none", ("linear",)),
    ],
)
def test_other_families_read_the_embedding_of_the_run(judge: str, embedding: str, others: tuple[str, ...]) -> None:
    assert other_families(judge, embedding) == others


def test_values_are_those_of_runs_with_these_judges(small: Corpus, tmp_path: Path) -> None:
    """To the last digit; the rows of the table, refits and answers are those of a run without other families."""
    how = QUICK | {"metrics": "lic,sc,dbac-at"}
    result = evaluate(small, judge="linear", out=tmp_path / "run", **how)
    alone = evaluate(small, judge="linear", families=False, **how)
    other = evaluate(small, judge="embedding", families=False, **how)
    known = {row.metric.name: row.amplification for row in other.summaries}
    assert {row.metric.name: row.families for row in result.summaries} == {
        "lic": (("embedding", known["lic"]),),
        "sc": (),  # It has no second side.
        "dbac-at": (("embedding", known["dbac-at"]),),
    }
    assert [replace(row, families=()) for row in result.summaries] == list(alone.summaries)
    assert result.scores.equals(alone.scores)
    assert result.replicates.equals(alone.replicates)
    assert alone.families.empty
    saved = read_run(tmp_path / "run")
    assert saved.result.summaries == result.summaries
    assert f"| {known['lic']:+.3f} |" in markdown(result_table(saved.result))
    assert f"| embedding {known['lic']:+.3f} |" in markdown(result_table(saved.result, verbose=True))
    (tmp_path / "run/families.parquet").unlink()
    with pytest.raises(JudgeError, match="families"):
        read_run(tmp_path / "run")


def test_judges_that_a_run_has_are_not_trained_twice(small: Corpus) -> None:
    first, second = evaluate(small, judge="linear,embedding", **QUICK | {"metrics": "lic"}).summaries
    assert first.families == (("embedding", second.amplification),)
    assert second.families == (("linear", first.amplification),)


def test_no_other_families_by_the_papers_protocol(small: Corpus) -> None:
    """Unless they are wanted."""
    how = QUICK | {"metrics": "lic", "protocol": "paper", "seeds": 1}
    (row,) = evaluate(small, judge="linear", **how).summaries
    assert row.families == ()
    (row,) = evaluate(small, judge="linear", families=True, **how).summaries
    assert [name for name, _ in row.families] == ["embedding"]


def test_only_answers_of_other_families_are_stored(small: Corpus, tmp_path: Path) -> None:
    """And a later run finds them."""
    how = QUICK | {"metrics": "lic", "judge": "linear", "checkpoints": tmp_path}
    first = evaluate(small, **how)
    trained = {path.name for path in tmp_path.glob("*.safetensors")}
    weights = {name for name in trained if name.endswith(".weights.safetensors")}
    # Five folds of two human captions and a generated one.
    assert (len(weights), len(trained - weights)) == (15, 30)
    times = {name: (tmp_path / name).stat().st_mtime_ns for name in trained}
    again = evaluate(small, **how)
    assert again.summaries == first.summaries
    assert times == {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.safetensors")}


def test_judges_of_the_run_need_no_file_of_other_families(small: Corpus, tmp_path: Path) -> None:
    """Each is the other's companion: their answers are in scores.parquet, and the run is read without another file."""
    result = evaluate(small, judge="linear,embedding", metrics="lic", out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run/families.parquet").exists()
    assert read_run(tmp_path / "run").result.summaries == result.summaries
