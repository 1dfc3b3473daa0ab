"""Write drawn scenes as images with exact masks: what uses images can be tested without downloads."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from judge.calibration.drawing import draw
from judge.calibration.world import TASKS, Scene
from judge.masking.folder import SHEET, before_and_after, contact_sheet
from judge.masking.images import SHEET_NAME, encode
from judge.masking.instances import PERSON, from_mask
from judge.masking.people import hide
from judge.types import Progress

CATEGORIES = (PERSON, *TASKS)
"""Category 1 is a person, then come the tasks."""


def write_images(
    scenes: Sequence[Scene], folder: Path, *, seed: int = 0, size: int = 160, progress: Progress | None = None
) -> None:
    """Write ``images/000000000001.png`` and so on, ``instances.json`` in COCO's form, and a contact sheet.

    The annotation of the person in front has ``"foreground": 1``, every other 0. What a failure leaves behind is the
    caller's to remove.
    """
    from joblib import Parallel, delayed

    (folder / "images").mkdir(parents=True, exist_ok=True)
    names = {scene: f"{int(scene.image_id):012d}.png" for scene in scenes}

    def write(scene: Scene) -> list[dict[str, Any]]:
        drawing = draw(scene, seed=seed, size=size)
        (folder / "images" / names[scene]).write_bytes(encode(drawing.pixels))
        found = []
        for place, (label, mask) in enumerate(drawing.things):
            instance = from_mask(mask, label)
            found.append(
                {
                    "image_id": int(scene.image_id),
                    "category_id": CATEGORIES.index(label) + 1,
                    "segmentation": {"size": list(instance.size), "counts": instance.counts.decode("ascii")},
                    "area": instance.area,
                    "bbox": list(instance.box),
                    "iscrowd": 0,
                    "foreground": int(place == 0),
                }
            )
        return found

    annotations: list[dict[str, Any]] = []
    pool = Parallel(-1, prefer="threads", return_as="generator")
    for done, found in enumerate(pool(delayed(write)(scene) for scene in scenes), start=1):
        annotations += ({"id": number, **fields} for number, fields in enumerate(found, start=len(annotations) + 1))
        if progress:
            progress("drawing images", done, len(scenes))
    content = {
        "info": {"description": "Scenes drawn by Caption Judge", "version": "1.0"},
        "images": [
            {"id": int(of.image_id), "file_name": name, "width": size, "height": size} for of, name in names.items()
        ],
        "annotations": annotations,
        "categories": [{"id": number, "name": name} for number, name in enumerate(CATEGORIES, start=1)],
    }
    (folder / "instances.json").write_text(json.dumps(content), encoding="utf-8")
    tiles = []
    for scene in scenes[:SHEET]:
        drawing = draw(scene, seed=seed, size=size)
        region = np.any([thing.mask for thing in drawing.things if thing.label == PERSON], axis=0)
        title = f"{scene.image_id}: {scene.attribute}, {scene.setting}, {scene.task}"
        tiles.append(before_and_after(title, drawing.pixels, hide(drawing.pixels, region), region))
    (folder / SHEET_NAME).write_bytes(encode(contact_sheet(tiles)))
