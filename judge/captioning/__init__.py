"""Captions written by a checkpoint: any captioner that transformers loads; never sampled; a killed run resumes.

The processes of a launch share the pictures; the captions are those of one process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import torch
from PIL import Image

from judge.captioning.notes import About, Notes
from judge.captioning.writer import Asked, Writer, Writing
from judge.errors import JudgeError
from judge.judges.hf_models import load_captioner
from judge.judges.hf_prompts import processing
from judge.masking.detectors import Failures
from judge.masking.detectors.weights import choose_device
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
from judge.utils.files import fingerprint_of, write_whole, writing
from judge.utils.hub import quiet
from judge.utils.launch import launched
from judge.utils.parallel import in_order


@dataclass
class Captioned:
    """Captions by image id, in the order of the pictures, and the failures by picture's name."""

    captions: dict[str, str] = field(default_factory=dict)
    failures: Failures = field(default_factory=list)


def caption_pictures(
    model: str,
    pictures: MaskedImages,
    writing: Writing,
    *,
    device: str | None = None,
    notes: Path | None = None,
    progress: Progress | None = None,
) -> Captioned:
    """Caption every picture of ``pictures``; faults of single pictures are collected, not raised.

    Each process of a launch captions its share of the batches. A batch always holds the same pictures, whatever the
    number of processes and whatever a killed run had done: captions are those of an uninterrupted run of one process.

    Args:
        model: folder of a checkpoint, or its name on the hub.
        pictures: as the captioner gets them; the same in every process.
        writing: how.
        device: cpu, cuda, cuda:1; None for a GPU where there is one, in a launch the process's own.
        notes: file in which finished captions are kept until the caller removes it and those of other processes (see
            ``notes_files``), and taken up again by the next run of the same checkpoint, settings and images, on any
            number of processes; None to keep none.
        progress: called with the pictures captioned, of this process's share.

    Returns:
        The same in every process.

    Raises:
        JudgeError: in every process; what concerns all pictures: no such captioner or device, too little memory, notes
            not writable.
    """
    accelerator = make_accelerator() if launched() else None
    make_deterministic()
    with raise_together():
        place = accelerator.device if accelerator and device is None else choose_device(device)
    images, size = list(pictures.names), writing.pictures_at_a_time(place)
    writing = replace(writing, caption_batch=size)
    key = _key(model, images, writing, place)
    if accelerator:
        key = gather(key)[0]  # Times of files are local to a machine: the main process's count.
    with raise_together():
        kept = Notes(notes, key, process=accelerator.process_index if accelerator else 0)
    noted = kept.entries | in_main_process(lambda: kept.entries)
    batches = [images[start : start + size] for start in range(0, len(images), size)]
    found = _joined(share_out(batches, partial(_still_true, pictures, noted))).captions
    left = [batch for batch in batches if not found.keys() >= set(batch)]
    share = _Share(model, pictures, writing, place, kept, progress, len(images) - sum(map(len, left)))
    new = _joined(share_out(left, share.caption))
    found |= new.captions
    return Captioned({image: found[image] for image in images if image in found}, new.failures)


def _joined(parts: Sequence[Captioned]) -> Captioned:
    captions = {image: caption for part in parts for image, caption in part.captions.items()}
    return Captioned(captions, [failure for part in parts for failure in part.failures])


def _still_true(
    pictures: MaskedImages, noted: Mapping[About, str], batches: Sequence[Sequence[str]]
) -> Iterator[Captioned]:
    """Of each batch the captions that are known already, of pictures that are what they were."""
    images = {image for image, _ in noted}
    for batch in batches:
        found = Captioned()
        for image in images.intersection(batch):
            with suppress(JudgeError):  # It will be told when the picture is read.
                if (caption := noted.get((image, pictures.key(image)))) is not None:
                    found.captions[image] = caption
        yield found


Read = tuple[str, Asked] | JudgeError
"""A picture's key and what the captioner is asked; or why it cannot be."""


@dataclass(frozen=True)
class _Share:
    """Captions batches, keeps them in notes and tells ``progress`` of them and of ``passed`` pictures before them."""

    model: str
    pictures: MaskedImages
    writing: Writing
    device: torch.device
    notes: Notes
    progress: Progress | None
    passed: int

    def caption(self, batches: Sequence[Sequence[str]]) -> Iterator[Captioned]:
        """Of each batch; while one is captioned, the next is read."""
        if not batches:
            return
        captioner = load_captioner(self.model, where=f"--model {self.model}")
        done, total = self.passed, self.passed + sum(map(len, batches))
        with quiet():
            writer = Writer(captioner, self.writing, self.device)
            jobs = (partial(self._read, writer, image) for batch in batches for image in batch)
            with closing(in_order(jobs, _readers(self.device), ahead=len(batches[0]))) as read:
                for batch in batches:
                    captioned = self._write(writer, dict(zip(batch, islice(read, len(batch)), strict=True)))
                    done += len(batch)
                    if self.progress:
                        self.progress("captioning", done, total)
                    yield captioned

    def _read(self, writer: Writer, image: str) -> Read:
        try:
            key, pixels = self.pictures.key(image), Image.fromarray(self.pictures.read(image))
            with processing(f"picture '{self.pictures.names[image]}'"):
                return key, writer.ask(pixels)
        except JudgeError as error:
            return error

    def _write(self, writer: Writer, read: Mapping[str, Read]) -> Captioned:
        sound = {image: found for image, found in read.items() if not isinstance(found, JudgeError)}
        captions = dict(zip(sound, writer.write([asked for _, asked in sound.values()]), strict=True))
        self.notes.add({(image, sound[image][0]): caption for image, caption in captions.items()})
        faults = [(self.pictures.names[image], found) for image, found in read.items() if isinstance(found, JudgeError)]
        return Captioned(captions, faults)


def _readers(device: torch.device) -> int:
    """Threads that read pictures: on CPUs captioning needs the cores itself."""
    return 1 if device.type == "cpu" else 4


def _key(model: str, images: Sequence[str], writing: Writing, device: torch.device) -> str:
    """Hash of what captions depend on, pictures apart; a checkpoint rewritten in its folder is another one."""
    packages = [version(name) for name in ("caption-judge", "torch", "transformers")]
    parts = (packages, model, fingerprint_of(model), astuple(writing), device.type, images)
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def caption_records(captions: Mapping[str, str]) -> list[dict[str, object]]:
    """COCO's results: ``[{"image_id": ..., "caption": ...}]``; ids that are numbers as such."""
    return [
        {"image_id": int(image) if image.isascii() and image.isdigit() else image, "caption": caption}
        for image, caption in captions.items()
    ]


def write_captions(path: Path, captions: Mapping[str, str]) -> None:
    """Write :func:`captions_json`."""
    with writing(path):
        write_whole(path, captions_json(captions))


def captions_json(captions: Mapping[str, str]) -> bytes:
    """``caption_records`` as JSON, a record a line."""
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in caption_records(captions))
    return f"[\n{lines}\n]\n".encode()
