"""The counted metrics on a million samples and 80 tasks, against plain loops over samples.

    python scripts/bench_cooccurrence.py
    python scripts/bench_cooccurrence.py --samples 100000 --looped 2000

Each sample has one of two classes and about three tasks of 80; predictions differ from the truth in one task of a
hundred. Times are of the whole function, reading of the arrays included, the best of a few: by the clock, and of the
processor. The loops count the same pairs sample by sample on the first of them; their time a sample is compared with
the function's. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Annotated

import numpy as np
import typer

from judge import ba_mals, dba, dpa, error, multi, ratio
from judge.metrics.counted.contingency import contingency
from judge.metrics.counted.multi import Multi
from judge.types import BoolArray


def best_of(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Seconds of the quickest run by the clock, and of the one that took the processors least."""
    clock, processor = [], []
    for _ in range(repeats):
        began, worked = time.perf_counter(), time.process_time()
        run()
        clock.append(time.perf_counter() - began)
        processor.append(time.process_time() - worked)
    return min(clock), min(processor)


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


def loop_pairs(attribute: BoolArray, tasks: BoolArray, predicted: BoolArray) -> float:
    """Multi-> A->T of labels and pairs of labels, by dictionaries."""
    classes: Counter[int] = Counter()
    together: Counter[tuple[int, tuple[int, ...]]] = Counter()
    told: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for own, *sides in zip(attribute, tasks, predicted, strict=True):
        for class_ in np.flatnonzero(own).tolist():
            classes[class_] += 1
            for counter, side in zip((together, told), sides, strict=True):
                labels = np.flatnonzero(side).tolist()
                counter.update((class_, chosen) for size in (1, 2) for chosen in combinations(labels, size))
    sets = {chosen for _, chosen in together}
    changes = [
        abs(told[class_, chosen] - together[class_, chosen]) / classes[class_] for class_ in classes for chosen in sets
    ]
    return sum(changes) / len(changes)


def main(
    samples: Annotated[int, typer.Option(min=100)] = 1_000_000,
    tasks: Annotated[int, typer.Option(min=1, max=700)] = 80,
    looped: Annotated[int, typer.Option(min=100, help="samples that the loops count")] = 20_000,
    resamples: Annotated[int, typer.Option(min=1, help="of a bootstrap over 4,000 samples")] = 2_000,
    repeats: Annotated[int, typer.Option(min=1)] = 5,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Draw, time, print a table."""
    generator = np.random.default_rng(seed)
    attribute = np.eye(2, dtype=np.bool_)[generator.integers(0, 2, samples)]
    held = generator.random((samples, tasks), dtype=np.float32) < 3 / tasks
    told = held ^ (generator.random((samples, tasks), dtype=np.float32) < 0.01)
    single = generator.integers(0, tasks, (2, samples))
    pairs = Multi(largest=2)
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
    assert abs(loop_pairs(*few) - multi(*few, variant=pairs).value) < 1e-9
    scale = samples / len(few[0])
    by_loop = best_of(lambda: loop(*few), 2)[0] * scale
    by_pairs = best_of(lambda: loop_pairs(*few), 2)[0] * scale
    typer.echo(f"{samples} samples, {tasks} tasks; the loops, by {len(few[0])} samples, take {by_loop:.1f} s")
    typer.echo(f"(labels) and {by_pairs:.1f} s (sets of up to two)\n")
    typer.echo("| function | seconds | of the processor | loop / function |\n| --- | ---: | ---: | ---: |")
    loops = {"dba A->T": by_loop, "multi A->T, sets": by_pairs}
    for name, run in runs.items():
        seconds, worked = best_of(run, repeats)
        ratios = [f"{looping / seconds:.0f}" for start, looping in loops.items() if name.startswith(start)]
        typer.echo(f"| {name} | {seconds:.3f} | {worked:.3f} | {''.join(ratios)} |")
    small = min(4_000, samples)
    weights = generator.multinomial(small, np.full(small, 1 / small), size=resamples).astype(np.float64)
    seconds, worked = best_of(lambda: contingency(attribute[:small], held[:small], weights=weights), repeats)
    typer.echo(f"| tables of {resamples} resamples of {small} | {seconds:.3f} | {worked:.3f} | |")


if __name__ == "__main__":
    typer.run(main)
