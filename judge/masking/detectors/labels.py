"""YOLO labels: boxes, polygons, boxes with keypoints and tracks, which only their numbers tell apart."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from judge.errors import JudgeError
from judge.utils.reading import read_small_text

# Of a pose: the least share of keypoints in the box; how far they reach to both sides of its centre, in sides of the
# box; and the tolerance at the borders of box and image. 0.4% of 1,350 polygons of COCO meet all of it.
_INSIDE, _REACH, _TOLERANCE = 0.9, 0.1, 0.02
# The share of a folder's lines that must be poses, among so many of them: a face alone does not meet it.
_POSES, _SOME = 0.25, 1000
_MEND = "write: class x y width height, or class x1 y1 x2 y2 x3 y3 and so on, as shares of width and height"


class _Line(NamedTuple):
    """A line of a label file: image id, class, and what follows."""

    image: str
    category: float
    numbers: list[float]


def read_labels(files: Mapping[str, Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """The labels of a folder (image id -> file) as annotations, and what a user must know of them.

    A line holds a class, then a box (x and y of the centre, width, height) or a polygon (x1, y1, x2, y2, x3, y3 and so
    on), as shares of width and height. The number of a score and that of a track may follow. A box with keypoints
    (pose) is a box. All lines of a folder decide what is a polygon, since single ones can be read in two ways.
    """
    lines = [line for image, path in files.items() for line in _lines(image, path)]
    six = [line.numbers for line in lines if len(line.numbers) == 6]
    long = [line.numbers for line in lines if len(line.numbers) > 6]
    some = long[:: 1 + len(long) // _SOME]
    pose = bool(long) and sum(_beyond_keypoints(numbers) is not None for numbers in some) >= _POSES * len(some)
    # A triangle and a box with a score and a track have six numbers.
    tracked = all(numbers[-1].is_integer() for numbers in six) and (pose or not long)
    numbered = all(numbers[-1].is_integer() for numbers in long) and any(numbers[-1] > 1 for numbers in long)
    rows = []
    for image, category, numbers in lines:
        if pose or len(numbers) < 6 or (len(numbers) == 6 and (tracked or _numbers_track(numbers[-1]))):
            shares, rest = numbers[:4], numbers[4:] if len(numbers) < 7 else _beyond_keypoints(numbers) or ()
        else:
            whole = numbers[:-1] if numbered and len(numbers) > 6 else numbers
            shares, rest = whole[: len(whole) // 2 * 2], whole[len(whole) // 2 * 2 :]
        score = rest[0] if rest and not (len(rest) == 1 and _numbers_track(rest[0])) else None
        rows.append({"image_id": image, "category_id": category, "shares": tuple(shares), "score": score})
    kinds = {"boxes with keypoints": pose and long, "boxes with a score and the number of a track": tracked and six}
    return rows, [f"{len(found):,} labels are read as {kind}." for kind, found in kinds.items() if found]


def _lines(image: str, path: Path) -> Iterator[_Line]:
    for number, line in enumerate(read_small_text(path).splitlines(), start=1):
        numbers: list[float] = []
        with suppress(ValueError):
            numbers = [float(word) for word in line.split()]
        if len(numbers) > 4:
            yield _Line(image, numbers[0], numbers[1:])
        elif line.strip():
            raise JudgeError("is no YOLO label", where=f"{path}, line {number}", mend=_MEND)


def _numbers_track(number: float) -> bool:
    """Whether it can only be the number of a track: 0 and 1 may be a score, or a share."""
    return number > 1 and number.is_integer()


def _beyond_keypoints(numbers: Sequence[float]) -> Sequence[float] | None:
    """What follows a box and its keypoints, of two or three numbers each; None if ``numbers`` are a polygon.

    Keypoints at 0, 0 are not visible. The others lie in the box, on both sides of its centre.
    """
    centre, sides = np.array(numbers[:2]), np.array(numbers[2:4])
    if not (sides > 0).all() or (abs(centre - 0.5) + sides / 2 > 0.5 + _TOLERANCE).any():
        return None
    for each, more in product((2, 3), (0, 1, 2)):
        end = len(numbers) - more
        if (end - 4) % each or (more == 2 and not numbers[-1].is_integer()):
            continue
        points = np.reshape(numbers[4:end], (-1, each))[:, :2]
        away = (points[points.any(axis=1)] - centre) / sides
        inside = (abs(away) <= 0.5 + _TOLERANCE).all(axis=1)
        if not len(away) or (
            inside.mean() >= _INSIDE and (away.min(axis=0) < -_REACH).all() and (away.max(axis=0) > _REACH).all()
        ):
            return numbers[end:]
    return None
