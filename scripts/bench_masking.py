"""``judge mask`` against decoding and encoding alone: CPU time, use of the cores, memory.

    python scripts/bench_masking.py
    python scripts/bench_masking.py --pictures 2000 --pairs 3

A folder of JPEGs is made of hard links to real ones (COCO's, with their instances, from ../shared/data).
The whole of ``judge mask`` (instances read, people found and hidden, PNG written, table, contact sheet) runs in turns
with the same reading and encoding by the same functions on as many threads, which writes nothing. Figures:
BENCHMARKS.md.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import cv2
import typer
from joblib import Parallel, cpu_count, delayed

from judge.commands.mask import MaskConfig, mask
from judge.config import make_config
from judge.masking.images import encode, list_images, read_image
from judge.types import Progress

COCO = Path(__file__).parents[2] / "shared" / "data" / "coco-mini"
MARKS = (1_000, 5_000, 10_000)


def coco_mini() -> tuple[list[Path], dict[str, Any]]:
    """The 159 real pictures, and what is in them."""
    paths: list[Path] = []
    whole: dict[str, Any] = {"images": [], "annotations": []}
    for split in ("val2017", "train2017"):
        document = json.loads((COCO / "annotations" / f"instances_{split}.json").read_text(encoding="utf-8"))
        paths += [COCO / split / image["file_name"] for image in document["images"]]
        for name in ("images", "annotations"):
            whole[name] += document[name]
        whole["categories"] = document["categories"]
    return paths, whole


def make_folder(folder: Path, pictures: int) -> tuple[Path, Path]:
    """``pictures`` JPEGs in ``folder``, and the file of their instances."""
    originals, images = folder / "originals", folder / "images"
    originals.mkdir()
    images.mkdir()
    paths, document = coco_mini()
    paths = [Path(shutil.copy(path, originals)) for path in paths]
    held: dict[int, list[dict[str, Any]]] = {image["id"]: [] for image in document["images"]}
    for annotation in document["annotations"]:
        held[annotation["image_id"]].append(annotation)
    listed, annotations = [], []
    for number in range(pictures):
        image = document["images"][number % len(paths)]
        name = f"{number:06}.jpg"
        os.link(paths[number % len(paths)], images / name)
        listed.append(image | {"id": number, "file_name": name})
        annotations += [annotation | {"image_id": number} for annotation in held[image["id"]]]
    instances = folder / "instances.json"
    document |= {"images": listed, "annotations": annotations}
    instances.write_text(json.dumps(document), encoding="utf-8")
    return images, instances


def decode_and_encode(images: Path, workers: int) -> None:
    """The yardstick."""

    def one(name: str) -> int:
        return len(encode(read_image(images, name).pixels))

    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    parallel = Parallel(workers, backend="threading", return_as="generator")
    for _ in parallel(delayed(one)(name) for name in list_images(images)):
        pass
    cv2.setNumThreads(threads)


def run_mask(images: Path, instances: Path, workers: int, progress: Progress | None = None) -> None:
    """``judge mask``, its output removed."""
    out = images.parent / "masked"
    settings = {"images": images, "instances": instances, "out": out, "workers": workers}
    mask(make_config(settings, MaskConfig), progress=progress)
    shutil.rmtree(out)


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds of CPU, all threads together, and of the clock."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def resident() -> float:
    """Memory of this process in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def compare(folder: Path, pictures: int, pairs: int) -> None:
    """Ratios of CPU time, and what the cores bring."""
    images, instances = make_folder(folder, pictures)
    cores = cpu_count()
    ratios, gains = [], []
    for pair in range(pairs + 1):
        plain, _ = timed(lambda: decode_and_encode(images, cores))
        ours, together = timed(lambda: run_mask(images, instances, cores))
        _, alone = timed(lambda: run_mask(images, instances, 1))
        if pair:  # The first is to warm up.
            ratios.append(ours / plain)
            gains.append(alone / together)
            print(f"pair {pair}: CPU {plain:.1f} s alone, {ours:.1f} s masked: {ratios[-1]:.3f}; ", end="")
            print(f"clock {alone:.1f} s by 1 worker, {together:.1f} s by {cores}: {gains[-1]:.2f}", flush=True)
    for what, found in (("CPU time, masked / alone", ratios), (f"clock, 1 worker / {cores}", gains)):
        print(f"{what}, {pairs} pairs: median {statistics.median(found):.3f}, {min(found):.3f} to {max(found):.3f}")


def watch_memory(folder: Path, pictures: int) -> None:
    """Resident memory while a large folder is masked; the instances file is in it from the start."""
    images, instances = make_folder(folder, pictures)
    print(f"resident before: {resident():.0f} MB", flush=True)
    marks = {mark for mark in MARKS if mark < pictures} | {pictures // 10, pictures}

    def progress(what: str, done: int, total: int) -> None:
        if done in marks:
            print(f"resident after {done} pictures: {resident():.0f} MB", flush=True)

    cpu, wall = timed(lambda: run_mask(images, instances, cpu_count(), progress))
    print(f"{pictures} pictures: {wall:.0f} s, {cpu:.0f} s of CPU")


def main(
    pictures: Annotated[int, typer.Option(help="for memory; pairs take a tenth")] = 10_000,
    pairs: Annotated[int, typer.Option(help="of plain and masked runs")] = 7,
    folder: Annotated[Path | None, typer.Option(help="where pictures are written; 10,000 take 6 GB")] = None,
) -> None:
    """Memory first, while the process is fresh; then pairs."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        watch_memory(Path(place), pictures)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        compare(Path(place), max(1, pictures // 10), pairs)


if __name__ == "__main__":
    typer.run(main)
