"""Contributions of words: exact and by occlusion, against hand-worked cases and slow ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import GENDER, THREE, fault_of, judge_of, make_samples

from judge.attribution.words import (
    LARGEST,
    WORD_METHODS,
    ExplainedAnswers,
    exact,
    explain_answers,
    occlude,
    summary_of_words,
    word_table,
)
from judge.judges import NOTHING
from judge.judges.linear import WORDS as WORDS_ALONE
from judge.judges.linear import LinearJudge, Reading
from judge.text.alignment import UNKNOWN
from judge.text.embedding import WORDLLAMA, load_embedding
from judge.training.judge_file import Saved, open_self_trained, read_saved, save_network
from judge.types import Labels, Sample, Target
from judge.utils.tensors import write_tensors

pytestmark = pytest.mark.usefixtures("one_thread")
TASKS = Target("tasks", ("cat", "dog", "cup"))
BOTH, EMBEDDING, BEST = Reading(embedding=WORDLLAMA), Reading(False, WORDLLAMA), Reading(embedding=WORDLLAMA, best=True)


def caption(text: str, image: str = "1") -> Sample:
    return Sample(image, "generated", 0, tuple(text.split()), (0,))


def keep_linear(judge: LinearJudge, path: Path) -> Saved:
    """As ``judge train`` leaves it."""
    names = {WORDS_ALONE: "linear", BOTH: "words+embedding", EMBEDDING: "embedding", BEST: "best"}
    saved = Saved(path, names[judge.reading], judge.target, None, NOTHING, vocabulary=judge.vocabulary)
    write_tensors(path, judge.tensors(), saved.notes())
    return read_saved(path)


def explain(saved: Saved, samples: Sequence[Sample], tmp_path: Path) -> ExplainedAnswers:
    return explain_answers(saved, [samples], features=tmp_path / "features")[0]


def by_hand() -> LinearJudge:
    """Intercept 0.5; "a" 1, "b" -2, "a b" 0.8, "b a" 0.4, towards male; "c" has weight 0."""
    tensors = {
        "terms": np.array([0, 1, 2, 3 + 1, 3 + 3]), "groups": np.arange(5),
        "learnt": np.array([9]), "C": np.array([1.0]),
        "coefficients": np.array([[1.0], [-2.0], [0.0], [0.8], [0.4], [0.5]]),
        "open": np.array([True]), "shown": np.array([True]),
    }  # fmt: skip
    return LinearJudge.restore(GENDER, ("a", "b", "c"), tensors)


def test_linear_worked_by_hand(tmp_path: Path) -> None:
    question = explain(
        keep_linear(by_hand(), tmp_path / "x"), [caption("a b a"), caption("x c"), caption("")], tmp_path
    )
    assert question.explained.tolist() == [1, 1, 1]
    assert question.probabilities == pytest.approx(1 / (1 + np.exp([-0.7, -0.5, -0.5])))
    found = exact(question)
    assert found.contributions[0] == pytest.approx([0.5 + 0.4, -2 + 0.4 + 0.2, 0.5 + 0.2])
    assert found.contributions[1].tolist() == [0, 0]
    assert found.contributions[2].tolist() == []
    assert found.base == pytest.approx([0.5] * 3)
    assert found.total == pytest.approx([0.7, 0.5, 0.5])
    other = exact(replace(question, explained=np.zeros(3, dtype=np.int64)))
    assert other.contributions[0] == pytest.approx(-found.contributions[0])


def fitted(target: Target, reading: Reading = WORDS_ALONE, *, classes: int | None = None) -> LinearJudge:
    samples = make_samples(120, target=target, clue=0.7)
    if target.kind == "tasks":
        samples = [
            replace(one, answers=tuple(k for k in range(3) if (n + k) % (k + 2))) for n, one in enumerate(samples)
        ]
    shown = [one for one in samples if classes is None or one.answers[0] < classes]
    return LinearJudge(target, reading).fit(shown, seed=0)


JUDGES = {"two": fitted(GENDER), "three": fitted(THREE), "tasks": fitted(TASKS)}
JUDGES["words+embedding"] = fitted(THREE, BOTH)
JUDGES["embedding"] = fitted(GENDER, EMBEDDING)
JUDGES["best"] = fitted(THREE, BEST)


def slow_odds(p: np.ndarray, target: Target, k: int) -> float:
    if target.kind == "tasks":
        return float(np.log(p[k] / (1 - p[k])))
    return float(np.log(p[k]) - np.delete(np.log(p), k).mean())


@pytest.mark.parametrize("name", [*JUDGES, "unseen"])
def test_a_saved_judge_predicts_the_same(name: str, tmp_path: Path) -> None:
    """To the last digit; and contributions add up, also with a class without training samples."""
    judge = fitted(THREE, classes=2) if name == "unseen" else JUDGES[name]
    samples = make_samples(40, target=THREE, seed=3)
    saved = keep_linear(judge, tmp_path / "x")
    again = open_self_trained(saved)
    assert np.array_equal(again.predict(samples).probabilities, judge.predict(samples).probabilities)
    assert again.predict(samples).notes == judge.c
    question = explain(saved, samples, tmp_path)
    found = exact(question)
    assert np.abs(found.base + [amounts.sum() for amounts in found.contributions] - found.total).max() < 1e-9
    slow = [
        slow_odds(row, judge.target, k)
        for row, k in zip(question.answers.probabilities, question.explained, strict=True)
    ]
    assert found.total == pytest.approx(slow, abs=1e-9)
    assert (len(set(found.base)) <= 3) == (name != "unseen")
    assert len(saved.vocabulary) <= 14


def test_a_saved_judge_refuses_another_table_of_the_same_name(tmp_path: Path) -> None:
    """Its coefficients are of the directions of the table that it was trained with."""
    table, samples = tmp_path / "vectors.txt", make_samples(60)
    table.write_text("clue0 1.0 0.0\nclue1 0.0 1.0\n")
    name = f"best:{table}"
    judge = LinearJudge(GENDER, Reading(embedding=str(table), best=True)).fit(samples, seed=0)
    saved = Saved(tmp_path / "x", name, GENDER, None, NOTHING, vocabulary=judge.vocabulary)
    write_tensors(saved.path, judge.tensors(), saved.notes())
    assert open_self_trained(read_saved(saved.path)).predict(samples).notes == judge.c
    load_embedding.cache_clear()
    table.write_text("clue0 0.0 1.0\nclue1 1.0 0.0\n")
    message = f"it was trained with another table of the name '{table}'"
    assert message in fault_of(open_self_trained, read_saved(saved.path))


@pytest.fixture(scope="module")
def lstm(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """One word in eight is ``<unk>``, as in aligned captions, so that its vector is trained."""
    path, samples = tmp_path_factory.mktemp("lstm") / "lstm.safetensors", make_samples(160, clue=0.95)
    train = [replace(s, words=tuple(UNKNOWN if word == "noise7" else word for word in s.words)) for s in samples]
    save_network(judge_of("lstm", epochs=6, learning_rate=0.01, batch_size=32).fit(train, seed=0), path)
    return read_saved(path)


def test_occlusion_is_the_difference_without_the_word(lstm: Saved, tmp_path: Path) -> None:
    for saved in (lstm, keep_linear(JUDGES["two"], tmp_path / "x")):
        samples = [*make_samples(6, seed=1), caption(f"noise1 {UNKNOWN} never noise1 clue1"), caption("")]
        question = explain(saved, samples, tmp_path)
        found = occlude(question)
        for n, sample in enumerate(samples):
            for place in range(len(sample.words)):
                words = list(sample.words)
                words[place] = UNKNOWN
                after = question.predict([replace(sample, words=tuple(words))]).probabilities[0, question.explained[n]]
                assert found.contributions[n][place] == pytest.approx(question.probabilities[n] - after, abs=1e-6)
        assert found.contributions[-2][1] == 0
        assert abs(found.contributions[-2][2]) < 1e-6
        assert found.contributions[-1].tolist() == []


def test_a_class_that_the_judge_does_not_predict(lstm: Saved, tmp_path: Path) -> None:
    labels = Labels("skin", ("dark",), {"1": "dark"}, "skin.csv")
    message = "judge 'lstm' does not predict class 'dark', only female, male"
    assert message in fault_of(explain_answers, lstm, [make_samples(3)], labels=labels, features=tmp_path)


def test_the_table_and_its_summary(tmp_path: Path) -> None:
    samples = [caption("a b a"), caption("c b", "2")]
    question = explain(keep_linear(by_hand(), tmp_path / "x"), samples, tmp_path)
    found = [WORD_METHODS[method](question, None) for method in ("exact", "occlusion")]
    table = word_table(question, found)
    assert list(table["word"]) == ["a", "b", "a", "a", "b", "a", "c", "b", "c", "b"]
    assert table[table["method"] == "occlusion"]["base"].isna().all()
    summary = summary_of_words(question, found[0])
    assert summary["gap"] < 1e-9
    assert (summary["captions"], summary["words_in_all"]) == (2, 5)
    assert [word["word"] for word in summary["words"]] == ["b", "a", "c"][:LARGEST]
    mean = {"female": pytest.approx(2.0), "male": pytest.approx(-1.4)}
    assert summary["words"][0] == {"word": "b", "captions": 2, "mean": mean}
