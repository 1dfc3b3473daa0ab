"""Settings of captioning, and the protocol that checkpoints and servers follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from PIL.Image import Image

from judge.masking.masked_images import MaskedImages

Dtype = Literal["auto", "float32", "bf16"]


@dataclass(frozen=True, slots=True)
class Writing:
    """Settings of captioning: everything that decides captions, apart from the images and the checkpoint.

    Attributes:
        prompt: the question to the captioner, or (BLIP, GIT, VisionEncoderDecoder) how its captions begin; not part of
            the caption. None for the usual prompt of its family.
        beams: width of the beam search; 1 for greedy search. Servers search greedily.
        max_tokens: length of a caption in tokens, at most; less if the model has fewer positions.
        caption_batch: images at a time, or requests at a time to a server; "auto" for 8 on CPUs, 16 to a server and 64
            elsewhere. Fewer if memory does not hold them. In float32 it changes nothing but the rounding of sums.
        dtype: type of weights and products; "auto" for float32 on CPUs, and the checkpoint's own elsewhere. A server
            chooses its own.
    """

    prompt: str | None = None
    beams: int = 1
    max_tokens: int = 30
    caption_batch: int | Literal["auto"] = "auto"
    dtype: Dtype = "auto"


class Caption(NamedTuple):
    """A caption in one line, and whether it ends because ``max_tokens`` was reached."""

    text: str
    cut: bool = False


class Writer(Protocol):
    """Writes captions: a :class:`~.checkpoints.CheckpointWriter` or an :class:`~.endpoint.EndpointWriter`.

    Attributes:
        at_a_time: images of a batch.
        readers: threads that prepare images.
    """

    at_a_time: int
    readers: int

    def batches(self, images: MaskedImages) -> list[list[str]]:
        """The ids of all images, in batches that are always captioned together."""

    def prepare(self, image: Image) -> Any:
        """Prepare an image for ``write``, in several threads; a JudgeError if the image cannot be captioned."""

    def write(self, prepared: Sequence[Any]) -> list[Caption]:
        """The captions of a batch; a JudgeError if no image can be captioned."""


def in_batches(ids: Sequence[str], size: int) -> list[list[str]]:
    """``ids`` in batches of ``size``."""
    return [list(ids[start : start + size]) for start in range(0, len(ids), size)]
