"""Contributions of tasks and images: they add up to every metric, and name the task that carries it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import known, make_scores

from judge import evaluate
from judge.corpus import Corpus
from judge.measure import Result
from judge.metrics import METRICS
from judge.statistics.breakdown import NONE, break_down
from judge.statistics.summary import Settings, summarise
from judge.types import Captions, Labels

COUNTED = [row.name for row in METRICS.values() if row.counted]
PLAIN = ["lic", "leakage", "imagecaptioner2", "imagecaptioner2-ratio"]
DIRECTIONAL = ["dbac-at", "dbac-ta", "dpac-at", "dpac-ta"]
VARIANTS = ["dba-o:annotation", "multi-at:variance", "dpa-at:label", "error:naming"]


def corpus_of(
    classes: dict[str, str], human: dict[str, tuple[str, ...]], generated: dict[str, tuple[str, ...]]
) -> Corpus:
    labels = Labels("gender", ("female", "male"), classes, "drawn")
    return Corpus(Captions("human", human), (Captions("cap", generated),), labels)


def said_of(scores: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Tasks that captions name and images show, at random; some none."""
    captions = scores.drop_duplicates(["image_id", "side", "index"])[["image_id", "captioner", "side", "index"]]
    images = captions.drop_duplicates("image_id").assign(side="annotated", index=0)
    rows = pd.concat([captions, images], ignore_index=True)
    return rows.assign(objects=rng.choice(["", "dog", "dog|tie", "cake"], len(rows)))


@pytest.mark.parametrize("metric", [*PLAIN, *DIRECTIONAL])
@pytest.mark.parametrize("seed", range(2))
def test_judged_contributions_add_up(metric: str, seed: int) -> None:
    """Unequal classes, missing captions, several seeds; nothing remains."""
    rng = np.random.default_rng(seed)
    scores = make_scores(60, seeds=1 + seed, classes="abc"[: 2 + seed % 2], seed=seed)
    scores = scores.assign(metric=metric, fold=scores["image_id"].astype(int) % 5)
    if metric in DIRECTIONAL:
        count = len(scores)
        named = {"at": ("tasks", ["", "dog", "dog|tie"]), "ta": ("named", ["a", "b", "", "a|b"])}[metric[-2:]]
        keys = ["image_id", "side", "index"]
        drawn = scores.drop_duplicates(keys)[keys].assign(drawn=rng.choice(named[1], len(scores.drop_duplicates(keys))))
        scores = scores.merge(drawn, on=keys).assign(validation_loss=rng.random(count))
        scores[named[0]] = scores.pop("drawn")
    settings = Settings(resamples=100, ratios={metric: 0.25})
    (line,) = summarise(scores, None, settings)
    said = said_of(scores, rng)
    found = break_down(scores, pd.DataFrame(), said, [metric], settings)
    expected = known(line.amplification) - METRICS[metric].neutral
    assert found.tasks["contribution"].sum() == pytest.approx(expected, abs=1e-12)
    assert found.images["contribution"].sum() == pytest.approx(expected, abs=1e-12)
    assert set(found.tasks["basis"]) <= {"splits", "these judges"}
    alone = break_down(scores, pd.DataFrame(), said, [metric], settings._replace(ratios={}))
    assert set(alone.tasks["basis"]) == {"these judges"}
    assert alone.tasks["p_value"].isna().all()
    assert alone.tasks["contribution"].between(alone.tasks["low"], alone.tasks["high"]).all()


def test_lic_by_hand() -> None:
    """Two images a class. LIC: (0.8 + 0 + 0 + 0.6)/4 of people, (0.9 + 0.7 + 1 + 0)/4 of the captioner; chance 1/4."""
    rows = [
        *[("1", "human", "a", 0.8, "a", "dog"), ("2", "human", "a", 0.4, "b", "")],
        *[("3", "human", "b", 0.3, "a", "dog"), ("4", "human", "b", 0.6, "b", "cake")],
        *[("1", "generated", "a", 0.9, "a", "dog"), ("2", "generated", "a", 0.7, "a", "dog|cake")],
        *[("3", "generated", "b", 1.0, "b", "cake"), ("4", "generated", "b", 0.2, "a", "")],
    ]
    columns = ["image_id", "side", "answer", "probability", "predicted", "objects"]
    scores = pd.DataFrame(rows, columns=columns).assign(
        captioner="cap", metric="lic", judge="linear", index=0, seed=0, fold=0, named="", tasks="", validation_loss=0.0
    )
    scores["loss"] = -np.log(scores["probability"])
    found = break_down(scores, pd.DataFrame(), scores, ["lic"], Settings(resamples=100))
    tasks = found.tasks.set_index("task")["contribution"] * 4
    assert tasks["dog"] == pytest.approx((0.9 - 0.25) + (0.7 - 0.25) / 2 - (0.8 - 0.25) - (0 - 0.25))
    assert tasks["cake"] == pytest.approx((0.7 - 0.25) / 2 + (1 - 0.25) - (0.6 - 0.25))
    assert tasks[NONE] == pytest.approx((0 - 0.25) - (0 - 0.25))
    images = dict(zip(found.images["image_id"], found.images["contribution"] * 4, strict=True))
    assert images == pytest.approx({"1": 0.1, "2": 0.7, "3": 1.0, "4": -0.6})
    assert found.tasks.set_index("task").loc["dog", ["human", "generated"]].tolist() == [2, 2]
    assert found.tasks["basis"].isna().all()  # So few captions tell nothing.


@pytest.fixture(scope="module")
def real(coco: Path) -> Result:
    """All metrics of captions on some real ones."""
    classes = pd.read_csv(coco / "gender.csv", dtype=str, nrows=60).set_index("image_id")["gender"].to_dict()
    human: dict[str, tuple[str, ...]] = dict.fromkeys(classes, ())
    for row in json.loads((coco / "captions_human.json").read_text(encoding="utf-8"))["annotations"]:
        if len(human.get(str(row["image_id"]), "..")) < 2:
            human[str(row["image_id"])] += (row["caption"],)
    told = json.loads((coco / "results" / "nic_plus.json").read_text(encoding="utf-8"))
    captions = {str(row["image_id"]): (row["caption"],) for row in told}
    corpus = corpus_of(classes, human, {image: captions[image] for image in classes})
    judged = ["lic", "leakage", "dbac-at", "dpac-ta"]
    settings = {"folds": 2, "refits": 0, "chance": 0, "resamples": 100, "least": 4, "breakdown": True, "workers": 1}
    return evaluate(corpus, metrics=[*judged, *COUNTED, *VARIANTS], **settings)


@pytest.mark.slow
def test_every_metric_of_real_captions_adds_up(real: Result) -> None:
    found = known(real.breakdown)
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    published: dict[tuple[str, str, str], float] = defaultdict(float)
    for part in found.tasks.fillna({"published": 0.0}).itertuples():
        key = part.captioner, part.metric, part.judge
        sums[key] += part.contribution
        published[key] += part.published
    images = found.images.groupby(["captioner", "metric", "judge"])["contribution"].sum()
    for line in real.summaries:
        counted = line.metric.counted
        offset = 1.0 if counted and counted.amplification == "ratio" else 0.0
        if line.amplification is None:  # Captions of annotation cannot change sides: there is no chance level.
            assert sums[line.key] == pytest.approx(known(line.published), abs=1e-9)
        else:
            assert sums[line.key] == pytest.approx(line.amplification, abs=1e-9)
        whole = line.amplification if line.published is None else line.published - offset
        assert images[line.key] == pytest.approx(known(whole), abs=1e-9)
        if counted:
            assert published[line.key] == pytest.approx(known(line.published) - offset, abs=1e-9)


def test_the_task_that_is_amplified_is_found() -> None:
    """Men wear ties more often than women, and the captioner gives every second man another one."""
    rng = np.random.default_rng(1)
    classes = {str(image): ("female", "male")[image % 2] for image in range(360)}
    tasks = ["tie", "dog", "kite", "cake", "horse", "book"]
    ties = {"female": 0.1, "male": 0.3}
    shown = {
        image: str(rng.choice(tasks, p=[ties[name], *[(1 - ties[name]) / 5] * 5])) for image, name in classes.items()
    }
    told = {image: "tie" if name == "male" and rng.random() < 0.5 else shown[image] for image, name in classes.items()}
    human, generated = ({image: (f"a person with a {task}",) for image, task in of.items()} for of in (shown, told))
    settings = {"folds": 5, "refits": 0, "chance": 0, "resamples": 200, "breakdown": True, "workers": 1}
    result = evaluate(corpus_of(classes, human, generated), metrics=["lic", "dba-o"], **settings)
    first = {part.metric: part for part in list(known(result.breakdown).tasks.itertuples())[::-1]}
    for name in ("lic", "dba-o"):
        assert (first[name].task, first[name].contribution > 0) == ("tie", True)
        assert known(first[name].p_holm) < 0.05


def test_a_captioner_that_says_what_people_say_adds_nothing() -> None:
    """Two captions an image, the same on both sides: of every task nothing, and that is no finding."""
    classes = {str(image): ("female", "male")[image % 2] for image in range(60)}
    tasks = ("dog", "kite", "tie")
    said = {image: tuple(f"a person with a {tasks[(int(image) + k) % 3]}" for k in (0, 1)) for image in classes}
    metrics = ["dba-o", "multi-at", "error"]
    found = evaluate(corpus_of(classes, said, said), metrics=metrics, resamples=100, breakdown=True)
    assert {row.amplification for row in found.summaries} == {0.0}
    parts = known(found.breakdown).tasks
    assert set(parts["contribution"]) == {0.0}
    assert set(parts["p_value"].dropna()) <= {1.0}


def test_a_captioner_that_never_names_a_class() -> None:
    """Ratio 0: its logarithm is none, and what captions add still adds up."""
    classes = {str(image): ("female", "male")[image % 2] for image in range(60)}
    human = {image: (f"a {'woman' if name == 'female' else 'man'} with a dog",) for image, name in classes.items()}
    generated = {image: (f"a man with a {('dog', 'kite')[int(image) % 3 == 0]}",) for image in classes}
    human["0"] = ("a woman with a kite",)  # A task that not every image shows.
    corpus = corpus_of(classes, human, generated)
    found = evaluate(corpus, metrics=["ratio:female/male"], resamples=100, breakdown=True)
    (row,), parts = found.summaries, known(found.breakdown).tasks
    assert row.published == 0
    assert parts["published"].sum() == pytest.approx(-1, abs=1e-12)
    assert parts["contribution"].sum() == pytest.approx(known(row.amplification), abs=1e-9)
