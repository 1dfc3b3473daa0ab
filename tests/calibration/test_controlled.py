"""Controlled sets: balanced in attribute and task, the verb alone tells; by grammar and from real captions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge import ba_mals, dpa, evaluate
from judge.calibration.controlled import Candidates, find_candidates, grammar_verb_sets, verb_sets
from judge.calibration.verbs import RATIOS, SUBSETS, VERBS, Cell, VerbSet
from judge.corpus.labels import read_labels
from judge.corpus.objects import read_tasks
from judge.corpus.reading import read_captions
from judge.corpus.tasks import Tasks
from judge.errors import JudgeError
from judge.metrics.counted.dpa import Dpa
from judge.text.lexicon import load_lexicon
from judge.text.masking import mask
from judge.text.tokens import tokenize
from judge.types import Captions, Labels

GENDER, OBJECTS = load_lexicon("gender"), load_lexicon("coco-objects")


def cells(made: VerbSet) -> Counter[Cell]:
    """Captions in each cell, by what the set says of its images."""
    return Counter(
        Cell(made.labels.by_image[image], made.tasks.names[made.tasks.by_image[image][0]], made.verbs[image])
        for image in made.captions.by_image
    )


def expected(more: int, fewer: int) -> dict[Cell, int]:
    """Of Table 2: males lean to the first verb, females to the second."""
    return {
        Cell(attribute, task, verb): more if (attribute == "male") == (verb == verbs[0]) else fewer
        for attribute in ("female", "male")
        for task, verbs in SUBSETS.items()
        for verb in verbs
    }


@pytest.fixture(scope="module")
def candidates(coco: Path) -> Candidates:
    """What the shared captions offer, with the paper's requirements."""
    return find_candidates(
        read_captions(coco / "captions_human.json", side="human"),
        read_labels(coco / "gender.csv", lexicon=GENDER),
        read_tasks(coco / "objects.json"),
    )


# By grammar


@pytest.mark.parametrize(("ratio", "rate"), list(zip(RATIOS, (0.6, 0.7, 0.8, 0.9), strict=True)))
def test_the_papers_sets(ratio: tuple[int, int], rate: float) -> None:
    made = grammar_verb_sets(ratio, 300, seed=1)  # 3 tasks x 2 classes x 50 captions
    assert cells(made) == expected(*ratio)
    assert made.ratio == ratio
    assert made.bayes_rate == pytest.approx(rate)
    # The rate from the counts, by its definition: sum over (task, verb) of the commoner class's captions.
    counts = cells(made)
    right = sum(
        max(counts["female", task, verb], counts["male", task, verb]) for task in SUBSETS for verb in VERBS.classes
    )
    assert right / 300 == pytest.approx(rate)


def test_attribute_and_task_are_independent() -> None:
    made = grammar_verb_sets((45, 5), 600)
    counts = Counter((attribute, task) for attribute, task, _ in cells(made).elements())
    assert set(counts.values()) == {100}
    assert len(counts) == 6


def test_what_a_caption_says_is_what_it_was_drawn_for() -> None:
    made = grammar_verb_sets((40, 10), 600, seed=2)
    for image, (caption,) in made.captions.by_image.items():
        words = tokenize(caption)
        task = made.tasks.names[made.tasks.by_image[image][0]]
        assert VERBS.mentions(words) == {made.verbs[image]}
        assert OBJECTS.mentions(words) - {"person"} == {task}
        assert GENDER.mentions(words) == {made.labels.by_image[image]}


def test_masked_wording_depends_on_the_verb_alone() -> None:
    """Both classes use the same masked captions; within a verb no word leans to a class beyond chance."""
    made = grammar_verb_sets((30, 20), 12_000, seed=3)
    words: dict[tuple[str, str], Counter[str]] = {}
    total: Counter[tuple[str, str]] = Counter()
    for image, (caption,) in made.captions.by_image.items():
        key = made.verbs[image], made.labels.by_image[image]
        total[key] += 1
        words.setdefault(key, Counter()).update(set(mask(tokenize(caption), GENDER)))
    for verb in VERBS.classes:
        female, male = words[verb, "female"], words[verb, "male"]
        assert female.keys() == male.keys()
        for word in female:
            shares = female[word] / total[verb, "female"], male[word] / total[verb, "male"]
            pooled = (female[word] + male[word]) / (total[verb, "female"] + total[verb, "male"])
            deviation = (pooled * (1 - pooled) * (1 / total[verb, "female"] + 1 / total[verb, "male"])) ** 0.5
            assert abs(shares[0] - shares[1]) <= 4.5 * deviation


def test_many_wordings_in_random_order() -> None:
    made = grammar_verb_sets((45, 5), 600)
    assert len({caption for captions in made.captions.by_image.values() for caption in captions}) > 500
    male = np.array([label == "male" for label in made.labels.by_image.values()])
    assert abs(male[:300].mean() - 0.5) < 0.15


def test_seeds() -> None:
    assert grammar_verb_sets((35, 15), 300, seed=4) == grammar_verb_sets((35, 15), 300, seed=4)
    assert grammar_verb_sets((35, 15), 300, seed=4).captions != grammar_verb_sets((35, 15), 300, seed=5).captions


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 4))
@settings(max_examples=20)
def test_any_ratio(more: int, fewer: int, times: int) -> None:
    if more + fewer == 0:
        with pytest.raises(JudgeError, match="ratio is 0:0"):
            grammar_verb_sets((more, fewer))
        return
    made = grammar_verb_sets((more, fewer), 6 * (more + fewer) * times)
    assert cells(made) == Counter(expected(more * times, fewer * times))


@pytest.mark.parametrize(
    ("ratio", "images", "message"),
    [
        ((30, 20), 100, "100 images at 30:20. Take a multiple of 30, such as 90."),
        ((45, 5), 0, "0 images at 45:5. Take a multiple of 60, such as 60."),
        ((-1, 2), 60, "ratio is -1:2. Take two whole numbers, such as 30:20."),
    ],
)
def test_faulty_requests(ratio: tuple[int, int], images: int, message: str) -> None:
    with pytest.raises(JudgeError) as found:
        grammar_verb_sets(ratio, images)
    assert str(found.value) == message


def test_a_run_takes_the_set() -> None:
    made = grammar_verb_sets((30, 20), 60)
    corpus = made.corpus
    assert corpus.human.by_image == corpus.generated[0].by_image
    assert corpus.labels == made.labels


# From captions


@pytest.mark.parametrize(
    ("caption", "verbs"),
    [
        ("a man riding, then throwing a frisbee", {"throw"}),
        ("he threw it", {"throw"}),
        ("she throws; it was thrown", {"throw"}),
        ("a girl lies on a bed", {"lay"}),
        ("a boy laid down, lying", {"lay"}),
        ("she sat where others sit", {"sit"}),
        ("held up by people who hold umbrellas", {"hold"}),
        ("he played while she walks", {"play", "walk"}),
        ("an umbrella on a side walk", set()),
        ("a sidewalk, a player, a layer of snow", set()),
    ],
)
def test_verbs_in_their_forms(caption: str, verbs: set[str]) -> None:
    assert VERBS.mentions(tokenize(caption)) == verbs


def _corpus(said: dict[str, tuple[str, ...]], label: str = "male") -> tuple[Captions, Labels, Tasks]:
    names = ("bed", "dog", "frisbee", "umbrella")
    shown = dict.fromkeys(said, (0,))
    return (
        Captions("human", said, "mine.json"),
        Labels("gender", ("female", "male"), dict.fromkeys(said, label), "gender.csv"),
        Tasks(names, shown, "objects.json"),
    )


def test_which_captions_fit() -> None:
    captions, labels, tasks = _corpus(
        {
            "1": ("A man lays on a bed.", "A man sits on a bed.", "A person lays on a bed.", "A man laid in bed"),
            "2": ("A man lays on a bed and sits up.",),  # both verbs
            "3": ("A man and a woman lay on a bed.",),  # both classes
            "4": ("A man lays down.",),  # no task
            "5": ("A man lays on a bed.",),  # another of the three tasks is there
            "6": ("A man lays on a bed.",),  # no label
            "7": ("A man lays on a bed.",),  # a dog does not matter
        }
    )
    tasks = Tasks(tasks.names, {**tasks.by_image, "5": (0, 3), "7": (0, 1)}, "objects.json")
    labels = Labels("gender", labels.classes, {k: v for k, v in labels.by_image.items() if k != "6"}, "gender.csv")
    found = find_candidates(captions, labels, tasks)
    assert found.by_cell["male", "bed", "lay"] == {
        "1": ("A man lays on a bed.", "A man laid in bed"),
        "7": ("A man lays on a bed.",),
    }
    assert found.by_cell["male", "bed", "sit"] == {"1": ("A man sits on a bed.",)}
    assert sum(found.counts.values()) == 3
    free = find_candidates(captions, labels, tasks, naming=())
    assert free.counts["male", "bed", "lay"] == 4  # 3 and 4 too
    assert "A person lays on a bed." in free.by_cell["male", "bed", "lay"]["1"]


def test_an_image_serves_one_verb() -> None:
    """Five beds fit both verbs, three "lay" alone, two "sit" alone: 6 of 10 "lay" needs three of the five."""
    both = {f"b{n}": ("A man lays on a bed.", "A man sits on a bed.") for n in range(5)}
    lay = {f"l{n}": ("A man lays on a bed.",) for n in range(3)}
    sit = {f"s{n}": ("A man sits on a bed.",) for n in range(2)}
    captions, labels, tasks = _corpus({**both, **lay, **sit})
    found = find_candidates(captions, labels, tasks)
    assert (found.counts["male", "bed", "lay"], found.counts["male", "bed", "sit"]) == (8, 7)
    full = {cell: images or {f"{cell}{n}": ("x",) for n in range(50)} for cell, images in found.by_cell.items()}
    labels = Labels(
        "gender",
        labels.classes,
        {image: cell.attribute for cell, images in full.items() for image in images},
        "gender.csv",
    )
    found = Candidates(full, labels, "mine.json")
    assert found.reach((6, 4)) == 10
    assert found.reach((1, 0)) == 8
    made = found.draw(ratio=(6, 4), per_cell=10)
    assert cells(made) == expected(6, 4)
    assert {image for image in made.verbs if image[0] in "bls" and len(image) == 2} == {*both, *lay, *sit}


def test_what_is_asked_of_a_corpus() -> None:
    captions, labels, tasks = _corpus({"1": ("A man lays on a bed.",)})
    with pytest.raises(JudgeError, match="no task 'umbrella'"):
        verb_sets(captions, labels, Tasks(("bed", "frisbee"), {"1": (0,)}, "objects.json"), ratio=(3, 2))
    three = Labels("skin", ("a", "b", "c"), {}, "skin.csv")
    with pytest.raises(JudgeError, match=r"skin\.csv: 3 classes of skin"):
        verb_sets(captions, three, tasks, ratio=(3, 2))
    with pytest.raises(JudgeError, match=r"50 captions cannot be divided at 2:1\. Take a multiple of 3, such as 51"):
        verb_sets(captions, labels, tasks, ratio=(2, 1))


def test_real_captions_do_not_reach_the_papers_size(candidates: Candidates) -> None:
    """10,301 of COCO's 123,000 captioned images: a few per cell. The message says how many there are."""
    counts = candidates.counts
    assert min(counts.values()) >= 8
    with pytest.raises(JudgeError) as found:
        candidates.draw(ratio=(30, 20))
    message = str(found.value)
    lay = counts["female", "bed", "lay"]
    assert f"female bed lay {lay} of 20" in message
    assert "captions_human.json: too few images for 50 a class and task at 30:20" in message
    assert f"Take at most {candidates.reach((30, 20))} a cell" in message
    with pytest.raises(JudgeError, match="Add captions, or take another ratio"):
        candidates.draw(ratio=(499, 1), per_cell=500)


@pytest.mark.parametrize("ratio", RATIOS[:3])
def test_real_captions_as_far_as_they_reach(candidates: Candidates, ratio: tuple[int, int]) -> None:
    size = candidates.reach(ratio)
    assert size == 10
    made = candidates.draw(ratio=ratio, per_cell=size, seed=6)
    assert cells(made) == expected(ratio[0] // 5, ratio[1] // 5)
    assert len(made.captions.by_image) == 60
    assert made == candidates.draw(ratio=ratio, per_cell=size, seed=6)
    assert made.captions != candidates.draw(ratio=ratio, per_cell=size, seed=7).captions
    assert counted(made) == pytest.approx([0.5] * 3)
    for image, (caption,) in made.captions.by_image.items():
        words = tokenize(caption)
        assert VERBS.mentions(words) & set(SUBSETS[made.tasks.names[made.tasks.by_image[image][0]]]) == {
            made.verbs[image]
        }
        assert GENDER.mentions(words) == {made.labels.by_image[image]}


def counted(made: VerbSet) -> list[float]:
    """BA, and DPA in both directions, of one side (the paper's H): what the annotated class tells of the task."""
    images = list(made.captions.by_image)
    classes = np.array([made.labels.classes.index(made.labels.by_image[image]) for image in images])
    tasks = made.tasks.table(images)
    there = dpa(classes, tasks, variant=Dpa(unit="label", score="balanced"))
    return [ba_mals(classes, tasks).truth, there.truth, dpa(classes, tasks, direction="T->A").truth]


def test_what_judges_find_rises_with_the_imbalance() -> None:
    """DBAC's Table 3 on grammar: gender and task are balanced, so that only the verb tells; it does at the Bayes rate.

    Who counts classes and tasks finds 0.5, whatever the verbs. People's captions stand on both sides: nothing is
    amplified.
    """
    found: dict[str, list[float]] = {}
    for ratio in RATIOS:
        verbs = grammar_verb_sets(ratio, images=1200, seed=0)
        assert counted(verbs) == pytest.approx([0.5] * 3)
        result = evaluate(
            replace(verbs.corpus, tasks=verbs.tasks), metrics="lic,dbac-at:accuracy", folds=4, resamples=100, workers=1
        )
        lic, dbac = result.summaries
        assert (lic.amplification, dbac.amplification) == (0, 0)
        assert dbac.qualities is not None
        # Fitted to finite data, a judge finds a little less: 0.02 to 0.04 at 30:20.
        assert verbs.bayes_rate - 0.06 < dbac.qualities[0] < verbs.bayes_rate + 0.03
        for name, value in (("lic", lic.human), ("omega", dbac.human), ("Q", dbac.qualities[0])):
            found.setdefault(name, []).append(float(value or 0))
    for values in found.values():
        assert values == sorted(values)
        assert values[-1] > values[0] * 1.4
