"""``judge predict``: what a trained judge says of new captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from judge.commands.asked import read_asked
from judge.commands.console import say, show_progress
from judge.config import PredictConfig
from judge.metrics.scores import guessed
from judge.training.asking import ask
from judge.types import Predictions, Progress, Sample
from judge.utils.cells import rows_csv
from judge.utils.outputs import OutputFile


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

    Captions and pictures are masked as in its training. Leaves a CSV file: a row per caption, as the judge read it.
    """
    with show_progress() as progress:
        found = predict(config, progress=progress)
    say(f"judge '{found.judge}': {found.captions} captions of {found.images} images; the answers are in {config.out}")
    for line in found.notes:
        say(f"NOTE: {line}")
