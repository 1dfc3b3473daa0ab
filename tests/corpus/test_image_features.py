"""Vectors of images from files of other tools: every form holds the same; what cannot be used is one clear line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import fault_of, known, with_captions
from safetensors.numpy import save_file

from judge import Corpus, evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.corpus.image_features import read_image_features
from judge.report.several_runs import join_runs, read_runs

IDS = ["000000000139.jpg", "285", "b/cat.png"]
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
EACH = dict(zip(IDS, ROWS, strict=True))
NUMBERED = np.array([139, 285, 7])


def save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    with path.open("wb") as file:  # numpy would add an ending to a name.
        np.savez(file, **arrays)


WRITERS: dict[str, Callable[[Path], object]] = {
    "npz": lambda path: save_arrays(path, {"image_id": np.array(IDS), "features": ROWS}),
    "npz by id": lambda path: save_arrays(path, EACH),
    "safetensors by id": lambda path: save_file(EACH, path),
    "safetensors": lambda path: save_file({"image_id": NUMBERED, "features": ROWS}, path),
    "lists": lambda path: pd.DataFrame({"image_id": IDS, "clip": ROWS.tolist()}).to_parquet(path),
    "columns": lambda path: pd.DataFrame(ROWS).rename(columns=str).assign(image_id=IDS).to_parquet(path),
}


@pytest.mark.parametrize("form", WRITERS)
def test_every_form_holds_the_same(form: str, tmp_path: Path) -> None:
    WRITERS[form](tmp_path / "vectors")
    found = read_image_features(tmp_path / "vectors")
    names = ["139", "285", "7" if form == "safetensors" else "b/cat"]
    assert {*found} == {*names}
    assert np.array_equal(np.stack([found[name] for name in names]), ROWS)


@pytest.mark.parametrize(("arrays", "what"), [
    ({"image_id": np.array(["1", "1.jpg"]), "features": ROWS[:2]}, "image '1' occurs twice"),
    ({"1": ROWS[0], "2": np.array([1, np.nan, 0, 0])}, "the vector of image '2' holds a value that is not finite"),
    ({"1": ROWS[0], "2": ROWS[0, :3]}, "has 3 numbers, the first image 4"),
    ({"1": ROWS}, "is no vector, but an array [3, 4]"),
    ({"1": np.array(["a", "b"])}, "holds something else than numbers"),
    ({"features": ROWS}, "holds no vector for each id ('image_id' is missing, 'features' [3, 4])"),
    ({"image_id": NUMBERED[:2], "features": ROWS}, "('image_id' [2], 'features' [3, 4])"),
    ({"1": np.array([{"a": 1}], dtype=object)}, "or holds Python objects"),
    ({}, "holds no vectors"),
])  # fmt: skip
def test_what_cannot_be_used_is_one_line(arrays: dict[str, Any], what: str, tmp_path: Path) -> None:
    save_arrays(tmp_path / "v", arrays)
    line = fault_of(lambda: read_image_features(tmp_path / "v"))
    assert what in line
    assert str(tmp_path / "v") in line


@pytest.mark.slow
def test_a_run_reads_them_in_place_of_images(tmp_path: Path) -> None:
    """Vectors that tell the class are known, and seen; images without one are counted in one line."""
    world = make_world(60, seed=3)
    plain = simulate(world, name="plain", captioner=Captioner())
    draws = np.random.default_rng(0)
    vectors = {image: draws.normal(size=6) + 4 * (of == "male") for image, of in world.labels.by_image.items()}
    np.savez(tmp_path / "v.npz", **vectors)
    settings: dict[str, Any] = {"metrics": "conditional,imagecaptioner2", "judge": "linear", "folds": 2, "workers": 1}
    settings |= {"given": "image", "refits": 0, "chance": 0, "resamples": 100, "image_features": tmp_path / "v.npz"}
    corpus = with_captions(Corpus(world.human, (plain,), world.labels), 3)
    given, seeing = evaluate(corpus, **settings, out=tmp_path / "run").summaries
    assert str(tmp_path / "v.npz") in (tmp_path / "run" / "metrics.json").read_text()
    assert known(given.known) > 0.9
    assert seeing.judge == "linear+image"
    assert known(seeing.human) > 0.9
    # Vectors are known by content, wherever the file is.
    copy, others = tmp_path / "copy.npz", replace(corpus, generated=(replace(plain, name="other"),))
    for name, table in (("copy", vectors), ("changed", {image: -2 * of**3 for image, of in vectors.items()})):
        np.savez(copy, **table)
        evaluate(others, **settings | {"image_features": copy}, out=tmp_path / name)
    join_runs(read_runs([tmp_path / "run", tmp_path / "copy"]))
    assert "hidden images" in fault_of(lambda: join_runs(read_runs([tmp_path / "run", tmp_path / "changed"])))
    # Judges that do not read them are stored beside.
    both = settings | {"metrics": "lic,imagecaptioner2", "judge": "lstm,linear+image", "epochs": 1}
    evaluate(corpus, **both, checkpoints=tmp_path / "kept")
    np.savez(tmp_path / "v.npz", **dict([*vectors.items()][3:]))
    assert "3 of 60 images have no vector" in fault_of(lambda: evaluate(corpus, **settings))
    # A network has no use for them.
    assert "images:" in fault_of(lambda: evaluate(corpus, **(settings | {"judge": "sat", "given": "people"})))
