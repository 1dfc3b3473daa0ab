"""``judge align``: what it writes, from captions as people hold them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import done_well, read_json, read_rows

from judge.commands.align import AlignConfig, align_captions
from judge.corpus.captions import read_captions
from judge.text.alignment import DELTAS

DOES = {"dog": ["barks", "fetches"], "puppy": ["barks", "fetches"], "cat": ["purrs", "climbs"]}
DOES["kitten"] = DOES["cat"]
PEOPLE = ["man", "woman", "lady", "boy"]


def human_captions(images: int = 150) -> dict[str, list[str]]:
    """Two captions an image: "A man sees the puppy that barks.", with a giraffe once."""
    rng = np.random.default_rng(0)
    captions: dict[str, list[str]] = {}
    for image in range(images):
        for _ in range(2):
            animal = list(DOES)[rng.integers(4)]
            text = f"A {PEOPLE[rng.integers(4)]} sees the {animal} that {DOES[animal][rng.integers(2)]}."
            captions.setdefault(str(image) if image % 2 else f"folder/{image}x.jpg", []).append(text)
    captions["1"][0] = "A giraffe sees a woman."
    return captions


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Human captions, and a captioner's that knows dogs and cats alone; one image of each is not the other's."""
    human = human_captions()
    mine = {image: f"a woman sees the {'dog' if number % 2 else 'cat'} ." for number, image in enumerate(human)}
    for animal in ("dog", "cat"):
        for number, does in enumerate(DOES[animal]):
            mine[str(2 * number + 1)] = f"a man sees the {animal} that {does} ."
    mine["5"], mine["7"] = "a man sees the cat that purrs .", "a man sees the cat that climbs ."
    del mine["9"]
    mine["777"] = "a zebra"
    paths = tmp_path / "human.json", tmp_path / "plain.json"
    for path, captions in zip(paths, (human, mine), strict=True):
        path.write_text(json.dumps(captions), encoding="utf-8")
    return paths


def config(files: tuple[Path, Path], out: Path, **more: Any) -> AlignConfig:
    given: dict[str, Any] = {"human": files[0], "captions": {"x": files[1]}, "meteor": 0, "out": out}
    return AlignConfig(**given | more)


def test_everything_that_is_written(files: tuple[Path, Path], tmp_path: Path) -> None:
    human, mine = files
    out = tmp_path / "out"
    done = done_well("align", "--human", human, "--captions", mine, "--meteor", 0, "--delta", 0.35, "--out", out)
    assert f"The results are in {out}; look at {out / 'delta_curve.png'}" in done.output
    names = ".caption-judge align.yaml aligned alignment.json delta_curve.csv delta_curve.png substitutions.csv"
    assert sorted(path.name for path in out.iterdir()) == names.split()

    paths = out / "aligned" / "plain.json", human, mine
    written, people, generated = (read_captions(path, side="human").by_image for path in paths)
    assert written.keys() == people.keys() & generated.keys()
    words = {word for captions in written.values() for caption in captions for word in caption.split()}
    assert words & {"<gender>", "<unk>", *PEOPLE, "puppy", "kitten", "giraffe"} == {"<gender>", "<unk>"}

    summary = read_json(out / "alignment.json")
    (entry,) = summary["results"]
    assert (entry["captioner"], entry["images"], entry["captions"]) == ("plain", 149, 298)
    assert entry["dropped"]["human captions only"] == entry["dropped"]["generated captions only"] == 1
    assert entry["contextual"]["tokens_substituted"] > 0.05
    assert entry["constant"]["tokens_substituted"] == entry["constant"]["lacking_substituted"] == 0
    assert summary["delta"] == entry["contextual"]["delta"] == 0.35
    # "giraffe" is written once: too rare for a vector.
    assert summary["vectors"]["words_without"] == 1

    rows = read_rows(out / "substitutions.csv")
    assert {(row["word"], row["substitute"]) for row in rows} == {("puppy", "dog"), ("kitten", "cat")}
    assert all(0 <= float(row["distance"]) < 0.35 for row in rows)

    curve = read_rows(out / "delta_curve.csv")
    assert [float(row["delta"]) for row in curve] == sorted({*DELTAS, 0.35})
    for row in curve:
        for what in ("words", "tokens"):
            shares = [float(row[f"{what}_{name}"]) for name in ("kept", "substituted", "unknown")]
            assert sum(shares) == pytest.approx(1, abs=2e-6)
    at = next(row for row in curve if row["delta"] == "0.35")
    assert float(at["tokens_substituted"]) == pytest.approx(entry["contextual"]["tokens_substituted"], abs=1e-6)


def test_the_threshold_is_that_of_the_vectors(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Unless it is given."""
    (tmp_path / "glove.txt").write_text("puppy 1 0.1\ndog 1 0\n", encoding="utf-8")
    for reference, delta in (("corpus", 0.65), (str(tmp_path / "glove.txt"), 0.4)):
        (found,), _ = align_captions(config(files, tmp_path / "out", vectors=reference, overwrite=True))
        assert found.reports["contextual"].delta == delta
        written = read_json(tmp_path / "out" / "alignment.json")
        assert written["delta"] == delta


@pytest.mark.slow
def test_meteor(files: tuple[Path, Path], tmp_path: Path) -> None:
    """What substitutes keep of the meaning, a captioner who says what people say keeps whole."""
    if shutil.which("java") is None:
        pytest.skip("METEOR needs Java")
    pytest.importorskip("pycocoevalcap")
    human, mine = files
    same = Path(shutil.copy(human, tmp_path / "same.json"))  # One file for both sides is refused.
    given = {"captions": {"plain": mine, "same": same}, "several": True, "meteor": 60}
    (plain, same), _ = align_captions(config(files, tmp_path / "out", **given))
    assert 0 < plain.meteor["constant"] < plain.meteor["contextual"] < 1
    assert same.meteor == {"constant": pytest.approx(1), "contextual": pytest.approx(1)}
    assert same.reports["constant"].tokens_kept == 1
