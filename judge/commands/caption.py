"""``judge caption``: captions of a folder of images, by any checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from judge.commands.console import report_failures, say, say_notes, show_progress
from judge.commands.images import open_masking, refuse_unmasked
from judge.config import OutputSettings
from judge.config.inputs import BatchSettings, FolderSettings, ShownSettings
from judge.config.values import MASK, Checkpoint, MaskMode, NoIsAWord, listed
from judge.corpus.records import canonical_id
from judge.errors import JudgeError, require
from judge.masking.categories import read_names
from judge.masking.detectors import Failures
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import has_image, list_images
from judge.masking.masked_images import MaskedImages, find_hidden
from judge.masking.measured import describe_masks
from judge.training.launch import in_main_process
from judge.types import Progress
from judge.utils.files import writing
from judge.utils.launch import is_main_process
from judge.utils.options import option
from judge.utils.outputs import OutputFile


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
    unfinished = out.path.with_name(f".{out.path.name}.partial")
    in_main_process(lambda: _check_out(config, out, unfinished))
    require("vision", "torch", "transformers", "PIL", "cv2")
    from judge.captioning import caption_images
    from judge.captioning.writer import Writing
    from judge.judges.hf_models import check_captioner

    check_captioner(config.model, where=f"--model {config.model}")
    images, failures = in_main_process(lambda: _open_images(config, progress))
    how = Writing(**{setting.name: getattr(config, setting.name) for setting in fields(Writing)})
    with _working(out, unfinished):
        done = caption_images(config.model, images, how, device=config.device, notes=unfinished, progress=progress)
        if done.captions:
            in_main_process(lambda: _write(config, out, done.captions, unfinished))
    empty = sum(not text for text in done.captions.values())
    notes = [describe_masks(images.masks), *images.doubts] if images.masks else []
    return CaptionedFolder(len(done.captions), empty, failures + done.failures, notes)


@contextmanager
def _working(out: OutputFile, unfinished: Path) -> Iterator[None]:
    """Lock the output in the main process; afterwards ``unfinished`` stays if finished captions are in it."""

    def remove_empty() -> None:
        with suppress(OSError):
            if not unfinished.stat().st_size:
                unfinished.unlink()

    def begin() -> None:
        stack.enter_context(out.working())
        with writing(out.where):
            unfinished.touch()
            stack.callback(remove_empty)

    with ExitStack() as stack:
        in_main_process(begin)
        yield


def _check_out(config: CaptionConfig, out: OutputFile, unfinished: Path) -> None:
    """Refuse an output path that cannot be used, before any work."""
    from judge.captioning.notes import check_notes

    if out.path.is_dir():
        out.refuse()
    check_notes(unfinished)
    out.check(config.inputs())
    _settings_file(out).check(config.inputs())


def _settings_file(out: OutputFile) -> OutputFile:
    """The output of settings beside captions; it replaces those of captions that are no longer there."""
    return OutputFile(settings_beside(out.path), overwrite=True, where=out.where)


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
    """Write the settings and the captions; then delete the files of unfinished captions."""
    from judge.captioning import captions_json
    from judge.captioning.notes import notes_files

    out.refuse()
    _settings_file(out).write(config.to_yaml().encode())
    out.write(captions_json(captions))
    with suppress(OSError):
        for file in notes_files(unfinished):
            file.unlink()


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
