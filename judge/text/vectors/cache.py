"""The vectors of a run, fetched or learnt once for all that ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from judge.text.vectors import Vectors, load_vectors
from judge.types import Words


class VectorCache:
    """Vectors for aligning captions.

    Args:
        reference: as of :func:`judge.text.vectors.load_vectors`.
        vocabulary: gives every word of the run, so that a file is read once.
    """

    def __init__(self, reference: str, vocabulary: Callable[[], Iterable[str]]) -> None:
        self.reference, self._vocabulary = reference, vocabulary
        self._known: dict[object, Vectors] = {}

    def vectors(self, captions: Sequence[Words]) -> Vectors:
        """Those of the reference; of ``corpus``, learnt from these masked human captions (or taken from the cache).

        Raises:
            JudgeError: as ``load_vectors``.
        """
        learnt = self.reference == "corpus"
        key = tuple(captions) if learnt else self.reference
        if key not in self._known:
            words = {word for caption in captions for word in caption} if learnt else set(self._vocabulary())
            self._known[key] = load_vectors(self.reference, words, captions=captions if learnt else ())
        return self._known[key]
