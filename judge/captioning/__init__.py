"""Captions written by a checkpoint that transformers loads, or by a server; never sampled. A killed run resumes.

The processes of a launch share the images; the captions are those of one process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from PIL import Image

from judge.captioning.endpoint import EndpointError, EndpointWriter
from judge.captioning.writing import Caption, Writing
from judge.errors import FAULTS, JudgeError
from judge.judges.hf_prompts import processing
from judge.masking.detectors import Failures
from judge.masking.masked_images import MaskedImages
from judge.training import launch
from judge.types import Progress
from judge.utils.files import read_json_lines, writing
from judge.utils.hub import quiet
from judge.utils.identity import content_of, digest_of
from judge.utils.launch import launched
from judge.utils.parallel import choose_device, in_order

if TYPE_CHECKING:
    from judge.captioning.checkpoints import CheckpointWriter
    from judge.judges.hf_models import Captioner

    Writer = CheckpointWriter | EndpointWriter


@dataclass
class Captioned:
    """The captions of some images.

    Attributes:
        captions: image id -> caption, in the order of the images.
        failures: errors, by name of the image file.
        cut: number of captions that end because the longest caption was reached.
        notes: what a reader of the captions must know, a sentence each.
    """

    captions: dict[str, str] = field(default_factory=dict)
    failures: Failures = field(default_factory=list)
    cut: int = 0
    notes: tuple[str, ...] = ()


class _Store:
    """Captions of earlier runs of a command, and of this one: each process adds lines to a file of its own."""

    def __init__(self, folder: Path | None, key: str, images: MaskedImages) -> None:
        self._key, self._images, self._lock = key, images, Lock()
        self._file = folder and folder / f"{uuid4().hex}.jsonl"
        self._known: dict[str, Caption] = {}
        for file in sorted(folder.glob("*.jsonl")) if folder else ():
            for line in read_json_lines(file):
                with suppress(*FAULTS):
                    name, text, cut = line
                    self._known[str(name)] = Caption(str(text), bool(cut))

    def name_of(self, image: str) -> str:
        """A digest of all that the caption of an image depends on."""
        return digest_of(repr((self._key, self._images.key(image))))

    def find(self, batch: Sequence[str]) -> dict[str, Caption]:
        """Image -> its stored caption; images without one are left out."""
        found: dict[str, Caption] = {}
        for image in batch if self._known else ():
            with suppress(JudgeError):  # An error of an image is raised again when it is captioned.
                if caption := self._known.get(self.name_of(image)):
                    found[image] = caption
        return found

    def put(self, captions: Mapping[str, Caption]) -> None:
        """Store captions by their names; those that are stored already stay."""
        with self._lock:
            new = {name: caption for name, caption in captions.items() if name not in self._known}
            self._known |= new
            if self._file and new:
                with writing(self._file), self._file.open("a", encoding="utf-8") as file:
                    file.write("".join(json.dumps([name, *caption]) + "\n" for name, caption in new.items()))


def caption_images(
    model: str | Captioner,
    images: MaskedImages,
    how: Writing,
    *,
    device: str | None = None,
    endpoint: str | None = None,
    store: Path | None = None,
    progress: Progress | None = None,
) -> Captioned:
    """Caption every image of ``images``; errors of single images are collected, not raised.

    Each process of a launch captions its share of the batches. A batch holds the same images, whatever the number of
    processes, but for those that a killed run has captioned.

    Args:
        model: folder of a checkpoint, or its name on the hub; a server's name of its model; or a captioner in memory.
        images: as the captioner gets them; the same in every process.
        how: settings of the writing.
        device: cpu, cuda, cuda:1; "auto" for all GPUs together; None for a GPU if there is one.
        endpoint: URL of a server that captions; None for a checkpoint.
        store: folder of captions that are not written again; the caller removes it. None to store nothing.
        progress: called with the number of images captioned, of this process's share.
    """
    if store:
        with launch.raise_together(), writing(store):
            store.mkdir(parents=True, exist_ok=True)
    with quiet():
        writer, about = _make_writer(model, how, device, endpoint)
        # The main process looks at the images' sizes.
        batches = launch.in_main_process(lambda: writer.batches(images))
    # What captions depend on, except images: of the number of images at a time, ``about`` has what counts.
    # Times of files depend on the machine: the main process's key counts.
    packages = [version(name) for name in ("caption-judge", "torch", "transformers")]
    key = launch.gather(repr((packages, model, about, astuple(replace(how, caption_batch="auto")))))[0]
    stored = _Store(store, key, images)

    def caption(share: Sequence[Sequence[str]]) -> Iterator[Captioned]:
        left, total = list[list[str]](), sum(map(len, share))
        for batch in share:
            known = stored.find(batch)
            left.append([image for image in batch if image not in known])
            yield _captioned(known)
        count = total - sum(map(len, left))
        if isinstance(writer, EndpointWriter):
            writer.answered = count > 0
        for batch, done in zip(left, _caption(writer, images, left, stored), strict=True):
            count += len(batch)
            if progress:
                progress("captioning", count, total)
            yield done
        yield Captioned(notes=writer.notes)

    parts = launch.share_out(batches, caption)
    found = {image: text for part in parts for image, text in part.captions.items()}
    errors = [error for part in parts for error in part.failures]
    if endpoint and errors and not found:
        raise errors[0][1]
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    ordered = {image: found[image] for image in images.names if image in found}
    return Captioned(ordered, errors, sum(part.cut for part in parts), notes)


def _make_writer(
    model: str | Captioner, how: Writing, device: str | None, endpoint: str | None
) -> tuple[Writer, tuple[Any, ...]]:
    """Make the writer; also return what decides its captions, apart from its model's name, settings and images."""
    from judge.captioning.checkpoints import CheckpointWriter, load_writer

    if not isinstance(model, str):  # Its owner decides its device, and how deterministic it is.
        with launch.raise_together():
            return CheckpointWriter(model, how), ()
    if endpoint:
        with launch.raise_together():
            return EndpointWriter(endpoint, model, how), (endpoint,)

    accelerator = launch.make_accelerator() if launched() else None
    launch.make_deterministic()
    with launch.raise_together():
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


def _captioned(captions: Mapping[str, Caption], failures: Sequence[tuple[str, JudgeError]] = ()) -> Captioned:
    texts = {image: text for image, (text, _) in captions.items()}
    return Captioned(texts, [*failures], sum(cut for _, cut in captions.values()))


def _caption(
    writer: Writer, images: MaskedImages, batches: Sequence[Sequence[str]], stored: _Store
) -> Iterator[Captioned]:

    def read(image: str) -> tuple[str, Any] | JudgeError:
        try:
            name, pixels = stored.name_of(image), Image.fromarray(images.read(image))
            with processing(f"image '{images.names[image]}'"):
                prepared = writer.prepare(pixels)
        except EndpointError:
            raise
        except JudgeError as error:
            return error
        if isinstance(prepared, Caption):  # A server has written it.
            stored.put({name: prepared})
        return name, prepared

    with quiet():
        jobs = (partial(read, image) for batch in batches for image in batch)
        with closing(in_order(jobs, writer.readers, ahead=max(writer.at_a_time, writer.readers))) as ready:
            for batch in batches:
                found = dict(zip(batch, islice(ready, len(batch)), strict=True))
                sound = {image: read for image, read in found.items() if not isinstance(read, JudgeError)}
                texts = writer.write([prepared for _, prepared in sound.values()])
                stored.put({name: text for (name, _), text in zip(sound.values(), texts, strict=True)})
                errors = [(images.names[image], e) for image, e in found.items() if isinstance(e, JudgeError)]
                yield _captioned(dict(zip(sound, texts, strict=True)), errors)


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
