"""Runs of a table as data: the folder of inputs, the size of the run, and the commands of ``judge``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from small_world import FEW, MODEL

from judge.commands.ablate import AblateDetectorsConfig, AblateMasksConfig, ablate_detectors, ablate_masks
from judge.commands.align import AlignConfig, align_captions
from judge.commands.anonymous import AnonymousConfig, measure_anonymous
from judge.commands.attribute import AttributeConfig, attribute
from judge.commands.caption import CaptionConfig, caption
from judge.commands.evaluate import RunConfig, run
from judge.commands.mask import MaskConfig, mask
from judge.config import Settings, about_option, flag_of, make_config
from judge.errors import JudgeError
from judge.types import Progress

Size = Literal["paper", "shared", "small"]
"""As in the paper; real captions of fewer images and a quick judge; so small that it only shows that it runs."""
BODIES: Mapping[type[Settings], Callable[..., Any]] = {
    RunConfig: run,
    AblateDetectorsConfig: ablate_detectors,
    AblateMasksConfig: ablate_masks,
    AlignConfig: align_captions,
    AnonymousConfig: measure_anonymous,
    AttributeConfig: attribute,
    CaptionConfig: caption,
    MaskConfig: mask,
}
MODES = ("none", "partial", "segment", "box")
SEEING = {"sat-512": "sat", "grit": "sat", "vl-lic": "vl-lic-lstm"}
"""Judges that see images -> what stands in for them in small runs; linear stands in for judges that read alone."""
_README = "see scripts/papers/README.md"


@cache
def read_declared() -> dict[str, Any]:
    """``tables.yaml``."""
    declared: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "tables.yaml").read_text(encoding="utf-8"))
    return declared


def captioners(paper: str) -> list[str]:
    """The captioners of a paper's tables."""
    return list(read_declared()["captioners"][paper])


def stem_of(captioner: str) -> str:
    """Name of the file of a captioner's captions, where they are one's own."""
    return str(read_declared()["stems"].get(captioner, captioner.lower()))


def is_recipe(name: str) -> bool:
    """Whether data/recipes has one of this name."""
    return (Path(__file__).parents[2] / "data" / "recipes" / f"{name}.yaml").is_file()


@dataclass(frozen=True, slots=True)
class Step:
    """One command.

    Attributes:
        name: of its results.
        kind: the class of its settings, which says the command.
        settings: as in a YAML file.
    """

    name: str
    kind: type[Settings]
    settings: Mapping[str, Any]

    def options(self) -> Iterator[list[str]]:
        """Each option and its value, as often as it is given."""
        for name, value in self.settings.items():
            flag, group = flag_of(self.kind, name), about_option(self.kind, name)["group"]
            if group and value is not None:
                yield [f"--{group}", f"{name}={'yes' if value is True else value}"]
            elif value is True:
                yield [flag]
            elif isinstance(value, Mapping):
                pairs = [(key, of if isinstance(of, tuple) else (of,)) for key, of in value.items()]
                yield from ([flag, f"{key}={text}"] for key, texts in pairs for text in texts)
            elif isinstance(value, tuple | list):
                texts = list(map(str, value))
                yield from (
                    [flag, of] for of in (texts if about_option(self.kind, name)["repeated"] else [",".join(texts)])
                )
            elif value is not None and value is not False:
                yield [flag, str(value)]

    def words(self) -> list[str]:
        """The command as a shell splits it."""
        return [*self.kind.command.split(), *(word for option in self.options() for word in option)]

    def line(self) -> str:
        """The command for a shell, an option a line."""
        return " \\\n    ".join([self.kind.command, *map(shlex.join, self.options())])

    def run(self, progress: Progress | None = None, *, overwrite: bool = False, report: bool = True) -> Any:
        """Run the command; its files lie in its ``out``, but for ``judge evaluate`` without a ``report``."""
        settings = {**self.settings, **({"overwrite": True} if overwrite else {})}
        Path(settings["out"]).parent.mkdir(parents=True, exist_ok=True)
        if self.kind is RunConfig and not report:
            settings["out"] = None
        return BODIES[self.kind](make_config(settings, self.kind, where=self.kind.command), progress=progress)


@dataclass(frozen=True)
class Job:
    """A run of a table.

    Attributes:
        size: of the run.
        data: for the paper's size a folder with a folder for every recipe of data/recipes; else a folder with
            captions_human.json, gender.csv and captions/ or results/ (see scripts/papers/README.md).
        out: folder of the results.
        shown: the commands are only shown: no file needs to exist.
    """

    size: Size
    data: Path
    out: Path
    shown: bool = False

    @property
    def is_paper(self) -> bool:
        """Whether the run is the paper's own."""
        return self.size == "paper"

    @property
    def is_small(self) -> bool:
        """Whether the run only shows that it runs."""
        return self.size == "small"

    # ---- Files

    def need(self, value: object) -> None:
        """Check that every path below ``data`` in ``value``, a path or a collection of settings, exists.

        Raises:
            JudgeError: one does not.
        """
        for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else ():
            self.need(part)
        ours = isinstance(value, Path) and value.is_relative_to(self.data) and not value.is_relative_to(self.out)
        if isinstance(value, Path) and ours and not value.exists():
            raise JudgeError("no such file or folder", where=str(value), mend=self._mend(value))

    def _mend(self, path: Path) -> str:
        recipe = path.relative_to(self.data).parts[0]
        known = self.is_paper and is_recipe(recipe)
        return f"'judge data show {recipe}' says where it comes from" if known else _README

    def human(self, attribute: str = "gender") -> Path:
        """Human captions; with three classes of skin tone all of COCO's."""
        if not self.is_paper:
            return self.data / "captions_human.json"
        if attribute == "skin3":
            return self.data / "coco-captions" / "annotations" / "captions_val2014.json"
        name = "gender_obj_cap_mw_entries.pkl" if attribute == "gender" else "race_val_obj_cap_entries.pkl"
        return self.data / "lic-release" / "Human_Ann" / name

    def captions(self, names: Sequence[str], attribute: str = "gender") -> dict[str, Path]:
        """Captions of the table's captioners that exist; of a small run those of all that exist.

        Raises:
            JudgeError: there are none.
        """
        files = {name: self._generated(name, attribute) for name in names} if self.is_paper else self.found()
        if self.is_small or self.shown:
            return files
        chosen = {name: files[name] for name in names if name in files and files[name].is_file()}
        if not chosen and names:
            first = files.get(names[0], self.data / "captions")
            others = f", nor captions of {', '.join(names[1:])}" if names[1:] else ""
            raise JudgeError(f"no such file{others}", where=str(first), mend=self._mend(first))
        return chosen

    def _generated(self, name: str, attribute: str) -> Path:
        """In LIC's release, which lacks images of the third class of skin tone, or one's own."""
        released = read_declared()["released"]
        if attribute == "skin3" or name not in released:
            return self.data / "captions" / f"{stem_of(name)}.json"
        folder, stem = released[name]
        middle = "_th10_cap_mw" if name == "NIC" else "_cap_mw"
        stem = f"gender_val_{stem}{middle}" if attribute == "gender" else f"race_val_{stem}_cap"
        return self.data / "lic-release" / str(folder) / f"{stem}_entries.pkl"

    def found(self) -> dict[str, Path]:
        """Captioner -> file, of all captions in a folder that is not laid out by recipes.

        Raises:
            JudgeError: no human captions, or no captions of a captioner.
        """
        if not (self.data / "captions_human.json").is_file():
            raise JudgeError("no such file", where=str(self.data / "captions_human.json"), mend=_README)
        names = {stem_of(name): name for name in (*captioners("lic"), *captioners("dbac"))}
        files = [path for folder in ("captions", "results") for path in sorted((self.data / folder).glob("*.json"))]
        if not files:
            raise JudgeError("no captions of a captioner there", where=str(self.data / "captions"), mend=_README)
        return {names.get(path.stem, path.stem): path for path in files}

    def inputs(self, names: Sequence[str], attribute: str = "gender") -> dict[str, Any]:
        """Settings that name both sides' captions and the labels."""
        human = self.human(attribute)
        found: dict[str, Any] = {"human": human, "captions": self.captions(names, attribute)}
        found["labels"] = human if self.is_paper else self.data / "gender.csv"
        if attribute != "gender":
            found |= {"attribute": "skin", "lexicon": "none"}
            if not self.is_paper:  # The shared data have no skin tones: the classes of gender stand in.
                found["columns"] = {"labels.skin": "gender"}
            elif attribute == "skin3":
                found["label_values"] = {"Unsure": ("Unsure",)}
                found["labels"] = self.data / "coco-gender-skin" / "images_val2014.csv"
        return found

    def images(self) -> dict[str, Path]:
        """Settings that name images and the people in them."""
        if not self.is_paper:
            return {"images": self.data / "images", "instances": self.data / "instances.json"}
        coco = self.data / "coco-captions"
        return {"images": coco / "val2014", "instances": coco / "annotations" / "instances_val2014.json"}

    def objects(self) -> Path:
        """Objects in each image."""
        return self.data / "objects.json" if self.size == "shared" else self.images()["instances"]

    def model(self, name: str) -> str:
        """The checkpoint of a captioner; in a small run an untrained one."""
        return str(self.data / MODEL) if self.is_small else name

    # ---- Judges

    def stand_ins(self, judges: Sequence[str]) -> dict[str, str]:
        """Judge -> the one that replaces it."""
        if self.is_paper:
            return {}
        slow = SEEING if self.is_small else {"sat-512": "sat"}
        quick = {*SEEING, *SEEING.values(), *(["lstm"] if self.is_small else [])}
        return {judge: slow.get(judge, "linear") for judge in judges if judge in slow or judge not in quick}

    def judging(self, judges: Sequence[str]) -> dict[str, Any]:
        """Settings of judges, their number and their training."""
        replaced = tuple(dict.fromkeys(self.stand_ins(judges).get(judge, judge) for judge in judges))
        found = {"judge": replaced, **read_declared()["sizes"][self.size]}
        if self.is_small and {*SEEING, *SEEING.values()} & {*judges}:
            found |= {"backbone": "resnet18", "backbone_weights": "random", "image_size": 64}
            found |= {"cache": self.out / "cache"}
        return found

    def aligning(self, how: str = "contextual") -> dict[str, Any]:
        """Settings of alignment: "constant", "contextual" (by GloVe) or "fasttext" (contextual, by FastText).

        Runs that are not the paper's learn vectors from the human captions themselves.
        """
        if how == "constant":
            return {"alignment": how}
        file = "fasttext.vec" if how == "fasttext" else "glove.txt"
        paper = {"vectors": str(self.data / "vectors" / file), "delta": 0.4}
        return {"alignment": "contextual", **(paper if self.is_paper else {"vectors": "corpus"})}

    # ---- Steps

    def step(self, name: str, kind: type[Settings], settings: Mapping[str, Any], *, file: str = "") -> Step:
        """A command that writes the folder NAME, or a ``file``, of the job."""
        return Step(name, kind, {**settings, "out": self.out / (file or name)})

    def evaluate(self, inputs: Mapping[str, Any], *, name: str = "run", **more: Any) -> Step:
        """``judge evaluate``."""
        return self.step(name, RunConfig, {**inputs, **more})

    def mask(self, name: str, *, mode: str, hide: str, **more: Any) -> Step:
        """``judge mask``; objects are chosen by the labels."""
        labels = {} if hide == "person" else {"labels": self.inputs(("SAT",))["labels"]}
        return self.step(name, MaskConfig, {**self.images(), "mode": mode, "hide": hide, **more, **labels})

    def caption(self, name: str, *, images: Path, model: str) -> Step:
        """``judge caption`` of a folder of images, into NAME.json."""
        settings = {"model": model, "images": images, "instances": self.images()["instances"]}
        return self.step(
            name, CaptionConfig, settings | ({"max_tokens": 8} if self.is_small else {}), file=f"{name}.json"
        )

    def attribute(self, name: str, *, images: Path, model: str, method: str, **words: str) -> Step:
        """``judge attribute`` of a captioner's words in a folder of images; ``words``: whose, by default of gender."""
        instances = self.data / FEW if self.is_small else self.images()["instances"]
        settings = {"model": model, "images": images, "instances": instances, "methods": (method,), "maps": 0}
        return self.step(name, AttributeConfig, settings | words)
