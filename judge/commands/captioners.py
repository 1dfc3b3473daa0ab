"""Captioners given as checkpoints in ``judge evaluate``: which wrote which captions, and captioning with others."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from judge.commands.caption import CaptionConfig, settings_beside
from judge.commands.images import RunImages
from judge.config import make_config, read_settings, shared_settings
from judge.config.judges import RunSettings, ScoredSettings
from judge.corpus import Corpus
from judge.corpus.captions import ReadOptions, parse_captions
from judge.corpus.files import Document
from judge.errors import JudgeError, require
from judge.masking.masked_images import MaskedImages
from judge.report.directory import RunDirectory
from judge.training.launch import in_main_process
from judge.types import Captions, Progress
from judge.utils.files import write_whole

if TYPE_CHECKING:
    from judge.captioning import Captioned

FOLDER = "captions"


def known_models(config: RunSettings) -> dict[str, str]:
    """Captioner -> the checkpoint that wrote its captions: as given, else from the settings beside the captions."""
    found: dict[str, str] = {}
    for name, path in config.captions.items():
        beside = settings_beside(path)
        if beside.is_file() and (model := read_settings(beside).get("model")):
            found[name] = str(model)
    return found | config.models


def models_to_caption(config: RunSettings, corpus: Corpus | None) -> dict[str, str]:
    """Captioner -> checkpoint, of those without captions; ``corpus``: None where files are still to be read."""
    known = {captions.name for captions in corpus.generated} if corpus else set(config.captions)
    found = {name: model for name, model in config.models.items() if name not in known}
    if not known | found.keys():
        mend = "give --captions, or the captioner's checkpoint with --model and images with --images"
        raise JudgeError("'captions' is missing", mend=mend)
    for model in found.values():
        from judge.judges.hf_models import check_captioner

        check_captioner(model, where=f"--model {model}")
    if found and config.images is None:
        name, model = next(iter(found.items()))
        what, mend = f"no captions of '{name}', and no images to caption", f"give --images, or --captions {name}=FILE"
        raise JudgeError(what, where=f"--model {model}", mend=mend)
    return found


def with_placeholders(corpus: Corpus, names: Iterable[str], images: Mapping[str, str]) -> Corpus:
    """``corpus`` with human captions in place of those that are still to be written, to check a plan with."""
    captions = {image: corpus.human.by_image[image][:1] for image in images}
    return replace(corpus, generated=(*corpus.generated, *(Captions(name, captions, source=name) for name in names)))


def images_to_caption(images: RunImages, corpus: Corpus) -> MaskedImages:
    """The images, as they are, that have human captions."""
    require("vision", "torch", "transformers", "PIL", "cv2", "pycocotools")
    plain = images.plain
    names = {image: plain.names[image] for image in corpus.human.by_image if image in plain.names}
    if not names:
        what = f"no file of any of the {len(corpus.human.by_image)} images with human captions"
        raise JudgeError(what, where=f"--images {plain.folder}", mend="check that ids mean the same in all files")
    return replace(plain, names=names)


def add_captions(
    config: ScoredSettings,
    corpus: Corpus,
    models: Mapping[str, str],
    images: MaskedImages,
    *,
    directory: RunDirectory | None,
    progress: Progress | None = None,
) -> Corpus:
    """``corpus`` with captions of ``images`` by the checkpoints ``models``.

    They are written to ``captions/NAME.json`` in the run's folder, if it has one; images at fault have none, and
    ``log.jsonl`` lists them. The processes of a launch caption together; the main one writes.
    """
    from judge.captioning import caption_images, caption_records
    from judge.captioning.writer import Writing

    if directory:
        in_main_process(partial(_begin, directory))
    how = Writing(caption_batch=config.caption_batch, precision="bf16" if config.precision == "bf16" else "no")
    options = ReadOptions() if config.refusals is None else ReadOptions(refusals=config.refusals)
    written = []
    for name, model in models.items():
        notes, source = directory.store / f"{name}.captions" if directory else None, model
        done = caption_images(model, images, how, notes=notes, progress=progress)
        if not done.captions:
            raise done.failures[0][1]
        if directory and config.out:
            source = str(config.out / FOLDER / f"{name}.json")
            # Those of ``judge caption`` that write the same captions.
            same = {n: value for n, value in shared_settings(config, CaptionConfig).items() if n in _SHARED}
            settings = make_config({**same, "model": model, "precision": how.precision, "out": source}, CaptionConfig)
            in_main_process(partial(_write, directory, name, done, settings))
        document = Document(caption_records(done.captions), source)
        written.append(parse_captions(document, options, side="generated", name=name))
    return replace(corpus, generated=(*corpus.generated, *written))


_SHARED = {"images", "instances", "class_names", "max_pixels", "caption_batch"}


def _begin(directory: RunDirectory) -> None:
    directory.begin()
    # A killed run of other captioners may have left theirs.
    shutil.rmtree(directory.partial / FOLDER, ignore_errors=True)
    with directory.writing():
        (directory.partial / FOLDER).mkdir()


def _write(directory: RunDirectory, name: str, done: Captioned, settings: CaptionConfig) -> None:
    from judge.captioning import captions_json

    faults = [str(fault) for _, fault in done.failures]
    directory.log("captioned", captioner=name, images=len(done.captions), failures=faults)
    path = directory.partial / FOLDER / f"{name}.json"
    write_whole(path, captions_json(done.captions))
    write_whole(settings_beside(path), settings.to_yaml().encode())
