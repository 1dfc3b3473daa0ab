"""A small world of paintings that move people, in which the amplification of emotion is known exactly.

A painting has one of ArtEmis's nine emotions, some more often than others, and a motif. Motif k goes with emotion k,
arbitrarily so: P(motif | emotion) is association + (1 - association) / 9 of its own, (1 - association) / 9 of others.

Whoever writes an utterance has an emotion: that of the painting with a probability, else any of the eight others alike.
The utterance says how it feels (always, in words that the lexicon "emotion" hides) and with probability ``mention`` a
motif: with probability ``dwell`` the motif of the writer's emotion, else the painting's. Its other words (medium,
colour) tell nothing. So with sentiment words hidden the evidence is one motif of nine or none, and

    P(motif of the painting's emotion | told) = dwell * right + (1 - dwell) * (association + (1 - association) / 9)

with ``right`` the probability that the writer's emotion is the painting's. The eight other motifs share the rest alike.
People differ among each other (``agreement``), but in each painting that has a class most of five feel the same. A
neural speaker is given an emotion, rightly with probability ``right``: by a classifier ("predicted") or by the vote of
people's labels ("voted", always right); a speaker that is given none ("vanilla") has one too, what the painting looks
like to it.

A painting's colour goes with its emotion as its motif does, by ``colour_association`` (0: it tells nothing). It is all
that a picture shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

import numpy as np

from judge.calibration.truth import optimal_score
from judge.calibration.world import check_within, stream
from judge.errors import JudgeError
from judge.types import FloatArray, IntArray

EMOTIONS = (
    "amusement", "anger", "awe", "contentment", "disgust", "excitement", "fear", "sadness", "something else"
)  # fmt: skip
"""Sorted, as classes are."""
SHARES = (0.10, 0.06, 0.15, 0.22, 0.07, 0.09, 0.10, 0.12, 0.09)
"""Of paintings; the closed forms give each class 1/9 whatever it is, as balanced judges and scores do."""
UTTERANCES = 5
_MOST = UTTERANCES // 2


@dataclass(frozen=True, slots=True)
class EmotionParameters:
    """What defines a world of paintings, apart from its size and seed.

    Attributes:
        association: how far motifs go with emotions, in [0, 1].
        colour_association: the same of colours, in [0, 1].
        mention: probability that an utterance tells a motif, in [0, 1].
        agreement: probability that a person's emotion is that of the painting, in [0.6, 1].
        dwell: probability that a person who tells a motif tells that of the own emotion, in [0, 1].

    Raises:
        JudgeError: a value outside its range.
    """

    association: float = 0.15
    colour_association: float = 0.0
    mention: float = 0.8
    agreement: float = 0.8
    dwell: float = 0.3

    def __post_init__(self) -> None:
        for field in fields(self):
            # Below, three of five could not always agree.
            least = 1 - _MOST / UTTERANCES if field.name == "agreement" else 0.0
            check_within(field.name, getattr(self, field.name), least)

    @property
    def people(self) -> Speaker:
        """People, as speakers of their own emotions."""
        return Speaker(self.agreement, self.dwell)


@dataclass(frozen=True, slots=True)
class Speaker:
    """A neural speaker of the world.

    Attributes:
        right: probability that its emotion is that of the painting, in [0, 1]; a wrong one is any other alike.
        dwell: probability that a motif that it tells is that of its emotion, in [0, 1].
        grounded: whether its emotion was given to it, and stands in its file.

    Raises:
        JudgeError: a value outside its range.
    """

    right: float = 1.0
    dwell: float = 0.0
    grounded: bool = True

    def __post_init__(self) -> None:
        check_within("right", self.right)
        check_within("dwell", self.dwell)


DEFAULT = EmotionParameters()
# By default their true LIC is +0.08, +0.20 and +0.44 (rounded).
SPEAKERS: dict[str, Speaker] = {
    "vanilla": Speaker(right=0.7, dwell=0.6, grounded=False),
    "predicted": Speaker(right=0.75, dwell=0.8),
    "voted": Speaker(right=1.0, dwell=0.8),
}


def motif_table(parameters: EmotionParameters = DEFAULT, speaker: Speaker | None = None) -> FloatArray:
    """P(emotion, what an utterance tells), [9, 10], sums to 1, each emotion has 1/9; the last column: no motif.

    ``speaker``: None for people.
    """
    by = speaker or parameters.people
    told = by.dwell * _leaning(by.right) + (1 - by.dwell) * _associated(parameters.association)
    silent = np.full((len(EMOTIONS), 1), 1 - parameters.mention)
    return np.concatenate([parameters.mention * told, silent], axis=1) / len(EMOTIONS)


def emotion_score(
    parameters: EmotionParameters = DEFAULT,
    speaker: Speaker | None = None,
    *,
    score: str = "confident_accuracy",
    uses_images: bool = False,
) -> float:
    """The score that an optimal judge reaches on one side, one utterance at a time, all classes counting equally.

    Where nothing tells of the emotion it is chance: 1/81 for ``confident_accuracy`` (1/9 sure, and right in one class
    of nine), 1/9 for ``accuracy`` and ``confidence``.

    Args:
        parameters: the world.
        speaker: None for people.
        score: a key of ``scores.SCORES``.
        uses_images: the judge also sees the painting, that is its colour.

    Raises:
        JudgeError: an unknown score.
    """
    table = motif_table(parameters, speaker)
    if uses_images:
        # Given the emotion, colours and motifs are independent.
        table = table[:, :, None] * _associated(parameters.colour_association)[:, None, :]
    return optimal_score(table, score)


def emotion_amplification(
    parameters: EmotionParameters = DEFAULT,
    speaker: Speaker | None = None,
    *,
    score: str = "confident_accuracy",
    uses_images: bool = False,
) -> float:
    """Generated minus human side for an optimal judge: LIC's truth, or with ``confidence`` ImageCaptioner2's.

    Raises:
        JudgeError: an unknown score.
    """
    human = emotion_score(parameters, score=score, uses_images=uses_images)
    return emotion_score(parameters, speaker, score=score, uses_images=uses_images) - human


def emotion_truth(
    speakers: Mapping[str, Speaker] = SPEAKERS, parameters: EmotionParameters = DEFAULT
) -> dict[str, dict[str, float]]:
    """Speaker -> {"lic", "imagecaptioner2"}: :func:`emotion_amplification`, fractions; in ``speakers``' order."""
    return {
        name: {
            "lic": emotion_amplification(parameters, speaker),
            "imagecaptioner2": emotion_amplification(parameters, speaker, score="confidence", uses_images=True),
        }
        for name, speaker in speakers.items()
    }


def _leaning(right: float) -> FloatArray:
    """[9, 9]: ``right`` on the diagonal, the rest shared alike."""
    others = (1 - right) / (len(EMOTIONS) - 1)
    return np.where(np.eye(len(EMOTIONS), dtype=np.bool_), right, others)


def _associated(association: float) -> FloatArray:
    """[9, 9]: P(motif or colour | emotion)."""
    return _leaning(association + (1 - association) / len(EMOTIONS))


@dataclass(frozen=True)
class Paintings:
    """Paintings and how five people feel before each; everything follows from parameters, size and seed.

    Attributes:
        parameters: what the closed forms take.
        seed: of every stream.
        emotion: [N] index into ``EMOTIONS``, what most people feel; -1 where none is felt by most.
        motif: [N] index of the motif, which is that of the emotion of the same index.
        colour: [N] the same of the colour.
        felt: [N, 5] what each person feels.
    """

    parameters: EmotionParameters
    seed: int
    emotion: IntArray
    motif: IntArray
    colour: IntArray
    felt: IntArray


def draw_paintings(
    images: int = 1200, *, seed: int = 0, parameters: EmotionParameters = DEFAULT, ties: float = 0.05
) -> Paintings:
    """``images`` paintings with an emotion that most people feel, and a share ``ties`` of them more without one.

    Emotions have :data:`SHARES`, rounded down, what is left over going to the first; in random order.

    Raises:
        JudgeError: fewer than nine images; ``ties`` outside [0, 1]; a negative seed.
    """
    if images < len(EMOTIONS):
        raise JudgeError(f"{images} images", mend=f"ask for {len(EMOTIONS)} or more")
    check_within("ties", ties)
    rng = stream(seed, "paintings")
    counts = np.floor(np.array(SHARES) * images).astype(np.int64)
    counts[0] += images - counts.sum()
    emotion = rng.permutation(np.repeat(np.arange(len(EMOTIONS)), counts))
    undecided = rng.integers(len(EMOTIONS), size=round(ties * images))
    looks = np.concatenate([emotion, undecided])
    motif = other_than(looks, 1 - _diagonal(parameters.association), rng)
    colour = other_than(looks, 1 - _diagonal(parameters.colour_association), rng)
    felt = np.concatenate([_felt(emotion, parameters.agreement, rng), _tied(undecided, rng)])
    none = np.full(len(undecided), -1)
    order = rng.permutation(len(looks))
    return Paintings(parameters, seed, np.concatenate([emotion, none])[order], motif[order], colour[order], felt[order])


def other_than(values: IntArray, probability: float | FloatArray, rng: np.random.Generator) -> IntArray:
    """``values``, each with ``probability`` one of the eight other indices, all alike."""
    other = (values + rng.integers(1, len(EMOTIONS), values.shape)) % len(EMOTIONS)
    return np.where(rng.random(values.shape) < probability, other, values)


def told_motifs(paintings: Paintings, emotion: IntArray, dwell: float, rng: np.random.Generator) -> IntArray:
    """[N, ...] what utterances written with ``emotion`` [N, ...] tell: the index of a motif, or -1 for none."""
    of_painting = paintings.motif.reshape(-1, *[1] * (emotion.ndim - 1))
    told = np.where(rng.random(emotion.shape) < dwell, emotion, of_painting)
    return np.where(rng.random(emotion.shape) < paintings.parameters.mention, told, -1)


def _diagonal(association: float) -> float:
    return association + (1 - association) / len(EMOTIONS)


def _felt(emotion: IntArray, agreement: float, rng: np.random.Generator) -> IntArray:
    """[N, 5]: each is ``emotion`` with probability ``agreement``, and three of a row at least are."""
    # Of two places in a row at most others are felt, each with so great a probability; then places are shuffled.
    others = np.zeros((len(emotion), UTTERANCES))
    others[:, :_MOST] = (1 - agreement) * UTTERANCES / _MOST
    felt = other_than(np.repeat(emotion[:, None], UTTERANCES, axis=1), others, rng)
    return rng.permuted(felt, axis=1)


def _tied(emotion: IntArray, rng: np.random.Generator) -> IntArray:
    """[N, 5]: two people feel ``emotion``, two another one, and one a third."""
    second, third = (emotion + 1) % len(EMOTIONS), (emotion + 2) % len(EMOTIONS)
    return rng.permuted(np.stack([emotion, emotion, second, second, third], axis=1), axis=1)


def describe_world(paintings: Paintings, speakers: Mapping[str, Speaker]) -> dict[str, object]:
    """What a world was made from, and its truth, for its file."""
    return {
        "seed": paintings.seed,
        "images": len(paintings.emotion),
        "parameters": asdict(paintings.parameters),
        "speakers": {name: asdict(speaker) for name, speaker in speakers.items()},
        "truth": emotion_truth(speakers, paintings.parameters),
    }
