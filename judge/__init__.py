"""Caption Judge: does a captioner describe people more stereotypically than people do?

The whole of it in three lines::

    from judge import Corpus, evaluate
    corpus = Corpus.read(human="captions_human.json", captions=["nic_plus.json"], labels="gender.csv")
    print(evaluate(corpus, metrics=["lic", "leakage"]).table())

Names load on first use, so that ``import judge`` and ``judge --help`` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judge.commands.evaluate import evaluate
    from judge.corpus import Corpus
    from judge.errors import JudgeError
    from judge.measure import Plan, Result
    from judge.metrics import METRICS, Metric
    from judge.metrics.counted.ba import ba_mals
    from judge.metrics.counted.contingency import ContingencyTable
    from judge.metrics.counted.dba import dba
    from judge.metrics.counted.dpa import dpa
    from judge.metrics.counted.multi import multi
    from judge.metrics.counted.ratio_error import error, ratio
    from judge.text.lexicon import Lexicon, load_lexicon

_HOMES = {
    "ContingencyTable": "judge.metrics.counted.contingency",
    "Corpus": "judge.corpus",
    "JudgeError": "judge.errors",
    "Lexicon": "judge.text.lexicon",
    "METRICS": "judge.metrics",
    "Metric": "judge.metrics",
    "Plan": "judge.measure",
    "Result": "judge.measure",
    "ba_mals": "judge.metrics.counted.ba",
    "dba": "judge.metrics.counted.dba",
    "dpa": "judge.metrics.counted.dpa",
    "error": "judge.metrics.counted.ratio_error",
    "evaluate": "judge.commands.evaluate",
    "load_lexicon": "judge.text.lexicon",
    "multi": "judge.metrics.counted.multi",
    "ratio": "judge.metrics.counted.ratio_error",
}

__all__ = [
    "METRICS",
    "ContingencyTable",
    "Corpus",
    "JudgeError",
    "Lexicon",
    "Metric",
    "Plan",
    "Result",
    "ba_mals",
    "dba",
    "dpa",
    "error",
    "evaluate",
    "load_lexicon",
    "multi",
    "ratio",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'judge' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
