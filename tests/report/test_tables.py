"""Facts of a result as tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from judge.measure import Result
from judge.metrics import METRICS
from judge.report.detail_tables import class_score_table, class_table
from judge.statistics.summary import summarise


@pytest.mark.parametrize(
    "metric", [name for name, row in METRICS.items() if row.balanced and row.amplification != "one_side"]
)
def test_the_mean_over_classes_is_the_value_of_the_table(metric: str) -> None:
    """Whatever splits score an image, and whichever seed counts."""
    generator = np.random.default_rng(1)
    rows = []
    for seed in range(3):
        for image in generator.choice(40, 25, replace=False):
            answer = "female" if image % 3 else "male"
            for side, captions in (("human", 2), ("generated", 1)):
                for index in range(captions):
                    p = generator.uniform(0.05, 0.95)
                    guess = answer if p > 0.5 else {"female": "male", "male": "female"}[answer]
                    rows.append(
                        ["a", metric, "x", seed, 0, str(image), side, index, answer, "", "", p, guess, -np.log(p), seed]
                    )
    names = "captioner metric judge seed fold image_id side index answer named tasks probability predicted loss"
    scores = pd.DataFrame(rows, columns=[*names.split(), "validation_loss"])
    (line,) = summarise(scores)
    table = class_score_table(Result((line,), scores, pd.DataFrame(), pd.DataFrame(), {}))
    _, _, classes, images, human, generated, _ = zip(*table.rows, strict=True)
    assert classes == ("female", "male")
    assert np.mean(human) == pytest.approx(line.human, abs=1e-12)
    assert np.mean(generated) == pytest.approx(line.generated, abs=1e-12)
    assert sum(images) == line.images


def test_captioners_of_the_same_images_share_their_rows() -> None:
    nine = {f"class {k}": 10 + k for k in range(9)}
    of = {"a": {"images": nine}, "b": {"images": nine}, "c": {"images": {"class 0": 10, "class 1": 11}}}

    def rows(*names: str) -> list[tuple[str, str, int]]:
        run = {"attribute": "feeling", "captioners": {name: of[name] for name in names}}
        return list(class_table(run).rows)

    assert rows("a") == [("a", name, images) for name, images in nine.items()]
    assert rows("a", "b") == [("all", name, images) for name, images in nine.items()]
    assert rows("a", "c", "b") == [
        *[("a, b", name, images) for name, images in nine.items()],
        ("c", "class 0", 10),
        ("c", "class 1", 11),
    ]
