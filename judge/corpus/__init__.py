"""Files -> :class:`Corpus`: captions of both sides and the attribute of each image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from judge.types import Captions, Labels


@dataclass(frozen=True, slots=True)
class Corpus:
    """Everything a run reads.

    Attributes:
        human: the human captions.
        generated: one entry per captioner, names distinct.
        labels: image -> class; None to derive them from the human captions.
    """

    human: Captions
    generated: tuple[Captions, ...]
    labels: Labels | None = None


def common_images(human: Captions, generated: Captions, labels: Mapping[str, str]) -> tuple[list[str], dict[str, int]]:
    """Images with captions on both sides and a label, sorted; and how many were dropped, by reason."""
    both = human.by_image.keys() & generated.by_image.keys()
    dropped = {
        "human captions only": len(human.by_image.keys() - generated.by_image.keys()),
        "generated captions only": len(generated.by_image.keys() - human.by_image.keys()),
        "no label": len(both - labels.keys()),
    }
    return sorted(both & labels.keys()), dropped
