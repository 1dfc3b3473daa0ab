"""A callback of transformers' ``Trainer`` that measures the captioner in training."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from judge.captioning import caption_images
from judge.captioning.writing import Writing
from judge.commands.evaluate import RunConfig, evaluate
from judge.config import make_config
from judge.corpus import Corpus
from judge.corpus.records import canonical_id
from judge.errors import JudgeError
from judge.judges.hf_models import wrap_captioner
from judge.masking.images import list_images
from judge.masking.masked_images import MaskedImages
from judge.metrics import find_metric, spell_out
from judge.report.tables import lines_of
from judge.statistics.comparisons import HIGHER, LOWER
from judge.training.launch import undisturbed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from judge.report.result import Result

_NAME = "model"
# Options that the callback gives itself, or that only a single measurement can have.
_OWN = {"corpus", "captions", "models", "out", "overwrite"}
_logger = logging.getLogger(__name__)


class AmplificationCallback(TrainerCallback):
    """Measures a captioner after every few epochs: it captions images, and its captions are compared with people's.

    The default metric, conditional leakage, needs no common vocabulary; LIC and others align human captions with the
    vocabulary of each epoch. The human side is the person who says as much as the captioner, so that it moves where
    captions become longer. Training goes on as it would without the callback: random numbers, Accelerate's state and
    torch's settings are restored. The processes of a launch caption together.

        trainer = Trainer(model=model, processing_class=processor, ...)
        trainer.add_callback(AmplificationCallback(trainer.log, human="human.json", labels="gender.csv", images="val"))

    For each metric METRIC these numbers are logged, fractions: ``amplification/METRIC``; the human side,
    ``.../human``; the ends of the interval, ``.../low`` and ``.../high``; and ``.../verdict``, 1 where the captioner
    amplifies, -1 where it does the opposite, 0 where neither is shown. Interval and verdict are absent where a check
    voids them. With several judges METRIC is ``METRIC/JUDGE``. ``amplification/images`` is the number of images,
    ``amplification/names_one`` the share of captions that name one class, ``amplification/seconds`` the time.

    Attributes:
        results: epoch -> the :class:`judge.Result`.
    """

    def __init__(  # noqa: PLR0913 - what evaluate takes
        self,
        log: Callable[[dict[str, float]], None],
        *,
        human: Any,
        images: str | Path,
        labels: Any = None,
        every: int = 1,
        processor: Any = None,
        writing: Writing | None = None,
        metrics: str | Sequence[str] = "conditional",
        **settings: Any,
    ) -> None:
        """Keep what every measurement needs.

        Args:
            log: takes the numbers; ``trainer.log`` passes them to TensorBoard, W&B, MLflow and the others.
            human: human captions, as :func:`judge.evaluate` takes them, of images that are not trained on.
            images: folder with these images; the name of a file, without its ending, is the image's id.
            labels: the class of each image, by default derived from the human captions.
            every: epochs from one measurement to the next.
            processor: of text and images; by default the trainer's ``processing_class``.
            writing: how captions are written: prompt, beams, length.
            metrics: names of metrics.
            settings: any other option of ``judge.evaluate``, e.g. ``refits=20``, but for ``out`` and captions.

        Raises:
            JudgeError: ``every`` is below 1; an option is unknown, or not for a callback; several attributes; human
                captions cannot be read; no file is of any of their images.
        """
        if every < 1:
            raise JudgeError(f"must be 1 or more, not {every}", where="every", mend="give a number of epochs")
        for name in sorted(settings.keys() & _OWN):
            raise JudgeError("is not for a callback", where=name, mend="leave it out")
        checked = {name: of for name, of in settings.items() if name != "lexicon"}  # It may be in memory.
        config = make_config({"human": "in memory", "metrics": metrics, **checked}, RunConfig)
        if len(config.attributes) > 1:
            what = "captions in memory are measured for one attribute"
            raise JudgeError(what, where="attribute", mend="add a callback for each")
        described = Corpus.read(human=human, captions={}).human.by_image
        files = {canonical_id(name): name for name in list_images(Path(images))}
        names = {image: files[image] for image in described if image in files}
        if not names:
            what = f"no file of any of the {len(described)} images with human captions"
            raise JudgeError(what, where=str(images), mend="check that ids mean the same in both")
        self.log, self.every, self.processor = log, every, processor
        self.images, self.writing = MaskedImages(Path(images), names), writing or Writing()
        sees = "image" in config.given or any(find_metric(name).uses_images for name in spell_out(config.metrics))
        self.settings = {"human": human, "labels": labels, "metrics": metrics, **settings}
        self.settings |= {"images": images} if sees else {}
        self.results: dict[float, Result] = {}

    def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002 - transformers' names
        """Measure, and log."""
        if round(state.epoch) % self.every == 0:
            self.log(self.measure(given["model"], given.get("processing_class"), epoch=state.epoch))

    def measure(self, model: Any, processor: Any = None, *, epoch: float | None = None) -> dict[str, float]:
        """The numbers to log; any other training loop may call it.

        Args:
            model: the captioner, of transformers, on its device.
            processor: of text and images, unless the callback has one, or had one before.
            epoch: its key in ``results``; by default the one after the last.

        Raises:
            JudgeError: there is no processor, no image can be captioned, or as :func:`judge.evaluate`.
        """
        start = time.monotonic()
        self.processor = self.processor or processor
        captioner = wrap_captioner(model, self.processor)
        with undisturbed(), _evaluating(model):
            done = caption_images(captioner, self.images, self.writing)
            if not done.captions:
                raise done.failures[0][1]
            if done.failures:
                _logger.warning(
                    "%d images could not be captioned; the first: %s", len(done.failures), done.failures[0][1]
                )
            if done.cut:
                _logger.warning("%d captions were cut off at %d tokens", done.cut, self.writing.max_tokens)
            found = evaluate(captions={_NAME: done.captions}, **self.settings)
        self.results[max(self.results, default=0.0) + 1 if epoch is None else epoch] = found
        return numbers_of(found) | {"amplification/seconds": time.monotonic() - start}


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """The model in evaluation mode; afterwards each of its parts is in the mode that it was in."""
    training = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for part, mode in training.items():
            part.training = mode


def numbers_of(found: Result) -> dict[str, float]:
    """The numbers of a result by the names under which they are logged."""
    numbers: dict[str, float] = {"amplification/images": float(found.summaries[0].images)}
    several = Counter(row.metric for row in found.summaries)
    for row, conclusion in (line for line in lines_of(found) if line.summary.amplification is not None):
        name = f"amplification/{row.metric.name}" + (f"/{row.judge}" if several[row.metric] > 1 else "")
        assert row.amplification is not None
        numbers[name] = row.amplification
        numbers |= {} if row.human is None else {f"{name}/human": row.human}
        if row.interval and row.key not in found.void:
            numbers |= {f"{name}/low": row.interval.low, f"{name}/high": row.interval.high}
            verdict = (conclusion.verdict in HIGHER) - (conclusion.verdict in LOWER)
            numbers |= {f"{name}/verdict": float(verdict)} if conclusion.verdict else {}
    coverage: Mapping[str, Mapping[str, float]] = found.run["captioners"][_NAME]["coverage"] or {}
    named = coverage.get("generated", {}).get("one")
    return numbers | ({} if named is None else {"amplification/names_one": named})
