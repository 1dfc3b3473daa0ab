"""Captions written by a checkpoint, any captioner that transformers loads; never sampled. A killed run resumes.

The processes of a launch share the images; the captions are those of one process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import torch
from PIL import Image

from judge.captioning.writer import Prepared, Writer, Writing
from judge.errors import JudgeError
from judge.judges.hf_models import load_captioner
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
from judge.utils.files import fingerprint_of, read_json_lines, write_whole, writing
from judge.utils.hub import quiet
from judge.utils.launch import launched
from judge.utils.parallel import choose_device, in_order

About = tuple[str, str]
"""An image's id, and the key of its content and mask."""


@dataclass
class Captioned:
    """Captions by image id, in the order of the images, and errors by name of the image file."""

    captions: dict[str, str] = field(default_factory=dict)
    failures: Failures = field(default_factory=list)


def caption_images(
    model: str,
    images: MaskedImages,
    writing: Writing,
    *,
    device: str | None = None,
    notes: Path | None = None,
    progress: Progress | None = None,
) -> Captioned:
    """Caption every image of ``images``; errors of single images are collected, not raised.

    Each process of a launch captions its share of the batches. A batch always holds the same images, whatever the
    number of processes and whatever a killed run had done: captions are those of an uninterrupted run of one process.

    Args:
        model: folder of a checkpoint, or its name on the hub.
        images: as the captioner gets them; the same in every process.
        writing: how.
        device: cpu, cuda, cuda:1; None for a GPU if there is one, in a launch the process's own.
        notes: file of finished captions, for the next run of the same checkpoint, settings and images, on any number of
            processes; the caller removes it, and those of other processes (``notes_files``). None to keep none.
        progress: called with the number of images captioned, of this process's share.

    Returns:
        The same in every process.

    Raises:
        JudgeError: in every process; errors that concern all images: no such captioner or device, too little memory,
            notes that cannot be written.
    """
    accelerator = make_accelerator() if launched() else None
    make_deterministic()
    with raise_together():
        place = accelerator.device if accelerator and device is None else choose_device(device)
    ids, size = list(images.names), writing.images_at_a_time(place)
    writing = replace(writing, caption_batch=size)
    # Times of files depend on the machine: the main process's key counts.
    key = gather(_key(model, ids, writing, place))[0]
    with raise_together():
        store = Notes(notes, key, process=accelerator.process_index if accelerator else 0)
    noted = store.entries | in_main_process(lambda: store.entries)

    def caption(share: Sequence[Sequence[str]]) -> Iterator[Captioned]:
        done, left = list[Captioned](), list[Sequence[str]]()
        for batch in share:
            captions = _find_noted(images, noted, batch)
            if captions is None:
                left.append(batch)
            else:
                done.append(Captioned(captions))
        yield from done
        count, total = sum(len(part.captions) for part in done), sum(map(len, share))
        for batch, (found, errors) in zip(left, _caption(model, images, writing, place, left), strict=True):
            store.add({(image, about): text for image, (about, text) in found.items()})
            count += len(batch)
            if progress:
                progress("captioning", count, total)
            yield Captioned({image: text for image, (_, text) in found.items()}, errors)

    parts = share_out([ids[start : start + size] for start in range(0, len(ids), size)], caption)
    found = {image: text for part in parts for image, text in part.captions.items()}
    errors = [error for part in parts for error in part.failures]
    return Captioned({image: found[image] for image in ids if image in found}, errors)


def _find_noted(images: MaskedImages, noted: Mapping[About, str], batch: Sequence[str]) -> dict[str, str] | None:
    """The noted captions of a batch; None if any is missing, or an image has changed."""
    if not noted:
        return None
    try:
        return {image: noted[image, images.key(image)] for image in batch}
    except (KeyError, JudgeError):  # An error of an image is raised again when it is captioned.
        return None


def _caption(
    model: str, images: MaskedImages, writing: Writing, device: torch.device, batches: Sequence[Sequence[str]]
) -> Iterator[tuple[dict[str, tuple[str, str]], Failures]]:
    """Of each batch image -> (its key, its caption), and errors; while one is captioned, the next is read."""
    if not batches:
        return

    def read(image: str) -> tuple[str, Prepared] | JudgeError:
        try:
            key, pixels = images.key(image), Image.fromarray(images.read(image))
            with processing(f"image '{images.names[image]}'"):
                return key, writer.prepare(pixels)
        except JudgeError as error:
            return error

    with quiet():
        writer = Writer(load_captioner(model, where=f"--model {model}"), writing, device)
        jobs = (partial(read, image) for batch in batches for image in batch)
        readers = 1 if device.type == "cpu" else 4  # On CPUs captioning needs the cores itself.
        with closing(in_order(jobs, readers, ahead=len(batches[0]))) as ready:
            for batch in batches:
                found = dict(zip(batch, islice(ready, len(batch)), strict=True))
                sound = {image: read for image, read in found.items() if not isinstance(read, JudgeError)}
                texts = writer.write([prepared for _, prepared in sound.values()])
                captions = {image: (sound[image][0], text) for image, text in zip(sound, texts, strict=True)}
                yield captions, [(images.names[image], e) for image, e in found.items() if isinstance(e, JudgeError)]


def _key(model: str, images: Sequence[str], writing: Writing, device: torch.device) -> str:
    """Hash of what captions depend on, except images; a checkpoint rewritten in its folder is another one."""
    packages = [version(name) for name in ("caption-judge", "torch", "transformers")]
    parts = (packages, model, fingerprint_of(model), astuple(writing), device.type, images)
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


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


def notes_files(path: Path) -> list[Path]:
    """The files that the processes of a launch, however many, have left at ``path``."""
    name = re.compile(re.escape(path.name) + r"(\.[1-9][0-9]*)?")
    return sorted(file for file in path.parent.glob("*") if name.fullmatch(file.name))


def check_notes(path: Path) -> None:
    """Refuse other files at ``path``.

    Raises:
        JudgeError: a file is not empty and does not hold notes.
    """
    for file in notes_files(path):
        if not file.is_file() or (file.stat().st_size and not _read(file)):
            what, mend = "holds no captions of an unfinished run, which would be written there", "move it elsewhere"
            raise JudgeError(what, where=str(file), mend=mend)


def _read(path: Path) -> list[list[str]]:
    """The sound lines of a file: key, image id, key of the image, caption."""
    with writing(path):
        return [line for line in read_json_lines(path) if isinstance(line, list) and len(line) == 4]


class Notes:
    """Captions of an unfinished run: each batch is on the disk before the next begins.

    Args:
        path: the main process's file; other processes append their numbers to its name. None to keep nothing.
        key: hash of what captions depend on, except images; notes with another key are not used.
        process: number in the launch. The main one (0) reads the files of all, the others their own.

    Attributes:
        entries: (image id, key of its content and mask) -> caption, as read.

    Raises:
        JudgeError: a file cannot be read or written, or does not hold notes.
    """

    def __init__(self, path: Path | None, key: str, *, process: int = 0) -> None:
        self.path = path.with_name(f"{path.name}.{process}") if path and process else path
        self.key = key
        self.entries: dict[About, str] = {}
        self._earlier: list[list[str]] | None = []  # The lines of the own file, until it is written for the first time.
        if path is None:
            return
        check_notes(path)
        for file in notes_files(path):
            if file == self.path or not process:
                lines = _read(file)
                self.entries |= {(image, about): caption for of, image, about, caption in lines if of == key}
                if file == self.path:
                    self._earlier = lines

    def add(self, entries: Mapping[About, str]) -> None:
        """Append (image id, key) -> caption.

        Raises:
            JudgeError: the file cannot be written.
        """
        if self.path is None or not entries:
            return
        new = [[self.key, *about, caption] for about, caption in entries.items()]
        with writing(self.path):
            if self._earlier is not None:  # Without a line that a kill has cut.
                write_whole(self.path, _lines([*self._earlier, *new]))
                self._earlier = None
                return
            with self.path.open("ab") as file:
                file.write(_lines(new))
                file.flush()
                os.fsync(file.fileno())


def _lines(entries: list[list[str]]) -> bytes:
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()
