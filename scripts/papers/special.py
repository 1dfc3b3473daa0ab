"""The parts of the papers' tables that ``tables.yaml`` cannot declare."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from figures import Ours, Row, Value, own_name, read_published
from jobs import MODES, Job, Step, captioners, stem_of
from paintings import write_world
from tables import Code, Results
from verb_sets import NAMES, SUBSETS, candidates, sources, write_sets

from judge import ba_mals, dpa
from judge.attribution.people import AttributionScore
from judge.calibration.world import CLASSES
from judge.commands.ablate import AblateDetectorsConfig, AblateMasksConfig
from judge.commands.align import AlignConfig
from judge.commands.anonymous import AnonymousConfig
from judge.metrics.counted.dpa import Dpa
from judge.statistics.consistency import (
    coefficient_of_variation,
    conflict_score,
    correlate,
    measure_consistency,
    percent_reduction,
)

Steps = list[Step]


# ---- LIC, Table 4: captions of partly masked images. SAT and OSCAR caption them by their own code; the paper removes
# OSCAR's region features in place of pixels.

HIDDEN, UNBIASED = ("original", "object", "person", "both"), 25.0


def _masked_captions(job: Job, _: Steps) -> Steps:
    """Mask, caption (small runs alone), and judge all captions together."""
    masks = [job.mask(f"masked-{hide}", mode="segment", hide=hide) for hide in HIDDEN[1:]]
    if job.is_small:
        folders = [job.images()["images"], *(step.settings["out"] for step in masks)]
        written = [
            job.caption(f"untrained-{hidden}", images=images, model=job.model(""))
            for hidden, images in zip(HIDDEN, folders, strict=True)
        ]
        captions = {step.name: step.settings["out"] for step in written}
    else:
        names = [f"{name}-{hidden}" for hidden in HIDDEN for name in ("SAT", "OSCAR")]
        written, captions = [], {name: job.data / "masked" / f"{name.lower()}.json" for name in names}
    inputs = {**job.inputs(("SAT",)), "captions": captions}
    return [*masks, *written, job.evaluate(inputs, metrics=("lic",), **job.judging(("lstm",)))]


def _masked_row(_: str, captioner: str) -> Row:
    name, _, hidden = captioner.rpartition("-")
    return name, hidden if hidden == "original" else f"w/o {hidden}"


def _read_masked(job: Job, results: Results, read: Ours) -> Ours:
    """How far LIC_M is from that of an unbiased captioner, and from that of the original images."""
    found: dict[tuple[Row, str], Value] = {}
    for (row, _), side in read.items():
        found[row, "over_unbiased"] = Value(side.value - UNBIASED)
        found[row, "over_original"] = Value(side.value - read[(row[0], "original"), "lic_m"].value)
    return found


# ---- LIC, Figure 3: does LIC depend on a captioner's vocabulary, and on how well it describes (BLEU-4)?

VOCABULARY, BLEU = ("LIC over vocabulary size",), ("LIC over BLEU-4",)


def _read_trends(job: Job, results: Results, _: Ours) -> Ours:
    """The share of LIC's variance that a straight line explains."""
    result = results["run"]
    values = {row.captioner: row.amplification for row in result.summaries}
    sizes = {name: float(found.vocabulary["generated"]) for name, found in result.quality.items()}
    scores = {name: found.value("BLEU-4") for name, found in result.quality.items()}
    found: dict[tuple[Row, str], Value] = {}
    for row, of in ((VOCABULARY, sizes), (BLEU, scores)):
        both = [name for name in values if name in of and values[name] is not None]
        pearson = correlate([of[name] for name in both], [values[name] for name in both]).pearson
        if pearson is not None and len(both) > 2:
            found[row, "r_squared"] = Value(pearson**2)
    return found


def _trend() -> Ours:
    """From Table 1, which has BLEU-4 and LIC; sizes of vocabularies are not published."""
    table = read_published("lic_table1")
    pearson = correlate(table.column("bleu_4"), table.column("lic")).pearson
    assert pearson is not None
    return {(BLEU, "r_squared"): Value(pearson**2)}


# ---- ImageCaptioner2, Table 5: do metrics agree with what people guess from captions of anonymous images?
# The paper's images and people's guesses are not published, and such images have no labels. What is repeated is the
# comparison: metrics on labelled data, with the share of captions that name a gender.

KEYS = {"lic": "lic", "ic2": "imagecaptioner2"}
PEARSON = ("Pearson with people, %",)


def _anonymous(job: Job, declared: Steps) -> Steps:
    """Each metric on labelled data; and the share of captions that name a gender, in place of people's scores."""
    settings = {"captions": declared[0].settings["captions"]}
    if job.is_paper:
        folder = job.data / "anonymousbench"
        names = captioners("lic")
        settings["captions"] = {name: folder / "captions" / f"{stem_of(name)}.json" for name in names}
        settings["images"] = folder / "images"
    return [*declared, job.step("anonymous", AnonymousConfig, settings)]


def _read_people(job: Job, results: Results, read: Ours) -> Ours:
    """Shares of captions that name a gender in percent, and their correlation with metrics."""
    rows = results["anonymous"].captioners
    people = {row.captioner: Value(row.share.value, row.share.interval).times(100) for row in rows}
    found: dict[tuple[Row, str], Value] = {((name,), "named"): score for name, score in people.items()}
    for key in KEYS:
        both = [(value.value, people[row[0]].value) for (row, of), value in read.items() if of == f"{key}_labelled"]
        if len(both) > 3:  # Of two captioners a correlation is 1 or -1.
            among = correlate(*zip(*both, strict=True))
            if among.pearson is not None:
                found[PEARSON, key] = Value(among.pearson, among.interval).times(100)
    return found


def _alignment_with_people() -> Ours:
    """The correlations, from the table's own columns."""
    table = read_published("imagecaptioner2_table5")
    rows = [row for row in table.rows if row != PEARSON]
    people = table.column("human", rows)
    found = {key: correlate(table.column(key, rows), people).pearson for key in KEYS}
    return {(PEARSON, key): Value(math.nan if value is None else 100 * value) for key, value in found.items()}


# ---- ImageCaptioner2, Figure 4: metrics and people, and two judges of a metric. Its figures are in sections 5.5.1 and
# 5.5.2.

METRIC_ROWS = {"lic": "LIC", "imagecaptioner2": "ImageCaptioner2", "vl-lic": "VL-LIC"}


def _read_agreement(job: Job, results: Results, _: Ours) -> Ours:
    """How well the first judge of each metric agrees with people, and with the second."""
    people = {row[0]: score.value for (row, _), score in _read_people(job, results, {}).items()}
    found: dict[tuple[Row, str], Value] = {}
    for step, result in results.items():
        if step != "anonymous":
            consistency = measure_consistency(result.summaries, people)
            for pair in consistency.pairs:
                row = (METRIC_ROWS[pair.metric.name],)
                found[row, "conflict"] = Value(100 * pair.conflict)
                if pair.ranking.pearson is not None:
                    found[row, "ranking"] = Value(100 * pair.ranking.pearson)
            first = consistency.alignments[0]
            if first.alignment.pearson is not None:
                found[(METRIC_ROWS[first.metric.name],), "human"] = Value(100 * first.alignment.pearson)
    return found


def _published_agreement() -> Ours:
    """From Tables 4 and 5."""
    table, rows = read_published("imagecaptioner2_table4"), dict(zip(KEYS, ("LIC", "ImageCaptioner2"), strict=True))
    found: dict[tuple[Row, str], Value] = {}
    for (_, key), value in _alignment_with_people().items():
        found[(rows[key],), "human"] = value
    for key, (one, other) in {"lic": ("lic_lstm", "lic_bert"), "ic2": ("ic2_sat", "ic2_grit")}.items():
        first, second = table.column(one), table.column(other)
        ranking = correlate(first, second).pearson
        assert ranking is not None
        found[(rows[key],), "ranking"] = Value(100 * ranking)
        found[(rows[key],), "conflict"] = Value(100 * conflict_score(first, second))
    return found


# ---- ImageCaptioner2, Table 6: different detectors hide people


def _detectors(job: Job, _: Steps) -> Steps:
    """One ablation; a small run has ground truth alone, as it has no trained detectors."""
    names = ("gt",) if job.is_small else ("gt", "yolo", "maskrcnn")
    folder, options = job.data / "detectors", dict[str, Any](detectors=names)
    if not job.is_small:
        options |= {"weights": {kind: str(folder / f"{kind}.pt") for kind in names[1:]}, "trust_weights": folder}
    options |= {"cache": job.out / "detections", "mask": "segment", "metrics": ("imagecaptioner2",)}
    inputs = {**job.inputs(captioners("lic")), **job.images(), **options, **job.judging(("sat-512",))}
    return [Step("detectors", AblateDetectorsConfig, {**inputs, "out": job.out / "run"})]


# ---- ImageCaptioner2, Table 7: speakers that are given an emotion or are not, on ArtEmis v1 and v2. Nothing is hidden
# in the paintings. A painting has the emotion of most of its annotators. Other runs read a made-up world of paintings.

# Of each version: its name in the table, its recipe, and the table of human utterances.
VERSIONS = {
    "v1": ("ArtEmis v1", "artemis-v1", "artemis_dataset_release_v0.csv"),
    "v2": ("ArtEmis v2", "artemis-v2", "combined_artemis.csv"),
}
SPEAKERS = {"vanilla": ("SAT", "none"), "predicted": ("EG-SAT", "Img2Emo"), "voted": ("EG-SAT", "voting")}


def _paintings(job: Job, declared: Steps) -> Steps:
    """A run for each version; of other data than the paper's, one."""
    steps = []
    for version, (_, recipe, table) in [*VERSIONS.items()][: 2 if job.is_paper else 1]:
        folder = job.data / recipe if job.is_paper else job.out / "paintings"
        speakers, images = (folder, "wikiart") if job.is_paper else (folder / "speakers", "images")
        human, captions = folder / table, {name: speakers / f"{name}.csv" for name in SPEAKERS}
        # One emotion a painting: the one that most annotators felt.
        inputs = {"human": human, "captions": captions, "labels": human, "attribute": "emotion"}
        inputs |= {"label_rule": "majority", "images": folder / images, "mask": "none"}
        judging = job.judging(("lstm", "sat-512"))
        if job.size == "shared":  # Images of one colour need no more; refits would take hours, weights a hub.
            judging |= {"backbone": "resnet18", "backbone_weights": "random", "image_size": 64}
            judging |= {"folds": 2, "refits": 0, "chance": 0}
        steps.append(job.evaluate(inputs, name=version, metrics=("lic", "imagecaptioner2"), **judging))
    return steps


def _write_paintings(job: Job) -> None:
    """A made-up world of paintings, for a run that is not the paper's."""
    if not job.is_paper:
        write_world(job.out / "paintings", images=200 if job.is_small else 1200, pixels=32)


# ---- DBAC, Table 2


def _count_candidates(job: Job, results: Results, _: Ours) -> Ours:
    """Images whose human captions could be drawn for a set: one task, one of its verbs, the class and task named."""
    return {
        ((cell.task, cell.verb), f"{cell.attribute}{ending}"): Value(float(len(images)))
        for ending, pronouns in (("", False), ("_pronoun", True))
        for cell, images in candidates(job, pronouns=pronouns).items()
    }


# ---- DBAC, Table 3: human captions in which the verb alone tells gender; BA and DPA of annotated classes, one side


def _judge_sets(job: Job, _: Steps) -> Steps:
    """The captions of a set on both sides: nothing is amplified, and the human side's score is what counts."""
    steps = []
    for name in NAMES:
        folder = job.out / "sets" / name
        inputs = {"human": folder / "human.json", "captions": {"itself": folder / "itself.json"}}
        inputs |= {"labels": folder / "gender.csv", "objects": folder / "objects.json"}
        metrics = ("lic", "dbac-at:accuracy")
        steps.append(job.evaluate(inputs, name=name, metrics=metrics, **job.judging(("lstm+mlp3",))))
    return steps


def _set_row(name: str, _: str = "") -> Row:
    more, fewer = NAMES[name]
    return (f"{name}, {more}:{fewer:02d}",)


def _read_sets(job: Job, results: Results, _: Ours) -> Ours:
    """The share of captions whose class is guessed, and counts: BA and DPA of classes and tasks, one side."""
    found: dict[tuple[Row, str], Value] = {}
    for name, result in results.items():
        row, folder = _set_row(name), job.out / "sets" / name
        with (folder / "gender.csv").open(encoding="utf-8", newline="") as file:
            classes = {line["image_id"]: CLASSES.index(line["gender"]) for line in csv.DictReader(file)}
        shown = json.loads((folder / "objects.json").read_text(encoding="utf-8"))
        attribute = np.array(list(classes.values()))
        tasks = np.array([[task in shown[image] for task in sorted(SUBSETS)] for image in classes])
        found[row, "ba"] = Value(float(ba_mals(attribute, tasks).truth or 0))
        found[row, "dpa"] = Value(float(dpa(attribute, tasks, variant=Dpa(unit="label", score="balanced")).truth or 0))
        for line in result.summaries:
            if line.qualities:
                found[row, "omega"] = Value(line.qualities[0])
    return found


# ---- DBAC, Table 4: BLIP's captions of partly masked images, and where BLIP looked. DBAC and DPAC hide the person in
# the foreground alone, whose gender and skin tone are annotated.

FOREGROUND = {"foreground": "largest"}
BLIP = "Salesforce/blip-image-captioning-large"  # As in the authors' code.
# The words that the authors' code counts as race, which nearly always are colours of things.
RACE = {"attribute": "race", "lexicon": "race-words"}
BLIP_METRICS = {"lic": "lic", "dpa-ta": "dpa_ta", "dba-g": "ba_ta", "dbac-ta": "dbac_ta"}


def _mask_for_blip(job: Job, _: Steps) -> Steps:
    """Mask images, look where BLIP looks in them, and caption and measure with each mask."""
    model = job.model(BLIP)
    steps = [job.mask(f"masked-{mode}", mode=mode, hide="person", **FOREGROUND) for mode in MODES[1:]]
    folders = [job.images()["images"], *(step.settings["out"] for step in steps)]
    for mode, images in zip(MODES, folders, strict=True):
        for looks, words in (("looks", {}), ("race", RACE)):
            steps.append(job.attribute(f"{looks}-{mode}", images=images, model=model, method="grad-cam", **words))
    for name, attribute in (("gender", "gender"), ("skin", "skin3")):
        inputs = {**job.inputs(("NIC",), attribute), "captions": {}, "models": {"BLIP": model}}
        inputs |= {**job.images(), "masks": MODES, "hides": ("person",), **FOREGROUND}
        # Captions do not name skin tones: T->A has nothing to count, and LIC alone is left.
        of_gender = {"objects": job.objects(), "metrics": tuple(BLIP_METRICS)}
        inputs |= of_gender if name == "gender" else {"metrics": ("lic",)}
        settings = {**inputs, **job.aligning(), **job.judging(("lstm+mlp3",))}
        steps.append(job.step(name, AblateMasksConfig, settings))
    return steps


def _read_masks(job: Job, results: Results, _: Ours) -> Ours:
    """A row for each attribute and mask."""
    found: dict[tuple[Row, str], Value] = {}
    for attribute, name in (("gender", "gender"), ("skin", "race")):
        for row in results[attribute][0]:
            line = row.line.summary
            value = line.published if line.metric.counted else line.amplification
            if value is not None:
                ours = Value(value, None if line.metric.counted else line.interval)
                found[(name, row.mask), BLIP_METRICS[own_name(line.metric)]] = ours.times(100)
    for name, looks in (("gender", "looks"), ("race", "race")):
        found |= {((name, mode), "attribution"): score for mode, score in _attribution(results, looks)}
    return found


def _attribution(results: Results, looks: str = "looks") -> Iterator[tuple[str, Value]]:
    """Mask, and the attribution score of the images with it, in percent; ``looks``: the first part of steps' names."""
    for mode in MODES:
        for row in results[f"{looks}-{mode}"].rows if f"{looks}-{mode}" in results else ():
            score: AttributionScore = row.found
            if score.score is not None:
                yield mode, Value(score.score, score.interval).times(100)


# ---- DBAC, Tables 5 and 6: how much a captioner's figures vary over encoders.
# The supplement calls the figures of Tables 10 to 15 DBAC A->T. They are T->A: their LSTM columns are the T->A column
# of the paper's Table 9 (gender) and of its Table 4 (race), and section 5.3.1 says that T->A was measured. In Table 9
# the signs of two captioners (Att2in and BLIP) are others.

GROUPS = {"scratch": "from scratch", "pretrained": "pretrained"}


def _variation(scratch: str, lic: str, pretrained: str, ending: str = "") -> Code:
    """Coefficients of variation.

    Args:
        scratch: the table of DBAC by encoders trained from scratch.
        lic: that of LIC by the same encoders.
        pretrained: that of both by pretrained encoders.
        ending: of the columns of ours; of skin tones ours is of the other direction, and is not compared.
    """

    def more(job: Job, results: Results, read: Ours) -> Ours:
        found: dict[Row, dict[str, float]] = {}
        for step, result in results.items():
            metric, _, group = step.partition("-")
            for variation in measure_consistency(result.summaries).variations:
                found.setdefault((GROUPS[group], variation.captioner), {})[metric] = variation.cv
        nan = math.nan
        return _coefficients(((row, of.get("lic", nan), of.get("dbac", nan)) for row, of in found.items()), ending)

    def derived() -> Ours:
        tables = {"dbac": read_published(scratch), "lic": read_published(lic)}
        both, cv = read_published(pretrained), coefficient_of_variation
        found: list[tuple[Row, float, float]] = []
        for row in tables["lic"].rows:
            a, b = (cv([tables[m].values[row, key] for key in tables[m].columns]) for m in ("lic", "dbac"))
            found.append((("from scratch", *row), a, b))
        for row in both.rows:
            a, b = (cv([both.values[row, key] for key in both.columns if key.startswith(m)]) for m in ("lic", "dbac"))
            found.append((("pretrained", *row), a, b))
        return _coefficients(found)

    return Code(more=more, derived=derived)


def _coefficients(found: Iterable[tuple[Row, float, float]], ending: str = "") -> Ours:
    """The coefficients of LIC and DBAC, and by how much DBAC's is lower."""
    ours: dict[tuple[Row, str], Value] = {}
    for row, lic, dbac in found:
        values = {"cv_lic": lic, f"cv_dbac{ending}": dbac, f"reduction{ending}": percent_reduction(lic, dbac)}
        ours |= {(row, column): Value(value) for column, value in values.items() if not math.isnan(value)}
    return ours


# ---- DBAC, Tables 7 and 16, and Figure 1; DPAC, Table 4 and Figure 1: human captions after constant and contextual
# substitution. (Times 100, psi of a judge that knows nothing would be P(a), over 50: the paper's 10 to 22 can only be
# plain.)


def _alignment(
    paper: str, columns: Mapping[str, str], *, attribute: str = "gender", prefix: str = "", curve: bool = False
) -> Code:
    """``judge align`` for each of ``columns``: METEOR, and the share of words that are not <unk>; or the delta curve.

    Args:
        paper: whose captioners are read.
        columns: column of contextual substitution -> how captions are aligned (:meth:`Job.aligning`).
        attribute: whose words are hidden.
        prefix: of the columns of METEOR.
        curve: read the share of substitutions that find a word, by delta, alone.
    """

    def steps(job: Job, declared: Steps) -> Steps:
        found = []
        for column, how in columns.items():
            if how == "contextual" or job.size != "shared":  # There vectors of the captions stand in for all others.
                vectors = {name: value for name, value in job.aligning(how).items() if name != "alignment"}
                settings = {**job.inputs(captioners(paper), attribute), **vectors}
                found.append(job.step(f"align-{column}", AlignConfig, settings))
        return [*found, *declared]

    def more(job: Job, results: Results, _: Ours) -> Ours:
        found: dict[tuple[Row, str], Value] = {}
        entries = [(c, entry) for c in columns for entry in results.get(f"align-{c}", ((),))[0]]
        for column, entry in entries:
            row = (entry.captioner,)
            for delta, report in entry.curve if curve else ():
                found[row, f"delta_{round(100 * delta)}"] = Value(100 * report.lacking_substituted)
            for how, name in {} if curve else {"constant": "constant", "contextual": column}.items():
                found[row, f"{prefix}{name}"], report = Value(entry.meteor[how]), entry.reports[how]
                found[row, f"kept_{name}"] = Value(100 * (report.tokens_kept + report.tokens_substituted))
        return found

    return Code(steps, more=more)


# ---- DPAC, Table 5: captions of FC, trained anew on partly masked images, and where it looked. FC is trained outside
# of this project; a checkpoint of each version of the images is needed.


def _retrained(job: Job, _: Steps) -> Steps:
    """Mask, caption by the captioner of that mask, look where it looked, and judge all captions."""
    masks = [job.mask(f"masked-{mode}", mode=mode, hide="person", **FOREGROUND) for mode in MODES[1:]]
    folders: list[Path] = [job.images()["images"], *(step.settings["out"] for step in masks)]
    written, looks = [], []
    for mode, images in zip(MODES, folders, strict=True):
        model = job.model(str(job.data / "models" / f"fc-{mode}"))
        written.append(job.caption(mode, images=images, model=model))
        looks.append(job.attribute(f"looks-{mode}", images=images, model=model, method="gradient-shap"))
    captions = {step.name: step.settings["out"] for step in written}
    inputs = {**job.inputs(("FC",)), "captions": captions, "objects": job.objects(), "metrics": ("lic", "dpac-ta")}
    judging = job.judging(("lstm-bidirectional+mlp5",))
    return [*masks, *written, *looks, job.evaluate(inputs | job.aligning() | judging)]


def _read_attribution(job: Job, results: Results, _: Ours) -> Ours:
    return {((mode,), "attribution"): score for mode, score in _attribution(results)}


WITH_EACH = {"glove": "contextual", "fasttext": "fasttext"}
CODE = {
    "lic_table4": Code(_masked_captions, row=_masked_row, more=_read_masked),
    "lic_figure3": Code(more=_read_trends, derived=_trend),
    "imagecaptioner2_table5": Code(_anonymous, more=_read_people, derived=_alignment_with_people),
    "imagecaptioner2_figure4": Code(_anonymous, more=_read_agreement, derived=_published_agreement),
    "imagecaptioner2_table6": Code(_detectors),
    "imagecaptioner2_table7": Code(
        _paintings, row=lambda version, name: (VERSIONS[version][0], *SPEAKERS[name]), prepare=_write_paintings
    ),
    "dbac_table2": Code(more=_count_candidates, reads=sources),
    "dbac_table3": Code(_judge_sets, row=_set_row, more=_read_sets, prepare=write_sets, reads=sources),
    "dbac_table4": Code(_mask_for_blip, more=_read_masks),
    "dbac_table5": _variation("dbac_table10", "dbac_table11", "dbac_table12"),
    "dbac_table6": _variation("dbac_table13", "dbac_table14", "dbac_table15", "_at"),
    "dbac_table7": _alignment("dbac", WITH_EACH),
    "dbac_table16": _alignment("dbac", WITH_EACH, attribute="skin3"),
    "dbac_figure1": _alignment("dbac", {"glove": "contextual"}, curve=True),
    "dpac_table4": _alignment("dpac", {"contextual": "contextual"}, prefix="meteor_"),
    "dpac_figure1": _alignment("dpac", {"glove": "contextual"}, curve=True),
    "dpac_table5": Code(_retrained, more=_read_attribution),
}
