"""Contextual alignment against a loop over captions that compares every word with every model word.

    python scripts/bench_alignment.py ../shared/data/coco-captions

All human captions of the folder (``captions_human.json``), tokenised and masked; a model vocabulary of 10,000
words (a captioner's own, of ``results/``, filled up with made ones) and random 300-dimensional vectors, near
ones for some pairs. Loading is not timed. The loop is timed on a sample of captions and its time for all of them
estimated from that; both answers on the sample are compared. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

from judge.commands.console import one_line_errors
from judge.corpus.captions import ReadOptions, read_captions
from judge.errors import JudgeError
from judge.text.alignment import UNKNOWN, align, is_special
from judge.text.lexicon import load_lexicon
from judge.text.masking import mask
from judge.text.tokens import is_content, tokenize
from judge.text.vectors import DELTA, Vectors
from judge.types import Side

Words = tuple[str, ...]
Unit = Mapping[str, npt.NDArray[np.float64]]


def read_words(path: Path, side: Side) -> list[Words]:
    """Masked captions, refusals kept: all of them."""
    lexicon = load_lexicon("gender")
    captions = read_captions(path, ReadOptions(refusals=()), side=side).by_image
    return [mask(tokenize(text), lexicon) for texts in captions.values() for text in texts]


def make_vectors(words: Sequence[str], width: int, seed: int) -> Vectors:
    """Noise, in which every third word lies near the one before it (cosine distances from 0.1 to 0.6)."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(len(words), width))
    near = np.arange(2, len(words), 3)
    matrix[near] = matrix[near - 1] + rng.uniform(0.4, 2.2, (len(near), 1)) * rng.normal(size=(len(near), width))
    rows = {word: row for row, word in enumerate(words)}
    return Vectors(rows, matrix.astype(np.float32), "drawn by chance", 0)


def loop(captions: Sequence[Words], vocabulary: Sequence[str], unit: Unit, *, whole: bool) -> list[Words]:
    """Caption by caption, word by word: compared with every model word of its kind in turn, or (``whole``) at once."""
    known = set(vocabulary)
    kinds = {kind: [word for word in vocabulary if is_content(word) == kind] for kind in (True, False)}
    matrices = {kind: np.stack([unit[word] for word in words]) for kind, words in kinds.items() if words}
    aligned = []
    for caption in captions:
        words = []
        for word in caption:
            if word in known or is_special(word):
                words.append(word)
                continue
            vector, best, least, kind = unit[word], UNKNOWN, DELTA, is_content(word)
            if whole and kinds[kind]:
                cosines = matrices[kind] @ vector
                place = int(cosines.argmax())
                if 1 - cosines[place] < least:
                    best = kinds[kind][place]
            else:
                for other in kinds[kind]:
                    distance = 1 - float(vector @ unit[other])
                    if distance < least:
                        best, least = other, distance
            words.append(best)
        aligned.append(tuple(words))
    return aligned


@one_line_errors()
def main(
    folder: Annotated[Path, typer.Argument(help="captions_human.json, and results/ of captioners beside it")],
    vocabulary: Annotated[int, typer.Option(min=1, help="model words")] = 10_000,
    width: Annotated[int, typer.Option(min=1, help="of the vectors")] = 300,
    sample: Annotated[int, typer.Option(min=1, help="captions that the loop is run on")] = 200,
    repeats: Annotated[int, typer.Option(min=1, help="of the alignment; the median counts")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="of the vectors")] = 0,
) -> None:
    """Time both in one run, and compare what they answer."""
    human = read_words(folder / "captions_human.json", "human")
    result = min(folder.glob("results/*"), default=None)
    if result is None:
        raise JudgeError("no captioner's results", where=str(folder / "results"), mend="put a file of captions there")
    own = {word for words in read_words(result, "generated") for word in words if not is_special(word)}
    model = sorted(own | {f"word{number}" for number in range(vocabulary - len(own))})
    used = sorted({word for words in [*human, model] for word in words if not is_special(word)})
    rng = np.random.default_rng(seed)
    vectors = make_vectors([used[place] for place in rng.permutation(len(used))], width, seed)
    lacking = sum(word not in own and not is_special(word) for words in human for word in words)
    print(f"{len(human):,} captions, {lacking:,} tokens that the model never uses; {len(model):,} model words ", end="")
    print(f"({result.stem}'s {len(own):,} and made ones), {width} dimensions", flush=True)

    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        aligned, report = align(human, [tuple(model)], how="contextual", vectors=vectors)
        seconds.append(time.perf_counter() - start)
    ours = statistics.median(seconds)
    print(f"alignment of all: {ours:.2f} s ({min(seconds):.2f} to {max(seconds):.2f}); tokens kept ", end="")
    print(f"{report.tokens_kept:.1%}, substituted {report.tokens_substituted:.1%}", flush=True)

    chosen = [step * len(human) // sample for step in range(min(sample, len(human)))]
    some = [human[row] for row in chosen]
    # Both loops get unit vectors ready-made: what is timed is the comparing.
    lengths = np.linalg.norm(vectors.matrix.astype(np.float64), axis=1, keepdims=True)
    scaled = vectors.matrix / lengths
    unit = {word: scaled[row] for word, row in vectors.rows.items()}
    # The made words are the rest of the vocabulary: by tokens to be looked up, not by captions, the sample is scaled.
    looked = sum(word not in own and not is_special(word) for words in some for word in words)
    for name, whole in (("word by word", False), ("a product a token", True)):
        start = time.perf_counter()
        found = loop(some, model, unit, whole=whole)
        spent = time.perf_counter() - start
        whole_time = spent * lacking / max(1, looked)
        same = sum(one == other for one, other in zip(found, (aligned[row] for row in chosen), strict=True))
        print(
            f"loop over captions, {name}: {spent:.1f} s for {len(some)} captions, so {whole_time:,.0f} s for all ",
            end="",
        )
        print(f"(reckoned by tokens): {whole_time / ours:,.0f} times; {same} of {len(some)} captions alike", flush=True)


if __name__ == "__main__":
    typer.run(main)
