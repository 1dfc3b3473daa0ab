"""The column of a table that holds image ids, captions or labels: recognised by name, or chosen by the user."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from judge.corpus.records import PAINTING, SUFFIX, Row, place_of
from judge.errors import JudgeError, nearest
from judge.types import Side

# Names of earlier lines win; two names of one line in the same table are ambiguous. WebDataset calls a sample by its
# "__key__", img2dataset by "key", DataComp by "uid", LAION by "SAMPLE_ID" or only by the address of the image.
IDS = (
    ("image_id", "img_id", "imageid", "cocoid", "coco_id"),
    (PAINTING,),
    ("image", "img", "image_name", "image_file", "file_name", "filename", "image_path", "img_path", "imgid", "file"),
    ("id", "question_id"),
    ("__key__",),
    ("key",),
    ("sample_id", "uid"),
    ("image.path", "img.path", "picture.path", "photo.path", "jpg.path", "png.path"),
    ("url", "image_url", "img_url", "coco_url"),
    ("index", "doc_id"),
)
# In a table of both sides, the side decides; the last line serves either.
_GENERATED = (
    ("pred", "prediction", "predicted", "generated", "generated_caption", "filtered_resps"),
    ("response", "output", "model_output", "hypothesis", "candidate"),
)
_HUMAN = (
    ("caption_list", "captions", "references", "human_captions"),
    ("reference", "ground_truth", "gt", "answer", "answers", "target", "sentences"),
)
# A sample's text file wins: img2dataset writes an absent caption as null into its fields, and as "" into the file.
_EITHER = (("txt",), ("caption", "text", "raw", "sentence", "description", "utterance"))
_COMMENT = ("comment",)  # Flickr30k's results.csv; in other tables what an annotator remarked.
CAPTIONS: Mapping[Side, tuple[tuple[str, ...], ...]] = {
    "generated": (*_GENERATED, *_EITHER, ("captions",), _COMMENT),
    "human": (*_HUMAN, *_EITHER, _COMMENT),
}
#: Columns whose cells may be lists of captions, or texts that spell a list.
LISTS = frozenset({*_HUMAN[0], *_HUMAN[1], "filtered_resps"})
#: Columns that number rows and name no images: 5 here is not COCO's image 5.
ROW_NUMBERS = frozenset(IDS[-1])

TABLES = "labels", "objects"
"""Tables other than captions whose columns users may name."""
_LOOK_AT = 1000  # Rows whose cells and columns are looked at.
_BASE64 = ("/9j/", "iVBOR", "R0lGOD", "UklGR", "data:")


def columns_for(columns: Mapping[str, str], side: Side, name: str) -> dict[str, str]:
    """Role ("image_id", "caption") -> column of one file; the most specific of :attr:`ReadOptions.columns` counts."""
    found: dict[str, str] = {}
    for owner in ("", *(("human",) if side == "human" else ("captions", name))):
        parts = ((split_role(role), column) for role, column in columns.items())
        found |= {role: column for (of, role), column in parts if of == owner}
    return found


def split_role(role: str) -> tuple[str, str]:
    """The owner of a role, "" for all captions, and the rest of it: "labels.age.group" is ("labels", "age.group")."""
    owner, _, held = role.partition(".")
    return (owner, held) if held and owner in TABLES else (role.rpartition(".")[0], role.rpartition(".")[2])


def check_owners(columns: Mapping[str, str], owners: Collection[str]) -> None:
    """Refuse roles whose owner is none of ``owners``, such as "humn.caption"."""
    for role in columns:
        if (owner := split_role(role)[0]) and owner not in owners:
            what = f"there is no table of {owner}" if owner in TABLES else f"no captions are called '{owner}'"
            raise JudgeError(what, where=f"--column {role}", mend=nearest(owner, sorted(owners)))


def columns_of_table(
    columns: Mapping[str, str], table: Literal["labels", "objects"], roles: Collection[str]
) -> dict[str, str]:
    """Role -> column of a table without captions: {"labels.image_id": "img"} is {"image_id": "img"} of labels."""
    named = [(*split_role(role), column) for role, column in columns.items()]
    found = {held: column for owner, held, column in named if owner == table}
    for role in found.keys() - {*roles}:
        mend = nearest(role, sorted(roles))
        raise JudgeError(f"{table} have no column of '{role}'", where=f"--column {table}.{role}", mend=mend)
    return found


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The column names, in order; rows of JSON need not all have the same."""
    return list(dict.fromkeys(str(name) for row in rows[:_LOOK_AT] for name in row))


def chosen_column(rows: Sequence[Row], column: str, *, source: str) -> str:
    """``column``; an error if it does not exist."""
    if column not in (known := columns_of(rows)):
        raise JudgeError(f"no column '{column}'", where=source, mend=nearest(column, known))
    return column


def id_column(rows: Sequence[Row], chosen: str | None = None, *, source: str, option: str) -> str:
    """The column of image ids. Columns of images (in base64, as VLMEvalKit has them) are passed over."""
    names = []
    for name in columns_of(rows):
        held = [_is_image(cell) for row in rows[:_LOOK_AT] if (cell := row.get(name)) not in (None, "")]
        # A single image is a fault of its record, except in columns called "image" and the like: for a repeated image
        # VLMEvalKit writes the number of its row.
        if sum(held) <= (0 if name.strip().lower() in IDS[2] else len(held) / 2):
            names.append(name)
    return find_column(rows, IDS, chosen, what="image ids", source=source, option=option, names=names)


def _is_image(value: object) -> bool:
    if isinstance(value, str):
        # Addresses may be long.
        return (len(value) > 255 and "://" not in value[:10]) or (len(value) > 40 and value.startswith(_BASE64))
    return isinstance(value, dict | bytes)  # `datasets` has {"bytes": ..., "path": ...}.


def detect(known: Collection[str], tiers: Sequence[Sequence[str]]) -> list[str]:
    """The columns of the first tier that has any, compared without case."""
    found = ([name for name in known if name.strip().lower() in tier] for tier in tiers)
    return next(filter(None, found), [])


def _is_record(names: Sequence[str]) -> bool:
    """Whether names of columns are a record instead: an image file, a large number, a number beside a caption."""
    numbers = [name for name in names if name.isdigit()]
    captions = [name for name in names if len(name.split()) > 2]
    return any(map(SUFFIX.search, names)) or (bool(numbers) and (bool(captions) or len(numbers[0]) > 2))


def find_column(
    rows: Sequence[Row],
    tiers: Sequence[Sequence[str]],
    chosen: str | None = None,
    *,
    what: str,
    source: str,
    option: str,
    names: Collection[str] | None = None,
) -> str:
    """The column of ``what``: the one ``chosen`` by the user, else the one whose name is in the first of ``tiers``.

    ``source`` and ``option`` ("--column image_id"), which names a column, are for messages; ``names``: the columns that
    may be found, all by default. None, or several, with such names is an error.
    """
    if chosen is not None:
        return chosen_column(rows, chosen, source=source)
    known = columns_of(rows)
    found = detect(known if names is None else names, tiers)
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"'{name[:40]}'" for name in known[:20])
    if not found:
        if _is_record(known):
            mend = "write a first line that names the columns, such as image_id,caption"
            raise JudgeError(f"has no header: its first line is a record ({listed})", where=source, mend=mend)
        raise JudgeError(f"no column of {what} among {listed}", where=source, mend=f"name it with {option}=NAME")
    several = " and ".join(f"'{name}'" for name in found)
    what = f"columns {several} may both hold the {what} (columns: {listed})"
    # In JSON one record may be at fault: the first with a column that others lack.
    having = min(([n for n, row in enumerate(rows, start=1) if name in row] for name in found), key=len)
    where = source if len(having) == len(rows) else f"{source}, {place_of(rows[having[0] - 1], having[0])}"
    raise JudgeError(what, where=where, mend=f"choose one with {option}=NAME")
