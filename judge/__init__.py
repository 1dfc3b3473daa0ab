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
    from judge.text.lexicon import Lexicon, load_lexicon

_HOMES = {
    "Corpus": "judge.corpus",
    "JudgeError": "judge.errors",
    "Lexicon": "judge.text.lexicon",
    "METRICS": "judge.metrics",
    "Metric": "judge.metrics",
    "Plan": "judge.measure",
    "Result": "judge.measure",
    "evaluate": "judge.commands.evaluate",
    "load_lexicon": "judge.text.lexicon",
}

__all__ = [
    "METRICS",
    "Corpus",
    "JudgeError",
    "Lexicon",
    "Metric",
    "Plan",
    "Result",
    "evaluate",
    "load_lexicon",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'judge' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
