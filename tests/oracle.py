"""The papers' formulas as slow loops, to hold the package against. Nothing here is imported from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Row = Mapping[str, object]


def side_score(rows: Sequence[Row], *, confident: bool) -> float:
    """LIC's eq. 9 and 10 (``confident``) or Leakage's eq. 5 and 6 over one side, classes weighted equally.

    Each image counts once, as the mean over its captions and seeds.
    """
    classes = sorted({str(row["answer"]) for row in rows})
    total = 0.0
    for name in classes:
        of_class = [row for row in rows if row["answer"] == name]
        trials = sorted({(str(row["image_id"]), int(str(row["seed"]))) for row in of_class})
        means = []
        for image, seed in trials:
            values = []
            for row in of_class:
                if row["image_id"] == image and row["seed"] == seed:
                    right = row["predicted"] == row["answer"]
                    values.append((float(str(row["probability"])) if confident else 1.0) if right else 0.0)
            means.append(sum(values) / len(values))
        total += sum(means) / len(means)
    return total / len(classes)


def amplification(rows: Sequence[Row], *, confident: bool) -> float:
    """LIC = LIC_M - LIC_D (eq. 11); Leakage = lambda_M - lambda_D (eq. 4)."""
    sides = {side: [row for row in rows if row["side"] == side] for side in ("human", "generated")}
    return side_score(sides["generated"], confident=confident) - side_score(sides["human"], confident=confident)
