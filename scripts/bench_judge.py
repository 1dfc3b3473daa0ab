"""What judges cost; of those that use images: what the feature cache saves, and decoders' speed.

    python scripts/bench_judge.py
    python scripts/bench_judge.py cost --judge grit --judge "hf, BLIP-base"
    python scripts/bench_judge.py cache --backbone resnet101

Scenes are drawn and weights random: speed does not depend on them. ``cost``: a few steps of every network in its own
size, on captions of COCO's lengths, by processor time of one thread, extrapolated to a whole training. ``cache``: SAT
trained on features that are computed once, compared with the same judge whose images are read, masked and passed
through the backbone in each batch; both on one thread, as members are trained.
``decoder``: the trainer's loop on cached features, on CPUs, compared with the rate of large matrix products in
float32. Work is that of matrix products. ``bench_gpu.py`` measures captioners on GPUs. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import cycle, islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Annotated, Any

import numpy as np
import torch
import typer
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from timing import machine, seconds, threads, wall_clock
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import FAITHFUL
from judge.commands.evaluate import RunConfig
from judge.commands.images import RunImages
from judge.config import make_config
from judge.corpus import Corpus
from judge.corpus.splits import Split
from judge.evidence import EvidenceBuilder
from judge.judges import Backbone, Blueprint, Features, Materials
from judge.judges.hf_prompts import plain
from judge.judges.names import find_judge
from judge.judges.prompts import make_prompt
from judge.masking.masked_images import MaskedImages
from judge.metrics import find_metric
from judge.text.lexicon import Lexicons, load_lexicon
from judge.training.feature_caches import ImageCache
from judge.training.features import precompute
from judge.training.launch import make_accelerator
from judge.training.loop import (
    MicroBatch,
    NetworkJudge,
    Trainer,
    Truth,
    load_batches,
    make_optimiser,
    weighted_loss,
)
from judge.training.member import Member
from judge.types import Sample, Target
from judge.utils.hub import quiet

CAPTIONS = 1856
"""Training captions of a judge, in LIC's hold-out of 3,597 images in two classes."""
EPOCHS = 40
"""Epochs of SAT."""
COUNTED = 8
"""Samples of the batch whose work is counted."""


@dataclass(frozen=True)
class Drawn:
    """Evidence of a drawn world: one human caption an image, and images whose people are hidden."""

    samples: tuple[Sample, ...]
    target: Target
    images: MaskedImages

    def materials(self, backbone: str, size: int) -> Materials:
        """The inputs of a judge that uses ``backbone`` on images of ``size`` pixels."""
        return Materials(self.images, backbone=backbone, backbone_weights="random", image_size=size)


def draw(scenes: int, size: int, folder: Path) -> Drawn:
    """A world in ``folder``, read as ``judge evaluate`` reads it."""
    files = write_world(make_world(scenes), {"none": FAITHFUL}, folder, pictures=size)
    corpus = Corpus.read(human=files.human, captions=[files.captions["none"]], labels=files.labels)
    builder = EvidenceBuilder(corpus, Lexicons(load_lexicon("gender")))
    evidence = builder.build(corpus.generated[0], find_metric("imagecaptioner2"))
    settings: dict[str, Any] = {"human": files.human, "captions": [files.captions["none"]], "labels": files.labels}
    settings |= {"images": folder / "images", "instances": folder / "instances.json", "mask": "segment"}
    config = make_config(settings | {"judge": ["sat", "grit"], "out": folder / "out"}, RunConfig)
    samples = tuple(evidence.slots["human", 0])
    images = RunImages(config, config.judge).hidden([sample.image_id for sample in samples])
    return Drawn(samples, evidence.target, images)


class Uncached(ImageCache):
    """``Features`` that are not cached: computed for every batch as the cache computes them."""

    def __init__(self, backbone: Backbone, images: MaskedImages, first: str, folder: Path) -> None:
        super().__init__(backbone, images, {}, folder)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.backbone.to(self.device)
        _, positions, columns = next(iter(self._batches([first], self.device))).shape
        self.shape = (positions, columns)

    def rows(self, samples: Sequence[Sample]) -> Tensor:
        """[B, P, D] float32."""
        names = [str(sample.image) for sample in samples]
        return torch.from_numpy(np.concatenate(list(self._batches(names, self.device))))


def use(*, cpu: bool = False, precision: str = "no") -> Accelerator:
    """Accelerate anew, on the GPU if there is one; it would otherwise keep the device that it chose first."""
    AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(cpu=True, mixed_precision=precision) if cpu else make_accelerator(mixed_precision=precision)


def train(
    blueprint: Blueprint,
    drawn: Drawn,
    materials: Materials,
    accelerator: Accelerator,
    *,
    clock: Callable[[], float] = wall_clock,
    **recipe: Any,
) -> tuple[NetworkJudge, list[float]]:
    """A judge trained as members are, and the seconds of each epoch."""
    assert blueprint.recipe
    stamps: list[float] = []
    trainer = Trainer(accelerator, on_epoch=lambda *_: stamps.append(clock()))
    judge = NetworkJudge(blueprint, drawn.target, replace(blueprint.recipe, keep="last", **recipe), trainer, materials)
    stamps.append(clock())
    judge.fit(drawn.samples, seed=0)
    return judge, [end - start for start, end in pairwise(stamps)]


def cached(name: str, drawn: Drawn, materials: Materials, folder: Path) -> Features:
    """Features from the cache in ``folder``, computed where they are not there yet."""
    member = Member(find_judge(name), drawn.target, drawn.samples, Split((), (), {}), seed=0)
    found: Features = precompute([member], materials, folder).features[name]
    return found


def save_reader(folder: Path, drawn: Drawn, **sizes: int) -> str:
    """A BERT with random weights, BERT-base where no ``sizes`` are given, saved to ``folder`` with a tokenizer."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tf: Any = transformers
    words = sorted({word for sample in drawn.samples for word in sample.words})
    ids = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    raw = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))  # noqa: S106 - not a password
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    with quiet():
        tf.BertModel(tf.BertConfig(**sizes)).save_pretrained(folder)
        tf.PreTrainedTokenizerFast(tokenizer_object=raw, **marks).save_pretrained(folder)
    return str(folder)


def time_costs(drawn: Drawn, given: Settings) -> None:
    """A table: steps of a whole training, and minutes of one core."""
    rng, words = np.random.default_rng(0), sorted({word for sample in drawn.samples for word in sample.words})
    lengths = rng.integers(8, 15, size=len(drawn.samples))  # COCO's captions have 10.5 words.
    texts = [tuple(rng.choice(words, size=length).tolist()) for length in lengths]
    drawn = replace(drawn, samples=tuple(replace(s, words=w) for s, w in zip(drawn.samples, texts, strict=True)))
    base = save_reader(given.folder / "bert", drawn)
    small = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    mini = save_reader(given.folder / "minilm", drawn, **small)
    bare, seen = Materials(), Materials(drawn.images, backbone_weights="random", reader=base)
    scratch = ("lstm", "lstm-bidirectional", "rnn", "rnn-bidirectional", "transformer-1", "transformer-5")
    ways = [(name, find_judge(name), bare) for name in (*scratch, "lstm+mlp3")]
    ways += [
        (f"{name}, {of}", find_judge(name), Materials(reader=reader))
        for name in ("bert-ft", "bert-pre")
        for of, reader in (("BERT-base", base), ("MiniLM-L6", mini))
    ]
    ways += [("sentence, MiniLM-L6", find_judge(f"sentence:{mini}"), bare)]
    ways += [(name, find_judge(name), seen) for name in ("sat", "sat-512", "grit", "vl-lic", "vl-lic-lstm")]
    ways += [("hf, BLIP-base", save_blip(given.folder / "blip", drawn), Materials(drawn.images))]
    print(f"\ncost: {CAPTIONS} training captions; {given.measured} steps measured, processor time of one thread")
    print("| judge | epochs | batch | steps | s a step | s a caption or image, once | minutes |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    for name, blueprint, given_to in ways:
        if given.judges and name not in given.judges:
            continue
        recipe, materials, once = blueprint.recipe, given_to, 0.0
        assert recipe
        if blueprint.backbone or blueprint.reader:
            # What is not of a caption or an image, such as loading, is measured by looking some up again.
            few = replace(drawn, samples=drawn.samples[:COUNTED])
            stamps = []
            for these in (few, few, drawn):
                stamps.append(process_time())
                features = cached(blueprint.name, these, materials, given.folder / "features")
            once = (process_time() - 2 * stamps[2] + stamps[1]) / (len(drawn.samples) - COUNTED)
            materials = replace(materials, features=features)
        batch = COUNTED if recipe.sharing == "data" else recipe.batch_size  # Micro-batches pass one by one.
        steps = 1 if recipe.sharing == "data" else given.measured
        several = replace(drawn, samples=tuple(islice(cycle(drawn.samples), batch * steps)))
        how: dict[str, Any] = {"batch_size": batch, "micro_batch": None, "epochs": 2, "clock": process_time}
        _, epochs = train(blueprint, several, materials, use(cpu=True), **how)
        step = epochs[-1] / steps * recipe.batch_size / batch
        number = recipe.epochs * -(-CAPTIONS // recipe.batch_size)
        minutes = (step * number + once * CAPTIONS) / 60
        cells = f"{recipe.epochs} | {recipe.batch_size} | {number} | {step:.3g} | {once:.2g} | {minutes:.2g}"
        print(f"| {name} | {cells} |", flush=True)


@dataclass(frozen=True)
class Settings:
    """Options of all parts; ``folder``: for the world, features and checkpoints."""

    folder: Path
    backbone: str
    size: int
    measured: int
    judges: Sequence[str]


def time_cache(drawn: Drawn, given: Settings) -> None:
    """All epochs with cached features, and with features computed for every batch."""
    blueprint, materials = find_judge("sat"), drawn.materials(given.backbone, given.size)
    assert blueprint.backbone
    measured, folder = min(given.measured, EPOCHS), given.folder / "features"
    first = str(drawn.samples[0].image)

    def trained(features: Features, epochs: int, among: Drawn = drawn) -> tuple[NetworkJudge, list[float]]:
        return train(blueprint, among, replace(materials, features=features), use(), epochs=epochs)

    def with_cache() -> float:
        total = seconds(lambda: trained(cached("sat", drawn, materials, folder), EPOCHS))
        print(f"with the cache: all epochs {total:.2f} s", flush=True)
        return total

    print(f"\ncache: sat on {given.backbone} at {given.size}, {len(drawn.samples)} images, {EPOCHS} epochs")
    plain = Uncached(blueprint.backbone(materials), drawn.images, first, folder)
    trained(plain, 1, replace(drawn, samples=drawn.samples[:4]))  # Imports are nobody's time.
    cold = with_cache()
    slow, epochs = trained(plain, measured)
    without = EPOCHS * statistics.mean(epochs)
    print(f"without: {statistics.mean(epochs):.2f} s an epoch, all {without:.2f} s (extrapolated from {measured})")
    warm = with_cache()
    print(f"ratio without / with the cache, cold: {without / cold:.2f}")
    print(f"ratio without / with the cache, warm: {without / warm:.2f}")
    quick, _ = trained(cached("sat", drawn, materials, folder), measured)
    ours, theirs = (judge.predict(drawn.samples[:COUNTED]).probabilities for judge in (quick, slow))
    print(f"largest difference of probabilities after {measured} epochs: {np.abs(ours - theirs).max():.1e}", flush=True)


def count_flops(network: Any, batch: Mapping[str, Any], samples: Sequence[Sample], target: Target) -> int:
    """Work of the matrix products of a training step, forward and backward, FLOP."""
    # Attention as plain products: the fused kinds compute some of them twice, which is no work of the model's.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        weighted_loss(network(batch).float(), Truth.of(samples, target)).backward()  # type: ignore[no-untyped-call]
    network.zero_grad()
    return int(counter.get_total_flops())


def matrix_rate(side: int = 2048, repeats: int = 5) -> float:
    """FLOP/s of a product of two square float32 matrices on the CPU; the best of some."""
    first, second = torch.randn(2, side, side)
    return 2 * side**3 / min(seconds(lambda: first @ second) for _ in range(repeats))


def time_decoders(drawn: Drawn, given: Settings) -> None:
    """A table: judges by threads."""
    print(f"\ndecoder: {len(drawn.samples)} images at {given.size}, median of {given.measured} epochs")
    print("| judge | threads | samples/s | MFLOP a sample | GFLOP/s | large products, GFLOP/s | share |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    backbones = {"sat": given.backbone, "sat-512": given.backbone, "grit": "swin_tiny_patch4_window7_224"}
    for name, backbone in backbones.items():
        materials = drawn.materials(backbone, given.size)
        materials = replace(materials, features=cached(name, drawn, materials, given.folder / "features"))
        for number in sorted({1, torch.get_num_threads()}):
            with threads(number):
                peak = matrix_rate()
                judge, epochs = train(find_judge(name), drawn, materials, use(cpu=True), epochs=1 + given.measured)
            samples = drawn.samples[: judge.recipe.batch_size]
            batch = judge.network.collate(samples)
            work = count_flops(judge.network, batch, samples, drawn.target) / len(samples)
            rate = len(drawn.samples) / statistics.median(epochs[1:])
            cells = f"{rate:.4g} | {work / 1e6:.4g} | {rate * work / 1e9:.4g} | {peak / 1e9:.4g}"
            print(f"| {name} on {backbone} | {number} | {cells} | {rate * work / peak:.3f} |", flush=True)


def save_blip(folder: Path, drawn: Drawn, *, size: int = 384, **widths: int) -> Blueprint:
    """The judge of a BLIP with random weights, BLIP-base where no ``widths`` are given, saved to ``folder``."""
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tf: Any = transformers
    split = pre_tokenizers.Whitespace()
    texts = [*(sample.text for sample in drawn.samples), make_prompt("gender").question, *drawn.target.classes]
    words = sorted({word for text in texts for word, _ in split.pre_tokenize_str(plain(text).lower())})
    ids = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *words])}
    raw = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))  # noqa: S106 - not a password
    raw.normalizer, raw.pre_tokenizer = normalizers.Lowercase(), split
    raw.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    marks = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=raw, **marks)
    text = {**widths, "encoder_hidden_size": widths.get("hidden_size", 768)}
    text |= {"bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 2, "pad_token_id": 0}
    text |= {"vocab_size": len(ids)} if widths else {}
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = tf.BlipConfig(text_config=text, vision_config={**widths, "image_size": size})
        tf.BlipForConditionalGeneration(config).save_pretrained(folder)
        tf.BlipProcessor(tf.BlipImageProcessor(size={"height": size, "width": size}), tokenizer).save_pretrained(folder)
    return find_judge(f"hf:{folder}")


def save_vlm(folder: Path, kind: str, text: dict[str, int], seeing: dict[str, int]) -> Path:
    """A LLaVA or Qwen2.5-VL with random weights in bf16, made on the device and saved with its processor."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    tf: Any = transformers
    folder = folder / kind
    words = ["<pad>", "<s>", "</s>", "<unk>", "<image>", "<|image_pad|>", "<|video_pad|>", "female", "male", "gender"]
    ids = {word: number for number, word in enumerate([*words, *(f"w{number}" for number in range(990))])}
    raw = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))  # noqa: S106 - not a password
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    token = "<image>" if kind == "llava" else "<|image_pad|>"
    marks = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    special = {"image_token": token, **({} if kind == "llava" else {"video_token": "<|video_pad|>"})}
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=raw, extra_special_tokens=special, **marks)
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    if kind == "llava":
        size = seeing["image_size"]
        images = tf.CLIPImageProcessor(size={"height": size, "width": size}, crop_size={"height": size, "width": size})
        config = tf.LlavaConfig(
            vision_config=tf.CLIPVisionConfig(**seeing).to_dict(),
            text_config=tf.LlamaConfig(**text, **ends).to_dict(),
            image_token_index=ids[token],
        )
        more = {"patch_size": seeing["patch_size"], "vision_feature_select_strategy": "default"}
        processor = tf.LlavaProcessor(images, tokenizer, num_additional_image_tokens=1, **more)
        make = tf.LlavaForConditionalGeneration
    else:
        rope = {"type": "mrope", "mrope_section": [16, 24, 24] if text["hidden_size"] > 64 else [2, 3, 3]}
        config = tf.Qwen2_5_VLConfig(
            text_config=tf.Qwen2_5_VLTextConfig(**text, **ends, rope_scaling=rope).to_dict(),
            vision_config={**seeing, "out_hidden_size": text["hidden_size"]},
            image_token_id=ids[token],
            video_token_id=ids["<|video_pad|>"],
        )
        videos = tf.Qwen2VLVideoProcessor()
        processor = tf.Qwen2_5_VLProcessor(tf.Qwen2VLImageProcessor(), tokenizer, videos)
        make = tf.Qwen2_5_VLForConditionalGeneration
    with quiet(), make_accelerator().device:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            model = make(config)
        finally:
            torch.set_default_dtype(before)
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
    return folder


def fine_tune(
    blueprint: Blueprint, drawn: Drawn, accelerator: Accelerator, *, batch: int, epochs: int, steps: int
) -> tuple[NetworkJudge, float]:
    """A captioner after ``epochs`` of ``steps`` batches, the first to warm up, and samples/s of the others."""
    several = replace(drawn, samples=tuple(islice(cycle(drawn.samples), batch * steps)))
    recipe: dict[str, Any] = {"epochs": epochs, "batch_size": batch, "micro_batch": None}
    judge, times = train(blueprint, several, Materials(drawn.images), accelerator, **recipe)
    return judge, len(several.samples) / statistics.median(times[1:])


def step_alone(
    judge: NetworkJudge, drawn: Drawn, accelerator: Accelerator, *, batch: int, steps: int
) -> tuple[float, float]:
    """Samples/s of optimiser steps on one batch that lies on the device, and FLOP a sample."""
    samples = list(islice(cycle(drawn.samples), batch))
    network: Any = judge.network.train()  # type: ignore[attr-defined]  # a module, as its protocol says
    optimiser = make_optimiser(network, judge.recipe)
    sizes = [MicroBatch(range(COUNTED)), MicroBatch(range(batch))]
    (few, _), (ready, truth) = load_batches(judge.network, samples, drawn.target, sizes, device=accelerator.device)
    with accelerator.autocast():
        work = count_flops(network, few, samples[:COUNTED], drawn.target) / COUNTED

    def run(times: int) -> None:
        for _ in range(times):
            optimiser.zero_grad()
            with accelerator.autocast():
                logits = network(ready)
            accelerator.backward(weighted_loss(logits.float(), truth) / batch)
            optimiser.step()

    run(3)  # To warm up.
    return batch * steps / seconds(lambda: run(steps)), work


class Part(StrEnum):
    """What is measured."""

    COST = "cost"
    CACHE = "cache"
    DECODER = "decoder"


def main(
    parts: Annotated[list[Part] | None, typer.Argument(help="what is measured; by default all")] = None,
    scenes: Annotated[int, typer.Option(help="images drawn, one caption each")] = 256,
    size: Annotated[int, typer.Option(help="pixels along a side")] = 224,
    measured: Annotated[int, typer.Option(help="epochs measured without a cache, and of a decoder")] = 2,
    backbone: Annotated[str, typer.Option(help="of SAT, by timm's name")] = "resnet50",
    judges: Annotated[list[str] | None, typer.Option("--judge", help="cost: rows of these names alone")] = None,
) -> None:
    """Draw, then measure each part."""
    print(machine(), flush=True)
    with TemporaryDirectory() as place:
        given = Settings(Path(place), backbone, size, measured, judges or ())
        drawn = draw(scenes, size, given.folder / "world")
        for part in parts or [*Part]:
            if part is Part.DECODER:
                time_decoders(drawn, given)
                continue
            with threads(1):
                (time_costs if part is Part.COST else time_cache)(drawn, given)


if __name__ == "__main__":
    typer.run(main)
