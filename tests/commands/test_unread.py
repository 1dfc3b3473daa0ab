"""Settings of judges that none of a run's judges reads."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from helpers import GENDER, make_glimpses, make_samples, save_captioner
from tiny_bert import save_bert

from judge.commands.evaluate import RunConfig
from judge.commands.unread import OF_SOME, readers, unread
from judge.config import make_config
from judge.judges import Materials
from judge.judges.names import find_judge
from judge.judges.prompts import Prompt

# How settings of a run are called among the materials of judges.
CALLED = {"answering": {"answer_softmax"}, "attention": {"attn_implementation"}}


class Watched:
    """Notes what is read of it."""

    __slots__ = ()
    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> object:
        Watched.read.add(name)
        return super().__getattribute__(name)


class WatchedMaterials(Watched, Materials):
    __slots__ = ()


class WatchedPrompt(Watched, Prompt):
    __slots__ = ()


@pytest.mark.parametrize("name", ["sat", "grit", "vl-lic-lstm", "vl-lic", "bert-ft", "lstm", "hf"])
def test_what_a_judge_says_it_reads_is_what_it_reads(name: str, tmp_path: Path) -> None:
    samples = make_samples(4)
    blueprint = find_judge(f"hf:{save_captioner(tmp_path / 'git')}" if name == "hf" else name)
    features = make_glimpses(samples, regions=3 if blueprint.regions else 0)
    reader = str(save_bert(tmp_path / "bert")) if "reader" in blueprint.reads else None
    features = None if name in {"hf", "bert-ft", "lstm"} else features
    prompt = WatchedPrompt("The gender is [Answer]", {"female": "female"})
    materials = WatchedMaterials(features=features, reader=reader, prompt=prompt)
    Watched.read.clear()
    assert blueprint.network
    blueprint.network(GENDER, samples, materials)
    known = {part for kept in Watched.read for part in CALLED.get(kept, {kept})}
    assert known & {*OF_SOME} == blueprint.reads
    assert all(map(readers, OF_SOME))


GIVEN: dict[str, object] = {"human": "a.json", "captions": ["b.json"]}
SEEN = {"detector": "yolo", "weights": {"yolo": "w.pt"}, "mask": "box"}
TRAINED = {"epochs": 3, "reader": "r"}
BY_READERS = "--reader is not used by lstm, but by bert-ft, bert-pre, vl-lic"


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        (TRAINED | {"judge": "linear,bert-ft"}, []),
        (TRAINED | {"judge": "lstm"}, [BY_READERS]),
        ({"judge": "sat", "metrics": "imagecaptioner2", "answers": {"female": "woman"}}, []),
        ({"metrics": "vl-lic", "answers": {"female": "woman"}},
         ["--answer is not used by words+embedding+image, but by sat, sat-512, grit, hf:NAME"]),
        ({"judge": "self", "metrics": "vl-lic", "tuning": "lora"}, []),
        ({"judge": "lstm", "metrics": "error"}, ["--judge is not used by error, but by metrics that ask a judge"]),
        # Settings that a part of the work reads: images, alignment, folds, words that BA counts.
        (SEEN | {"metrics": "lic", "cache": "f", "vectors": "v.txt"},
         ["--cache is not used by lic, but by judges and detectors of images",
          "--vectors is not used by lic, but by contextual alignment",
          "--weights, --detector, --mask are not used by lic, but by a run with --images"]),
        (SEEN | {"metrics": "dbac", "alignment": "contextual", "images": "i", "vectors": "v"}, []),
        ({"metrics": "dpac", "vocabulary": 9}, ["--ba vocabulary is not used by dpac, but by ba"]),
        ({"metrics": "ba,lic", "protocol": "paper", "folds": 3},
         ["--folds is not used by ba, lic, but by judges of protocol crossfit"]),
        ({"metrics": "lic", "quality_scores": {"mine": "clip.json"}, "columns": {"labels.scene": "scene"}},
         ["--quality-scores is not used by lic, but by --quality",
          "--column labels.scene is not used by lic, but by labels of a file"]),
        ({"metrics": "lic", "labels": "people.csv", "columns": {"labels.scene": "scene"}}, []),
        ({"metrics": "conditional", "chance": 3},
         ["--chance is not used by conditional, but by judges that are trained on shuffled labels"]),
        ({"metrics": "ratio", "small": 0.3, "columns": {"labels.gender": "class", "objects.object": "thing"}},
         ["--small is not used by ratio, but by conditional",
          "--column labels.gender is not used by ratio, but by labels of a file",
          "--column objects.object is not used by ratio, but by --objects"]),
        ({"metrics": "conditional", "quick": True}, []),
        ({"metrics": "conditional,imagecaptioner2", "given": "image", "image_features": "f.npz", "backbone": "hf:x"},
         ["--backbone is not used by conditional:image, imagecaptioner2, but by judges without --image-features"]),
        ({"judge": "linear+image,sat", "metrics": "imagecaptioner2", "image_features": "f.npz", "images": "i",
          "backbone": "resnet18"}, []),
        ({"models": {"mine": "m"}, "images": "i", "precision": "bf16"}, []),
    ],
)  # fmt: skip
def test_settings_that_nothing_reads(settings: dict[str, object], lines: list[str]) -> None:
    """What is as it is by default, and what another judge of the run reads, is none of them."""
    assert list(unread(make_config(GIVEN | settings, RunConfig))) == lines
