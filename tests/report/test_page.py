"""The report page in a real browser: what it loads, shows, sorts, and what captions cannot do to it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from helpers import done_well, read_json, refusal

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.report.table import SIGNED, digits_of, write
from judge.text.cleaning import clean
from judge.types import Interval

pytestmark = pytest.mark.figures

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Each would run, load or close something if it were not text.
HOSTILE = (
    "<script>window.hurt = 1</script> a man with a dog",
    'a woman"><img src=x onerror="window.hurt=1"> in a kitchen',
    "</script></style></svg><script>window.hurt = 1</script> a man",
    "a woman {{ 7 * 7 }} {% raw %} $x$ &lt;b&gt; ' onmouseover='window.hurt=1",
    "<svg onload=window.hurt=1> a man on a \u202ehorse\u202c",
)
NAME = 'bad<b onclick>"$x$&amp;'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; CI must have it."""
    path = shutil.which("chromium")
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("there is no chromium, and this is CI: apt-get install chromium")
        pytest.skip("there is no chromium here")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def page_of(browser: Browser, path: Path, **settings: Any) -> Iterator[Page]:
    """A page opened from disk: it requests no other file and reports nothing."""
    context = browser.new_context(**settings)
    page, events = context.new_page(), list[str]()
    page.on("console", lambda message: events.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: events.append(f"error: {error}"))
    page.on("dialog", lambda dialog: events.append(f"dialog: {dialog.message}"))
    page.on("request", lambda of: events.append(of.url) if not of.url.startswith(("data:", "blob:")) else None)
    page.goto(path.as_uri())
    yield page
    assert events == [path.as_uri()]
    context.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    """Drawn scenes whose people are known, and captions of which some are hostile."""
    captioners = {"none": Captioner(), "much": Captioner(stereotype=0.9)}
    folder = tmp_path_factory.mktemp("page") / "world"
    files = write_world(make_world(80, seed=3), captioners, folder, pictures=64)
    for path in (files.captions["much"], files.human):
        told = json.loads(path.read_text())
        records = told if isinstance(told, list) else told["annotations"]
        for number, record in enumerate(records):
            record["caption"] = f"{HOSTILE[number % len(HOSTILE)]} {record['caption']}"
        path.write_text(json.dumps(told))
    return files


@pytest.fixture(scope="module")
def run(world: WorldFiles) -> Path:
    """A run's folder, with all that a page can show of judges that read."""
    out = world.folder.parent / "run"
    bad = f"{NAME}={world.captions['much']}"
    done = done_well(
        *("evaluate", "--human", world.human, "--captions", world.captions["none"], "--captions", bad),
        *("--labels", world.labels, "--images", world.folder / "images"),
        *("--instances", world.folder / "instances.json", "--metrics", "lic,ba,error,dba", "--folds", 5, "--refits", 0),
        *("--judge", "linear", "--chance", 0, "--resamples", 100, "--workers", 1, "--breakdown", "--out", out),
    )
    assert done.stdout.rstrip().endswith(f"look at {out / 'report.html'}")
    return out


def test_the_page_is_whole_and_small(run: Path) -> None:
    text = (run / "report.html").read_text()
    assert len(text) < 3_000_000
    assert text.count("<script>") == 1
    links = re.findall(r"""(?:src|href|action)=["']?([^\s"'>]+)""", text)
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in links if "hurt" not in link)
    # Rows without a verdict are grey, in the short table and in the one with all columns.
    void = sum(row["verdict"] == "no verdict" for row in read_json(run / "metrics.json")["results"])
    assert 0 < text.count('<tr class="quiet">') == 2 * void
    assert {"forest-lic.svg", "forest-lic.png", "sides-lic.svg"} < {path.name for path in (run / "figures").iterdir()}


@pytest.mark.parametrize(("scheme", "width"), [pytest.param("light", 1280, marks=pytest.mark.slow), ("dark", 390)])
def test_it_can_be_read_by_all(browser: Browser, run: Path, scheme: Any, width: int) -> None:
    """Colours do not depend on the width, nor the layout on the colours. Of cards, which are alike, four are read."""
    from axe_playwright_python.sync_playwright import Axe

    size = {"width": width, "height": 900}
    with page_of(browser, run / "report.html", color_scheme=scheme, viewport=size, bypass_csp=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate("[...document.querySelectorAll('#examples .card')].slice(4).forEach(card => card.remove())")
        # What is in order is not listed node by node: half the time.
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        told = [(one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found]
        assert [one for one in told if one[1] in {"serious", "critical"}] == []


def test_the_first_screen_says_who_amplifies(browser: Browser, run: Path) -> None:
    """Beside each captioner its values; sentences on pairs agree with the table of differences."""
    written = read_json(run / "metrics.json")
    results = written["results"]
    with page_of(browser, run / "report.html") as page:
        said = page.locator(".verdicts li").all_inner_texts()
        pairs = page.locator(".differences li").all_inner_texts()
        assert [line.split(" ")[0] for line in said] == ["none:", "bad<b"]
        for row in results:
            line = said[0] if row["captioner"] == "none" else said[1]
            if row.get("verdict"):
                assert write(row["amplification"], SIGNED, digits_of(row["ci"] and Interval(*row["ci"]))) in line
        # Figures are there, and beside them n and what their bars are.
        charts = page.locator("#amplification img.chart")
        notes = page.locator("#amplification figure .note").all_text_contents()
        assert len(notes) == charts.count() == len({row["metric"] for row in results})
        for note in notes:
            assert re.search(
                r"n = \d+( to \d+)? images[.;] (Bars: 95% interval for another sample|no interval)",
                " ".join(note.split()),
            )

    tested = [row for row in written["differences"] if row["verdict"] is not None]
    found = {row["metric"]: row for row in tested if row["verdict"] not in {"cannot tell", "no verdict"}}
    if not found:
        assert pairs == ["No two captioners were shown to differ."] * bool(tested)
    for row in found.values():
        upper, lower = (row["first"], row["second"])[:: 1 if row["value"] > 0 else -1]
        (line,) = [line for line in pairs if line.startswith(f"{upper} is higher than {lower} (")]
        assert f" {abs(row['value']):+.3f}" in line or f" {abs(row['value']):+.2f}" in line


def test_three_examples_of_each_captioner_come_before_the_tables(browser: Browser, run: Path) -> None:
    """One of each kind, by the captioner's first row, with a sentence whose numbers are those of the examples."""
    every = pd.read_parquet(run / "examples.parquet")
    with page_of(browser, run / "report.html") as page:
        places = page.evaluate("[...document.querySelectorAll('main > section')].map((one) => one.id)")
        assert places[:3] == ["verdict", "amplification", "first-examples"]
        shown = page.locator("#first-examples .card").all()
        kinds = [(one.get_attribute("data-captioner"), one.get_attribute("data-chosen")) for one in shown]
        assert kinds == [(name, kind) for name in ("none", NAME) for kind in ("adds", "takes away", "random")]
        for one, (captioner, kind) in zip(shown, kinds, strict=True):
            rows = every[(every["captioner"] == captioner) & (every["chosen"] == kind) & (every["metric"] == "lic")]
            first = rows[rows["rank"] == 0]
            means = first.groupby("side")["probability"].mean()
            class_ = first["class"].iloc[0]
            said = one.locator(".reading").inner_text()
            assert (
                f"gives {class_} a probability of {means['generated']:.2f}, from people's words {means['human']:.2f}"
                in said
            )
            words = re.findall("“(.+?)”", said)
            read = " ".join(first.loc[first["side"] == "generated", "read"]).split()
            assert 0 < len(words) <= 3
            assert {*words} <= {*read}


def cards(page: Page) -> Any:
    return page.locator("#examples .card:visible")


def test_examples_are_sorted_and_filtered(browser: Browser, run: Path) -> None:
    every = pd.read_parquet(run / "examples.parquet")
    count = len(every.drop_duplicates(["captioner", "metric", "judge", "chosen", "rank"]))
    with page_of(browser, run / "report.html") as page:
        assert page.locator("#examples .card").count() == count
        assert cards(page).count() == min(24, count)
        page.get_by_label("metric (judge)", exact=True).select_option("LIC (linear)")
        page.get_by_label("captioner", exact=True).select_option(NAME)
        page.get_by_label("sort by").select_option("contribution")
        values = [float(one.get_attribute("data-contribution")) for one in cards(page).all()]
        lic = every[(every["metric"] == "lic") & (every["captioner"] == NAME)]
        assert len(values) == len(lic.drop_duplicates(["chosen", "rank"]))
        assert values == sorted(values, reverse=True)
        assert values[0] == pytest.approx(lic["contribution"].max())
        page.get_by_label("chosen because it").select_option("takes away")
        page.get_by_label("sort by").select_option("-contribution")
        values = [float(one.get_attribute("data-contribution")) for one in cards(page).all()]
        assert values == sorted(values)
        assert max(values) < 0
        assert page.locator("output").inner_text() == f"{len(values)} of {len(values)} examples shown"
        page.get_by_label("class", exact=True).select_option("female")
        assert all(one.get_attribute("data-class") == "female" for one in cards(page).all())
        page.get_by_label("class", exact=True).select_option("")
        task = page.get_by_label("task", exact=True).locator("option").nth(1).inner_text()
        page.get_by_label("task", exact=True).select_option(task)
        assert all(task in str(one.get_attribute("data-tasks")).split("|") for one in cards(page).all())


def test_without_scripts_all_is_there_and_prints(browser: Browser, run: Path) -> None:
    with page_of(browser, run / "report.html", java_script_enabled=False) as page:
        assert cards(page).count() == page.locator("#examples .card").count()
        assert not page.locator(".controls").is_visible()
        assert page.locator("#table table").first.is_visible()
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible()
        assert page.pdf().startswith(b"%PDF")
        page.set_viewport_size({"width": 1027, "height": 700})  # A4 in landscape, less its margins.
        beyond = (
            "[...document.querySelectorAll('details table')].map(of => of.scrollWidth - of.parentElement.clientWidth)"
        )
        assert max(page.evaluate(beyond)) <= 0


def test_hostile_captions_and_names_are_text(browser: Browser, run: Path) -> None:
    with page_of(browser, run / "report.html") as page:
        assert page.evaluate("window.hurt") is None
        # Our script alone, and our figures.
        assert [page.locator(tag).count() for tag in ("script", "iframe", "object", "link", "svg")] == [1, 0, 0, 0, 0]
        assert page.locator("img").count() == page.locator("img.chart").count() > 0
        assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
        texts = page.locator(".card q").all_inner_texts()
        for line in HOSTILE:
            assert any(" ".join(clean(line)[0].split()) in text for text in texts)
        assert any(NAME in str(chart.get_attribute("alt")) for chart in page.locator("#amplification img").all())


@pytest.mark.slow
def test_what_is_left_out(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that leave the house; of the same run, again the same page."""
    every = pd.read_parquet(run / "examples.parquet")

    def page(*options: str) -> str:
        out = tmp_path / f"page{options[0]}.html"
        done_well("report", run, "--out", out, *options)
        return out.read_text()

    whole = page("--overwrite")
    assert whole == (run / "report.html").read_text()
    # Figures take half of the time; the others have the same.
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)
    caption = re.escape(str(every["caption"].iloc[-1]).rsplit(" ", 1)[1])
    assert re.search(caption, whole)
    without, blind = page("--no-examples"), page("--no-images", "--show-ids")
    assert "<q>" not in without
    assert "data:image/jpeg" in whole
    assert "data:image/jpeg" not in without + blind
    assert blind.count("<q>") == whole.count("<q>") > 0
    shown = f", image {every['image_id'].iloc[0]}"
    assert shown in blind
    assert shown not in whole
    assert "is there already" in refusal("report", run)
    assert "Name a file with --out" in refusal("report", run, run)


def test_pictures_never_show_people(run: Path, world: WorldFiles) -> None:
    """Where the truth says that a person is, a thumbnail is black."""
    import io

    import numpy as np
    from PIL import Image

    from judge.masking.detectors.ground_truth import GroundTruth
    from judge.masking.instances import PERSON
    from judge.masking.people import Hiding

    truth = GroundTruth.read(world.folder / "instances.json").only((PERSON,))
    names = {str(truth.image_id(name)): name for name in truth.images}
    pictures = pd.read_parquet(run / "pictures.parquet")
    assert set(pictures["image_id"]) == set(pd.read_parquet(run / "examples.parquet")["image_id"])
    for image, data in pictures[::3].itertuples(index=False):
        shown = np.asarray(Image.open(io.BytesIO(data)))
        people = [one for one in truth.instances(names[image]) if one.label == PERSON]
        region = Hiding().region(people, (64, 64))
        assert region.any()
        assert np.quantile(shown[region], 0.95) < 48  # JPEG lets what lies beside people run a little over.
        assert np.median(shown[region]) < 8
    text = (run / "report.html").read_text()
    assert text.count("data:image/jpeg") == len(pictures)
