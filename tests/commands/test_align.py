"""``judge align``: what it writes, from captions as people hold them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import done_well, read_json, read_rows

from judge.commands.align import AlignConfig, align_captions
from judge.corpus.captions import read_captions
from judge.quality.library import meteor_nltk
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
    given: dict[str, Any] = {"human": files[0], "captions": {"x": files[1]}, "out": out}
    return AlignConfig(**given | more)


def test_everything_that_is_written(files: tuple[Path, Path], tmp_path: Path) -> None:
    human, mine = files
    out = tmp_path / "out"
    done = done_well("align", "--human", human, "--captions", mine, "--delta", 0.35, "--out", out)
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


def test_meteor_by_hand() -> None:
    """Six words in each: "rides" and "a" match in a chunk, the first "a" in one of its own; "bike." has a full stop.

    Precision and recall 3/6, penalty 1/2 (2 chunks / 3 matches)^3. In the second "cars" and "car" have one stem: four
    matches of four, recall 4/5, one chunk: P R / (0.9 P + 0.1 R) = 0.8 / 0.98.
    """
    pytest.importorskip("nltk")
    aligned = ("a", "<gender>", "rides", "a", "<unk>", "bike", ".")
    assert meteor_nltk("A man rides a red bike.", aligned) == pytest.approx(1 / 2 * (1 - 1 / 2 * (2 / 3) ** 3))
    found = meteor_nltk("Two cars on a street.", ("two", "car", "on", "a", "."))
    assert found == pytest.approx(0.8 / 0.98 * (1 - 1 / 2 * (1 / 4) ** 3))
    assert meteor_nltk("Skiing.", ("<unk>", ".")) == 0


def test_meteor(files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of all human captions of the images; without NLTK there is none, and a note."""
    pytest.importorskip("nltk")
    (found,), notes = align_captions(config(files, tmp_path / "out"))
    paths = files[0], tmp_path / "out" / "aligned" / "x.json"
    people, aligned = (read_captions(path, side="human").by_image for path in paths)
    pairs = [pair for image in aligned for pair in zip(people[image], aligned[image], strict=True)]
    assert found.meteor["contextual"] == pytest.approx(np.mean([meteor_nltk(a, tuple(b.split())) for a, b in pairs]))
    assert 0 < found.meteor["constant"] < 1
    assert not any("METEOR needs" in note for note in notes)
    monkeypatch.setattr("judge.commands.align.find_spec", lambda _: None)
    (found,), notes = align_captions(config(files, tmp_path / "none"))
    assert np.isnan([*found.meteor.values()]).all()
    assert "NOTE: METEOR needs the package 'nltk': pip install 'caption-judge[quality]'" in notes


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.slow
def test_meteor_is_near_the_papers(shared: Path, tmp_path: Path, *, masked: bool) -> None:
    """NIC+Equalizer, gender: 0.68 and 0.71 in DPAC's Table 4, 0.731 and 0.752 in DBAC's Table 7.

    Race, of which no words are masked: 0.772 and 0.794 in DBAC's Table 16.
    """
    pytest.importorskip("nltk")
    folder = shared / "coco-captions"
    more: dict[str, Any] = {"labels": {"gender": folder / "gender.csv"}} if masked else {"lexicon": "none"}
    files = folder / "captions_human.json", folder / "results" / "nic_equalizer.json"
    (found,), _ = align_captions(config(files, tmp_path / "out", **more))
    constant, contextual = (0.70, 0.71) if masked else (0.772, 0.794)
    assert found.meteor["constant"] == pytest.approx(constant, abs=0.01)
    assert found.meteor["contextual"] == pytest.approx(contextual, abs=0.01)
