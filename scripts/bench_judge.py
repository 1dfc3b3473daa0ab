"""Judges that see: what a feature cache saves, how fast decoders train, how well a GPU is used.

    python scripts/bench_judge.py
    python scripts/bench_judge.py --parts cache --backbone resnet101 --whole
    python scripts/bench_judge.py --parts decoder --measured 5
    python scripts/bench_judge.py --parts gpu --batch 128

Scenes are drawn, weights random: speed does not depend on them. ``cache``: SAT trained on features that are computed
once, against the same judge whose pictures are read, masked and passed through the backbone with each batch; both on
one thread, as members are trained. ``decoder``: the trainer's loop on cached features, on CPUs, against the rate of
large matrix products in float32. ``gpu``: a captioner of BLIP-base's size fine-tuned in bf16, by the trainer and with a
prepared batch, against the trainer on the CPU in float32. Only matrix products are counted as work.
Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import FAITHFUL
from judge.commands.evaluate import RunConfig
from judge.commands.run_images import RunImages
from judge.config import make_config
from judge.corpus import Corpus
from judge.corpus.splits import Split
from judge.evidence import EvidenceBuilder
from judge.judges import Backbone, Blueprint, Features, Materials, find_judge
from judge.judges.hf_prompts import plain
from judge.judges.prompts import make_prompt
from judge.judges.sat import ShowAttendTell
from judge.masking.detectors.weights import choose_device
from judge.masking.masked_images import MaskedImages
from judge.metrics import find_metric
from judge.text.lexicon import Lexicons, load_lexicon
from judge.training.batches import MicroBatch, load_batches
from judge.training.features import PictureCache, precompute
from judge.training.launch import make_accelerator
from judge.training.loop import NetworkJudge, Trainer
from judge.training.losses import Truth, make_optimiser, weighted_loss
from judge.training.member import Member
from judge.types import Sample, Target
from judge.utils.hub import quiet

PARTS = ("cache", "decoder", "gpu")
PEAKS = {"H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989e12, "H200": 989e12, "A100": 312e12}
"""Dense products in bf16, FLOP/s, by NVIDIA's data sheets; the first name that the device's holds."""
COUNTED = 8
# The widths of a small BLIP.
SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 400,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "sep_token_id": 2,
    "pad_token_id": 0,
}


@dataclass(frozen=True)
class Drawn:
    """Evidence of a drawn world: one human caption an image, and pictures whose people are hidden."""

    samples: tuple[Sample, ...]
    target: Target
    pictures: MaskedImages

    def materials(self, backbone: str, size: int) -> Materials:
        """What a judge that sees with ``backbone`` is given."""
        return Materials(self.pictures, backbone=backbone, backbone_weights="random", image_size=size)


def draw(scenes: int, size: int, folder: Path) -> Drawn:
    """A world in ``folder``, read as ``judge evaluate`` reads it."""
    files = write_world(make_world(scenes), {"none": FAITHFUL}, folder, pictures=size)
    files_given = {"human": files.human, "captions": [files.captions["none"]], "labels": files.labels}
    corpus = Corpus.read(human=files.human, captions=[files.captions["none"]], labels=files.labels)
    assert corpus.labels is not None
    builder = EvidenceBuilder(corpus, Lexicons(load_lexicon("gender")))
    evidence = builder.build(corpus.generated[0], find_metric("imagecaptioner2"))
    pictures = {"images": folder / "images", "instances": folder / "instances.json", "judge": ["sat", "grit"]}
    config = make_config({**files_given, **pictures, "mask": "segment", "out": folder / "out"}, RunConfig)
    samples = tuple(evidence.slots["human", 0])
    return Drawn(
        samples, evidence.target, RunImages(config, config.judge).hidden([sample.image_id for sample in samples])
    )


class Uncached(PictureCache):
    """``Features`` that are not cached: computed for every batch as the cache computes them."""

    def __init__(self, backbone: Backbone, pictures: MaskedImages, images: Sequence[str], folder: Path) -> None:
        super().__init__(backbone, pictures, {}, folder)
        self.device = choose_device(None)
        self.backbone.to(self.device)  # type: ignore[attr-defined]  # a module, as its protocol says
        _, self.positions, self.columns = self.features(images[:1], self.device).shape

    @property
    def shape(self) -> tuple[int, int]:
        """(P, D)."""
        return self.positions, self.columns

    def rows(self, samples: Sequence[Sample]) -> Tensor:
        """[B, P, D] float32."""
        return torch.from_numpy(self.features([str(sample.image) for sample in samples], self.device))


def clock() -> float:
    """Seconds, once the GPU is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Torch's arithmetic on so many."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def use(*, cpu: bool = False, precision: str = "no") -> Accelerator:
    """Accelerate on the GPU, if there is one; on the CPU if so wanted, which it would else decide once for all."""
    AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(cpu=True, mixed_precision=precision) if cpu else make_accelerator(mixed_precision=precision)


def train(
    blueprint: Blueprint, drawn: Drawn, materials: Materials, accelerator: Accelerator, **recipe: Any
) -> tuple[NetworkJudge, list[float]]:
    """A judge trained as members are, and the seconds of each epoch."""
    assert blueprint.recipe
    stamps: list[float] = []
    trainer = Trainer(accelerator, on_epoch=lambda *_: stamps.append(clock()))
    judge = NetworkJudge(blueprint, drawn.target, replace(blueprint.recipe, keep="last", **recipe), trainer, materials)
    stamps.append(clock())
    judge.fit(drawn.samples, seed=0)
    return judge, [end - start for start, end in pairwise(stamps)]


def cached(name: str, drawn: Drawn, materials: Materials, folder: Path) -> tuple[Features, float]:
    """Features out of the cache in ``folder``, computed if need be, and how long that took."""
    start = clock()
    member = Member(find_judge(name), drawn.target, drawn.samples, Split((), (), {}), seed=0)
    precomputed = precompute([member], materials, folder)
    return precomputed.features[name], clock() - start


def time_cache(drawn: Drawn, given: argparse.Namespace, folder: Path) -> None:
    """The part ``cache``, on as many threads as were asked for."""
    with threads(given.threads):
        compare_ways(drawn, given, folder)


def compare_ways(drawn: Drawn, given: argparse.Namespace, folder: Path) -> None:
    """All epochs with cached features and with features computed for every batch."""
    blueprint, materials = find_judge("sat"), drawn.materials(given.backbone, given.size)
    measured = given.epochs if given.whole else min(given.measured, given.epochs)
    first = str(drawn.samples[0].image)

    def trained(features: Features, epochs: int, among: Drawn = drawn) -> tuple[NetworkJudge, list[float]]:
        return train(blueprint, among, replace(materials, features=features), use(), epochs=epochs)

    def uncached() -> tuple[Uncached, float]:
        assert blueprint.backbone
        start = clock()
        return Uncached(blueprint.backbone(materials), drawn.pictures, [first], folder), clock() - start

    def with_cache() -> tuple[Features, float]:
        features, seconds = cached("sat", drawn, materials, folder)
        total = seconds + sum(trained(features, given.epochs)[1])
        print(f"features computed or found {seconds:.2f} s, with training {total:.2f} s", flush=True)
        return features, total

    what = f"{len(drawn.samples)} pictures, {given.epochs} epochs, {given.threads} threads"
    print(f"\ncache: sat on {given.backbone} at {given.size}, {what}")
    trained(uncached()[0], 1, replace(drawn, samples=drawn.samples[:4]))  # Imports are nobody's time.
    _, cold = with_cache()
    features, making = uncached()
    slow, epochs = trained(features, measured)
    encoding = making + given.epochs * statistics.mean(epochs)
    how = "measured" if measured == given.epochs else f"extrapolated from {measured}"
    print(f"re-encoding {statistics.mean(epochs):.2f} s an epoch, all epochs {encoding:.2f} s ({how})", flush=True)
    kept, warm = with_cache()
    print(f"ratio re-encoding / cache, cold: {encoding / cold:.2f}")
    print(f"ratio re-encoding / cache, warm: {encoding / warm:.2f}")
    asked = drawn.samples[:COUNTED]
    ours, theirs = (judge.predict(asked).probabilities for judge in (trained(kept, measured)[0], slow))
    print(f"largest difference of probabilities after {measured} epochs: {np.abs(ours - theirs).max():.1e}")
    computed = features.rows(asked)
    apart = float((kept.rows(asked).float() - computed).abs().max() / computed.abs().max())
    print(f"largest difference of features, as a share of the largest: {apart:.1e}", flush=True)


def sat_flops(network: ShowAttendTell, lengths: Sequence[int]) -> int:
    """Work of the matrix products of a training step on texts of ``lengths`` words.

    A product of [m, k] and [k, n] is 2 m k n, and backwards it is two such: for each factor's gradient. (Features too
    have one: their normalisation is trained.) Every word that is read looks at all positions; words of padding pass
    through one layer.
    """

    def of(*layers: nn.Module) -> int:
        return sum(layer.weight.numel() for layer in layers if isinstance(layer, nn.Linear))

    positions, hidden = network.features.shape[0], network.memory.in_features
    picture = positions * of(network.sight[1], network.look) + of(network.start)
    answer = of(network.from_memory, network.from_sight, network.output)
    word = of(network.ask, network.gate, network.sights, network.memory) + positions * (of(network.energy) + hidden)
    padded = len(lengths) * max(lengths) * of(network.words)
    return 3 * 2 * (len(lengths) * (picture + answer) + padded + sum(lengths) * word)


def count_flops(network: Any, batch: Mapping[str, Any], samples: Sequence[Sample], target: Target) -> int:
    """The same of any network, as torch counts its products."""
    # Attention as plain products: the fused kinds compute some of them twice, which is no work of the model's.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        weighted_loss(network(batch).float(), Truth.of(samples, target)).backward()  # type: ignore[no-untyped-call]
    network.zero_grad()
    return int(counter.get_total_flops())


def matrix_rate(side: int = 2048, repeats: int = 5) -> float:
    """FLOP/s of a product of two square float32 matrices on the CPU; the best of some."""
    first, second = torch.randn(2, side, side)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        first @ second
        seconds.append(time.perf_counter() - start)
    return 2 * side**3 / min(seconds)


def work_of(judge: NetworkJudge, drawn: Drawn) -> float:
    """FLOP a sample of a training step."""
    samples = drawn.samples[: judge.recipe.batch_size]
    batch = judge.network.collate(samples)
    if isinstance(judge.network, ShowAttendTell):
        return sat_flops(judge.network, batch["lengths"].tolist()) / len(samples)
    return count_flops(judge.network, batch, samples, drawn.target) / len(samples)


def time_decoders(drawn: Drawn, given: argparse.Namespace, folder: Path) -> None:
    """A table: judges by threads."""
    print(f"\ndecoder: {len(drawn.samples)} pictures at {given.size}, median of {given.measured} epochs")
    print("| judge | threads | samples/s | MFLOP a sample | GFLOP/s | large products, GFLOP/s | share |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    most = torch.get_num_threads()
    for name, backbone in (("sat", given.backbone), ("grit", given.swin)):
        materials = drawn.materials(backbone, given.size)
        materials = replace(materials, features=cached(name, drawn, materials, folder)[0])
        rates = []
        for number in sorted({1, most}):
            with threads(number):
                peak = matrix_rate()
                judge, epochs = train(find_judge(name), drawn, materials, use(cpu=True), epochs=1 + given.measured)
            work, rate = work_of(judge, drawn), len(drawn.samples) / statistics.median(epochs[1:])
            cells = f"{rate:.4g} | {work / 1e6:.4g} | {rate * work / 1e9:.4g} | {peak / 1e9:.4g}"
            print(f"| {name} on {backbone} | {number} | {cells} | {rate * work / peak:.3f} |", flush=True)
            rates.append(rate)
        print(f"ratio {name}, {most} threads / 1: {rates[-1] / rates[0]:.2f}")


def save_blip(folder: Path, drawn: Drawn, *, size: int = 384, **widths: int) -> Blueprint:
    """The judge made of a BLIP with random weights, BLIP-base where no ``widths`` are given, saved to ``folder``."""
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tf: Any = transformers
    split = pre_tokenizers.Whitespace()
    texts = [*(sample.text for sample in drawn.samples), make_prompt("gender").question, *drawn.target.classes]
    words = {word for text in texts for word, _ in split.pre_tokenize_str(plain(text).lower())}
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    raw = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate([*special, *sorted(words)])}, unk_token=special[3])
    )
    raw.normalizer, raw.pre_tokenizer = normalizers.Lowercase(), split
    raw.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    marks = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=raw, **marks)
    images = tf.BlipImageProcessor(size={"height": size, "width": size})
    seeing = {**widths, "image_size": size}
    text = {**widths, "encoder_hidden_size": widths.get("hidden_size", 768)}
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = tf.BlipForConditionalGeneration(tf.BlipConfig(text_config=text, vision_config=seeing))
        for part in (model, tf.BlipProcessor(images, tokenizer)):
            part.save_pretrained(folder)
    return find_judge(f"hf:{folder}")


def fine_tune(
    blueprint: Blueprint, drawn: Drawn, accelerator: Accelerator, *, batch: int, epochs: int, steps: int
) -> tuple[NetworkJudge, float]:
    """A captioner after ``epochs`` of ``steps`` batches, the first to warm up, and samples/s of the others."""
    several = replace(drawn, samples=tuple(islice(cycle(drawn.samples), batch * steps)))
    recipe = {"epochs": epochs, "batch_size": batch, "micro_batch": None}
    judge, seconds = train(blueprint, several, Materials(drawn.pictures), accelerator, **recipe)
    return judge, len(several.samples) / statistics.median(seconds[1:])


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
        work = count_flops(network, few, samples[:COUNTED], drawn.target) / len(samples[:COUNTED])

    def step() -> None:
        optimiser.zero_grad()
        with accelerator.autocast():
            logits = network(ready)
        accelerator.backward(weighted_loss(logits.float(), truth) / batch)
        optimiser.step()

    return batch * steps / timed(step, warm=3, times=steps), work


def timed(work: Callable[[], None], *, warm: int, times: int) -> float:
    """Seconds of ``times`` calls, after ``warm`` others."""
    for _ in range(warm):
        work()
    start = clock()
    for _ in range(times):
        work()
    return clock() - start


def time_gpu(drawn: Drawn, given: argparse.Namespace, folder: Path) -> None:
    """A captioner on the GPU and on the CPU."""
    if not torch.cuda.is_available():
        print("\ngpu: none here, skipped")
        return
    device = torch.cuda.get_device_name()
    peak = given.peak or next((rate for name, rate in PEAKS.items() if name in device), None)
    blueprint = save_blip(folder, drawn)
    accelerator = use(precision="bf16")
    judge, loop = fine_tune(blueprint, drawn, accelerator, batch=given.batch, epochs=4, steps=given.steps)
    alone, work = step_alone(judge, drawn, accelerator, batch=given.batch, steps=3 * given.steps)
    weights = sum(parameter.numel() for parameter in judge.network.parameters())  # type: ignore[attr-defined]
    print(f"\ngpu: BLIP of {weights / 1e6:.0f} M weights at 384, {work / 1e9:.0f} GFLOP a sample, bf16, on {device}")
    print(
        f"batches of {given.batch}; memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB; peak {peak:.4g} FLOP/s"
    )
    for what, rate in (("by the trainer", loop), ("a batch that lies ready", alone)):
        share = f"{rate * work / peak:.3f} of {peak / 1e12:.0f} TFLOP/s" if peak else "unknown (give --peak)"
        print(f"{what}: {rate:.1f} samples/s, model FLOP utilisation {share}", flush=True)
    del judge
    torch.cuda.empty_cache()
    _, slow = fine_tune(blueprint, drawn, use(cpu=True), batch=given.cpu_batch, epochs=3, steps=1)
    print(f"CPU, float32, {torch.get_num_threads()} threads, batches of {given.cpu_batch}: {slow:.2f} samples/s")
    print(f"ratio GPU / CPU, by the trainer: {loop / slow:.1f}; of batches that lie ready: {alone / slow:.1f}")


def machine() -> str:
    """What this ran on, and with."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ", no GPU"
    packages = ", ".join(f"{package} {version(package)}" for package in ("torch", "timm", "transformers"))
    cores, threads = os.cpu_count(), torch.get_num_threads()
    return f"{name}, {cores} cores, {threads} threads{gpu}; Python {platform.python_version()}, {packages}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw, then measure each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)} [%(default)s]")
    parser.add_argument("--scenes", type=int, default=256, help="pictures drawn, one caption each [%(default)s]")
    parser.add_argument("--size", type=int, default=224, help="of drawn pictures [%(default)s]")
    parser.add_argument("--epochs", type=int, default=40, help="cache: of the training [%(default)s]")
    parser.add_argument("--threads", type=int, default=1, help="cache: of torch [%(default)s]")
    parser.add_argument("--measured", type=int, default=2, help="epochs of re-encoding, of a decoder [%(default)s]")
    parser.add_argument("--whole", action="store_true", help="cache: re-encode in all epochs")
    parser.add_argument("--backbone", default="resnet50", help="SAT's, by timm's name [%(default)s]")
    parser.add_argument("--swin", default="swin_tiny_patch4_window7_224", help="GRIT's [%(default)s]")
    parser.add_argument("--batch", type=int, default=64, help="gpu: samples a step [%(default)s]")
    parser.add_argument("--steps", type=int, default=10, help="gpu: steps an epoch [%(default)s]")
    parser.add_argument("--cpu-batch", type=int, default=8, help="gpu: samples a step on the CPU [%(default)s]")
    parser.add_argument("--peak", type=float, help="gpu: dense bf16 FLOP/s [that of its name]")
    given = parser.parse_args(arguments)
    parts = given.parts.split(",")
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"--parts {','.join(unknown)}: there are {', '.join(PARTS)}")
    print(f"machine: {machine()}\nsettings: {vars(given)}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        drawn = draw(given.scenes, given.size, Path(place) / "world")
        for name, measure in zip(PARTS, (time_cache, time_decoders, time_gpu), strict=True):
            if name in parts:
                measure(drawn, given, Path(place) / ("blip" if name == "gpu" else "features"))


if __name__ == "__main__":
    main()
