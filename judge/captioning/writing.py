"""Settings of captioning, and captions as checkpoints and servers write them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Dtype = Literal["auto", "float32", "bf16"]


@dataclass(frozen=True, slots=True)
class Writing:
    """Settings of captioning: everything that decides captions, apart from the images and the checkpoint.

    Attributes:
        prompt: the question to the captioner, or (BLIP, GIT, VisionEncoderDecoder) how its captions begin. None for the
            usual prompt of its family.
        beams: width of the beam search; 1 for greedy search. Servers search greedily.
        max_tokens: length of a caption in tokens, at most; less if the model has fewer positions.
        caption_batch: images at a time, or requests at a time to a server; "auto" for 8 on CPUs, 16 to a server and 64
            elsewhere. Fewer if memory does not hold them.
        dtype: type of weights and products; "auto" for float32 on CPUs, and the checkpoint's own elsewhere.
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


def in_batches(ids: Sequence[str], size: int) -> list[list[str]]:
    """``ids`` in batches of ``size``."""
    return [list(ids[start : start + size]) for start in range(0, len(ids), size)]
