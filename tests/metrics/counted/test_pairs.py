"""BA, DBA and Multi-> by hand and against the oracle; invariants and resamples of these and of DPA."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge import ba_mals, dba, dpa, multi
from judge.metrics.counted.contingency import ContingencyTable, added, contingency, holding, label_sets
from judge.metrics.counted.dpa import Dpa
from judge.metrics.counted.multi import Multi
from judge.metrics.counted.pairs import Ba, Dba, variance
from judge.metrics.counted.spec import Amplification, CountedMetric
from judge.types import Direction

# 5 of class 0, 3 of class 1. One of the five has the label, two of the three. The model gives it to all of class 1 and
# to none of class 0.
CLASSES = np.array([1, 1, 1, 0, 0, 0, 0, 0])
HELD = np.array([0, 1, 1, 0, 0, 0, 0, 1])[:, None]
TOLD = np.array([1, 1, 1, 0, 0, 0, 0, 0])[:, None]


def test_dba_of_its_authors_metric_card() -> None:
    """The example on the card of angelina-wang/directional_bias_amplification: 0.2667 of [[0.2], [0.3333]]."""
    found = dba(CLASSES, HELD, TOLD)
    assert found.value == pytest.approx(0.2667, abs=5e-5)
    assert found.pairs == pytest.approx(np.array([[0.2], [0.3333]]), abs=5e-5)
    # T->A: of 3 with the label 2 are of class 1, told 3 of 3. P(1, l) = 2/8 > 3/8 * 3/8: both are amplified by 1/3.
    told = np.array([1, 1, 1, 0, 0, 0, 0, 1])
    found = dba(CLASSES, HELD, None, told, "T->A")
    assert found.pairs == pytest.approx(np.full((2, 1), 1 / 3))
    assert found.value == pytest.approx(1 / 3)
    assert dba(CLASSES, HELD, None, told).value == 0  # The other direction does not look at classes told.


def test_ba_by_hand() -> None:
    """b(1, l) = 2/3 > 1/2, told 3/3: +1/3 for one label.

    Three classes, b = (1/2, 1/4, 1/4): only the first is more than 1/3, and it rises to 3/4.
    """
    assert ba_mals(CLASSES, HELD, TOLD).value == pytest.approx(1 / 3)
    assert ba_mals(CLASSES, HELD, TOLD).pairs == pytest.approx(np.array([[0], [1 / 3]]))
    held, told, one = np.array([0, 0, 1, 2]), np.array([0, 0, 0, 2]), np.zeros(4, dtype=int)
    assert ba_mals(held, one, one, told).value == pytest.approx(1 / 4)


def test_sets_of_training_samples() -> None:
    """Only sets that both have; y from the training samples, where the label goes with the other class."""
    classes, held, told = [0, 0, 1, 1], [[1, 0], [0, 0], [0, 0], [0, 0]], [[1, 0], [1, 0], [0, 0], [0, 0]]
    train = [0, 1, 1], [[0, 1], [1, 1], [1, 0]]
    found = multi(classes, held, told, train=train)
    assert found.sets == ((0,),)
    assert found.pairs == pytest.approx(np.array([[-1 / 2], [0]]))
    assert dba(classes, held, told, train=train).pairs[:, 0] == pytest.approx(np.array([-1 / 2, 0]))
    assert dba(classes, held, told).pairs[:, 0] == pytest.approx(np.array([1 / 2, 0]))


def test_ties() -> None:
    """The label with half of each class: y = 0 by the paper, so that a rise counts for the model; or not at all."""
    classes, held, told = [0, 0, 1, 1], [[1], [0], [1], [0]], [[1], [1], [1], [0]]
    assert dba(classes, held, told).pairs == pytest.approx(np.array([[-1 / 2], [0]]))
    assert dba(classes, held, told, variant=Dba(tie="zero")).value == 0
    # Thirds: in floating point 1/3 * 1/3 is not 1/9, but the counts are equal.
    classes, held = [0, 0, 0, 1, 1, 1, 2, 2, 2], np.eye(3, dtype=int)[[0, 1, 2] * 3]
    told = np.eye(3, dtype=int)[[0, 0, 0, 1, 1, 1, 2, 2, 2]]
    assert (dba(classes, held, told, variant=Dba(tie="zero")).pairs == 0).all()


def test_samples_without_a_class_or_a_label_count() -> None:
    """P(a)P(l) = 1/2 * 3/4 > 1/4 over four samples; with four blank ones more 1/4 * 3/8 < 1/8, so the sign turns."""
    classes, held, told = [[1, 0], [1, 0], [0, 1], [0, 1]], [[1], [0], [1], [1]], [[1]] * 4
    assert dba(classes, held, told).pairs[0, 0] == -0.5
    assert dba(classes + [[0, 0]] * 4, held + [[0]] * 4, told + [[0]] * 4).pairs[0, 0] == 0.5


def test_what_nobody_has_is_left_out_and_counted() -> None:
    """Class 2 has no sample, label 1 neither: undefined where they are the condition."""
    classes, held, told = np.eye(3)[[0, 0, 1, 1]], np.eye(2)[[0, 0, 0, 0]], np.eye(2)[[0, 0, 0, 1]]
    of_class = dba(classes, held, told)
    assert np.isnan(of_class.pairs).tolist() == [[False, False], [False, False], [True, True]]
    # y = 0 in the ties: class 1 loses half of label 0 (+1/2), gains half of label 1 (-1/2).
    assert of_class.value == 0
    told_classes = np.eye(3)[[0, 0, 1, 0]]
    of_label = dba(classes, held, None, told_classes, "T->A")
    assert np.isnan(of_label.pairs).tolist() == [[False, True]] * 3
    # Ties too: class 0 rises by 1/4, class 1 falls by 1/4, class 2 stays: three pairs, mean 0.
    assert of_label.pairs[:, 0].tolist() == [-0.25, 0.25, 0]
    assert of_label.value == 0
    # Both sides told: 0 of label 1 in the truth leaves it out.
    classes, told_classes = np.eye(3)[[0, 0, 0, 1]], np.eye(3)[[0, 0, 0, 0]]
    assert ba_mals(classes, held, None, told_classes).value == pytest.approx(1 / 4)
    blank = np.zeros((4, 2))
    nobody = dba(classes, blank, None, told_classes, "T->A")
    assert math.isnan(nobody.value)
    assert np.isnan(nobody.pairs).sum() == 6
    assert np.isnan([multi(classes, blank).value, multi(classes, blank).variance]).all()


Rows = list[list[bool]]
World = tuple[Rows, Rows, Rows, Rows]


@st.composite
def worlds(draw: st.DrawFn, *, one_class: bool = False) -> World:
    """Truth and predictions of several classes and labels at once; there may be some that nobody has."""
    classes, labels, number = draw(st.integers(2, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 12))
    single = one_class or draw(st.booleans())

    def rows(width: int, *, one: bool) -> Rows:
        if one:
            return [[draw_ == column for column in range(width)] for draw_ in draw(lists(st.integers(0, width - 1)))]
        return draw(lists(st.lists(st.booleans(), min_size=width, max_size=width)))

    def lists(of: st.SearchStrategy) -> st.SearchStrategy:
        return st.lists(of, min_size=number, max_size=number)

    return rows(classes, one=single), rows(labels, one=False), rows(labels, one=False), rows(classes, one=single)


def table(classes: Rows, labels: Rows) -> oracle.Table:
    return [(Fraction(1), str(own.index(True)), frozenset(str(k) for k, held in enumerate(row) if held))
            for own, row in zip(classes, labels, strict=True)]  # fmt: skip


@given(worlds(one_class=True))
def test_against_the_oracle(world: World) -> None:
    """BA, DBA, Multi-> and DPA, of samples of one class and any labels."""
    a, t, t_hat, a_hat = world
    classes, labels = [str(k) for k in range(len(a[0]))], [str(k) for k in range(len(t[0]))]
    truth = table(a, t)
    directions: dict[Direction, oracle.Table] = {"A->T": table(a, t_hat), "T->A": table(a_hat, t)}
    for direction, told in directions.items():
        wanted = {
            dba: oracle.dba(truth, told, classes, labels, direction=direction),
            multi: oracle.multi(truth, told, classes, direction=direction),
        }
        if len(labels) > 1:  # Among one label there is nothing to guess.
            wanted[dpa] = oracle.dpa(truth, told, classes, labels, direction=direction)
        for metric, value in wanted.items():
            expected = math.nan if value is None else value
            assert metric(*world, direction).value == pytest.approx(expected, abs=1e-12, nan_ok=True)
    value = oracle.ba(truth, table(a_hat, t_hat), classes, labels)
    assert ba_mals(*world).value == pytest.approx(math.nan if value is None else value, abs=1e-12, nan_ok=True)


FUNCTIONS: dict[type[CountedMetric], Callable[..., Amplification]] = {Ba: ba_mals, Dba: dba, Multi: multi, Dpa: dpa}
DPA: dict[str, CountedMetric] = {
    f"DPA {direction}, {unit}, {score}": Dpa(direction=direction, unit=unit, score=score)  # type: ignore[arg-type]
    for direction in ("A->T", "T->A")
    for unit in ("mention", "label")
    for score in ("accuracy", "balanced")
}
METRICS: dict[str, CountedMetric] = {"BA": Ba(), "DBA A->T": Dba(), "DBA T->A": Dba(direction="T->A"), **DPA}
METRICS |= {"Multi A->T": Multi(), "Multi T->A": Multi(direction="T->A")}


def value_of(name: str, *given: object) -> float:
    metric = METRICS[name]
    how = {"direction": metric.direction, "variant": metric} if metric.direction else {}
    found = FUNCTIONS[type(metric)](*given, **how).value
    assert isinstance(found, float)
    return found


@pytest.mark.slow
@settings(max_examples=25)
@given(world=worlds(), seed=st.integers(0, 9))
def test_invariants(world: World, seed: int) -> None:
    """The order of samples, classes and labels, and their repetition, change nothing; nor does a label nobody has."""
    a, t, t_hat, a_hat = sides = [np.array(part) for part in world]
    generator = np.random.default_rng(seed)
    rows, classes, labels = (generator.permutation(size) for size in (len(a), a.shape[1], t.shape[1]))
    moved = a[rows][:, classes], t[rows][:, labels], t_hat[rows][:, labels], a_hat[rows][:, classes]
    twice = [np.concatenate([part, part]) for part in sides]
    for name in METRICS:
        value = value_of(name, *sides)
        assert value_of(name, *moved) == pytest.approx(value, abs=1e-12, nan_ok=True), name
        assert value_of(name, *twice) == pytest.approx(value, abs=1e-12, nan_ok=True), name
        check_sides(name, value, *sides)


def check_sides(name: str, value: float, a: np.ndarray, t: np.ndarray, t_hat: np.ndarray, a_hat: np.ndarray) -> None:
    """Equal sides, a label that nobody has, and sides that change places."""
    same = value_of(name, a, t, t, a)
    assert same == 0 or math.isnan(same)
    assert name in DPA or math.isnan(same) <= math.isnan(value)
    # There a label that nobody has is a pair that does not change, an answer beside another, or a question.
    if name != "DBA A->T" and not (name.startswith("DPA") and (t.shape[1] == 1 or "T->A" in name)):
        none = np.zeros((len(a), 1), dtype=bool)
        wider = a, np.hstack([t, none]), np.hstack([t_hat, none]), a_hat
        assert value_of(name, *wider) == pytest.approx(value, abs=1e-12, nan_ok=True)
    if name in DPA:  # Sides that change places change the sign.
        swapped = (a, t_hat, t) if "A->T" in name else (a_hat, t, t, a)
        assert value_of(name, *swapped) == pytest.approx(-value, abs=1e-12, nan_ok=True)
        assert -1 < value < 1 or math.isnan(value)


@pytest.mark.parametrize("name", ["BA", "DBA A->T", "Multi A->T", *DPA])
def test_resamples_under_what_is_frozen(name: str) -> None:
    """Weights of samples give, at once, what each resample gives by itself under the choices of the whole."""
    generator = np.random.default_rng(3)
    a, t, t_hat = generator.integers(0, 3, 40), generator.random((40, 4)) < 0.4, generator.random((40, 4)) < 0.4
    sets = label_sets(t, largest=2) if "Multi" in name else ((0,), (1,), (2,), (3,))
    classes = generator.random((40, 3)) < 0.5 if name in DPA else np.eye(3, dtype=bool)[a]
    truth, predicted = (contingency(classes, side, sets=sets) for side in (t, t_hat))
    frozen = METRICS[name].freeze(truth, predicted)
    drawn = generator.integers(0, 40, (25, 40))
    weights = np.stack([np.bincount(row, minlength=40) for row in drawn])
    sums = (added(classes, holding(side, sets)).T @ weights.T for side in (t, t_hat))
    many = frozen.compare(*(ContingencyTable.of_sums(side, (3, len(sets))) for side in sums))
    assert (many.value.shape, many.pairs.shape) == ((25,), (25, 3, len(sets)))
    for row, value, of_pairs in zip(drawn, many.value, many.pairs, strict=True):
        tables = [contingency(classes[row], side[row], sets=sets) for side in (t, t_hat)]
        one = frozen.compare(*tables)
        assert value == pytest.approx(float(one.value), abs=1e-12)
        assert of_pairs == pytest.approx(one.pairs, abs=1e-12, nan_ok=True)
        if name in DPA:  # Never more than guessers of its own would be right.
            assert one.truth <= METRICS[name].freeze(*tables).compare(*tables).truth + 1e-12
    if name in DPA:
        assert many.pairs.sum(axis=(-2, -1)) == pytest.approx(many.predicted - many.truth)
    assert variance(many.pairs).shape == (25,)
    if name in {"BA", "DBA A->T"} or "DPA A->T" in name:
        assert float(frozen.compare(truth, predicted).value) == value_of(name, classes, t, t_hat, classes)


def test_refused() -> None:
    for metric in (dba, multi, dpa):
        with pytest.raises(ValueError, match='the direction is "A->T" or "T->A", not \'a->t\''):
            metric(CLASSES, HELD, direction="a->t")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="BA needs two classes"):
        ba_mals(CLASSES[:, None], HELD, TOLD)
