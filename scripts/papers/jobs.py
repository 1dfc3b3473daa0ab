"""Runs of a table as data: the folder of inputs, the size of the run, and the commands of ``judge``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from judge.commands.evaluate import RunConfig
from judge.config import Settings, flag_of, make_config, shown
from judge.errors import JudgeError
from judge.types import Progress

Size = Literal["paper", "shared", "small"]
"""As the paper has it; real captions of fewer images and a quick judge; so small that it shows only that it runs."""

LIC_CAPTIONERS = ("NIC", "SAT", "FC", "Att2in", "UpDn", "Transformer", "OSCAR", "NIC+", "NIC+Equalizer")
DBAC_CAPTIONERS = (
    *("Att2in", "BakLLAVA", "BLIP", "FC", "Florence", "LLAVA", "OSCAR", "SAT", "NIC", "NIC+Equalizer", "Transformer"),
    *("UpDn", "ViT-GPT2"),
)
DPAC_CAPTIONERS = ("FC", "Att2in", "UpDn", "OSCAR", "NIC+Equalizer", "SAT", "NIC", "Transformer")
CAPTIONERS = {"lic": LIC_CAPTIONERS, "dbac": DBAC_CAPTIONERS, "dpac": DPAC_CAPTIONERS}
# In the release of LIC: folder, and what stands between "gender_val_" or "race_val_" and "_cap". Of NIC there are
# several for gender; its recipe (data/recipes/lic-release.yaml) names this one.
_RELEASED = {
    "NIC": ("Show-Tell", "st10"),
    "SAT": ("Show-Attend-Tell", "sat"),
    "FC": ("Att2in_FC", "fc"),
    "Att2in": ("Att2in_FC", "att2in"),
    "UpDn": ("UpDn", "updn"),
    "Transformer": ("Transformer", "transformer"),
    "OSCAR": ("Oscar", "cider_oscar"),
    "NIC+": ("Woman-Snowboard", "baselineft"),
    "NIC+Equalizer": ("Woman-Snowboard", "snowboard"),
}
# Captioner -> stem of its file, where captions are of one's own. What else lies there is called by its stem.
STEMS = {
    **{name: name.lower() for name in (*LIC_CAPTIONERS, *DBAC_CAPTIONERS)},
    **{"NIC+": "nic_plus", "NIC+Equalizer": "nic_equalizer", "ViT-GPT2": "vit_gpt2"},  # noqa: PIE800 - over the former
}
# Judges of small runs; linear and sat stand in for all others, which take seconds or weights from a hub.
_QUICK = {"lstm", "sat"}
_SIZES: Mapping[Size, Mapping[str, Any]] = {
    "paper": {"protocol": "paper", "seeds": 10},
    "shared": {"protocol": "crossfit"},
    "small": {
        **{"protocol": "paper", "seeds": 1, "epochs": 1, "batch_size": 32, "workers": 1},  # noqa: PIE800 - two lines
        **{"refits": 0, "chance": 0, "resamples": 100},  # noqa: PIE800
    },
}


def is_recipe(name: str) -> bool:
    """Whether data/recipes has one of this name."""
    return (Path(__file__).parents[2] / "data" / "recipes" / f"{name}.yaml").is_file()


@dataclass(frozen=True)
class Job:
    """A run of a table.

    Attributes:
        size: of the run.
        data: of the paper's size a folder with a folder for every recipe of data/recipes; else a folder with
            captions_human.json, gender.csv and captions/ or results/ (see scripts/papers/README.md).
        out: folder of the results.
        shown: whether the commands are only shown: nothing is looked for.
    """

    size: Size
    data: Path
    out: Path
    shown: bool = False

    @property
    def is_paper(self) -> bool:
        """Whether the run is the paper's own."""
        return self.size == "paper"

    # ---- Files

    def need(self, value: object) -> None:
        """See that every path below ``data`` in ``value``, a path or a collection of settings, is there.

        Raises:
            JudgeError: the first that is not.
        """
        parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else ()
        for part in parts:
            self.need(part)
        if not isinstance(value, Path) or value.is_relative_to(self.out):
            return
        if value.is_relative_to(self.data) and not value.exists():
            raise JudgeError("no such file or folder", where=str(value), mend=self._mend(value))

    def _mend(self, path: Path) -> str:
        """How to come by a file of the data."""
        recipe = path.relative_to(self.data).parts[0]
        known = self.is_paper and is_recipe(recipe)
        return f"'judge data show {recipe}' says where it comes from" if known else "see scripts/papers/README.md"

    def human(self, attribute: str = "gender", *, three: bool = False) -> Path:
        """Human captions; with ``three`` classes of skin tone all of COCO's."""
        if not self.is_paper:
            return self.data / "captions_human.json"
        if three:
            return self.data / "coco-captions" / "annotations" / "captions_val2014.json"
        name = "gender_obj_cap_mw_entries.pkl" if attribute == "gender" else "race_val_obj_cap_entries.pkl"
        return self.data / "lic-release" / "Human_Ann" / name

    def captions(self, names: Sequence[str], attribute: str = "gender", *, three: bool = False) -> dict[str, Path]:
        """Captions of the table's captioners, as far as they are there; of a small run those of all that are.

        With ``three`` classes of skin tone all captions are of one's own: LIC's release lacks images of the third.

        Raises:
            JudgeError: there are none.
        """
        if self.is_paper:
            files = {name: self._own(name) if three else self._generated(name, attribute) for name in names}
        else:
            files = self.found()
        if self.size == "small" or self.shown:
            chosen = files
        else:
            chosen = {name: files[name] for name in names if name in files and files[name].is_file()}
        if not chosen and names:
            first = files.get(names[0], self.data / "captions")
            others = f", nor captions of {', '.join(names[1:])}" if names[1:] else ""
            raise JudgeError(f"no such file{others}", where=str(first), mend=self._mend(first))
        return chosen

    def _own(self, name: str) -> Path:
        return self.data / "captions" / f"{STEMS[name]}.json"

    def _generated(self, name: str, attribute: str) -> Path:
        if name not in _RELEASED:
            return self._own(name)
        folder, stem = _RELEASED[name]
        if attribute == "gender":
            stem = f"gender_val_{stem}_th10_cap_mw" if name == "NIC" else f"gender_val_{stem}_cap_mw"
        else:
            stem = f"race_val_{stem}_cap"
        return self.data / "lic-release" / folder / f"{stem}_entries.pkl"

    def found(self) -> dict[str, Path]:
        """Captioner -> file, of all captions in a folder that is not laid out by recipes.

        Raises:
            JudgeError: no human captions, or no captions of a captioner.
        """
        see = "see scripts/papers/README.md for what it holds"
        if not (self.data / "captions_human.json").is_file():
            raise JudgeError("no such file", where=str(self.data / "captions_human.json"), mend=see)
        names = {stem: name for name, stem in STEMS.items()}
        folders = [folder for folder in (self.data / "captions", self.data / "results") if folder.is_dir()]
        files = {names.get(path.stem, path.stem): path for of in folders for path in sorted(of.glob("*.json"))}
        if not files:
            raise JudgeError("no captions of a captioner there", where=str(self.data / "captions"), mend=see)
        return files

    def inputs(self, names: Sequence[str], attribute: str = "gender", *, three: bool = False) -> dict[str, Any]:
        """Settings that name both sides' captions and the labels, of ``three`` classes of skin tone or of two."""
        skin: dict[str, Any] = {"attribute": "skin", "lexicon": "none"} if attribute == "skin" else {}
        human = self.human(attribute, three=three)
        if three and self.is_paper:
            labels = self.data / "coco-gender-skin" / "images_val2014.csv"
            skin["label_values"] = {"Unsure": ("Unsure",)}
        else:
            labels = human if self.is_paper else self.data / "gender.csv"
        if skin and not self.is_paper:  # What ships with the tests has no skin tone: the classes of gender stand in.
            skin["label_column"] = "gender"
        return {"human": human, "captions": self.captions(names, attribute, three=three), "labels": labels, **skin}

    def pictures(self) -> dict[str, Any]:
        """Settings that name pictures and who is on them."""
        if not self.is_paper:
            return {"images": self.data / "images", "instances": self.data / "instances.json"}
        coco = self.data / "coco-captions"
        return {"images": coco / "val2014", "instances": coco / "annotations" / "instances_val2014.json"}

    def objects(self) -> Path:
        """Objects in each image."""
        found: Path = self.pictures()["instances"]
        return self.data / "objects.json" if self.size == "shared" else found

    # ---- Who judges

    def stand_ins(self, judges: Sequence[str]) -> dict[str, str]:
        """Judge -> the one that is asked in its place: of shared runs linear for all that reads captions."""
        if self.is_paper:
            return {}
        seeing = {judge: "sat" for judge in judges if judge == "grit" and self.size == "small"}
        quick = {"sat", "grit"} | (_QUICK if self.size == "small" else set())
        return seeing | {judge: "linear" for judge in judges if judge not in quick}

    def judging(self, judges: Sequence[str]) -> dict[str, Any]:
        """Settings that say who judges, how often and for how long."""
        asked = tuple(dict.fromkeys(self.stand_ins(judges).get(judge, judge) for judge in judges))
        found = {"judge": asked, **_SIZES[self.size]}
        if self.size == "small" and {"sat", "grit"} & {*judges}:
            found |= {"backbone": "resnet18", "backbone_weights": "random", "image_size": 64}
            found |= {"features": self.out / "features"}
        return found

    def aligning(self, how: str = "contextual") -> dict[str, Any]:
        """Settings of alignment; runs that are not the paper's learn vectors from the human captions themselves."""
        if how != "contextual":
            return {"alignment": how}
        paper = {"vectors": str(self.data / "vectors" / "glove.txt"), "delta": 0.4}
        return {"alignment": how, **(paper if self.is_paper else {"vectors": "corpus"})}


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

    def words(self) -> list[str]:
        """The command as a shell splits it."""
        options = [word for name, value in self.settings.items() for word in _option(self.kind, name, value)]
        return [*self.kind.command.split(), *options]

    def line(self) -> str:
        """The command for a shell, an option a line."""
        lines = [" ".join(self.kind.command.split())]
        for name, value in self.settings.items():
            words = _option(self.kind, name, value)
            flag = words[0] if words else ""
            # Options that are given several times have a line each.
            ends = [place for place, word in enumerate(words) if word == flag] + [len(words)]
            lines += [shlex.join(words[start:end]) for start, end in pairwise(ends)]
        return " \\\n    ".join(lines)

    def run(self, progress: Progress | None = None, *, overwrite: bool = False, report: bool = True) -> Any:
        """What the command's function gives; its files lie in its ``out``, but for a run without a ``report``."""
        settings = {**self.settings, **({"overwrite": True} if overwrite else {})}
        if self.kind is RunConfig and not report:
            settings["out"] = None
        config = make_config(settings, self.kind, where=self.kind.command)
        return _body(self.kind)(config, progress=progress)


def _option(kind: type[Settings], name: str, value: Any) -> list[str]:
    """An option and its value, as often as it is given."""
    flag, repeated = flag_of(kind, name), bool(shown(kind, name)["repeated"])
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    if isinstance(value, Mapping):
        pairs = [(key, text) for key, of in value.items() for text in (of if isinstance(of, tuple) else (of,))]
        return [word for key, text in pairs for word in (flag, f"{key}={text}")]
    if isinstance(value, tuple | list):
        texts = list(map(str, value)) if repeated else [",".join(map(str, value))]
        return [word for text in texts for word in (flag, text)]
    return [flag, str(value)]


def _body(kind: type[Settings]) -> Callable[..., Any]:
    """The function behind a command."""
    module, function = _BODIES[kind.__name__]
    body: Callable[..., Any] = getattr(import_module(f"judge.commands.{module}"), function)
    return body


_BODIES = {
    "RunConfig": ("evaluate", "run"),
    "AblateMasksConfig": ("ablate", "ablate_masks"),
    "AblateDetectorsConfig": ("ablate", "ablate_detectors"),
    "AlignConfig": ("align", "align_captions"),
    "AnonymousConfig": ("anonymous", "measure_anonymous"),
    "AttributeConfig": ("attribute", "attribute"),
    "CaptionConfig": ("caption", "caption"),
    "MaskConfig": ("mask", "mask"),
}


def run_steps(
    steps: Sequence[Step], progress: Progress | None = None, *, overwrite: bool = False, report: bool = True
) -> dict[str, Any]:
    """Name -> what each command gave, one after another."""
    results: dict[str, Any] = {}
    for step in steps:
        Path(step.settings["out"]).parent.mkdir(parents=True, exist_ok=True)
        results[step.name] = step.run(progress, overwrite=overwrite, report=report)
    return results
