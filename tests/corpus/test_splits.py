"""No image in training and test, ever; balance; determinism."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.corpus.splits import make_splits

classes = st.lists(st.integers(10, 60), min_size=2, max_size=4).map(
    lambda sizes: {f"{k}-{i}": f"class{k}" for k, size in enumerate(sizes) for i in range(size)}
)


@given(classes, st.integers(0, 1000), st.sampled_from(["paper", "crossfit"]))
@settings(max_examples=60, deadline=None)
def test_no_image_is_on_both_sides_and_weights_balance(images: dict[str, str], seed: int, protocol: str) -> None:
    splits = make_splits(protocol, images, seed=seed)
    for split in splits:
        parts = [set(split.train), set(split.test), set(split.validation)]
        assert sum(map(len, parts)) == len(set.union(*parts))
        assert set.union(*parts) <= images.keys()
        assert {images[image] for image in split.test} == set(images.values())
        counts = Counter(images[image] for image in split.train)
        weights = {name: counts[name] * split.weights[name] for name in counts}
        assert sum(weights.values()) == pytest.approx(len(split.train))
        assert max(weights.values()) == pytest.approx(min(weights.values()))
    if protocol == "crossfit":
        assert Counter(image for split in splits for image in split.test) == Counter(dict.fromkeys(images, 1))


@given(classes, st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_imagecaptioner2_learns_from_70_chooses_by_10_scores_20_percent(images: dict[str, str], seed: int) -> None:
    (split,) = make_splits("paper", images, seed=seed, holdout=(0.2, 0.1))
    smallest = min(Counter(images.values()).values())
    scored, chosen = max(1, round(0.2 * smallest)), round(0.1 * smallest)
    for part, size in ((split.test, scored), (split.validation, chosen), (split.train, smallest - scored - chosen)):
        assert Counter(images[image] for image in part) == Counter(dict.fromkeys(images.values(), size))
    assert len({*split.train, *split.validation, *split.test}) == smallest * len(set(images.values()))


@given(classes, st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_folds_leave_an_eighth_of_what_is_not_scored_to_choose(images: dict[str, str], seed: int) -> None:
    """10 of the 80 percent that the paper does not score; every class among them, none of it learnt from."""
    splits = make_splits("crossfit", images, seed=seed, folds=5, holdout=(0.2, 0.1))
    for split in splits:
        learnt, chosen, scored = set(split.train), set(split.validation), set(split.test)
        assert (learnt | chosen | scored) == images.keys()
        assert len(learnt) + len(chosen) + len(scored) == len(images)
        assert len(chosen) == pytest.approx((len(images) - len(scored)) / 8, abs=max(1, len(set(images.values()))))
        assert {images[image] for image in chosen} == set(images.values())
    assert Counter(image for split in splits for image in split.test) == Counter(dict.fromkeys(images, 1))
    assert make_splits("crossfit", dict(reversed(images.items())), seed=seed, folds=5, holdout=(0.2, 0.1)) == splits
    # Folds choose apart from each other (of few images two may agree by chance), and a metric without validation learns
    # from all.
    assert len({split.validation for split in splits}) == len(splits) or min(Counter(images.values()).values()) < 40
    assert not any(split.validation for split in make_splits("crossfit", images, seed=seed, folds=5))
