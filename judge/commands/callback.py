"""A callback of transformers' ``Trainer``, or of Lightning's, that measures the captioner in training."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from judge.captioning import Captioned, caption_images
from judge.captioning.writing import Writing
from judge.commands.evaluate import RunConfig, evaluate, uses_images, with_text
from judge.commands.images import described_images, known_images
from judge.config import make_config
from judge.corpus import Corpus
from judge.corpus.captions import KEYWORDS
from judge.errors import JudgeError, in_python, python_words
from judge.judges.hf_models import wrap_captioner
from judge.masking.masked_images import MaskedImages
from judge.report.tables import lines_of
from judge.statistics.comparisons import HIGHER, LOWER
from judge.training.launch import undisturbed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lightning.pytorch import Callback, LightningModule, Trainer

    from judge.report.result import Result

_NAME = "model"
# Options that the callback gives itself, or that only a single measurement can have.
_OWN = {"corpus", "captions", "models", "out", "overwrite"}
_FIRST = 8  # Images that are captioned before the training, as a trial.
_logger = logging.getLogger(__name__)


class AmplificationCallback(TrainerCallback):
    """Measures a captioner after every few epochs: it captions images, and its captions are compared with people's.

    The default metric, conditional leakage, needs no common vocabulary; LIC and others align human captions with the
    vocabulary of each epoch. The human side is the person who says as much as the captioner, so that it moves where
    captions become longer. Training goes on as it would without the callback: random numbers, Accelerate's state and
    torch's settings are restored. The processes of a launch caption together.

        trainer = Trainer(model=model, processing_class=processor, ...)
        trainer.add_callback(AmplificationCallback(trainer.log, human="human.json", labels="gender.csv", images="val"))

    For Lightning, whose loggers get the numbers of a module (:meth:`lightning`):

        watch = AmplificationCallback(human="human.json", labels="gender.csv", images="val", processor=processor)
        trainer = lightning.Trainer(callbacks=[watch.lightning()])

    For each metric METRIC these numbers are logged, fractions: ``amplification/METRIC``; the human side,
    ``.../human``; the ends of the interval, ``.../low`` and ``.../high``; and ``.../verdict``, 1 where the captioner
    amplifies, -1 where it does the opposite, 0 where neither is shown; ``.../void``, 1 where a check voids the row,
    which then has no other number and a warning with the reason, else 0. Interval and verdict are absent too where
    judges were trained once (``refits=0``). With several judges METRIC is ``METRIC/JUDGE``. ``amplification/images`` is
    the number of images, ``amplification/names_one`` the share of captions that name one class (absent without a
    lexicon), ``amplification/seconds`` the time. Transformers writes each name as ``train/NAME``.

    Attributes:
        results: epoch -> the :class:`judge.Result`.
    """

    @in_python()
    def __init__(  # noqa: PLR0913 - what evaluate takes
        self,
        log: Callable[[dict[str, float]], None] | None = None,
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
            log: takes the numbers; ``trainer.log`` passes them to TensorBoard, W&B, MLflow and the others. The
                ``Trainer`` of transformers needs it.
            human: human captions, as :func:`judge.evaluate` takes them, of images that are not trained on.
            images: folder with these images; the name of a file, without its ending, is the image's id.
            labels: the class of each image, by default derived from the human captions.
            every: epochs from one measurement to the next.
            processor: of text and images; by default the trainer's ``processing_class``.
            writing: how captions are written: prompt, beams, length.
            metrics: names of metrics.
            settings: any other option of ``judge.evaluate``, e.g. ``refits=20``, but for ``out`` and captions.

        Raises:
            JudgeError: ``log`` is no function; ``every`` is below 1; an option is unknown, or not for a callback;
                several attributes; human captions or labels cannot be read; no file is of any of their images.
        """
        if log is not None and not callable(log):
            raise JudgeError("is no function", where="log", mend="give trainer.log")
        if every < 1:
            raise JudgeError(f"must be 1 or more, not {every}", where="every", mend="give a number of epochs")
        for name in sorted(settings.keys() & _OWN):
            raise JudgeError("is not for a callback", where=name, mend="leave it out")
        checked = {name: of for name, of in settings.items() if name != "lexicon"}  # It may be in memory.
        config = make_config({"human": "in memory", "metrics": metrics, **checked}, RunConfig)
        if len(config.attributes) > 1:
            what = "captions in memory are measured for one attribute"
            raise JudgeError(what, where="attribute", mend="add a callback for each")
        reading = {name: settings[name] for name in KEYWORDS if name in settings}
        reading |= {} if labels is None else {"labels": labels, "attribute": settings.get("attribute")}
        reading |= {"lexicon": words} if isinstance(words := with_text(settings).get("lexicon"), str) else {}
        described = Corpus.read(human=human, captions={}, **reading).human.by_image
        files = known_images(Path(images), None)
        names = described_images(files, described, whose="human captions", where=str(images))
        self.log, self.every, self.processor = log, every, processor
        self.images, self.writing = MaskedImages(Path(images), names), writing or Writing()
        self.settings = {"human": human, "labels": labels, "metrics": metrics, **settings}
        self.settings |= {"images": images} if uses_images(config.metrics) else {}
        self.results: dict[float, Result] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002 - as below
        """Caption a few images: what cannot be captioned is found before the training."""
        if self.log is None:
            raise JudgeError("is needed by this trainer", where="log", mend="give trainer.log")
        self._try(given["model"], given.get("processing_class"))

    def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002 - transformers' names
        """Measure, and log."""
        if round(state.epoch) % self.every == 0:
            numbers = self.measure(given["model"], given.get("processing_class"), epoch=state.epoch)
            # Each log of a Trainer clears its request for the log of the epoch's loss.
            requested = control.should_log
            assert self.log is not None  # on_train_begin refuses the training otherwise.
            self.log(numbers)
            control.should_log = requested

    def lightning(self, captioner: Callable[[LightningModule], Any] = attrgetter("model")) -> Callback:
        """This callback for the ``Trainer`` of Lightning: a module logs the numbers after every few epochs.

        Args:
            captioner: finds the captioner, a model of transformers, in a module; by default its ``model``.
        """
        from lightning.pytorch import Callback

        watch = self

        class Watch(Callback):
            def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002 - its names
                watch._try(captioner(pl_module))

            def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
                epoch = trainer.current_epoch + 1
                if epoch % watch.every == 0:
                    pl_module.log_dict(watch.measure(captioner(pl_module), epoch=epoch))

        return Watch()

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
        done = self._caption(model, processor, self.images)
        if done.failures:
            first = python_words(str(done.failures[0][1]))
            _logger.warning("%d images could not be captioned; the first: %s", len(done.failures), first)
        if done.cut:
            _logger.warning("%d captions were cut off at %d tokens", done.cut, self.writing.max_tokens)
        with undisturbed():
            found = evaluate(captions={_NAME: done.captions}, **self.settings)
        if void := [f"{row.title}: {of.because}" for row, of in lines_of(found) if row.key in found.void]:
            _logger.warning("no verdict, and so no value is logged: %s", python_words("; ".join(void)))
        self.results[max(self.results, default=0.0) + 1 if epoch is None else epoch] = found
        return numbers_of(found) | {"amplification/seconds": time.monotonic() - start}

    def _try(self, model: Any, processor: Any = None) -> None:
        few = dict(islice(self.images.names.items(), _FIRST))
        self._caption(model, processor, replace(self.images, names=few))

    @in_python()
    def _caption(self, model: Any, processor: Any, images: MaskedImages) -> Captioned:
        processor = self.processor or processor
        try:
            captioner = wrap_captioner(model, processor)
        except JudgeError as error:
            raise JudgeError(error.what, where="AmplificationCallback(processor=...)", mend=error.mend) from None
        self.processor = processor
        with undisturbed(), _evaluating(model):
            done = caption_images(captioner, images, self.writing)
        if not done.captions:
            raise done.failures[0][1]
        return done


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
    for row, conclusion in lines_of(found):
        name = f"amplification/{row.metric.name}" + (f"/{row.judge}" if several[row.metric] > 1 else "")
        void = row.key in found.void
        numbers[f"{name}/void"] = float(void)
        if void or row.amplification is None:
            continue
        numbers[name] = row.amplification
        numbers |= {} if row.human is None else {f"{name}/human": row.human}
        if row.interval:
            numbers |= {f"{name}/low": row.interval.low, f"{name}/high": row.interval.high}
            verdict = (conclusion.verdict in HIGHER) - (conclusion.verdict in LOWER)
            numbers |= {f"{name}/verdict": float(verdict)} if conclusion.verdict else {}
    coverage: Mapping[str, Mapping[str, float]] = found.run["captioners"][_NAME]["coverage"] or {}
    named = coverage.get("generated", {}).get("one")
    return numbers | ({} if named is None else {"amplification/names_one": named})
