"""Checkpoints of captioners in ``judge evaluate``: which of them wrote what, and captions of those without any."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from judge.commands.pictures import known_pictures
from judge.config import CaptionConfig, RunConfig, make_config, read_settings
from judge.corpus import Corpus
from judge.corpus.reading import ReadOptions, read_captions
from judge.errors import JudgeError, require
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.hidden import HiddenPictures
from judge.report.directory import RunDirectory
from judge.types import Captions, Progress
from judge.utils.files import write_whole

if TYPE_CHECKING:
    from judge.captioning import Writing

FOLDER = "captions"


def settings_beside(path: Path) -> Path:
    """Where it stands how a file of captions was made: ``mine.json`` -> ``mine.caption.yaml``."""
    return path.with_name(f"{path.stem}.caption.yaml")


def known_models(config: RunConfig) -> dict[str, str]:
    """Captioner -> the checkpoint that wrote its captions: as given, else as ``judge caption`` left it beside them.

    Raises:
        JudgeError: what lies beside captions cannot be read.
    """
    found: dict[str, str] = {}
    for name, path in config.captions.items():
        beside = settings_beside(path)
        if beside.is_file() and (model := read_settings(beside).get("model")):
            found[name] = str(model)
    return found | config.models


def silent_models(config: RunConfig, corpus: Corpus | None) -> dict[str, str]:
    """Captioner -> checkpoint, of those without captions; ``corpus``: None where files are still to be read.

    Raises:
        JudgeError: neither captions nor models; no pictures to caption.
    """
    known = {captions.name for captions in corpus.generated} if corpus else set(config.captions)
    silent = {name: model for name, model in config.models.items() if name not in known}
    if not known | silent.keys():
        mend = "give --captions, or the captioner's checkpoint with --model and pictures with --images"
        raise JudgeError("'captions' is missing", mend=mend)
    if silent and config.images is None:
        name, model = next(iter(silent.items()))
        what, mend = f"no captions of '{name}', and no pictures to caption", f"give --images, or --captions {name}=FILE"
        raise JudgeError(what, where=f"--model {model}", mend=mend)
    return silent


def stand_ins(corpus: Corpus, names: Sequence[str], pictures: Mapping[str, str]) -> Corpus:
    """``corpus`` with people's captions in place of those that are still to be written, to see whether all fits."""
    told = {image: corpus.human.by_image[image][:1] for image in pictures}
    return replace(corpus, generated=(*corpus.generated, *(Captions(name, told, source=name) for name in names)))


def pictures_to_caption(config: RunConfig, corpus: Corpus) -> HiddenPictures:
    """The pictures, as they are, of all images that people have captioned and that have one.

    Raises:
        JudgeError: there are none.
    """
    assert config.images is not None
    require("vision", "torch", "transformers", "PIL", "cv2", "pycocotools")
    truth = GroundTruth.read(config.instances) if config.instances else None
    known = known_pictures(config.images, truth)
    names = {image: known[image] for image in corpus.human.by_image if image in known}
    if not names:
        what = f"no picture of any of the {len(corpus.human.by_image)} images that people captioned"
        raise JudgeError(what, where=f"--images {config.images}", mend="check that ids mean the same in all files")
    return HiddenPictures(config.images, names, max_pixels=config.max_pixels)


def add_captions(
    config: RunConfig,
    corpus: Corpus,
    silent: Mapping[str, str],
    pictures: HiddenPictures,
    *,
    directory: RunDirectory | None,
    progress: Progress | None = None,
) -> Corpus:
    """``corpus`` with the captions that the checkpoints ``silent`` write of ``pictures``.

    They are kept as ``captions/NAME.json`` in the run's folder; pictures at fault have none, and ``log.jsonl`` says so.
    Of several processes the main one writes.

    Raises:
        JudgeError: in every process; none could be captioned; see ``caption_pictures``.
    """
    from judge.training.processes import in_main_process

    def write() -> tuple[Captions, ...]:
        with _folder(directory) as folder:
            jobs = [_Job(config, name, model, pictures, folder, directory) for name, model in silent.items()]
            return tuple(job.captions(progress) for job in jobs)

    return replace(corpus, generated=(*corpus.generated, *in_main_process(write)))


@contextmanager
def _folder(directory: RunDirectory | None) -> Iterator[Path]:
    """Where captions are written: in the run's folder, or for as long as it takes to read them."""
    if directory is None:
        with TemporaryDirectory(prefix="judge-") as name:
            yield Path(name)
        return
    directory.begin()
    folder = directory.partial / FOLDER
    # A killed run of other captioners may have left theirs.
    shutil.rmtree(folder, ignore_errors=True)
    with directory.writing():
        folder.mkdir()
    yield folder


@dataclass(frozen=True, slots=True)
class _Job:
    """One captioner's captions."""

    config: RunConfig
    name: str
    model: str
    pictures: HiddenPictures
    folder: Path
    directory: RunDirectory | None

    def captions(self, progress: Progress | None) -> Captions:
        """Write them, and read them as any others are read."""
        from judge.captioning import Writing, caption_pictures, write_captions

        writing = Writing(precision="bf16" if self.config.precision == "bf16" else "no")
        notes = self.directory.store / f"{self.name}.captions" if self.directory else None
        done = caption_pictures(self.model, self.pictures, writing, notes=notes, progress=progress)
        if not done.captions:
            raise done.failures[0][1]
        if self.directory:
            faults = [str(fault) for _, fault in done.failures]
            self.directory.log("captioned", captioner=self.name, images=len(done.captions), failures=faults)
        path = self.folder / f"{self.name}.json"
        final = (self.config.out / FOLDER if self.config.out else Path()) / path.name
        write_captions(path, done.captions)
        write_whole(settings_beside(path), self._settings(writing, final).to_yaml().encode())
        options = ReadOptions() if self.config.refusals is None else ReadOptions(refusals=self.config.refusals)
        captions = read_captions(path, options, side="generated", name=self.name)
        return replace(captions, source=str(final) if self.config.out else self.model)

    def _settings(self, writing: Writing, out: Path) -> CaptionConfig:
        told = {
            "model": self.model,
            "images": self.config.images,
            "instances": self.config.instances,
            "precision": writing.precision,
            "max_pixels": self.config.max_pixels,
            "out": out,
        }
        return make_config(told, CaptionConfig)
