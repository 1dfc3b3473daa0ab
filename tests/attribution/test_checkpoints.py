"""Maps of ``hf:`` judges and of captioners' own words, for every family; Grad-CAM against gradients by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from captioners import FAMILIES, IDS, SAMPLES, Checkpoints, Pictures, load
from helpers import GENDER, fault_of

from judge.attribution.captioner_views import ExplainedCaptioner, first_word
from judge.attribution.judge_views import AnswerViews
from judge.attribution.maps import BY_GRADIENTS, attribute, grad_cam
from judge.judges.hf_models import load_captioner
from judge.masking.instances import Pixels
from judge.text.lexicon import Lexicon, load_lexicon

pytestmark = pytest.mark.usefixtures("one_thread")
MAPPED = sorted(FAMILIES.keys() - {"mllama", "pix2struct"})
CPU = torch.device("cpu")
SAMPLE = SAMPLES[0]
# Rows and columns of the grid, for an image of 40 x 56 pixels.
GRIDS = {"qwen2_vl": (3, 4), "qwen2_5_vl": (3, 4), "florence2": (4, 4)}


def picture() -> Pixels:
    return np.asarray(Pictures().read(SAMPLE.image_id))


@pytest.mark.parametrize("family", MAPPED)
def test_maps_of_every_family(family: str, checkpoint: Checkpoints) -> None:
    """The judge's own answer is explained; maps have the image's size, and depend on the seed."""
    network = load(checkpoint(family))
    with torch.no_grad():
        first, second = network(network.collate([SAMPLE]))[0].tolist()
    views = AnswerViews(network, GENDER, CPU, "here")
    pixels = picture()
    view = views.view(SAMPLE, pixels)
    with torch.no_grad():
        copies = view.scores(view.model_input.expand(3, *view.model_input.shape[1:]))
    assert copies.numpy() == pytest.approx(np.array([[first - second, second - first]] * 3), abs=1e-4)
    assert grad_cam(view, 0).shape == GRIDS.get(family, (2, 2))
    for method in BY_GRADIENTS:
        mass, again, other = (attribute(method, view, pixels, 0, samples=2, seed=seed) for seed in (1, 1, 2))
        assert mass.shape == (40, 56)
        assert (mass >= 0).all()
        # Evidence for one of two classes is evidence against the other.
        assert mass.any() or attribute(method, view, pixels, 1, samples=2, seed=1).any()
        assert np.array_equal(mass, again)
        assert np.array_equal(mass, other) == (method == "grad-cam")


@pytest.mark.parametrize("family", ["blip", "llava", "qwen2_5_vl"])
def test_grad_cam_is_the_formula(family: str, checkpoint: Checkpoints) -> None:
    """Sum over channels of mean gradient times value, by torch alone; [CLS] apart; LLaVA's layer, Qwen's windows."""
    network = load(checkpoint(family))
    view = AnswerViews(network, GENDER, CPU, "here").view(SAMPLE, picture())
    kept: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> Any:
        name = "pooler_output" if family.startswith("qwen") else "last_hidden_state"
        if family == "llava":
            kept.append(output.hidden_states[-1].requires_grad_())
        else:
            kept.append(output[name].requires_grad_())
        return output

    network.captioner.vision.register_forward_hook(keep)
    scores = network(network.collate([SAMPLE]))[0]
    (gradient,) = torch.autograd.grad(scores[0] - scores[1], kept[0])
    values = [one.detach().reshape(-1, one.shape[-1]).numpy() for one in (kept[0], gradient)]
    if not family.startswith("qwen"):
        values = [one[1:] for one in values]
    tokens, slopes = values
    by_hand = np.maximum(0, [sum(slopes.mean(axis=0) * token) for token in tokens])
    assert by_hand.max() > 0
    assert grad_cam(view, 0).ravel() == pytest.approx(by_hand, rel=1e-3, abs=1e-4)


def test_qwens_patches_are_put_in_order(checkpoint: Checkpoints) -> None:
    """A dark spot on a bright image is found at its position."""
    views = AnswerViews(load(checkpoint("qwen2_vl")), GENDER, CPU, "here")
    pixels = np.full((48, 64, 3), 255, dtype=np.uint8)
    view = views.view(SAMPLE, pixels)
    spotted = pixels.copy()
    spotted[30:36, 10:16] = 0
    change = view.raster((view.show(pixels) - view.show(spotted))[0])
    mass = view.placement.spread(change.clip(min=0))
    rows, columns = np.nonzero(mass > 0.3 * mass.max())
    assert (rows.mean(), columns.mean()) == (pytest.approx(32.5, abs=1), pytest.approx(12.5, abs=1))


@pytest.mark.parametrize(("family", "reason"), [
    ("mllama", "its processor turns an image into (1, 1, 2, 3, 32, 32), which has no map yet"),
    ("pix2struct", "its processor makes no pixels of an image, but patches"),
])  # fmt: skip
def test_families_without_maps_are_refused(family: str, reason: str, checkpoint: Checkpoints) -> None:
    """One makes several crops of an image."""
    network = load(checkpoint(family))
    line = fault_of(AnswerViews(network, GENDER, CPU, "--judge hf:x").view, SAMPLE, picture())
    assert line.startswith(f"--judge hf:x: maps of a '{family}' model cannot be made: {reason}")


@pytest.mark.parametrize("family", MAPPED)
def test_the_explained_word_is_the_most_probable_one(family: str, checkpoint: Checkpoints) -> None:
    """Captions are greedy: the explained token is the most probable one after the previous ones."""
    captioner = load_captioner(str(checkpoint(family)), where="--model x")
    pixels = picture()
    lexicon = Lexicon("gender", "<gender>", {word: frozenset({word}) for word in IDS if word.isalpha()})
    known = ExplainedCaptioner(captioner, lexicon, CPU, "--model x")
    word = known.write(pixels)
    if word is None:
        pytest.skip("its captions have no word")
    assert captioner.tokenizer.decode([word.token]).strip() == word.word
    view = known.view(pixels, word.before, word.token)
    with torch.no_grad():
        own = float(view.scores(view.model_input)[0, 0])
        # Some of the others; special tokens are left out.
        tokens = [token for token in range(4, len(IDS), 5) if token != word.token]
        others = [float(known.view(pixels, word.before, token).scores(view.model_input)[0, 0]) for token in tokens]
    assert max(others) <= own + 1e-4
    assert 0 < float(np.exp([own, *others]).sum()) <= 1 + 1e-4
    for method in BY_GRADIENTS:
        assert attribute(method, view, pixels, 0, samples=2).shape == (40, 56)


def test_positions_of_words() -> None:
    lexicon = load_lexicon("gender")
    assert first_word("A MAN's dog, and a Woman.", lexicon) == (19, "woman", "female")
    assert first_word("two dogs", lexicon) is None
    assert first_word("the caf\u00e9 man", lexicon) == (9, "man", "male")
