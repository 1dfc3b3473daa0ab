"""Whether verdicts, intervals and p-values hold where the truth is known, on real captions.

    python scripts/bench_trust.py ../shared/data/coco-captions
    python scripts/bench_trust.py ../shared/data/coco-captions --only nulls-900 --trials 20 --minutes 30

Prints a table of bounds with what was measured. Each trial is a line of ROW.jsonl in --out; the same command continues
from there. The seeds of a trial depend on its name alone, so trials may run in any order. The rows:

- ``nulls-900``, ``nulls-3400``: one human caption of each image is the captioner, the others are the human side. For
  U, which no human caption moves where labels are derived from captions, a tenth of all captions name the other class.
- ``verdicts``: such a captioner on 900 images, with changes that add no stereotype, and with A->T; ``dose-3400``: A->T.
- ``longer-900``, ``longer-3400``: it says what several human captions of each image say, joined; with and without A->T.
- ``labels``: labels are shuffled.
- ``worth``: how far doses move LIC on all images (as ``judge calibrate``); ``directions``: doses of both directions.
- ``families``: the shared captioners under each family of judges; ``families-lstm`` (only by name) with LSTMs.
- ``seeds``: the verdicts of the shared captioners with other seeds; ``seeds-1``: of a single draw of folds each.
- ``time``: seconds of ``judge evaluate``.

A captioner whose value is not above 0 cannot "amplify", so its judges have no refits.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer

from judge import Corpus, evaluate, load_lexicon
from judge.calibration.doses import CHANGES, NOTHING, DoseSource, inject
from judge.calibration.response import TrialShare, calibrate
from judge.calibration.trials import Design, people_as_captioner, whole_trials
from judge.measure import Result
from judge.measure.plan import DRAWS
from judge.metrics import METRICS
from judge.statistics.comparisons import HIGHER
from judge.text.lexicon import mask
from judge.text.tokens import is_content, tokenize
from judge.types import Captions, Labels
from judge.utils.files import read_json_lines, write_whole
from judge.utils.parallel import threads, unordered

BELOW = "not above 0"
U = tuple(name for name in ("u-ta", "u-at") if name in METRICS)
FAMILIES = ("linear", "embedding", "words+embedding", "best")
OTHERS = 4
"""Human captions an image, beside the one that plays the captioner."""
NEUTRAL, DOSES = [name for name, change in CHANGES.items() if not change.moves], (0.3, 0.6, 0.9)
"""Changes that add no stereotype, and their doses."""
BIAS = 0.4
"""The dose of A->T at 900 images; at 3,400 it is a half of that."""
EXCHANGED = 0.1
SUBSETS, SEEDS = 3, 5
ALONE: Mapping[str, Any] = {"families": False}
"""Settings of runs whose verdict is not read."""
EQUALIZER, BASELINE = "nic_equalizer", "nic_plus"

Record = dict[str, Any]
Frames = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Setting:
    """What all trials share; ``judge``, ``folds`` and ``refits`` as ``judge evaluate`` has them, None for defaults."""

    data: Path
    judge: str | None = None
    folds: int = 10
    refits: int | None = None


class Bound(NamedTuple):
    """A line of the table: what was to hold, in how many trials it was measured, and whether it does."""

    what: str
    trials: int
    bound: str
    measured: str
    holds: bool


@cache
def read(data: Path) -> tuple[Corpus, Labels, DoseSource]:
    """The captions of people and of four captioners, the labels, and the source of doses."""
    corpus = Corpus.read(
        human=data / "captions_human.json",
        captions=sorted((data / "results").glob("*.json")),
        labels=data / "gender.csv",
        objects=data / "objects.json",
    )
    assert corpus.labels is not None
    source = DoseSource(corpus.human, corpus.labels, load_lexicon("gender"), load_lexicon("coco-objects"))
    return corpus, corpus.labels, source


def seed_of(*name: object) -> int:
    """A seed for each name."""
    return int.from_bytes(hashlib.blake2b(repr(name).encode(), digest_size=4).digest()) >> 1


def draw(setting: Setting, images: int, trial: int) -> Corpus:
    """One of the human captions of each of some images as the captioner."""
    corpus, labels, _ = read(setting.data)
    return people_as_captioner(corpus, labels, images=images, seed=seed_of("draw", images, trial), captions=OTHERS)


def judged(corpus: Corpus, setting: Setting, *name: object, **settings: Any) -> Result:
    """``judge evaluate``, of LIC unless ``settings`` name other metrics; ``name`` gives the seed."""
    given: dict[str, Any] = {"judge": setting.judge, "folds": setting.folds, "refits": setting.refits}
    quick: dict[str, Any] = {"metrics": "lic", "resamples": 200, "workers": 1, "seed": seed_of(*name)}
    return evaluate(corpus, **{**given, **quick, **settings})


def records(found: Result, draw: int) -> Iterator[Record]:
    """The rows of a run as those of a calibration; captioners are named by change and dose, others have none."""
    for row, conclusion in zip(found.summaries, found.conclusions(), strict=True):
        name, _, size = row.captioner.rpartition(" ")
        change, dose = (name, float(size)) if name in CHANGES else (NOTHING, 0.0)
        yield {
            "captioner": row.captioner, "metric": row.metric.name, "judge": row.judge,
            "change": change, "dose": dose, "draw": draw, "value": row.amplification, "error": row.standard_error,
            "low": row.interval and row.interval.low, "high": row.interval and row.interval.high, "p": row.p_value,
            "basis": row.basis, "void": found.void.get(row.key, ""), "verdict": conclusion.verdict,
            "families": dict(row.families), "left_out": 0, "images": f"{row.images}", "seconds": 0.0,
        }  # fmt: skip


def nulls(setting: Setting, trial: int, images: int = 900) -> list[Record]:
    """Human captions against human captions."""
    drawn, (*_, source) = draw(setting, images, trial), read(setting.data)
    found = [judged(drawn, setting, "nulls", trial, metrics="lic,leakage")]
    if U:
        human, person = (_exchange(side, source, trial) for side in (drawn.human, *drawn.generated))
        exchanged = replace(drawn, human=human, generated=(person,))
        found.append(judged(exchanged, setting, "nulls", trial, metrics=U, **ALONE))
    return [record for one in found for record in records(one, trial)]


def _exchange(captions: Captions, source: DoseSource, trial: int) -> Captions:
    """Captions, a tenth of which name another class than their image has."""
    generator, classes = np.random.default_rng(seed_of("exchange", trial, captions.name)), source.labels.by_image
    known = sorted(set(classes.values()))
    other = dict(zip(known, (*known[1:], known[0]), strict=True))

    def exchange(image: str, text: str) -> str:
        moved = generator.random() < EXCHANGED
        return " ".join(source.with_people_of(other[classes[image]], tokenize(text))) if moved else text

    by_image = {image: tuple(exchange(image, text) for text in of) for image, of in captions.by_image.items()}
    return replace(captions, by_image=by_image)


def verdicts(setting: Setting, trial: int, images: int = 900, doses: Sequence[tuple[str, float]] = ()) -> list[Record]:
    """A human caption of each image, with doses: by default of changes that add no stereotype, and of A->T."""
    doses = doses or [(NOTHING, 0.0), ("A->T", BIAS), *product(NEUTRAL, DOSES)]
    drawn, (*_, source) = draw(setting, images, trial), read(setting.data)
    return concluded(inject_all(drawn, source, doses, trial), setting, trial)


def inject_all(drawn: Corpus, source: DoseSource, doses: Sequence[tuple[str, float]], trial: int) -> Corpus:
    """A captioner for each dose; what a change draws does not depend on its dose."""
    (person,), generated = drawn.generated, list[Captions]()
    for change, dose in doses:
        seed = seed_of("dose", change, trial)
        changed = inject(person, source, change, dose, seed=seed) if dose else person
        generated.append(replace(changed, name=f"{change} {dose:g}"))
    return replace(drawn, generated=tuple(generated))


def concluded(corpus: Corpus, setting: Setting, trial: int) -> list[Record]:
    """The verdict on each captioner; refits are made where the value, which no refit changes, is above 0."""
    quick = judged(corpus, setting, "verdicts", trial, refits=0, seeds=DRAWS)
    chosen = {row.captioner for row in quick.summaries if (row.amplification or 0.0) > 0}
    found = [of | {"verdict": BELOW} for of in records(quick, trial) if of["captioner"] not in chosen]
    rivals = tuple(one for one in corpus.generated if one.name in chosen)
    if rivals:
        found += records(judged(replace(corpus, generated=rivals), setting, "verdicts", trial, seeds=DRAWS), trial)
    return found


def longer(setting: Setting, trial: int, images: int = 900, dose: float = BIAS) -> list[Record]:
    """Captioners that say what several people said, which adds no stereotype; and with A->T in what they said."""
    everyone, (*_, source) = _everyone(setting, images, trial), read(setting.data)
    generated = list[Captions]()
    for name, size in [*product(JOINED, (0.0,)), *product(DOSED, (dose,))]:
        told = inject(everyone.human, source, "A->T", size, seed=seed_of("longer", trial)) if size else everyone.human
        bare = {image: [text.rstrip(" .") for text in of] for image, of in told.by_image.items()}
        said = {image: (JOINED[name](of),) for image, of in bare.items()}
        generated.append(Captions(f"{name}, A->T {size:g}" if size else name, said))
    return concluded(replace(everyone, generated=tuple(generated)), setting, trial)


def _listed(own: Sequence[str], captions: Sequence[str]) -> str:
    """Words, and those content words of captions that do not name the attribute, each once."""
    others = (word for caption in captions for word in _masked(caption) if is_content(word))
    return ", ".join(dict.fromkeys([*own, *others]))


# Name -> the caption of an image, from what people said of it.
JOINED: dict[str, Callable[[Sequence[str]], str]] = {
    "two captions": lambda of: " and ".join(of[:2]),
    "three captions": lambda of: " and ".join(of[:3]),
    "all captions": " and ".join,
    "sentences of two captions": lambda of: f"{' and '.join(of[:2])}. {' and '.join(of[2:4])}.",
    "a caption and the other words": lambda of: f"{of[0]}, {_listed((), of[1:])}",
    "a list of words": lambda of: _listed([word for word in tokenize(of[0]) if is_content(word)], of[1:]),
}
DOSED = ("two captions", "all captions")


def _everyone(setting: Setting, images: int, trial: int) -> Corpus:
    """All human captions of some images, and no captioner."""
    drawn = draw(setting, images, trial)
    (person,) = drawn.generated
    together = {image: (*of, *person.by_image[image]) for image, of in drawn.human.by_image.items()}
    return replace(drawn, human=replace(drawn.human, by_image=together), generated=())


def _masked(caption: str) -> tuple[str, ...]:
    return mask(tokenize(caption), load_lexicon("gender"))


def labels(setting: Setting, trial: int, images: int = 900) -> list[Record]:
    """One of the shared captioners; the labels of the images are shuffled."""
    corpus, _, _ = read(setting.data)
    drawn = draw(setting, images, trial).labels
    assert drawn is not None
    shuffled = np.random.default_rng(seed_of("labels", trial)).permutation([*drawn.by_image.values()]).tolist()
    given = replace(drawn, by_image=dict(zip(drawn.by_image, shuffled, strict=True)))
    captioner = corpus.generated[trial % len(corpus.generated)]
    return concluded(replace(corpus, labels=given, generated=(captioner,)), setting, trial)


def worth(setting: Setting, trial: int) -> list[Record]:
    """All images, with words of the attribute and of tasks alone, as ``judge calibrate`` has them."""
    corpus, _, source = read(setting.data)
    design = Design(["A->T"], [BIAS], draws=1, nulls=1, images=0, seed=seed_of("worth", trial))
    found = list[Record]()
    for one in whole_trials(corpus, source, design, reduced=True):
        generated = tuple(replace(of, name=f"{one.change} {one.dose:g}") for of in one.corpus.generated)
        corpus = replace(one.corpus, generated=generated)
        found += records(judged(corpus, setting, "worth", trial, refits=0, chance=0, **ALONE), trial)
    return found


def directions(setting: Setting, trial: int, images: int = 900) -> list[Record]:
    """U under doses of both directions, without refits."""
    doses = [(NOTHING, 0.0), *product(("A->T", "T->A"), (0.1, 0.2, 0.4, 0.8))]
    drawn, (*_, source) = draw(setting, images, trial), read(setting.data)
    corpus = inject_all(drawn, source, doses, trial)
    result = judged(corpus, setting, "directions", trial, metrics=U, refits=0, chance=0, **ALONE)
    return [*records(result, trial)]


def families(setting: Setting, trial: int, judges: Sequence[str] = FAMILIES) -> list[Record]:
    """One captioner less the other, under one family of judges."""
    corpus, _, _ = read(setting.data)
    chosen = tuple(one for one in corpus.generated if one.name in {EQUALIZER, BASELINE})
    result = judged(replace(corpus, generated=chosen), setting, "families", 0, judge=judges[trial], families=False)
    values = {row.captioner: row.amplification for row in result.summaries}
    found = [row for row in result.differences() if {row.first, row.second} == {EQUALIZER, BASELINE}]
    return [{"judge": row.judge, "first": row.first, "value": row.value, "p": row.p_value, **values} for row in found]


def seeds(setting: Setting, trial: int, images: int = 900, draws: int | None = None) -> list[Record]:
    """The shared captioners on one of three parts of the images, with one of five sets of seeds."""
    (corpus, known, _), (part, number) = read(setting.data), divmod(trial, SEEDS)
    order = np.random.default_rng(seed_of("parts")).permutation(sorted(known.by_image)).tolist()
    chosen = order[part * images : (part + 1) * images]
    given = replace(known, by_image={image: known.by_image[image] for image in sorted(chosen)})
    # No two sets share a seed.
    result = judged(replace(corpus, labels=given), setting, seed=100 * number, seeds=draws)
    return [record | {"part": part} for record in records(result, number)]


def seconds(setting: Setting, trial: int, refits: Sequence[int | None] = (None, 0)) -> list[Record]:
    """Seconds of ``judge evaluate`` in a process of its own, with refits and without."""
    data, found = setting.data.resolve(), []
    command = [sys.executable, "-m", "judge", "evaluate", "--human", f"{data / 'captions_human.json'}"]
    for file in sorted((data / "results").glob("*.json")):
        command += ["--captions", f"{file}"]
    command += ["--labels", f"{data / 'gender.csv'}", "--metrics", "lic"]
    for count in refits:
        with TemporaryDirectory() as folder:
            more = ["--out", f"{folder}/{trial}", *([] if count is None else ["--refits", f"{count}"])]
            load, began = os.getloadavg()[0], time.perf_counter()
            subprocess.run([*command, *more], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
            found.append({"refits": count is None, "took": time.perf_counter() - began, "load": load})
    return found


# Row -> its trials, and what measures one.
ROWS: dict[str, tuple[int, Callable[[Setting, int], list[Record]]]] = {
    "nulls-900": (200, nulls),
    "nulls-3400": (120, partial(nulls, images=3400)),
    "verdicts": (100, verdicts),
    "longer-900": (100, longer),
    "longer-3400": (20, partial(longer, images=3400, dose=BIAS / 2)),
    "labels": (100, labels),
    "dose-3400": (100, partial(verdicts, images=3400, doses=[("A->T", BIAS / 2)])),
    "worth": (3, worth),
    "directions": (12 if U else 0, directions),
    "families": (len(FAMILIES), families),
    "families-lstm": (0, partial(families, judges=("lstm",))),
    "seeds": (SUBSETS * SEEDS, seeds),
    "seeds-1": (SUBSETS * SEEDS, partial(seeds, draws=1)),
    "time": (3, seconds),
}


def table(frames: Frames) -> Iterator[Bound]:
    """The table, of the rows that have trials."""
    for name, rows in frames.items():
        if name.startswith("nulls"):
            yield from null_bounds(name, rows)
        elif name in {"verdicts", "labels", "dose-3400"}:
            yield from verdict_bounds(name, rows)
        elif name.startswith("longer"):
            for captioner, of in rows.groupby("captioner", sort=False):
                limits = {"low": 0.8} if "A->T" in str(captioner) else {"high": 0.05}
                yield share(f"{name}, {captioner}: amplifies", of["verdict"].isin(HIGHER), **limits)
        elif name.startswith("families"):
            for row in rows.to_dict("records"):
                value = row["value"] * (1 if row["first"] == EQUALIZER else -1)
                what = f"Equalizer - NIC+, {row['judge']}"
                yield Bound(what, 1, "p < 0.05", f"{value:+.3f}, p {row['p']:.2g}", value > 0 and row["p"] < 0.05)
        elif name == "directions":
            yield from direction_bounds(rows)
        elif name.startswith("seeds"):
            yield seed_bound(name, rows)
        elif name == "time":
            for refits, of in rows.groupby("refits"):
                most, what = (180, "with refits") if refits else (20, "--refits 0")
                least, measured = of["took"].min(), f"{of['took'].min():.0f} s (load {of['load'].min():.1f})"
                yield Bound(f"judge evaluate, {what}", len(of), f"< {most} s", measured, least < most)
    if "verdicts" in frames:
        yield from move_bounds(frames)


def share(what: str, happened: pd.Series[bool], *, low: float = 0.0, high: float = 1.0) -> Bound:
    """A share of trials, with its 95% interval; it holds if the share lies within the bounds."""
    found = TrialShare.among(happened)
    assert found
    ends = [f"{of:.0%}" for of in (low, high)]
    bound = f"at most {ends[1]}" if not low else f"at least {ends[0]}" if high == 1 else " to ".join(ends)
    measured = f"{found.share:.1%} [{found.ci.low:.1%}, {found.ci.high:.1%}]"
    return Bound(what, found.trials, bound, measured, low <= found.share <= high)


def verdict_bounds(name: str, rows: pd.DataFrame) -> Iterator[Bound]:
    """How often the verdict is "amplifies", by change and dose."""
    for (change, dose), of in rows.groupby(["change", "dose"], sort=False):
        biased = dose and CHANGES[str(change)].moves
        what = f"{change} {dose:g}" if dose else {"verdicts": "a person"}.get(name, name)
        limits = {"low": 0.8} if biased else {"high": 0.05}
        yield share(f"{name}, {what}: amplifies", of["verdict"].isin(HIGHER), **limits)


def null_bounds(name: str, rows: pd.DataFrame) -> Iterator[Bound]:
    """p, interval and standard error of each metric without amplification; the sd of LIC beside that of ``linear``."""
    for metric, of in rows.groupby("metric", sort=False):
        (found,), what = calibrate(of, {}), f"{name}, {METRICS[str(metric)].title}"
        yield share(f"{what}: p < 0.05", of["p"].dropna() < 0.05, low=0.02, high=0.08)
        yield share(f"{what}: interval holds 0", (of["low"] <= 0) & (of["high"] >= 0), low=0.92)
        claimed, sd = found.nulls.claimed or np.nan, found.nulls.sd or np.nan
        measured = f"{claimed:.2f} (sd {sd:.4f}, mean {found.nulls.mean:+.4f})"
        yield Bound(f"{what}: SE/sd", len(of), "0.9 to 1.4", measured, 0.9 <= claimed <= 1.4)
        linear = np.std([known.get("linear", np.nan) for known in of["families"]], ddof=1)
        if metric == "lic" and "900" in name and np.isfinite(linear):
            yield Bound(f"{what}: sd", len(of), f"at most linear's, {linear:.4f}", f"{sd:.4f}", bool(sd <= linear))


def move_bounds(frames: Frames) -> Iterator[Bound]:
    """How far a dose moves LIC, in shares of its worth and in null sds."""
    rows = frames["verdicts"]
    (found,) = calibrate(rows[rows["change"].isin([NOTHING, "A->T"])], {})
    shift, sd = found.responses["A->T"].shift, found.nulls.sd
    if shift is None or not sd:
        return
    measured = f"{shift / sd:.2f} (moved {shift:+.4f}, null sd {sd:.4f})"
    yield Bound(f"A->T {BIAS:g} moves LIC, in null sds", found.nulls.draws, "at least 3", measured, shift / sd >= 3)
    if "worth" in frames:
        means = frames["worth"].groupby("change")["value"].mean()
        of = means["A->T"] - means[NOTHING]
        measured = f"{shift / of:.0%} of {of:.4f}"
        yield Bound(f"A->T {BIAS:g}, share of worth", found.nulls.draws, "at least 65%", measured, shift / of >= 0.65)


def direction_bounds(rows: pd.DataFrame) -> Iterator[Bound]:
    """Rank correlation of each U with its own dose; how the largest dose of the other direction moves it."""
    for metric, of in rows.groupby("metric"):
        (found,) = calibrate(of, {})
        own, trials = METRICS[str(metric)].direction, of["draw"].nunique()
        for change, response in found.responses.items():
            if change == own:
                rank = response.spearman or 0.0
                yield Bound(f"{metric}: Spearman with {change}", trials, "at least 0.95", f"{rank:.3f}", rank >= 0.95)
            elif band := response.shift_band:
                measured = f"{response.shift:+.4f} [{band.low:+.4f}, {band.high:+.4f}]"
                yield Bound(f"{metric}: moved by {change}", trials, "interval holds 0", measured, not response.moves)


def seed_bound(name: str, rows: pd.DataFrame) -> Bound:
    """How often a verdict is no longer "amplifies" with another seed: of ordered pairs of seeds."""
    cells = rows["verdict"].isin(HIGHER).groupby([rows["part"], rows["captioner"]]).agg(["sum", "size"])
    flips, pairs = cells["sum"] * (cells["size"] - cells["sum"]), cells["size"] * (cells["size"] - 1)
    rate = flips.sum() / max(1, pairs.sum())
    measured = f"{rate:.1%} ({cells['sum'].sum()} of {len(rows)} runs amplify)"
    return Bound(f'{name}, others: no longer "amplifies"', len(rows), "at most 5%", measured, rate <= 0.05)


def main(  # noqa: PLR0913, PLR0917 - options
    data: Annotated[Path, typer.Argument(help="captions_human.json, gender.csv, objects.json and results/")],
    only: Annotated[list[str] | None, typer.Option(help="rows to run; repeat it")] = None,
    trials: Annotated[int | None, typer.Option(help="trials of a row, at most")] = None,
    minutes: Annotated[float, typer.Option(help="start no trial after so long; 0: print the table alone")] = 1e9,
    judge: Annotated[str | None, typer.Option(help="text judge, by default the product's")] = None,
    folds: int = 10,
    refits: int | None = None,
    out: Annotated[Path, typer.Option(help="folder of the trials")] = Path("runs/trust"),
    workers: int = 2,
) -> None:
    """Run the trials that --out lacks, and print the table of all."""
    from joblib import delayed

    setting, ends = Setting(data, judge, folds, refits), time.monotonic() + 60 * minutes
    out.mkdir(parents=True, exist_ok=True)
    given = {**asdict(setting), "data": data.name}
    frames, missing, commit = dict[str, list[Record]](), list[tuple[float, str, int]](), _commit()
    for name, (count, _) in ROWS.items():
        lines = [line for line in read_lines(out / f"{name}.jsonl") if line["setting"] == given]
        frames[name] = [record for line in lines for record in line["records"]]
        if not only or name in only:
            most = min(trials or count or 1, count or 1) if only else min(trials or count, count)
            done = {line["trial"] for line in lines}
            missing += [((trial + 1) / most, name, trial) for trial in range(most) if trial not in done]
    # All rows advance alike; timed commands run alone, at the end.
    tasks = [task[1:] for task in sorted(missing, key=lambda task: (task[1] == "time", task))]
    alone = [task for task in tasks if task[0] == "time"]
    open_tasks = (task for task in tasks if time.monotonic() < ends)
    calls = (delayed(run)(setting, *task) for task in open_tasks if task not in alone)
    timed = (run(setting, *task) for task in alone if time.monotonic() < ends)
    for name, trial, took, rows in chain(unordered(calls, workers, together=1), timed):
        line = {"trial": trial, "setting": given, "commit": commit, "seconds": took, "records": rows}
        with (out / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        frames[name] += rows
        print(f"{name} {trial}: {took:.0f} s", file=sys.stderr, flush=True)
    print("| what | trials | bound | measured | |\n| --- | --: | --- | --- | --- |")
    for one in table({name: pd.DataFrame(rows) for name, rows in frames.items() if rows}):
        print("| " + " | ".join(map(str, [*one[:-1], "holds" if one.holds else "does not hold"])) + " |")


def read_lines(path: Path) -> list[Any]:
    """The lines of a file, to which more will be added; what a kill has cut is removed from it."""
    lines = read_json_lines(path)
    if path.exists():
        write_whole(path, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return lines


def run(setting: Setting, name: str, trial: int) -> tuple[str, int, float, list[Record]]:
    """A trial of a row, on one thread."""
    began = time.perf_counter()
    with threads(1):
        rows = ROWS[name][1](setting, trial)
    return name, trial, time.perf_counter() - began, rows


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603 - no input


if __name__ == "__main__":
    # Workers find the functions, and what they have read, in a module with a name.
    import bench_trust

    typer.run(bench_trust.main)
