"""Sixty mistakes that users make: each is told in one line that says how to mend it, and the mend works."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from helpers import done_well, few, judge
from mutations import LONGEST
from typer.testing import Result

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner

NO_OUT = "data", "report", "compare", "TRAIN", "doctor", "plugins"
HUMAN = "evaluate --human human.json"
QUICK = "--metrics error --resamples 100"
LEARNT = "--refits 0 --chance 0 --folds 2 --workers 1"
JUDGED = f"--metrics lic {LEARNT} --resamples 100"
# What stands for the beginning of a command.
MACROS = {
    "LABELS": f"{HUMAN} --captions much.json {QUICK} --labels",
    "CAPTIONS": f"{HUMAN} --labels labels.csv {QUICK} --captions",
    "RUN": f"{HUMAN} --captions much.json --labels labels.csv {QUICK}",
    "LIC": f"{HUMAN} --captions much.json --labels labels.csv {JUDGED}",
    "SEEN": f"{HUMAN} --captions much.json --labels labels.csv {JUDGED} --metrics imagecaptioner2 --images images",
    "MASK": "mask --images images",
    "CALIBRATE": "calibrate --human human.json --labels labels.csv",
    "TRAIN": f"train --human human.json --captions much.json --labels labels.csv {LEARNT} --checkpoints",
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """A command, the line that it prints, and the command that this line asks for; see mistakes.yaml."""

    wrong: str
    line: str
    right: str = ""
    then: str = ""
    code: int = 2


TABLE = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text(encoding="utf-8"))
MISTAKES = {name: Mistake(**entry) for name, entry in TABLE.items()}
MENDED: dict[str, Result] = {}
"""What ends several mistakes is run once."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files that users mistake for others, three runs, and trained judges."""
    folder = tmp_path_factory.mktemp("mistakes") / "place"
    captioners = {"much": Captioner(stereotype=0.9), "none": Captioner()}
    # As many human captions as conditional leakage needs.
    files = few(write_world(make_world(60, seed=2), captioners, folder, pictures=64), 3)
    files.human.rename(folder / "human.json")
    for path in files.captions.values():
        path.rename(folder / path.name)
    write_mistaken(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        other = f"{HUMAN} --captions none.json --labels labels.csv {JUDGED} --out learnt2"
        for command in ("RUN --out done", "LIC --out learnt", other, "TRAIN kept --metrics lic"):
            done_well(*words_of(command, folder))
        yield folder


def write_mistaken(folder: Path) -> None:
    """Files that are not what they should be."""
    much = json.loads((folder / "much.json").read_text(encoding="utf-8"))
    labels = [line.split(",") for line in (folder / "labels.csv").read_text(encoding="utf-8").split()[1:]]
    women = [image for image, label in labels if label == "female"]
    instances = json.loads((folder / "instances.json").read_text(encoding="utf-8"))
    for number, image in enumerate(instances["images"]):
        image |= {"width": 640 + number, "height": 480}

    def captions(rename: Callable[[int], object] = int) -> str:
        return json.dumps([{"image_id": rename(one["image_id"]), "caption": one["caption"]} for one in much])

    def table(header: str, rows: list[list[str]]) -> str:
        return "\n".join([header, *(f'{first},"{second}"' for first, second in rows)])

    said = [[str(one["image_id"]), one["caption"]] for one in much]
    codes, german = {"female": "0", "male": "1"}, {"female": "Frau", "male": "Mann"}
    written = {
        "empty.json": "",
        "cut.json": captions()[:500],
        "notes.txt": "x",
        "utf8.csv": table("image_id,caption", said),
        "what.csv": table("image_id,what", said),
        "who.csv": table("who,caption", said),
        "strangers.json": captions(lambda image: image + 9000),
        "names.json": captions(lambda image: f"COCO_val2014_{image:012}.jpg"),
        "shifted.json": captions(lambda image: image + 33),
        "three.json": json.dumps(much[:3]),
        "one.json": json.dumps([one for one in much if str(one["image_id"]) in women[:3]]),
        "again/much.json": captions(),
        "codes.csv": table("image_id,gender", [[image, codes[label]] for image, label in labels]),
        "german.csv": table("image_id,gender", [[image, german[label]] for image, label in labels]),
        "men.csv": table("image_id,gender", [[image, "male"] for image, _ in labels]),
        "ten.csv": table("image_id,gender", labels[:10]),
        "twice.csv": table("image_id,gender", [*labels, ["1", "male"], ["1", "female"]]),
        "sex.csv": table("image_id,sex", labels),
        "words.yaml": "female: [woman]\n",
        "classes.yaml": "classes: {female: [woman], male: [man]}\n",
        "run.yaml": "human: human.json\ncaptions: {much: much.json}\nlabels: labels.csv\nmetrics: [error]\n",
        "humans.yaml": "humans: human.json\ncaptions: {much: much.json}\n",
        "listed.yaml": "human: human.json\ncaptions: {much: much.json}\nobjects: [a.json]\n",
        "tab.yaml": "human: human.json\n\tcaptions: much.json\n",
        "double.yaml": "human: human.json\nhuman: much.json\n",
        "strange.json": json.dumps(instances),
        "hollow/config.json": json.dumps({"model_type": "blip"}),
    }
    for name, text in written.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "utf16.csv").write_text(written["utf8.csv"], encoding="utf-16")
    (folder / "circle").symlink_to("circle")


def words_of(command: str, folder: Path, out: Path | None = None) -> list[str]:
    """The words of a command, with what its capitals stand for."""
    kept: Mapping[str, str] = {}
    if (index := folder / "kept" / "judges.json").exists():
        kept = json.loads(index.read_text(encoding="utf-8"))[0]
    known = {**MACROS, "QUICK": QUICK, "OUT": str(out)}
    known |= {name.upper(): f"kept/{kept[name]}" for name in ("answers", "weights") if name in kept}
    if "--out " not in command and not command.startswith(NO_OUT):
        command += " --out OUT"
    return shlex.split(re.sub(r"\b[A-Z]{3,}\b", lambda found: known.get(found[0], found[0]), command))


def contents(folder: Path) -> dict[str, int]:
    """Every file with its size."""
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_mended_by_its_line(place: Path, tmp_path: Path, name: str) -> None:
    """It is told in one line, of some length, and leaves nothing; the line's mend ends it."""
    mistake, before = MISTAKES[name], contents(place)
    done = judge(*words_of(mistake.wrong, place, tmp_path / "out"))
    assert done.exit_code == mistake.code, done.output
    assert re.search(mistake.line, done.stderr if mistake.code else " ".join(done.stdout.split())), done.output
    assert "Traceback" not in done.output
    if mistake.code:
        assert done.stdout == ""
        assert max(map(len, done.stderr.splitlines())) <= LONGEST
        assert done.stderr.count("\n") == (1 if mistake.code == 2 else 2)  # Of images, their number too.
        assert list(tmp_path.iterdir()) == []
    if mistake.right:
        if mistake.right not in MENDED:
            MENDED[mistake.right] = judge(*words_of(mistake.right, place, tmp_path / "mended"))
        mended = MENDED[mistake.right]
        assert not re.search(mistake.line, " ".join(mended.output.split())), mended.output
        assert mended.exit_code == (2 if mistake.then else 0), mended.output
        assert mistake.then in mended.stderr
    assert contents(place) == before


def test_there_are_sixty_of_every_command() -> None:
    from judge.commands.app import app

    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert len(MISTAKES) >= 60
    assert names == {words_of(mistake.right or mistake.wrong, Path())[0] for mistake in MISTAKES.values()}
