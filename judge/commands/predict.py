"""``judge predict``: what a trained judge says of new captions."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from judge.commands.pictures import RunPictures
from judge.commands.saved_judges import open_saved
from judge.config import MASKING, PredictConfig, RunConfig, make_config
from judge.corpus.reading import ReadOptions, read_captions
from judge.errors import JudgeError
from judge.masking.hidden import HiddenPictures
from judge.metrics.scores import guessed
from judge.training.saved import Saved, sample_captions
from judge.types import Captions, Predictions, Progress, Sample
from judge.utils.files import write_whole, writing


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
    _check_out(config)
    saved = open_saved(config)
    if saved.preparation is None:
        what, mend = "does not say what hid the attribute from its judge", "train the judge again, with judge train"
        raise JudgeError(what, where=f"--judge-weights {config.judge_weights}", mend=mend)
    reading = ReadOptions(split=config.split, columns=config.columns, several=True)
    captions = read_captions(config.captions, reading, side="generated")
    parts = sample_captions(captions.by_image, saved)
    pictures = _pictures(config, saved, sorted(captions.by_image), progress)
    from judge.training.asking import ask

    answers, notes = ask(saved, parts, features=config.features, pictures=pictures, progress=progress)
    with writing(f"--out {config.out}"):
        config.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(config.out, _table(list(chain.from_iterable(parts)), answers).encode())
    notes = [*_notes(config, saved, captions), *notes]
    return Predicted(captions.total, len(captions.by_image), saved.judge, notes)


def _check_out(config: PredictConfig) -> None:
    out, where = config.out, f"--out {config.out}"
    if out.is_dir():
        raise JudgeError("is a folder", where=where, mend="name a file")
    if out.resolve() in {path.resolve() for path in config.inputs()}:
        raise JudgeError(f"{out.name} is read", where=where, mend="name another file")
    if out.exists() and not config.overwrite:
        raise JudgeError("is there already", where=where, mend="name another file, or add --overwrite")


def _pictures(
    config: PredictConfig, saved: Saved, images: Sequence[str], progress: Progress | None
) -> HiddenPictures | None:
    """The pictures, hidden as in training; None for a judge that sees none."""
    if not saved.sees:
        return None
    if config.images is None:
        what, mend = f"judge '{saved.judge}' sees pictures, and there are none", "give the folder of pictures"
        raise JudgeError(what, where="--images", mend=mend)
    own = ("images", "instances", "weights", "trust_weights", "cache", "max_pixels")
    given = {name: getattr(config, name) for name in own} | {"human": config.captions}
    trained = {name: value for name, value in saved.masking.items() if name in MASKING}
    if "detector" in config.model_fields_set:
        trained["detector"] = config.detector
    # Boxes of things are for judges that ask for them.
    judge = {"judge": [saved.judge]} if saved.blueprint.regions else {}
    settings = make_config({**trained, **given, **judge}, RunConfig, where=f"--judge-weights {config.judge_weights}")
    return RunPictures(settings, progress).hidden(images)


def _table(samples: Sequence[Sample], answers: Predictions) -> str:
    names = answers.target.classes
    rows = sorted(
        (sample.image_id, sample.index, sample.text, *row, "|".join(names[k] for k, yes in enumerate(true) if yes))
        for sample, row, true in zip(samples, answers.probabilities.tolist(), guessed(answers).tolist(), strict=True)
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["image_id", "index", "caption", *(f"p({name})" for name in names), "predicted"])
    writer.writerows(rows)
    return text.getvalue()


def _notes(config: PredictConfig, saved: Saved, captions: Captions) -> list[str]:
    found = []
    if left_out := captions.empty + captions.refused:
        found.append(f"{left_out} captions are empty or refuse to describe; they are left out")
    trained = saved.masking.get("detector")
    if saved.sees and trained and "detector" in config.model_fields_set and config.detector != trained:
        found.append(f"the judge learnt from pictures that detector '{trained}' masked, not '{config.detector}'")
    found.append("these are guesses from stereotypes, to study captions with: no judgement of the people in images")
    return found
