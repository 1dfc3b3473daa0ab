"""DBAC's controlled sets as files: drawn from human captions, or made by grammar."""

from __future__ import annotations

import json
from pathlib import Path

from _job import Job
from _verb_sets import (
    RATIOS,
    Candidates,
    VerbSet,
    draw_set,
    find_candidates,
    grammar_set,
    number_of,
)

from judge.corpus.captions import read_captions
from judge.corpus.labels import read_labels
from judge.corpus.tasks import read_tasks
from judge.errors import JudgeError
from judge.text.lexicon import load_lexicon

NAMES = {f"C{number}": ratio for number, ratio in enumerate(RATIOS, start=1)}
# Captions of a class and task: 50 in the paper.
PER_CELL = 50
# Of a set made by grammar: as many as the paper's three tasks and two classes have, and fewer.
IMAGES, FEW = 6 * PER_CELL, 60


def sources(job: Job) -> tuple[Path, Path]:
    """What :func:`candidates` reads: human captions, which hold the labels of the paper's run, and objects."""
    return job.human(), job.objects()


def candidates(job: Job) -> Candidates:
    """Human captions that fit a set; of a small run those of a set that grammar made.

    Raises:
        JudgeError: files that are missing or cannot be read.
    """
    gender = load_lexicon("gender")
    if job.size == "small":
        made = grammar_set(RATIOS[0], FEW).corpus
        assert made.tasks is not None
        assert made.labels is not None
        return find_candidates(made.human, made.labels, made.tasks)
    job.need(sources(job))
    labels = read_labels(job.human() if job.is_paper else job.data / "gender.csv", lexicon=gender)
    if labels is None:
        raise JudgeError("no column of classes", where=str(job.data / "gender.csv"), mend="see data/README.md")
    return find_candidates(read_captions(job.human(), side="human"), labels, read_tasks(job.objects()))


def write_sets(job: Job) -> None:
    """Write C1 to C4 into the job's folder, each as captions, labels and objects; the captions serve as both sides.

    The paper's are drawn from human captions. Other runs take captions that grammar makes: of fewer images than the
    paper's there are too few for 50 of a kind.

    Raises:
        JudgeError: too few captions of some kind.
    """
    found = candidates(job) if job.is_paper else None
    for name, ratio in NAMES.items():
        if found is None:
            made = grammar_set(ratio, FEW if job.size == "small" else IMAGES, seed=0)
        else:
            _enough(found, ratio, job)
            made = draw_set(found, ratio=ratio, per_cell=PER_CELL)
        _write(made, job.out / "sets" / name)


def _enough(found: Candidates, ratio: tuple[int, int], job: Job) -> None:
    both: dict[tuple[str, str], set[str]] = {}
    for cell, images in found.items():
        both.setdefault((cell.attribute, cell.task), set()).update(images)
        _need(len(images), number_of(cell, ratio, PER_CELL), " ".join(cell), job)
    for kind, of in both.items():
        _need(len(of), PER_CELL, " ".join(kind), job)


def _need(there: int, needed: int, kind: str, job: Job) -> None:
    if there < needed:
        what = f"only {there} images have captions of the kind '{kind}': {needed} are needed"
        raise JudgeError(what, where=f"--data {job.data}", mend="give all of COCO's captions, with more labels")


def _write(made: VerbSet, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    said = {image: captions[0] for image, captions in made.corpus.human.by_image.items()}
    results = [{"image_id": image, "caption": text} for image, text in said.items()]
    human = {
        "images": [{"id": image} for image in said],
        "annotations": [{"id": str(number), **entry} for number, entry in enumerate(results)],
    }
    labels = "".join(f"{image},{cell.attribute}\n" for image, cell in made.cells.items())
    texts = {
        "human.json": json.dumps(human),
        "itself.json": json.dumps(results),
        "gender.csv": f"image_id,gender\n{labels}",
        "objects.json": json.dumps({image: [cell.task] for image, cell in made.cells.items()}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


__all__ = ["NAMES", "candidates", "sources", "write_sets"]
