"""Judges: models that predict an attribute, or tasks, from captions and images in which it is hidden.

Each file of judges defines ``BLUEPRINTS``: name -> :class:`Blueprint`. A blueprint makes either a whole :class:`Judge`
(numpy in, numpy out, like ``linear``), or a :class:`Network` that ``judge.training`` fits: a text classifier, a
classifier on image and text, or a captioner whose logits are the log-probabilities of the answers after the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from judge.errors import JudgeError, nearest, require
from judge.judges.prompts import Prompt
from judge.types import FloatArray, IntArray, Predictions, Sample, Side, Target, Words
from judge.utils.plugins import load_plugin, origin, plugins

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
READING = "+reading"
"""Suffix of a Hugging Face captioner that is a frozen reader (``--tuning reading``)."""
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
        origin: package and version, of a judge of another package; set by :func:`find_judge`.
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


_ENCODERS = "lstm", "lstm-bidirectional", "rnn", "rnn-bidirectional", "transformer-1", "transformer-5"
# The registry: name -> module with its blueprint, imported on first use.
OF_BACKBONES = frozenset({"backbone", "backbone_weights", "image_size"})
"""Settings of every backbone, by their names in YAML."""
FILES: dict[str, str] = {
    **dict.fromkeys(("linear", "linear+image"), "linear"),
    **dict.fromkeys(_ENCODERS, "encoders"),
    **dict.fromkeys(("bert-ft", "bert-pre"), "text_encoders"),
    **dict.fromkeys(("sat", "sat-512"), "sat"),
    "grit": "grit",
    **dict.fromkeys(("vl-lic", "vl-lic-lstm"), "text_encoders"),
}
# Judges named by a checkpoint, on the hub or in a folder: prefix -> module whose ``make_blueprint`` takes the rest.
HUGGING_FACE, SENTENCE = "hf:", "sentence:"
PREFIXES = {HUGGING_FACE: "huggingface", SENTENCE: "text_encoders"}
# Judges that accept an MLP, which a metric's paper chooses: "rnn+mlp3", "sentence:all-MiniLM-L6-v2+mlp5".
HEADED = frozenset(_ENCODERS)
HEADS = (3, 5)
# Linear judges that read a static embedding; its reference may follow: "words+embedding:PATH".
EMBEDDED = ("words+embedding", "embedding", "best", "words+embedding+image")
DEFAULT_JUDGE, SEEING = EMBEDDED[0], EMBEDDED[-1]
# Beside timm's names of backbones, and "hf:NAME": random patches of a run's images.
PATCHES = "patches"
# Stands for the checkpoint that wrote the captions: ImageCaptioner2's self-assessment.
SELF = "self"
# Suffix of a judge's name -> the modality that is blanked.
BLANKED: dict[str, Modality] = {"-image-only": "caption", "-caption-only": "image"}


def find_judge(name: str) -> Blueprint:
    """The blueprint called ``name``.

    A suffix blanks a modality ("sat-image-only"). "hf:NAME" is any Hugging Face captioner, by name or folder, with
    "+reading" as a frozen reader, and "sentence:NAME" any sentence encoder. "+mlp3" and "+mlp5" put an MLP of 3 or 5
    layers on an encoder; the default is 3, except for "lstm", which has LIC's linear layer. "self" has a name only;
    see :func:`name_self`.

    Raises:
        JudgeError: no such judge (the nearest name is suggested), or its extra is not installed.
    """
    name = name.strip()
    key = name.lower()
    if plugin := load_plugin("judges", key, Blueprint, [*EMBEDDED, *FILES, SELF]):
        return replace(plugin, name=key, origin=origin("judges", key))
    for suffix, blanked in BLANKED.items():
        if key.endswith(suffix):
            whole = find_judge(name[: -len(suffix)])
            left = whole.modalities - whole.blanked
            if len(left) < 2:
                what = f"judge '{whole.name}' reads the {next(iter(left))} alone"
                raise JudgeError(what, where="--judge", mend=f"use '{whole.name}'")
            return replace(whole, name=whole.name + suffix, blanked=frozenset({blanked}))
    prefix = key.partition(":")[0] + ":"
    if prefix[:-1] in EMBEDDED:
        found: Blueprint = import_module(f"{__name__}.linear").make_blueprint(f"{prefix[:-1]}{name[len(prefix) - 1 :]}")
        return found
    if key in {SELF, SELF + READING} or prefix in PREFIXES:
        return _of_checkpoint(name)
    base, head = split_head(key)
    if base not in FILES or (head and base not in HEADED):
        known = [*EMBEDDED, *FILES, *plugins("judges")]
        if head:
            known = [f"{encoder}+mlp{layers}" for encoder in sorted(HEADED) for layers in HEADS]
        raise JudgeError(f"unknown judge '{name}'", where="--judge", mend=nearest(key, known))
    try:
        blueprint: Blueprint = import_module(f"{__name__}.{FILES[base]}").BLUEPRINTS[key]
    except ModuleNotFoundError as error:
        what = f"judge '{key}' needs the package '{error.name}'"
        raise JudgeError(what, where="--judge", mend="install it: pip install 'caption-judge[all]'") from error
    return blueprint


def _of_checkpoint(name: str) -> Blueprint:
    """The judge of a checkpoint; "self" stands for some checkpoint of Hugging Face."""
    require("vision", "accelerate", "torch", "transformers")
    key = name.lower()
    if key in {SELF, SELF + READING}:
        return replace(_of_checkpoint(f"{HUGGING_FACE}{key}"), name=key)
    prefix = key.partition(":")[0] + ":"
    module = "hf_reading" if prefix == HUGGING_FACE and key.endswith(READING) else PREFIXES[prefix]
    made: Blueprint = import_module(f"{__name__}.{module}").make_blueprint(name[len(prefix) :])
    return made


def with_embedding(name: str, reference: str) -> str:
    """The full name of a judge in a run whose embedding is ``reference``; "none" leaves the words, if it reads any.

    Names with a reference, and judges that read no static embedding, are returned unchanged.
    """
    key = name.strip().lower()
    if key not in EMBEDDED or not reference:
        return name
    if reference != "none":
        return f"{key}:{reference}"
    if key not in {DEFAULT_JUDGE, SEEING}:
        raise JudgeError(f"judge '{key}' needs an embedding", where="--embedding none", mend="use --judge linear")
    return "linear" if key == DEFAULT_JUDGE else "linear+image"


def with_reading(name: str) -> str:
    """The full name of a judge under ``--tuning reading``: a Hugging Face captioner is a frozen reader."""
    kind, reference, suffix = split_reference(name)
    reads = kind not in {HUGGING_FACE, SELF} or suffix.startswith(READING)
    return name if reads else f"{kind}{reference}{READING}{suffix}"


def with_head(name: str, head: int | None) -> str:
    """The full name of a judge under a metric whose paper puts an MLP of ``head`` layers on encoders (None: none).

    Names with an MLP, and judges that accept none, are returned unchanged.
    """
    base, own = split_head(name.strip())
    headed = base.lower() in HEADED or base.lower().startswith(SENTENCE)
    return name if head is None or own is not None or not headed else f"{base}+mlp{head}"


def split_head(name: str) -> tuple[str, int | None]:
    """The encoder's name and the MLP's layers: ("rnn", 3) for "rnn+mlp3"; None if the name has no MLP."""
    for layers in HEADS:
        if name.lower().endswith(f"+mlp{layers}"):
            return name[: -len(f"+mlp{layers}")], layers
    return name, None


def split_reference(name: str) -> tuple[str, str, str]:
    """Kind, checkpoint or embedding, and rest of a judge's name: ("hf:", "org/name", "-image-only"); "" for no part.

    The rest of a frozen reader begins with "+reading".
    """
    kind, colon, rest = name.partition(":") if ":" in name else ("", "", name)
    head = split_head(rest)[1] if f"{kind}:" == SENTENCE else None
    known = [of + blanked for of in (READING, "") for blanked in (*BLANKED, "")]
    suffix = f"+mlp{head}" if head else next(suffix for suffix in known if rest.endswith(suffix))
    rest = rest.removesuffix(suffix)
    return (f"{kind}:", rest, suffix) if colon else (rest, "", suffix)


def name_self(judge: str, captioner: str, models: Mapping[str, str]) -> str:
    """Resolve "self" ("self-image-only") to the checkpoint that wrote a captioner's captions; ``models`` names it.

    Other names of judges are returned unchanged.
    """
    kind, _, suffix = split_reference(judge)
    if kind != SELF:
        return judge
    if captioner not in models:
        what = f"the checkpoint that wrote the captions of '{captioner}' is unknown"
        raise JudgeError(what, where=f"--judge {judge}", mend=f"add --model {captioner}=CHECKPOINT")
    return f"{HUGGING_FACE}{models[captioner]}{suffix}"
