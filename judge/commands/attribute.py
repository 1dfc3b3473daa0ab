"""``judge attribute``: which words of captions, and which parts of images, answers come from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
import pandas as pd

from judge.attribution import words as by_words
from judge.attribution.people import attribution_score, share_outside, sheet
from judge.commands.console import say, show_progress
from judge.commands.images import known_images, open_detector, read_truth
from judge.commands.predict import NEW, NewCaptionSettings, PredictConfig, open_saved, prepare
from judge.commands.setup import choose_lexicon, labels_of
from judge.config import OutputSettings, make_config, values
from judge.config.inputs import LabelSettings
from judge.config.judges import BaseSettings
from judge.errors import JudgeError, require
from judge.masking.images import encode, read_image
from judge.masking.instances import PERSON, BoolMask
from judge.masking.masked_images import MaskedImages, find_hidden
from judge.masking.people import Hiding
from judge.report.attribution import MAPS, SETTINGS, SUMMARY, WORDS, MapRow, map_table, print_shaded
from judge.report.render import open_console, print_table
from judge.text.combined import AND
from judge.training.judge_file import Saved
from judge.types import Labels, Progress, Sample, Words
from judge.utils.cells import table_csv
from judge.utils.options import option
from judge.utils.outputs import OutputFolder

if TYPE_CHECKING:
    from judge.attribution.maps import ImageExplanation

PICTURES = "pictures.csv"
COLUMNS = ["judge", "masking", "weights", "image_id", "caption", "answer", "value", "method", "score", "area_outside"]
SHOWN = 5  # Captions that are printed, of each judge.
ImageMethod = Literal["grad-cam", "gradient-shap", "exact"]
IMAGE_METHODS: tuple[ImageMethod, ...] = get_args(ImageMethod)
Method = Literal["occlusion", "exact", "grad-cam", "gradient-shap"]
_UNSAFE = re.compile(r"[^\w.-]+")  # In names of files.


class AttributeConfig(OutputSettings, BaseSettings, NewCaptionSettings, LabelSettings):
    """Options of ``judge attribute``: those of ``judge predict``, the methods and what they explain."""

    command = "judge attribute"
    panel = "Output"

    attribute: values.Attributes = option(
        "gender", "attribute of the labels, and of --model's words", "the first judge's; of --model gender",
        repeated="NAME",
    )  # fmt: skip
    lexicon: values.Lexicons = option(
        None, "classes of the labels, and words to look for in --model's captions: a shipped lexicon, a .yaml file, or "
        "none", "the attribute's own", repeated="[NAME=]TEXT",
    )  # fmt: skip
    judge_weights: Annotated[tuple[str, ...], values.list_or_text(tuple)] = option(
        (), f"{values.JUDGE_FILE}; one after another", repeated="FILE", essential=True, file=True
    )
    model: values.Checkpoint | None = option(
        None, "captioner (a checkpoint folder, or a name on the Hugging Face hub) whose own words are explained, "
        "in place of a judge", essential=True, file=True, min_length=1,
    )  # fmt: skip
    captions: Path | None = option(None, f"{NEW}; for judges", essential=True)
    labels: values.LabelFiles = option(
        None, f"{values.LABELS}: its probability is explained, else the predicted one's", repeated="[NAME=]FILE",
        essential=True,
    )  # fmt: skip
    methods: Annotated[tuple[Method, ...], values.list_or_text(values.lower_names)] = option(
        (), "comma-separated: occlusion (words); exact (words and places in images; linear judges); grad-cam, "
        "gradient-shap (images)", "all that the judge allows; for images exact alone if it can", essential=True,
    )  # fmt: skip
    show_people: bool = option(False, "draw maps over images in which nobody is hidden", essential=True)
    maps: int = option(24, "images to draw maps of; 0 for none", essential=True, ge=0)
    out: Path = option(..., values.RESULTS, "runs/attribute", essential=True)

    def of_judge(self, reference: str) -> PredictConfig:
        """The settings of ``judge predict`` for one of the judges."""
        if self.captions is None:
            raise JudgeError("judges read captions, and there are none", where="--captions", mend="give a file of them")
        given = self.model_fields_set & PredictConfig.model_fields.keys()
        return PredictConfig.model_validate({n: getattr(self, n) for n in given} | {"judge_weights": reference})


def attribute(config: AttributeConfig, *, progress: Progress | None = None) -> Attribution:
    """Explain the answers of trained judges, or the words of a captioner; write the results to ``out``."""
    if bool(config.judge_weights) == bool(config.model):
        both = config.model is not None
        what = "a judge and a captioner cannot be explained together" if both else "nothing is to be explained"
        raise JudgeError(what, where="--judge-weights", mend="give either --judge-weights or --model")
    out = OutputFolder(config.out, what="attribution", overwrite=config.overwrite)
    out.check(config.inputs())
    if config.model:
        from judge.judges.hf_models import check_captioner

        check_captioner(config.model, where=f"--model {config.model}")
    given = {name: getattr(config, name) for name in config.model_fields_set}
    if config.judge_weights and "attribute" not in given:  # It is that of the first judge.
        if trained := open_saved(config.of_judge(config.judge_weights[0])).preparation:
            given |= {"attribute": trained.attribute.split(AND)}
        config = make_config(given, AttributeConfig, where=config.command)
    found = Attribution(config, out, labels_of(config) if config.judge_weights else None, progress)
    with out.making():
        if config.model:
            found.explain_captioner(config.model)
        for reference in config.judge_weights:
            found.explain_judge(reference)
        found.write()
    return found


@dataclass
class Attribution:
    """What ``judge attribute`` explains, and what it found; it writes to ``out``.

    Attributes:
        labels: whose class is explained; None for the predicted one.
        judges: (file, answers, what words contribute) of each judge.
        people: the images with people hidden, and where they are; None where nothing sees images.
        lines: the rows of ``pictures.csv``, one per image, judge and method.
        rows: the scores of the maps of each judge and method.
        drawn: image id -> its number among the drawings, of which all judges have the same.
    """

    config: AttributeConfig
    out: OutputFolder
    labels: Labels | None
    progress: Progress | None
    judges: list[tuple[str, by_words.ExplainedAnswers, list[by_words.WordAttribution]]] = field(default_factory=list)
    people: MaskedImages | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)
    rows: list[MapRow] = field(default_factory=list)
    drawn: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def explain_captioner(self, model: str) -> None:
        """Explain where a captioner looked in unmasked images when it said a word of the attribute."""
        config = self.config
        methods = [method for method in IMAGE_METHODS[:2] if not config.methods or method in config.methods]
        if not methods:
            mend = "choose grad-cam or gradient-shap"
            raise JudgeError("a captioner is explained in images", where="--methods", mend=mend)
        require("vision", "captum")
        require("images", "cv2", "PIL", "pycocotools")
        lexicon = choose_lexicon(config)
        if lexicon is None:
            what = f"attribute '{config.attribute_name}' has no words to look for"
            raise JudgeError(what, where="--attribute", mend="give its words: --lexicon FILE")
        if config.images is None:
            raise JudgeError("a captioner sees images, and there are none", where="--images", mend="give their folder")
        from judge.attribution.captioner_views import explain_captions
        from judge.utils.parallel import choose_device

        truth = read_truth(config) if config.instances else None
        names = known_images(config.images, truth)
        if truth is not None:
            annotated = set(truth.images)
            names = {image: name for image, name in names.items() if name in annotated}
        self.people = self._find_people(None, names)
        plain = MaskedImages(config.images, self.people.names)
        found = explain_captions(model, plain, lexicon, methods, device=choose_device(None), progress=self.progress)
        self._add_maps(model, "none", "", found)
        said, words = len({line["image_id"] for line in self.lines}), f"a word of '{config.attribute_name}'"
        if not said:
            what = f"none of its {len(plain.names)} captions says {words}"
            raise JudgeError(what, where=f"--model {model}", mend="give other images, or another captioner")
        self.notes.append(f"{said} of {len(plain.names)} captions say {words}; maps are of these")

    def explain_judge(self, reference: str) -> None:
        """Explain a judge's answers by words, and by the images of the first caption of each."""
        config, progress = self.config, self.progress
        data = prepare(config.of_judge(reference), progress, owners=["labels"] if self.labels else [])
        of_words, of_images = _choose_methods(config, data.saved)
        if of_images:
            require("vision", "captum")
        answers, notes = by_words.explain_answers(
            data.saved, data.parts, features=config.features, images=data.images, labels=self.labels, progress=progress
        )
        if left := sum(map(len, data.parts)) - len(answers.samples):
            notes.append(f"{left} captions are of images without a label; they are left out")
        words = [by_words.WORD_METHODS[method](answers, progress) for method in of_words]
        self.judges.append((reference, answers, words))
        if of_images:
            assert data.images is not None
            notes += self._explain_images(reference, answers, data.images, of_images)
        self.notes += [line for line in [*data.notes, *notes] if line not in self.notes]

    def _explain_images(
        self, reference: str, answers: by_words.ExplainedAnswers, images: MaskedImages, methods: Sequence[ImageMethod]
    ) -> list[str]:
        from judge.attribution.judge_views import explain_predictions
        from judge.utils.parallel import choose_device

        saved = answers.saved
        self.people = self.people or self._find_people(saved.masking.get("detector"), images.names)
        first: dict[str, tuple[Sample, int]] = {}
        for sample, answer in zip(answers.samples, answers.explained.tolist(), strict=True):
            first.setdefault(sample.image_id, (sample, answer))
        samples, explained = zip(*first.values(), strict=True)
        asked = methods if self.config.methods else ()
        found, notes = explain_predictions(
            saved, samples, images, asked, answers=explained, device=choose_device(None), progress=self.progress
        )
        self._add_maps(saved.judge, str(saved.masking.get("mask", "none")), reference, found)
        return notes

    def _find_people(self, detector: str | None, names: Mapping[str, str]) -> MaskedImages:
        """Where people are in images, pixel by pixel, whatever was hidden from judges."""
        config, hiding = self.config, Hiding((PERSON,))
        assert config.images is not None
        name = config.detector if "detector" in config.model_fields_set or not detector else detector
        found = open_detector(name, config, (PERSON,))
        return find_hidden(config.images, names, detector=found, hiding=hiding, progress=self.progress)

    def _add_maps(self, name: str, masking: str, weights: str, found: Iterable[ImageExplanation]) -> None:
        """Score the maps of a judge, or a captioner, and draw some of them."""
        people, by_method = self.people, dict[str, list[tuple[float | None, float]]]()
        assert people is not None
        assert people.hiding is not None
        number = len({row.weights for row in self.rows}) + 1
        for one in found:
            height, width = one.mass.shape
            where = people.hiding.region(people.hidden[people.names[one.image_id]], (height, width))
            area, share = float((~where).mean()), share_outside(one.mass.clip(min=0), where)
            by_method.setdefault(one.method, []).append((share, area))
            about = [name, masking, weights, one.image_id, one.caption, one.answer, one.value, one.method, share, area]
            self.lines.append(dict(zip(COLUMNS, about, strict=True)))
            # Where no person was found there may be one whom the detector does not know.
            if len(self.drawn) < self.config.maps and (self.config.show_people or where.any()):
                self.drawn.setdefault(one.image_id, len(self.drawn) + 1)
            if one.image_id in self.drawn:
                self._draw(one, where, share, f"{number}-{name}-{masking}")
        for method, found_of in by_method.items():
            shares, areas = [share for share, _ in found_of], [area for _, area in found_of]
            score = attribution_score(shares, areas, generator=np.random.default_rng(0))
            self.rows.append(MapRow(name, weights, masking, method, score))

    def _draw(self, one: ImageExplanation, where: BoolMask, share: float | None, name: str) -> None:
        people = self.people
        assert people is not None
        if self.config.show_people:
            pixels = read_image(people.folder, people.names[one.image_id]).pixels
        else:
            pixels = people.read(one.image_id)
        outside = "-" if share is None else f"{share:.2f}"
        lines = [
            f"'{one.answer}' ({one.value:+.2f}), {one.method}",
            f"{outside} of the mass lies outside people, {(~where).mean():.2f} of the image does",
            one.caption,
        ]
        stem = "-".join(_UNSAFE.sub("_", part)[-60:] for part in (one.image_id, name, one.method))
        path = self.out.partial / MAPS / f"{self.drawn[one.image_id]:03d}-{stem}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode(sheet(pixels, one.mass, where, lines)))

    def write(self) -> None:
        """Write the tables, the summary and the settings."""
        judges = [
            {
                "judge": answers.saved.judge,
                "weights": weights,
                "target": answers.saved.target.kind,
                "classes": list(answers.saved.target.classes),
                "learnt_from": {
                    name: answers.saved.data.get(name) for name in ("captioner", "side", "index", "seed", "fold")
                },
                "captions": len(answers.samples),
                "images": _images(answers.samples),
                "words": {found.method: by_words.summary_of_words(answers, found) for found in words},
            }
            for weights, answers, words in self.judges
        ]
        summary = {"judges": judges, "pictures": [row.to_json() for row in self.rows]}
        texts = {SUMMARY: json.dumps(summary, indent=1, ensure_ascii=False) + "\n", SETTINGS: self.config.to_yaml()}
        if tables := [by_words.word_table(answers, words) for _, answers, words in self.judges if words]:
            texts[WORDS] = table_csv(pd.concat(tables, ignore_index=True))
        if self.people:
            texts[PICTURES] = table_csv(pd.DataFrame(self.lines, columns=COLUMNS))
        self.out.write(texts)

    def examples(self) -> Iterator[tuple[str, Words, Sequence[float]]]:
        """Heading, words and contributions of the captions, all different, in which a word contributes most."""
        for _, answers, words in self.judges:
            for found in words[:1]:
                sizes = [np.abs(amounts).max(initial=0.0) for amounts in found.contributions]
                seen = set[Words]()
                for n in np.argsort(sizes, kind="stable")[::-1].tolist():
                    sample, p = answers.samples[n], float(answers.probabilities[n])
                    if len(seen) < SHOWN and sizes[n] and sample.words not in seen:
                        seen.add(sample.words)
                        about = f"image {sample.image_id}, p({answers.classes[n]}) = {p:.3f}"
                        heading = f"{answers.saved.judge}, {found.method}: {about}"
                        yield heading, sample.words, found.contributions[n].tolist()


def _choose_methods(config: AttributeConfig, saved: Saved) -> tuple[list[str], list[ImageMethod]]:
    """The methods that the settings name, else all that the judge allows: of words, of images."""
    of_words = by_words.word_methods(saved)
    of_images: dict[str, str] = dict.fromkeys(IMAGE_METHODS, "" if saved.sees else "it sees no images")
    if saved.sees and not saved.blueprint.reads_vectors:
        of_images["exact"] = "its log-odds are not linear in places of the image"
    faults = of_images | of_words
    allowed = [method for method in faults if "" in {of_words.get(method), of_images.get(method)}]
    chosen = [method for method in config.methods or allowed if method in allowed]
    if not chosen:
        first = config.methods[0] if config.methods else next(iter(faults))
        what = f"judge '{saved.judge}' cannot be explained by {first}"
        what += f": {faults[first]}" if faults.get(first) else ""
        mend = f"choose one of {', '.join(allowed)}" if allowed else "choose another judge"
        raise JudgeError(what, where="--methods", mend=mend)
    seeing = [name for name in IMAGE_METHODS if name in chosen and not of_images[name]]
    return [name for name in chosen if of_words.get(name) == ""], seeing


def _images(samples: Sequence[Sample]) -> int:
    return len({sample.image_id for sample in samples})


def command(config: AttributeConfig) -> None:
    """Find which words of captions, and which parts of images, a trained judge's answers come from.

    Captions and images are masked as in its training. With --model, where a captioner looked when it said a word of
    the attribute. Leaves attribution.json, words.csv, pictures.csv, attribute.yaml and maps/ in --out.
    """
    with show_progress() as progress:
        found = attribute(config, progress=progress)
    console = open_console()
    examples = list(found.examples())
    for example in examples:
        print_shaded(*example, console)
    if examples:
        say("Orange, +: the word speaks for the class; blue, -: against it.")
    if found.rows:
        print_table(map_table(found.rows), console)
    if config.model:
        captions = images = max((row.found.images + row.found.without for row in found.rows), default=0)
        names = config.model
    else:  # Several judges may read different captions: count those of the judge with most.
        samples = max((answers.samples for _, answers, _ in found.judges), key=len)
        captions, images = len(samples), _images(samples)
        names = ", ".join(dict.fromkeys(answers.saved.judge for _, answers, _ in found.judges))
    say(f"{captions} captions of {images} images, by {names}", notes=found.notes)
    say(f"The results are in {config.out}")
