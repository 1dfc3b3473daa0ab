"""Whether intervals and p-values mean what they say, on data whose true amplification is known.

    python scripts/bench_trust.py nulls --data ../shared/data/coco-captions --metrics lic,leakage,dbac-at,dpac-at
    python scripts/bench_trust.py nulls --data ... --images 3400 --trials 60 --metrics dbac-ta --folds 3 --refits 4
    python scripts/bench_trust.py nulls --data ... --metrics ba,dba,multi:pairs,dpa,ratio,error --exchanged 0.1
    python scripts/bench_trust.py worlds --worlds 200
    python scripts/bench_trust.py seen --worlds 40

``nulls``: human captions of real images play the captioner, so that nothing is amplified; every trial draws images and
roles anew. ``worlds``: worlds of the grammar, a captioner that writes as humans do, and captioners of known dose, whose
power is compared with that of a t-test over worlds. ``seen``: drawn worlds and ImageCaptioner2 with Show, Attend and
Tell, judges trained again. One line a metric: how often p is below 0.05, how often the 95% interval contains 0, the
standard deviation over trials, and the mean standard error claimed over it. Trials are stored in --out, and the same
command resumes from there. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer

from judge import Corpus, evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.trials import people_as_captioner
from judge.calibration.world import CAPTIONERS, Captioner, Parameters
from judge.corpus.splits import Protocol
from judge.measure import Result
from judge.measure.plan import Plan
from judge.statistics.summary import Settings, Summary, summarise
from judge.types import Captions, Interval, Labels

# Words of one class and of the other.
PAIRS = (
    "man woman, men women, boy girl, boys girls, guy lady, guys ladies, male female, males females, gentleman lady, "
    "gentlemen ladies, father mother, son daughter, brother sister, husband wife, he she, him her, his her, "
    "himself herself, boy's girl's, man's woman's"
)
# Words that have two counterparts ("his", "him") are exchanged for the first.
SWAPS = {
    word: of[1 - place]
    for pair in reversed(PAIRS.split(", "))
    for of in [pair.split()]
    for place, word in enumerate(of)
}
# Words of no class in the same order: captions that name it less often, whoever is in the image, amplify no more.
NEUTRAL = (
    "person people child children person people person people person people parent child relative spouse they them "
    "their themselves child's person's"
)
UNNAMED = {word: to for pair, to in zip(PAIRS.split(", "), NEUTRAL.split(), strict=True) for word in pair.split()}

# The grammar's whole vocabulary: exchangeable with human captions.
AS_HUMANS = Captioner(vocabulary=99)

app = typer.Typer(add_completion=False, help=__doc__)
Out = Annotated[Path, typer.Option(help="file that stores the trials")]


@app.command()
def nulls(  # noqa: PLR0913, PLR0917 - options
    data: Annotated[Path, typer.Option(help="captions_human.json, gender.csv and objects.json")],
    images: int = 900,
    trials: int = 200,
    metrics: str = "lic,leakage,dbac,dpac",
    folds: int = 10,
    refits: int = 20,
    captions: Annotated[int, typer.Option(help="human captions an image")] = 1,
    captioners: Annotated[int, typer.Option(help="humans who play captioners; of two, their difference too")] = 1,
    unnamed: Annotated[float, typer.Option(help="share of generated captions whose words name no class")] = 0.0,
    exchanged: Annotated[float, typer.Option(help="share of labels, and of captions, with the other class")] = 0.0,
    protocol: Protocol = "crossfit",
    seeds: int | None = None,
    out: Out = Path("runs/trust/nulls.jsonl"),
    workers: int = 2,
) -> None:
    """Human captions compared with human captions, judged by ``linear`` or counted."""

    def trial(seed: int) -> list[dict[str, Any]]:
        corpus, labels = read(data)
        of = {"images": images, "captions": captions, "captioners": captioners, "mislabelled": exchanged}
        drawn = people_as_captioner(corpus, labels, seed=seed, **of)  # type: ignore[arg-type]  # a share and counts
        human = exchange_words(drawn.human, SWAPS, share=exchanged, seed=seed + 10**6)
        generated = []
        for place, written in enumerate(drawn.generated):
            other = exchange_words(written, SWAPS, share=exchanged, seed=seed + place * 2 * 10**6)
            generated.append(exchange_words(other, UNNAMED, share=unnamed, seed=seed + (9 + place) * 10**6))
        drawn = replace(drawn, human=human, generated=tuple(generated))
        settings = {"folds": folds, "refits": refits, "protocol": protocol, "seeds": seeds, "judge": "linear"}
        found = judged(drawn, metrics, seed, **settings)
        return claims(found) + differences(found)

    name = f"{images} images, {metrics}, {folds} folds, {refits} refits, {captions}:1, {protocol}"
    more = {"seeds": seeds, "captioners": captioners - 1, "unnamed": unnamed, "exchanged": exchanged}
    name += "".join(f", {value:g} {key}" for key, value in more.items() if value)
    show(run(trial, trials, out, name, workers))


@app.command()
def worlds(
    count: Annotated[int, typer.Option("--worlds", help="worlds")] = 200,
    images: int = 1200,
    metrics: str = "lic",
    refits: int = 20,
    out: Out = Path("runs/trust/worlds.jsonl"),
    workers: int = 2,
) -> None:
    """Worlds of the grammar: a captioner that writes as humans do, and small doses of A->T.

    "few words" amplifies nothing either, but has fewer wordings, which are easier to learn from few images.
    """
    captioners = {f"dose {dose:g}": replace(AS_HUMANS, stereotype=dose) for dose in (0, 0.03, 0.06, 0.1, 0.15)}
    captioners["few words"] = CAPTIONERS["none"]

    def trial(seed: int) -> list[dict[str, Any]]:
        world = make_world(images, seed=seed)
        generated = [simulate(world, name=name, captioner=captioner) for name, captioner in captioners.items()]
        corpus = Corpus(world.human, tuple(generated), world.labels)
        return claims(judged(corpus, metrics, seed, refits=refits))

    trials = run(trial, count, out, f"{images} images, {metrics}, {refits} refits", workers)
    show(trials)
    print("\npower: share of worlds with p < 0.05; of a t-test of one world against as many without amplification as")
    print("there are refits; of a z-test that knows the sd over worlds")
    from scipy import stats

    for key, rows in grouped(trials).items():
        if " refits" in key:
            values = np.array([row["value"] for row in rows])
            power = np.mean([row["p"] < 0.05 for row in rows])
            shift = abs(values.mean()) / values.std(ddof=1)
            ideal = stats.norm.sf(1.96 - shift) + stats.norm.cdf(-1.96 - shift)
            reach, law = stats.t.ppf(0.975, refits - 1), stats.nct(refits - 1, shift / np.sqrt(1 + 1 / refits))
            print(f"{key:60s} {power:.2f}  {law.sf(reach) + law.cdf(-reach):.2f}  {ideal:.2f}")


@app.command()
def seen(  # noqa: PLR0913, PLR0917 - options
    count: Annotated[int, typer.Option("--worlds", help="worlds")] = 40,
    images: int = 300,
    refits: int = 5,
    epochs: int = 6,
    association: float = 0.8,
    pixels: int = 96,
    out: Out = Path("runs/trust/seen.jsonl"),
    workers: int = 2,
) -> None:
    """Drawn worlds, a captioner that writes as humans do, ImageCaptioner2 with Show, Attend and Tell and refits.

    Tasks depend strongly on the attribute, so that judges learn something from few images.
    """
    from judge.calibration.grammar import write_world

    def trial(seed: int) -> list[dict[str, Any]]:
        world = make_world(images, seed=seed, parameters=Parameters(association=association, mention=0.9))
        # One human caption an image: the judges of each further one would cost as much as all of the captioner's.
        first = {image: texts[:1] for image, texts in world.human.by_image.items()}
        world = replace(world, human=replace(world.human, by_image=first))
        with TemporaryDirectory() as folder:
            files = write_world(world, {"null": AS_HUMANS}, Path(folder) / "world", pictures=pixels)
            inputs = {"human": files.human, "captions": {"null": files.captions["null"]}, "labels": files.labels}
            inputs |= {"images": files.folder / "images", "instances": files.folder / "instances.json"}
            seeing = {"judge": "sat", "backbone": "test_resnet", "backbone_weights": "random", "image_size": pixels}
            training = {"protocol": "paper", "seeds": 1, "epochs": epochs, "learning_rate": 2e-3, "batch_size": 8}
            more = {"template": "is [Answer]", "features": Path(folder) / "features", "refits": refits}
            return claims(judged(None, "imagecaptioner2", seed, **inputs, **seeing, **training, **more))

    name = f"{images} images, association {association:g}, one hold-out, {epochs} epochs, {refits} refits"
    show(run(trial, count, out, name, workers))


def judged(corpus: Corpus | None, metrics: str, seed: int, **settings: Any) -> Result:
    """``judge evaluate``, without chance levels."""
    quick: dict[str, Any] = {"chance": 0, "resamples": 200, "workers": 1, "seed": seed}
    return evaluate(corpus, metrics=metrics.split(","), **quick | settings)


def claims(found: Result) -> list[dict[str, Any]]:
    """What the rows of the table claim."""
    return [entry for row in found.summaries for entry in entries(row, found)]


def differences(found: Result) -> list[dict[str, Any]]:
    """What the differences between captioners claim."""
    return [
        _entry(
            f"{row.first} - {row.second}: {row.metric.name} ({row.judge})",
            row.value,
            row.interval,
            error=row.standard_error,
            p=row.p_value,
        )
        for row in found.differences()
    ]


def read_rows(out: Path) -> list[dict[str, Any]]:
    """Rows of a file with a trial in each line, the last of which a kill may have cut."""
    whole = out.read_text(encoding="utf-8").rpartition("\n")[0] if out.exists() else ""
    if out.exists():
        out.write_text(whole + "\n" if whole else "", encoding="utf-8")
    return [row for line in whole.splitlines() for row in json.loads(line)]


@cache
def read(data: Path) -> tuple[Corpus, Labels]:
    """The real captions, and the labels."""
    corpus = Corpus.read(
        human=data / "captions_human.json", captions=[], labels=data / "gender.csv", objects=data / "objects.json"
    )
    assert corpus.labels is not None
    return corpus, corpus.labels


def exchange_words(captions: Captions, words: Mapping[str, str], *, share: float, seed: int) -> Captions:
    """Captions, in a share of which the words are exchanged."""
    generator = np.random.default_rng(seed)

    def swap(text: str) -> str:
        return " ".join(words.get(word, word) for word in text.lower().replace(".", " .").split())

    changed = {
        image: tuple(swap(text) if generator.random() < share else text for text in texts)
        for image, texts in captions.by_image.items()
    }
    return replace(captions, by_image=changed)


def entries(row: Summary, found: Result) -> list[dict[str, Any]]:
    """What a row claims, by its own basis and, for judged metrics, by the others."""
    name, value = f"{row.captioner}: {row.metric.name} ({row.judge})", row.amplification
    given = {"error": row.standard_error, "p": row.p_value, "chance": row.chance_level}
    said = [_entry(f"{name}, {row.basis}", value, row.interval, **given)]
    if row.seeds:
        scores = found.scores
        mine = scores[(scores["captioner"] == row.captioner) & (scores["metric"] == row.metric.name)]
        run = found.run
        plan = Plan(protocol=run["protocol"], folds=run["folds"] or 10, seeds=len(run["seeds"]))
        ratio = plan.ratio(row.metric)
        (split,) = summarise(mine, None, Settings(resamples=200, ratios={row.metric.name: ratio}))
        if split.basis == "splits" != row.basis:
            said.append(_entry(f"{name}, splits", value, split.interval, error=split.standard_error, p=split.p_value))
        said.append(_entry(f"{name}, these judges", value, row.these_judges))
    return said


def _entry(
    row: str,
    value: float | None,
    interval: Interval | None,
    *,
    error: float | None = None,
    p: float | None = None,
    chance: float | None = None,
) -> dict[str, Any]:
    if error is None and interval is not None:
        error = (interval.high - interval.low) / 3.92
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {"row": row, "value": value, "error": error, "p": p, "chance": chance, "low": low, "high": high}


def run(
    trial: Callable[[int], list[dict[str, Any]]], trials: int, out: Path, name: str, workers: int
) -> list[dict[str, Any]]:
    """Run the trials that are not in the file yet; return the rows of all."""
    from joblib import Parallel, delayed

    out.parent.mkdir(parents=True, exist_ok=True)
    kept = [row for row in read_rows(out) if row["name"] == name]
    done = {row["seed"] for row in kept}

    def one(seed: int) -> list[dict[str, Any]]:
        began = time.perf_counter()
        found = trial(seed)
        return [{"name": name, "seed": seed, "seconds": time.perf_counter() - began, **row} for row in found]

    missing = [seed for seed in range(trials) if seed not in done]
    pool = Parallel(n_jobs=workers, return_as="generator_unordered")
    with out.open("a") as file:
        for rows in pool(delayed(one)(seed) for seed in missing):
            # In one line: a trial is there whole or not at all.
            file.write(json.dumps(rows) + "\n")
            file.flush()
            kept += rows
    print(name)
    return kept


def grouped(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows of the table."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["value"] is not None:
            found.setdefault(row["row"], []).append(row)
    return found


def show(rows: Sequence[dict[str, Any]]) -> None:
    """One line for each row of the tables, over trials."""
    print(f"{'':60s} trials   mean     sd     claimed/sd  p<0.05  holds 0  seconds")
    for key, group in grouped(rows).items():
        values = np.array([row["value"] for row in group])
        errors = np.array([row["error"] or np.nan for row in group])
        ps = [row["p"] for row in group if row["p"] is not None]
        held = [row["low"] <= 0 <= row["high"] for row in group if row["low"] is not None]
        sd = values.std(ddof=1)
        rejected = np.mean([p < 0.05 for p in ps]) if ps else np.nan
        share = np.mean(held) if held else np.nan
        seconds = np.mean([row["seconds"] for row in group])
        print(
            f"{key:60s} {len(group):5d} {values.mean():+.4f} {sd:.4f}    {errors.mean() / sd:5.2f}"
            f"     {rejected:6.3f}  {share:6.3f}  {seconds:6.1f}"
        )


if __name__ == "__main__":
    # Workers find the functions, and what they have read, in a module with a name.
    import bench_trust

    bench_trust.app()
