"""``judge mask`` compared with decoding and encoding alone: CPU time, use of the cores, memory.

    python scripts/bench_masking.py
    python scripts/bench_masking.py --images 10000 --pairs 1

A folder of JPEGs is made of hard links to real ones (COCO's, with their instances, from ../shared/data). The whole of
``judge mask`` (instances read, people found and hidden, PNG written, table, contact sheet) alternates with the same
decoding and encoding on as many threads, which writes nothing. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import cv2
import typer
from joblib import Parallel, cpu_count, delayed
from timing import in_turns, machine, ratios

from judge.commands.mask import MaskConfig, mask
from judge.config import make_config
from judge.masking.images import encode, list_images, read_image

COCO = Path(__file__).parents[2] / "shared" / "data" / "coco-mini"


def make_folder(folder: Path, images: int) -> None:
    """``images`` JPEGs in ``folder/images``, links to 159 real ones, and ``folder/instances.json``."""
    originals: list[Path] = []
    real: dict[str, Any] = {"images": [], "annotations": []}
    for split in ("val2017", "train2017"):
        document = json.loads((COCO / "annotations" / f"instances_{split}.json").read_text(encoding="utf-8"))
        originals += [Path(shutil.copy(COCO / split / image["file_name"], folder)) for image in document["images"]]
        real = {name: real[name] + document[name] for name in ("images", "annotations")}
        real["categories"] = document["categories"]
    (folder / "images").mkdir()
    listed, annotations = [], []
    for number in range(images):
        image = real["images"][number % len(originals)]
        name = f"{number:06}.jpg"
        os.link(originals[number % len(originals)], folder / "images" / name)
        listed.append(image | {"id": number, "file_name": name})
        mine = [of for of in real["annotations"] if of["image_id"] == image["id"]]
        annotations += [annotation | {"image_id": number} for annotation in mine]
    document = {"images": listed, "annotations": annotations, "categories": real["categories"]}
    (folder / "instances.json").write_text(json.dumps(document), encoding="utf-8")


def decode_and_encode(images: Path) -> None:
    """The yardstick."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    parallel = Parallel(cpu_count(), backend="threading", return_as="generator")
    for _ in parallel(
        delayed(lambda name: len(encode(read_image(images, name).pixels)))(n) for n in list_images(images)
    ):
        pass
    cv2.setNumThreads(threads)


def run_mask(folder: Path, workers: int) -> None:
    """``judge mask``, its output removed."""
    settings = {"images": folder / "images", "instances": folder / "instances.json", "out": folder / "masked"}
    mask(make_config(settings | {"workers": workers}, MaskConfig))
    shutil.rmtree(folder / "masked")


def main(
    images: Annotated[int, typer.Option(help="10,000 take 6 GB")] = 1_000,
    pairs: Annotated[int, typer.Option(min=1, help="plain and masked runs")] = 7,
    folder: Annotated[Path | None, typer.Option(help="where images are written")] = None,
) -> None:
    """Print ratios, and the peak of memory."""
    print(machine())
    with TemporaryDirectory(dir=folder) as name:
        place, cores = Path(name), cpu_count()
        make_folder(place, images)
        ways = {"plain": lambda: decode_and_encode(place / "images"), "masked": lambda: run_mask(place, cores)}
        found = in_turns(ways, pairs, time.process_time)
        print(f"CPU time, masked / plain: {ratios(found['masked'], found['plain'])}", flush=True)
        found = in_turns({"one": lambda: run_mask(place, 1), "all": ways["masked"]}, pairs)
        print(f"clock, 1 worker / {cores}: {ratios(found['one'], found['all'])}")
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MB")


if __name__ == "__main__":
    typer.run(main)
