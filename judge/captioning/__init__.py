"""Captions written by a checkpoint that transformers loads, or by a server; never sampled. A killed run resumes.

The processes of a launch share the images; the captions are those of one process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from judge.captioning.endpoint import EndpointError, EndpointWriter
from judge.captioning.writing import Caption, Writing
from judge.errors import JudgeError
from judge.judges.hf_prompts import processing
from judge.masking.detectors import Failures
from judge.masking.masked_images import MaskedImages
from judge.training.launch import (
    gather,
    in_main_process,
    make_accelerator,
    make_deterministic,
    raise_together,
    share_out,
)
from judge.types import Progress
from judge.utils.files import writing
from judge.utils.hub import quiet
from judge.utils.identity import content_of, digest_of
from judge.utils.launch import launched
from judge.utils.parallel import choose_device, in_order
from judge.utils.tensors import read_notes, read_sound, write_tensors

if TYPE_CHECKING:
    from judge.captioning.checkpoints import CheckpointWriter

    Writer = CheckpointWriter | EndpointWriter


@dataclass
class Captioned:
    """The captions of some images.

    Attributes:
        captions: image id -> caption, in the order of the images.
        failures: errors, by name of the image file.
        cut: number of captions that end because the longest caption was reached.
    """

    captions: dict[str, str] = field(default_factory=dict)
    failures: Failures = field(default_factory=list)
    cut: int = 0


def caption_images(
    model: str,
    images: MaskedImages,
    how: Writing,
    *,
    device: str | None = None,
    endpoint: str | None = None,
    store: Path | None = None,
    progress: Progress | None = None,
) -> Captioned:
    """Caption every image of ``images``; errors of single images are collected, not raised.

    Each process of a launch captions its share of the batches. A batch always holds the same images, whatever the
    number of processes and whatever a killed run had done: captions are those of an uninterrupted run of one process.

    Args:
        model: folder of a checkpoint, or its name on the hub; a server's name of its model.
        images: as the captioner gets them; the same in every process.
        how: settings of the writing.
        device: cpu, cuda, cuda:1; "auto" for all GPUs together; None for a GPU if there is one, in a launch the
            process's own.
        endpoint: URL of a server that captions; None for a checkpoint.
        store: folder for a file of each finished batch, for the next run of the same checkpoint, settings and images,
            on any number of processes; the caller removes it. None to store nothing.
        progress: called with the number of images captioned, of this process's share.
    """
    with raise_together():
        if store:
            if store.is_file():
                what, mend = "is a file of captions that an earlier version left unfinished", "delete it"
                raise JudgeError(what, where=str(store), mend=mend)
            with writing(store):
                store.mkdir(parents=True, exist_ok=True)
    with quiet():
        writer, about = _make_writer(model, how, device, endpoint)
        # The main process looks at the images' sizes.
        batches = in_main_process(lambda: writer.batches(images))
    # What captions depend on, except images: of the number of images at a time, ``about`` has what counts.
    # Times of files depend on the machine: the main process's key counts.
    packages = [version(name) for name in ("caption-judge", "torch", "transformers")]
    key = gather(repr((packages, model, about, astuple(replace(how, caption_batch="auto")))))[0]

    def file_of(batch: Sequence[str]) -> Path | None:
        return store / f"{digest_of(repr((key, batch)))}.safetensors" if store else None

    def caption(share: Sequence[Sequence[str]]) -> Iterator[Captioned]:
        left, count, total = list[Sequence[str]](), 0, sum(map(len, share))
        for batch in share:
            if stored := _find_stored(file_of(batch), images, batch):
                count += len(batch)
                yield _captioned(stored)
            else:
                left.append(batch)
        for batch, (found, errors) in zip(left, _caption(writer, images, left), strict=True):
            captions = {image: caption for image, (_, caption) in found.items()}
            file = file_of(batch)
            if file and not errors:
                keys = {image: own for image, (own, _) in found.items()}
                write_tensors(file, {}, {"keys": keys, "captions": captions})
            count += len(batch)
            if progress:
                progress("captioning", count, total)
            yield _captioned(captions, errors)

    parts = share_out(batches, caption)
    found = {image: text for part in parts for image, text in part.captions.items()}
    errors = [error for part in parts for error in part.failures]
    in_order_of_images = {image: found[image] for image in images.names if image in found}
    return Captioned(in_order_of_images, errors, sum(part.cut for part in parts))


def _make_writer(model: str, how: Writing, device: str | None, endpoint: str | None) -> tuple[Writer, tuple[Any, ...]]:
    """Make the writer; also return what decides its captions, apart from its model's name, settings and images."""
    if endpoint:
        return EndpointWriter(endpoint, model, how), (endpoint,)
    from judge.captioning.checkpoints import load_writer

    accelerator = make_accelerator() if launched() else None
    make_deterministic()
    with raise_together():
        if device == "auto":
            if accelerator:
                mend = "leave out accelerate launch, or --device"
                raise JudgeError("each process would take all GPUs", where="--device auto", mend=mend)
            writer = load_writer(model, how, "auto")
        else:
            own = accelerator.device if accelerator and device is None else choose_device(device)
            writer = load_writer(model, how, own)
    loaded = writer.captioner.model
    return writer, (content_of(model), writer.at_a_time, str(loaded.dtype), loaded.device.type)


def _captioned(captions: Mapping[str, Caption], failures: Failures | None = None) -> Captioned:
    texts = {image: text for image, (text, _) in captions.items()}
    return Captioned(texts, failures or [], sum(cut for _, cut in captions.values()))


def _find_stored(file: Path | None, images: MaskedImages, batch: Sequence[str]) -> dict[str, Caption] | None:
    """The stored captions of a batch; None if there are none, or an image has changed."""
    stored = read_sound(file, read_notes) if file else None
    try:
        same = stored is not None and stored["keys"] == {image: images.key(image) for image in batch}
    except JudgeError:  # An error of an image is raised again when it is captioned.
        return None
    return {image: Caption(*of) for image, of in stored["captions"].items()} if stored and same else None


def _caption(
    writer: Writer, images: MaskedImages, batches: Sequence[Sequence[str]]
) -> Iterator[tuple[dict[str, tuple[str, Caption]], Failures]]:
    """Of each batch image -> (its key, its caption), and errors; while one is captioned, the next is read."""
    if not batches:
        return

    def read(image: str) -> tuple[str, Any] | JudgeError:
        try:
            key, pixels = images.key(image), Image.fromarray(images.read(image))
            with processing(f"image '{images.names[image]}'"):
                return key, writer.prepare(pixels)
        except EndpointError:
            raise
        except JudgeError as error:
            return error

    with quiet():
        jobs = (partial(read, image) for batch in batches for image in batch)
        with closing(in_order(jobs, writer.readers, ahead=max(writer.at_a_time, writer.readers))) as ready:
            for batch in batches:
                found = dict(zip(batch, islice(ready, len(batch)), strict=True))
                sound = {image: read for image, read in found.items() if not isinstance(read, JudgeError)}
                texts = writer.write([prepared for _, prepared in sound.values()])
                captions = {image: (sound[image][0], text) for image, text in zip(sound, texts, strict=True)}
                yield captions, [(images.names[image], e) for image, e in found.items() if isinstance(e, JudgeError)]


def caption_records(captions: Mapping[str, str]) -> list[dict[str, object]]:
    """COCO results: ``[{"image_id": ..., "caption": ...}]``; numeric ids as numbers."""
    return [
        {"image_id": int(image) if image.isascii() and image.isdigit() else image, "caption": caption}
        for image, caption in captions.items()
    ]


def captions_json(captions: Mapping[str, str]) -> bytes:
    """:func:`caption_records` as JSON, one record a line."""
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in caption_records(captions))
    return f"[\n{lines}\n]\n".encode()
