"""Captions by checkpoints: ``judge caption`` for a folder of images, and ``judge evaluate`` with ``--model``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from judge.commands.console import report_failures, say, say_notes, show_progress
from judge.commands.images import RunImages, open_masking, refuse_unmasked
from judge.config import OutputSettings, make_config, read_settings
from judge.config.inputs import BatchSettings, FolderSettings, ShownSettings
from judge.config.judges import RunSettings, ScoredSettings
from judge.config.values import MASK, Checkpoint, MaskMode, NoIsAWord, listed
from judge.corpus import Corpus
from judge.corpus.captions import ReadOptions, parse_captions
from judge.corpus.files import Document
from judge.corpus.records import canonical_id
from judge.errors import JudgeError, require
from judge.masking.categories import read_names
from judge.masking.detectors import Failures
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import has_image, list_images
from judge.masking.masked_images import MaskedImages, find_hidden
from judge.masking.measured import describe_masks
from judge.training.launch import in_main_process
from judge.types import Captions, Progress
from judge.utils.files import TEMPORARY, remove, remove_empty, write_whole
from judge.utils.launch import is_main_process
from judge.utils.options import option
from judge.utils.outputs import OutputFile

if TYPE_CHECKING:
    from judge.captioning import Captioned
    from judge.report.directory import RunDirectory


class CaptionConfig(BatchSettings, OutputSettings, FolderSettings, ShownSettings):
    """Options of ``judge caption``."""

    command = "judge caption"
    launched = True
    panel = "Captions"

    model: Checkpoint = option(
        ..., "captioner: a checkpoint folder, or a name on the Hugging Face hub", essential=True, file=True,
        min_length=1,
    )  # fmt: skip
    ids: Path | None = option(None, "COCO file that lists images and their ids", "--instances, else the file names")
    prompt: str | None = option(
        None, "prompt, or the beginning of captions", "that of the model's family", essential=True
    )
    beams: int = option(1, "beams of the beam search; 1 is greedy", essential=True, ge=1, le=100)
    max_tokens: int = option(30, "longest caption, in tokens", essential=True, ge=1, le=10_000)
    precision: Annotated[Literal["no", "bf16"], NoIsAWord] = option("no", "mixed precision; bf16 halves the memory")
    mask: MaskMode = option("none", MASK, essential=True)
    out: Path = option(..., "file for the captions", "runs/captions.json", essential=True)


_SHARED = "images", "instances", "class_names", "max_pixels", "caption_batch"
CAPTIONS = "captions"  # The folder of a run for the captions that it wrote.


def settings_beside(path: Path) -> Path:
    """The file of settings beside a file of captions: ``mine.json`` -> ``mine.caption.yaml``."""
    return path.with_name(f"{path.stem}.caption.yaml")


class CaptionedFolder(NamedTuple):
    """The result of ``judge caption``: counts of written and of empty captions, failures by image, and notes."""

    captions: int
    empty: int
    failures: Failures
    notes: Sequence[str] = ()


def caption(config: CaptionConfig, *, progress: Progress | None = None) -> CaptionedFolder:
    """Caption the images of a folder; write COCO results to ``out`` and the settings beside it.

    The processes of a launch caption together; the main one finds what is hidden, and writes.

    Raises:
        JudgeError: what concerns the whole folder; nothing is written. Faults of single images are in the result's
            ``failures``; where none could be captioned, nothing is written either.
    """
    out = OutputFile(config.out, overwrite=config.overwrite)
    unfinished = out.path.parent / f".{out.path.name}.partial"
    in_main_process(lambda: _check_out(config, out, unfinished))
    require("vision", "torch", "transformers", "PIL", "cv2")
    from judge.captioning import Writing, caption_images
    from judge.judges.hf_models import check_captioner

    check_captioner(config.model, where=f"--model {config.model}")
    images, failures = in_main_process(lambda: _open_images(config, progress))
    how = Writing(**{setting.name: getattr(config, setting.name) for setting in fields(Writing)})
    with _working(out, unfinished):
        done = caption_images(config.model, images, how, device=config.device, store=unfinished, progress=progress)
        if done.captions:
            in_main_process(lambda: _write(config, out, done.captions, unfinished))
    empty = sum(not text for text in done.captions.values())
    notes = [describe_masks(images.masks), *images.doubts] if images.masks else []
    return CaptionedFolder(len(done.captions), empty, failures + done.failures, notes)


@contextmanager
def _working(out: OutputFile, unfinished: Path) -> Iterator[None]:
    """Lock the output in the main process; afterwards ``unfinished`` stays if finished captions are in it."""

    def begin() -> None:
        stack.enter_context(out.working())
        stack.callback(remove_empty, [unfinished])

    with ExitStack() as stack:
        in_main_process(begin)
        yield


def _check_out(config: CaptionConfig, out: OutputFile, unfinished: Path) -> None:
    """Refuse an output path that cannot be used, before any work."""
    if out.path.is_dir():
        out.refuse()
    own = unfinished.is_dir() and not any(
        file.suffix != ".safetensors" and not file.name.startswith(TEMPORARY) for file in unfinished.iterdir()
    )
    if os.path.lexists(unfinished) and not own:
        what = "holds no captions of an unfinished run, which would be written there"
        raise JudgeError(what, where=str(unfinished), mend="move it elsewhere")
    out.check(config.inputs())
    _settings_file(config, out).check(config.inputs())


def _settings_file(config: CaptionConfig, out: OutputFile) -> OutputFile:
    """The file of settings beside the captions; one with the same settings may be there, from a killed command."""
    path = settings_beside(out.path)
    same = path.is_file() and path.read_bytes() == config.to_yaml().encode()
    where, mend = f"{path.name}, beside {out.where}", "name another file, or add --overwrite"
    return OutputFile(path, overwrite=config.overwrite or same, where=where, mend=mend)


def _name_images(config: CaptionConfig) -> tuple[dict[str, str], Failures]:
    """Image id -> name of each image to caption, and the images without a usable id."""
    sources, failures = [config.ids] if config.ids else listed(config.instances), list[tuple[str, JudgeError]]()
    if not sources:
        found: list[tuple[str | None, str]] = [(name, name) for name in list_images(config.images)]
    else:
        truth = GroundTruth.read(sources, labels=(), names=read_names(config.class_names), images=config.images)
        found, failures = [(truth.image_id(name), name) for name in truth.images], [*truth.strays]
        if not any(has_image(config.images, name) for name in truth.images):
            list_images(config.images)  # Where there is no image at all, it says so in one line.
            what = f"none of the images that {truth.source} lists is there"
            raise JudgeError(what, where=f"--images {config.images}", mend="give the folder that they lie in")
    names: dict[str, str] = {}
    for key, name in found:
        where, what = f"image '{name}'", ""
        try:
            if (first := names.setdefault(canonical_id(key), name)) != name:
                what, mend = f"has the id of '{first}', '{canonical_id(key)}'", "rename one, or give ids with --ids"
        except ValueError as error:
            what, mend = f"its id {error}", "rename it"
        if what:
            failures.append((name, JudgeError(what, where=where, mend=mend)))
    return names, failures


def _open_images(config: CaptionConfig, progress: Progress | None) -> tuple[MaskedImages, Failures]:
    """The images as the captioner gets them, masked or not, and the failures of others."""
    names, failures = _name_images(config)
    if config.mask == "none":
        return MaskedImages(config.images, names, max_pixels=config.max_pixels), failures
    masking = open_masking(config, config.mask, seed=config.seed, device=config.device)
    failures += masking.detector.strays if isinstance(masking.detector, GroundTruth) else ()
    images = find_hidden(
        config.images,
        names,
        detector=masking.detector,
        hiding=masking.hiding,
        truth=masking.truth,
        max_pixels=config.max_pixels,
        failures=failures,
        progress=progress,
    )
    refuse_unmasked(config, images.masks, images.doubts)
    return images, failures


def _write(config: CaptionConfig, out: OutputFile, captions: Mapping[str, str], unfinished: Path) -> None:
    """Write the settings and the captions; then remove ``unfinished``."""
    from judge.captioning import captions_json

    out.refuse()
    _settings_file(config, out).write(config.to_yaml().encode())
    out.write(captions_json(captions))
    remove(unfinished)


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
    from judge.captioning import Writing, caption_images, caption_records

    if directory:
        in_main_process(partial(_begin_captions, directory))
    how = Writing(caption_batch=config.caption_batch, precision="bf16" if config.precision == "bf16" else "no")
    options = ReadOptions() if config.refusals is None else ReadOptions(refusals=config.refusals)
    written = []
    for name, model in models.items():
        store, source = directory.store / f"{name}.captions" if directory else None, model
        done = caption_images(model, images, how, store=store, progress=progress)
        if not done.captions:
            raise done.failures[0][1]
        if directory and config.out:
            source = str(config.out / CAPTIONS / f"{name}.json")
            # Those of ``judge caption`` that write the same captions.
            same = {n: getattr(config, n) for n in _SHARED}
            settings = make_config({**same, "model": model, "precision": how.precision, "out": source}, CaptionConfig)
            in_main_process(partial(_write_captions, directory, name, done, settings))
        document = Document(caption_records(done.captions), source)
        written.append(parse_captions(document, options, side="generated", name=name))
    return replace(corpus, generated=(*corpus.generated, *written))


def _begin_captions(directory: RunDirectory) -> None:
    directory.begin()
    # A killed run of other captioners may have left theirs.
    shutil.rmtree(directory.partial / CAPTIONS, ignore_errors=True)
    with directory.writing():
        (directory.partial / CAPTIONS).mkdir()


def _write_captions(directory: RunDirectory, name: str, done: Captioned, settings: CaptionConfig) -> None:
    from judge.captioning import captions_json

    faults = [str(fault) for _, fault in done.failures]
    directory.log("captioned", captioner=name, images=len(done.captions), failures=faults)
    path = directory.partial / CAPTIONS / f"{name}.json"
    write_whole(path, captions_json(done.captions))
    write_whole(settings_beside(path), settings.to_yaml().encode())


def command(config: CaptionConfig) -> None:
    """Caption a folder of images with any checkpoint that transformers loads; nothing is sampled.

    Leaves COCO results in --out and the settings beside it. A killed run goes on where it was. Exit code 1: some
    images could not be captioned; five are named for each fault.
    """
    with show_progress() as progress:
        found = caption(config, progress=progress)
    if not is_main_process():
        return
    if found.captions:
        say(f"{found.captions} images captioned; the captions are in {config.out}")
    say_notes(found.notes)
    if found.empty:
        say(f"NOTE: {found.empty} captions are empty")
    report_failures(found.failures, found.captions + len(found.failures), "captioned")
