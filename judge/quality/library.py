"""The scores of pycocoevalcap as sums over images, tokenisers with and without Java, and NLTK's METEOR.

Only parts of the library's scorers are used: as a whole they print, write files into the package's own folder and,
without Java, print an error again when they are deleted.
"""

import math
import shutil
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import numpy as np

from judge.text.tokens import tokenize
from judge.types import FloatArray, Words

Tokenizer = Literal["ptb", "judge"]
References = Sequence[Sequence[str]]
"""Captions of each image, each as words joined by single spaces; at least one an image, none empty."""

CHAIR = "CHAIR-i", "CHAIR-s"
BLEU = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4")
# The library's own guards against empty sums, in BLEU.
_SMALL, _TINY = 1e-9, 1e-15
# METEOR 1.5, English: weights of exact, stem, synonym and paraphrase matches; Denkowski and Lavie 2014.
_STAGES = np.array([1.0, 0.6, 0.8, 0.6])
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75


class JavaFault(Exception):  # noqa: N818
    """Java, or a program that needs it, does not run; the message is a clause that says why."""


@dataclass(frozen=True, slots=True)
class Part:
    """Scores that are functions of the same sums over images.

    Attributes:
        names: the V scores.
        table: what each of N images adds to the S sums, [N, S].
        pool: sums, [S, ...] -> scores, [V, ...]; NaN for the sums of no image.
    """

    names: tuple[str, ...]
    table: FloatArray
    pool: Callable[[FloatArray], FloatArray]


def penn_treebank(captions: Sequence[str]) -> list[str]:
    """Captions as the COCO evaluation tokenises them, punctuation left out; JavaFault if Java does not run."""
    from pycocoevalcap.tokenizer.ptbtokenizer import PUNCTUATIONS, STANFORD_CORENLP_3_4_1_JAR

    jar = _folder() / "tokenizer" / STANFORD_CORENLP_3_4_1_JAR
    command = ["-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
    # One caption per line: line breaks inside a caption become spaces.
    found = _java(command, [" ".join(caption.split()) for caption in captions])
    # Split at plain spaces, as the library does: PTB joins "22 3/4" by a no-break space.
    dropped = {"", *PUNCTUATIONS}
    return [" ".join(word for word in line.split(" ") if word not in dropped) for line in found]


def plain_words(captions: Sequence[str]) -> list[str]:
    """Captions as this project tokenises them; tokens without a letter or digit are left out."""
    found = ((token for token in tokenize(caption) if any(map(str.isalnum, token))) for caption in captions)
    return [" ".join(tokens) for tokens in found]


def bleu(refs: References, hyps: Sequence[str]) -> Part:
    """BLEU-1 to BLEU-4; the reference length of an image is that of its closest reference, as in the library."""
    from pycocoevalcap.bleu.bleu_scorer import cook_refs, cook_test

    table = []
    for hyp, of in zip(hyps, refs, strict=True):
        found = cook_test(hyp, cook_refs(of), eff="closest")
        table.append([found["testlen"], found["reflen"], *found["guess"], *found["correct"]])
    return Part(BLEU, np.array(table, dtype=np.float64), _pool_bleu)


def _pool_bleu(sums: FloatArray) -> FloatArray:
    length, reference, guess, correct = sums[0], sums[1], sums[2:6], sums[6:10]
    orders = np.arange(1, 5).reshape(4, *[1] * (sums.ndim - 1))
    precision = np.cumprod((correct + _TINY) / (guess + _SMALL), axis=0) ** (1 / orders)
    ratio = (length + _TINY) / (reference + _SMALL)
    penalty = np.exp(np.minimum(0, 1 - 1 / ratio))
    return np.asarray(np.where(reference > 0, precision * penalty, np.nan))


def chair(named: Sequence[Sequence[str]], shown: Sequence[Collection[str] | None]) -> Part:
    """CHAIR-i and CHAIR-s (Rohrbach et al., EMNLP 2018, section 2.1): lower is better; 0 where nothing is named.

    ``shown`` are the objects of each image; images of which they are unknown (None) do not count.
    """
    rows = []
    for names, of in zip(named, shown, strict=True):
        wrong = sum(name not in of for name in names) if of is not None else 0
        rows.append((wrong, len(names), wrong > 0, 1) if of is not None else (0, 0, 0, 0))
    return Part(CHAIR, np.array(rows, dtype=np.float64).reshape(-1, 4), _pool_chair)


def _pool_chair(sums: FloatArray) -> FloatArray:
    shares = np.stack([sums[0] / np.maximum(sums[1], 1), sums[2] / np.maximum(sums[3], 1)])
    return np.where(sums[3] > 0, shares, np.nan)


def meteor(refs: References, hyps: Sequence[str]) -> Part:
    """METEOR, from the jar's statistics of each image against its best reference; JavaFault if Java does not run."""
    from pycocoevalcap.meteor.meteor import METEOR_JAR

    parts = ([*of, hyp] for of, hyp in zip(refs, hyps, strict=True))
    lines = [" ||| ".join(["SCORE", *(part.replace("|||", " ") for part in line)]) for line in parts]
    options = ["-Xmx2G", "-jar", str(_folder() / "meteor" / METEOR_JAR), "-", "-", "-stdio", "-l", "en", "-norm"]
    found = _java(options, lines)
    try:
        stats = np.array([line.split() for line in found], dtype=np.float64).reshape(len(lines), 23)
    except ValueError as error:
        raise JavaFault(f"METEOR's answer cannot be read ({error})") from error
    return meteor_of(stats)


def meteor_of(stats: FloatArray) -> Part:
    """METEOR from the jar's statistics, [N, 23], reduced to the six sums that the score needs.

    The columns are lengths of candidate and reference; function words in each; per stage, content words and function
    words matched, in each; chunks; words in chunks, in each.
    """
    lengths, functions, chunks, words = stats[:, 0:2], stats[:, 2:4], stats[:, 20], stats[:, 21:23].sum(axis=1)
    stages = stats[:, 4:20].reshape(len(stats), 4, 2, 2)  # Stage, content or function, candidate or reference.
    matched = np.einsum("nskc,s,k->nc", stages, _STAGES, [_DELTA, 1 - _DELTA])
    weighted = _DELTA * (lengths - functions) + (1 - _DELTA) * functions
    # A candidate equal to its reference, word for word, has no chunks.
    equal = (lengths.sum(axis=1) == stages.sum(axis=(1, 2, 3))) & (chunks == 1)
    table = np.column_stack([matched, weighted, np.where(equal, 0.0, chunks), words / 2])
    return Part(("METEOR",), table, _pool_meteor)


def _pool_meteor(sums: FloatArray) -> FloatArray:
    """[6, ...] -> [1, ...]. Denkowski and Lavie 2014, section 2, on pooled statistics: the jar's corpus score."""
    matched, matched_ref, length, length_ref, chunks, words = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = matched / length, matched_ref / length_ref
        mean = precision * recall / (_ALPHA * precision + (1 - _ALPHA) * recall)
        score = np.where(matched > 0, mean * (1 - _GAMMA * (chunks / words) ** _BETA), 0.0)
    return np.asarray(np.where(length_ref > 0, score, np.nan))[None]


def meteor_nltk(written: str, aligned: Words) -> float:
    """METEOR by NLTK of an aligned caption against the caption as it is ``written``, in [0, 1].

    As the code of DPAC and DBAC computes it: the written caption is in lower case and cut at white space alone; the
    aligned one is without full stops and commas. Equal words match, then words of equal stems (Porter). Synonyms do
    not, unlike in their code: WordNet would have to be fetched.
    """
    found = [word for word in aligned if word not in {".", ","}]
    return float(_nltk()(written.split(), found))


@cache
def _nltk() -> Callable[[Sequence[str], Sequence[str]], float]:
    from nltk.stem import PorterStemmer
    from nltk.translate.meteor_score import single_meteor_score

    # Stems are computed once; a word is its only synonym.
    stems = SimpleNamespace(stem=cache(PorterStemmer().stem))
    return partial(single_meteor_score, stemmer=stems, wordnet=SimpleNamespace(synsets=lambda _: ()))


def rouge(refs: References, hyps: Sequence[str]) -> Part:
    """ROUGE-L as in the library: best precision and best recall over references, beta 1.2."""
    from pycocoevalcap.rouge.rouge import Rouge

    scorer = Rouge()
    return means("ROUGE-L", [scorer.calc_score([hyp], of) for hyp, of in zip(hyps, refs, strict=True)])


def cider(refs: References, hyps: Sequence[str]) -> Part:
    """CIDEr-D. It is NaN for a single image, whose words are in every document."""
    from pycocoevalcap.cider.cider_scorer import CiderScorer

    scorer = CiderScorer(n=4, sigma=6.0)
    for hyp, of in zip(hyps, refs, strict=True):
        scorer += (hyp, of)
    return means("CIDEr", scorer.compute_score()[1] if len(hyps) > 1 else [math.nan])


def means(name: str, values: Sequence[float]) -> Part:
    """A score whose groups have the means of their images' ``values``, [N]; NaN of an image does not count."""
    table = np.column_stack([np.nan_to_num(values), np.isfinite(values)]).astype(np.float64)
    return Part((name,), table, _pool_means)


def _pool_means(sums: FloatArray) -> FloatArray:
    total, count = sums
    means = np.divide(total, count, out=np.full(np.shape(total), np.nan), where=np.asarray(count > 0))
    return np.asarray(means)[None]


def _java(command: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Run Java on lines of text through pipes; it prints one line for each."""
    program = shutil.which("java")
    if program is None:
        raise JavaFault("needs Java, which is not on the PATH")
    text = "".join(f"{line}\n" for line in lines).encode()
    try:
        # The library's own jars; captions travel on the pipe, never in the command.
        command = [program, "-Dfile.encoding=UTF-8", *command]
        done = subprocess.run(command, input=text, capture_output=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        raise JavaFault(f"needs Java, which does not run here ({error})") from error
    found = done.stdout.decode().removesuffix("\n").split("\n")
    if len(found) != len(lines):
        raise JavaFault(f"needs Java, which gave {len(found)} lines for {len(lines)} here")
    return found


def _folder() -> Path:
    """The folder of pycocoevalcap, which holds its jars; a namespace package has no ``__file__``."""
    import pycocoevalcap

    return Path(next(iter(pycocoevalcap.__path__)))
