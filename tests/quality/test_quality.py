"""Caption quality: by hand, against slow loops, against the library's own corpus scores, with and without Java."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pycocoevalcap
import pytest
from helpers import first_images, known, measure_quality

from judge.corpus import Corpus
from judge.corpus.tasks import Tasks
from judge.errors import JudgeError
from judge.quality import SCORES, Quality
from judge.quality.library import CHAIR, meteor_of, penn_treebank, plain_words
from judge.types import Captions, Labels

REFERENCES = {
    "1": ("The cat sat on the mat.",),
    "2": ("A dog runs fast!", "dogs"),
    "3": ("Two men ride horses on a beach.", "Men are riding horses, by the sea.", "horses"),
    "4": ("A woman's red umbrella in the rain", "An umbrella in the rain"),
}
CANDIDATES = {
    "1": ("the cat the mat",),
    "2": ("a dog runs",),
    "3": ("men ride horses on the beach", "never read"),
    "4": ("a woman's umbrella in the red rain",),
}


def sides(*images: str) -> tuple[Captions, Captions]:
    human, generated = ({image: told[image] for image in images} for told in (REFERENCES, CANDIDATES))
    return Captions("human", human), Captions("cap", generated)


def quick(human: Captions, generated: Captions, labels: Labels | None = None, resamples: int = 0) -> Quality:
    return measure_quality(human, generated, labels=labels, resamples=resamples)


def test_bleu_by_hand() -> None:
    """Image 1: 4 of 4 words, 2 of 3 pairs, 0 of 2 triples; 4 words for 6. Image 2: 3/3, 2/2, 1/1; 3 for 4 (closest)."""
    found = quick(*sides("1", "2"))
    penalty = math.exp(1 - 10 / 7)
    assert found.value("BLEU-1") == pytest.approx(penalty)
    assert found.value("BLEU-2") == pytest.approx(penalty * (4 / 5) ** (1 / 2))
    assert found.value("BLEU-3") == pytest.approx(penalty * (4 / 5 * 1 / 3) ** (1 / 3))
    # No four words are right: 0, but for the library's guard.
    assert found.value("BLEU-4") == pytest.approx(0, abs=1e-3)
    assert found.by_image["BLEU-2"] == pytest.approx([math.exp(-1 / 2) * (2 / 3) ** (1 / 2), math.exp(-1 / 3)])


def test_rouge_and_words_by_hand() -> None:
    """Image 1: the candidate is a subsequence of the reference: P = 1, R = 4/6. Image 2: P = 1, R = 3/4 (first)."""

    def f(precision: float, recall: float) -> float:
        return (1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision)

    found = quick(*sides("1", "2"))
    assert found.by_image["ROUGE-L"] == pytest.approx([f(1, 4 / 6), f(1, 3 / 4)])
    assert found.value("ROUGE-L") == pytest.approx((f(1, 4 / 6) + f(1, 3 / 4)) / 2)
    # Words. Human: the cat sat on mat, a dog runs fast, dogs. Generated: the cat mat, a dog runs. No punctuation.
    assert found.vocabulary == {"human": 10, "generated": 6}
    assert found.mean_length == {"human": pytest.approx((6 + 4 + 1) / 3), "generated": 3.5}


def slow_cider(refs: Sequence[Sequence[str]], hyps: Sequence[str]) -> list[float]:
    """Vedantam et al. 2015, eq. 1-3 with the clipping and length penalty of CIDEr-D (section 7), in plain loops."""

    def grams(text: str, n: int) -> Counter[tuple[str, ...]]:
        words = text.split()
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    found = []
    for hyp, of in zip(hyps, refs, strict=True):
        total = 0.0
        for n in range(1, 5):

            def weight(gram: tuple[str, ...], n: int = n) -> float:
                seen = sum(any(gram in grams(ref, n) for ref in other) for other in refs)
                return math.log(len(refs)) - math.log(max(1, seen))

            mine = {gram: count * weight(gram) for gram, count in grams(hyp, n).items()}
            for ref in of:
                theirs = {gram: count * weight(gram) for gram, count in grams(ref, n).items()}
                dot = sum(min(value, theirs.get(gram, 0)) * theirs.get(gram, 0) for gram, value in mine.items())
                norm = math.sqrt(sum(v * v for v in mine.values()) * sum(v * v for v in theirs.values()))
                gap = len(hyp.split()) - len(ref.split())
                total += 10 * (dot / norm if norm else 0) * math.exp(-(gap**2) / (2 * 6**2)) / len(of) / 4
        found.append(total)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_cider_against_slow_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def caption() -> str:
        return " ".join(rng.choice([*"abcdefgh"], size=int(rng.integers(2, 9))))

    refs = [[caption() for _ in range(int(rng.integers(1, 4)))] for _ in range(12)]
    hyps = [caption() for _ in refs]
    human = Captions("human", {str(n): tuple(of) for n, of in enumerate(refs)})
    found = quick(human, Captions("cap", {str(n): (hyp,) for n, hyp in enumerate(hyps)}))
    expected = slow_cider(refs, hyps)
    assert found.by_image["CIDEr"] == pytest.approx(expected)
    assert found.value("CIDEr") == pytest.approx(np.mean(expected))


def test_what_is_counted_and_left_out() -> None:
    human, generated = sides("1", "2", "3")
    human = Captions("human", {**human.by_image, "5": ("...",), "6": ("alone",)})
    generated = Captions("cap", {"7": ("alone",), **generated.by_image, "5": ("a cat",)})
    found = quick(human, generated)
    # 5 has no reference with a word, 6 and 7 are of one side; the second caption of 3 is not read.
    assert (found.images, found.further, found.unscored) == (("1", "2", "3"), 1, 3)
    plain = quick(*sides("1", "2", "3"))
    assert [found.value(score) for score in found.by_image] == [plain.value(score) for score in plain.by_image]
    assert list(found.by_image) == [score for score in SCORES if score not in {"METEOR", *CHAIR}]


def test_faults() -> None:
    human, generated = sides("1", "2")
    with pytest.raises(JudgeError, match="human, cap: no image has captions in both"):
        quick(human, Captions("cap", {"9": ("a cat",)}))
    with pytest.raises(JudgeError, match=r"labels\.csv: no image that has captions has a label"):
        quick(human, generated, Labels("gender", ("f", "m"), {"9": "f"}, "labels.csv"))


@pytest.fixture(scope="module")
def real(coco: Path) -> Corpus:
    """The first 200 labelled images, two captioners; a third class without an image."""
    corpus = first_images(coco, ("nic_plus", "nic_equalizer"), 200)
    classes = known(corpus.labels).by_image
    return replace(corpus, labels=Labels("gender", ("female", "male", "other"), classes, "gender.csv"))


@pytest.fixture(scope="module")
def measured(real: Corpus) -> dict[str, Quality]:
    return {side.name: quick(real.human, side, real.labels, resamples=200) for side in real.generated}


def library_scores(refs: Sequence[Sequence[str]], hyps: Sequence[str]) -> dict[str, float]:
    """As the COCO evaluation calls it."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    gts, res = ({n: list(of) for n, of in enumerate(refs)}, {n: [hyp] for n, hyp in enumerate(hyps)})
    found = dict(zip(SCORES, Bleu(4).compute_score(gts, res, verbose=0)[0], strict=False))
    return found | {"ROUGE-L": Rouge().compute_score(gts, res)[0], "CIDEr": Cider().compute_score(gts, res)[0]}


def words_of(real: Corpus, captioner: int, images: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    refs = [plain_words(real.human.by_image[image]) for image in images]
    return refs, plain_words([real.generated[captioner].by_image[image][0] for image in images])


def test_real_captions_against_the_library(real: Corpus, measured: dict[str, Quality]) -> None:
    for number, quality in enumerate(measured.values()):
        for score, value in library_scores(*words_of(real, number, quality.images)).items():
            assert quality.value(score) == pytest.approx(value, rel=1e-9), score
        # LIC's Table 1, on its images: BLEU-4 27.4, ROUGE-L 50.3 (50.2) for NIC+ (NIC+Equalizer).
        assert quality.value("BLEU-4") == pytest.approx(0.274, abs=0.05)
        assert quality.value("ROUGE-L") == pytest.approx(0.503, abs=0.05)
        assert quality.vocabulary["generated"] < 0.3 * quality.vocabulary["human"]


def test_scores_of_classes(real: Corpus, measured: dict[str, Quality]) -> None:
    """BLEU: of the corpus of the class. The others: means of what images have among all images."""
    quality, classes = measured["nic_plus"], known(real.labels).by_image
    for group in ("female", "male"):
        rows = [n for n, image in enumerate(quality.images) if classes[image] == group]
        expected = library_scores(*words_of(real, 0, [quality.images[n] for n in rows]))
        for score in ("BLEU-1", "BLEU-4", "ROUGE-L"):
            assert quality.value(score, group) == pytest.approx(expected[score], rel=1e-9), score
        assert quality.value("CIDEr", group) == pytest.approx(quality.by_image["CIDEr"][rows].mean())
        # With document frequencies of the class alone it would be another number.
        assert quality.value("CIDEr", group) != pytest.approx(expected["CIDEr"], rel=1e-3)
    for score in quality.by_image:
        assert math.isnan(quality.value(score, "other"))


def test_intervals_and_gaps(measured: dict[str, Quality]) -> None:
    quality = measured["nic_plus"]
    rows = {(row.score, row.group): row for row in quality.groups}
    whole = rows["ROUGE-L", "all"]
    error = quality.by_image["ROUGE-L"].std(ddof=1) / math.sqrt(200)
    expected = whole.value - 1.96 * error, whole.value + 1.96 * error
    assert (known(whole.interval).low, known(whole.interval).high) == pytest.approx(expected, abs=0.3 * error)
    assert [gap.score for gap in quality.gaps] == [score for score in SCORES if score not in {"METEOR", *CHAIR}]
    for gap in quality.gaps:
        classes = gap.group.removeprefix("gap: ").split(" - ")
        best, worst = (rows[gap.score, name] for name in classes)
        assert (gap.value, gap.images) == (pytest.approx(best.value - worst.value), best.images + worst.images)
        assert gap.value >= 0
        interval, *both = (known(row.interval) for row in (gap, best, worst))
        assert interval.low < gap.value < interval.high
        # Two independent groups: the variance of a difference is the sum of variances.
        widths = [found.high - found.low for found in both]
        assert interval.high - interval.low == pytest.approx(math.hypot(*widths), rel=0.25), gap.score


def test_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = measure_quality(*sides("1", "2"), java=True, resamples=0)
    assert found.tokenizer == "judge"
    assert found.skipped["METEOR"] == "needs Java, which is not on the PATH"
    assert math.isnan(found.value("METEOR"))
    assert found.value("BLEU-1") == quick(*sides("1", "2")).value("BLEU-1")
    assert capfd.readouterr() == ("", "")


# METEOR 1.5 of pycocoevalcap 1.2: references and candidates, the jar's statistics, its scores, and that of all four.
METEOR_TEXTS = [
    (("a man riding a horse on grass", "the person rides"), "a man rides a horse"),
    (("a b",), "..."),
    (("a man riding a horse on grass",), "a man riding a horse on grass"),
    (("a cat was sitting", "dogs ran"), "the kitten sat"),
]
METEOR_STATISTICS = [
    "5 7 2 3 2 2 2 2 1 1 0 0 0 0 0 0 0 0 0 0 1 5 5",
    "0 2 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
    "7 7 3 3 4 4 3 3 0 0 0 0 0 0 0 0 0 0 0 0 1 7 7",
    "3 4 1 2 0 0 0 0 0 0 0 0 0 0 0 0 1 1 0 1 1 1 2",
]
METEOR_SCORES, METEOR_OF_ALL = [0.38460385955382986, 0.0, 1.0, 0.13075178139833074], 0.39401397907954977


def test_meteor_from_the_jars_statistics() -> None:
    part = meteor_of(np.array([line.split() for line in METEOR_STATISTICS], dtype=np.float64))
    assert part.pool(part.table.T)[0] == pytest.approx(METEOR_SCORES, rel=1e-12)
    # The score of a corpus is not the mean of its captions' scores, 0.379.
    assert part.pool(part.table.sum(axis=0)) == pytest.approx([METEOR_OF_ALL], rel=1e-12)
    assert np.isnan(part.pool(np.zeros(6))).all()


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not here")
@pytest.mark.slow
def test_with_java(capfd: pytest.CaptureFixture[str]) -> None:
    """METEOR reads 62 MB of paraphrases before its first word: the one slow test."""

    def files() -> list[Path]:
        package = Path(next(iter(pycocoevalcap.__path__)))
        return sorted(path for path in package.rglob("*") if "__pycache__" not in path.parts)

    before = files()
    human = Captions("human", {str(n): refs for n, (refs, _) in enumerate(METEOR_TEXTS)})
    told = Captions("cap", {str(n): (text,) for n, (_, text) in enumerate(METEOR_TEXTS)})
    found = measure_quality(human, told, java=True)
    assert (found.tokenizer, list(found.skipped)) == ("ptb", ["SPICE", *CHAIR])
    assert tuple(found.by_image) == tuple(score for score in SCORES if score not in CHAIR)
    assert found.by_image["METEOR"] == pytest.approx(METEOR_SCORES)
    assert found.value("METEOR") == pytest.approx(METEOR_OF_ALL)
    assert capfd.readouterr() == ("", "")
    assert files() == before


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not here")
def test_penn_treebank_words() -> None:
    """As the library's tokeniser gives them, brackets too; a caption stays one, whatever breaks its lines."""
    words = {
        "A man's dog, it isn't here.": "a man 's dog it is n't here",
        "Caf\u00e9\u2028na\u00efve\nred": "caf\u00e9 na\u00efve red",
        "8th ave and 22 3/4 st": "8th ave and 22\u00a03/4 st",
        "(...)": "-lrb- -rrb-",
        "...": "",
        "\u65e5\u672c": "\u65e5\u672c",
    }
    assert penn_treebank([*words]) == [*words.values()]


def test_chair_by_hand() -> None:
    """Rohrbach et al. 2018. Image 1 shows no cat: 1 of 2 objects. Image 2 shows the car that is named twice.

    Image 3 shows what its annotation lacks and its human caption names. Image 4 names nothing that is annotated. What
    image 5 shows is not known.
    CHAIR-i is 1 of 5 objects, CHAIR-s 1 of 4 captions; of men, images 1 and 3, 1 of 3 and 1 of 2; of women, none.
    """
    told = {"1": "a man with a dog", "2": "a car", "3": "a man on a bench", "4": "a street", "5": "a man"}
    said = {
        "1": "a dog and a cat",
        "2": "a car beside a car",
        "3": "a bench",
        "4": "a zebra in the street",
        "5": "a cat",
    }
    human, generated = (
        Captions(name, {image: (text,) for image, text in of.items()}) for name, of in (("human", told), ("cap", said))
    )
    labels = Labels(
        "gender", ("female", "male"), {"1": "male", "2": "female", "3": "male", "4": "female", "5": "male"}, "a test"
    )
    objects = Tasks.of({"1": ["dog"], "2": ["car"], "3": [], "4": []}, "a test", names=["cat", "bench"])
    found = measure_quality(human, generated, labels=labels, objects=objects, resamples=0)
    assert [found.value(name) for name in ("CHAIR-i", "CHAIR-s")] == [1 / 5, 1 / 4]
    assert [found.value(name, "male") for name in ("CHAIR-i", "CHAIR-s")] == [pytest.approx(1 / 3), 1 / 2]
    assert [found.value(name, "female") for name in ("CHAIR-i", "CHAIR-s")] == [0, 0]
    gaps = {row.score: (row.group, row.value) for row in found.gaps}
    assert gaps["CHAIR-s"] == ("gap: male - female", 1 / 2)
    derived = replace(objects, derived=True)
    for given in (None, derived):
        without = measure_quality(human, generated, labels=labels, objects=given, resamples=0)
        assert without.skipped["CHAIR-i"] == "needs --objects"
        assert math.isnan(without.value("CHAIR-i"))
