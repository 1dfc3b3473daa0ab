"""Files -> :class:`Corpus`: captions of both sides and the attribute of each image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from judge.corpus.captions import DEFAULT_OPTIONS, ReadOptions, read_captions
from judge.corpus.labels import LabelTable, read_labels
from judge.corpus.tasks import Tasks, read_tasks
from judge.errors import JudgeError, nearest
from judge.text.lexicon import load_lexicon, named_lexicons
from judge.types import Captions, Doubt, Labels
from judge.utils.files import split_name

PathLike = str | Path

# If more of a captioner's captions than this share equal human ones, a note says so; 1 in 10,000 of COCO's do.
_COPIED = 0.1
# If fewer images than this share of the smallest file are in all files, a note says so.
_COMMON = 0.5


@dataclass(frozen=True, slots=True)
class Corpus:
    """All captions, labels and tasks that a run reads.

    Attributes:
        human: the human captions.
        generated: the captions of each captioner; names are distinct.
        labels: the class of each image; None to derive it from the human captions.
        tasks: what else each image shows; None to derive it from the human captions.
        notes: what readers of a result should know about the files, one line each.
    """

    human: Captions
    generated: tuple[Captions, ...]
    labels: Labels | None = None
    tasks: Tasks | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        *,
        human: PathLike | Sequence[PathLike],
        captions: PathLike | Iterable[PathLike] | Mapping[str, PathLike],
        labels: PathLike | Labels | LabelTable | None = None,
        attribute: str | None = None,
        objects: PathLike | Tasks | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
    ) -> Self:
        """Read files of any known format (data/README.md lists them; they are recognised by content).

        Args:
            human: human captions: a file, shards, or a folder of Parquet files, as every other input; or several.
            captions: captions of captioners, named by the file's stem, by ``"NAME=FILE"``, or by a mapping's keys.
            labels: the class of each image: a file, a table in memory, or the result of
                :func:`judge.corpus.labels.read_labels`. Without them ``evaluate`` derives them from human captions.
            attribute: the attribute, such as "skin", which names the column of labels; "gender" by default. If a
                lexicon of that name is shipped, its classes are the labels' classes.
            objects: what else images show: a file, or the result of :func:`judge.corpus.tasks.read_tasks`.
            options: how caption files are read.

        Raises:
            JudgeError: a file that cannot be read, with record and field; an attribute other than that of the labels.
        """
        labels, columns = _read_labels(labels, attribute), options.columns or {}
        objects = read_tasks(objects) if isinstance(objects, str | Path) else objects
        named = name_captioners([captions] if isinstance(captions, str | Path) else captions)
        check_owners(columns, ["human", *named])
        generated = [read_captions(path, options, side="generated", name=name) for name, path in named.items()]
        files = [human] if isinstance(human, str | Path) else list(human)
        people = _unite([read_captions(path, options, side="human") for path in files])
        refuse_unread(columns, [people, *generated])
        for one, path in zip(generated, named.values(), strict=True):
            if Path(path) in map(Path, files) and one.by_image == people.by_image:
                what = f"captions of '{one.name}' are the human ones: both sides read the same column of this file"
                mend = "give a file of the captioner's captions, in which a column 'prediction' holds them"
                raise JudgeError(what, where=str(path), mend=mend)
        notes: list[str] = [Doubt(note) for one in (people, *generated) for note in one.notes]
        for one in generated:
            notes += _doubts(people, one, labels, several=options.several)
        return cls(people, tuple(generated), labels, objects, tuple(notes))


def _read_labels(given: PathLike | Labels | LabelTable | None, attribute: str | None) -> Labels | None:
    """The labels of :meth:`Corpus.read`."""
    if given is None or isinstance(given, Labels):
        if attribute is not None and (given is None or given.attribute != attribute):
            what = f"labels are of '{given.attribute}'" if given else "there are no labels"
            mend = "give labels of it; evaluate(corpus, attribute=...) derives those of an attribute that captions name"
            raise JudgeError(f"{what}, and the attribute is '{attribute}'", where="Corpus.read", mend=mend)
        return given
    name = attribute or "gender"
    try:
        return read_labels(given, attribute=name, lexicon=load_lexicon(name) if name in named_lexicons() else None)
    except JudgeError as error:
        if "--" not in error.mend:
            raise
        mend = f"name the attribute: Corpus.read(attribute=...), '{name}' here; or give it what read_labels(...) reads"
        raise JudgeError(error.what, where=error.where, mend=mend) from error


def _doubts(people: Captions, captioner: Captions, labels: Labels | None, *, several: bool) -> Iterator[str]:
    """What may be wrong with a captioner's captions, although they can be read."""
    name, captions = captioner.name, captioner.by_image
    both = captions.keys() & people.by_image.keys()
    many = [len(of) for of in captions.values() if len(of) > 1]
    equal = sum({*captions[image]} <= {*people.by_image[image]} for image in both)
    if equal > _COPIED * len(both):
        note = f"captions of {name} equal the human ones for {equal:,} of {len(both):,} images"
        yield Doubt(f"{note}: see that {captioner.source or 'they'} holds what the captioner wrote")
    elif many and not several:
        note = f"{name} has several captions (up to {max(many)}) for {len(many):,} of {len(captions):,} images"
        if len(many) > len(captions) / 2 and people.total == len(people.by_image) > 0:
            right = f"--human {captioner.source} --captions {people.source}, or --several if they are not"
            yield Doubt(f"{note}, and the human captions one each: the sides look swapped. Give {right}")
        else:
            yield f"{note}, as the human captions do: all count. Give --several if the captioner wrote them all"
    images = [people.by_image, captions, *([labels.by_image] if labels else [])]
    common = len(set.intersection(*map(set, images)))
    if 0 < common < _COMMON * min(map(len, images)):
        note = f"{name}: {overlap(people, captioner, labels)}, fewer than half of the smallest"
        yield Doubt(f"{note}: see that image ids mean the same in all files")


def overlap(human: Captions, generated: Captions, labels: Labels | None) -> str:
    """How many images each side and the labels have, and how many are in all of them, in words."""
    common = human.by_image.keys() & generated.by_image.keys()
    counts = f"human captions are of {len(human.by_image):,} images, {generated.name}'s of {len(generated.by_image):,}"
    if labels is None:
        return f"{counts}; {len(common):,} are in both"
    common &= labels.by_image.keys()
    return f"{counts}, labels of {len(labels.by_image):,}; {len(common):,} are in all three"


def _unite(parts: Sequence[Captions]) -> Captions:
    """The human captions of several files, which must not have different captions of an image."""
    if len(parts) == 1:
        return parts[0]
    by_image: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for image, captions in part.by_image.items():
            if by_image.setdefault(image, captions) != captions:
                what = f"image '{image}' has other captions than in another file of --human"
                raise JudgeError(what, where=part.source, mend="keep the image in one of the files")
    return Captions(
        parts[0].name,
        by_image,
        " and ".join(part.source for part in parts),
        empty=sum(part.empty for part in parts),
        refused=sum(part.refused for part in parts),
        silent=frozenset[str]().union(*(part.silent for part in parts)) - by_image.keys(),
        fields=tuple(dict.fromkeys(name for part in parts for name in part.fields)),
        columns=tuple(dict.fromkeys(name for part in parts for name in part.columns)),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        cleaned=dict(sum((Counter(part.cleaned) for part in parts), Counter[str]())),
    )


def check_owners(columns: Mapping[str, str], captions: Iterable[str]) -> None:
    """Refuse a column of captions that do not exist ("humn.caption")."""
    known = ["captions", *captions]
    for role in columns:
        owner = role.rpartition(".")[0]
        if owner and owner not in known:
            raise JudgeError(f"no captions are called '{owner}'", where=f"--column {role}", mend=nearest(owner, known))


def refuse_unread(columns: Mapping[str, str], captions: Sequence[Captions]) -> None:
    """Refuse a column by which no file was read; one that only some files lack is fine."""
    for role, column in columns.items():
        owner, where = role.rpartition(".")[0], f"--column {role}"
        own = [one for one in captions if owner in {"", one.name} or (owner == "captions" and one.name != "human")]
        if not any(column in side.fields for side in own):
            read = dict.fromkeys(name for side in own for name in side.fields)
            what, mend = f"no file of captions was read by a column '{column}'", f"columns read: {', '.join(read)}"
            raise JudgeError(what, where=where, mend=mend)


def name_captioners(captions: Iterable[PathLike] | Mapping[str, PathLike]) -> dict[str, Path]:
    """Captioner -> file, named by its stem or by ``NAME=FILE``; two of one name are an error."""
    if isinstance(captions, Mapping):
        return {str(name): Path(path) for name, path in captions.items()}
    named: dict[str, Path] = {}
    for entry in map(str, captions):
        name, file = split_name(entry)
        name = name or Path(file).stem
        if name in named:
            raise JudgeError(f"two captioners are called '{name}'", where=file, mend=f"name them: OTHER={file}")
        named[name] = Path(file)
    return named


def common_images(human: Captions, generated: Captions, labels: Mapping[str, str]) -> tuple[list[str], dict[str, int]]:
    """Images with captions on both sides and a label, sorted; and reason -> number of images left out."""
    both = human.by_image.keys() & generated.by_image.keys()
    silent = human.silent | generated.silent
    dropped = {
        "human captions only": len(human.by_image.keys() - generated.by_image.keys() - silent),
        "generated captions only": len(generated.by_image.keys() - human.by_image.keys() - silent),
        "refused or empty": len(silent & (human.by_image.keys() | generated.by_image.keys())),
        "no label": len(both - labels.keys()),
    }
    return sorted(both & labels.keys()), dropped
