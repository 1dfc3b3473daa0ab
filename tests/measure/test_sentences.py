"""Long captions, judged sentence by sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import known
from long_captions import LONGEST, SHORTEST, long_corpus

from judge import evaluate
from judge.calibration.grammar import World, make_world, simulate
from judge.calibration.world import Captioner
from judge.corpus import Corpus
from judge.evidence.preparation import texts_of
from judge.measure import Result
from judge.report.detail_tables import position_table
from judge.report.notes import summary_lines
from judge.report.saved_run import read_run
from judge.report.warnings import warnings
from judge.statistics.validity import other_lengths, void_rows
from judge.text.lexicon import load_lexicon, mask
from judge.text.tokens import is_content, kind_of, sentences, tokenize
from judge.training.judge_file import read_saved, sample_captions
from judge.types import Captions

GENDER = load_lexicon("gender")
QUICK: dict[str, Any] = {
    "metrics": "lic",
    "folds": 5,
    "refits": 0,
    "chance": 0,
    "resamples": 100,
    "workers": 1,
    "typical": False,
}


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


def positions(result: Result) -> dict[tuple[str, str], float]:
    return {(row[0], row[2]): float(row[4].split(" ")[0]) for row in position_table(result).rows}


def test_where_the_bias_is(tmp_path: Path) -> None:
    """Bias in later sentences alone is found there; captions of the same form without it have none anywhere."""
    world = make_world(400, seed=5)
    captioners = long_captions(world, (0, 0.9, 0.9), "late"), long_captions(world, (0, 0, 0), "null")
    corpus = Corpus(world.human, captioners, world.labels)
    result = evaluate(corpus, **QUICK, breakdown=True, out=tmp_path / "run")
    found = positions(result)
    assert found["late", "the rest"] > 0.12
    assert all(abs(value) < 0.05 for key, value in found.items() if key != ("late", "the rest"))
    late = known(result.summaries[0].amplification)
    # The mean over three sentences of an image.
    assert late == pytest.approx((found["late", "first sentence"] + 2 * found["late", "the rest"]) / 3, abs=0.002)
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
    assert position_table(read_run(tmp_path / "run").result).rows == position_table(result).rows


def test_short_captions_stay_as_they_are(world: World) -> None:
    """A second sentence that fewer than nine in ten captions have changes nothing, on either side."""
    told = simulate(world, name="a", captioner=Captioner(stereotype=0.5))
    some = {image: (f"{of[0]}. It is sunny.",) if n % 2 else of for n, (image, of) in enumerate(told.by_image.items())}
    corpus = Corpus(world.human, (Captions("some", some),), world.labels)
    result = evaluate(corpus, **QUICK)
    chosen = evaluate(corpus, **QUICK, text="whole")
    assert chosen.summaries == result.summaries
    assert chosen.void == result.void
    assert not position_table(result).rows
    most = {image: (f"{of[0]}. It is sunny.",) if n % 5 else of for n, (image, of) in enumerate(told.by_image.items())}
    result = evaluate(replace(corpus, generated=(Captions("most", most),)), **QUICK)
    assert any(note.startswith("Captions of most are read whole, though") for note in warnings(result))
    assert not any("sentences" in line for line in summary_lines(result))
    # Fewer than nine in ten, but more than on the human side: they cannot mitigate either.
    (above,) = result.summaries
    assert known(above.amplification) > 0
    assert not result.void
    counts = "take --text first-sentence (80% of its captions have several, 0% of human ones)"
    below = replace(above, amplification=-0.05)
    less = "sentences that tell nothing of gender lower the score of its captions"
    assert void_rows([below], result.run) == {above.key: f"{less}: {counts}"}


@pytest.mark.parametrize("join", [". ", " and "])
def test_people_who_say_more_do_not_amplify(world: World, join: str) -> None:
    """Three captions of people tell more than one of them: there is no verdict, nor one that ranks the two."""
    one = Captions("one", {image: texts[:1] for image, texts in world.human.by_image.items()})
    bare = {image: [text.rstrip(".") for text in texts] for image, texts in world.human.by_image.items()}
    more = Captions("more", {image: (join.join(texts[:3]),) for image, texts in bare.items()})
    corpus = Corpus(world.human, (one, more), world.labels)
    quick = QUICK | {"metrics": "lic,dba-o", "text": "whole"}
    result = evaluate(corpus, **quick)
    single, _, longer, dba = result.summaries
    assert known(longer.amplification) > max(0, known(single.amplification))
    text = result.run["captioners"]["more"]["text"]
    content = [len({*filter(is_content, mask(tokenize(said), GENDER))}) for (said,) in more.by_image.values()]
    assert text["generated"]["words"] == text["generated"]["words_read"] == pytest.approx(sum(content) / len(content))
    counts = f"{sum(content) / len(content):.1f} different content words in its captions, {text['human']['words']:.1f}"
    why = f"longer captions tell more without any bias: compare captions of about equal length ({counts} in human ones)"
    assert set(result.void.values()) <= {why}
    assert result.void.keys() - {dba.key} == {longer.key}
    below = [replace(longer, amplification=-0.05), replace(dba, amplification=-0.05)]
    assert why not in void_rows(below, result.run).values()
    (pair, _) = result.differences()
    assert pair.verdict == "no verdict"
    # People who say more than a captioner are above it for the same reason.
    shorter = evaluate(Corpus(more, (one,), world.labels), **QUICK, text="whole")
    (row,) = shorter.summaries
    assert void_rows([replace(row, amplification=-0.05)], shorter.run).keys() == {row.key}
    assert "longer captions" not in str(void_rows([replace(row, amplification=0.05)], shorter.run))
    # A single side has no other one that says less; another captioner may.
    alone = evaluate(replace(corpus, human=Captions("human", {})), **QUICK | {"metrics": "sc"}, text="whole")
    assert not alone.void
    single, longer = (replace(row, amplification=value) for row, value in zip(alone.summaries, (0.1, 0.2), strict=True))
    reason = known(other_lengths(single, longer, alone.run))
    assert reason.startswith("longer captions" if join == " and " else "0% and 100% of captions have several")
    single, longer = (replace(row, amplification=value) for row, value in ((single, 0.2), (longer, 0.1)))
    assert (other_lengths(single, longer, alone.run) is None) == (join == " and ")


def test_lists_of_words_do_not_amplify(world: World) -> None:
    """The content words of a human caption are read more easily than the caption, and are no more stereotyped."""
    listed = {
        image: (", ".join(filter(is_content, tokenize(texts[0]))),) for image, texts in world.human.by_image.items()
    }
    one = Captions("one", {image: texts[:1] for image, texts in world.human.by_image.items()})
    result = evaluate(Corpus(world.human, (one, Captions("list", listed)), world.labels), **QUICK)
    text = result.run["captioners"]["list"]["text"]
    assert text["generated"]["content"] == 1
    tokens = [word for of in world.human.by_image.values() for text in of for word in tokenize(text)]
    tokens = [word for word in tokens if kind_of(word) != "mark"]
    assert text["human"]["content"] == pytest.approx(sum(map(is_content, tokens)) / len(tokens))
    rows = [replace(row, amplification=value) for row, value in zip(result.summaries, (0.02, 0.05), strict=True)]
    share = f"{text['human']['content']:.0%}"
    what = "lists of words tell more than sentences without any bias: take captions that are sentences"
    reason = f"{what} (100% of the words of its captions are content words, {share} of human ones)"
    assert void_rows(rows, result.run) == {rows[1].key: reason}
    share = f"{result.run['captioners']['one']['text']['generated']['content']:.0%}"
    assert other_lengths(*rows[::-1], result.run) == f"{what} (100% and {share} of the words are content words)"
    below = replace(rows[1], amplification=-0.05)
    assert other_lengths(rows[0], below, result.run) is None
    # Human captions that have more content words than a wordy captioner are no lists.
    entry, shares = result.run["captioners"]["list"], {"human": 0.52, "generated": 0.3}
    texts = {side: {**of, "content": shares[side]} for side, of in entry["text"].items()}
    assert not void_rows([below], {**result.run, "captioners": {"list": {**entry, "text": texts}}})
    assert not void_rows([below], result.run)


def test_sentences_are_as_long_as_they_are_read(world: World) -> None:
    """A caption of many sentences is long, and its sentences are not."""
    told = {image: " ".join(f"{text.rstrip('.')}." for text in texts) for image, texts in world.human.by_image.items()}
    many = Captions("many", {image: (text,) for image, text in told.items()})
    result = evaluate(Corpus(world.human, (many,), world.labels), **QUICK)
    text = result.run["captioners"]["many"]["text"]
    assert text["generated"]["words_read"] == pytest.approx(text["human"]["words_read"])
    assert text["generated"]["words"] > 2 * text["generated"]["words_read"]
    assert "longer captions" not in str(result.void)


def test_sentences_that_say_nothing_do_not_mitigate(world: World) -> None:
    """A mean over sentences that say nothing is no verdict in favour of a captioner, nor against one of people."""
    told = simulate(world, name="biased", captioner=Captioner(stereotype=0.5))

    def verbose(of: Captions, name: str) -> Captions:
        more = " It is a photo. All is calm. The light is good. Nothing else is there."
        said = {image: tuple(f"{text}.{more}" for text in texts) for image, texts in of.by_image.items()}
        return Captions(name, said)

    corpus = Corpus(world.human, (told, verbose(told, "verbose")), world.labels)
    short, long = (result := evaluate(corpus, **QUICK)).summaries
    assert known(short.amplification) > 0.1
    assert known(long.amplification) < 0
    verdicts = [of.verdict for of in result.conclusions()]
    assert verdicts == ["above human captions", "no verdict"]
    reason = result.void[long.key]
    assert reason.endswith("take --text first-sentence (5 sentences of a caption, 1 of a human one)")
    (pair,) = result.differences()
    assert (pair.verdict, pair.reason) == ("no verdict", reason)
    first = evaluate(corpus, **QUICK, text="first-sentence")
    values = [row.amplification for row in first.summaries]
    assert values == pytest.approx([short.amplification] * 2, abs=0.01)  # One full stop more.
    assert not first.void
    # Human captions of five sentences, and a captioner's of one.
    corpus = Corpus(verbose(world.human, "human"), (told, verbose(told, "verbose")), world.labels)
    result = evaluate(corpus, **QUICK)
    one, other = result.summaries
    assert "lower the score of human captions" in result.void[one.key]
    assert other.key not in result.void
    assert any(note.startswith("No verdict for LIC") for note in warnings(result))


def test_captioners_of_other_numbers_of_sentences_are_not_ranked(world: World) -> None:
    """Both are above human captions, and their difference says how many sentences tell nothing."""
    captioners = long_captions(world, (0.9,), "one"), long_captions(world, (0.9, 0.9), "two")
    result = evaluate(Corpus(world.human, captioners, world.labels), **QUICK)
    assert not result.void
    (pair,) = result.differences()
    reason = "judges read 1 and 2 sentences of a caption: take --text first-sentence"
    assert (pair.verdict, pair.reason) == ("no verdict", reason)
    assert any(note.startswith("No verdict on one - two, LIC") for note in warnings(result))


def test_what_captions_name_is_theirs_as_a_whole(world: World) -> None:
    """Priors and coverage are those of whole captions: a sentence without a person names the caption's."""
    told = simulate(world, name="a", captioner=Captioner(stereotype=0.5))
    more = Captions("long", {image: (f"{of[0].capitalize()}. It is sunny.",) for image, of in told.by_image.items()})
    corpus = Corpus(world.human, (more,), world.labels)
    settings = {**QUICK, "metrics": "dbac-at,ratio"}
    by_sentence, whole = (evaluate(corpus, **settings, text=text) for text in ("sentences", "whole"))
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
    corpus = Corpus(world.human, (long_captions(world, (0.5, 0.5)),), world.labels)
    evaluate(corpus, **{**QUICK, "folds": 2}, checkpoints=tmp_path)
    saved = [read_saved(path) for path in sorted(tmp_path.glob("*.weights.safetensors"))]
    new = {"1": ["A dog sits. A man runs. He smiles.", "A cat."], "2": ["A bird."]}
    for side, texts in (("generated", [2, 1, 1, 1]), ("human", [2, 1])):
        found = [of for of in saved if of.data["side"] == side]
        assert len(found) == (2 if side == "generated" else 5) * 2
        parts = sample_captions(new, found[0])
        assert [len(part) for part in parts] == texts
        assert parts[0][0].words[-1] == "."
        assert len(parts[0][0].words) == (4 if side == "generated" else 11)


@pytest.mark.slow
def test_captions_of_100_words_on_real_data(coco: Path) -> None:
    """Without bias whole long captions amplify much, and their sentences do not; bias after the first is found there.

    Amplification of a dose of 0.8 in three draws with words and embeddings: -0.012 to +0.008, and +0.12 to +0.13; of
    no dose whole +0.36 to +0.41 (docs/guides/your-captioner.md).
    """
    people = Corpus.read(human=coco / "captions_human.json", captions=[], labels=coco / "gender.csv")
    null, dosed = (long_corpus(people, images=600, seed=1, dose=dose) for dose in (0, 0.8))
    words = [len(of[0].split()) for of in null.generated[0].by_image.values()]
    assert min(words) >= SHORTEST
    assert max(words) <= LONGEST
    found = positions(evaluate(dosed, **QUICK, judge="words+embedding"))
    assert found["long", "the rest"] > 0.08
    assert abs(found["long", "first sentence"]) < 0.06  # Three sd of such a null.
    by_sentence, whole = (evaluate(null, **QUICK, text=text).summaries[0] for text in ("sentences", "whole"))
    assert abs(known(by_sentence.amplification)) < 0.03
    assert known(whole.amplification) > 0.2
