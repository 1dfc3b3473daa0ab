"""Options of single metrics; the settings of commands are composed of them."""

from typing import ClassVar, Literal

from pydantic import BaseModel

from judge.utils.options import option


class VectorOptions(BaseModel):
    """How contextual alignment substitutes words."""

    panel: ClassVar[str] = "Metrics"

    vectors: str = option(
        "corpus", "word vectors: corpus (learnt from human captions), or a GloVe, word2vec or fastText file",
        file=True, min_length=1,
    )  # fmt: skip
    delta: float | None = option(
        None, "cosine distance below which contextual alignment substitutes a word",
        "by --vectors: 0.65 for corpus, 0.4 for a file", ge=0, le=2,
    )  # fmt: skip


class MetricOptions(VectorOptions):
    """How human captions are aligned for judges, and options of BA."""

    alignment: Literal["none", "constant", "contextual"] | None = option(
        None, "how human captions are aligned with the captioner's vocabulary", "each metric's own"
    )
    vocabulary: int = option(1000, "number of content words, the most frequent ones", group="ba", ge=1)
    least: int | None = option(
        None, "captions of each class in which a word must occur", "one in 1,800", group="ba", ge=1
    )
