"""Captions written by a checkpoint, any captioner that transformers loads; never sampled. A killed run resumes.

The processes of a launch share the images; the captions are those of one process.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Literal

import torch
from PIL import Image
from torch import Tensor

from judge.errors import JudgeError
from judge.judges.hf_models import Captioner, computing, load_captioner, loading
from judge.judges.hf_prompts import blank, generation_inputs, processing, usual_prompt
from judge.masking.detectors import Failures
from judge.masking.masked_images import MaskedImages
from judge.training.batches import run_fitting
from judge.training.launch import gather, make_accelerator, make_deterministic, raise_together, share_out
from judge.training.member import digest_of
from judge.types import Progress
from judge.utils.files import fingerprint_of, writing
from judge.utils.hub import quiet
from judge.utils.launch import launched
from judge.utils.parallel import choose_device, in_order
from judge.utils.tensors import read_notes, read_sound, write_tensors


@dataclass(frozen=True, slots=True)
class Writing:
    """How captions are written; everything that decides them except images and checkpoint.

    Attributes:
        prompt: the question to the captioner, or (BLIP, GIT, VisionEncoderDecoder) how its captions begin; not part of
            the caption. None for the usual prompt of its family.
        beams: width of the beam search; 1 for greedy search.
        max_tokens: length of a caption in tokens, at most; less if the model has fewer positions.
        caption_batch: images at a time; "auto" for 8 on CPUs and 64 elsewhere. Fewer if memory does not hold them. In
            float32 it changes nothing but the rounding of sums.
        precision: "bf16" for weights and products of half the size.
    """

    prompt: str | None = None
    beams: int = 1
    max_tokens: int = 30
    caption_batch: int | Literal["auto"] = "auto"
    precision: Literal["no", "bf16"] = "no"

    def images_at_a_time(self, device: torch.device) -> int:
        """``caption_batch``, resolved for ``device``."""
        if self.caption_batch != "auto":
            return self.caption_batch
        return 8 if device.type == "cpu" else 64


Prepared = tuple[dict[str, Tensor], list[int]]
"""Inputs of the model for one image, and the tokens of the prompt."""


class Writer:
    """A captioner with a prompt, a device and settings.

    Raises:
        JudgeError: it takes images in no known way; memory does not hold it.
    """

    def __init__(self, captioner: Captioner, writing: Writing, device: torch.device) -> None:
        self.captioner, self.writing, self.device = captioner, writing, device
        self.dtype = torch.bfloat16 if writing.precision == "bf16" else torch.float32
        self.prompt = usual_prompt(captioner) if writing.prompt is None else writing.prompt
        self.where = f"--model {captioner.reference}"
        mend = "choose another prompt or captioner"
        with loading("its processor takes the prompt and images in a way not known here", self.where, mend):
            prepared = self.prepare(blank())
        if captioner.limit is not None and len(prepared[1]) > captioner.limit:
            what = f"is {len(prepared[1])} tokens long, and the captioner has positions for {captioner.limit}"
            raise JudgeError(what, where="--prompt", mend="shorten it")
        self.most = writing.images_at_a_time(device)
        captioner.model.to(device, self.dtype).eval()
        # Faults of its files appear when it writes; two tokens take no time.
        with computing("it cannot caption", self.where), quiet():
            self.tokens([prepared], most=2)

    def prepare(self, image: Image.Image) -> Prepared:
        """See :func:`~judge.judges.hf_prompts.generation_inputs`."""
        return generation_inputs(self.captioner, image, self.prompt)

    @torch.no_grad()
    def write(self, prepared: Sequence[Prepared]) -> list[str]:
        """A caption for each image, in one line; as many at a time as memory holds.

        Images whose tensors differ in shape (Qwen2-VL) are captioned apart: nothing is ever padded, as models with
        absolute positions would give other captions.

        Raises:
            JudgeError: too little memory.
        """
        by_shape: dict[object, list[int]] = {}
        for row, (inputs, _) in enumerate(prepared):
            by_shape.setdefault(tuple((name, value.shape) for name, value in inputs.items()), []).append(row)
        captions = [""] * len(prepared)

        def write(size: int, rows: Sequence[int]) -> None:
            self.most = size
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                tokens = self.tokens([prepared[row] for row in part])
                texts = self.captioner.tokenizer.batch_decode(tokens, skip_special_tokens=True)
                for row, text in zip(part, texts, strict=True):
                    captions[row] = " ".join(text.split())

        for rows in by_shape.values():
            mend = "choose --precision bf16, or a larger device"
            run_fitting(partial(write, rows=rows), self.most, where=self.where, mend=mend)
        return captions

    @torch.no_grad()
    def tokens(self, prepared: Sequence[Prepared], *, most: int | None = None) -> Tensor:
        """Tokens of captions of images whose tensors have one shape, [N, T] int64, without the prompt.

        At most ``most`` of them, or ``max_tokens``; with the special tokens that begin, end or pad them.
        """
        joined = {name: torch.cat([inputs[name] for inputs, _ in prepared]) for name in prepared[0][0]}
        given = {
            name: value.to(self.device, self.dtype if value.is_floating_point() else None)
            for name, value in joined.items()
        }
        begun, room = prepared[0][1], self.writing.max_tokens
        if self.captioner.limit is not None:  # It has no positions for more.
            room = max(1, min(room, self.captioner.limit - len(begun)))
        written: Tensor = self.captioner.model.generate(
            **given,
            max_new_tokens=min(room, most or room),
            num_beams=self.writing.beams,
            # A checkpoint's own settings may sample (Qwen2-VL), or return more.
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            num_return_sequences=1,
            return_dict_in_generate=False,
        ).cpu()
        if begun and written[:, : len(begun)].tolist() == [list(prompt) for _, prompt in prepared]:
            written = written[:, len(begun) :]
        return written


@dataclass
class Captioned:
    """Captions by image id, in the order of the images, and errors by name of the image file."""

    captions: dict[str, str] = field(default_factory=dict)
    failures: Failures = field(default_factory=list)


def caption_images(
    model: str,
    images: MaskedImages,
    how: Writing,
    *,
    device: str | None = None,
    store: Path | None = None,
    progress: Progress | None = None,
) -> Captioned:
    """Caption every image of ``images``; errors of single images are collected, not raised.

    Each process of a launch captions its share of the batches. A batch always holds the same images, whatever the
    number of processes and whatever a killed run had done: captions are those of an uninterrupted run of one process.

    Args:
        model: folder of a checkpoint, or its name on the hub.
        images: as the captioner gets them; the same in every process.
        how: settings of the writing.
        device: cpu, cuda, cuda:1; None for a GPU if there is one, in a launch the process's own.
        store: folder for a file of each finished batch, for the next run of the same checkpoint, settings and images,
            on any number of processes; the caller removes it. None to store nothing.
        progress: called with the number of images captioned, of this process's share.

    Returns:
        The same in every process.

    Raises:
        JudgeError: in every process; errors that concern all images: no such captioner or device, too little memory,
            a store that cannot be read or written.
    """
    accelerator = make_accelerator() if launched() else None
    make_deterministic()
    with raise_together():
        place = accelerator.device if accelerator and device is None else choose_device(device)
        if store:
            if store.is_file():
                what, mend = "is a file of captions that an earlier version left unfinished", "delete it"
                raise JudgeError(what, where=str(store), mend=mend)
            with writing(store):
                store.mkdir(parents=True, exist_ok=True)
    ids, size = list(images.names), how.images_at_a_time(place)
    how = replace(how, caption_batch=size)
    # What captions depend on, except images. Times of files depend on the machine: the main process's key counts.
    packages = [version(name) for name in ("caption-judge", "torch", "transformers")]
    key = gather(repr((packages, model, fingerprint_of(model), astuple(how), place.type)))[0]

    def file_of(batch: Sequence[str]) -> Path | None:
        return store / f"{digest_of(repr((key, batch)))}.safetensors" if store else None

    def caption(share: Sequence[Sequence[str]]) -> Iterator[Captioned]:
        left, count, total = list[Sequence[str]](), 0, sum(map(len, share))
        for batch in share:
            if captions := _find_stored(file_of(batch), images, batch):
                count += len(batch)
                yield Captioned(captions)
            else:
                left.append(batch)
        for batch, (found, errors) in zip(left, _caption(model, images, how, place, left), strict=True):
            captions = {image: text for image, (_, text) in found.items()}
            file = file_of(batch)
            if file and not errors:
                keys = {image: own for image, (own, _) in found.items()}
                write_tensors(file, {}, {"keys": keys, "captions": captions})
            count += len(batch)
            if progress:
                progress("captioning", count, total)
            yield Captioned(captions, errors)

    parts = share_out([ids[start : start + size] for start in range(0, len(ids), size)], caption)
    found = {image: text for part in parts for image, text in part.captions.items()}
    errors = [error for part in parts for error in part.failures]
    return Captioned({image: found[image] for image in ids if image in found}, errors)


def _find_stored(file: Path | None, images: MaskedImages, batch: Sequence[str]) -> dict[str, str] | None:
    """The stored captions of a batch; None if there are none, or an image has changed."""
    stored = read_sound(file, read_notes) if file else None
    try:
        same = stored is not None and stored["keys"] == {image: images.key(image) for image in batch}
    except JudgeError:  # An error of an image is raised again when it is captioned.
        return None
    return stored["captions"] if stored and same else None


def _caption(
    model: str, images: MaskedImages, how: Writing, device: torch.device, batches: Sequence[Sequence[str]]
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
        writer = Writer(load_captioner(model, where=f"--model {model}"), how, device)
        jobs = (partial(read, image) for batch in batches for image in batch)
        readers = 1 if device.type == "cpu" else 4  # On CPUs captioning needs the cores itself.
        with closing(in_order(jobs, readers, ahead=len(batches[0]))) as ready:
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
