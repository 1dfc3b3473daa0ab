"""What a GPU gives: judges, captioning and agreement with the CPU, in one command of at most ten minutes.

    python scripts/bench_gpu.py --out runs/gpu
    python scripts/bench_gpu.py --out runs/gpu --only captioning
    python scripts/bench_gpu.py --small

Needs this package with its extra [vision], and neither data nor weights: scenes are drawn, sizes of images are COCO's,
and weights are random, on which speed does not depend. Each part leaves PART.json in --out, and the same command
continues with those that are missing; gpu.json and gpu.md have all of them. ``--small``: shapes that a CPU computes in
seconds, to test the script alone. The parts:

- ``peak``: products of large square matrices, in bf16 and in float32 without TF32.
- ``lic``: LIC's LSTM protocol for a captioner, 60 judges of 9,700 captions, and a plain loop in PyTorch. An epoch of
  two judges is measured; times 20 and 60 it is the protocol.
- ``members``: SAT, GRIT and BERT-ft judges, eight at a time by 1, 4 and 8 workers.
- ``blip``: a BLIP of base size in bf16, by the trainer and on one batch that lies ready, as share of the peak, and the
  GPU's utilisation.
- ``lora``: a LLaVA of 7B shape with LoRA in bf16: memory, and seconds of a step.
- ``reading``: states of a BLIP of base size and of a LLaVA of 7B shape in bf16 (``--tuning reading``), four captions an
  image; and features of images by the default encoder of linear judges.
- ``captioning``: a Qwen2.5-VL of 3B shape on images of COCO's sizes, in batches of one shape and in the order of files.
- ``agreement``: probabilities of one LSTM judge and one small BLIP, trained on the GPU and on the CPU in float32.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import bench_judge as judges
import bench_lic as lic
import numpy as np
import torch
import typer
from timing import machine, seconds

from judge.captioning.checkpoints import CheckpointWriter
from judge.captioning.writing import Writing
from judge.corpus.splits import Split
from judge.judges import Materials
from judge.judges.hf_models import load_captioner
from judge.judges.linear import make_encoder
from judge.judges.names import READING, find_judge
from judge.training.feature_caches import CaptionCache, FeatureCache, ImageCache
from judge.training.launch import make_accelerator
from judge.training.member import Member, TrainingSetup
from judge.training.run_members import train_members
from judge.types import Predictions
from judge.utils.files import write_whole
from judge.utils.hub import quiet

SIZES = {
    (640, 480): 40, (480, 640): 15, (640, 427): 12, (640, 426): 6, (500, 375): 6, (427, 640): 5, (640, 360): 3,
    (640, 512): 2, (375, 500): 2, (640, 640): 2, (612, 612): 2, (500, 333): 2, (640, 424): 2, (640, 428): 1,
}  # fmt: skip
"""Width and height of COCO's images -> how many of a hundred have about this size."""
PEAKS = {"H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989e12, "H200": 989e12, "A100": 312e12}
"""Dense products in bf16, FLOP/s, by NVIDIA's data sheets; the first name that the device's name contains."""
TINY = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
"""A BLIP that a CPU trains in seconds."""
Figures = dict[str, float | str]


@dataclass(frozen=True)
class Shapes:
    """Sizes of what is measured; ``small`` for a test."""

    small: bool
    folder: Path

    def of(self, real: int, small: int) -> int:
        """One of two numbers."""
        return small if self.small else real


def peak(shapes: Shapes) -> Figures:
    """TFLOP/s of matrix products."""
    device, side, found = make_accelerator().device, shapes.of(8192, 256), Figures()
    for name, dtype in (("bf16", torch.bfloat16), ("float32", torch.float32)):
        first, second = torch.randn(2, side, side, device=device, dtype=dtype)

        def run(first: torch.Tensor = first, second: torch.Tensor = second) -> None:
            for _ in range(10):
                first @ second

        run()
        found[f"products in {name}, TFLOP/s"] = 20 * side**3 / min(seconds(run) for _ in range(3)) / 1e12
    return found


def lic_protocol(shapes: Shapes) -> Figures:
    """Seconds of LIC's protocol for a captioner; an epoch of twenty is measured."""
    count, images = shapes.of(60, 3), shapes.of(9700, 130)
    texts = [lic.draw_captions(images, seed=seed) for seed in range(2)]
    device = make_accelerator().device.type
    lic.make_judge(1).fit(texts[0][:130], seed=0)  # Libraries load, and choose their kernels.
    alone = statistics.median(seconds(lambda own=own: lic.make_judge(1).fit(own, seed=0)) for own in texts)  # type: ignore[misc]
    plain = statistics.median(
        seconds(lambda own=own: lic.train_plain(own, own[:1], seed=0, epochs=1, device=device))  # type: ignore[misc]
        for own in texts
    )
    return {
        f"{count} judges one by one, 20 epochs, s": 20 * count * alone,
        "a plain loop takes so many times as long": plain / alone,
    }


def _sum(member: Member, found: Predictions) -> float:
    return float(found.probabilities.sum())


def members(shapes: Shapes) -> Figures:
    """Seconds of eight judges by 1, 4 and 8 workers."""
    drawn = judges.draw(shapes.of(256, 24), shapes.of(224, 64), shapes.folder / "world")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    reader = judges.save_reader(shapes.folder / "bert", drawn, **(sizes if shapes.small else {}))
    backbone, found = "resnet18" if shapes.small else "resnet101", Figures()
    for name in ("sat", "grit", "bert-ft"):
        seen = drawn.materials(backbone if name == "sat" else "swin_tiny_patch4_window7_224", 224)
        materials = Materials(reader=reader) if name == "bert-ft" else seen
        images = [str(sample.image_id) for sample in drawn.samples]
        split = Split(tuple(images[16:]), tuple(images[:8]), dict.fromkeys(drawn.target.classes, 1.0))
        split = replace(split, validation=tuple(images[8:16]))
        several = [
            Member(find_judge(name), drawn.target, drawn.samples, split, seed) for seed in range(shapes.of(8, 2))
        ]
        recipe = {"epochs": shapes.of(10, 1)}
        for workers in (1, 4, 8)[: shapes.of(3, 1)]:
            setup = TrainingSetup(recipe, workers=workers, materials=materials, features=shapes.folder / "features")
            train_members(several[:1], setup, then=_sum)  # Features are computed once.
            took = seconds(lambda several=several, setup=setup: train_members(several, setup, then=_sum))  # type: ignore[misc]
            found[f"{name}, {workers} workers, judges a minute"] = 60 * len(several) / took
    return found


@contextmanager
def utilisation() -> Iterator[list[float]]:
    """Percent of the time in which the GPU computes, sampled by nvidia-smi once a second; empty without it."""
    found, ended = list[float](), threading.Event()
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]

    def watch() -> None:
        with suppress(OSError, ValueError, subprocess.SubprocessError):
            while not ended.wait(1):
                found.append(float(subprocess.check_output(query, text=True).split()[0]))  # noqa: S603 - no input

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def blip(shapes: Shapes) -> Figures:
    """A BLIP of base size in bf16."""
    drawn = judges.draw(shapes.of(256, 24), shapes.of(384, 64), shapes.folder / "scenes")
    widths = TINY if shapes.small else {}
    blueprint = judges.save_blip(shapes.folder / "blip", drawn, size=shapes.of(384, 64), **widths)
    accelerator, batch = judges.use(precision="bf16"), shapes.of(64, 8)
    with utilisation() as busy:
        how = {"batch": batch, "epochs": 4, "steps": shapes.of(20, 2)}
        judge, loop = judges.fine_tune(blueprint, drawn, accelerator, **how)
    alone, work = judges.step_alone(judge, drawn, accelerator, batch=batch, steps=shapes.of(30, 2))
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    rate = next((rate for known, rate in PEAKS.items() if known in name), float("nan"))
    found: Figures = {"by the trainer, samples/s": loop, "a batch that lies ready, samples/s": alone}
    found["a batch that lies ready, share of the bf16 peak"] = alone * work / rate
    found["by the trainer, share of the bf16 peak"] = loop * work / rate
    return found | ({"by the trainer, GPU busy, %": statistics.mean(busy)} if busy else {})


def _save_llava(shapes: Shapes) -> Path:
    """A LLaVA of 7B shape."""
    text = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32}
    seeing = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
    seeing |= {"image_size": 336, "patch_size": 14}
    if shapes.small:
        tiny = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
        text, seeing = tiny, {**tiny, "image_size": 32, "patch_size": 16}
    return judges.save_vlm(shapes.folder, "llava", {**text, "vocab_size": shapes.of(32064, 1000)}, seeing)


def reading(shapes: Shapes) -> Figures:
    """Captions and images per second, read once from disk to cache."""
    drawn, found = judges.draw(shapes.of(256, 40), shapes.of(384, 64), shapes.folder / "read_world"), Figures()
    device, keys = make_accelerator().device, {str(of.image): drawn.images.key(str(of.image)) for of in drawn.samples}
    turned = [replace(of, words=of.words[by:] + of.words[:by]) for of in drawn.samples for by in range(4)]
    small = TINY if shapes.small else {}
    read = {"BLIP": judges.save_blip(shapes.folder / "read_blip", drawn, size=shapes.of(384, 64), **small).name}
    read |= {"LLaVA of 7B": f"hf:{_save_llava(shapes)}"}
    caches = dict[str, FeatureCache]()
    for name, judge in read.items():
        make = find_judge(judge + READING).reader
        assert make
        reader = make(Materials(drawn.images, dtype="bf16"))
        caches[f"{name}, captions/s"] = CaptionCache(reader, turned, shapes.folder / name, keys)
    backbone = "resnet18" if shapes.small else None
    encoder = make_encoder(Materials(drawn.images, backbone=backbone, backbone_weights="random"))
    caches["the default encoder, images/s"] = ImageCache(encoder, drawn.images, keys, shapes.folder / "features")
    for name, cache in caches.items():
        names = cache.missing()
        cache.compute(names[: cache.BATCH], device=device)  # Kernels are chosen.
        rest = names[cache.BATCH :]
        found[name] = len(rest) / seconds(lambda cache=cache, rest=rest: cache.compute(rest, device=device))  # type: ignore[misc]
    return found


def lora(shapes: Shapes) -> Figures:
    """A LLaVA of 7B shape with LoRA: memory, and seconds of a step of 64 captions in micro-batches of 8."""
    drawn, folder = judges.draw(shapes.of(64, 40), 64, shapes.folder / "lora_world"), _save_llava(shapes)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    batch = shapes.of(64, 8)
    several = replace(drawn, samples=tuple(islice(cycle(drawn.samples), batch * 2)))
    materials = Materials(drawn.images, tuning="lora", dtype="bf16", checkpointing=True)
    how: dict[str, Any] = {"batch_size": batch, "micro_batch": 8, "epochs": 2}
    _, epochs = judges.train(find_judge(f"hf:{folder}"), several, materials, judges.use(precision="bf16"), **how)
    memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else float("nan")
    return {f"seconds of a step of {batch}": epochs[-1] / 2, "memory, GiB": memory}


def captioning(shapes: Shapes) -> Figures:
    """Images per second, in batches of one shape and in the order of files."""
    from PIL import Image

    text = {"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16}
    text |= {"num_key_value_heads": 2, "vocab_size": 151936}
    seeing = {"hidden_size": 1280, "intermediate_size": 3420, "depth": 32, "num_heads": 16}
    if shapes.small:
        text = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
        text |= {"num_key_value_heads": 1, "vocab_size": 1000}
        seeing = {"hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 2}
    folder = judges.save_vlm(shapes.folder, "qwen2_5_vl", text, seeing)
    with quiet():
        device = make_accelerator().device
        on_gpu = device.type != "cpu"
        loaded = load_captioner(str(folder), dtype=torch.bfloat16, device_map=device if on_gpu else None)
        writer = CheckpointWriter(loaded, Writing(max_tokens=shapes.of(30, 3), prompt="w1 w2"))
        rng, count = np.random.default_rng(0), shapes.of(512, 6)
        sizes = rng.choice(len(SIZES), size=count, p=np.array([*SIZES.values()]) / sum(SIZES.values()))
        drawn = [list(SIZES)[place] for place in sizes]
        prepared = [writer.prepare(Image.new("RGB", size, (int(n) % 255, 9, 9))) for n, size in enumerate(drawn)]
        shape = [tuple(value.shape for value in inputs.values()) for inputs, _ in prepared]
        order = sorted(range(count), key=lambda place: (-Counter(shape)[shape[place]], str(shape[place])))
        most, found = shapes.of(64, 3), Figures()
        ways = {"batches of one shape": [prepared[place] for place in order], "in the order of files": prepared}
        for name, of in ways.items():
            writer.write(of[:most])  # Kernels are chosen.
            took = seconds(lambda of=of: [writer.write(of[at : at + most]) for at in range(0, count, most)])  # type: ignore[misc]
            found[f"{name}, images/s"] = count / took
    return found


def agreement(shapes: Shapes) -> Figures:
    """Largest differences of probabilities between the GPU and the CPU after training in float32."""
    samples, found = lic.draw_captions(shapes.of(640, 128)), Figures()
    drawn = judges.draw(48, 64, shapes.folder / "agreement_world")
    blueprint = judges.save_blip(shapes.folder / "small_blip", drawn, size=64, **TINY)
    answers: dict[str, list[np.ndarray]] = {"LSTM": [], "BLIP": []}
    for cpu in (False, True):
        accelerator = judges.use(cpu=cpu)
        judge = lic.make_judge(2)
        judge.trainer = type(judge.trainer)(accelerator)
        answers["LSTM"].append(judge.fit(samples, seed=0).predict(samples).probabilities)
        how: dict[str, Any] = {"batch_size": 16, "micro_batch": None, "epochs": 2}
        trained, _ = judges.train(blueprint, drawn, Materials(drawn.images), accelerator, **how)
        answers["BLIP"].append(trained.predict(drawn.samples).probabilities)
    for name, (one, other) in answers.items():
        found[f"{name}: largest difference of probabilities"] = float(np.abs(one - other).max())
    return found


PARTS: dict[str, Callable[[Shapes], Figures]] = {
    "peak": peak,
    "agreement": agreement,
    "lic": lic_protocol,
    "captioning": captioning,
    "blip": blip,
    "reading": reading,
    "members": members,
    "lora": lora,
}


def main(
    out: Annotated[Path, typer.Option(help="folder of the results")] = Path("runs/gpu"),
    only: Annotated[list[str] | None, typer.Option(help="parts to measure; repeat it")] = None,
    small: Annotated[bool, typer.Option(help="tiny shapes, to test the script")] = False,
) -> None:
    """Measure the parts that --out lacks, and write the table of all."""
    if not small and not torch.cuda.is_available():
        print("There is no GPU here. --small tests the script on a CPU.")
        raise typer.Exit(2)
    out.mkdir(parents=True, exist_ok=True)
    for name, measure in PARTS.items():
        file = out / f"{name}.json"
        if file.exists() or (only and name not in only):
            continue
        with TemporaryDirectory() as folder:
            begun = time.perf_counter()
            figures = measure(Shapes(small, Path(folder)))
        about = {"machine": machine(), "small": small, "seconds": round(time.perf_counter() - begun, 1)}
        write_whole(file, json.dumps({**about, "figures": figures}, indent=1).encode())
        print(f"{name}: {about['seconds']} s {figures}", flush=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    found = {name: json.loads((out / f"{name}.json").read_text()) for name in PARTS if (out / f"{name}.json").exists()}
    write_whole(out / "gpu.json", json.dumps(found, indent=1).encode())
    rows = [f"| {part} | {what} | {value:.4g} |" for part, of in found.items() for what, value in of["figures"].items()]
    machines = sorted({of["machine"] for of in found.values()})
    text = "\n".join([*machines, "", "| part | what | |", "| --- | --- | --: |", *rows, ""])
    write_whole(out / "gpu.md", text.encode())
    print(text)


if __name__ == "__main__":
    typer.run(main)
