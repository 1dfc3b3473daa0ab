"""``judge predict``: what a trained judge says of new captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from judge.commands.console import say, show_progress
from judge.commands.run_images import RunImages
from judge.commands.saved_judges import open_saved
from judge.config import OutputSettings, make_config
from judge.config.inputs import MASKING, DetectorSettings, ReadingSettings, ShownSettings
from judge.config.judges import FeatureSettings, SavedJudgeSettings
from judge.config.values import IMAGES
from judge.corpus import refuse_unread
from judge.corpus.captions import ReadOptions, read_captions
from judge.errors import JudgeError
from judge.masking import DetectorName
from judge.masking.masked_images import MaskedImages
from judge.metrics.scores import guessed
from judge.training.judge_file import Saved, ask, sample_captions
from judge.types import Captions, Predictions, Progress, Sample
from judge.utils.cells import rows_csv
from judge.utils.options import option
from judge.utils.outputs import OutputFile


class NewCaptionSettings(FeatureSettings, ReadingSettings, DetectorSettings):
    """New captions and images; the judge's file says what is hidden in them."""

    panel = "Input"

    images: Path | None = option(None, f"{IMAGES}, for judges that use images", essential=True)
    detector: DetectorName = option(
        "gt", "what finds people and objects: ground truth or a network", "as in training", essential=True
    )


class PredictConfig(OutputSettings, SavedJudgeSettings, NewCaptionSettings):
    """Options of ``judge predict``."""

    command = "judge predict"
    panel = "Input"

    captions: Path = option(
        ..., "new captions: COCO, Karpathy, CSV, JSONL, Parquet, ... (recognised by content)", essential=True
    )
    out: Path = option(..., "CSV file for the answers", "runs/predictions.csv", essential=True)


@dataclass(frozen=True, slots=True)
class Asked:
    """A trained judge, and what it is asked about.

    Attributes:
        saved: what its file says.
        captions: as they were read.
        parts: what it reads, a list for each caption index, by image.
        images: what it sees, hidden as in training; None for a judge that sees none.
    """

    saved: Saved
    captions: Captions
    parts: Sequence[Sequence[Sample]]
    pictures: MaskedImages | None

    def notes(self, config: PredictConfig) -> list[str]:
        """What a user must know, a line each."""
        found = []
        if left_out := self.captions.empty + self.captions.refused:
            found.append(f"{left_out} captions are empty or refuse to describe; they are left out")
        if cleaned := self.captions.cleaned:
            found.append("captions were cleaned: " + ", ".join(f"{what} in {n:,}" for what, n in cleaned.items()))
        trained = self.saved.masking.get("detector")
        if self.saved.sees and trained and "detector" in config.model_fields_set and config.detector != trained:
            found.append(f"the judge learnt from images that detector '{trained}' masked, not '{config.detector}'")
        found.append("these are guesses from stereotypes, to study captions with: no judgement of the people in images")
        return found


def read_asked(config: PredictConfig, progress: Progress | None = None) -> Asked:
    """The judge that settings name, and what they ask it about.

    Raises:
        JudgeError: anything that the user can mend.
    """
    saved = open_saved(config)
    if saved.preparation is None:
        what, mend = "does not say what hid the attribute from its judge", "train the judge again, with judge train"
        raise JudgeError(what, where=f"--judge-weights {config.judge_weights}", mend=mend)
    reading = ReadOptions(config.split, columns=config.columns, several=True, where=config.where, alone=True)
    captions = read_captions(config.captions, reading, side="generated")
    refuse_unread(config.columns, [captions])
    parts = sample_captions(captions.by_image, saved)
    return Asked(saved, captions, parts, _pictures(config, saved, sorted(captions.by_image), progress))


def _pictures(
    config: PredictConfig, saved: Saved, images: Sequence[str], progress: Progress | None
) -> MaskedImages | None:
    """The images, hidden as in training; None for a judge that sees none."""
    if not saved.sees:
        return None
    if config.images is None:
        what, mend = f"judge '{saved.judge}' sees images, and there are none", "give the folder of images"
        raise JudgeError(what, where="--images", mend=mend)
    own = ("images", "instances", "weights", "trust_weights", "cache", "max_pixels", "person_categories", "class_names")
    # A few new images may show nobody.
    given = {name: getattr(config, name) for name in own} | {"allow_unmasked": True}
    trained = {name: value for name, value in saved.masking.items() if name in MASKING - {"seed"}}
    if "detector" in config.model_fields_set:
        trained["detector"] = config.detector
    # Boxes of things are for judges that ask for them.
    judges = [saved.judge] if saved.blueprint.regions else []
    settings = make_config({**trained, **given}, ShownSettings, where=f"--judge-weights {config.judge_weights}")
    return RunImages(settings, judges, saved.masking.get("seed", 0), progress).hidden(images)


@dataclass(frozen=True, slots=True)
class Predicted:
    """What ``judge predict`` did: captions asked about, of how many images, by which judge, and notes."""

    captions: int
    images: int
    judge: str
    notes: Sequence[str]


def predict(config: PredictConfig, *, progress: Progress | None = None) -> Predicted:
    """Ask a trained judge about captions; write its probabilities to ``out``.

    A row per caption, by image and index: image_id, index, caption (as the judge read it, masked), ``p(CLASS)`` for
    each class, predicted (of tasks all of at least 1/2, joined by "|").

    Raises:
        JudgeError: anything that the user can mend; nothing is written.
    """
    out = OutputFile(config.out, overwrite=config.overwrite)
    out.check(config.inputs())
    with out.working():
        asked = read_asked(config, progress)
        saved, captions, parts = asked.saved, asked.captions, asked.parts
        answers, notes = ask(saved, parts, features=config.features, pictures=asked.pictures, progress=progress)
        out.write(_table(list(chain.from_iterable(parts)), answers).encode())
    notes = [*asked.notes(config), *notes]
    return Predicted(captions.total, len(captions.by_image), saved.judge, notes)


def _table(samples: Sequence[Sample], answers: Predictions) -> str:
    names = answers.target.classes
    rows = sorted(
        (sample.image_id, sample.index, sample.text, *row, "|".join(names[k] for k, yes in enumerate(true) if yes))
        for sample, row, true in zip(
            samples,
            answers.probabilities.tolist(),
            guessed(answers.probabilities, answers.target.kind).tolist(),
            strict=True,
        )
    )
    return rows_csv(["image_id", "index", "caption", *(f"p({name})" for name in names), "predicted"], rows)


def command(config: PredictConfig) -> None:
    """Ask a judge that judge train left about captions it never saw: the probability of each class.

    Captions and images are masked as in its training. Leaves a CSV file: a row per caption, as the judge read it.
    """
    with show_progress() as progress:
        found = predict(config, progress=progress)
    say(f"judge '{found.judge}': {found.captions} captions of {found.images} images; the answers are in {config.out}")
    for line in found.notes:
        say(f"NOTE: {line}")
