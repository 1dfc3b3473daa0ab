"""Judges: models that predict an attribute, or tasks, from captions and images in which it is hidden.

Each file of judges defines ``BLUEPRINTS``: name -> :class:`Blueprint`. A blueprint makes either a whole :class:`Judge`
(numpy in, numpy out, like ``linear``), or a :class:`Network` that ``judge.training`` fits: a text classifier, a
classifier on image and text, or a captioner whose logits are the log-probabilities of the answers after the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from judge.judges.prompts import Prompt
from judge.types import FloatArray, IntArray, Predictions, Sample, Side, Target, Words

if TYPE_CHECKING:
    from torch import Tensor, device

    from judge.masking.instances import Pixels
    from judge.masking.masked_images import MaskedImages

Batch = Mapping[str, Any]
Sharing = Literal["members", "data"]
Modality = Literal["caption", "image"]
Answering = Literal["restricted", "vocabulary"]
Tuning = Literal["full", "frozen", "lora", "zero-shot", "reading"]
Stored = Literal["float32", "bf16"]


class Judge(Protocol):
    """A judge as ``judge.measure`` uses it: numpy in, numpy out."""

    def fit(self, samples: Sequence[Sample], *, seed: int, validation: Sequence[Sample] = ()) -> Self:
        """Train on ``samples``; the result depends only on them, their weights and ``seed``."""

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A], rows in the order of ``samples``."""


class Network(Protocol):
    """The network of a judge; also a ``torch.nn.Module``."""

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Tensors for these samples, on the CPU, with any keys; the trainer moves them to the device.

        Numbers that ``__call__`` reads on the host, such as lengths, are ints: it must never wait for a GPU.
        """

    def __call__(self, batch: Batch) -> Tensor:
        """Logits over the target's classes, [B, A]."""


class Features(Protocol):
    """Features of images from a frozen backbone, or of captions from a frozen encoder."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(P, D): positions of an image (1 for a caption), and features of each."""

    @property
    def regions(self) -> int:
        """How many of the positions, the last ones, are boxes."""

    def rows(self, samples: Sequence[Sample]) -> Tensor:
        """[B, P, D] float16, on the CPU; zeros for a sample without an image."""


class Backbone(Protocol):
    """A frozen network that turns images into features."""

    @property
    def key(self) -> str:
        """What its features depend on: architecture, weights by content, size, library version."""

    @property
    def regions(self) -> int:
        """R, the number of boxes that it takes beside an image; the last R positions are theirs. Usually 0."""

    def to(self, place: device, /) -> object:
        """Move its weights to a device."""

    def prepare(self, pixels: Pixels) -> Tensor:
        """An image [H, W, 3] uint8 as the network's input, [3, S, S] float32."""

    def __call__(self, images: Tensor, /, *boxes: Tensor) -> Tensor:
        """[B, 3, S, S] -> [B, P, D]; with regions also [B, R, 4] (left, top, right, bottom in [0, 1]; 0 for no box)."""


class FrozenReader(Protocol):
    """A frozen network that turns captions, or images with a caption, into vectors."""

    @property
    def key(self) -> str:
        """Identify the vectors: weights and tokenizer by content, pooling, prompt, library versions."""

    def to(self, place: device, /) -> object:
        """Move its weights to a device."""

    def prepare(self, sample: Sample) -> Any:
        """Return the part of a sample that is read: its words, with or without its image. Several threads call it."""

    def collate(self, prepared: Sequence[Any]) -> Batch:
        """Tensors for prepared samples, on the CPU."""

    def __call__(self, batch: Batch) -> Tensor:
        """[B, D]."""


@dataclass(frozen=True, slots=True)
class Materials:
    """What networks are made from, besides their samples.

    Attributes:
        images: for judges that use them.
        prompt: of captioners; None for ``make_prompt("gender")``.
        answering: whether a captioner's softmax is over the whole vocabulary (ImageCaptioner2, eq. 2) or the answers.
        backbone: timm's name of the image network, or "hf:NAME" of transformers; None for the judge's own.
        backbone_weights: "pretrained" (the network's own), "random", or a file; of "hf:NAME" also another folder.
        image_size: side of the backbone's input in pixels; None for its own.
        image_features: file of vectors that another tool computed, in place of a backbone of linear judges.
        tuning: which part of a Hugging Face captioner is trained.
        dtype: type of its matrices that are not trained; all other weights are float32.
        checkpointing: recompute its activations in the backward pass. The numbers are the same, up to rounding.
        attention: transformers' name of the attention implementation; None for the model's own choice.
        reader: name or folder of the text encoder of "vl-lic", "bert-ft" and "bert-pre"; None for bert-base-uncased.
        patches: the mean, whitening and dictionary of random patches that a trained judge has; None to draw new ones.
        features: of the images by the blueprint's backbone, or of the captions by its reader; set by the trainer.
        empty: whether weights may stay on ``meta``, since another process sends its own; set by the trainer.
    """

    images: MaskedImages | None = None
    prompt: Prompt | None = None
    answering: Answering = "vocabulary"
    backbone: str | None = None
    backbone_weights: str = "pretrained"
    image_size: int | None = None
    image_features: Path | None = None
    tuning: Tuning = "full"
    dtype: Stored = "float32"
    checkpointing: bool = False
    attention: str | None = None
    reader: str | None = None
    patches: Mapping[str, Any] | None = None
    features: Features | None = None
    empty: bool = False


NOTHING = Materials()
OF_BACKBONES = frozenset({"backbone", "backbone_weights", "image_size"})
"""Settings of every backbone, by their names in YAML."""
#: Settings of judges that take a prompt.
PROMPTED = frozenset({"template", "answers", "answer_softmax"})
#: Settings of a run -> their names in :class:`Materials`, where these differ.
OPTIONS = {"answer_softmax": "answering", "attn_implementation": "attention"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a network is trained. The loss depends on the target.

    Attributes:
        epochs: passes over the training samples.
        learning_rate: of Adam.
        batch_size: samples per optimiser step, over all processes.
        micro_batch: samples per forward pass and process; gradients add up to those of the batch. None for the
            process's whole share, "usual" for 8, or the whole share under batch normalisation.
        keep: weights of the "last" epoch, or of the one with the "best" validation loss.
        patience: epochs without a better validation loss after which training ends; None for all epochs.
        sharing: default use of several processes: each trains whole "members" (many small judges), or all train one
            judge, "data"-parallel (large ones).
        warmup: share of all steps in which the learning rate rises linearly from 0.
        decay: whether it then falls linearly to 0.
        clip: largest norm of a step's gradient, over all weights; longer gradients are scaled down. None for no limit.
    """

    epochs: int
    learning_rate: float
    batch_size: int = 64
    micro_batch: int | Literal["usual"] | None = None
    keep: Literal["last", "best"] = "last"
    patience: int | None = None
    sharing: Sharing = "members"
    warmup: float = 0.0
    decay: bool = False
    clip: float | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Training and test samples of one of several judges that are trained jointly.

    Attributes:
        samples: of one side and caption index; shared by all assignments that split them.
        train: places of the training samples in ``samples``.
        weights: of the training samples, [N].
        predict: places of the samples to predict.
        seed: of the split; the same for all assignments with this split.
        settings: chosen before, e.g. {"C": 0.1}; empty if training chooses them.
    """

    side: Side
    samples: Sequence[Sample]
    train: IntArray
    weights: FloatArray
    predict: IntArray
    seed: int
    split: Hashable = None
    settings: Mapping[str, float] = field(default_factory=dict)


class SelfTrained(Judge, Protocol):
    """A judge that is not trained by ``judge.training``, and can be saved as a vocabulary and tensors."""

    @property
    def vocabulary(self) -> Words:
        """The words that the tensors refer to."""

    def tensors(self) -> dict[str, Any]:
        """Name -> numpy array."""


Keep = Callable[[int, SelfTrained], None] | None
"""Called with the place of an assignment, and its trained judge; None to keep none."""


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The weights of terms in P judges of A classes, trained on the same N captions.

    Attributes:
        terms: names, [F]: words, or two neighbours joined by a space. A name may occur twice.
        contains: how much of each term a caption contains, [N, F], sparse: 0 or 1, or its part in an embedding.
        weights: what a term adds to the log-probability of each class, up to a constant for all classes, [P, F, A].
        predictions: of each judge, [P], as from ``joint``.
    """

    terms: tuple[str, ...]
    contains: Any
    weights: FloatArray
    predictions: list[Predictions]


@dataclass(frozen=True, slots=True)
class Blueprint:
    """How the judge of one name is made.

    Attributes:
        name: as users type it, and as tables print it.
        reference: paper and place, or what it stands in for.
        judge: makes a judge that trains itself, for a target.
        joint: trains all judges of a captioner at once, if they share work or choices; returns their predictions. The
            last argument is an ``ImageVectors`` of a judge with a backbone or a reader, else None.
        explain: trains judges again with the settings that ``joint`` chose, and returns their weights; for judges
            whose log-odds are linear in terms.
        restore: makes a judge that trains itself from its vocabulary and tensors, if it can be saved. One that reads
            vectors has its ``ImageVectors`` in ``images``.
        network: makes an untrained network for a target, from its training samples (vocabulary) and materials. The
            global torch generator is seeded before.
        recipe: how to train the network.
        modalities: its inputs; metrics that hide people in images need a judge that uses images.
        backbone: makes the frozen network that computes features of images.
        regions: whether that takes boxes.
        reader: makes the frozen network that computes vectors of captions, for a judge without a backbone; of images
            with a caption, if the judge uses images. Judges with equal makers share the vectors.
        fingerprint: what its numbers depend on besides settings, name -> content: the weights that training starts
            from, versions of libraries. It replaces settings of the same names, which are paths.
        tuned: recipes for other ways of tuning.
        blanked: modalities that are removed, to find where bias enters ("sat-image-only").
        reads: settings of a run that its network reads through :class:`Materials`, besides those of a backbone.
        origin: package and version, of a judge of another package; set by :func:`~judge.judges.names.find_judge`.
    """

    name: str
    reference: str
    judge: Callable[[Target], Judge] | None = None
    joint: Callable[[Target, Sequence[Assignment], Keep, Any], list[Predictions]] | None = None
    explain: Callable[[Target, Sequence[Assignment]], Explanation] | None = None
    restore: Callable[[Target, Words, Mapping[str, Any]], SelfTrained] | None = None
    network: Callable[[Target, Sequence[Sample], Materials], Network] | None = None
    recipe: Recipe | None = None
    modalities: frozenset[Modality] = frozenset({"caption"})
    backbone: Callable[[Materials], Backbone] | None = None
    regions: bool = False
    reader: Callable[[Materials], FrozenReader] | None = None
    fingerprint: Callable[[Materials], Mapping[str, str]] | None = None
    tuned: Mapping[Tuning, Recipe] = field(default_factory=dict)
    blanked: frozenset[Modality] = frozenset()
    reads: frozenset[str] = frozenset()
    origin: str = ""

    @property
    def options(self) -> frozenset[str]:
        """Settings of a run, by their names in YAML, that affect this judge."""
        found = set(self.reads)
        if self.recipe:
            found |= {part.name for part in fields(Recipe)} | {"precision", "dataloader_workers"}
        if self.backbone:
            found |= OF_BACKBONES
        return frozenset(found)

    @property
    def reads_vectors(self) -> bool:
        """True for judges that read a vector of each image, which a file may hold (``--image-features``)."""
        return self.joint is not None and self.backbone is not None

    @property
    def keeps_weights(self) -> bool:
        """True for judges that can be stored when they are trained."""
        return self.network is not None or self.restore is not None

    def perceive(self, sample: Sample) -> Sample:
        """The sample with the blanked modalities removed."""
        if not self.blanked:
            return sample
        words = () if "caption" in self.blanked else sample.words
        return replace(sample, words=words, image=None if "image" in self.blanked else sample.image)
