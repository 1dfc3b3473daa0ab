"""Code of the tables of LIC, ImageCaptioner2 and DPAC that ``tables.yaml`` cannot declare."""

from __future__ import annotations

import math
from typing import Any

from figures import Field, Ours, Published, Row, Value, equal, read_published, value_of
from jobs import DPAC_CAPTIONERS, LIC_CAPTIONERS, STEMS, Job, Step
from masked import MODES, attribute_step, caption_step, mask_step, model_of, score_of
from paintings import write_world
from tables import Code, Results, evaluate_step

from judge.commands.ablate import AblateDetectorsConfig
from judge.commands.align import AlignConfig
from judge.commands.anonymous import AnonymousConfig
from judge.report.anonymous import Anonymous
from judge.statistics import human_alignment
from judge.statistics.consistency import correlate

# ---- LIC, Table 1


def _check_table1(published: Published) -> list[str]:
    """LIC and LIC_M are Table 2's."""
    second = read_published("lic_table2")
    return [
        equal(published.column(mine), second.column(f"lstm_{mine}"), f"{heading} here and in Table 2 (LSTM)")
        for mine, heading in (("lic", "LIC"), ("lic_m", "LIC_M"))
    ]


# ---- LIC, Table 4: captions of partly masked images. SAT and OSCAR caption them by their own code; the paper removes
# OSCAR's region features in place of pixels.

LSTM = ("lstm",)
MASKED_CAPTIONERS, HIDDEN = ("SAT", "OSCAR"), ("original", "object", "person", "both")
CHANCE = 25.0


def _masked_captions(job: Job) -> list[Step]:
    """Mask, caption (small runs alone), and judge all captions together."""
    masks = [mask_step(job, f"masked-{hide}", mode="segment", hide=hide) for hide in HIDDEN[1:]]
    writing, captions = [], {}
    for hidden in HIDDEN:
        if job.size == "small":
            images = job.pictures()["images"] if hidden == "original" else job.out / f"masked-{hidden}"
            writing.append(caption_step(job, f"untrained-{hidden}", images=images, model=model_of(job, "")))
            captions[f"untrained-{hidden}"] = job.out / f"untrained-{hidden}.json"
            continue
        for name in MASKED_CAPTIONERS:
            captions[f"{name}-{hidden}"] = job.data / "masked" / f"{STEMS[name]}-{hidden}.json"
    inputs = {**job.inputs(("SAT",)), "captions": captions}
    return [*masks, *writing, evaluate_step(job, inputs, metrics=("lic",), **job.judging(LSTM))]


def _read_masked(job: Job, results: Results) -> Ours:
    """LIC_M, and how far it is from chance and from the unmasked pictures."""
    found: dict[tuple[Row, str], Value] = {}
    result = results["run"]
    sides = {row.captioner: value_of(result, row, "generated") for row in result.summaries}
    for captioner, side in sides.items():
        name, _, hidden = captioner.rpartition("-")
        plain = sides[f"{name}-original"]
        if side is None or plain is None:
            continue
        row = name, hidden if hidden == "original" else f"w/o {hidden}"
        found[row, "lic_m"] = side.times(100)
        found[row, "over_unbiased"] = Value(100 * side.value - CHANCE)
        found[row, "over_original"] = Value(100 * (side.value - plain.value))
    return found


def _check_masked(published: Published) -> list[str]:
    """Both differences follow from LIC_M."""
    lines = []
    for key, heading in (("over_unbiased", "Δ Unbias"), ("over_original", "Δ Original")):
        off = []
        for row in published.rows:
            base = CHANCE if key == "over_unbiased" else published.values[(row[0], "original"), "lic_m"]
            expected = published.values[row, "lic_m"] - base
            if abs(expected - published.values[row, key]) > 0.1001:
                off.append(f"{' '.join(row)} ({expected:+.1f}, printed {published.values[row, key]:+.1f})")
        told = f", not in {', '.join(off)}" if off else ""
        lines.append(f"Published {heading} follows from LIC_M in {len(published.rows) - len(off)} of 8 rows{told}.")
    return lines


# ---- LIC, Figure 3: does LIC go with a captioner's vocabulary, and with how well it describes (BLEU-4)?

VOCABULARY, BLEU = ("LIC over vocabulary size",), ("LIC over BLEU-4",)


def _all_captioners(job: Job) -> list[Step]:
    """All captioners there are: a trend needs many."""
    inputs = job.inputs(LIC_CAPTIONERS)
    if not job.is_paper:
        inputs["captions"] = job.found()
    # Of the values a trend is made; their intervals, which take longest, are not read.
    judging = job.judging(LSTM) | {"refits": 0, "chance": 0}
    return [evaluate_step(job, inputs, metrics=("lic",), **judging, quality=True)]


def _read_trends(job: Job, results: Results) -> Ours:
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
    """BLEU-4 and LIC stand in Table 1; sizes of vocabularies are not published."""
    table = read_published("lic_table1")
    pearson = correlate(table.column("bleu_4"), table.column("lic")).pearson
    assert pearson is not None
    return {(BLEU, "r_squared"): Value(pearson**2)}


def _check_trend(published: Published) -> list[str]:
    """Without the captioner that the figure calls an outlier."""
    table = read_published("lic_table1")
    rows = [row for row in table.rows if row != ("NIC+Equalizer",)]
    pearson = correlate(table.column("bleu_4", rows), table.column("lic", rows)).pearson
    assert pearson is not None
    whole = _trend()[BLEU, "r_squared"].value
    return [
        (
            f"From Table 1's figures R² of LIC over BLEU-4 is {whole:.3f}; without NIC+Equalizer, the outlier, "
            f"{pearson**2:.3f}."
        )
    ]


# ---- ImageCaptioner2, Table 5: do metrics go with what people guess from captions of anonymous images?
# The paper's images and people's guesses are not published, and such images have no labels. What is repeated is the
# comparison: metrics on labelled data, with the share of captions from which people guess a gender. A small run has no
# people, and takes the share of captions that name a gender.

PEOPLE_METRICS = {"lic": ("lstm",), "imagecaptioner2": ("sat",)}
KEYS = {"lic": "lic", "imagecaptioner2": "ic2"}
LEAST = 4  # Captioners of a correlation: of two it is 1 or -1.
PEARSON = ("Pearson with people, %",)
RATERS = ("rater1", "rater2", "rater3")


def _ask_people(job: Job) -> list[Step]:
    """Each metric on labelled data; and people's scores, or what stands in for them."""
    seeing = {**job.pictures(), "mask": "segment"}
    inputs = job.inputs(LIC_CAPTIONERS)
    runs = [
        evaluate_step(job, inputs | (seeing if "sat" in of else {}), name=name, metrics=(name,), **job.judging(of))
        for name, of in PEOPLE_METRICS.items()
    ]
    settings = {"captions": inputs["captions"]}
    if job.is_paper:
        folder = job.data / "anonymousbench"
        settings["captions"] = {name: folder / "captions" / f"{STEMS[name]}.json" for name in LIC_CAPTIONERS}
        settings |= {"images": folder / "images", "ratings": tuple(folder / "ratings" / f"{n}.csv" for n in RATERS)}
    return [*runs, Step("anonymous", AnonymousConfig, {**settings, "out": job.out / "anonymous"})]


def _people_of(found: Anonymous) -> dict[str, Value]:
    """Captioner -> share, in percent, of captions from which people guess the class; without people, that name one."""
    rows = found.rated.scores if found.rated else found.captioners
    return {row.captioner: Value(row.share.value, row.share.interval).times(100) for row in rows}


def _read_people(job: Job, results: Results) -> Ours:
    """Metrics, people's scores, and how far these go together; none of the captioners' figures is a published one's."""
    people = _people_of(results["anonymous"])
    asked = "guessed" if results["anonymous"].rated else "named"
    found: dict[tuple[Row, str], Value] = {((name,), asked): score for name, score in people.items()}
    for name in PEOPLE_METRICS.keys() & results.keys():
        values = {line.captioner: value_of(results[name], line, "amplification") for line in results[name].summaries}
        known = {captioner: value for captioner, value in values.items() if value and captioner in people}
        found |= {((captioner,), f"{KEYS[name]}_labelled"): value.times(100) for captioner, value in known.items()}
        if len(known) < LEAST:
            continue
        among = correlate([value.value for value in known.values()], [people[captioner].value for captioner in known])
        if among.pearson is not None:
            found[PEARSON, KEYS[name]] = Value(among.pearson, among.interval).times(100)
    return found


def _alignment() -> Ours:
    """The correlations, from the table's own columns."""
    table = read_published("imagecaptioner2_table5")
    rows = [row for row in table.rows if row != PEARSON]
    people = table.column("human", rows)
    return {(PEARSON, key): Value(100 * human_alignment(table.column(key, rows), people)) for key in KEYS.values()}


# ---- ImageCaptioner2, Table 6: different detectors hide people

DETECTORS = {"gt": "gt_masks", "yolo": "yolox", "maskrcnn": "mask_rcnn"}


def _detectors(job: Job) -> list[Step]:
    """One ablation; a small run has ground truth alone, as it has no trained detectors."""
    names = ("gt",) if job.size == "small" else tuple(DETECTORS)
    folder, options = job.data / "detectors", dict[str, Any](detectors=names)
    if job.size != "small":
        options |= {"weights": {kind: str(folder / f"{kind}.pt") for kind in names[1:]}, "trust_weights": folder}
    options |= {"cache": job.out / "detections", "mask": "segment"}
    inputs = {**job.inputs(LIC_CAPTIONERS), **job.pictures(), **options, "metrics": ("imagecaptioner2",)}
    return [Step("detectors", AblateDetectorsConfig, {**inputs, **job.judging(("sat",)), "out": job.out / "run"})]


def _read_detectors(job: Job, results: Results) -> Ours:
    """A column a detector."""
    found: dict[tuple[Row, str], Value] = {}
    for detector, result in results["detectors"].results.items():
        for row in result.summaries:
            value = value_of(result, row, "amplification")
            if value is not None:
                found[(row.captioner,), DETECTORS[detector]] = value.times(100)
    return found


def _check_detectors(published: Published) -> list[str]:
    """The paper calls the columns fully correlated."""
    truth = published.column("gt_masks")
    found = {name: correlate(truth, published.column(name)).pearson for name in ("yolox", "mask_rcnn")}
    return [f"Published {name} goes with the ground truth at Pearson {r:.3f}." for name, r in found.items()]


# ---- ImageCaptioner2, Table 7: speakers that are given an emotion or are not, on ArtEmis v1 and v2. Nothing is hidden
# in the paintings. A painting has the emotion of most of its annotators. Other runs read a made-up world of paintings.

EMOTION_JUDGES = ("lstm", "sat")
EMOTION_METRICS = ("lic", "imagecaptioner2")
EMOTION_SIDES: dict[str, Field] = {"_m": "generated", "_d": "human", "": "amplification"}
# Of each version: its name in the table, its recipe, and the table of people's utterances.
VERSIONS = {
    "v1": ("ArtEmis v1", "artemis-v1", "artemis_dataset_release_v0.csv"),
    "v2": ("ArtEmis v2", "artemis-v2", "combined_artemis.csv"),
}
SPEAKERS = {"vanilla": ("SAT", "none"), "predicted": ("EG-SAT", "Img2Emo"), "voted": ("EG-SAT", "voting")}


def _paintings(job: Job) -> list[Step]:
    """A run for each version."""
    versions = VERSIONS if job.is_paper else {"v1": VERSIONS["v1"]}
    return [_painting_step(job, version, *VERSIONS[version][1:]) for version in versions]


def _painting_step(job: Job, version: str, recipe: str, table: str) -> Step:
    if job.is_paper:
        human, images = job.data / recipe / table, job.data / recipe / "wikiart"
        captions = {name: job.data / recipe / f"{name}.csv" for name in SPEAKERS}
    else:
        folder = job.out / "paintings"
        human, images = folder / table, folder / "images"
        captions = {path.stem: path for path in sorted((folder / "speakers").glob("*.csv"))}
    # One emotion a painting, of those that annotators told.
    inputs: dict[str, Any] = {"human": human, "captions": captions, "labels": human, "attribute": "emotion"}
    inputs |= {"label_rule": "majority", "images": images, "mask": "none"}
    judging = job.judging(EMOTION_JUDGES)
    if job.size == "shared":  # Pictures of one colour ask for no more; refits would take hours, weights a hub.
        judging |= {"backbone": "resnet18", "backbone_weights": "random", "image_size": 64}
        judging |= {"folds": 2, "refits": 0, "chance": 0}
    return evaluate_step(job, inputs, name=version, metrics=tuple(EMOTION_METRICS), **judging)


def _write_paintings(job: Job) -> None:
    """A made-up world of paintings, for a run that is not the paper's."""
    if not job.is_paper:
        write_world(job.out / "paintings", images=200 if job.size == "small" else 1200, pictures=32)


def _read_paintings(job: Job, results: Results) -> Ours:
    """A row a version and speaker."""
    found: dict[tuple[Row, str], Value] = {}
    for version, result in results.items():
        for line in result.summaries:
            row = VERSIONS[version][0], *SPEAKERS[line.captioner]
            for ending, side in EMOTION_SIDES.items():
                if value := value_of(result, line, side):
                    found[row, KEYS[line.metric.name] + ending] = value.times(100)
    return found


# ---- DPAC, Table 4: human captions after constant and contextual substitution

DPAC_JUDGES, KINDS = ("lstm-bidirectional+mlp5",), ("constant", "contextual")
DPAC_METRICS = {"lic": "lic_d", "dpac-ta": "psi"}
SCALES = {"lic": 100, "dpac-ta": 1}
"""Times 100, psi of a judge that knows nothing would be P(a), over 50: the paper's 10 to 22 can only be plain."""


def _substituted(job: Job) -> list[Step]:
    """One alignment, and a run with each kind."""
    inputs = job.inputs(DPAC_CAPTIONERS)
    vectors = {name: value for name, value in job.aligning().items() if name != "alignment"}
    align = Step(
        "align",
        AlignConfig,
        {**inputs, **vectors, "meteor": 0 if job.size == "small" else 5000, "out": job.out / "align"},
    )
    judging = job.judging(DPAC_JUDGES)
    return [
        align,
        *(
            evaluate_step(
                job,
                inputs,
                objects=job.objects(),
                name=how,
                metrics=tuple(DPAC_METRICS),
                **job.aligning(how),
                **judging,
            )
            for how in KINDS
        ),
    ]


def _read_substituted(job: Job, results: Results) -> Ours:
    """Both kinds beside each other."""
    found: dict[tuple[Row, str], Value] = {}
    for entry in results["align"].alignments:
        for how in KINDS:
            row = (entry.captioner,)
            if not math.isnan(entry.meteor[how]):
                found[row, f"meteor_{how}"] = Value(entry.meteor[how])
            report = entry.reports[how]
            found[row, f"kept_{how}"] = Value(100 * (report.tokens_kept + report.tokens_substituted))
    for how in KINDS:
        for line in results[how].summaries:
            if side := value_of(results[how], line, "human"):
                found[(line.captioner,), f"{DPAC_METRICS[line.metric.name]}_{how}"] = side.times(
                    SCALES[line.metric.name]
                )
    return found


def _check_substituted(published: Published) -> list[str]:
    """What the paper concludes."""
    lines = []
    for key, heading in (("meteor", "METEOR"), ("lic_d", "LIC_D"), ("psi", "psi_D")):
        pairs = zip(*(published.column(f"{key}_{how}") for how in KINDS), strict=True)
        more = sum(later > before for before, later in pairs)
        lines.append(f"Published {heading} is higher after contextual substitution for {more} of 8 captioners.")
    return lines


# ---- DPAC, Table 5: captions of FC, trained anew on partly masked images, and where it looked. FC is trained outside
# of this project; a checkpoint of each version of the images is needed.

RETRAINED_METRICS = {"lic": "lic_m", "dpac-ta": "psi_m"}


def _retrained(job: Job) -> list[Step]:
    """Mask, caption by the captioner of that mask, look where it looked, and judge all captions."""
    masks = [mask_step(job, f"masked-{mode}", mode=mode, hide="person") for mode in MODES[1:]]
    places = [job.pictures()["images"], *(step.settings["out"] for step in masks)]
    models = {mode: model_of(job, str(job.data / "models" / f"fc-{mode}")) for mode in MODES}
    written = [caption_step(job, m, images=p, model=models[m]) for m, p in zip(MODES, places, strict=True)]
    looks = [
        attribute_step(job, f"looks-{mode}", images=images, model=models[mode], method="gradient-shap")
        for mode, images in zip(MODES, places, strict=True)
    ]
    captions = {step.name: step.settings["out"] for step in written}
    inputs = {**job.inputs(("FC",)), "captions": captions, "objects": job.objects()}
    judged = evaluate_step(job, inputs, metrics=tuple(RETRAINED_METRICS), **job.aligning(), **job.judging(DPAC_JUDGES))
    return [*masks, *written, *looks, judged]


def _read_retrained(job: Job, results: Results) -> Ours:
    """A row a mask: the generated side alone."""
    found: dict[tuple[Row, str], Value] = {}
    for line in results["run"].summaries:
        if side := value_of(results["run"], line, "generated"):
            found[(line.captioner,), RETRAINED_METRICS[line.metric.name]] = side.times(SCALES[line.metric.name])
    for mode in MODES:
        if score := score_of(results[f"looks-{mode}"].rows):
            found[(mode,), "attribution"] = score
    return found


CHECKS = {"lic_table1": _check_table1}
CODE = {
    "lic_table4": Code(_masked_captions, _read_masked, checks=_check_masked),
    "lic_figure3": Code(_all_captioners, _read_trends, derived=_trend, checks=_check_trend),
    "imagecaptioner2_table5": Code(_ask_people, _read_people, derived=_alignment),
    "imagecaptioner2_table6": Code(_detectors, _read_detectors, checks=_check_detectors),
    "imagecaptioner2_table7": Code(_paintings, _read_paintings, prepare=_write_paintings),
    "dpac_table4": Code(_substituted, _read_substituted, checks=_check_substituted),
    "dpac_table5": Code(_retrained, _read_retrained),
}
