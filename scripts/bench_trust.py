"""Whether verdicts, intervals and p-values of conditional leakage hold where the truth is known, on real captions.

    python scripts/bench_trust.py ../shared/data/coco-captions
    python scripts/bench_trust.py ../shared/data/coco-captions --only null-900 --trials 20 --minutes 30

Prints a table of bounds with what was measured. Each trial is a line of ROW.jsonl in --out; the same command continues
from there. The seeds of a trial depend on its name alone, so trials may run in any order. Captioners are those of
``trust_captioners.py``. The rows:

- ``null-900``, ``null-3400``: one human caption of each image is the captioner, the others are the human side.
- ``forms-900``, ``forms-3400``: captioners of all forms without bias.
- ``doses-900``, ``doses-3400``: captioners with A->T, and with stereotyped additions or last sentences.
- ``shuffled``, ``noise``, ``unequal``, ``three``, ``few``: captioners with and without a dose, on 900 images whose
  labels are shuffled; a tenth of whose labels are wrong; of which a tenth belongs to one class; whose third class names
  women and men; and on 200 images.
- ``shared``: the shared captioners on all images, by the default judge, by words alone and by embeddings alone.
- ``time``: seconds of ``judge evaluate`` with LIC and conditional leakage.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from trust_captioners import DOSED, FORMS, PARAGRAPHS, Draw, Form, World, seed_of

from judge import Corpus, evaluate
from judge.calibration.response import TrialShare
from judge.errors import JudgeError
from judge.measure import Result
from judge.types import Labels
from judge.utils.files import read_json_lines, write_whole
from judge.utils.parallel import threads, unordered

METRIC = "conditional"
AMPLIFIES, LESS, NONE = "amplifies", "tells less", "no verdict"
"""How verdicts begin."""
EQUALIZER, BASELINE = "nic_equalizer", "nic_plus"
JUDGES = (None, "linear", "embedding")
"""The judges of the row ``shared``; None is the product's."""
SEVERAL_PEOPLE = "two people", "three people, known"
"""Captioners that say more than one person does: of five people, three and two of whom the judge knows one and two."""
FAIR = "a person", "a person, typical", "paragraph", "same objects", "template"
BIASED = "a person", "a person, typical", "paragraph"
"""Captioners without and with a dose on labels, classes and images of another kind."""
ADDED = {
    "adds": ("a person", "a person, typical", "short paragraph", "paragraph", "rich paragraph, known"),
    "ends": ("short paragraph", "paragraph", "rich paragraph, known"),
}
DOSE = 0.4
"""The dose at 900 images; at 3,400 it is a half of that."""
NOISE, UNEQUAL = 0.1, {"female": 0.1, "male": 0.9}

Record = dict[str, Any]
Frames = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Setting:
    """What all trials share; ``judge`` and ``refits`` as ``judge evaluate`` has them, None for defaults."""

    data: Path
    judge: str | None = None
    refits: int | None = None


class Bound(NamedTuple):
    """A line of the table: what was to hold, in how many trials it was measured, and whether it does."""

    what: str
    trials: int
    bound: str
    measured: str
    holds: bool | None = None


@cache
def read(data: Path, *, third: bool = False) -> World:
    """The captions, labels and objects of a folder."""
    return World.read(data, third=third)


def measure(corpus: Corpus, setting: Setting, *name: object, **settings: Any) -> Result:
    """``judge evaluate``; ``name`` gives the seed."""
    given = {"metrics": [METRIC], "judge": setting.judge, "refits": setting.refits}
    quick = {"resamples": 200, "workers": 1, "seed": seed_of(*name)}
    return evaluate(corpus, **{**quick, **given, **settings})


def records(found: Result) -> Iterator[Record]:
    """A row of each captioner."""
    for row, conclusion in zip(found.summaries, found.conclusions(), strict=True):
        yield {
            "captioner": row.captioner, "value": row.amplification, "error": row.standard_error,
            "low": row.interval and row.interval.low, "high": row.interval and row.interval.high, "p": row.p_value,
            "verdict": conclusion.verdict, "reason": conclusion.because,
        }  # fmt: skip


def tried(
    setting: Setting,
    drawn: Draw,
    forms: Sequence[Form],
    *name: object,
    relabel: Callable[[Labels, int], Labels] | None = None,
) -> list[Record]:
    """Captioners of these forms, measured; those that take the same human captions away, together."""
    found = dict[str, Record]()
    for corpus in drawn.corpora(forms):
        labels = relabel(corpus.labels, drawn.trial) if relabel and corpus.labels else corpus.labels
        try:
            rows = measure(replace(corpus, labels=labels), setting, *name, drawn.trial)
        except JudgeError as refused:
            nothing = dict.fromkeys(("value", "error", "low", "high", "p"))
            found |= {of.name: {**nothing, "verdict": NONE, "reason": str(refused)} for of in corpus.generated}
        else:
            found |= {record["captioner"]: record for record in records(rows)}
    return [
        {**found[form.name], "captioner": form.name, "base": form.base or form.name, "dosed": bool(form.base)}
        for form in forms
    ]


def null(setting: Setting, trial: int, images: int = 900) -> list[Record]:
    """A person against other people."""
    return tried(setting, read(setting.data).draw(images, trial), [FORMS["a person"]], "null", images)


def fair(setting: Setting, trial: int, images: int = 900, names: Sequence[str] = tuple(FORMS)) -> list[Record]:
    """Captioners without bias."""
    drawn = read(setting.data).draw(images, trial)
    return tried(setting, drawn, [FORMS[name] for name in names], "forms", images)


def doses(
    setting: Setting, trial: int, images: int = 900, dose: float = DOSE, names: Sequence[str] = tuple(DOSED)
) -> list[Record]:
    """Captioners with bias."""
    forms = [FORMS[name].dosed("A->T", dose) for name in names]
    forms += [FORMS[name].dosed(how, dose) for how, of in ADDED.items() for name in of if name in names]
    return tried(setting, read(setting.data).draw(images, trial), forms, "doses", images)


def panel(
    setting: Setting,
    trial: int,
    what: str,
    images: int = 900,
    relabel: Callable[[Labels, int], Labels] | None = None,
) -> list[Record]:
    """Captioners with and without a dose, where labels, classes or images are of another kind."""
    drawn = read(setting.data, third=what == "three").draw(images, trial, UNEQUAL if what == "unequal" else None)
    forms = [*(FORMS[name] for name in FAIR), *(FORMS[name].dosed("A->T", DOSE) for name in BIASED)]
    return tried(setting, drawn, forms, what, relabel=relabel)


def shuffled(labels: Labels, trial: int) -> Labels:
    """Labels that say nothing of their images."""
    order = np.random.default_rng(seed_of("shuffled", trial)).permutation([*labels.by_image.values()]).tolist()
    return replace(labels, by_image=dict(zip(labels.by_image, order, strict=True)))


def noisy(labels: Labels, trial: int) -> Labels:
    """Labels, a tenth of which are those of another class."""
    wrong = np.random.default_rng(seed_of("noise", trial)).random(len(labels.by_image)) < NOISE
    classes = sorted({*labels.by_image.values()})
    other = dict(zip(classes, (*classes[1:], classes[0]), strict=True))
    by_image = {i: other[own] if of else own for (i, own), of in zip(labels.by_image.items(), wrong, strict=True)}
    return replace(labels, by_image=by_image)


def shared(setting: Setting, trial: int) -> list[Record]:
    """The shared captioners on all images, under one of the judges; an empty row where the metric has no such judge."""
    name = JUDGES[trial]
    try:
        found = measure(read(setting.data).corpus, setting, "shared", judge=name or setting.judge)
    except JudgeError as refused:
        return [{"judge": name or "default", "refused": str(refused)}]
    pairs = [row for row in found.differences() if {row.first, row.second} == {EQUALIZER, BASELINE}]
    rows = zip(found.summaries, found.conclusions(), strict=True)
    return [
        {
            "judge": name or "default",
            "gap": pairs[0].value * (1 if pairs[0].first == EQUALIZER else -1), "gap_p": pairs[0].p_value,
            "values": {row.captioner: row.amplification for row in found.summaries},
            "verdicts": {row.captioner: f"{of.verdict} (p {row.p_value})" for row, of in rows},
        }
    ]  # fmt: skip


def seconds(setting: Setting, trial: int) -> list[Record]:
    """Seconds of ``judge evaluate`` in a process of its own."""
    data = setting.data.resolve()
    command = [sys.executable, "-m", "judge", "evaluate", "--human", f"{data / 'captions_human.json'}"]
    for file in sorted((data / "results").glob("*.json")):
        command += ["--captions", f"{file}"]
    command += ["--labels", f"{data / 'gender.csv'}", "--metrics", f"lic,{METRIC}"]
    with TemporaryDirectory() as folder:
        load, began = os.getloadavg()[0], time.perf_counter()
        subprocess.run([*command, "--out", f"{folder}/{trial}"], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        return [{"took": time.perf_counter() - began, "load": load}]


# Row -> its trials, and what measures one.
ROWS: dict[str, tuple[int, Callable[[Setting, int], list[Record]]]] = {
    "null-900": (200, null),
    "null-3400": (60, partial(null, images=3400)),
    "forms-900": (20, fair),
    "forms-3400": (3, partial(fair, images=3400)),
    "doses-900": (20, doses),
    "doses-3400": (10, partial(doses, images=3400, dose=DOSE / 2)),
    "shuffled": (20, partial(panel, what="shuffled", relabel=shuffled)),
    "noise": (20, partial(panel, what="noise", relabel=noisy)),
    "unequal": (20, partial(panel, what="unequal")),
    "three": (20, partial(panel, what="three")),
    "few": (20, partial(panel, what="few", images=200)),
    "shared": (len(JUDGES), shared),
    "time": (3, seconds),
}


def table(frames: Frames) -> Iterator[Bound]:
    """The table, of the rows that have trials."""
    for name, rows in frames.items():
        if name.startswith("null"):
            yield from null_bounds(name, rows)
        elif name.startswith("forms"):
            yield form_bound(f"{name}: forms that amplify in more than 5% of trials", rows)
            for form in SEVERAL_PEOPLE:
                of = rows[rows["captioner"] == form]
                yield share(f"{name}, {form}: amplifies", begins(of, AMPLIFIES), high=0.05)
        elif name.startswith("doses"):
            for captioner, of in rows.groupby("captioner", sort=False):
                found = share(f"{name}, {captioner}: amplifies", begins(of, AMPLIFIES), low=0.8)
                yield found._replace(measured=f"{found.measured}; {values(of)}")
            yield share(f"{name}: tells less than a person", begins(rows, LESS), high=0.0)
        elif name == "shared":
            yield from shared_bounds(rows)
        elif name == "time":
            measured = f"{rows['took'].min():.0f} s (load {rows['load'].min():.1f})"
            yield Bound("judge evaluate", len(rows), "< 180 s", measured, bool(rows["took"].min() < 180))
        else:
            yield from panel_bounds(name, rows, frames.get("doses-900"))
    long = [rows[rows["base"].isin(PARAGRAPHS)] for name, rows in frames.items() if name[:5] in {"forms", "doses"}]
    if long:
        every = pd.concat(long)
        yield share("three sentences or more: a verdict", ~begins(every, NONE), low=0.95)


def begins(rows: pd.DataFrame, verdict: str) -> pd.Series[bool]:
    """Whether the verdict of each row begins so."""
    return rows["verdict"].fillna(NONE).str.startswith(verdict)


def values(rows: pd.DataFrame) -> str:
    """The mean value, and how often p is below 0.05 with a value above 0, whatever the verdict."""
    value, p = (rows[name].astype(float) for name in ("value", "p"))
    return f"p < 0.05 above in {((value > 0) & (p < 0.05)).mean():.0%}, mean {value.mean():+.4f}"


def share(what: str, happened: pd.Series[bool], *, low: float = 0.0, high: float = 1.0) -> Bound:
    """A share of trials, with its 95% interval; it holds if the share lies within the bounds."""
    found = TrialShare.among(happened)
    if found is None:
        return Bound(what, 0, "-", "not measured")
    ends = [f"{of:.0%}" for of in (low, high)]
    bound = (
        f"at least {ends[0]}" if high == 1 else " to ".join(ends) if low else f"at most {ends[1]}" if high else "never"
    )
    measured = f"{found.share:.1%} [{found.ci.low:.1%}, {found.ci.high:.1%}]"
    return Bound(what, found.trials, bound, measured, low <= found.share <= high)


def form_bound(what: str, rows: pd.DataFrame) -> Bound:
    """How many forms amplify too often, which ones, and all verdicts."""
    shares = begins(rows, AMPLIFIES).groupby(rows["captioner"]).agg(["sum", "size"])
    often = shares[shares["sum"] > 0.05 * shares["size"]]
    named = [f"{name} {row['sum']} of {row['size']}" for name, row in often.iterrows()]
    verdicts = rows["verdict"].fillna(NONE).value_counts()
    counted = ", ".join(f"{count} {verdict!r}" for verdict, count in verdicts.items())
    measured = f"{len(often)} of {len(shares)} ({'; '.join(named) or 'none'}); {values(rows)}; verdicts: {counted}"
    return Bound(what, int(shares["size"].max()), "none", measured, often.empty)


def null_bounds(name: str, rows: pd.DataFrame) -> Iterator[Bound]:
    """p, interval and standard error without amplification."""
    known = rows.dropna(subset=["value", "p"]).astype({"value": float, "p": float})
    yield share(f"{name}: p < 0.05", known["p"] < 0.05, low=0.02, high=0.08)
    yield share(f"{name}: interval holds 0", (known["low"] <= 0) & (known["high"] >= 0), low=0.92)
    sd = known["value"].std()
    ratio = float(np.sqrt((known["error"] ** 2).mean()) / sd)
    measured = f"{ratio:.2f} (sd {sd:.4f}, mean {known['value'].mean():+.4f}; {len(rows) - len(known)} without p)"
    yield Bound(f"{name}: SE/sd", len(known), "0.9 to 1.4", measured, 0.9 <= ratio <= 1.4)


def panel_bounds(name: str, rows: pd.DataFrame, usual: pd.DataFrame | None) -> Iterator[Bound]:
    """False verdicts, and how often doses are found, beside how often they are found on 900 images as they are."""
    fair = rows[~rows["dosed"]] if name != "shuffled" else rows
    found = share(f"{name}, no bias: amplifies", begins(fair, AMPLIFIES), high=0.05)
    yield found._replace(measured=f"{found.measured}; {values(fair)}")
    if name == "shuffled":
        return
    dosed = rows[rows["dosed"]]
    yield share(f"{name}, A->T {DOSE:g}: tells less", begins(dosed, LESS), high=0.0)
    shares = []
    for captioner, of in dosed.groupby("captioner", sort=False):
        before = usual[usual["captioner"] == captioner] if usual is not None else of[:0]
        compared = f" (else {begins(before, AMPLIFIES).mean():.0%})" if len(before) else ""
        shares.append(f"{captioner} {begins(of, AMPLIFIES).mean():.0%}{compared}")
    trials = len(rows) // rows["captioner"].nunique()
    yield Bound(f"{name}: doses found", trials, "-", f"{'; '.join(shares)}; no verdict {begins(rows, NONE).mean():.0%}")


def shared_bounds(rows: pd.DataFrame) -> Iterator[Bound]:
    """Equalizer less NIC+ by the default judge, and the order of the captioners by all judges."""
    orders = dict[str, list[str]]()
    for row in rows.to_dict("records"):
        if isinstance(row.get("refused"), str):
            yield Bound(f"shared, {row['judge']}", 1, "-", row["refused"])
            continue
        values = {name: value for name, value in row["values"].items() if value is not None}
        orders[row["judge"]] = sorted(values, key=values.__getitem__)
        measured = ", ".join(f"{name} {values[name]:+.4f} {row['verdicts'][name]}" for name in orders[row["judge"]])
        yield Bound(f"shared, {row['judge']}: values", 1, "-", measured)
        chance = np.nan if row["gap_p"] is None else row["gap_p"]
        gap, holds = f"{row['gap']:+.4f}, p {chance:.2g}", bool(row["gap"] > 0 and chance < 0.05)
        yield Bound(f"Equalizer - NIC+, {row['judge']}", 1, "p < 0.05", gap, holds)
    if len(orders) > 1:
        same = len({(*order,) for order in orders.values()}) == 1
        yield Bound("the order of captioners", len(orders), "the same", "the same" if same else f"{orders}", same)


def main(  # noqa: PLR0913, PLR0917 - options
    data: Annotated[Path, typer.Argument(help="captions_human.json, gender.csv, objects.json and results/")],
    only: Annotated[list[str] | None, typer.Option(help="rows to run; repeat it")] = None,
    trials: Annotated[int | None, typer.Option(help="trials of a row, at most")] = None,
    minutes: Annotated[float, typer.Option(help="start no trial after so long; 0: print the table alone")] = 1e9,
    judge: Annotated[str | None, typer.Option(help="text judge, by default the product's")] = None,
    refits: int | None = None,
    out: Annotated[Path, typer.Option(help="folder of the trials")] = Path("runs/trust"),
    workers: int = 2,
) -> None:
    """Run the trials that --out lacks, and print the table of all."""
    from joblib import delayed

    setting, ends = Setting(data, judge, refits), time.monotonic() + 60 * minutes
    out.mkdir(parents=True, exist_ok=True)
    given = {**asdict(setting), "data": data.name}
    frames, missing, commit = dict[str, list[Record]](), list[tuple[float, str, int]](), _commit()
    for name, (count, _) in ROWS.items():
        lines = [line for line in read_lines(out / f"{name}.jsonl") if line["setting"] == given]
        frames[name] = [record for line in lines for record in line["records"]]
        if not only or name in only:
            most = min(trials or count, count)
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
    holds = {True: "holds", False: "does not hold", None: ""}
    for one in table({name: pd.DataFrame(rows) for name, rows in frames.items() if rows}):
        print("| " + " | ".join(map(str, [*one[:-1], holds[one.holds]])) + " |")


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
