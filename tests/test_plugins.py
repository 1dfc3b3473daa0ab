"""A plugin is installed by pip, and found: each kind of object, with numbers worked out in another way."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from helpers import done_well, fault_of, read_json, refusal
from sklearn.naive_bayes import BernoulliNB

from judge.corpus.layouts import Request, find_captions
from judge.judges.names import find_judge
from judge.masking.cache import make_detector
from judge.metrics import find_metric
from judge.text import lexicon
from judge.text.lexicon import load_lexicon, mask
from judge.text.tokens import tokenize
from judge.utils import plugins
from judge.utils.tensors import read_notes

ROOT = Path(__file__).parents[1]
OWNER = "judge-template 1.0"
PLACES = ["near a bench", "with a dog", "on a bus", "in a kitchen"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip has installed the template, offline."""
    folder = tmp_path_factory.mktemp("plugin")
    # pip builds in the source folder.
    source = shutil.copytree(ROOT / "tests" / "plugin_template", folder / "source")
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(folder / "site")]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, str(source)], check=True)
    return folder / "site"


def forget() -> None:
    """What this process knows of plugins."""
    plugins.plugins.cache_clear()
    lexicon._load_shipped.cache_clear()
    for name in [name for name in sys.modules if name.startswith("judge_template")]:
        del sys.modules[name]


@pytest.fixture
def find_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Has packages of a folder found, before those of other folders, until the test ends."""

    def find(folder: Path) -> None:
        monkeypatch.syspath_prepend(str(folder))
        forget()

    yield find
    monkeypatch.undo()
    forget()


def caption(number: int, hair: str, generated: bool) -> str:
    """Of image ``number``: people name all places alike; the captioner guesses by the hair in three images of four."""
    place = number // 4 % 4
    guess = 2 if place == 3 else 0 if hair == "blonde" else 1
    return f"A {hair} person {PLACES[guess if generated else place]}."


def test_every_kind_of_plugin_is_used_and_recorded(
    find_in: Callable[[Path], None], site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_in(site)
    monkeypatch.chdir(tmp_path)
    hair = {str(number): ("blonde", "brunette")[number // 2 % 2] for number in range(48)}
    said = {
        side: {image: caption(int(image), of, side == "mine") for image, of in hair.items()}
        for side in ("human", "mine")
    }
    for side, texts in said.items():
        lines = {"lines": [f"{image}: {text}" for image, text in texts.items()]}
        (tmp_path / f"{side}.json").write_text(json.dumps(lines), encoding="utf-8")
    few = ["--folds", 3, "--refits", 0, "--chance", 0, "--resamples", 100]
    asked = ["--attribute", "hair", "--metrics", "gap,gap:largest,lic", "--judge", "counts", "--workers", 1, *few]
    files = ["--human", "human.json", "--captions", "mine.json", "--checkpoints", "judges"]
    done_well("evaluate", *files, *asked, "--out", "out")
    document = read_json(tmp_path / "out" / "metrics.json")
    rows = {row["metric"]: row for row in document["results"]}
    classes = {image: {"blonde": "blond", "brunette": "dark"}[of] for image, of in hair.items()}
    # By hand: of human captions, a quarter of either class name each of bench, dog and bus. Of the captioner's, three
    # quarters of one class and none of the other name the bench, likewise the dog, and a quarter of either the bus.
    found = {name: [rows[name]["human"], rows[name]["generated"]] for name in ("gap", "gap:largest")}
    assert found == {"gap": pytest.approx([0, 0.5]), "gap:largest": pytest.approx([0, 0.75])}
    scores = pd.read_parquet(tmp_path / "out" / "scores.parquet")
    expected = bayes(scores[scores["side"] == "generated"], said["mine"], classes)
    assert rows["lic"]["generated"] == pytest.approx(expected)
    # What of which package gave these numbers.
    about = document["run"]
    assert about["versions"]["judge-template"] == "1.0"
    assert "judge-template 1.0" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert about["captioners"]["mine"]["reads"]["lic"]["counts"]["plugin"] == OWNER
    assert about["captioners"]["mine"]["reads"]["gap"]["counted"]["plugin"] == OWNER
    assert about["lexicon"]["source"] == f"made for this template ({OWNER})"
    assert any(note.endswith(f"mine.json was read by the reader lines of {OWNER}") for note in about["input_notes"])
    weights = [read_notes(path) for path in (tmp_path / "judges").rglob("*.weights.safetensors")]
    assert len(weights) == 6
    assert {(of["judge"], of["plugin"]) for of in weights} == {("counts", OWNER)}
    assert all(of["preparation"]["lexicon"]["source"].endswith(f"({OWNER})") for of in weights)

    # Another version of the package: judges are trained again, and the runs are not compared.
    newer = Path(shutil.copytree(site, tmp_path / "newer"))
    (newer / "judge_template-1.0.dist-info").rename(newer / "judge_template-1.1.dist-info")
    metadata = newer / "judge_template-1.1.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text(encoding="utf-8").replace("Version: 1.0", "Version: 1.1"), encoding="utf-8")
    find_in(newer)
    done_well("evaluate", *files, *asked, "--out", "other")
    assert len([*(tmp_path / "judges").rglob("*.weights.safetensors")]) == 12
    why = 'plugin is "judge-template 1.0" in one and "judge-template 1.1" in the other (Gap)'
    assert f"the runs cannot be compared: {why}" in refusal("compare", "out", "other")
    shutil.copytree(tmp_path / "out", tmp_path / "again")
    done_well("compare", "out", "again")
    # Where the package is not installed.
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    forget()
    why = "(unknown metric 'gap'). Give a folder of a finished judge evaluate, made by this version and plugins."
    assert why in refusal("report", "out", "--overwrite")


def bayes(scores: pd.DataFrame, said: dict[str, str], classes: dict[str, str]) -> float:
    """LIC of one side by scikit-learn's naive Bayes, fold by fold; each probability is compared too."""
    hair = load_lexicon(str(ROOT / "tests" / "plugin_template" / "judge_template" / "hair.yaml"))
    words = {image: set(mask(tokenize(text), hair)) for image, text in said.items()}
    assert all("<hair>" in of for of in words.values())
    confident = []
    for _, fold in scores.groupby("fold"):
        tested = list(fold["image_id"])
        learnt = sorted(words.keys() - set(tested))
        vocabulary = sorted({word for image in learnt for word in words[image]})
        table = {image: [word in of for word in vocabulary] for image, of in words.items()}
        model = BernoulliNB().fit([table[image] for image in learnt], [classes[image] for image in learnt])
        found = model.predict_proba([table[image] for image in tested])
        truth = [[*model.classes_].index(classes[image]) for image in tested]
        own = found[np.arange(len(truth)), truth]
        assert fold["probability"].to_numpy() == pytest.approx(own)
        confident += [*own * (found.argmax(axis=1) == truth)]
    assert len(confident) == len(said)
    return float(np.mean(confident))


def test_a_detector_of_a_plugin_hides_what_it_finds(
    find_in: Callable[[Path], None], site: Path, tmp_path: Path
) -> None:
    find_in(site)
    (tmp_path / "images").mkdir()
    pixels = np.full((40, 50, 3), 200, dtype=np.uint8)
    pixels[5:25, 10:22] = [0, 0, 255]  # Red, as OpenCV orders channels: 20 x 12 pixels.
    cv2.imwrite(str(tmp_path / "images" / "a.png"), pixels)
    done_well("mask", "--images", tmp_path / "images", "--detector", "red", "--out", tmp_path / "masked")
    (masked,) = [path for path in (tmp_path / "masked").rglob("*.png") if path.stem == "a"]
    black = (cv2.imread(str(masked)) == 0).all(axis=-1)
    assert black.sum() == 240
    assert black[5:25, 10:22].all()


def test_names_are_listed_without_an_import(find_in: Callable[[Path], None], site: Path) -> None:
    """Of the plugin, whose package is imported only where it is used."""
    find_in(site)
    listed = done_well("plugins").stdout
    kinds = {tuple(line.split()) for line in listed.splitlines()[1:]}
    named = {"metric": "gap", "judge": "counts", "detector": "red", "reader": "lines", "lexicon": "hair"}
    assert kinds == {(kind, name, "judge-template", "1.0") for kind, name in named.items()}
    done_well("evaluate", "--help")
    assert not [name for name in sys.modules if name.startswith("judge_template")]


@pytest.fixture
def declare(find_in: Callable[[Path], None], tmp_path: Path) -> Callable[..., None]:
    """Installs a package, as pip lays it out: its metadata, and a module of the same name."""

    def install(package: str, group: str, entry: str, module: str = "") -> None:
        about = tmp_path / f"{package}-2.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0\n", encoding="utf-8")
        (about / "entry_points.txt").write_text(f"[judge.{group}]\n{entry}\n", encoding="utf-8")
        (tmp_path / f"{package}.py").write_text(module, encoding="utf-8")
        find_in(tmp_path)

    return install


def test_a_name_that_is_taken_is_refused(declare: Callable[..., None]) -> None:
    declare("taken_a", "metrics", "LIC = taken_a:x")
    declare("taken_b", "judges", "mine = taken_b:x")
    declare("taken_c", "judges", "mine = taken_c:x")
    declare("taken_d", "lexicons", "gender = taken_d:x")
    end = "one of the same name. Update the package, or uninstall it."
    assert [fault_of(find_metric, "lic"), fault_of(find_judge, "mine"), fault_of(load_lexicon, "gender")] == [
        f"metric 'lic' of taken_a 2.0: caption-judge has {end}",
        f"judge 'mine' of taken_b 2.0 and taken_c 2.0: they have {end}",
        f"lexicon 'gender' of taken_d 2.0: caption-judge has {end}",
    ]


def test_a_plugin_that_cannot_be_used_is_named(declare: Callable[..., None]) -> None:
    declare("broken_a", "metrics", "gap = broken_a:GAP", "import not_installed_anywhere")
    declare("broken_b", "judges", "counts = broken_b:COUNTS", "COUNTS = 3")
    declare("broken_c", "detectors", "red = broken_c:make", "def make(weights, device):\n    return 3")
    declare("broken_d", "readers", "odd = broken_d:read", "def read(document, request):\n    return 3")
    request = Request("human", "human.json")
    end = "Update the package, or uninstall it."
    missing = "ModuleNotFoundError: No module named 'not_installed_anywhere'"
    assert [
        fault_of(find_metric, "gap"),
        fault_of(find_judge, "counts"),
        fault_of(make_detector, "red"),
        fault_of(find_captions, [{"image_id": 1, "caption": "a"}], request),
    ] == [
        f"metric 'gap' of broken_a 2.0: cannot be imported ({missing}). {end}",
        f"judge 'counts' of broken_b 2.0: broken_b:COUNTS is of type int, not Blueprint. {end}",
        f"detector 'red' of broken_c 2.0: makes an object of type int, no detector. {end}",
        f"reader 'odd' of broken_d 2.0: returns a number, neither a Table nor None. {end}",
    ]
    # A misspelt name is answered by the names of plugins too.
    assert fault_of(find_judge, "count").endswith("Did you mean 'counts'?")
