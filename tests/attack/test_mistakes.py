"""Sixty mistakes that users make: each is told in one line that says how to mend it, and the mend works."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import done_well, judge
from typer.testing import Result

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner

LONGEST = 500
NO_OUT = "data", "report", "compare", "TRAIN"
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
    """A command, what it tells, and the command as that line would have it.

    Attributes:
        name: of the mistake.
        wrong: the command.
        line: a regular expression of what is told.
        right: the command mended; "" where that takes longer than a test may, or a network.
        then: what is told instead of it, where there is more to mend.
        code: the exit code; 0 where the run is legitimate and the line is one of its notes, 1 where single pictures
            are at fault.
    """

    name: str
    wrong: str
    line: str
    right: str = ""
    code: int = 2
    then: str = ""


MISTAKES = [
    # Commands and options.
    Mistake(
        "option misspelt",
        "RUN --captons none.json",
        r"evaluate: no such option: --captons \(Possible options: --captions.*\)\. See .*evaluate --help\.",
        "RUN --captions none.json",
    ),
    Mistake(
        "command misspelt",
        "evalute run.yaml",
        r"no such command 'evalute'\. Did you mean 'evaluate'",
        "evaluate run.yaml",
    ),
    Mistake(
        "sub-command misspelt",
        "ablate maks",
        r"no such command 'maks'\. Did you mean 'masks'\?",
        "ablate masks",
        then="'human' is missing",
    ),
    Mistake(
        "file without its option",
        "RUN none.json",
        r"none\.json: not a mapping of settings\. A file that no option stands before .* write --captions none\.json",
        "RUN --captions none.json",
    ),
    Mistake(
        "files without their options",
        "RUN none.json three.json",
        r"unexpected extra argument\(s\) \(three\.json\)\. Repeat the option before each value, as in --captions A",
    ),
    Mistake(
        "metric misspelt",
        "RUN --metrics eror",
        r"unknown metric 'eror'\. Did you mean 'error'\?",
        "RUN --metrics error",
    ),
    Mistake(
        "judge misspelt", "LIC --judge liner", r"unknown judge 'liner'\. Did you mean 'linear'\?", "LIC --judge linear"
    ),
    Mistake(
        "protocol misspelt",
        "LIC --protocol papr",
        r"unknown value 'papr'\. Did you mean 'paper'\?",
        "LIC --protocol paper",
    ),
    Mistake(
        "lexicon misspelt",
        "RUN --lexicon gendr",
        r"no lexicon 'gendr'\. Did you mean 'gender'\?",
        "RUN --lexicon gender",
    ),
    Mistake(
        "attribute misspelt",
        "RUN --attribute gendre",
        r"labels\.csv: no column of gendre labels .* Name it with --attribute gender, if that is meant",
        "RUN --attribute gender",
    ),
    Mistake(
        "negative folds", "LIC --folds -2", r"'folds': input should be greater than or equal to 2\.", "LIC --folds 2"
    ),
    Mistake("word for a number", "LIC --seeds five", r"'seeds': input should be a valid integer", "LIC --seeds 1"),
    Mistake("percentage for a share", "RUN --level 95", r"'level': input should be less than 1\.", "RUN --level 0.95"),
    Mistake("one refit", "LIC --refits 1", "'refits': one refit has no spread: give 2 or more, or 0", "LIC --refits 2"),
    Mistake(
        "more folds than images",
        "LIC --folds 50",
        r"50 folds, and only 30 images of class 'male'\. Use --folds 30 or fewer",
        "LIC --folds 30",
    ),
    Mistake(
        "no captions",
        "evaluate --human human.json",
        r"'captions' is missing\. Give --captions",
        "evaluate --human human.json --captions much.json QUICK",
    ),
    Mistake("no people", "evaluate --captions much.json", r"'human' is missing\. Give --human", "RUN"),
    # Files.
    Mistake(
        "path misspelt",
        "LABELS lables.csv",
        r"lables\.csv: no such file\. Did you mean 'labels\.csv'\?",
        "LABELS labels.csv",
    ),
    Mistake("folder for a file", "CAPTIONS images", r"images: is a folder\. Give one file", "CAPTIONS much.json"),
    Mistake(
        "picture for captions",
        "CAPTIONS images/000000000001.png",
        r"is a picture\. Give JSON or a table",
        "CAPTIONS much.json",
    ),
    Mistake(
        "list for a path",
        "evaluate listed.yaml",
        r"listed\.yaml: 'objects': input is not a valid path\. See --objects in judge evaluate --help",
        "evaluate run.yaml",
    ),
    Mistake(
        "images that no trained judge looks at",
        "TRAIN other --metrics lic --images imags",
        r"--images imags: is no folder\. Did you mean 'images'",
    ),
    Mistake(
        "home of nobody",
        "LIC --alignment contextual --vectors ~nobody-of-that-name/glove.txt",
        r"--vectors ~nobody-of-that-name/glove\.txt: no such file of vectors\. Give corpus, a file",
        "LIC --alignment contextual --vectors corpus",
    ),
    Mistake("link to itself", "CAPTIONS circle", "circle: is a link to itself. Remove it, or", "CAPTIONS much.json"),
    Mistake("result into a link to itself", "RUN --out circle/out", "out: is a link to itself.", "RUN --out OUT"),
    Mistake(
        "images that no judge looks at",
        "RUN --images imags",
        r"--images imags: is no folder\. Did you mean 'images'",
        "RUN --images images",
    ),
    Mistake(
        "word vectors that nothing reads",
        "RUN --vectors glove.txt --prior product",
        r"--vectors is not used by error, but by contextual alignment\. NOTE: --prior is not used by error",
        "RUN",
        code=0,
    ),
    Mistake(
        "detector without images",
        "LIC --detector yolo --weights yolo.pt",
        "--detector --weights are not used by lic, but by a run with --images",
        "LIC",
        code=0,
    ),
    Mistake("UTF-16", "CAPTIONS utf16.csv", r"utf16\.csv: is UTF-16 text\. Save it as UTF-8", "CAPTIONS utf8.csv"),
    Mistake(
        "empty file",
        "CAPTIONS empty.json",
        r"empty\.json: file is empty\. Give a file with captions",
        "CAPTIONS much.json",
    ),
    Mistake(
        "file cut off",
        "CAPTIONS cut.json",
        r"cut\.json: not JSON \(.*\)\. Mend the file, or export it again",
        "CAPTIONS much.json",
    ),
    Mistake(
        "labels for captions",
        "CAPTIONS labels.csv",
        "no column of generated captions among 'image_id', 'gender'",
        "CAPTIONS much.json",
    ),
    Mistake(
        "captions for labels",
        "LABELS human.json",
        r"human\.json: JSON of the wrong shape \(an object\)\. Give a table",
        "LABELS labels.csv",
    ),
    Mistake(
        "column of captions called otherwise",
        "CAPTIONS what.csv",
        r"what\.csv: no column of generated captions among 'image_id', 'what'\. Name it with --column caption=NAME",
        "CAPTIONS what.csv --column caption=what",
    ),
    Mistake(
        "column of ids called otherwise",
        "CAPTIONS who.csv",
        r"no column of image ids among 'who', 'caption'\. Name it with --column image_id=NAME",
        "CAPTIONS who.csv --column image_id=who",
    ),
    Mistake(
        "column misspelt",
        "LABELS sex.csv --label-column sexe",
        r"no column 'sexe'\. Did you mean 'sex'\?",
        "LABELS sex.csv --label-column sex",
    ),
    Mistake(
        "option without a key",
        "LABELS german.csv --label-value Frau",
        r"'Frau' is not KEY=VALUE\. Write it as --label-value CLASS=TEXT",
        "LABELS german.csv --label-value female=Frau --label-value male=Mann",
    ),
    # What files hold.
    Mistake(
        "ids of other images",
        "CAPTIONS strangers.json",
        r"no image in common \(human '1', generated '9001', labels '1'\)\. Check that image ids mean the same",
        "CAPTIONS names.json",
    ),
    Mistake(
        "captions of three images",
        "CAPTIONS three.json",
        r"10 of each are needed \(people's captions are of 60 images, "
        r"three's of 3, labels of 60; 3 are in all three\)\. Give files of the same images",
        "CAPTIONS much.json",
    ),
    Mistake(
        "captions of images alike",
        "CAPTIONS one.json",
        r"all 3 images are 'female', .* \(people's captions are of 60 images, one's of 3, .*\)\. Give files of",
        "CAPTIONS much.json",
    ),
    Mistake(
        "ids that are shifted",
        "CAPTIONS shifted.json",
        "shifted: people's captions are of 60 images, shifted's of 60, labels of 60; "
        "27 are in all three, fewer than half of the smallest: see that image ids mean the same in all files",
        "CAPTIONS much.json",
        code=0,
    ),
    Mistake(
        "sides swapped",
        f"evaluate --human much.json --captions human.json --labels labels.csv {QUICK}",
        r"human has several captions \(up to 5\) of 60 of 60 images, and people one of each: "
        r"the sides look swapped\. Give --human human\.json --captions much\.json, or --several",
        f"evaluate --human human.json --captions much.json --labels labels.csv {QUICK}",
        code=0,
    ),
    Mistake(
        "one file on both sides",
        "CAPTIONS human.json",
        r"captions of 'human' are people's own.*Give a file of the captioner's captions",
        "CAPTIONS much.json",
    ),
    Mistake(
        "two captioners of a name",
        "RUN --captions again/much.json",
        r"two captioners are called 'much'\. Name them: OTHER=again/much\.json",
        "RUN --captions OTHER=again/much.json",
    ),
    Mistake(
        "labels 0 and 1",
        "LABELS codes.csv",
        r"label is the number 0, and .*\. Look up what the table's numbers mean, and say it of each: "
        r"--label-value CLASS=0 \(CLASS: female or male\)",
        "LABELS codes.csv --label-value female=0 --label-value male=1",
    ),
    Mistake(
        "labels in German",
        "LABELS german.csv",
        r"record 1, field 'gender': unknown label 'Frau'\. Known classes: female, male; "
        r"mend it, or say which it is: --label-value CLASS=Frau",
        "LABELS german.csv --label-value female=Frau --label-value male=Mann",
    ),
    Mistake(
        "no such class",
        "LABELS german.csv --label-value man=Mann",
        r"'man' is no class of gender\. Did you mean 'male'\?",
        "LABELS german.csv --label-value male=Mann --label-value female=Frau",
    ),
    Mistake(
        "one class",
        "LABELS men.csv",
        r"all 60 images are 'male'\. A judge needs two classes or more",
        "LABELS labels.csv",
    ),
    Mistake(
        "few labels",
        "LABELS ten.csv",
        r"class '(fe)?male' of gender has \d images.*; 10 of each are needed\. Add labelled images",
        "LABELS labels.csv",
    ),
    Mistake(
        "two labels of an image",
        "LABELS twice.csv",
        r"image '1' is 'male' here and 'female' in record 1\. .* --label-rule majority",
        "LABELS twice.csv --label-rule majority",
    ),
    Mistake(
        "lexicon without classes",
        "RUN --lexicon words.yaml",
        r"words\.yaml: no 'classes'\. Write 'classes: \{class: \[words\]\}'",
        "RUN --lexicon classes.yaml",
    ),
    Mistake("split that is not there", "RUN --split tset", r"no captions of split 'tset'\. Leave the split out", "RUN"),
    # YAML.
    Mistake(
        "key misspelt",
        "evaluate humans.yaml",
        r"humans\.yaml: unknown key 'humans'\. Did you mean 'human'\?",
        "evaluate run.yaml",
    ),
    Mistake(
        "tab in YAML", "evaluate tab.yaml", r"tab\.yaml: not YAML .*tab character.* on line 2", "evaluate run.yaml"
    ),
    Mistake("key twice", "evaluate double.yaml", r"key 'human' is given twice on line 2", "evaluate run.yaml"),
    Mistake(
        "run folder for settings",
        "evaluate done",
        r"done: is a folder\. Name the file in it, such as done/run\.yaml",
        "evaluate done/run.yaml",
    ),
    # Settings that do not belong together.
    Mistake(
        "epochs of a judge without",
        "LIC --judge linear --epochs 5",
        "NOTE: --epochs is not used by linear, but by lstm, ",
        "LIC --judge linear",
        code=0,
    ),
    Mistake(
        "judge of counts",
        "RUN --judge lstm",
        "NOTE: --judge is not used by error, but by metrics that ask a judge",
        "RUN",
        code=0,
    ),
    Mistake(
        "metric of pictures, none given",
        "LIC --metrics vl-lic",
        r"judges of vl-lic see pictures, and there are none\. Give the folder of pictures",
        "SEEN",
        then="--instances",
    ),
    Mistake(
        "pictures without instances",
        "SEEN",
        r"--instances: detector 'gt' needs the instances\. Give their COCO file",
        "SEEN --instances strange.json",
        then="annotation says",
    ),
    Mistake(
        "detector without weights",
        "SEEN --detector yolo",
        r"--weights: detector 'yolo' needs weights\. Give a file",
        "SEEN --detector yolo --weights notes.txt",
        then="notes.txt: is no file of YOLO weights",
    ),
    Mistake(
        "judge that is itself, of captions",
        "SEEN --judge self",
        "nothing says which checkpoint wrote the captions of 'much'. Add --model much=CHECKPOINT",
        "SEEN --judge self --model much=hollow",
        then="--instances",
    ),
    Mistake(
        "checkpoint without weights",
        "evaluate --human human.json --model hollow",
        r"--model hollow: no weights in safetensors are there\. Convert them with transformers' save_pretrained",
    ),
    Mistake(
        "checkpoint that is not there",
        "caption --images nowhere --model ./hollw",
        r"--model \./hollw: no such folder\. Check the path",
        "caption --images nowhere --model ./hollow",
        then="no weights",
    ),
    # Outputs.
    Mistake(
        "another run there",
        "RUN --metrics ba --out done",
        r"--out done: holds another run\. Name another folder, or add --overwrite",
        "RUN --metrics ba",
    ),
    Mistake("file for a folder", "RUN --out notes.txt", r"--out notes\.txt: is a file\. Name a folder", "RUN"),
    Mistake(
        "inputs for a folder",
        "RUN --out images",
        r"--out images: holds something that is no run\. Name another folder",
        "RUN",
    ),
    # Other commands.
    Mistake(
        "trains counts",
        "TRAIN OUT --metrics error",
        r"no judge to train.*Name a metric that asks judges, such as lic",
        "TRAIN OUT --metrics lic",
    ),
    Mistake(
        "file for checkpoints",
        "LIC --checkpoints notes.txt",
        r"--checkpoints notes\.txt: is a file\. Name a folder",
        "LIC --checkpoints OUT.kept",
    ),
    Mistake(
        "captions there already",
        "caption --images images --model ./hollow --out much.json",
        r"--out much\.json: is there already\. Name another file, or add --overwrite",
        "caption --images images --model ./hollow",
        then="no weights",
    ),
    Mistake(
        "instances of other pictures",
        "MASK --instances strange.json",
        r"000000000001\.png, .* and 55 more, the first: picture '000000000001\.png': is 64 x 64, "
        r"its annotation says 640 x 480\. Use the pictures that were annotated",
        "MASK --instances instances.json",
        code=1,
    ),
    Mistake(
        "captions for instances",
        "MASK --instances human.json",
        r"'categories' is no list of records\. Give COCO instances \(images",
        "MASK --instances instances.json",
    ),
    Mistake(
        "masked into the pictures",
        "MASK --instances instances.json --out images/masked",
        r"lies in the folder of pictures\. Name another folder",
        "MASK --instances instances.json",
    ),
    Mistake(
        "category of things unasked",
        "MASK --instances instances.json --category dog",
        r"only people are hidden, no dog\. Add --hide object, or --hide both",
        "MASK --instances instances.json --category dog --hide both",
    ),
    Mistake(
        "answers for weights",
        "predict --judge-weights ANSWERS --captions much.json",
        r"holds a judge's answers, and no weights\. Give a NAME\.weights\.safetensors",
        "predict --judge-weights WEIGHTS --captions much.json",
    ),
    Mistake(
        "run for weights",
        "predict --judge-weights done --captions much.json",
        r"holds no judge\.safetensors.*Give the folder that judge export made, or a NAME\.weights\.safetensors",
        "predict --judge-weights WEIGHTS --captions much.json",
    ),
    Mistake(
        "method of pictures",
        "attribute --judge-weights WEIGHTS --captions much.json --methods grad-cam",
        r"cannot be explained by grad-cam.*Choose of exact, occlusion",
        "attribute --judge-weights WEIGHTS --captions much.json --methods exact",
    ),
    Mistake(
        "captions for weights",
        "export --judge-weights much.json",
        r"much\.json: is no safetensors file, or damaged\. Give a NAME\.weights\.safetensors",
        "export --judge-weights WEIGHTS",
    ),
    Mistake(
        "folder that is no run",
        "report kept",
        r"kept: no run can be read there.*Give the folder of a finished judge evaluate",
        "report done --format md",
    ),
    Mistake(
        "format misspelt",
        "report done --format markdown",
        r"'markdown' is not one of 'html', 'md', 'latex', 'card'",
        "report done --format md",
    ),
    Mistake(
        "runs of other metrics",
        "compare done learnt",
        r"the runs cannot be compared: error \(counted\) in one, lic \(linear\) in the other\. Measure both by",
        "compare learnt learnt2",
    ),
    Mistake(
        "one run",
        "compare learnt",
        r"one run alone has nothing to compare with\. Give two folders",
        "compare learnt learnt2",
    ),
    Mistake(
        "vectors that are not there",
        "align --human human.json --captions much.json --vectors glove.txt",
        r"--vectors glove\.txt: no such file of vectors\. Give corpus, a file, or hf:NAME",
        "align --human human.json --captions much.json --vectors corpus --meteor 0",
    ),
    Mistake(
        "attribute without words",
        "anonymous --captions much.json --attribute emotoin",
        r"no words of 'emotoin'\. Did you mean 'emotion'\? Else give --lexicon",
        "anonymous --captions much.json --attribute emotion",
    ),
    Mistake(
        "table for ratings",
        "anonymous --captions much.json --ratings labels.csv",
        r"labels\.csv: no column 'item' .*Give a sheet that was filled in",
        "anonymous --captions much.json",
    ),
    Mistake(
        "dose in per cent",
        "CALIBRATE --doses 20",
        r"'doses\.0': input should be less than 1",
        "CALIBRATE --doses 0.2 --sample 900",
        then="--sample 60",
    ),
    Mistake(
        "sample of more than all",
        "CALIBRATE --sample 900",
        r"60 images have 2 human captions and a label\. Draw 60 images or fewer \(judge calibrate --sample 60\)",
    ),
    Mistake(
        "change misspelt",
        "CALIBRATE --changes A-T",
        r"unknown change 'A-T'\. Did you mean 'A->T'\?",
        "CALIBRATE --changes 'A->T' --sample 900",
        then="--sample 60",
    ),
    Mistake(
        "recipe misspelt",
        "data show coco-caption",
        r"no recipe 'coco-caption'\. Did you mean 'coco-captions'\?",
        "data show coco-captions",
    ),
    Mistake(
        "file for a folder of data",
        "data check coco-captions labels.csv",
        r"labels\.csv: is no folder\. Give the folder that holds the files",
        "data check coco-captions images",
        then="required files of coco-captions is not good",
    ),
    Mistake(
        "masks of judges that read",
        "ablate masks --human human.json --captions much.json --images images --metrics lic",
        r"no judge of these metrics uses images\. Add one of imagecaptioner2",
        "ablate masks --human human.json --captions much.json --images images --metrics vl-lic --masks segmnt",
        then="Did you mean 'segment'",
    ),
    Mistake(
        "detector misspelt",
        "ablate detectors --images images --instances instances.json --detectors gt,yollo",
        r"unknown detector 'yollo'\. Did you mean 'yolo'\?",
        "ablate detectors --images images --instances instances.json --detectors gt",
    ),
    Mistake(
        "small demo",
        "demo --images 20",
        r"invalid value for '--images': .*greater than or equal to 200",
        "demo --images 200 --out images",
        then="holds something that is no run",
    ),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files that users mistake for others, and with what commands have left."""
    folder = tmp_path_factory.mktemp("mistakes") / "place"
    captioners = {"much": Captioner(stereotype=0.9), "none": Captioner()}
    files = write_world(make_world(60, seed=2), captioners, folder, pictures=64)
    files.human.rename(folder / "human.json")
    for path in files.captions.values():
        path.rename(folder / path.name)
    before = Path.cwd()
    os.chdir(folder)
    try:
        write_mistaken(folder)
        run_commands(folder)
        yield folder
    finally:
        os.chdir(before)


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


def run_commands(folder: Path) -> None:
    """Three runs, and trained judges."""
    other = f"{HUMAN} --captions none.json --labels labels.csv {JUDGED} --out learnt2"
    for command in ("RUN --out done", "LIC --out learnt", other, "TRAIN kept --metrics lic"):
        done_well(*words_of(command, folder))


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


def one_line(text: str) -> str:
    """Lines that a table's width breaks, joined."""
    return " ".join(text.split())


TRIED: dict[str, Result] = {}


def mended_by(command: str, folder: Path, out: Path) -> Result:
    """What a command says that mends; several mistakes have the same mend."""
    if command not in TRIED:
        TRIED[command] = judge(*words_of(command, folder, out))
    return TRIED[command]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_a_mistake_is_mended_by_its_line(place: Path, tmp_path: Path, mistake: Mistake) -> None:
    """It is told in one line, of some length, and leaves nothing; the line's mend ends it."""
    before = contents(place)
    done = judge(*words_of(mistake.wrong, place, tmp_path / "out"))
    assert done.exit_code == mistake.code, done.output
    told = done.stderr if mistake.code else one_line(done.stdout)
    assert re.search(mistake.line, told), told
    assert "Traceback" not in done.output
    if mistake.code:
        assert done.stdout == ""
        assert max(map(len, done.stderr.splitlines())) <= LONGEST
        assert done.stderr.count("\n") == (1 if mistake.code == 2 else 2)  # Of pictures, their number too.
        assert list(tmp_path.iterdir()) == []
    if mistake.right:
        mended = mended_by(mistake.right, place, tmp_path / "mended")
        assert not re.search(mistake.line, mended.stderr + one_line(mended.stdout)), mended.output
        assert mended.exit_code == (2 if mistake.then else 0), mended.output
        assert mistake.then in mended.stderr
    assert contents(place) == before


def test_there_are_sixty_of_every_command() -> None:
    from judge.commands.app import app

    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert len(MISTAKES) >= 60
    assert names == {words_of(mistake.right or mistake.wrong, Path())[0] for mistake in MISTAKES}
