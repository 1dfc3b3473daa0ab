"""Files -> :class:`Corpus`: captions of both sides and the attribute of each image."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os.path import exists as is_path
from pathlib import Path
from typing import Any, Self

from judge.corpus.captions import ReadOptions, read_captions
from judge.corpus.columns import TABLES, check_owners, split_role
from judge.corpus.files import Given, listed
from judge.corpus.labels import read_labels
from judge.corpus.tasks import Tasks, read_tasks
from judge.errors import JudgeError, in_python, python_words, some
from judge.text.combined import AND
from judge.text.lexicon import Lexicon, load_lexicon, named_lexicons
from judge.types import Captions, Doubt, Labels
from judge.utils.files import split_name

PathLike = str | Path

_SUFFIX = re.compile(r"\.\w+$")
# If more of a captioner's captions than this share equal human ones, a note says so; 1 in 10,000 of COCO's do.
COPIED = 0.1
# If fewer images than this share of the smallest file are in all files, a note says so.
_COMMON = 0.5
# Refused captions are pointed out below this p of a test that classes are refused alike.
_UNEVEN = 0.01


@dataclass(frozen=True, slots=True, repr=False)
class Corpus:
    """All captions, labels and tasks that a run reads.

    Attributes:
        human: the human captions; of no image if there are none.
        generated: the captions of each captioner.
        labels: the class of each image; None to derive it from the human captions.
        tasks: what else each image shows; None to derive it from the human captions.
        notes: what readers of a result should know about the files, one line each.
    """

    human: Captions
    generated: tuple[Captions, ...]
    labels: Labels | None = None
    tasks: Tasks | None = None
    notes: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        """True if there are no human captions to compare with.

        Example:
            >>> Corpus.read(captions={"mine": {"1": "a woman at a desk", "2": "a man at a desk"}}).alone
            True
        """
        return not self.human.by_image

    def __repr__(self) -> str:
        labels = [] if self.labels is None else [self.labels]
        human = [] if self.alone else [self.human]
        return f"Corpus({', '.join(map(repr, [*human, *self.generated, *labels]))})"

    @classmethod
    def read(
        cls,
        *,
        human: Given | Sequence[PathLike] | None = None,
        captions: PathLike | Iterable[PathLike] | Mapping[str, Given],
        labels: Given | Labels | None = None,
        attribute: str | Sequence[str] | None = None,
        objects: Given | Tasks | None = None,
        lexicon: str | Lexicon | None = None,
        options: ReadOptions | None = None,
        **reading: Any,
    ) -> Self:
        """Read files of any known format (data/README.md lists them; they are recognised by content), or memory.

        Tables in memory are ``{image: value}``, lists of records, and tables of pandas, `datasets`, pyarrow or polars;
        images are the index of a series. Lists and arrays of values, such as ``human=[["a man on a horse", ...],
        ...]``, have an entry for each image, and all inputs must then be such lists, of one length.

        Args:
            human: human captions: a file, shards, or a folder of Parquet files, as every other input; or several
                files; or a table in memory. Metrics of one side (``sc``) need none, but labels.
            captions: captions of captioners, named by the file's stem, by ``"NAME=FILE"``, or by a mapping's keys, as
                those in memory must be: ``{"mine": table}``.
            labels: the class of each image: a file, a table in memory, or the result of
                :func:`judge.corpus.labels.read_labels`. Without them ``evaluate`` derives them from human captions.
            attribute: the attribute, such as "skin", which names the column of labels; "gender" by default.
            objects: what else images show: a file, or the result of :func:`judge.corpus.tasks.read_tasks`.
            lexicon: the words of the attribute, whose classes are the labels' classes: a name or file, or "none"; by
                default the shipped lexicon of the attribute's name, if there is one.
            options: how captions and labels are read, if their columns or values are not recognised.
            reading: the same as keywords, of the meaning that they have for :func:`judge.evaluate`: ``columns``,
                ``split``, ``several``, ``where``, ``refusals``, ``label_values``, ``label_rule``, ``label_drop``.

        Raises:
            JudgeError: a file or table that cannot be read, with record and field; lists of other lengths; captions
                in memory without a name; an attribute other than that of the labels; an unknown keyword.
        """
        if options and reading:
            raise JudgeError("options and keywords say how to read", where="Corpus.read", mend="give one of them")
        options = options or ReadOptions.of(**reading)
        with in_python(unless=options.command):
            classes = partial(_read_labels, attribute=attribute, lexicon=lexicon, options=options)
            corpus = cls._read(human, captions, labels, objects, options, classes)
        notes = corpus.notes if options.command else (type(note)(python_words(note)) for note in corpus.notes)
        return replace(corpus, notes=tuple(notes))

    @classmethod
    def _read(
        cls,
        human: Any,
        captions: Any,
        labels: Any,
        objects: Any,
        options: ReadOptions,
        classes: Callable[[Any], Labels | None],
    ) -> Self:
        """:meth:`read`; messages name options of the command line; ``classes`` reads the labels."""
        named = name_captioners([captions] if isinstance(captions, str | Path) else captions)
        named = {name: listed(of) for name, of in named.items()}
        human, labels, objects = map(listed, (human, labels, objects))
        several = isinstance(human, list | tuple) and len(human) > 0 and not is_table(human, several=True)
        given: list[Any] = [*human] if several else [] if human is None else [human]
        _check_lists({"human": given[0] if several else human, "labels": labels, "objects": objects, **named})
        labels, columns = classes(labels), options.columns or {}
        objects = objects if objects is None or isinstance(objects, Tasks) else read_tasks(objects, columns=columns)
        # A command notes columns of tables that it does not read.
        given_tables = zip(TABLES, (labels, objects), strict=True)
        tables = [name for name, of in given_tables if options.command or of is not None]
        check_owners(columns, ["captions", "human", *named, *tables])
        generated = [read_captions(path, options, side="generated", name=name) for name, path in named.items()]
        references = _unite([read_captions(path, options, side="human") for path in given] or [Captions("human", {})])
        refuse_unread(columns, [references, *generated])
        files = [Path(of) for of in given if not is_table(of)]
        for one, path in zip(generated, named.values(), strict=True):
            if not is_table(path) and Path(path) in files and one.by_image == references.by_image:
                what = f"captions of '{one.name}' are the human ones: both sides read the same column of this file"
                mend = "give a file of the captioner's captions, in which a column 'prediction' holds them"
                raise JudgeError(what, where=str(path), mend=mend)
        notes: list[str] = [Doubt(note) for one in (references, *generated) for note in one.notes]
        for one in generated if references.by_image else ():
            notes += _doubts(references, one, labels, several=options.several)
        if labels:
            notes += [note for one in (references, *generated) for note in _left_out_by_class(one, labels)]
        return cls(references, tuple(generated), labels, objects, tuple(notes))


def _read_labels(
    given: Given | Labels | None,
    attribute: str | Sequence[str] | None,
    lexicon: str | Lexicon | None,
    options: ReadOptions,
) -> Labels | None:
    name = attribute if isinstance(attribute, str | None) else AND.join(attribute)
    if given is None or isinstance(given, Labels):
        if name is not None and (given is None or given.attribute != name):
            what = f"labels are of '{given.attribute}'" if given else "there are no labels"
            mend = "give labels of it; evaluate(corpus, attribute=...) derives those of an attribute that captions name"
            raise JudgeError(f"{what}, and the attribute is '{name}'", where="Corpus.read", mend=mend)
        return given
    if name and AND in name:
        mend = "read the labels of each with read_labels, and give multiply_labels of them to Corpus.read"
        raise JudgeError("tables in memory are read for one attribute", where="Corpus.read", mend=mend)
    name = name or "gender"
    if not isinstance(lexicon, Lexicon):
        named = lexicon or (name if name in named_lexicons() else "none")
        lexicon = None if named == "none" else load_lexicon(named)
    how = options.labels.with_columns(options.columns or {}, name)
    return read_labels(given, attribute=name, lexicon=lexicon, options=how)


def _doubts(human: Captions, captioner: Captions, labels: Labels | None, *, several: bool) -> Iterator[str]:
    """What may be wrong with a captioner's captions, although they can be read."""
    name, captions = captioner.name, captioner.by_image
    both = captions.keys() & human.by_image.keys()
    many = [len(of) for of in captions.values() if len(of) > 1]
    equal = sum({*captions[image]} <= {*human.by_image[image]} for image in both)
    if equal > COPIED * len(both):
        note = f"captions of {name} equal the human ones for {equal:,} of {len(both):,} images"
        yield Doubt(f"{note}: see that {captioner.source or 'they'} holds what the captioner wrote")
    elif many and not several:
        note = f"{name} has several captions (up to {max(many)}) for {len(many):,} of {len(captions):,} images"
        if len(many) > len(captions) / 2 and human.total == len(human.by_image) > 0:
            right = f"--human {captioner.source} --captions {human.source}, or --several if they are not"
            yield Doubt(f"{note}, and the human captions one each: the sides look swapped. Give {right}")
        else:
            yield f"{note}, as the human captions do: all count. Give --several if the captioner wrote them all"
    images = [human.by_image, captions, *([labels.by_image] if labels else [])]
    common = len(set.intersection(*map(set, images)))
    if 0 < common < _COMMON * min(map(len, images)):
        note = f"{name}: {overlap(human, captioner, labels)}, fewer than half of the smallest"
        yield Doubt(f"{note}: see that image ids mean the same in all files")


def _left_out_by_class(captions: Captions, labels: Labels) -> Iterator[str]:
    """A note if the images without a caption, because it is empty or refused, are not of all classes alike."""
    left_out = Counter(labels.by_image[image] for image in captions.silent & labels.by_image.keys())
    read = Counter(labels.by_image[image] for image in captions.by_image.keys() & labels.by_image.keys())
    table = [(left_out[name], read[name]) for name in labels.classes if left_out[name] + read[name]]
    if not left_out or len(table) < 2:
        return
    import numpy as np
    from scipy.stats import chi2_contingency, fisher_exact

    test = (fisher_exact if len(table) == 2 else chi2_contingency)(np.array(table))
    if test.pvalue < _UNEVEN:
        shares = [f"{left_out[name]:,} of {left_out[name] + read[name]:,} {name}" for name in labels.classes]
        what = f"captions of {captions.name} are refused or empty for {some(shares)} images"
        yield Doubt(f"{what}, which is uneven by more than chance (p {test.pvalue:.1g}): values leave these images out")


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


def refuse_unread(columns: Mapping[str, str], captions: Sequence[Captions]) -> None:
    """Refuse a column by which no file was read; one that only some files lack is fine."""
    for role, column in columns.items():
        owner, where = split_role(role)[0], f"--column {role}"
        if owner in TABLES:
            continue
        own = [one for one in captions if owner in {"", one.name} or (owner == "captions" and one.name != "human")]
        if not any(column in side.fields for side in own):
            read = dict.fromkeys(name for side in own for name in side.fields)
            what, mend = f"no file of captions was read by a column '{column}'", f"columns read: {', '.join(read)}"
            raise JudgeError(what, where=where, mend=mend)


def is_table(given: object, *, several: bool = False) -> bool:
    """Return whether an input lies in memory: it is no path and, with ``several`` files allowed, no list of paths."""
    if several and isinstance(given, list | tuple):
        return not all(isinstance(one, str | Path) for one in given) or _are_captions(given)
    return not isinstance(given, str | Path)


def _are_captions(texts: Sequence[object]) -> bool:
    """Whether texts are captions, of which some have spaces, and not the paths of files."""
    words = [*map(str, texts)]
    return any(" " in text for text in words) and not any(map(_SUFFIX.search, words)) and not any(map(is_path, words))


def _check_lists(inputs: Mapping[str, Any]) -> None:
    """Refuse lists of values, which have no ids of images, beside inputs that have, or of other lengths."""
    given = {name: of for name, of in inputs.items() if of is not None}
    lists = [name for name, of in given.items() if _is_list(of)]
    lengths = {name: len(given[name]) for name in lists}
    if (lists and len(lists) < len(given)) or len({*lengths.values()}) > 1:
        others = [name for name in given if name not in lists]
        said = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        what = f"lists have no ids of images, and {others[0]} has" if others else f"lists of other lengths ({said})"
        raise JudgeError(what, where="Corpus.read", mend="give {image: value} for each")


def _is_list(given: object) -> bool:
    """Return whether it has a value for each image, by its place, and no record."""
    return isinstance(given, list | tuple) and not any(isinstance(one, Mapping) for one in given)


def name_captioners(captions: Iterable[PathLike] | Mapping[str, Given]) -> dict[str, Any]:
    """Captioner -> file or table, named by the file's stem or by ``NAME=FILE``; two of one name are an error."""
    mend = "name the captioner: captions={'mine': captions}"
    if isinstance(captions, Mapping):
        texts = [one for one in captions.values() if isinstance(one, str)]
        if len(texts) == len(captions) > 1 and _are_captions(texts):
            raise JudgeError("holds captions of images, not files of captioners", where="captions", mend=mend)
        return {str(name): Path(of) if isinstance(of, str) else of for name, of in captions.items()}
    if hasattr(captions, "shape") or is_table(entries := list(captions), several=True):  # A table of some library.
        raise JudgeError("captions in memory have no name", where="captions", mend=mend)
    named: dict[str, Any] = {}
    for entry in map(str, entries):
        name, file = split_name(entry)
        name = name or Path(file).stem
        if name in named:
            mend = f"name them: OTHER={file}; or join the files of one captioner: jq -s add FILE FILE > {name}.json"
            raise JudgeError(f"two captioners are called '{name}'", where=file, mend=mend)
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
