"""Captioners of Hugging Face's transformers: loading, and the choice of the weights that are trained.

Only code of transformers itself runs: ``trust_remote_code`` is always False, and weights are safetensors.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from judge.errors import JudgeError, require
from judge.judges import Tuning
from judge.judges.encoders import OutputLayer
from judge.utils import hub
from judge.utils.hub import explaining, first_line, is_of_library, knows_words, loading, locate, quiet

Layout = Literal["causal", "decoder", "encoder"]
"""Where a prompt goes. ``causal``: among the tokens that the answer continues, after the image or around it (BLIP,
BLIP-2, GIT, LLaVA, PaliGemma, Qwen2-VL). ``decoder``: into the decoder, while the encoder reads the image
(VisionEncoderDecoder, Florence-2). ``encoder``: beside the image, and the decoder contains the answer alone (BLIP-2 and
InstructBLIP with a T5)."""


@dataclass(frozen=True)
class Facts:
    """What transformers does not provide about an architecture of captioners.

    Attributes:
        layout: where prompts go; None if the configuration decides.
        prompt: its authors' prompt for a caption, "" for none; None if that depends on the processor.
        vision, language: names of the vision and text modules; "" if transformers finds them.
        inserts: its processor inserts the image's tokens into the text.
        mixes: transformers lets the images of a batch change each other's features, so that it cannot judge.
    """

    layout: Layout | None = None
    prompt: str | None = None
    vision: str = ""
    language: str = ""
    inserts: bool = False
    mixes: bool = False


# By transformers' name of the architecture. PaliGemma and Florence-2 were trained with these prompts; InstructBLIP's is
# its paper's (appendix E).
FACTS = {
    "blip-2": Facts(prompt="", inserts=True),
    "florence2": Facts("decoder", prompt="<CAPTION>", inserts=True),
    "git": Facts(vision="git.image_encoder", language="git.encoder"),
    "instructblip": Facts(prompt="A short image description:", inserts=True),
    **dict.fromkeys(("minicpmv4_6", "minicpmv4_7"), Facts(mixes=True)),
    "paligemma": Facts(prompt="caption en"),
    "pix2struct": Facts("decoder", prompt="", vision="encoder"),
    "vision-encoder-decoder": Facts("decoder", vision="encoder"),
}
PIXELS = "pixel_values"
# Errors of devices and out-of-memory errors, which are not the fault of a file.
_OF_DEVICES = re.compile("memory|alloc|cuda|cudnn|cublas|nccl|gloo|kernel image", re.IGNORECASE)


@dataclass(frozen=True)
class Captioner:
    """A loaded checkpoint.

    Attributes:
        reference: its folder, or its name on the hub.
        tokenizer: pads on the right, as absolute positions (BLIP, GIT, GPT-2, BART) require.
        images: the image processor.
        processor: of text and images together; None if the family has none (VisionEncoderDecoder).
    """

    reference: str
    model: Any
    tokenizer: Any
    images: Any
    processor: Any

    @property
    def architecture(self) -> str:
        """Its name in transformers ("blip-2")."""
        return str(self.model.config.model_type)

    @property
    def facts(self) -> Facts:
        """What transformers does not provide about the architecture."""
        return FACTS.get(self.architecture, Facts())

    @property
    def layout(self) -> Layout:
        """Where prompts go."""
        if self.facts.layout:
            return self.facts.layout
        config = self.model.config
        return "encoder" if config.is_encoder_decoder or config.get_text_config().is_encoder_decoder else "causal"

    @property
    def arguments(self) -> frozenset[str]:
        """Names of the arguments of the model's forward pass."""
        return frozenset(inspect.signature(self.model.forward).parameters)

    @property
    def limit(self) -> int | None:
        """Tokens that the text part has positions for, prompt included; None for no limit."""
        return limit_of(self.model.config.get_text_config(decoder=True), self.tokenizer)

    @property
    def vision(self) -> nn.Module | None:
        """The vision backbone; None if transformers does not know which module that is."""
        model, path = self.model, self.facts.vision
        found = model.get_submodule(path) if path else model.get_encoder(modality="image")
        return found if isinstance(found, nn.Module) and found is not model else None

    @property
    def language(self) -> nn.Module:
        """The text part; the whole model if transformers does not separate it."""
        path = self.facts.language
        found = self.model.get_submodule(path) if path else self.model.get_decoder()
        assert isinstance(found, nn.Module)
        return found


def place(reference: str) -> str:
    """What users typed to name this checkpoint."""
    return f"--judge hf:{reference}"


def load_captioner(
    reference: str,
    *,
    where: str | None = None,
    dtype: torch.dtype | Literal["auto"] = torch.float32,
    attention: str | None = None,
    empty: bool = False,
    device_map: torch.device | Literal["auto"] | None = None,
) -> Captioner:
    """The captioner in a folder, or of a name on the hub (downloaded by transformers, if allowed).

    ``where``: what users typed to name it, None for a judge; ``dtype``: of all weights, "auto" for the checkpoint's
    own. ``empty`` leaves the weights on ``meta``; else ``device_map`` says where they go: a device, "auto" for all GPUs
    together (Accelerate's device map), or None for the CPU.

    Raises:
        JudgeError: no such folder or name; not a captioner of images; needs code of its own; no or broken
            safetensors; weights, tokenizer or image processor missing; transformers is not installed.
    """
    where = where or place(reference)
    name = _find(reference, where)
    import transformers

    options = {"attn_implementation": attention} if attention else {}
    with quiet():
        try:
            loader, at = transformers.AutoModelForImageTextToText, torch.device("meta") if empty else device_map
            model = hub.load_model(loader, name, where, dtype=dtype, device_map=at, **options)
        except JudgeError as error:
            cause, pattern = error.__cause__, f"attention|{re.escape(attention or '')}"
            named = re.search(pattern, str(cause), re.IGNORECASE)
            if attention is None or not isinstance(cause, ImportError | ValueError) or not named:
                raise
            what, where = f"'{attention}' cannot be used ({first_line(cause)})", "--training attn_implementation"
            raise JudgeError(what, where=where, mend="leave it out, or choose eager") from cause
        return _wrapped(reference, model, *load_processors(name, where))


def wrap_captioner(model: Any, processor: Any) -> Captioner:
    """A captioner in memory, e.g. one in training; its processor is copied, the model is not.

    Raises:
        JudgeError: ``processor`` has no tokenizer or no image processor.
    """
    tokenizer, images = (getattr(processor, part, None) for part in ("tokenizer", "image_processor"))
    if tokenizer is None or images is None:
        mend = "give the processor of text and images, as AutoProcessor loads it"
        raise JudgeError("has no tokenizer or no image processor", where="processor", mend=mend)
    own = deepcopy(processor)
    return _wrapped("in memory", model, own.tokenizer, own.image_processor, own)


def _wrapped(reference: str, model: Any, tokenizer: Any, images: Any, processor: Any) -> Captioner:
    """The parts as this package needs them: padded on the right, and with a token for padding."""
    tokenizer.padding_side = "right"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if getattr(processor, "num_query_tokens", 1) is None:
        # Checkpoints of BLIP-2 saved before 2024 have it in the model's configuration.
        processor.num_query_tokens = model.config.num_query_tokens
    return Captioner(reference, model, tokenizer, images, processor)


def check_captioner(reference: str, *, where: str) -> None:
    """Refuse what :func:`load_captioner` refuses before it reads weights, with its errors, and a folder without any."""
    name = _find(reference, where)
    if Path(name).is_dir() and not any(Path(name).glob("*.safetensors")):
        raise JudgeError(hub.NO_WEIGHTS, where=where, mend=hub.CONVERT)


def _find(reference: str, where: str) -> str:
    """The path of a captioner's folder, or its name on the hub; its configuration is read, its weights are not."""
    require("vision", "transformers", "PIL")
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    mend = "choose a captioner: BLIP, GIT, ViT-GPT2, LLaVA, PaliGemma, Qwen2-VL"
    suits = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.__contains__
    return find(reference, where, suits, "does not caption images", mend)


def find(reference: str, where: str, suits: Callable[[str], bool], fault: str, mend: str) -> str:
    """The path of a checkpoint's folder, or its name on the hub; its configuration is read, its weights are not.

    A known architecture that does not suit is refused: ``fault`` follows its name in the message.
    """
    require("vision", "transformers")
    from transformers import CONFIG_MAPPING

    name = locate(reference, where)
    with quiet():
        config = hub.read_config(name, where)
    kind = config["model_type"]
    if kind in CONFIG_MAPPING:
        if suits(kind):
            return name
        raise JudgeError(f"'{kind}' {fault}", where=where, mend=mend)
    if config.get("auto_map"):
        raise hub.needs_code(where)
    raise JudgeError(f"transformers knows no '{kind}'", where=where, mend="update transformers, or choose another one")


@contextmanager
def computing(what: str, where: str) -> Iterator[None]:
    """Turn errors in a model's layers into JudgeErrors, except out-of-memory errors and faults of devices."""
    try:
        yield
    except BaseException as error:
        device = _OF_DEVICES.search(f"{type(error).__name__} {error}")
        if device or isinstance(error, JudgeError) or not is_of_library(error):
            raise
        reason = f"one of its files is damaged, or a setting does not suit it ({first_line(error)})"
        raise JudgeError(f"{what}: {reason}", where=where, mend="get it again, or leave the setting out") from error


def limit_of(config: Any, tokenizer: Any) -> int | None:
    """Longest input of a text model in tokens, by its configuration and its tokenizer; None for no limit.

    ``model_max_length`` of a tokenizer without a limit is 10^30.
    """
    positions = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    known = [value for value in (*positions, tokenizer.model_max_length) if isinstance(value, int)]
    return min((value for value in known if 0 < value < 2**31), default=None)


def load_processors(name: str, where: str) -> tuple[Any, Any, Any]:
    """Tokenizer, image processor, and the processor of both (None if the family has no such class)."""
    import transformers

    loaders: Any = transformers
    mend = "save them beside the weights (processor.save_pretrained)"
    with loading("its tokenizer or image processor is missing or at fault", where, mend):
        processor = loaders.AutoProcessor.from_pretrained(name, trust_remote_code=False)
        if hasattr(processor, "tokenizer") and hasattr(processor, "image_processor"):
            tokenizer, images = processor.tokenizer, processor.image_processor
        else:
            # VisionEncoderDecoder has no processor of its own.
            tokenizer = loaders.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            images, processor = loaders.AutoImageProcessor.from_pretrained(name, trust_remote_code=False), None
        if not knows_words(tokenizer):
            raise ValueError("the vocabulary is empty")
    return tokenizer, images, processor


def tune(captioner: Captioner, tuning: Tuning) -> tuple[nn.Module, ...]:
    """Choose the weights that are trained, through ``requires_grad``.

    ``full``: all. ``frozen``: all but the vision backbone. ``lora``: only the low-rank matrices of :func:`add_lora`
    (rank 16, alpha 32; Hu et al., ICLR 2022). ``zero-shot``: none. Returns the modules that stay in evaluation mode
    (dropout, running statistics).
    """
    if tuning == "full":
        return ()
    frozen = captioner.vision if tuning == "frozen" else captioner.model
    if frozen is None:
        what = f"the vision part of a '{captioner.architecture}' model is unknown"
        raise JudgeError(what, where=place(captioner.reference), mend="choose --tuning full, lora or zero-shot")
    frozen.requires_grad_(requires_grad=False)
    evaluating = captioner.model if tuning == "zero-shot" else captioner.vision
    return (evaluating,) if evaluating else ()


def copy_trained(captioner: Captioner, tuning: Tuning) -> Captioner:
    """The captioner with a copy of the weights that :func:`tune` leaves trainable; the others are shared."""
    if tuning == "zero-shot":
        return captioner
    part = {"full": None, "frozen": captioner.vision}.get(tuning, captioner.model)
    shared = {id(weight): weight for weight in part.parameters()} if part else {}
    return replace(captioner, model=deepcopy(captioner.model, shared))


def checkpoint_layers(captioner: Captioner) -> None:
    """Recompute layers in the backward pass and keep no activations; a JudgeError if the model does not support it."""
    what = f"a '{captioner.architecture}' model cannot recompute its layers"
    with explaining(what, "--training checkpointing", "leave it out"):
        captioner.model.activation_checkpointing_enable({"use_reentrant": False})
    # BLIP's text part fills its key-value cache, which is for generation, twice when a layer is computed again.
    for part in captioner.model.modules():
        if getattr(getattr(part, "config", None), "use_cache", False):
            part.config.use_cache = False
    # Only reentrant checkpoints need gradients of embeddings.
    if getattr(captioner.model, "_require_grads_hooks", None):
        captioner.model.disable_input_require_grads()


def spell_exactly(captioner: Captioner) -> None:
    """Turn the output layer over the vocabulary into an ``OutputLayer``, which computes in float32; in place."""
    words = _vocabulary_sizes(captioner.model)
    for layer in captioner.model.modules():
        if type(layer) is nn.Linear and layer.out_features in words:
            layer.__class__ = OutputLayer


def _vocabulary_sizes(model: Any) -> set[int]:
    """Words that it reads and that it writes: Llama Vision reads eight more."""
    output = model.get_output_embeddings()
    sizes = {model.get_input_embeddings().num_embeddings}
    return sizes | {output.out_features} if isinstance(output, nn.Linear) else sizes


def add_lora(captioner: Captioner) -> Any:
    """Add low-rank matrices to the text part's linear layers, except the output layer over the vocabulary, in place.

    Returns peft's wrapper of the model; raises a JudgeError if peft is not installed.
    """
    require("vision", "peft")
    from peft import LoraConfig, LoraModel
    from transformers.pytorch_utils import Conv1D

    model, words = captioner.model, _vocabulary_sizes(captioner.model)
    vision = captioner.vision
    inside = {*captioner.language.modules()} - {*(vision.modules() if vision else ()), model.get_output_embeddings()}
    linear = {name: of for name, of in model.named_modules() if of in inside and isinstance(of, nn.Linear | Conv1D)}
    layers = [name for name, module in linear.items() if words.isdisjoint(module.weight.shape)]
    with quiet():
        return LoraModel(model, LoraConfig(r=16, lora_alpha=32, target_modules=layers), "default")
