"""Rating sheets: what raters get, and what is read back."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from helpers import fault_of
from hypothesis import given
from hypothesis import strategies as st

from judge.corpus.rating_sheet import (
    CANNOT_TELL,
    Question,
    Sheet,
    caption_questions,
    caption_sheet,
    key_csv,
    picture_questions,
    picture_sheet,
    plain,
    sheet_csv,
)
from judge.corpus.ratings import read_ratings
from judge.types import Captions
from judge.utils.cells import guard, unguard

GENDER = caption_questions("gender", ("female", "male"))
# A spreadsheet computes, or a reader stumbles over, each of these.
ODD = (
    "=1+1",
    "+49 on a shirt",
    "-5 degrees",
    "@home",
    "'quoted' first",
    'a "man", he said',
    "two\nlines",
    "a;b",
    "'=x",
    "\uff1d1+1",
)


def captions(name: str, by_image: dict[str, tuple[str, ...]]) -> Captions:
    return Captions(name, by_image)


def two() -> list[Captions]:
    mine = {str(number): (text,) for number, text in enumerate(ODD)}
    return [captions("a", mine), captions("b", mine | {"0": ("another",), "1": (ODD[1], ODD[1])})]


def filled(sheet: Sheet, answers: dict[str, str], path: Path, rater: str = "") -> Path:
    """The sheet as a rater leaves it; answers by item."""
    rows = list(csv.DictReader(io.StringIO(sheet_csv(sheet))))
    for row in rows:
        row[sheet.questions[0].name] = answers.get(row["item"], "")
        row["rater"] = rater
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, sheet.columns)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_one_item_for_each_text_of_an_image_and_nobody_named() -> None:
    sheet = caption_sheet(two(), GENDER)
    assert len(sheet.items) == len(ODD) + 1
    by_image = {(item.image, item.text): dict(item.captioners) for item in sheet.items}
    assert by_image["0", "=1+1"] == {"a": 1}
    assert by_image["0", "another"] == {"b": 1}
    assert by_image["1", ODD[1]] == {"a": 1, "b": 2}
    # Numbered as shown, images in no order that tells them.
    assert [item.name for item in sheet.items] == [f"{sheet.name}-{n:04}" for n in range(1, len(sheet.items) + 1)]
    assert [item.image for item in sheet.items] != sorted(item.image for item in sheet.items)
    keys = list(csv.DictReader(io.StringIO(key_csv(sheet))))
    assert {(row["item"], row["captioner"], row["captions"]) for row in keys} == {
        (item.name, name, str(count)) for item in sheet.items for name, count in item.captioners.items()
    }


def test_a_sheet_is_known_by_what_it_asks() -> None:
    """Whatever the order of captioners; another seed, text, answer or captioner makes another sheet."""
    sheet = caption_sheet(two(), GENDER)
    assert caption_sheet(two()[::-1], GENDER) == sheet
    others = [
        caption_sheet(two(), GENDER, seed=1),
        caption_sheet(two()[:1], GENDER),
        caption_sheet(two(), caption_questions("gender", ("male", "female"))),
        caption_sheet([*two(), captions("c", {"0": ("=1+1",)})], GENDER),
    ]
    assert len({sheet.name, *(other.name for other in others)}) == 5
    assert picture_sheet({"1": b"x"}, GENDER).name != picture_sheet({"1": b"y"}, GENDER).name


@given(st.text(max_size=20))
def test_guarded_cells_come_back(text: str) -> None:
    assert unguard(guard(text)) == text
    assert guard(text)[:1] not in {*"=+-@\t\r"}


@pytest.mark.parametrize("kind", ["csv", "semicolons", "xlsx"])
def test_what_goes_out_comes_back(tmp_path: Path, kind: str) -> None:
    """Odd captions too, and whatever program has written the table."""
    sheet = caption_sheet(two(), GENDER)
    answers = {item.name: GENDER[0].choices[number % 3] for number, item in enumerate(sheet.items)}
    path = filled(sheet, answers, tmp_path / "anna.csv")
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    if kind == "semicolons":  # As spreadsheets of other languages save it; answers with capitals.
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file, delimiter=";").writerows(
                [*rows[:1], *([*row[:2], row[2].upper(), *row[3:]] for row in rows[1:])]
            )
    elif kind == "xlsx":
        import openpyxl

        book = openpyxl.Workbook()
        for row in rows:
            book.worksheets[0].append(row)
        path = tmp_path / "anna.xlsx"
        book.save(path)
    found = read_ratings([path], sheet)
    assert found.raters == ("anna",)
    assert found.answers["gender"] == {item: {"anna": answer} for item, answer in answers.items()}
    texts = {plain(text) for text in (*ODD, "another")}
    assert {unguard(row[1]) for row in rows[1:]} == texts
    assert not [row[1] for row in rows if row[1][0] in "=+-@"]


def test_a_question_that_begins_as_a_formula(tmp_path: Path) -> None:
    sheet = caption_sheet(two(), caption_questions("=gender", ("female", "male")))
    assert "=gender" in sheet.columns
    path = tmp_path / "anna.csv"
    path.write_text(sheet_csv(sheet).replace(",,", ",female,", 1), encoding="utf-8")
    assert "'=gender" in path.read_text(encoding="utf-8")
    assert list(read_ratings([path], sheet).answers) == ["=gender"]


def test_majorities_ties_and_what_is_missing(tmp_path: Path) -> None:
    sheet = caption_sheet([captions("a", {str(n): ("x",) for n in range(5)})], GENDER)
    names = [item.name for item in sheet.items]
    f, m, no = GENDER[0].choices
    told = {"anna": [f, f, m, ""], "ben": [f, m, no, ""], "cleo": [m, "", no, f]}
    paths = [
        filled(sheet, dict(zip(names, answers, strict=False)), tmp_path / f"{number}.csv", rater=name)
        for number, (name, answers) in enumerate(told.items())
    ]
    found = read_ratings(paths, sheet)
    assert found.raters == ("anna", "ben", "cleo")
    assert found.majority(GENDER[0]) == {names[0]: f, names[1]: None, names[2]: no, names[3]: f}
    assert found.votes(GENDER[0]).tolist() == [[2, 1, 0], [1, 1, 0], [0, 1, 2], [1, 0, 0], [0, 0, 0]]
    # A rater may send several files, if none says anything twice.
    later = filled(sheet, {names[4]: m}, tmp_path / "later.csv", rater="anna")
    assert read_ratings([*paths, later], sheet).majority(GENDER[0])[names[4]] == m


def test_questions_that_follow_others(tmp_path: Path) -> None:
    """The two questions about pictures; the second only where a human was recognised."""
    sheet = picture_sheet({"1": b"x", "2": b"y"}, picture_questions())
    assert sheet.columns == ["item", "human", "anonymous", "rater"]
    first, second = (item.name for item in sheet.items)
    path = tmp_path / "anna.csv"
    path.write_text(f"item,human,anonymous\n{first},yes,no\n{second},no,\n", encoding="utf-8")
    found = read_ratings([path], sheet)
    assert found.answers == {
        "human": {first: {"anna": "yes"}, second: {"anna": "no"}},
        "anonymous": {first: {"anna": "no"}},
    }
    path.write_text(f"item,human,anonymous\n{second},no,yes\n", encoding="utf-8")
    told = fault_of(read_ratings, [path], sheet)
    assert "record 1, field 'anonymous': answered, though 'human' is not 'yes'" in told


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["{a},x,femal,"], "record 1, field 'gender': unknown answer 'femal'. Did you mean 'female'?"),
        (["{a},x,female,anna", "{a},x,male,anna"], "record 2: 'anna' rated item '{a}' twice. Keep one of the two"),
        (["{a},x,female,", "{a},x,female,"], "record 2: 'one' rated item '{a}' twice"),
        (["s00000000-0001,x,female,"], "is of another sheet (s00000000); these captions make {s}. Give the captions"),
        (["{s}-0099,x,female,"], "record 1: no item '{s}-0099' on this sheet"),
        (["7,x,female,"], "record 1: no item '7' on this sheet"),
        (["{a},y,female,"], "record 1: the caption is not that of item '{a}'. Sort whole rows"),
        (["{a},x,,anna"], "one.csv: holds no answer. Fill it in, or leave it out."),
        ([], "holds no records"),
    ],
)
def test_faults(tmp_path: Path, rows: list[str], message: str) -> None:
    sheet = caption_sheet([captions("a", {"1": ("x",)})], GENDER)
    names = {"a": sheet.items[0].name, "s": sheet.name}
    path = tmp_path / "one.csv"
    path.write_text("\n".join(["item,caption,gender,rater", *rows]).format(**names), encoding="utf-8")
    assert message.format(**names) in fault_of(read_ratings, [path], sheet)


def test_other_faults(tmp_path: Path) -> None:
    sheet = caption_sheet([captions("a", {"1": ("x",)})], GENDER)
    path = tmp_path / "one.csv"
    path.write_text("item,caption,sex\n1,x,female\n", encoding="utf-8")
    assert "no column 'gender' among 'item', 'caption', 'sex'" in fault_of(read_ratings, [path], sheet)
    assert "no such file" in fault_of(read_ratings, [tmp_path / "none.csv"], sheet)
    with pytest.raises(ValueError, match="choices"):
        Question("a", "?", ("yes", "Yes"))
    assert caption_questions("gender", ("a", "b"))[0].choices[-1] == CANNOT_TELL
