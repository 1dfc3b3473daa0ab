"""LIC with LSTM judges: this package against a plain sequential PyTorch run of the same recipe.

    files="--human H.json --captions A.json --captions B.json --labels L.csv"
    python scripts/bench_lic.py --plain $files --out p.json
    python scripts/bench_lic.py --package $files --out q.json
    python scripts/bench_lic.py --compare p.json q.json
    python scripts/bench_lic.py --step
    python scripts/bench_lic.py --stack [--judges 60] [--images 9700] [--epochs 1] [--plain-judges 2]

``--plain`` is the yardstick, for numbers and for speed: ``nn.LSTM``, packed sequences, one classifier after the other
on one thread; nothing is shared with the package but the masked and aligned words and the images of each split.
``--package`` is the path of ``judge evaluate``, by default with as many judges at a time as there are cores.
``--step`` times an epoch of plain, package and package in bf16, in turns, in one process: the ratios on one core, and
the share of the rate of large products. ``--stack`` times judges of one program,
on the GPU if there is one, against the same ones and plain ones one by one, on captions of COCO's lengths: by default
LIC's protocol for one captioner, 60 judges, an epoch of each, from which the recipe's 20 are reckoned. Figures:
BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from judge import evaluate
from judge.corpus import Corpus
from judge.corpus.splits import holdout_split
from judge.evidence import EvidenceBuilder
from judge.judges import find_judge
from judge.metrics import find_metric
from judge.text.lexicon import Lexicons, load_lexicon
from judge.training.launch import make_accelerator
from judge.training.loop import NetworkJudge, Trainer
from judge.training.stacked import Ensemble
from judge.types import FloatArray, Sample, Target

EPOCHS, BATCH, RATE = 20, 64, 5e-5
Results = dict[str, dict[str, float]]


class Classifier(nn.Module):
    """LIC's LSTM as one would first write it."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 100, padding_idx=0)
        self.lstm = nn.LSTM(100, 256, num_layers=2, bidirectional=True, dropout=0.5, batch_first=True)
        self.dropout = nn.Dropout(0.5)
        self.output = nn.Linear(512, 2)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Logits [B, 2]."""
        embedded = self.dropout(self.embedding(tokens))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        logits: torch.Tensor = self.output(self.dropout(torch.cat([state[-2], state[-1]], dim=1)))
        return logits


def train_plain(
    train: Sequence[Sample], test: Sequence[Sample], *, seed: int, epochs: int, device: str = "cpu"
) -> FloatArray:
    """One classifier as in LIC's supplement, A.1. Returns p(class) of ``test``, [N, A]."""
    torch.manual_seed(seed)
    vocabulary = {word: i + 2 for i, word in enumerate(sorted({word for s in train for word in s.words}))}
    model = Classifier(len(vocabulary) + 2)
    model.to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)

    def batch(samples: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        ids = [torch.tensor([vocabulary.get(word, 1) for word in s.words] or [1]) for s in samples]
        # Lengths are packed by on the host.
        return pad_sequence(ids, batch_first=True).to(device), torch.tensor([len(i) for i in ids])

    for _ in range(epochs):
        order = torch.randperm(len(train)).tolist()
        for start in range(0, len(order), BATCH):
            chosen = [train[i] for i in order[start : start + BATCH]]
            answers = torch.tensor([s.answers[0] for s in chosen]).to(device)
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(*batch(chosen)), answers)
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
            optimiser.step()
    model.eval()
    with torch.no_grad():
        return np.asarray(model(*batch(test)).softmax(dim=1).double().cpu().numpy())


def run_plain(corpus: Corpus, *, seeds: int, epochs: int) -> Results:
    """LIC_M and LIC_D of every captioner, averaged over seeds, one classifier after the other."""
    torch.set_num_threads(1)
    assert corpus.labels is not None
    results: Results = {}
    builder = EvidenceBuilder(corpus, Lexicons(load_lexicon("gender")))
    for captioner in corpus.generated:
        evidence = builder.build(captioner, find_metric("lic"))
        scores: dict[str, list[float]] = {"human": [], "generated": []}
        for seed in range(seeds):
            split = holdout_split(evidence.classes, seed=seed)
            kept, held = set(split.train), set(split.test)
            for (side, index), samples in evidence.slots.items():
                test = [s for s in samples if s.image_id in held]
                train = [s for s in samples if s.image_id in kept]
                p = train_plain(train, test, seed=seed * 100 + index, epochs=epochs)
                truth = np.array([s.answers[0] for s in test])
                scores[side].append(float(np.mean(p[np.arange(len(p)), truth] * (p.argmax(1) == truth))))
                print(f"{captioner.name} seed {seed} {side} {index}: {scores[side][-1]:.4f}", flush=True)
        results[captioner.name] = {side: float(np.mean(values)) for side, values in scores.items()}
    return results


def run_package(corpus: Corpus, *, seeds: int, epochs: int, workers: int | None) -> Results:
    """The same by ``evaluate``."""
    table = evaluate(
        corpus, metrics="lic", judge="lstm", protocol="paper", seeds=seeds, epochs=epochs, workers=workers
    ).table()
    sides = ("human", "generated")
    return {str(row["captioner"]): {side: float(row[side]) for side in sides} for row in table.to_dict("records")}


def draw_captions(count: int, *, seed: int = 0) -> list[Sample]:
    """Random words, captions of COCO's lengths."""
    rng = np.random.default_rng(seed)
    return [
        Sample(str(i), "human", 0, tuple(f"w{w}" for w in rng.integers(3000, size=rng.integers(8, 15))), (i % 2,))
        for i in range(count)
    ]


def product_rate(dtype: torch.dtype, side: int = 1024, repeats: int = 10) -> float:
    """FLOP/s of a large matrix product, the best of some."""
    a = torch.randn(side, side).to(dtype)
    return 2 * side**3 / min(cpu_seconds(lambda: a @ a) for _ in range(repeats))


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds: what others do on the machine counts little."""
    start = time.process_time()
    work()
    return time.process_time() - start


def time_steps(repeats: int = 6) -> None:
    """32 optimiser steps on 64 captions of COCO's lengths each: plain, package, bf16, ... and the median ratios."""
    torch.set_num_threads(1)
    samples = draw_captions(BATCH * 32)
    blueprint = find_judge("lstm")
    assert blueprint.recipe
    recipe = type(blueprint.recipe)(epochs=1, learning_rate=RATE, batch_size=BATCH)

    def package(precision: str) -> None:
        trainer = Trainer(make_accelerator(mixed_precision=precision))
        NetworkJudge(blueprint, Target("attribute", ("a", "b")), recipe, trainer).fit(samples, seed=0)

    ways: dict[str, Callable[[], object]] = {
        "plain": lambda: train_plain(samples, samples[:1], seed=0, epochs=1),
        "float32": lambda: package("no"),
        "bf16": lambda: package("bf16"),
    }
    rounds = [{name: cpu_seconds(work) for name, work in ways.items()} for _ in range(repeats)][1:]
    rates = [product_rate(torch.float32), product_rate(torch.bfloat16)]
    # Forward, and two products backward, of each token: by inputs and states to four gates, two layers, two directions.
    work = 3 * 2 * 2 * sum(len(s.words) for s in samples) * 4 * 256 * (100 + 256 + 512 + 256)
    print(f"one core, {len(rounds)} rounds")
    for name, rate in zip(list(ways)[1:], rates, strict=True):
        ratios = [each["plain"] / each[name] for each in rounds]
        speed = work / statistics.median(each[name] for each in rounds)
        print(
            f"plain / package, {name}: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}; "
            f"{speed / 1e9:.0f} GFLOP/s, {speed / rate:.2f} of its large products' {rate / 1e9:.0f}"
        )


def timed(work: Callable[[], object]) -> float:
    """Seconds, the device's work included."""
    start = time.perf_counter()
    work()
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter() - start


def time_stack(*, judges: int, images: int, epochs: int, plain: int) -> None:
    """Judges of one program; the package's and plain ones one by one, of which ``plain`` each are timed."""
    torch.set_num_threads(1)
    accelerator, blueprint = make_accelerator(), find_judge("lstm")
    assert blueprint.recipe
    recipe = type(blueprint.recipe)(epochs=epochs, learning_rate=RATE, batch_size=BATCH)
    texts = [draw_captions(images, seed=seed % 6) for seed in range(judges)]

    def make() -> NetworkJudge:
        return NetworkJudge(blueprint, Target("attribute", ("a", "b")), recipe, Trainer(accelerator))

    def together(few: int) -> None:
        Ensemble([make() for _ in range(judges)], [own[: few or None] for own in texts], range(judges)).fit()

    def alone(seed: int) -> None:
        make().fit(texts[seed], seed=seed)

    def first(seed: int) -> None:
        train_plain(texts[seed], texts[seed][:1], seed=seed, epochs=epochs, device=accelerator.device.type)

    together(2 * BATCH)  # Libraries load, and choose their kernels.
    seconds = timed(lambda: together(0))
    whole = seconds * EPOCHS / epochs
    print(f"{accelerator.device}: {judges} judges together {seconds:.1f} s; {EPOCHS} epochs would take {whole:.0f} s")
    for name, work in (("the package, one by one", alone), ("plain", first)):
        each = [timed(lambda seed=seed, work=work: work(seed)) for seed in range(plain)]  # type: ignore[misc]
        found = statistics.median(each)
        print(f"{name}: {found:.1f} s a judge, {found * judges / seconds:.2f} times as long")


def compare(first: Path, second: Path) -> None:
    """The table of BENCHMARKS.md."""
    plain, package = (json.loads(path.read_text(encoding="utf-8")) for path in (first, second))
    for name in plain["results"]:
        for side in ("generated", "human"):
            a, b = plain["results"][name][side], package["results"][name][side]
            print(f"{name} {side}: plain {a:.4f}, package {b:.4f}, difference {b - a:+.4f}")
    print(f"seconds: plain {plain['seconds']:.0f}, package {package['seconds']:.0f}")


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--plain", action="store_true")
    what.add_argument("--package", action="store_true")
    what.add_argument("--compare", nargs=2, type=Path, metavar="JSON")
    what.add_argument("--step", action="store_true")
    what.add_argument("--stack", action="store_true")
    parser.add_argument("--human")
    parser.add_argument("--captions", action="append")
    parser.add_argument("--labels")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--judges", type=int, default=60)
    parser.add_argument("--images", type=int, default=9700)
    parser.add_argument("--plain-judges", type=int, default=2)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.compare:
        compare(*given.compare)
        return
    if given.step:
        time_steps()
        return
    if given.stack:
        time_stack(judges=given.judges, images=given.images, epochs=given.epochs or 1, plain=given.plain_judges)
        return
    given.epochs = given.epochs or EPOCHS
    if not (given.human and given.captions and given.labels and given.out):
        parser.error("--human, --captions, --labels and --out are needed")
    corpus = Corpus.read(human=given.human, captions=given.captions, labels=given.labels)
    start = time.perf_counter()
    if given.plain:
        results = run_plain(corpus, seeds=given.seeds, epochs=given.epochs)
    else:
        results = run_package(corpus, seeds=given.seeds, epochs=given.epochs, workers=given.workers)
    report = {"results": results, "seconds": time.perf_counter() - start, "seeds": given.seeds, "epochs": given.epochs}
    given.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
