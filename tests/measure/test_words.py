"""What the words of captions add to what judges know: against slow sums, scikit-learn, and where one word tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import keep_predictions
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from judge.corpus import Corpus
from judge.evidence import Slot
from judge.judges import logistic
from judge.measure import Job, Plan, lay_out
from judge.measure.table import answer_rows, score_table
from judge.measure.words import CAPTION_COLUMNS, COLUMNS, INTERCEPT, LARGEST, caption_words, word_contributions
from judge.statistics.summary import Settings, summarise
from judge.text.lexicon import Lexicons
from judge.training.member import TrainingSetup
from judge.training.run_members import train_members
from judge.types import Captions, Labels, Predictions, Sample

SIDES = ("human", "generated")
QUICK: dict[str, Any] = {"metrics": ("lic", "leakage"), "folds": 3, "seeds": 1}


@dataclass(frozen=True)
class Run:
    """A run whose judges are at hand."""

    plan: Plan
    jobs: Sequence[Job]
    answers: Sequence[Predictions]
    scores: pd.DataFrame

    @property
    def notes(self) -> list[dict[str, float]]:
        return [dict(answers.notes) for answers in self.answers]

    def words(self) -> pd.DataFrame:
        return word_contributions(self.jobs, self.notes, self.plan)


def run(corpus: Corpus, **asked: Any) -> Run:
    plan = Plan(**QUICK | asked)
    jobs = lay_out(corpus, plan, Lexicons(None)).jobs
    answers = train_members([job.member for job in jobs], TrainingSetup(workers=1), then=keep_predictions)
    rows = [answer_rows(job.member, of)[0] for job, of in zip(jobs, answers, strict=True)]
    return Run(plan, jobs, answers, score_table(jobs, rows))


def draw(classes: int, images: int = 50) -> Corpus:
    """Captions of noise that tell the class now and then, the captioners' more; every 15th image may lack one."""
    rng = np.random.default_rng(0)
    truth = {f"i{n:03}": n % 5 % classes for n in range(images)}

    def say(told: float, count: int) -> dict[str, tuple[str, ...]]:
        found = {}
        for place, (image, answer) in enumerate(truth.items()):
            captions = []
            for _ in range(max(1, count - (place % 15 == count))):
                words = [f"n{n}" for n in rng.zipf(1.5, size=7) if n < 200]
                words += [f"clue{answer}"] if rng.random() < told else []
                captions.append(" ".join(rng.permutation([*words, "a", "b"])))
            found[image] = tuple(captions)
        return found

    names = "abcd"[:classes]
    labels = Labels("kind", tuple(names), {image: names[answer] for image, answer in truth.items()}, "test")
    generated = tuple(Captions(name, say(0.8, count)) for name, count in (("one", 1), ("two", 2)))
    return Corpus(Captions("human", say(0.4, 3)), generated, labels)


def log_odds(probabilities: np.ndarray, truth: Sequence[int]) -> np.ndarray:
    """Log p of the truth less the mean log p of the others."""
    logs = np.log(probabilities)
    return np.array([row[k] - np.delete(row, k).mean() for row, k in zip(logs, truth, strict=True)])


def correct(probabilities: np.ndarray, truth: Sequence[int]) -> np.ndarray:
    return (probabilities.argmax(axis=1) == truth).astype(float)


def slow_mean(found: Run, captioner: str, side: str, quantity: Callable[..., np.ndarray] = log_odds) -> float:
    """Captions of an image averaged, images of a class, classes; each seed's scored images count once for it."""
    rows = []
    for job, answers in zip(found.jobs, found.answers, strict=True):
        member = job.member
        if (job.evidence.captioner, member.side) == (captioner, side):
            samples = member.test()
            values = quantity(answers.probabilities, [sample.answers[0] for sample in samples])
            rows += [
                (member.seed, s.image_id, s.answers[0], value)
                for s, value in zip(samples, values.tolist(), strict=True)
            ]
    table = pd.DataFrame(rows, columns=["seed", "image", "answer", "value"])
    images = table.groupby(["answer", "seed", "image"])["value"].mean()
    return float(images.groupby("answer").mean().mean())


def scored_texts(found: Run, captioner: str, side: str) -> list[str]:
    """Of every caption that a judge scores, once."""
    members = [job.member for job in found.jobs if (job.evidence.captioner, job.member.side) == (captioner, side)]
    return [*{(s.image_id, s.index): s.text for member in members for s in member.test()}.values()]


def terms_of(text: str) -> set[str]:
    words = text.split()
    return {*words, *map(" ".join, pairwise(words))}


@pytest.mark.parametrize(("classes", "protocol"), [(3, "crossfit"), (2, "paper")])
def test_contributions_add_up(protocol: str, classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the mean log odds of either side, and so to their difference; whichever rows are gathered in one."""
    monkeypatch.setattr("judge.measure.words.LARGEST", 40)
    found = run(draw(classes), protocol=protocol, seeds=2)
    table = found.words()
    # What is slow here averages as the metrics do.
    scores = found.scores[(found.scores["metric"] == "leakage") & (found.scores["captioner"] == "two")]
    (row,) = summarise(scores, settings=Settings(resamples=20))
    assert [slow_mean(found, "two", side, correct) for side in SIDES] == pytest.approx([row.human, row.generated])
    assert list(table.columns) == COLUMNS
    assert set(table["metric"]) == {"lic|leakage"}
    assert table.isna().sum().sum() == 0
    for captioner, rows in table.groupby("captioner"):
        for side in SIDES:
            assert rows[side].sum() == pytest.approx(slow_mean(found, str(captioner), side), abs=1e-9)
        assert np.allclose(rows["generated"] - rows["human"], rows["contribution"], atol=1e-12)
        assert len(rows) == 40 + 2
        terms, others, intercept = rows[:-2], rows.iloc[-2], rows.iloc[-1]
        assert terms["contribution"].abs().is_monotonic_decreasing
        assert terms["term"].is_unique
        assert others["term"].endswith(" other terms)")
        assert (intercept["term"], intercept["leans_to"], intercept["examples"]) == (INTERCEPT, "", "")
        for side in SIDES:
            texts = scored_texts(found, str(captioner), side)
            assert intercept[f"captions_{side}"] == len(texts)
            for term, count in zip(terms["term"], terms[f"captions_{side}"], strict=True):
                assert count == sum(f" {term} " in f" {text} " for text in texts)
            rest = [text for text in texts if terms_of(text) - set(terms["term"])]
            assert others[f"captions_{side}"] == len(rest) > 0


def by_scikit_learn(found: Run, captioner: str, side: str) -> pd.Series:
    """Contributions of terms with one dense regression per fold; its own vectoriser finds words and pairs."""
    total: dict[str, float] = {}
    for job, answers in zip(found.jobs, found.answers, strict=True):
        member = job.member
        if (job.evidence.captioner, member.side) != (captioner, side):
            continue
        train, test = member.training(), member.test()
        reader = CountVectorizer(
            ngram_range=(1, 2), binary=True, analyzer="word", token_pattern=r"\S+", lowercase=False
        )
        x = reader.fit_transform(sample.text for sample in train)
        asked = reader.transform(sample.text for sample in test).toarray()
        model = LogisticRegression(C=answers.notes["C"], solver="newton-cg", tol=1e-9, max_iter=1000)
        model.fit(x, [s.answers[0] for s in train], [s.weight for s in train])
        classes = len(member.target.classes)
        weights = np.concatenate([-model.coef_, model.coef_]) / 2 if classes == 2 else model.coef_
        slot = member.samples
        assert isinstance(slot, Slot)
        sizes = pd.Series(slot.evidence.classes).value_counts()
        written = Counter(caption.image for caption in slot.evidence.drawn.rows[member.side])
        for sample, row in zip(test, asked, strict=True):
            k = sample.answers[0]
            share = 1 / classes / sizes[member.target.classes[k]] / written[sample.image_id]
            added = share * row * (weights[k] - np.delete(weights, k, axis=0).mean(axis=0))
            for term, amount in zip(reader.get_feature_names_out(), added.tolist(), strict=True):
                total[term] = total.get(term, 0.0) + amount
    return pd.Series(total)


@pytest.mark.parametrize("classes", [2, 3])
def test_terms_have_scikit_learns_weights(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Term by term; both solve to a tight tolerance."""
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-9)
    found = run(draw(classes), judges=("linear",))
    for captioner, rows in found.words().groupby("captioner"):
        terms = rows.set_index("term")[:LARGEST]
        for side in SIDES:
            slow = by_scikit_learn(found, str(captioner), side).reindex(terms.index, fill_value=0.0)
            assert terms[side].to_numpy() == pytest.approx(slow.to_numpy(), abs=1e-6)
            assert terms[side].abs().max() > 1e-3


def tell(images: int = 120) -> Corpus:
    """Of both sides the same captions of noise; half of a captioner's of men have a surfboard somewhere."""
    rng = np.random.default_rng(0)
    truth = {f"{n:03}": ("female", "male")[n % 2] for n in range(images)}
    plain = {image: [f"n{n}" for n in rng.integers(12, size=5)] for image in truth}
    told = {image: list(words) for image, words in plain.items()}
    for image, name in truth.items():
        if name == "male" and rng.random() < 0.5:
            told[image].insert(int(rng.integers(6)), "surfboard")
    human, generated = ({i: (" ".join(words),) for i, words in of.items()} for of in (plain, told))
    labels = Labels("gender", ("female", "male"), truth, "test")
    return Corpus(Captions("human", human), (Captions("cap", generated),), labels)


def test_a_word_that_the_captioner_alone_says_of_one_class_comes_first() -> None:
    corpus = tell()
    first = run(corpus).words().iloc[0]
    assert (first["term"], first["leans_to"], first["human"], first["captions_human"]) == ("surfboard", "male", 0, 0)
    said = {image: texts[0] for image, texts in corpus.generated[0].by_image.items() if "surfboard" in texts[0]}
    assert first["captions_generated"] == len(said)
    assert first["contribution"] > 0.1
    examples = first["examples"].split(" / ")
    assert len(set(examples)) == 3
    assert set(examples) <= {f"{image}: {text}" for image, text in said.items()}


@pytest.mark.parametrize(("classes", "protocol"), [(3, "crossfit"), (2, "paper")])
def test_words_of_chosen_captions_add_up_to_what_their_judge_said(classes: int, protocol: str) -> None:
    """Of each caption, by the first judge that scored it: its probabilities in the run, and its own words."""
    found = run(draw(classes), protocol=protocol, seeds=2)
    scored: dict[tuple[str, str, str, int], tuple[Sample, np.ndarray]] = {}
    for job, answers in zip(found.jobs, found.answers, strict=True):
        for sample, row in zip(job.member.test(), answers.probabilities, strict=True):
            scored.setdefault((job.evidence.captioner, sample.side, sample.image_id, sample.index), (sample, row))
    wanted = [*list(scored)[::7], ("one", "human", "nobody", 0)]
    table = caption_words(found.jobs, found.notes, found.plan, wanted)
    assert list(table.columns) == CAPTION_COLUMNS
    assert set(table["metric"]) == {"lic|leakage"}
    keys = ["captioner", "side", "image_id", "index"]
    of = {tuple(key): rows for key, rows in table.groupby(keys)}
    assert of.keys() == set(wanted[:-1])
    for key, rows in of.items():
        sample, row = scored[key]
        assert tuple(rows["word"]) == sample.words
        assert list(rows["place"]) == list(range(len(sample.words)))
        total = rows["total"].iloc[0]
        assert total == pytest.approx(log_odds(row[None], [sample.answers[0]])[0], abs=1e-9)
        assert rows["base"].iloc[0] + rows["contribution"].sum() == pytest.approx(total, abs=1e-9)
        assert set(rows["explained"]) == {"abcd"[sample.answers[0]]}
    assert len(caption_words(found.jobs, found.notes, found.plan, [])) == 0
