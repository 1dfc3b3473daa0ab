"""The counted metrics on a million samples and 80 tasks, against plain loops over samples.

    python scripts/bench_cooccurrence.py
    python scripts/bench_cooccurrence.py --samples 100000 --looped 2000

Each sample has one of two classes and about three tasks of 80; predictions differ from the truth in one task of a
hundred. Times are of the whole function, reading of the arrays included, the best of a few. The loop counts the same
pairs sample by sample on the first of them; its time a sample is compared with the function's. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer

from judge.cooccurrence import MultiVariant, ba_mals, dba, dpa, error, multi, ratio
from judge.incidence import BoolArray, incidence


def best_of(run: Callable[[], object], repeats: int) -> float:
    """Seconds of the quickest run."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def loop(attribute: BoolArray, tasks: BoolArray, predicted: BoolArray) -> float:
    """DBA A->T by dictionaries: what a plain script does. The value, to compare."""
    together: dict[tuple[int, int], int] = {}
    told: dict[tuple[int, int], int] = {}
    classes, labels = [0] * attribute.shape[1], [0] * tasks.shape[1]
    for own, held, said in zip(attribute.tolist(), tasks.tolist(), predicted.tolist(), strict=True):
        for label, there in enumerate(held):
            labels[label] += there
        for class_, belongs in enumerate(own):
            if not belongs:
                continue
            classes[class_] += 1
            for label in range(len(labels)):
                together[class_, label] = together.get((class_, label), 0) + held[label]
                told[class_, label] = told.get((class_, label), 0) + said[label]
    values = []
    for (class_, label), count in together.items():
        sign = 1 if count * len(tasks) > classes[class_] * labels[label] else -1
        values.append(sign * (told[class_, label] - count) / classes[class_])
    return sum(values) / len(values)


def main(
    samples: int = 1_000_000,
    tasks: int = 80,
    looped: Annotated[int, typer.Option(help="samples that the loop counts")] = 20_000,
    resamples: Annotated[int, typer.Option(help="of a bootstrap over 4,000 samples")] = 2_000,
    repeats: int = 5,
    seed: int = 0,
) -> None:
    """Draw, time, print a table."""
    generator = np.random.default_rng(seed)
    attribute = np.eye(2, dtype=np.bool_)[generator.integers(0, 2, samples)]
    held = generator.random((samples, tasks), dtype=np.float32) < 3 / tasks
    told = held ^ (generator.random((samples, tasks), dtype=np.float32) < 0.01)
    single = generator.integers(0, tasks, (2, samples))
    pairs = MultiVariant(largest=2)
    runs: dict[str, Callable[[], object]] = {
        "ba_mals": lambda: ba_mals(attribute, held, told),
        "dba A->T": lambda: dba(attribute, held, told),
        "dba T->A": lambda: dba(attribute, held, None, ~attribute, "T->A"),
        "dba A->T, int64": lambda: dba(attribute, held.view(np.uint8).astype(np.int64), told),
        "dba A->T, labels": lambda: dba(attribute, *single),
        "dpa A->T": lambda: dpa(attribute, held, told),
        "multi A->T, one label": lambda: multi(attribute, *single),
        "multi A->T, sets of up to two": lambda: multi(attribute, held, told, variant=pairs),
        "ratio": lambda: ratio(attribute),
        "error": lambda: error(attribute, ~attribute),
    }
    few = attribute[:looped], held[:looped], told[:looped]
    assert abs(loop(*few) - dba(*few).value) < 1e-9
    each = best_of(lambda: loop(*few), 2) / len(few[0])
    typer.echo(f"{samples} samples, {tasks} tasks; the loop takes {each * samples:.1f} s by {len(few[0])} samples")
    typer.echo("| function | seconds | loop / function |\n| --- | ---: | ---: |")
    for name, run in runs.items():
        seconds = best_of(run, repeats)
        ratio_of = f"{each * samples / seconds:.0f}" if name.startswith("dba A->T") else ""
        typer.echo(f"| {name} | {seconds:.3f} | {ratio_of} |")
    small = min(4_000, samples)
    weights = generator.multinomial(small, np.full(small, 1 / small), size=resamples).astype(np.float64)
    seconds = best_of(lambda: incidence(attribute[:small], held[:small], weights=weights), repeats)
    typer.echo(f"| tables of {resamples} resamples of {small} | {seconds:.3f} | |")


if __name__ == "__main__":
    typer.run(main)
