"""Captions by checkpoints: ``judge caption`` for a folder of images, and ``judge evaluate`` with ``--model``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from judge.commands.console import report_failures, say, show_progress
from judge.commands.images import find_masked, image_names, open_masking
from judge.commands.setup import settings_beside
from judge.config import OutputSettings, make_config
from judge.config.inputs import FolderSettings, ShownSettings
from judge.config.judges import RunSettings, ScoredSettings
from judge.config.values import DEVICE, MASK, Checkpoint, MaskMode, listed
from judge.corpus import Corpus
from judge.corpus.captions import ReadOptions, parse_captions, refuses
from judge.corpus.files import Document
from judge.corpus.records import canonical_id
from judge.errors import JudgeError, require
from judge.masking.categories import read_names
from judge.masking.detectors import Failures
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import list_images
from judge.masking.masked_images import MaskedImages
from judge.masking.measured import describe_masks
from judge.training.launch import in_main_process
from judge.types import Progress
from judge.utils.files import remove, remove_empty, write_whole
from judge.utils.launch import is_main_process
from judge.utils.options import MOST, option
from judge.utils.outputs import OutputFile

if TYPE_CHECKING:
    from judge.captioning import Captioned
    from judge.captioning.writing import Dtype
    from judge.report.directory import RunDirectory


class CaptionConfig(OutputSettings, FolderSettings, ShownSettings):
    """Options of ``judge caption``."""

    command = "judge caption"
    launched = True
    panel = "Captions"

    model: Checkpoint = option(
        ..., "captioner: a checkpoint folder, a name on the Hugging Face hub, or the server's", essential=True,
        file=True, min_length=1,
    )  # fmt: skip
    ids: Path | None = option(None, "COCO file that lists images and their ids", "--instances, else the file names")
    prompt: str | None = option(None, "prompt, or the beginning of captions", "the model family's", essential=True)
    beams: int = option(1, "beams of the beam search; 1 is greedy", essential=True, ge=1, le=100)
    max_tokens: int = option(30, "longest caption, in tokens", essential=True, ge=1, le=10_000)
    dtype: Literal["auto", "float32", "bf16"] = option(
        "auto", "type of the weights: bf16 halves the memory; auto: float32 on CPUs, the checkpoint's own on GPUs"
    )
    endpoint: str | None = option(
        None, "URL of a server that captions (vLLM, SGLang, transformers serve, ...), which knows --model by name; its "
        "key, if it needs one, is in OPENAI_API_KEY", essential=True, pattern=r"^https?://\S+$",
    )  # fmt: skip
    caption_batch: Annotated[int, Field(ge=1, le=MOST)] | Literal["auto"] = option(
        "auto", "images that the captioner gets at a time; auto: 8 on CPUs, 64 on GPUs; fewer where memory is short"
    )
    device: str | None = option(None, "cpu, cuda, cuda:1; auto: all GPUs together", DEVICE[1])
    mask: MaskMode = option("none", MASK, essential=True)
    out: Path = option(..., "file for the captions", "runs/captions.json", essential=True)


_SHARED = "images", "instances", "class_names"
CAPTIONS = "captions"  # The folder of a run for the captions that it wrote.


def caption(config: CaptionConfig, *, progress: Progress | None = None) -> tuple[Captioned, list[str]]:
    """Caption the images of a folder; write COCO results to ``out`` and the settings beside it; return notes too.

    The processes of a launch caption together. Captions stay in the folder of unfinished ones while any image has none.
    """
    out = OutputFile(config.out, overwrite=config.overwrite)
    if out.path.is_dir():
        out.refuse()
    beside, unfinished = settings_beside(out.path), out.path.parent / f".{out.path.name}.partial"
    # A killed command may have left the same settings.
    again = config.overwrite or (beside.is_file() and beside.read_bytes() == config.to_yaml().encode())
    settings = OutputFile(beside, overwrite=again, where=f"{beside.name}, beside {out.where}")

    def check() -> None:
        own = unfinished.is_dir() and all(file.suffix == ".jsonl" for file in unfinished.iterdir())
        if os.path.lexists(unfinished) and not own:
            what = "is no folder of captions of an unfinished run, which would be written there"
            mend = "move it elsewhere"
            raise JudgeError(what, where=str(unfinished), mend=mend)
        out.check(config.inputs())
        settings.check(config.inputs())

    in_main_process(check)
    require("vision", "torch", "transformers", "PIL", "cv2")
    if config.endpoint:
        require("endpoint", "openai")
        for name, given in (("beams", config.beams > 1), ("dtype", config.dtype != "auto")):
            if given:
                raise JudgeError("a server decides that itself", where=f"--{name}", mend="leave it out with --endpoint")
    from judge.captioning import caption_images, captions_json
    from judge.captioning.writing import Writing
    from judge.judges.hf_models import check_captioner

    if not config.endpoint:
        check_captioner(config.model, where=f"--model {config.model}")
    images, failures = in_main_process(lambda: _open_images(config, progress))
    how = Writing(**{setting.name: getattr(config, setting.name) for setting in fields(Writing)})

    def write() -> None:
        out.refuse()
        settings.write(config.to_yaml().encode())
        out.write(captions_json(done.captions))
        if not done.failures:
            remove(unfinished)

    def begin() -> None:
        stack.enter_context(out.working())
        stack.callback(remove_empty, [unfinished])

    with ExitStack() as stack:
        in_main_process(begin)
        where = {"device": config.device, "endpoint": config.endpoint}
        done = caption_images(config.model, images, how, **where, store=unfinished, progress=progress)
        if done.captions:
            in_main_process(write)
    notes = [describe_masks(images.masks), *images.doubts] if images.masks else []
    if done.failures:
        notes.append(f"{unfinished} keeps these captions: the same command with --overwrite adds the others")
    return replace(done, failures=failures + done.failures), [*notes, *_notes(config, done)]


def _notes(config: CaptionConfig, done: Captioned) -> list[str]:
    notes = [*done.notes]
    if empty := sum(not text for text in done.captions.values()):
        notes.append(f"{empty} captions are empty")
    if done.cut:
        what = f"{done.cut} captions were cut off at {config.max_tokens} tokens"
        notes.append(f"{what}; raise --max-tokens, or ask for less in --prompt")
    if refused := sum(map(refuses, done.captions.values())):
        notes.append(f"{refused} captions refuse to describe the image; judge evaluate leaves them out")
    return notes


def _name_images(config: CaptionConfig) -> tuple[dict[str, str], Failures]:
    """Image id -> name of each image to caption, and the images without a usable id."""
    sources, failures = [config.ids] if config.ids else listed(config.instances), list[tuple[str, JudgeError]]()
    if not sources:
        found: list[tuple[str | None, str]] = [(name, name) for name in list_images(config.images)]
    else:
        truth = GroundTruth.read(sources, labels=(), names=read_names(config.names_of("gt")), images=config.images)
        listed_names, _ = image_names(config.images, truth)
        found, failures = [(truth.image_id(name), name) for name in listed_names], [*truth.strays]
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
        return MaskedImages(config.images, names), failures
    masking = open_masking(config, config.mask)
    failures += masking.detector.strays if isinstance(masking.detector, GroundTruth) else ()
    images = find_masked(config, names, masking, detector=masking.detector, failures=failures, progress=progress)
    return images, failures


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


def add_captions(
    config: ScoredSettings,
    corpus: Corpus,
    models: Mapping[str, str],
    images: MaskedImages,
    *,
    directory: RunDirectory | None,
    progress: Progress | None = None,
) -> Corpus:
    """``corpus`` with captions of ``images`` by the checkpoints ``models``; ``log.jsonl`` lists images at fault.

    They are written to ``captions/NAME.json`` in the run's folder, if it has one.
    """
    from judge.captioning import caption_images, caption_records, captions_json
    from judge.captioning.writing import Writing

    def begin(run: RunDirectory) -> None:
        run.begin()
        # A killed run of other captioners may have left theirs.
        shutil.rmtree(run.partial / CAPTIONS, ignore_errors=True)
        with run.writing():
            (run.partial / CAPTIONS).mkdir()

    def write(run: RunDirectory, name: str, settings: CaptionConfig) -> None:
        faults = [str(fault) for _, fault in done.failures]
        run.log("captioned", captioner=name, images=len(done.captions), failures=faults)
        path = run.partial / CAPTIONS / f"{name}.json"
        write_whole(path, captions_json(done.captions))
        write_whole(settings_beside(path), settings.to_yaml().encode())

    if directory:
        in_main_process(partial(begin, directory))
    how = Writing(dtype=dtype_of(config.precision))
    options = ReadOptions() if config.refusals is None else ReadOptions(refusals=config.refusals)
    written = []
    for name, model in models.items():
        store, source = directory.store / f"{name}.captions" if directory else None, model
        done = caption_images(model, images, how, store=store, progress=progress)
        if not done.captions:
            raise done.failures[0][1]
        if directory and config.out:
            source = str(config.out / CAPTIONS / f"{name}.json")
            # The settings of ``judge caption`` that write the same captions.
            same = {n: getattr(config, n) for n in _SHARED}
            settings = make_config({**same, "model": model, "dtype": how.dtype, "out": source}, CaptionConfig)
            in_main_process(partial(write, directory, name, settings))
        document = Document(caption_records(done.captions), source)
        written.append(parse_captions(document, options, side="generated", name=name))
    return replace(corpus, generated=(*corpus.generated, *written))


def dtype_of(precision: str | None) -> Dtype:
    """The type of a captioner's weights in a run of this mixed precision."""
    return "float32" if precision == "no" else "bf16" if precision == "bf16" else "auto"


def command(config: CaptionConfig) -> None:
    """Caption a folder of images with any checkpoint that transformers loads; nothing is sampled.

    Leaves COCO results in --out and the settings beside it. A killed run goes on where it was. Exit code 1: some
    images could not be captioned; five are named for each fault.
    """
    with show_progress() as progress:
        done, notes = caption(config, progress=progress)
    if not is_main_process():
        return
    if done.captions:
        say(f"{len(done.captions)} images captioned; the captions are in {config.out}")
    say(notes=notes)
    report_failures(done.failures, len(done.captions) + len(done.failures), "captioned")
