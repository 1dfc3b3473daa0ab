"""Files -> :class:`Corpus`: captions of both sides and the attribute of each image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from judge.corpus.labels import read_labels
from judge.corpus.objects import read_tasks
from judge.corpus.reading import DEFAULT_OPTIONS, ReadOptions, read_captions
from judge.corpus.tasks import Tasks
from judge.errors import JudgeError
from judge.text.lexicon import load_lexicon
from judge.types import Captions, Labels

PathLike = str | Path


@dataclass(frozen=True, slots=True)
class Corpus:
    """Everything a run reads.

    Attributes:
        human: the human captions.
        generated: one entry per captioner, names distinct.
        labels: image -> class; None to derive them from the human captions.
        tasks: image -> what else it shows; None to derive it from the human captions.
    """

    human: Captions
    generated: tuple[Captions, ...]
    labels: Labels | None = None
    tasks: Tasks | None = None

    @classmethod
    def read(
        cls,
        *,
        human: PathLike,
        captions: PathLike | Iterable[PathLike] | Mapping[str, PathLike],
        labels: PathLike | Labels | None = None,
        objects: PathLike | Tasks | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
    ) -> Self:
        """Read files of any known format (data/README.md lists them; they are recognised by content).

        Args:
            human: captions by people: a file, shards, or the folder of a data set, as every other input.
            captions: captions by captioners; named by file stem, by ``"NAME=FILE"``, or by a mapping's keys.
            labels: a table of genders, or :func:`judge.corpus.labels.read_labels` of another attribute.
            objects: what else images show, or :func:`judge.corpus.objects.read_tasks` of an unusual table.
            options: how caption files are read.

        Raises:
            JudgeError: a file that cannot be read, with record and field.
        """
        if isinstance(labels, str | Path):
            labels = read_labels(labels, attribute="gender", lexicon=load_lexicon("gender"))
        if isinstance(objects, str | Path):
            objects = read_tasks(objects)
        named = name_captioners([captions] if isinstance(captions, str | Path) else captions)
        generated = [read_captions(path, options, side="generated", name=name) for name, path in named.items()]
        people = read_captions(human, options, side="human")
        refuse_unread(options.columns or {}, [people, *generated])
        for captions_of, path in zip(generated, named.values(), strict=True):
            if Path(path) == Path(human) and captions_of.by_image == people.by_image:
                what = f"captions of '{captions_of.name}' are people's own: both sides are read alike from this file"
                mend = "give a file of the captioner's captions, in which a column 'prediction' holds them"
                raise JudgeError(what, where=str(path), mend=mend)
        return cls(people, tuple(generated), labels, objects)


def refuse_unread(columns: Mapping[str, str], captions: Sequence[Captions]) -> None:
    """A column that one file has, another may lack; what none was read by is misspelt.

    Raises:
        JudgeError: there is such a column.
    """
    for role, column in columns.items():
        if not any(column in side.fields for side in captions):
            read = dict.fromkeys(name for side in captions for name in side.fields)
            what, mend = f"no file of captions was read by a column '{column}'", f"columns read: {', '.join(read)}"
            raise JudgeError(what, where=f"--column {role}", mend=mend)


def name_captioners(captions: Iterable[PathLike] | Mapping[str, PathLike]) -> dict[str, Path]:
    """Captioner -> file: a mapping as it is; of paths the stem, unless they say ``NAME=FILE``.

    Raises:
        JudgeError: two captioners of one name.
    """
    if isinstance(captions, Mapping):
        return {str(name): Path(path) for name, path in captions.items()}
    named: dict[str, Path] = {}
    for entry in map(str, captions):
        name, equals, path = entry.partition("=")
        name, path = (name, path) if equals else (_stem(Path(entry)), entry)
        if name in named:
            raise JudgeError(f"two captioners are called '{name}'", where=path, mend=f"name them: OTHER={path}")
        named[name] = Path(path)
    return named


def _stem(path: Path) -> str:
    """A file's or folder's name; a range of shards, ``mine/{00000..00009}.tar``, is called as its folder."""
    return path.parent.name or path.stem if "{" in path.name else path.stem


def common_images(human: Captions, generated: Captions, labels: Mapping[str, str]) -> tuple[list[str], dict[str, int]]:
    """Images with captions on both sides and a label, sorted; and how many were dropped, by reason."""
    both = human.by_image.keys() & generated.by_image.keys()
    silent = human.silent | generated.silent
    dropped = {
        "human captions only": len(human.by_image.keys() - generated.by_image.keys() - silent),
        "generated captions only": len(generated.by_image.keys() - human.by_image.keys() - silent),
        "refused or empty": len(silent & (human.by_image.keys() | generated.by_image.keys())),
        "no label": len(both - labels.keys()),
    }
    return sorted(both & labels.keys()), dropped
