"""``judge align``: what it writes, from captions as people hold them."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import done_well, refusal

from judge.commands.align import AlignConfig, align_captions
from judge.commands.evaluate import RunConfig
from judge.config import shown
from judge.corpus.captions import read_captions
from judge.report.alignment import draw_curves
from judge.text.alignment import DELTAS, align
from judge.text.lexicon import load_lexicon
from judge.text.masking import mask
from judge.text.tokens import tokenize
from judge.text.vectors import DELTA, DELTA_LEARNT, load_vectors

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
    told = {image: f"a woman sees the {'dog' if number % 2 else 'cat'} ." for number, image in enumerate(human)}
    for animal in ("dog", "cat"):
        for number, does in enumerate(DOES[animal]):
            told[str(2 * number + 1)] = f"a man sees the {animal} that {does} ."
    told["5"], told["7"] = "a man sees the cat that purrs .", "a man sees the cat that climbs ."
    del told["9"]
    told["777"] = "a zebra"
    paths = tmp_path / "human.json", tmp_path / "plain.json"
    for path, captions in zip(paths, (human, told), strict=True):
        path.write_text(json.dumps(captions), encoding="utf-8")
    return paths


def config(files: tuple[Path, Path], out: Path, **more: Any) -> AlignConfig:
    told: dict[str, Any] = {"human": files[0], "captions": {"x": files[1]}, "meteor": 0, "out": out}
    return AlignConfig(**told | more)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def words_of(path: Path, *, hide: bool = True) -> dict[str, list[tuple[str, ...]]]:
    lexicon = load_lexicon("gender") if hide else None
    captions = read_captions(path, side="human").by_image
    return {image: [mask(tokenize(text), lexicon) for text in texts] for image, texts in captions.items()}


def test_everything_that_is_written(files: tuple[Path, Path], tmp_path: Path) -> None:
    human, told = files
    out = tmp_path / "out"
    done = done_well("align", "--human", human, "--captions", told, "--meteor", 0, "--delta", 0.35, "--out", out)
    assert f"The results are in {out}; look at {out / 'delta_curve.png'}" in done.output
    assert "learnt from 298 human captions" in done.output
    names = ".caption-judge align.yaml aligned alignment.json delta_curve.csv delta_curve.png substitutions.csv"
    assert sorted(path.name for path in out.iterdir()) == names.split()

    # The aligned captions are those of the two sides, masked, aligned by hand.
    both = sorted(words_of(human).keys() & words_of(told).keys())
    masked, generated = words_of(human), words_of(told)
    original = [words for image in both for words in masked[image]]
    used = {word for side in (masked, generated) for image in both for words in side[image] for word in words}
    vectors = load_vectors("corpus", used, captions=original)
    other = [words for image in both for words in generated[image]]
    aligned, report = align(original, other, how="contextual", vectors=vectors, delta=0.35)
    written = read_captions(out / "aligned" / "plain.json", side="human").by_image
    assert sorted(written) == both
    assert [text for image in both for text in written[image]] == [" ".join(words) for words in aligned]
    annotations = json.loads((out / "aligned" / "plain.json").read_text("utf-8"))["annotations"]
    assert {type(entry["image_id"]) for entry in annotations} == {int, str}
    text = " ".join(caption for captions in written.values() for caption in captions)
    assert "<gender>" in text
    assert not {*PEOPLE, "puppy", "kitten", "giraffe"} & {*text.split()}
    assert "<unk>" in text

    summary = json.loads((out / "alignment.json").read_text(encoding="utf-8"))
    (entry,) = summary["results"]
    assert (entry["captioner"], entry["images"], entry["captions"]) == ("plain", 149, 298)
    assert entry["dropped"]["human captions only"] == entry["dropped"]["generated captions only"] == 1
    assert entry["contextual"]["tokens_substituted"] == report.tokens_substituted > 0.05
    assert entry["contextual"]["meteor"] is None
    assert entry["constant"]["tokens_substituted"] == entry["constant"]["lacking_substituted"] == 0
    assert summary["delta"] == entry["contextual"]["delta"] == 0.35
    assert entry["contextual"]["lacking_substituted"] == report.lacking_substituted
    # "giraffe" is told once: too rare for a vector.
    assert summary["vectors"]["words_without"] == 1

    rows = table(out / "substitutions.csv")
    assert {(row["word"], row["substitute"]) for row in rows} == {("puppy", "dog"), ("kitten", "cat")}
    assert [int(row["tokens"]) for row in rows] == sorted((int(row["tokens"]) for row in rows), reverse=True)
    assert all(0 <= float(row["distance"]) < 0.35 for row in rows)

    curve = table(out / "delta_curve.csv")
    assert [float(row["delta"]) for row in curve] == sorted({*DELTAS, 0.35})
    for row in curve:
        for what in ("words", "tokens"):
            shares = [float(row[f"{what}_{name}"]) for name in ("kept", "substituted", "unknown")]
            assert sum(shares) == pytest.approx(1, abs=2e-6)
    at = next(row for row in curve if row["delta"] == "0.35")
    assert float(at["tokens_unknown"]) == pytest.approx(report.tokens_unknown, abs=1e-6)
    assert float(at["lacking_substituted"]) == pytest.approx(report.lacking_substituted, abs=1e-6)
    assert "contextual: below a cosine distance of 0.35." in done.output


def test_the_threshold_is_that_of_the_vectors(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Unless it is given; the help of both commands says which that is."""
    (tmp_path / "glove.txt").write_text("puppy 1 0.1\ndog 1 0\n", encoding="utf-8")
    for reference, delta in (("corpus", 0.65), (str(tmp_path / "glove.txt"), 0.4)):
        found = align_captions(config(files, tmp_path / "out", vectors=reference, overwrite=True))
        assert found.delta == found.alignments[0].reports["contextual"].delta == delta
        written = json.loads((tmp_path / "out" / "alignment.json").read_text(encoding="utf-8"))
        assert written["delta"] == delta
    for kind in (AlignConfig, RunConfig):
        told = shown(kind, "delta")["unset"]
        assert f"{DELTA_LEARNT} for corpus, {DELTA} for a file" in told


def test_labels_leave_images_out(files: tuple[Path, Path], tmp_path: Path) -> None:
    labels = tmp_path / "gender.csv"
    labels.write_text("image_id,gender\n1,female\n3,male\n9,male\n")
    (entry,) = align_captions(config(files, tmp_path / "out", labels=labels, attribute="gender")).alignments
    assert (entry.images, entry.captions) == (2, 4)


def test_meteor(files: tuple[Path, Path], tmp_path: Path) -> None:
    """What substitutes keep of the meaning, a captioner who says what people say keeps whole."""
    if shutil.which("java") is None:
        pytest.skip("METEOR needs Java")
    pytest.importorskip("pycocoevalcap")
    human, told = files
    same = Path(shutil.copy(human, tmp_path / "same.json"))  # One file for both sides is refused.
    given = {"captions": {"plain": told, "same": same}, "several": True, "meteor": 60}
    plain, same = align_captions(config(files, tmp_path / "out", **given)).alignments
    assert 0 < plain.meteor["constant"] < plain.meteor["contextual"] < 1
    assert same.meteor == {"constant": pytest.approx(1), "contextual": pytest.approx(1)}
    assert same.reports["constant"].tokens_kept == 1


def test_without_java(files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = done_well("align", "--human", files[0], "--captions", files[1], "--out", tmp_path / "out")
    assert "NOTE: METEOR skipped: needs Java" in done.output
    (entry,) = json.loads((tmp_path / "out" / "alignment.json").read_text())["results"]
    assert entry["contextual"]["meteor"] is None


def test_without_the_package_that_scores(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judge.commands.align.find_spec", lambda name: None)
    done = done_well("align", "--human", files[0], "--captions", files[1], "--out", tmp_path / "out")
    assert "METEOR skipped: needs the package 'pycocoevalcap'" in done.output


def test_the_plot_shows_the_curve(files: tuple[Path, Path], tmp_path: Path) -> None:
    names = ["one", "$two$", "three"]
    found = align_captions(config(files, tmp_path / "out", captions=dict.fromkeys(names, files[1]))).alignments
    panels = [panel for panel in draw_curves(found, 0.4).axes if panel.get_visible()]
    assert [panel.get_title() for panel in panels] == names
    lines = {line.get_label(): line for line in panels[0].get_lines()}
    for what in ("tokens substituted", "words unknown"):
        deltas, shares = lines[what].get_data()
        expected = [(at, getattr(report, what.replace(" ", "_"))) for at, report in found[0].curve]
        assert list(zip(deltas, shares, strict=True)) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--vectors", "absent.vec"], "--vectors absent.vec: no such file"),
        (["--vectors", "empty.vec"], "empty.vec: file is empty"),
        (["--delta", "2.5"], "'delta': input should be less than or equal to 2"),
        (["--captions", "a/b=plain.json"], "a/b=plain.json: no such file"),
        (["--captions", "other.json"], "no image in common"),
        (["--out", "taken"], "holds something that is no alignment"),
        (["--lexicon", "jender"], "no lexicon 'jender'"),
    ],
)
@pytest.mark.usefixtures("files")
def test_faults_are_one_line_and_leave_nothing(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.vec").touch()
    Path("other.json").write_text('{"1000": "a dog"}')
    Path("taken").mkdir()
    Path("taken/thing").touch()
    before = sorted(tmp_path.rglob("*"))
    given = ["--human", "human.json", "--captions", "plain.json", "--meteor", "0", "--out", "out"]
    assert expected in refusal("align", *given, *arguments)
    assert sorted(tmp_path.rglob("*")) == before
