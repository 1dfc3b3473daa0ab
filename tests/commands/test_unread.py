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
from judge.judges import Materials, find_judge
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


def test_settings_that_reach_no_judge() -> None:
    """Each reaches some judge; what is as it is by default, and what another judge of the run reads, is none."""
    assert [name for name in OF_SOME if not readers(name)] == []
    given = {"human": "a.json", "captions": ["b.json"], "epochs": 3, "reader": "r", "backbone_weights": "pretrained"}

    def told(**more: object) -> list[str]:
        return list(unread(make_config(given | more, RunConfig)))

    assert [line.split(" not used by ")[0] for line in told()] == ["--reader is", "--epochs is"]
    assert told(judge="linear,bert-ft") == []
    asked = told(judge="sat", metrics="imagecaptioner2", answers={"female": "woman"}, reader=None, backbone_weights="x")
    assert asked[0] == "--answer is not used by sat, but by hf:NAME"
    assert told(judge="lstm") == ["--reader is not used by lstm, but by bert-ft, bert-pre, vl-lic"]
    assert told(metrics="vl-lic", judge="self", reader=None, tuning="lora") == []
    assert told(judge="lstm", metrics="error", reader=None, epochs=None) == [
        "--judge is not used by error, but by metrics that ask a judge"
    ]


def test_settings_that_only_a_part_of_the_work_reads() -> None:
    """Of alignment, priors, words that BA counts, images and folds: told where that part is not there, else not."""
    sight = {"detector": "yolo", "weights": {"yolo": "w.pt"}, "mask": "box"}
    given: dict[str, object] = {"human": "a.json", "captions": ["b.json"], "vectors": "v.txt", "prior": "product"}

    def told(**more: object) -> list[str]:
        return list(unread(make_config(given | more, RunConfig)))

    assert told(metrics="lic", folds=3, features="f", **sight) == [
        "--features is not used by lic, but by judges of images",
        "--vectors is not used by lic, but by contextual alignment",
        "--prior is not used by lic, but by dbac and dpac",
        "--weights --detector --mask are not used by lic, but by a run with --images",
    ]
    assert told(metrics="lic,dbac", alignment="contextual", images="pictures", **sight) == []
    assert told(metrics="dpac,imagecaptioner2", judge="sat", features="f", vocabulary=9) == [
        "--vocabulary is not used by dpac, imagecaptioner2, but by ba"
    ]
    assert told(metrics="ba,lic", vocabulary=9, protocol="paper", folds=3, vectors="corpus", prior="joint") == [
        "--folds is not used by ba, lic, but by judges of protocol crossfit"
    ]
    counted = told(metrics="error", seeds=2, folds=3, checkpoints="c", delta=0.5)
    assert [line.split(" not used by ")[0] for line in counted] == [
        "--seeds --checkpoints are", "--folds is", "--vectors --delta are", "--prior is",
    ]  # fmt: skip
