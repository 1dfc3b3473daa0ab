"""Long captions, judged sentence by sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import evaluate_numbers, known, with_captions
from long_captions import LONGEST, SHORTEST, long_corpus

from judge import evaluate
from judge.calibration.grammar import World, make_world, simulate
from judge.calibration.world import Captioner
from judge.corpus import Corpus
from judge.evidence.preparation import texts_of
from judge.report.notes import summary_lines
from judge.report.saved_run import read_run
from judge.text.tokens import sentences
from judge.training.judge_file import read_saved, sample_captions
from judge.types import Captions

QUICK: dict[str, Any] = {
    "metrics": "lic", "folds": 2, "refits": 0, "chance": 0, "resamples": 100, "workers": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("caption", "found"),
    [
        ("A dog. It barks! Why?", ["A dog.", "It barks!", "Why?"]),
        ("A dog at 3.5 m", ["A dog at 3.5 m"]),
        ("a man rides a bike . the bike is red .", ["a man rides a bike .", "the bike is red ."]),
        ('She says "Stop." (He waits.) They go.', ['She says "Stop."', "(He waits.)", "They go."]),
        ("**A man runs.** He smiles.", ["**A man runs.**", "He smiles."]),
        ("Mr. Smith and Dr. A. Jones wait. Ok.", ["Mr. Smith and Dr. A. Jones wait.", "Ok."]),
        ("A U.S. Army van. A man in the U.S. The flag.", ["A U.S. Army van.", "A man in the U.S.", "The flag."]),
        ("A no. 5 shirt at 5 p.m. A man, etc. and so on.", ["A no. 5 shirt at 5 p.m.", "A man, etc. and so on."]),
        ("A man... running. A dog... It barks.", ["A man... running.", "A dog...", "It barks."]),
        ("No stop\n\n  Second line\n", ["No stop", "Second line"]),
        ("The scene:\nA man. A dog.\nMr.\nThe end", ["The scene:", "A man.", "A dog.", "Mr.", "The end"]),
        ("Wow! :) ... A dog.\n---\n", ["Wow! :) ...", "A dog. ---"]),
        ("一个女人。她说「跑。」真的吗？对", ["一个女人。", "她说「跑。」", "真的吗？", "对"]),
        ("एक आदमी। वह दौड़ता है।", ["एक आदमी।", "वह दौड़ता है।"]),
        ("", [""]),
        ("...", ["..."]),
    ],
)
def test_splits(caption: str, found: list[str]) -> None:
    assert list(sentences(caption)) == found


def test_the_sentences_that_are_read() -> None:
    """The first, and others at equal distances: each caption has as many indices as most have sentences."""
    long, short = "A. B. C. D. E. F. G.".replace(".", "1."), "X1. Y1."
    assert list(texts_of([long, short], 4)) == [(0, "A1."), (1, "C1."), (2, "E1."), (3, "G1."), (4, "X1."), (5, "Y1.")]
    assert list(texts_of([long, short], 1)) == [(0, long), (1, short)]


def join(parts: Sequence[Captions], name: str = "long") -> Captions:
    """Captions of one sentence for each of ``parts``."""
    by_image = {
        image: (" ".join(part.by_image[image][0].capitalize().rstrip(".") + "." for part in parts),)
        for image in parts[0].by_image
    }
    return Captions(name, by_image)


def long_captions(world: World, doses: Sequence[float], name: str = "long") -> Captions:
    """A caption of one sentence for each dose of stereotype."""
    made = [simulate(world, name=f"{name} {n}", captioner=Captioner(stereotype=of)) for n, of in enumerate(doses)]
    return join(made, name)


def test_where_the_bias_is(tmp_path: Path) -> None:
    """Bias in later sentences alone is found; captions of the same form without it have none."""
    world = make_world(300, seed=5)
    captioners = long_captions(world, (0, 0.9, 0.9), "late"), long_captions(world, (0, 0, 0), "null")
    corpus = with_captions(Corpus(world.human, captioners, world.labels))
    result = evaluate(corpus, **QUICK, breakdown=True, out=tmp_path / "run")
    late, null = (known(row.amplification) for row in result.summaries)
    assert late > 0.08
    assert abs(null) < 0.05
    assert any(
        "3 sentences each, one by one, of captions of late, captions of null" in of for of in summary_lines(result)
    )
    assert set(result.scores["index"][result.scores["side"] == "generated"]) == {0, 1, 2}
    # Tasks, words and examples are those of sentences, and all numbers are computed again from files.
    assert result.breakdown is not None
    named = result.breakdown.captions
    assert set(named["index"][named["side"] == "generated"]) == {0, 1, 2}
    shown = result.examples[result.examples["side"] == "generated"]
    assert all(caption.count(".") == 1 for caption in shown["caption"])
    assert read_run(tmp_path / "run").result.summaries == result.summaries


def test_short_captions_stay_as_they_are(world: World) -> None:
    """A second sentence that fewer than nine in ten captions have changes nothing, on either side."""
    told = simulate(world, name="a", captioner=Captioner(stereotype=0.5))
    some = {image: (f"{of[0]}. It is sunny.",) if n % 2 else of for n, (image, of) in enumerate(told.by_image.items())}
    corpus = with_captions(Corpus(world.human, (Captions("some", some),), world.labels), 1)
    result = evaluate_numbers(corpus, **QUICK)
    chosen = evaluate_numbers(corpus, **QUICK, text="whole")
    assert chosen.summaries == result.summaries
    assert chosen.void == result.void
    most = {image: (f"{of[0]}. It is sunny.",) if n % 5 else of for n, (image, of) in enumerate(told.by_image.items())}
    result = evaluate_numbers(replace(corpus, generated=(Captions("most", most),)), **QUICK)
    assert not any("sentences" in line for line in summary_lines(result))


def test_what_captions_name_is_theirs_as_a_whole(world: World) -> None:
    """Priors and coverage are those of whole captions: a sentence without a person names the caption's."""
    told = simulate(world, name="a", captioner=Captioner(stereotype=0.5))
    more = Captions("long", {image: (f"{of[0].capitalize()}. It is sunny.",) for image, of in told.by_image.items()})
    corpus = with_captions(Corpus(world.human, (more,), world.labels), 1)
    settings = {**QUICK, "metrics": "dbac-at,ratio"}
    by_sentence, whole = (evaluate_numbers(corpus, **settings, text=text) for text in ("sentences", "whole"))
    for one, other in zip(by_sentence.summaries, whole.summaries, strict=True):
        assert one.generated is not None
        if one.metric.counted:
            assert one == other
    coverage = [of.run["captioners"]["long"]["coverage"] for of in (by_sentence, whole)]
    assert coverage[0] == coverage[1]
    cells = by_sentence.scores[by_sentence.scores["side"] == "generated"].groupby(["metric", "image_id"])
    assert (cells[["named", "tasks"]].nunique() == 1).all(axis=None)


def test_a_judge_of_sentences_reads_every_sentence_of_new_captions(world: World, tmp_path: Path) -> None:
    """Each with an index of its own; a judge of human captions, which were whole, reads captions whole."""
    corpus = with_captions(Corpus(world.human, (long_captions(world, (0.5, 0.5)),), world.labels))
    evaluate_numbers(corpus, **QUICK, checkpoints=tmp_path)
    saved = [read_saved(path) for path in sorted(tmp_path.glob("*.weights.safetensors"))]
    new = {"1": ["A dog sits. A man runs. He smiles.", "A cat."], "2": ["A bird."]}
    for side, texts in (("generated", [2, 1, 1, 1]), ("human", [2, 1])):
        found = [of for of in saved if of.data["side"] == side]
        assert len(found) == 2 * 2  # Two sentences or captions, two folds.
        parts = sample_captions(new, found[0])
        assert [len(part) for part in parts] == texts
        assert parts[0][0].words[-1] == "."
        assert len(parts[0][0].words) == (4 if side == "generated" else 11)


@pytest.mark.slow
def test_captions_of_100_words_on_real_data(coco: Path) -> None:
    """Without bias whole long captions amplify much, and their sentences do not; bias after the first is found.

    Without a dose whole captions have +0.36 to +0.41 (docs/guides/your-captioner.md).
    """
    people = Corpus.read(human=coco / "captions_human.json", captions=[], labels=coco / "gender.csv")
    null, dosed = (long_corpus(people, images=400, seed=1, dose=dose) for dose in (0, 0.8))
    words = [len(of[0].split()) for of in null.generated[0].by_image.values()]
    assert min(words) >= SHORTEST
    assert max(words) <= LONGEST
    assert known(evaluate_numbers(dosed, **QUICK, judge="words+embedding").summaries[0].amplification) > 0.05
    by_sentence, whole = (evaluate_numbers(null, **QUICK, text=text).summaries[0] for text in ("sentences", "whole"))
    assert abs(known(by_sentence.amplification)) < 0.03
    assert known(whole.amplification) > 0.2
