"""Files -> :class:`Corpus`: captions of both sides and the attribute of each image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

from judge.corpus.labels import LabelTable, read_labels
from judge.corpus.objects import read_tasks
from judge.corpus.reading import DEFAULT_OPTIONS, ReadOptions, read_captions
from judge.corpus.tasks import Tasks
from judge.corpus.visual_genome import has_own_ids
from judge.errors import JudgeError, nearest
from judge.text.lexicon import load_lexicon, shipped_lexicons
from judge.types import Captions, Doubt, Labels
from judge.utils.files import split_name

PathLike = str | Path


@dataclass(frozen=True, slots=True)
class Corpus:
    """Everything a run reads.

    Attributes:
        human: the human captions.
        generated: one entry per captioner, names distinct.
        labels: image -> class; None to derive them from the human captions.
        tasks: image -> what else it shows; None to derive it from the human captions.
        notes: what readers of a result should know of the files, a line each.
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
            human: captions by people: a file, shards, or the folder of a data set, as every other input; or several,
                which are united.
            captions: captions by captioners; named by file stem, by ``"NAME=FILE"``, or by a mapping's keys.
            labels: the class of each image: a file, ``{image: class}``, records, a pandas series or frame, or what
                :func:`judge.corpus.labels.read_labels` made of an unusual table. Without them ``evaluate`` derives
                them from the human captions.
            attribute: of the labels; its classes are those of the lexicon of that name, where one is shipped.
                "gender" if it is not given.
            objects: what else images show, or :func:`judge.corpus.objects.read_tasks` of an unusual table.
            options: how caption files are read.

        Raises:
            JudgeError: a file that cannot be read, with record and field; an attribute that is not that of the labels.
        """
        labels = _labels_of(labels, attribute)
        if isinstance(objects, str | Path):
            objects = read_tasks(objects)
        named = name_captioners([captions] if isinstance(captions, str | Path) else captions)
        check_owners(options.columns or {}, ["human", *named])
        generated = [read_captions(path, options, side="generated", name=name) for name, path in named.items()]
        files = [human] if isinstance(human, str | Path) else list(human)
        people = unite([read_captions(path, options, side="human") for path in files])
        refuse_unread(options.columns or {}, [people, *generated])
        for captions_of, path in zip(generated, named.values(), strict=True):
            if Path(path) in map(Path, files) and captions_of.by_image == people.by_image:
                what = f"captions of '{captions_of.name}' are people's own: both sides are read alike from this file"
                mend = "give a file of the captioner's captions, in which a column 'prediction' holds them"
                raise JudgeError(what, where=str(path), mend=mend)
        notes: list[str] = [Doubt(_OWN_IDS)] if has_own_ids(people) else []
        notes += [Doubt(note) for one in (people, *generated) for note in one.notes]
        notes += [note for one in generated for note in _noticed(people, one, several=options.several)]
        notes += [note for one in generated for note in _little_in_common(people, one, labels)]
        return cls(people, tuple(generated), labels, objects, tuple(notes))


def _labels_of(given: PathLike | Labels | LabelTable | None, attribute: str | None) -> Labels | None:
    """The labels of ``Corpus.read``."""
    if given is None or isinstance(given, Labels):
        if attribute is not None and (given is None or given.attribute != attribute):
            what = f"labels are of '{given.attribute}'" if given else "there are no labels"
            mend = "give labels of it; evaluate(corpus, attribute=...) derives those of an attribute that captions name"
            raise JudgeError(f"{what}, and the attribute is '{attribute}'", where="Corpus.read", mend=mend)
        return given
    name = attribute or "gender"
    return read_labels(given, attribute=name, lexicon=load_lexicon(name) if name in shipped_lexicons() else None)


_OWN_IDS = (
    "people's captions have Visual Genome's own image ids, which are other images' in COCO: captions under COCO's ids "
    "were compared with those of other images. Join these by --column image_id=coco_id"
)
# The share of a captioner's captions that are people's own from which that is told; of COCO's captioners 1 in 10,000.
_COPIED = 0.1


def _noticed(people: Captions, captioner: Captions, *, several: bool) -> Iterator[str]:
    """What may be wrong with a captioner's captions, though they can be read."""
    name, captions = captioner.name, captioner.by_image
    both = captions.keys() & people.by_image.keys()
    many = [len(of) for of in captions.values() if len(of) > 1]
    equal = sum({*captions[image]} <= {*people.by_image[image]} for image in both)
    if equal > _COPIED * len(both):
        told = f"captions of {name} equal the human ones for {equal:,} of {len(both):,} images"
        yield Doubt(f"{told}: see that {captioner.source or 'they'} holds what the captioner wrote")
    elif many and not several:
        told = f"{name} has several captions (up to {max(many)}) of {len(many):,} of {len(captions):,} images"
        if len(many) > len(captions) / 2 and people.total == len(people.by_image) > 0:
            right = f"--human {captioner.source} --captions {people.source}"
            told += f", and people one of each: the sides look swapped. Give {right}, or --several if they are not"
            yield Doubt(told)
        else:
            yield f"{told}, as people have: all count. Give --several if the captioner wrote them all"


# The share of the images of the smallest file below which it is told how few are in all files; of files that belong
# together the smallest lies in the others.
_COMMON = 0.5


def _little_in_common(people: Captions, captioner: Captions, labels: Labels | None) -> Iterator[str]:
    images = [people.by_image, captioner.by_image, *([labels.by_image] if labels else [])]
    common = len(set.intersection(*map(set, images)))
    if 0 < common < _COMMON * min(map(len, images)):
        told = f"{captioner.name}: {overlap(people, captioner, labels)}, fewer than half of the smallest"
        yield Doubt(f"{told}: see that image ids mean the same in all files")


def overlap(human: Captions, generated: Captions, labels: Labels | None) -> str:
    """How many images each side and the labels have, and how many are in all of them."""
    common = human.by_image.keys() & generated.by_image.keys()
    told = f"people's captions are of {len(human.by_image):,} images, {generated.name}'s of {len(generated.by_image):,}"
    if labels is None:
        return f"{told}; {len(common):,} are in both"
    common &= labels.by_image.keys()
    return f"{told}, labels of {len(labels.by_image):,}; {len(common):,} are in all three"


def unite(parts: Sequence[Captions]) -> Captions:
    """The captions of one side out of several files.

    Raises:
        JudgeError: an image has other captions in one file than in another.
    """
    if len(parts) == 1:
        return parts[0]
    by_image: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for image, captions in part.by_image.items():
            if by_image.setdefault(image, captions) != captions:
                what = f"image '{image}' has other captions than in another file of --human"
                raise JudgeError(what, where=part.source, mend="keep the image in one of the files")
    found: dict[str, Any] = {"by_image": by_image, "source": " and ".join(part.source for part in parts)}
    for name in (one.name for one in fields(Captions) if one.name not in found):
        of_each: list[Any] = [getattr(part, name) for part in parts]
        if isinstance(of_each[0], int):
            found[name] = sum(of_each)
        elif isinstance(of_each[0], Mapping):  # Counts.
            found[name] = dict(sum(map(Counter, of_each), Counter[str]()))
        elif isinstance(of_each[0], tuple):
            found[name] = tuple(dict.fromkeys(chain(*of_each)))
    found["silent"] = frozenset(image for part in parts for image in part.silent if image not in by_image)
    return replace(parts[0], **found)


def check_owners(columns: Mapping[str, str], captions: Iterable[str]) -> None:
    """Refuse a column of captions that there are not ("humn.caption").

    Raises:
        JudgeError: there is such a column.
    """
    known = ["captions", *captions]
    for role in columns:
        owner = role.rpartition(".")[0]
        if owner and owner not in known:
            raise JudgeError(f"no captions are called '{owner}'", where=f"--column {role}", mend=nearest(owner, known))


def refuse_unread(columns: Mapping[str, str], captions: Sequence[Captions]) -> None:
    """A column that one file has, another may lack; what none was read by is misspelt.

    Raises:
        JudgeError: there is such a column.
    """
    for role, column in columns.items():
        owner = role.rpartition(".")[0]
        own = [one for one in captions if owner in {"", one.name} or (owner == "captions" and one.name != "human")]
        if not any(column in side.fields for side in own):
            read = dict.fromkeys(name for side in own for name in side.fields)
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
        name, path = split_name(entry)
        name = name or _stem(Path(path))
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
