"""Captioners given as checkpoints in ``judge evaluate``: which wrote which captions, and captions by those without."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from judge.commands.caption import CaptionConfig, settings_beside
from judge.commands.run_images import RunImages
from judge.config import make_config, read_settings
from judge.config.judges import RunSettings, ScoredSettings
from judge.corpus import Corpus
from judge.corpus.captions import ReadOptions, parse_captions
from judge.corpus.files import Document
from judge.errors import JudgeError, require
from judge.masking.masked_images import MaskedImages
from judge.report.directory import RunDirectory
from judge.types import Captions, Progress
from judge.utils.files import write_whole

if TYPE_CHECKING:
    from judge.captioning import Captioned
    from judge.captioning.writer import Writing

FOLDER = "captions"


def known_models(config: RunSettings) -> dict[str, str]:
    """Captioner -> the checkpoint that wrote its captions: as given, else from the settings beside the captions.

    Raises:
        JudgeError: what lies beside captions cannot be read.
    """
    found: dict[str, str] = {}
    for name, path in config.captions.items():
        beside = settings_beside(path)
        if beside.is_file() and (model := read_settings(beside).get("model")):
            found[name] = str(model)
    return found | config.models


def models_to_caption(config: RunSettings, corpus: Corpus | None) -> dict[str, str]:
    """Captioner -> checkpoint, of those without captions; ``corpus``: None where files are still to be read.

    Raises:
        JudgeError: neither captions nor models; no such captioner; no images to caption.
    """
    known = {captions.name for captions in corpus.generated} if corpus else set(config.captions)
    silent = {name: model for name, model in config.models.items() if name not in known}
    if not known | silent.keys():
        mend = "give --captions, or the captioner's checkpoint with --model and images with --images"
        raise JudgeError("'captions' is missing", mend=mend)
    for model in silent.values():
        from judge.judges.hf_models import check_captioner

        check_captioner(model, where=f"--model {model}")
    if silent and config.images is None:
        name, model = next(iter(silent.items()))
        what, mend = f"no captions of '{name}', and no images to caption", f"give --images, or --captions {name}=FILE"
        raise JudgeError(what, where=f"--model {model}", mend=mend)
    return silent


def stand_ins(corpus: Corpus, names: Sequence[str], pictures: Mapping[str, str]) -> Corpus:
    """``corpus`` with human captions in place of those that are still to be written, to check that all fits."""
    captions = {image: corpus.human.by_image[image][:1] for image in pictures}
    return replace(corpus, generated=(*corpus.generated, *(Captions(name, captions, source=name) for name in names)))


def images_to_caption(pictures: RunImages, corpus: Corpus) -> MaskedImages:
    """The images, as they are, of all images that people have captioned and that have one.

    Raises:
        JudgeError: there are none.
    """
    require("vision", "torch", "transformers", "PIL", "cv2", "pycocotools")
    plain = pictures.plain
    names = {image: plain.names[image] for image in corpus.human.by_image if image in plain.names}
    if not names:
        what = f"no file of any of the {len(corpus.human.by_image)} images with human captions"
        raise JudgeError(what, where=f"--images {plain.folder}", mend="check that ids mean the same in all files")
    return replace(plain, names=names)


def add_captions(
    config: ScoredSettings,
    corpus: Corpus,
    silent: Mapping[str, str],
    pictures: MaskedImages,
    *,
    directory: RunDirectory | None,
    progress: Progress | None = None,
) -> Corpus:
    """``corpus`` with the captions that the checkpoints ``silent`` write of ``images``.

    They are kept as ``captions/NAME.json`` in the run's folder; images at fault have none, and ``log.jsonl`` says so.
    The processes of a launch caption together; the main one writes.

    Raises:
        JudgeError: in every process; none could be captioned; see ``caption_pictures``.
    """
    from judge.training.launch import in_main_process

    if directory is not None:
        in_main_process(partial(_begin, directory))
    written = tuple(
        _caption(config, name, model, pictures=pictures, directory=directory, progress=progress)
        for name, model in silent.items()
    )
    return replace(corpus, generated=(*corpus.generated, *written))


def _begin(directory: RunDirectory) -> None:
    directory.begin()
    # A killed run of other captioners may have left theirs.
    shutil.rmtree(directory.partial / FOLDER, ignore_errors=True)
    with directory.writing():
        (directory.partial / FOLDER).mkdir()


def _caption(
    config: ScoredSettings,
    name: str,
    model: str,
    *,
    pictures: MaskedImages,
    directory: RunDirectory | None,
    progress: Progress | None,
) -> Captions:
    """One captioner's captions, written as well if the run has a folder."""
    from judge.captioning import caption_pictures, caption_records
    from judge.captioning.writer import Writing
    from judge.training.launch import in_main_process

    how = Writing(caption_batch=config.caption_batch, precision="bf16" if config.precision == "bf16" else "no")
    notes = directory.store / f"{name}.captions" if directory else None
    done = caption_pictures(model, pictures, how, notes=notes, progress=progress)
    if not done.captions:
        raise done.failures[0][1]
    source = model
    if directory and config.out:
        final = config.out / FOLDER / f"{name}.json"
        in_main_process(partial(_write, directory, done, _settings(config, model, how, final), name=name))
        source = str(final)
    options = ReadOptions() if config.refusals is None else ReadOptions(refusals=config.refusals)
    return parse_captions(Document(caption_records(done.captions), source), options, side="generated", name=name)


def _write(directory: RunDirectory, done: Captioned, settings: CaptionConfig, *, name: str) -> None:
    from judge.captioning import captions_json

    faults = [str(fault) for _, fault in done.failures]
    directory.log("captioned", captioner=name, images=len(done.captions), failures=faults)
    path = directory.partial / FOLDER / f"{name}.json"
    write_whole(path, captions_json(done.captions))
    write_whole(settings_beside(path), settings.to_yaml().encode())


def _settings(config: ScoredSettings, model: str, writing: Writing, out: Path) -> CaptionConfig:
    """Those of ``judge caption`` that write the same captions."""
    same = {
        name: getattr(config, name) for name in ("images", "instances", "class_names", "max_pixels", "caption_batch")
    }
    return make_config({**same, "model": model, "precision": writing.precision, "out": out}, CaptionConfig)
