"""What new captions pass through is what a run's own captions did, also after a way through JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.corpus import Corpus
from judge.evidence import Aligning, Evidence, EvidenceBuilder, Preparation, TextOptions
from judge.metrics import find_metric, spell_out
from judge.text.alignment import UNKNOWN
from judge.text.combined import multiply_lexicons
from judge.text.lexicon import Lexicons, load_lexicon
from judge.types import Captions, Side


def through_json(preparation: Preparation) -> Preparation:
    return Preparation.from_json(json.loads(json.dumps(preparation.to_json())))


@pytest.mark.parametrize("metric", ["lic", "dbac-at", "dbac-ta", "dbac:with-people", "imagecaptioner2"])
@pytest.mark.parametrize("options", [TextOptions(), TextOptions("split", "first-sentence")])
def test_makes_the_words_of_every_sample(metric: str, options: TextOptions) -> None:
    world = make_world(80, seed=3)
    # A small vocabulary: much of what people say has to be aligned.
    told = simulate(world, name="a", captioner=Captioner(stereotype=0.5, vocabulary=40))
    words = Lexicons(load_lexicon("gender"), load_lexicon("coco-objects"))
    builder = EvidenceBuilder(Corpus(world.human, (told,), world.labels), words, options=options, aligning=Aligning())
    evidence = builder.build(told, find_metric(spell_out([metric])[-1]))
    sides: dict[Side, Captions] = {"human": world.human, "generated": told}
    changed = 0
    for (side, index), slot in evidence.slots.items():
        preparation = through_json(of_side(evidence, side))
        source = sides[side]
        for sample, caption in zip(slot, slot.captions, strict=True):
            assert preparation.words(source.by_image[sample.image_id][index]) == sample.words
            changed += sample.words != caption.words
    aligned = metric != "imagecaptioner2"
    assert (changed > 0) == aligned
    human = of_side(evidence, "human")
    assert human.words("xylophones")[0] == (UNKNOWN if aligned else "xylophones")
    assert of_side(evidence, "generated").words("xylophones") == ("xylophones",)


def of_side(evidence: Evidence, side: Side) -> Preparation:
    found = evidence.preparation(side)
    assert isinstance(found, Preparation)
    return found


def test_of_several_attributes_and_of_none() -> None:
    gender, things = load_lexicon("gender"), load_lexicon("coco-objects")
    both = Preparation("gender & things", lexicon=multiply_lexicons({"gender": gender, "things": things, "none": None}))
    caption = "A woman's Hot dog, by a bike rider and a truck"
    for preparation in (
        both,
        Preparation("gender", lexicon=gender),
        Preparation("x", lexicon=things, spared=frozenset({"person"})),
        Preparation("skin"),
    ):
        again = through_json(preparation)
        assert again.words(caption) == preparation.words(caption)
        aligned = through_json(replace(again, vocabulary=frozenset({"a"}), substitutes={"by": "a"}))
        assert aligned.words("by a tree") == ("a", "a", UNKNOWN)
    assert not {"woman's", "dog", "truck"} & {*both.words(caption)}
