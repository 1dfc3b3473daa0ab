"""``judge attribute``: which words, and which pixels, trained judges' answers come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from judge.attribution.words import (
    ExplainedAnswers,
    WordAttribution,
    attribute_words,
    explain_answers,
    summary_of_words,
    word_methods,
    word_table,
)
from judge.commands.attribute_images import (
    MAPS,
    ExplainSettings,
    ImageMaps,
    ImageMethod,
    chosen_methods,
    explain_captioner,
    explain_judge,
    find_people,
    image_methods,
    make_map_settings,
)
from judge.commands.console import say, show_progress
from judge.commands.labels import labels_of
from judge.commands.predict import Asked, PredictConfig, read_asked
from judge.commands.saved_judges import open_saved
from judge.config import OutputSettings, make_config
from judge.config.judges import BaseSettings
from judge.config.values import (
    JUDGE_FILE,
    LABELS,
    RESULTS,
    LabelFiles,
    list_or_text,
)
from judge.errors import JudgeError
from judge.report.attribution import MapRow
from judge.text.combined import AND
from judge.training.judge_file import Saved
from judge.types import Labels, Progress, Words
from judge.utils.cells import table_csv
from judge.utils.options import option
from judge.utils.outputs import OutputFolder


class AttributeConfig(OutputSettings, BaseSettings, ExplainSettings):
    """Options of ``judge attribute``: those of ``judge predict``, and what is explained how."""

    command = "judge attribute"
    panel = "Output"

    judge_weights: Annotated[tuple[str, ...], list_or_text(tuple)] = option(
        (), f"{JUDGE_FILE}; one after another", repeated="FILE", essential=True, file=True
    )
    captions: Path | None = option(
        None,
        "new captions, for judges: COCO, Karpathy, CSV, JSONL, Parquet, ... (recognised by content)",
        essential=True,
    )
    labels: LabelFiles = option(
        None,
        f"{LABELS}: its probability is explained, else the predicted one's",
        repeated="[NAME=]FILE",
        essential=True,
    )
    out: Path = option(..., RESULTS, "runs/attribute", essential=True)

    def of_judge(self, reference: str) -> PredictConfig:
        """What ``judge predict`` would ask one of the judges by.

        Raises:
            JudgeError: there are no captions.
        """
        if self.captions is None:
            raise JudgeError("judges read captions, and there are none", where="--captions", mend="give a file of them")
        given = self.model_fields_set & PredictConfig.model_fields.keys()
        return PredictConfig.model_validate({n: getattr(self, n) for n in given} | {"judge_weights": reference})


WORDS, SUMMARY, SETTINGS = "words.csv", "attribution.json", "attribute.yaml"
# Captions that are printed.
SHOWN = 5


@dataclass(frozen=True, slots=True)
class ShadedCaption:
    """A caption whose words contribute much: whose answer, by which method, and how much each word adds to it."""

    judge: str
    method: str
    image: str
    explained: str
    probability: float
    words: Words
    contributions: Sequence[float]


@dataclass(frozen=True, slots=True)
class Attributed:
    """What ``judge attribute`` did.

    Attributes:
        judges: those asked.
        captions, images: that were explained, of the judge with most.
        examples: captions of the largest contributions, those first.
        images: how much of maps lies outside people, a row per judge and method; none where none sees images.
        notes: what a user must know, a line each.
    """

    judges: Sequence[str]
    captions: int
    images: int
    examples: Sequence[ShadedCaption]
    pictures: Sequence[MapRow]
    notes: Sequence[str]


@dataclass(frozen=True)
class _Explained:
    """What one judge's answers come from."""

    weights: str
    answers: ExplainedAnswers
    words: Sequence[WordAttribution]

    @property
    def images(self) -> int:
        return len({sample.image_id for sample in self.answers.samples})

    def to_json(self) -> dict[str, Any]:
        saved = self.answers.saved
        return {
            "judge": saved.judge,
            "weights": self.weights,
            "target": saved.target.kind,
            "classes": list(saved.target.classes),
            "learnt_from": {name: saved.data.get(name) for name in ("captioner", "side", "index", "seed", "fold")},
            "captions": len(self.answers.samples),
            "images": self.images,
            "words": {one.method: summary_of_words(self.answers, one) for one in self.words},
        }


def attribute(config: AttributeConfig, *, progress: Progress | None = None) -> Attributed:
    """Explain the answers of trained judges, or the words of a captioner; write what is found to ``out``.

    Leaves ``attribution.json``, and of judges that read captions ``words.csv``, of what sees images ``pictures.csv``
    and ``maps/``.

    Raises:
        JudgeError: anything that the user can mend; nothing is left behind.
    """
    if bool(config.judge_weights) == bool(config.model):
        both = config.model is not None
        what = "a judge and a captioner cannot be explained together" if both else "nothing is to be explained"
        raise JudgeError(what, where="--judge-weights", mend="give either --judge-weights or --model")
    out = OutputFolder(config.out, what="attribution", overwrite=config.overwrite)
    out.check(config.inputs())
    if config.model:
        from judge.judges.hf_models import check_captioner

        check_captioner(config.model, where=f"--model {config.model}")
    config = _with_attribute(config)
    labels = labels_of(config) if config.judge_weights else None
    out.begin()
    with out.working():
        run = _Run(config, out.partial, labels, progress)
        with out.writing():
            run.explain()
            run.write()
            out.publish()
    return run.attributed()


def _with_attribute(config: AttributeConfig) -> AttributeConfig:
    """``config`` with the attribute of the first judge, where it names none.

    Raises:
        JudgeError: as ``open_saved``; labels or words of other attributes.
    """
    if not config.judge_weights or "attribute" in config.model_fields_set:
        return config
    learnt = open_saved(config.of_judge(config.judge_weights[0])).preparation
    if learnt is None:
        return config
    given = {name: getattr(config, name) for name in config.model_fields_set}
    return make_config(given | {"attribute": learnt.attribute.split(AND)}, AttributeConfig, where=config.command)


class _Run:
    """What is explained, judge by judge."""

    def __init__(self, config: AttributeConfig, folder: Path, labels: Labels | None, progress: Progress | None) -> None:
        self.config, self.folder, self.labels, self.progress = config, folder, labels, progress
        self.found, self.notes = list[_Explained](), list[str]()
        self.maps: ImageMaps | None = None

    def explain(self) -> None:
        """Explain the captioner, or all judges."""
        config = self.config
        if config.model:
            methods = chosen_methods(config)
            if not methods:
                mend = "choose grad-cam or gradient-shap"
                raise JudgeError("a captioner is explained in images", where="--methods", mend=mend)
            self.maps, self.notes = explain_captioner(config, methods, self.folder / MAPS, self.progress)
        for reference in config.judge_weights:
            self._judge(reference)

    def _judge(self, reference: str) -> None:
        config, own = self.config, self.config.of_judge(reference)
        asked = read_asked(own, self.progress)
        of_words, of_pictures = _methods(config, asked.saved)
        answers, notes = explain_answers(
            asked.saved,
            asked.parts,
            features=config.features,
            pictures=asked.pictures,
            labels=self.labels,
            progress=self.progress,
        )
        if left := sum(map(len, asked.parts)) - len(answers.samples):
            notes.append(f"{left} captions are of images without a label; they are left out")
        words = [attribute_words(answers, method, self.progress) for method in of_words]
        self.found.append(_Explained(reference, answers, words))
        if of_pictures:
            notes += self._pictures(reference, asked, answers, of_pictures)
        self.notes += [line for line in [*asked.notes(own), *notes] if line not in self.notes]

    def _pictures(
        self, reference: str, asked: Asked, answers: ExplainedAnswers, methods: Sequence[ImageMethod]
    ) -> list[str]:
        assert asked.pictures is not None
        how = make_map_settings(methods)
        if self.maps is None:
            people = find_people(self.config, asked.saved.masking.get("detector"), asked.pictures.names, self.progress)
            self.maps = ImageMaps(people, self.config.show_people, self.config.maps)
        return explain_judge(
            self.maps,
            asked.saved,
            reference,
            answers.samples,
            answers.explained.tolist(),
            asked.pictures,
            how,
            folder=self.folder / MAPS,
            progress=self.progress,
        )

    def write(self) -> None:
        """Write the tables, the summary and the settings."""
        tables = [word_table(one.answers, one.words) for one in self.found if one.words]
        if tables:
            (self.folder / WORDS).write_text(
                table_csv(pd.concat(tables, ignore_index=True)), encoding="utf-8", newline=""
            )
        rows = self.maps.rows if self.maps else []
        if self.maps:
            self.maps.write(self.folder)
        told = {"judges": [one.to_json() for one in self.found], "pictures": [row.to_json() for row in rows]}
        (self.folder / SUMMARY).write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (self.folder / SETTINGS).write_text(self.config.to_yaml(), encoding="utf-8")

    def attributed(self) -> Attributed:
        """What was done."""
        rows, found = self.maps.rows if self.maps else [], self.found
        if not found:
            images = max((row.found.images + row.found.without for row in rows), default=0)
            return Attributed([str(self.config.model)], images, images, [], rows, self.notes)
        largest = max(found, key=lambda one: len(one.answers.samples))
        names = [one.answers.saved.judge for one in found]
        captions = len(largest.answers.samples)
        return Attributed(names, captions, largest.images, _examples(found), rows, self.notes)


def _methods(config: AttributeConfig, saved: Saved) -> tuple[list[str], list[ImageMethod]]:
    """Those asked for, else all that the judge allows: of words, of images.

    Raises:
        JudgeError: the judge allows none of them.
    """
    seeing = image_methods(saved)
    faults = word_methods(saved) | {str(method): fault for method, fault in seeing.items()}
    allowed = [method for method, fault in faults.items() if not fault]
    chosen = [method for method in config.methods or allowed if method in allowed]
    if not chosen:
        asked = config.methods[0] if config.methods else next(iter(faults))
        what = f"judge '{saved.judge}' cannot be explained by {asked}"
        what += f": {faults[asked]}" if faults.get(asked) else ""
        mend = f"choose of {', '.join(allowed)}" if allowed else "choose another judge"
        raise JudgeError(what, where="--methods", mend=mend)
    return [method for method in chosen if method not in seeing], [method for method in seeing if method in chosen]


def _examples(found: Sequence[_Explained]) -> list[ShadedCaption]:
    """The captions of the largest contribution of a word, no two of the same words, of each judge's first method."""
    made = []
    for one in found:
        for attributed in one.words[:1]:
            sizes = [np.abs(amounts).max(initial=0.0) for amounts in attributed.contributions]
            seen = set[Words]()
            for n in np.argsort(sizes, kind="stable")[::-1].tolist():
                sample = one.answers.samples[n]
                if len(seen) < SHOWN and sizes[n] and sample.words not in seen:
                    seen.add(sample.words)
                    about = one.answers.classes[n], float(one.answers.probabilities[n])
                    amounts = attributed.contributions[n].tolist()
                    name = one.answers.saved.judge
                    made.append(ShadedCaption(name, attributed.method, sample.image_id, *about, sample.words, amounts))
    return made


def command(config: AttributeConfig) -> None:
    """Find which words of captions, and which parts of images, a trained judge's answers come from.

    Captions and images are masked as in its training. With --model, where a captioner looked when it said a word of
    the attribute. Leaves attribution.json, words.csv, pictures.csv, attribute.yaml and maps/ in --out.
    """
    from judge.report.attribution import map_table, print_shaded
    from judge.report.render import open_console, print_table

    with show_progress() as progress:
        found = attribute(config, progress=progress)
    console = open_console()
    for one in found.examples:
        heading = f"{one.judge}, {one.method}: image {one.image}, p({one.explained}) = {one.probability:.3f}"
        print_shaded(heading, one.words, one.contributions, console)
    if found.examples:
        say("Orange, +: the word speaks for the class; blue, -: against it.")
    if found.pictures:
        print_table(map_table(found.pictures), console)
    say(f"{found.captions} captions of {found.images} images, by {', '.join(dict.fromkeys(found.judges))}")
    for line in found.notes:
        say(f"NOTE: {line}")
    say(f"The results are in {config.out}")
