"""YOLO labels: boxes, polygons, boxes with keypoints and tracks, which only their numbers tell apart."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from judge.errors import JudgeError
from judge.utils.reading import read_small_text

# A pose: the least share of keypoints in its box; how far they reach on both sides of its centre, in sides of the box;
# the tolerance at borders. 1% of 1,464 polygons of COCO meet this, so a quarter of a folder's lines must (a face
# alone does not); so many lines are looked at.
_INSIDE, _REACH, _TOLERANCE, _POSES, _SOME = 0.9, 0.1, 0.02, 0.25, 1000
_MEND = "write: class x y width height, or class x1 y1 x2 y2 x3 y3 and so on, as shares of width and height"


def read_labels(files: Mapping[str, Path]) -> list[dict[str, Any]]:
    """The labels of a folder (image id -> file) as annotations; ``shares`` are those of a box or polygon.

    A line holds a class, then a box (x and y of the centre, width, height) or a polygon (x1, y1, x2, y2, x3, y3 and so
    on), as shares of width and height; then perhaps a score, and the number of a track. A box with keypoints (pose) is
    a box. All lines of a folder decide what is a polygon, since single ones can be read in two ways.
    """
    lines = [(image, *line) for image, path in files.items() for line in _lines(path)]
    six, long = ([line[2] for line in lines if low < len(line[2]) < high] for low, high in ((5, 7), (6, np.inf)))
    some = long[:: 1 + len(long) // _SOME]
    pose = bool(long) and sum(_beyond_keypoints(numbers) is not None for numbers in some) >= _POSES * len(some)
    # A triangle and a box with a score and a track have six numbers.
    tracks = all(numbers[-1].is_integer() for numbers in six) and (pose or not long)
    numbered = all(numbers[-1].is_integer() for numbers in long) and any(numbers[-1] > 1 for numbers in long)
    rows = []
    for image, category, numbers in lines:
        if pose or len(numbers) < 6 or (len(numbers) == 6 and tracks):
            end, rest = 4, numbers[4:] if len(numbers) < 7 else _beyond_keypoints(numbers) or ()
        else:
            end = (len(numbers) - (numbered and len(numbers) > 6)) // 2 * 2
            rest = numbers[end : end + 1]
        score = rest[0] if rest and (rest[0] % 1 or rest[0] == 1) else None  # Else the number of a track.
        row = {"image_id": image, "category_id": category, "score": score, "given": len(numbers)}
        rows.append({**row, "shares": tuple(numbers[:end])})
    return rows


def _lines(path: Path) -> Iterator[tuple[float, list[float]]]:
    """The class, and the numbers after it, of each line that is not empty."""
    for number, line in enumerate(read_small_text(path).splitlines(), start=1):
        numbers: list[float] = []
        with suppress(ValueError):
            numbers = [float(word) for word in line.split()]
        if len(numbers) > 4:
            yield numbers[0], numbers[1:]
        elif line.strip():
            raise JudgeError("is no YOLO label", where=f"{path}, line {number}", mend=_MEND)


def _beyond_keypoints(numbers: Sequence[float]) -> Sequence[float] | None:
    """What follows a box and its keypoints, of two or three numbers each; None if ``numbers`` are a polygon."""
    centre, sides = np.array(numbers[:2]), np.array(numbers[2:4])
    if not (sides > 0).all() or (abs(centre - 0.5) + sides / 2 > 0.5 + _TOLERANCE).any():
        return None
    for least, each, more in product((1, _INSIDE), (2, 3), (0, 1, 2)):
        points = numbers[4 : len(numbers) - more]
        if len(points) % each or (more == 2 and not numbers[-1].is_integer()):
            continue
        places = np.reshape(points, (-1, each))[:, :2]
        away = (places[places.any(axis=1)] - centre) / sides  # Keypoints at 0, 0 are not visible.
        inside = (abs(away) <= 0.5 + _TOLERANCE).all(axis=1)
        if not len(away) or (inside.mean() >= least and (away.min(0) < -_REACH).all() and (away.max(0) > _REACH).all()):
            return numbers[4 + len(points) :]
    return None
