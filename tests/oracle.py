"""The papers' formulas as slow loops for any number of classes; nothing is imported from the package.

Counts are fractions, so that a tie is a tie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

Row = Mapping[str, object]

# Answers of judges


def mean_of_classes(rows: Sequence[Row], quantity: Callable[[Row], float]) -> float:
    """Mean over the classes of one side of the mean over images and seeds; captions of an image are averaged."""
    total = 0.0
    classes = sorted({str(row["answer"]) for row in rows})
    for name in classes:
        of_class = [row for row in rows if row["answer"] == name]
        trials = sorted({(str(row["image_id"]), int(str(row["seed"]))) for row in of_class})
        means = []
        for image, seed in trials:
            values = [quantity(row) for row in of_class if row["image_id"] == image and row["seed"] == seed]
            means.append(sum(values) / len(values))
        total += sum(means) / len(means)
    return total / len(classes)


def confidence(row: Row) -> float:
    """p of the truth: ImageCaptioner2, eq. 1."""
    return float(str(row["probability"]))


def accuracy(row: Row) -> float:
    """1 where the answer is right."""
    return float(row["predicted"] == row["answer"])


def confident_accuracy(row: Row) -> float:
    """LIC, eq. 9 and 10."""
    return confidence(row) * accuracy(row)


def amplification(rows: Sequence[Row], *, confident: bool) -> float:
    """LIC = LIC_M - LIC_D (``confident``, eq. 9 to 11); Leakage = lambda_M - lambda_D (eq. 4 to 6)."""
    quantity = confident_accuracy if confident else accuracy
    sides = ([row for row in rows if row["side"] == side] for side in ("human", "generated"))
    human, generated = (mean_of_classes(side, quantity) for side in sides)
    return generated - human


def directional(rows: Sequence[Row], *, direction: str, pooled: bool) -> float | None:
    """DBAC's omega (``pooled``) or DPAC's psi of one side and seed; images count equally.

    None where no caption names exactly one class (T->A).
    """
    written = Counter(str(row["image_id"]) for row in rows)
    weight = {image: Fraction(1, number) for image, number in written.items()}

    def shares(column: str, among: Sequence[Row]) -> dict[object, Fraction]:
        every, found = sum(weight[str(row["image_id"])] for row in among), dict[object, Fraction]()
        for row in among:
            found[row[column]] = found.get(row[column], Fraction()) + weight[str(row["image_id"])] / every
        return found

    kept = [row for row in rows if direction == "A->T" or (row["named"] and "|" not in str(row["named"]))]
    if not kept:
        return None
    above, column = (shares("tasks", rows), "tasks") if direction == "A->T" else (shares("named", kept), "named")
    below = shares("answer", rows)

    def prior(row: Row) -> float:
        return float(above[row[column]] / below[row["answer"]])

    parts = [(float(weight[str(row["image_id"])]), row) for row in kept]
    total = sum(part for part, _ in parts)
    if pooled:
        loss = sum(part * float(str(row["loss"])) for part, row in parts) / total
        return sum(part * prior(row) for part, row in parts) / total / loss
    return sum(part * confidence(row) * prior(row) for part, row in parts) / total


# Words of captions


@dataclass(frozen=True)
class Said:
    """A caption or an annotated image: its image, the image's class, and the classes and labels that it names."""

    image: str
    annotated: str
    named: frozenset[str]
    labels: frozenset[str]

    @property
    def one(self) -> str | None:
        """The class that it names, if it names exactly one."""
        return next(iter(self.named)) if len(self.named) == 1 else None


Table = list[tuple[Fraction, str | None, frozenset[str]]]
"""Weight, class and labels of each row; the rows of an image weigh 1 together."""


def table(rows: Iterable[Said], class_of: Callable[[Said], str | None]) -> Table:
    """Rows by the annotated or the named class."""
    kept = list(rows)
    written = Counter(row.image for row in kept)
    return [(Fraction(1, written[row.image]), class_of(row), row.labels) for row in kept]


def count(rows: Table, class_: str | None = None, labels: Iterable[str] = ()) -> Fraction:
    """c_al: weight of the rows of a class (None: any) with all of ``labels``."""
    return sum((w for w, own, held in rows if class_ in (None, own) and held.issuperset(labels)), Fraction())


def ba(human: Table, generated: Table, classes: Sequence[str], labels: Iterable[str]) -> float | None:
    """Zhao et al. 2017, eq. 1, over pairs with b > 1/K; labels that a side has with no class are left out."""
    total, used = Fraction(), 0
    for label in labels:
        sums = [sum((count(side, name, [label]) for name in classes), Fraction()) for side in (human, generated)]
        if all(sums):
            used += 1
            for name in classes:
                before, after = count(human, name, [label]) / sums[0], count(generated, name, [label]) / sums[1]
                total += after - before if before > Fraction(1, len(classes)) else 0
    return float(total / used) if used else None


def change(truth: Table, predicted: Table, name: str, labels: Sequence[str], direction: str) -> Fraction | None:
    """P(l|a) or P(a|l) of the predictions less that of the truth; None where nothing meets the condition."""
    found = []
    for rows in (truth, predicted):
        whole = count(rows, name) if direction == "A->T" else count(rows, None, labels)
        if not whole:
            return None
        found.append(count(rows, name, labels) / whole)
    return found[1] - found[0]


def dba(
    truth: Table, predicted: Table, classes: Sequence[str], labels: Sequence[str], *, direction: str
) -> float | None:
    """Wang and Russakovsky 2021, eq. 1-3: the mean over pairs, with the sign of P(a, l) > P(a) P(l)."""
    everybody, parts = count(truth), []
    for name, label in product(classes, labels):
        delta = change(truth, predicted, name, [label], direction)
        if delta is not None:
            together = count(truth, name, [label]) * everybody > count(truth, name) * count(truth, None, [label])
            parts.append(delta if together else -delta)
    return float(sum(parts) / len(parts)) if parts else None


def multi(truth: Table, predicted: Table, classes: Sequence[str], *, direction: str) -> float | None:
    """Zhao, Andrews and Xiang 2023: the mean size over classes and all sets of labels that a row of the truth has."""
    sets = {of for *_, held in truth for size in range(1, len(held) + 1) for of in combinations(sorted(held), size)}
    found = [change(truth, predicted, name, of, direction) for name, of in product(classes, sorted(sets))]
    sizes = [abs(delta) for delta in found if delta is not None]
    return float(sum(sizes) / len(sizes)) if sizes else None


def dpa(
    truth: Table, predicted: Table, classes: Sequence[str], labels: Sequence[str], *, direction: str
) -> float | None:
    """Tokas et al. 2024: how often each side's own best guess of a label (of a class) is right, normalised."""
    found = []
    for rows in (truth, predicted):
        cells = {(name, label): count(rows, name, [label]) for name, label in product(classes, labels)}
        if not (total := sum(cells.values(), Fraction())):
            return None
        conditions, answers = (classes, labels) if direction == "A->T" else (labels, classes)
        best = [
            max(cells[(given, answer) if direction == "A->T" else (answer, given)] for answer in answers)
            for given in conditions
        ]
        found.append(sum(best, Fraction()) / total)
    return float((found[1] - found[0]) / (found[1] + found[0]))


def error(rows: Sequence[Said]) -> float:
    """Hendricks et al. 2018: captions that name another class than the annotated one; none or several is no error."""
    wrong = table(rows, lambda row: "wrong" if row.one not in (None, row.annotated) else "right")
    return float(count(wrong, "wrong") / count(wrong))


def ratio(rows: Sequence[Said], first: str, second: str) -> float | None:
    """Captions that name the first class alone over those that name the second."""
    named = table(rows, lambda row: row.one)
    below = count(named, second)
    return float(count(named, first) / below) if below else None
