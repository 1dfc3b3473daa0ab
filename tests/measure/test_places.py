"""Maps of the page's examples: what each place of an image adds to the log odds of the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from judge import evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.scenes import write_images
from judge.calibration.world import Captioner
from judge.measure import Result


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Of a judge that sees images alone, and of one that also reads."""
    folder, world = tmp_path_factory.mktemp("places"), make_world(80, seed=3)
    write_images(world.scenes, folder, seed=3, size=64)
    captions = simulate(world, name="mine", captioner=Captioner(stereotype=0.9)).by_image
    human = {image: texts[:1] for image, texts in world.human.by_image.items()}
    settings: dict[str, Any] = {
        "human": human, "captions": {"mine": captions}, "labels": world.labels.by_image, "images": folder / "images",
        "instances": folder / "instances.json", "cache": folder / "cache",
        "metrics": "imagecaptioner2", "judge": ("linear+image-image-only", "linear+image", "linear+image-caption-only"),
        "backbone": "patches", "folds": 2, "seeds": 1, "refits": 0, "workers": 1,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        # Of a judge of images alone the sides are equal: its examples are those of random images.
        patch.setattr("judge.measure.examples.MOST", 10)
        return evaluate(**settings)


def numbers(places: str) -> np.ndarray:
    rows, columns, *values = map(float, places.split())
    return np.reshape(values, (int(rows), int(columns)))


def test_places_and_an_intercept_are_the_log_odds(result: Result) -> None:
    """Of a judge that reads no words: of each fold and class, what is left is the same for all images."""
    judge = "linear+image-image-only"
    shown = result.examples[(result.examples["judge"] == judge) & (result.examples["side"] == "generated")]
    scores = result.scores[(result.scores["judge"] == judge) & (result.scores["side"] == "generated")]
    table = shown.drop_duplicates("image_id").merge(
        scores[["image_id", "fold", "answer", "probability"]], on="image_id"
    )
    table["odds"] = np.log(table["probability_y"] / (1 - table["probability_y"]))
    table["added"] = [numbers(text).sum() for text in table["places"]]
    assert len(table) > 8
    assert np.ptp(table["added"]) > 0.01
    left = (table["odds"] - table["added"]).groupby([table["fold"], table["answer"]])
    assert (left.max() - left.min()).max() < 1e-3 * np.ptp(table["odds"])


def test_only_judges_that_see_have_maps(result: Result) -> None:
    """The map of an image is one of its card; squares have squares."""
    places = result.examples.groupby("judge")["places"]
    assert (places.get_group("linear+image-caption-only") == "").all()
    assert (places.get_group("linear+image") != "").all()
    assert {numbers(text).shape for text in places.get_group("linear+image")} == {(16, 16)}
    assert len(result.examples[["judge", "image_id"]].drop_duplicates()) == len(
        result.examples[["judge", "image_id", "places"]].drop_duplicates()
    )


def test_the_page_draws_them(result: Result, tmp_path: Path) -> None:
    result.report(tmp_path / "page.html")  # type: ignore[attr-defined]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    cards = result.examples[result.examples["places"] != ""]
    cards = pd.Series([*cards[["judge", "chosen", "rank"]].itertuples(index=False, name=None)]).nunique()
    assert page.count("{background-image:url(data:image/png") == cards
    # Each picture is there once, however many maps lie over it.
    assert page.count("data:image/jpeg") == result.examples["image_id"].nunique()
    assert "On images: what a place adds" in page
