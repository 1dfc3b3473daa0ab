"""Changes of another form, of ``scripts/trust_changes.py``: what they change, and what they leave alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import known

from judge.calibration import doses
from judge.calibration.doses import DoseSource, inject
from judge.calibration.grammar import make_world
from judge.calibration.world import TASKS
from judge.text.lexicon import Lexicon, load_lexicon, mask
from judge.text.tokens import tokenize
from judge.types import Captions

GENDER, COCO = load_lexicon("gender"), load_lexicon("coco-objects")
OBJECTS = replace(COCO, classes={task: COCO.classes[task] for task in TASKS})


@pytest.fixture(scope="module")
def source() -> DoseSource:
    world = make_world(900, seed=5)
    return DoseSource(world.human, world.labels, GENDER, OBJECTS)


@pytest.fixture(scope="module")
def form() -> Iterator[Any]:
    """The script as a module, which adds changes."""
    path = Path(__file__).parents[2] / "scripts" / "trust_changes.py"
    spec = known(util.spec_from_file_location(path.stem, path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doses, "CHANGES", dict(doses.CHANGES))
        known(spec.loader).exec_module(module := util.module_from_spec(spec))
        yield module


def named(captions: Captions, lexicon: Lexicon) -> dict[str, list[frozenset[str]]]:
    return {image: [lexicon.mentions(tokenize(text)) for text in of] for image, of in captions.by_image.items()}


def test_repetition_makes_twins_and_keeps_the_words_for_people(source: DoseSource, form: Any) -> None:
    """A changed caption is a prototype with its own mentions; the share of twins grows with the dose."""
    plain = {mask(words, GENDER) for of in source.captions.values() for words in of}
    few = replace(source.human, by_image=dict([*source.human.by_image.items()][:300]))
    shares = []
    for dose in (0.0, 0.4, 0.8):
        changed = inject(few, source, "repetition", dose, seed=4)
        captions = [tokenize(text) for of in changed.by_image.values() for text in of]
        before = [words for image in changed.by_image for words in source.captions[image]]
        assert [form.mentions(source, words) for words in captions] == [
            form.mentions(source, words) for words in before
        ]
        assert plain.issuperset(mask(words, GENDER) for words in captions)
        counts = Counter(mask(words, GENDER) for words in captions)
        shares.append(sum(count for count in counts.values() if count > 1) / len(captions))
    assert sorted(shares) == shares
    assert shares[2] - shares[0] > 0.01
    assert sum(len(of) for of, _ in form.prototypes(source).values()) <= form.PROTOTYPES


def test_verbosity_and_paraphrase_name_what_the_caption_named(source: DoseSource, form: Any) -> None:
    for change in ("verbosity", "paraphrase"):
        changed = inject(source.human, source, change, 1.0, seed=4)
        assert named(changed, GENDER) == named(source.human, GENDER)
        assert named(changed, OBJECTS) == named(source.human, OBJECTS)
        assert {image: len(of) for image, of in changed.by_image.items()} == {
            image: len(of) for image, of in source.human.by_image.items()
        }
        assert np.mean([changed.by_image[image] != of for image, of in source.human.by_image.items()]) > 0.9
    for image, texts in inject(source.human, source, "verbosity", 1.0, seed=4).by_image.items():
        for before, after in zip(source.human.by_image[image], texts, strict=True):
            assert after.startswith(" ".join(tokenize(before)))
            assert after.count(".") - before.count(".") == 3 + (before[-1] != ".")
    one, other = (form.synonyms(source)[word] for word in ("photo", "picture"))
    assert "picture" in one
    assert "photo" in other


@pytest.mark.parametrize("change", ["repetition", "verbosity", "paraphrase"])
@pytest.mark.usefixtures("form")
def test_labels_are_not_read_and_doses_are_nested(source: DoseSource, change: str) -> None:
    """With every label exchanged, captions change as before; what changes at a low dose changes at a high one."""
    other = {"female": "male", "male": "female"}
    labels = replace(source.labels, by_image={image: other[name] for image, name in source.labels.by_image.items()})
    few = replace(source.human, by_image=dict(list(source.human.by_image.items())[:150]))
    one, two = (inject(few, of, change, 0.7, seed=5).by_image for of in (source, replace(source, labels=labels)))
    assert one == two != few.by_image
    low = inject(few, source, change, 0.3, seed=5).by_image
    assert inject(few, source, change, 0.0, seed=5).by_image == few.by_image
    for image, texts in few.by_image.items():
        for before, at_low, at_high in zip(texts, low[image], one[image], strict=True):
            assert at_low == before or at_high != before
            assert change == "paraphrase" or at_low in {before, at_high}  # Of a paraphrase a dose is of words.
