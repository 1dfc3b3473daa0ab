"""Captions written by a checkpoint: any captioner that transformers loads; never sampled; a killed run resumes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import torch
from PIL import Image
from torch import Tensor

from judge.errors import JudgeError
from judge.judges.hf_models import Captioner, load_captioner
from judge.judges.hf_prompts import ask, blank, processing, usual_prompt
from judge.masking.detectors import Failures
from judge.masking.detectors.weights import choose_device
from judge.masking.hidden import HiddenPictures
from judge.training.memory import OutOfMemory, watched
from judge.types import Progress
from judge.utils.files import fingerprint_of, write_whole, writing
from judge.utils.hub import first_line, quiet


@dataclass(frozen=True, slots=True)
class Writing:
    """How captions are written; everything that decides them, pictures and checkpoint apart.

    Attributes:
        prompt: what the captioner is asked, or (BLIP, GIT, VisionEncoderDecoder) how its captions begin; the prompt
            is no part of the caption. None for what its family is usually asked.
        beams: of the beam search; 1 for greedy search.
        max_tokens: of a caption; fewer where the model's positions end.
        batch_size: pictures at a time; fewer where memory does not hold them. In float32 it changes nothing but the
            rounding of sums.
        precision: "bf16" for weights and products of half the size.
    """

    prompt: str | None = None
    beams: int = 1
    max_tokens: int = 30
    batch_size: int = 8
    precision: Literal["no", "bf16"] = "no"


@dataclass
class Captioned:
    """Captions by image id, in the order of the pictures, and the failures by picture's name."""

    captions: dict[str, str] = field(default_factory=dict)
    failures: Failures = field(default_factory=list)


def caption_pictures(
    model: str,
    pictures: HiddenPictures,
    writing: Writing,
    *,
    device: str | None = None,
    notes: Path | None = None,
    progress: Progress | None = None,
) -> Captioned:
    """Caption every picture of ``pictures``; faults of single pictures are collected, not raised.

    A batch always holds the same pictures, whatever a killed run had done: captions are those of an uninterrupted one.

    Args:
        model: folder of a checkpoint, or its name on the hub.
        pictures: as the captioner gets them.
        writing: how.
        device: cpu, cuda, cuda:1; None for a GPU where there is one.
        notes: file in which finished captions are kept until the caller removes it, and taken up again by the next
            run of the same checkpoint, settings and images; None to keep none.
        progress: called with the pictures captioned.

    Raises:
        JudgeError: what concerns all pictures: no such captioner or device, too little memory, notes not writable.
    """
    place, done = choose_device(device), Captioned()
    kept = Notes(notes, _key(model, list(pictures.names), writing, place))
    found = {image: caption for image, (key, caption) in kept.entries.items() if _is_still(pictures, image, key)}
    images = list(pictures.names)
    batches = [images[start : start + writing.batch_size] for start in range(0, len(images), writing.batch_size)]
    left = [batch for batch in batches if not found.keys() >= set(batch)]
    passed = len(images) - sum(map(len, left))
    if left:
        captioner = load_captioner(model, where=f"--model {model}")
        with quiet():
            writer = Writer(captioner, writing, place)
            read = partial(_read, writer, pictures, done.failures)
            for number, batch in enumerate(_read_ahead(read, left), start=1):
                captions = dict(zip(batch, writer.write([asked for _, asked in batch.values()]), strict=True))
                kept.add({image: (batch[image][0], caption) for image, caption in captions.items()})
                found |= captions
                if progress:
                    progress("captioning", passed + sum(map(len, left[:number])), len(images))
    done.captions = {image: found[image] for image in images if image in found}
    return done


Asked = tuple[dict[str, Tensor], list[int]]


class Writer:
    """A captioner with a prompt, a device and settings.

    Raises:
        JudgeError: it takes pictures in no known way; memory does not hold it.
    """

    def __init__(self, captioner: Captioner, writing: Writing, device: torch.device) -> None:
        self.captioner, self.writing, self.device = captioner, writing, device
        self.dtype = torch.bfloat16 if writing.precision == "bf16" else torch.float32
        self.prompt = usual_prompt(captioner) if writing.prompt is None else writing.prompt
        try:
            ask(captioner, blank(), self.prompt)
        except Exception as error:
            what = f"its processor takes the prompt and pictures in a way not known here ({first_line(error)})"
            mend = "choose another prompt or captioner"
            raise JudgeError(what, where=f"--model {captioner.reference}", mend=mend) from error
        self.most = writing.batch_size
        try:
            watched(lambda: captioner.model.to(device, self.dtype).eval())
        except OutOfMemory:
            raise self._too_large("the captioner") from None

    def ask(self, picture: Image.Image) -> Asked:
        """See :func:`~judge.judges.hf_prompts.ask`."""
        return ask(self.captioner, picture, self.prompt)

    @torch.no_grad()
    def write(self, asked: Sequence[Asked]) -> list[str]:
        """A caption for each, in one line.

        Pictures whose tensors differ in shape (Qwen2-VL's may) are captioned apart: nothing is ever padded, which
        models of absolute positions would not stand.

        Raises:
            JudgeError: too little memory.
        """
        alike: dict[object, list[int]] = {}
        for row, (inputs, _) in enumerate(asked):
            alike.setdefault(tuple((name, value.shape) for name, value in inputs.items()), []).append(row)
        found: dict[int, str] = {}
        for rows in alike.values():
            found |= dict(zip(rows, self._fitting([asked[row] for row in rows]), strict=True))
        return [found[row] for row in range(len(asked))]

    def _fitting(self, asked: Sequence[Asked]) -> list[str]:
        """Captions of as many at a time as memory holds; a batch size that did not fit is not tried again."""
        found: list[str] = []
        while left := asked[len(found) : len(found) + self.most]:
            try:
                found += watched(partial(self._generate, left))
            except OutOfMemory:
                if len(left) == 1:
                    raise self._too_large("one picture's caption") from None
                self.most = len(left) // 2
        return found

    def _too_large(self, what: str) -> JudgeError:
        mend = "choose --precision bf16, or a device with more memory"
        return JudgeError(f"memory does not hold {what}", where=f"--model {self.captioner.reference}", mend=mend)

    def _generate(self, asked: Sequence[Asked]) -> list[str]:
        joined = {name: torch.cat([inputs[name] for inputs, _ in asked]) for name in asked[0][0]}
        given = {
            name: value.to(self.device, self.dtype if value.is_floating_point() else None)
            for name, value in joined.items()
        }
        begun = asked[0][1]
        written = self.captioner.model.generate(
            **given,
            max_new_tokens=self._room(len(begun)),
            num_beams=self.writing.beams,
            # A checkpoint's own settings may draw (Qwen2-VL), or return more.
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            num_return_sequences=1,
            return_dict_in_generate=False,
        ).cpu()
        if begun and written[:, : len(begun)].tolist() == [list(prompt) for _, prompt in asked]:
            written = written[:, len(begun) :]
        texts = self.captioner.tokenizer.batch_decode(written, skip_special_tokens=True)
        return [" ".join(text.split()) for text in texts]

    def _room(self, used: int) -> int:
        """Tokens that may be written: as many as asked for, if the model has positions for them."""
        room = self.captioner.limit
        return self.writing.max_tokens if room is None else max(1, min(self.writing.max_tokens, room - used))


_Batch = dict[str, tuple[str, Asked]]
"""Image id -> the picture's key, and what the captioner is asked."""


def _read_ahead(read: Callable[[Sequence[str]], _Batch], batches: Sequence[Sequence[str]]) -> Iterator[_Batch]:
    """The batches in order; while one is captioned, the next is read."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(read, batches[0])
        for following in batches[1:]:
            batch, waiting = waiting.result(), pool.submit(read, following)
            yield batch
        yield waiting.result()


def _read(writer: Writer, pictures: HiddenPictures, failures: Failures, images: Sequence[str]) -> _Batch:
    batch: _Batch = {}
    for image in images:
        name = pictures.names[image]
        try:
            key, pixels = pictures.key(image), Image.fromarray(pictures.read(image))
            with processing(f"picture '{name}'"):
                batch[image] = (key, writer.ask(pixels))
        except JudgeError as error:
            failures.append((name, error))
    return batch


class Notes:
    """Captions of an unfinished run: a file of JSON lines, each on the disk before the next batch begins.

    The first line says what they depend on. Notes of something else, and a line cut in half, give way to the first
    caption that is added.

    Args:
        path: the file; None to keep nothing.
        key: what captions depend on.

    Raises:
        JudgeError: the file cannot be read or written.
    """

    def __init__(self, path: Path | None, key: str) -> None:
        self.path, self.key = path, key
        self.entries: dict[str, tuple[str, str]] = {}
        self._sound = 0  # bytes
        if path is not None and path.exists():
            with writing(path):
                self._read(path)

    def _read(self, path: Path) -> None:
        with path.open("rb") as file:
            if file.readline() != self._head():
                return
            self._sound = file.tell()
            for line in iter(file.readline, b""):
                try:
                    image, key, caption = json.loads(line)
                except ValueError:
                    return
                if not line.endswith(b"\n"):
                    return
                self.entries[image] = (key, caption)
                self._sound += len(line)

    def add(self, entries: Mapping[str, tuple[str, str]]) -> None:
        """Append image -> (the picture's key, its caption).

        Raises:
            JudgeError: the file cannot be written.
        """
        if self.path is None:
            return
        lines = b"".join(_line([image, *entry]) for image, entry in entries.items())
        lines = lines if self._sound else self._head() + lines
        with writing(self.path), self.path.open("ab") as file:
            file.truncate(self._sound)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        self._sound += len(lines)

    def _head(self) -> bytes:
        return _line({"key": self.key})


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _is_still(pictures: HiddenPictures, image: str, key: str) -> bool:
    """Whether the picture is the one that was captioned."""
    try:
        return image in pictures.names and pictures.key(image) == key
    except JudgeError:
        return False


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
    """Write ``caption_records``, a record a line."""
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in caption_records(captions))
    with writing(path):
        write_whole(path, f"[\n{lines}\n]\n".encode())
