"""The rating page in a real browser: filled in by keyboard and pointer, saved, read back; hostile captions."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers import done_well, known
from pages import page_of

from judge.corpus.rating_sheet import Sheet, caption_questions, caption_sheet, picture_questions, picture_sheet
from judge.corpus.ratings import read_ratings
from judge.report.rating_page import rating_page
from judge.types import Captions

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Each would run, load or close something if it were not text; or be computed by a spreadsheet.
TEXTS = (
    "<script>window.hurt = 1</script> a dog",
    '</script></style><img src=x onerror="window.hurt=1">',
    "=1+1, a man",
    '-2 people said "hello"',
    "'quoted' {{ 7 * 7 }} &lt;b&gt;",
    "a \u202ehorse\u202c \u2028 and a woman",
)


def sheet_of(texts: tuple[str, ...] = TEXTS) -> Sheet:
    captions = Captions("secret-captioner", {f"secret-image-{number}": (text,) for number, text in enumerate(texts)})
    return caption_sheet([captions], caption_questions("gender", ("female", "male")))


def write_page(sheet: Sheet, path: Path) -> Path:
    path.write_text(rating_page(sheet, title="Rating", lead=["Answer from the words alone."]), encoding="utf-8")
    return path


def save(page: Page, path: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name="Save CSV").click()
    download.value.save_as(path)
    return path


def test_a_sheet_goes_round(browser: Browser, tmp_path: Path) -> None:
    """By keyboard alone; the file is the table's shape, and reads back as what was pressed."""
    sheet = sheet_of()
    path = write_page(sheet, tmp_path / "rating.html")
    assert "secret" not in path.read_text(encoding="utf-8")
    keys = "123123"
    with page_of(browser, path) as page:
        shown = []
        for number, key in enumerate(keys, 1):
            assert page.locator("#place").inner_text() == f"Item {number} of 6"
            shown.append(page.locator("#text").inner_text())
            page.keyboard.press(key)
        assert shown == [item.text for item in sheet.items]
        assert "All answered" in page.locator("#told").inner_text()
        page.get_by_role("button", name="Save CSV").click()
        assert "Write your name" in page.locator("#told").inner_text()
        page.keyboard.type("=Anna B.")
        saved = save(page, tmp_path / "saved.csv")
        assert page.evaluate("window.hurt") is None
        assert [page.locator(tag).count() for tag in ("script", "img", "iframe", "link")] == [2, 1, 0, 0]
    rows = list(csv.DictReader(io.StringIO(saved.read_text(encoding="utf-8-sig"))))
    assert list(rows[0]) == sheet.columns == ["item", "caption", "gender", "rater"]
    assert not [cell for row in rows for cell in row.values() if cell[0] in "=+-@"]
    found = read_ratings([saved], sheet)
    choices = sheet.questions[0].choices
    told = {item.name: choices[int(key) - 1] for item, key in zip(sheet.items, keys, strict=True)}
    assert found.answers["gender"] == {item: {"=Anna B.": answer} for item, answer in told.items()}


def remembers(page: Page) -> None:
    """Wait until the browser keeps what is stored: in 1 of 100 new contexts Chromium loses a file's first writes."""
    for _ in range(20):
        page.evaluate("localStorage.setItem('here', 'yes')")
        page.reload()
        if page.evaluate("localStorage.getItem('here')") == "yes":
            page.evaluate("localStorage.removeItem('here')")
            return
    pytest.fail("the browser keeps nothing")


def test_going_back_leaving_out_and_coming_again(browser: Browser, tmp_path: Path) -> None:
    sheet = sheet_of()
    path = write_page(sheet, tmp_path / "rating.html")
    context = browser.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    remembers(page)
    page.get_by_label("Your name or initials").fill("Ben 2")  # Keys there are text, not answers.
    page.get_by_role("radio", name="female", exact=True).focus()
    page.keyboard.press("ArrowRight")  # Between answers, as in any form: the page waits.
    assert page.get_by_role("radio", name="male", exact=True).is_checked()
    assert page.locator("#place").inner_text() == "Item 1 of 6"
    page.get_by_role("radio", name="female", exact=True).click()  # By pointer: it goes on.
    page.keyboard.press("Enter")
    page.keyboard.press("2")
    page.keyboard.press("Backspace")
    assert page.get_by_role("radio", name="male", exact=True).is_checked()
    page.keyboard.press("0")
    assert page.locator("#count").inner_text() == "1 of 6"
    page.keyboard.press("3")
    page.reload()
    assert page.locator("#count").inner_text() == "2 of 6"
    assert page.locator("#place").inner_text() == "Item 4 of 6"
    found = read_ratings([save(page, tmp_path / "one.csv")], sheet)
    assert "4 left without an answer" in page.locator("#told").inner_text()
    names = [item.name for item in sheet.items]
    assert found.answers["gender"] == {names[0]: {"Ben 2": "female"}, names[2]: {"Ben 2": "cannot tell"}}
    page.get_by_role("button", name="Save CSV").blur()
    for _ in range(3):
        page.keyboard.press("Enter")
    assert "4 are left" in page.locator("#told").inner_text()
    assert page.locator("#place").inner_text() == "Item 2 of 6"
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Clear all answers").click()
    assert page.locator("#count").inner_text() == "0 of 6"
    assert page.get_by_label("Your name or initials").input_value() == ""
    context.close()


def test_pictures_with_a_question_that_follows(browser: Browser, tmp_path: Path) -> None:
    """The filter of AnonymousBench's images, where the browser keeps nothing."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (32, 24), "teal").save(buffer, "JPEG")
    sheet = picture_sheet({str(number): buffer.getvalue() for number in range(3)}, picture_questions())
    path = write_page(sheet, tmp_path / "filter.html")
    with page_of(browser, path) as page:
        page.evaluate("void (Storage.prototype.setItem = () => { throw new Error('not allowed') })")
        assert page.locator("#picture").evaluate("one => one.naturalWidth") == 32
        assert page.locator("fieldset").nth(1).locator("input").first.is_disabled()
        page.keyboard.press("1")
        assert page.locator("#place").inner_text() == "Item 1 of 3"
        assert page.locator("fieldset").nth(1).locator("input").first.is_enabled()
        page.keyboard.press("2")
        page.keyboard.press("2")  # Nobody is there: the second question is not asked.
        assert page.locator("#place").inner_text() == "Item 3 of 3"
        assert "does not keep answers" in page.locator("#kept").inner_text()
        page.get_by_label("Your name or initials").fill("anna")
        found = read_ratings([save(page, tmp_path / "anna.csv")], sheet)
    first, second, _ = (item.name for item in sheet.items)
    assert found.answers == {
        "human": {first: {"anna": "yes"}, second: {"anna": "no"}},
        "anonymous": {first: {"anna": "no"}},
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_it_can_be_used_by_all(browser: Browser, tmp_path: Path, scheme: Any, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    path = write_page(sheet_of((*TEXTS, "long" * 60)), tmp_path / "rating.html")
    size = {"width": width, "height": 800}
    with page_of(browser, path, color_scheme=scheme, viewport=size, bypass_csp=True) as page:
        for _ in range(7):
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.keyboard.press("Enter")
        page.keyboard.press("1")
        assert Axe().run(page).response["violations"] == []


def test_without_scripts_it_names_the_table(browser: Browser, tmp_path: Path) -> None:
    path = write_page(sheet_of(), tmp_path / "rating.html")
    with page_of(browser, path, java_script_enabled=False) as page:
        assert "fill in rating.csv" in page.locator("main").inner_text()
        assert not page.locator(".rating").is_visible()


def test_two_raters_and_the_command(browser: Browser, tmp_path: Path) -> None:
    """From captions to agreement, by hand: four captions, Anna says f m no f, Ben f no no m.

    Differing pairs: 2 of 4 items, 2 each; f 3, m 2, no 3: alpha = 1 - 7 x 4 / (64 - 22) = 1/3. Majority: f and no.
    """
    captions = tmp_path / "cap.json"
    captions.write_text(json.dumps([{"image_id": n, "caption": f"somebody {n}"} for n in range(4)]), encoding="utf-8")
    done_well("anonymous", "--captions", captions, "--out", tmp_path / "sheet")
    files = []
    for rater, keys in (("anna", "1231"), ("ben", "1332")):
        with page_of(browser, tmp_path / "sheet" / "rating.html") as page:
            for key in keys:
                page.keyboard.press(key)
            page.get_by_label("Your name or initials").fill(rater)
            files += ["--ratings", save(page, tmp_path / f"{rater}.csv")]
    done_well("anonymous", "--captions", captions, *files, "--out", tmp_path / "rated")
    found = json.loads((tmp_path / "rated" / "anonymous.json").read_text(encoding="utf-8"))["ratings"]
    assert found["raters"] == {"anna": 4, "ben": 4}
    assert known(found["agreement"]["alpha"]) == pytest.approx(1 / 3)
    (row,) = found["captioners"]
    assert (row["share"]["value"], row["share"]["captions"], row["ties"]) == (0.5, 2, 2)
