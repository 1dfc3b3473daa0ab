"""Which tasks (objects, activities) each image shows; derived from what people said, or read (``objects``)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from judge.errors import JudgeError, nearest


@dataclass(frozen=True, slots=True)
class Tasks:
    """What each image shows.

    Attributes:
        names: the tasks in fixed (sorted) order; column l of every table.
        by_image: image id -> indices into ``names``, ascending; () for an image known to show none of them.
        source: a file, or the rule that derived them.
        derived: whether they come from captions.
        ignored: reason -> count: of a file, records left out; of captions, images in which no task is named.
    """

    names: tuple[str, ...]
    by_image: Mapping[str, tuple[int, ...]]
    source: str
    derived: bool = False
    ignored: Mapping[str, int] = field(default_factory=dict)

    def table(self, images: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Which tasks each of ``images`` shows, [N, L].

        Raises:
            JudgeError: an image that is not known here; ``usable`` says which are not.
        """
        unknown = [image for image in images if image not in self.by_image]
        if unknown:
            what = f"{len(unknown)} of {len(images)} images have no tasks (such as '{unknown[0]}')"
            raise JudgeError(what, where=self.source, mend="add them, or leave their captions out")
        table = np.zeros((len(images), len(self.names)), dtype=np.bool_)
        rows = np.repeat(np.arange(len(images)), [len(self.by_image[image]) for image in images])
        table[rows, [index for image in images for index in self.by_image[image]]] = True
        return table

    def only(self, names: Iterable[str]) -> Tasks:
        """The same with the tasks of ``names`` alone, sorted.

        Raises:
            JudgeError: a name that is no task here.
        """
        column = {name: index for index, name in enumerate(self.names)}
        wanted = sorted(set(names))
        for name in wanted:
            if name not in column:
                raise JudgeError(f"no task '{name}'", where=self.source, mend=nearest(name, list(self.names)))
        place = {column[name]: position for position, name in enumerate(wanted)}
        by_image = {
            image: tuple(place[index] for index in indices if index in place)
            for image, indices in self.by_image.items()
        }
        return replace(self, names=tuple(wanted), by_image=by_image)


def derive_tasks(
    mentions: Mapping[str, Sequence[frozenset[str]]], *, names: Iterable[str], share: float | None = None
) -> Tasks:
    """Tasks out of human captions: an image shows task t where enough of its captions name t.

    Args:
        mentions: image id -> for each of its human captions, the tasks that it names (``Lexicon.mentions``).
        names: all tasks; others that captions name are passed over.
        share: of an image's captions, how many must name a task, in (0, 1]; None for at least one caption, whose
            errors are the fewest where five people say what they notice (CHAIR, Rohrbach et al. 2018, section 2).

    Returns:
        Tasks with ``derived`` set; every image with a caption is known. ``ignored`` counts the images in which no
        task is named (they stay, as images that show none).

    Raises:
        JudgeError: a share outside (0, 1].
    """
    if share is not None and not 0 < share <= 1:
        raise JudgeError(f"share is {share}", mend="take a number above 0 and up to 1")
    ordered = tuple(sorted(set(names)))
    place = {name: index for index, name in enumerate(ordered)}
    by_image: dict[str, tuple[int, ...]] = {}
    for image, captions in mentions.items():
        if captions:
            counts = Counter(place[name] for named in captions for name in named if name in place)
            # Rounded up, with room for a share such as 3/5 that a float does not hold exactly.
            needed = 1 if share is None else max(1, math.ceil(share * len(captions) - 1e-9))
            by_image[image] = tuple(sorted(index for index, count in counts.items() if count >= needed))
    enough = "at least one of its human captions names it"
    if share is not None:
        enough = f"at least {share:g} of its human captions name it"
    silent = sum(not shown for shown in by_image.values())
    ignored = {"no task named": silent} if silent else {}
    return Tasks(ordered, by_image, f"derived: an image shows a task when {enough}", derived=True, ignored=ignored)


def join_tasks(first: Tasks, second: Tasks) -> Tasks:
    """The tasks of both, of images that both know; none is in both."""
    names = tuple(sorted({*first.names, *second.names}))
    place = {name: index for index, name in enumerate(names)}
    by_image = {
        image: tuple(sorted(place[of.names[index]] for of in (first, second) for index in of.by_image[image]))
        for image in first.by_image
        if image in second.by_image
    }
    return Tasks(names, by_image, f"{first.source}; {second.source}", ignored={**second.ignored, **first.ignored})


def usable(tasks: Tasks, images: Collection[str]) -> tuple[Tasks, dict[str, tuple[str, ...]]]:
    """What of ``tasks`` can be guessed on ``images``: tasks that vary among them.

    A task that no image shows, or that every image shows, tells nothing and cannot be learnt.

    Returns:
        The tasks that are left, of ``images`` alone; and what was left out (reason -> names, sorted): tasks "never
        present" and "always present"; of the images, those "without tasks" (unknown here).

    Raises:
        JudgeError: no image is known here; no task is left.
    """
    known = [image for image in dict.fromkeys(images) if image in tasks.by_image]
    if not known:
        example = next(iter(images), "-"), next(iter(tasks.by_image), "-")
        what = f"no image in common (captions '{example[0]}', objects '{example[1]}')"
        raise JudgeError(what, where=tasks.source, mend="check that image ids mean the same in all files")
    counts = Counter(index for image in known for index in tasks.by_image[image])
    reasons = {
        "never present": [name for index, name in enumerate(tasks.names) if not counts[index]],
        "always present": [name for index, name in enumerate(tasks.names) if counts[index] == len(known)],
        "without tasks": sorted(set(images) - tasks.by_image.keys()),
    }
    gone = {*reasons["never present"], *reasons["always present"]}
    if len(gone) == len(tasks.names):
        what = f"none of {len(tasks.names)} tasks is present in some of {len(known)} images and absent in others"
        raise JudgeError(what, where=tasks.source, mend="give more images, or other objects")
    left = replace(tasks, by_image={image: tasks.by_image[image] for image in known})
    dropped = {reason: tuple(names) for reason, names in reasons.items() if names}
    return left.only(set(tasks.names) - gone), dropped
