"""The solver of linear judges compared with scikit-learn's, on the same features, penalties and folds.

    python scripts/bench_solver.py DATA

DATA is a folder with ``captions_human.json``, ``gender.csv`` and ``results/nic_plus.json``. Each judge of each side is
trained in ten folds with a fixed C. Time is that of the processor, on one thread, without making features.
Figures: BENCHMARKS.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np
import typer
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from timing import machine, seconds

from judge import Corpus
from judge.judges import Assignment
from judge.judges.linear import WORDS, Reading, train_together
from judge.measure import Plan, lay_out
from judge.text.embedding import WORDLLAMA, load_embedding
from judge.text.lexicon import Lexicons, load_lexicon
from judge.training.member import assign
from judge.types import FloatArray, Target

READINGS = {
    "words+embedding": (Reading(embedding=WORDLLAMA), {"C": 0.03, "C of embedding": 0.3}),
    "embedding": (Reading(words=False, embedding=WORDLLAMA), {"C of embedding": 0.3}),
    "linear": (WORDS, {"C": 0.1}),
}
# What scikit-learn is asked for: solver, and tolerance of its gradient.
SOLVERS = {"newton-cg": 1e-5, "lbfgs": 1e-4}


def features(one: Assignment, reading: Reading, c: dict[str, float]) -> FloatArray | csr_matrix:
    """Features times the root of their C, so that one penalty serves all blocks."""
    captions = [sample.words for sample in one.samples]
    parts = []
    if reading.words:
        count = CountVectorizer(
            ngram_range=(1, 2), binary=True, lowercase=False, tokenizer=str.split, token_pattern=None
        )
        parts.append(count.fit_transform(map(" ".join, captions)) * c["C"] ** 0.5)
    if reading.embedding:
        dense = load_embedding(reading.embedding).captions(captions) * c["C of embedding"] ** 0.5
        if not parts:
            return np.asarray(dense)
        parts.append(csr_matrix(dense))
    return csr_matrix(hstack(parts))


def by_scikit_learn(assignments: Sequence[Assignment], rows: FloatArray | csr_matrix, solver: str) -> list[FloatArray]:
    """Probabilities of the second class on the test captions of each fold."""
    answers = np.array([sample.answers[0] for sample in assignments[0].samples])
    model = LogisticRegression(solver=solver, tol=SOLVERS[solver], max_iter=2000)
    return [
        model.fit(rows[one.train], answers[one.train], one.weights).predict_proba(rows[one.predict])[:, 1]
        for one in assignments
    ]


def compare(assignments: Sequence[Assignment], target: Target, name: str) -> str:
    """A row of the table: seconds, ratios, and the largest difference of a probability."""
    reading, c = READINGS[name]
    settled = [replace(one, settings=c) for one in assignments]
    rows = features(settled[0], reading, c)
    found = train_together(target, settled, reading=reading)  # Makes the features, which are kept.
    ours = seconds(lambda: train_together(target, settled, reading=reading), process_time)
    cells = [name, assignments[0].side, f"{ours:.2f} s"]
    for solver in SOLVERS:
        start = process_time()
        other = np.concatenate(by_scikit_learn(settled, rows, solver))
        took = process_time() - start
        apart = np.abs(other - np.concatenate([one.probabilities[:, 1] for one in found])).max()
        cells.append(f"{took / ours:.1f} ({apart:.0e})")
    return f"| {' | '.join(cells)} |"


def main(data: Path) -> None:
    """Print the table."""
    corpus = Corpus.read(
        human=data / "captions_human.json", captions=[data / "results" / "nic_plus.json"], labels=data / "gender.csv"
    )
    plan = Plan(metrics=("lic",))
    members = [job.member for job in lay_out(corpus, plan, Lexicons(load_lexicon("gender"))).jobs]
    print(machine(), "", "| judge | side | package | newton-cg / package | lbfgs / package |", sep="\n")
    print("| --- | --- | --: | --: | --: |")
    with threadpool_limits(1):
        for name in READINGS:
            for side in ("human", "generated"):
                mine = [member for member in members if (member.side, member.index) == (side, 0)]
                print(compare(assign(mine), mine[0].target, name), flush=True)


if __name__ == "__main__":
    typer.run(main)
