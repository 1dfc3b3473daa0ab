"""``judge predict``: the answers of a trained judge about new captions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from judge.commands.console import say, show_progress
from judge.commands.images import RunImages
from judge.commands.setup import reading_options
from judge.config import OutputSettings, make_config
from judge.config.inputs import MASKING, DetectorSettings, ReadingSettings, ShownSettings
from judge.config.judges import SavedJudgeSettings
from judge.config.values import IMAGES, Detector
from judge.corpus import refuse_unread
from judge.corpus.captions import read_captions
from judge.corpus.columns import check_owners
from judge.errors import JudgeError
from judge.masking.masked_images import MaskedImages
from judge.metrics.scores import guessed
from judge.training.judge_file import Saved, answer, sample_captions
from judge.training.scorer import check_reads, find_saved
from judge.types import Captions, Predictions, Progress, Sample
from judge.utils.cells import rows_csv
from judge.utils.options import option
from judge.utils.outputs import OutputFile

NEW = "new captions: COCO, Karpathy, CSV, JSONL, Parquet, ... (recognised by content)"


class NewCaptionSettings(ReadingSettings, DetectorSettings):
    """New captions and images; the judge's file says what is hidden in them."""

    panel = "Input"

    images: Path | None = option(None, f"{IMAGES}, for judges that use images", essential=True)
    detector: Detector = option("gt", "what finds people and things", "as in training", essential=True)


class PredictConfig(OutputSettings, SavedJudgeSettings, NewCaptionSettings):
    """Options of ``judge predict``."""

    command = "judge predict"
    panel = "Input"

    captions: Path = option(..., NEW, essential=True)
    out: Path = option(..., "CSV file for the answers", "runs/predictions.csv", essential=True)


def open_saved(config: SavedJudgeSettings) -> Saved:
    """The trained judge that settings name."""
    saved = find_saved(config.judge_weights, base=config.base)
    if config.backbone_weights is None:
        return saved
    return replace(saved, materials=replace(saved.materials, backbone_weights=config.backbone_weights))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A trained judge, and captions and images as in its training; ``parts``: its samples, by caption index."""

    saved: Saved
    captions: Captions
    parts: Sequence[Sequence[Sample]]
    images: MaskedImages | None
    notes: Sequence[str]


def prepare(config: PredictConfig, progress: Progress | None = None, *, owners: Sequence[str] = ()) -> Prepared:
    """Open the judge that settings name, and prepare captions and images for it; ``owners``: tables that are read."""
    saved = open_saved(config)
    preparation = check_reads(saved)
    captions = read_captions(config.captions, reading_options(config, several=True, alone=True), side="generated")
    check_owners(config.columns, ["captions", captions.name, *owners])
    refuse_unread(config.columns, [captions])
    parts = sample_captions(captions.by_image, saved)
    images = _open_images(config, saved, sorted(captions.by_image), progress) if saved.sees else None
    notes = []
    if left_out := captions.empty + captions.refused:
        notes.append(f"{left_out} captions are empty or refuse to describe; they are left out")
    if captions.cleaned:
        notes.append("captions were cleaned: " + ", ".join(f"{what} in {n:,}" for what, n in captions.cleaned.items()))
    if preparation.options.text == "sentences":
        notes.append("the judge learnt from sentences: each sentence of a caption has a row, with an index of its own")
    trained = saved.masking.get("detector")
    if saved.sees and trained and "detector" in config.model_fields_set and config.detector != trained:
        notes.append(f"the judge learnt from images that detector '{trained}' masked, not '{config.detector}'")
    notes.append("these are guesses from stereotypes, to study captions with: no judgement of the people in images")
    return Prepared(saved, captions, parts, images, notes)


def _open_images(config: PredictConfig, saved: Saved, images: Sequence[str], progress: Progress | None) -> MaskedImages:
    if config.images is None:
        what, mend = f"judge '{saved.judge}' sees images, and there are none", "give the folder of images"
        raise JudgeError(what, where="--images", mend=mend)
    own = ("images", "instances", "weights", "trust_weights", "cache", "person_categories", "class_names")
    # A few new images may show nobody.
    given = {name: getattr(config, name) for name in own} | {"allow_unmasked": True}
    trained = {name: value for name, value in saved.masking.items() if name in MASKING}
    if "detector" in config.model_fields_set:
        trained["detector"] = config.detector
    # Boxes of things are for judges that ask for them.
    judges = [saved.judge] if saved.blueprint.regions else []
    settings = make_config({**trained, **given}, ShownSettings, where=f"--judge-weights {config.judge_weights}")
    return RunImages(settings, judges, progress).hidden(images)


def _table(samples: Sequence[Sample], answers: Predictions) -> str:
    """A row per caption, by image and index; ``predicted``: of tasks all of at least 1/2, joined by "|"."""
    names = answers.target.classes
    guesses = guessed(answers.probabilities, answers.target.kind).tolist()
    rows = []
    for sample, row, guess in zip(samples, answers.probabilities.tolist(), guesses, strict=True):
        predicted = answers.target.spell(place for place, yes in enumerate(guess) if yes)
        rows.append((sample.image_id, sample.index, sample.text, *row, predicted))
    return rows_csv(["image_id", "index", "caption", *(f"p({name})" for name in names), "predicted"], sorted(rows))


def command(config: PredictConfig) -> None:
    """Apply a judge that judge train left to captions it never saw: the probability of each class.

    Captions and images are masked as in its training. Leaves a CSV file: a row per caption, as the judge read it.
    """
    out = OutputFile(config.out, overwrite=config.overwrite)
    out.check(config.inputs())
    with show_progress() as progress, out.working():
        data = prepare(config, progress)
        answers, notes = answer(data.saved, data.parts, features=config.features, images=data.images, progress=progress)
        out.write(_table(list(chain.from_iterable(data.parts)), answers).encode())
    captions = data.captions
    about = f"{captions.total} captions of {len(captions.by_image)} images; the answers are in {config.out}"
    say(f"judge '{data.saved.judge}': {about}", notes=[*data.notes, *notes])
