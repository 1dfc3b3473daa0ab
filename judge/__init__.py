"""Caption Judge: does a captioner describe people more stereotypically than people do?

The whole of it in three lines::

    from judge import Corpus, evaluate
    corpus = Corpus.read(human="captions_human.json", captions=["nic_plus.json"], labels="gender.csv")
    print(evaluate(corpus, metrics=["lic", "leakage"]).table())

Metrics are functions on arrays too. Learned ones read the probabilities of your own judges: :func:`lic`,
:func:`leakage`, :func:`imagecaptioner2`, :func:`dbac` and :func:`dpac`. Counted ones read labels: :func:`ba_mals`,
:func:`dba`, :func:`multi`, :func:`dpa`, :func:`ratio` and :func:`error`. Names load on first use, so that
``import judge`` and ``judge --help`` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judge.commands.evaluate import evaluate as evaluate
    from judge.corpus import Corpus as Corpus
    from judge.errors import JudgeError as JudgeError
    from judge.measure import Plan as Plan
    from judge.measure import Result as Result
    from judge.metrics import METRICS as METRICS
    from judge.metrics import Metric as Metric
    from judge.metrics.counted.contingency import ContingencyTable as ContingencyTable
    from judge.metrics.counted.contingency import contingency as contingency
    from judge.metrics.counted.dpa import dpa as dpa
    from judge.metrics.counted.multi import multi as multi
    from judge.metrics.counted.pairs import ba_mals as ba_mals
    from judge.metrics.counted.pairs import dba as dba
    from judge.metrics.counted.ratio_error import error as error
    from judge.metrics.counted.ratio_error import ratio as ratio
    from judge.statistics.learned import dbac as dbac
    from judge.statistics.learned import dpac as dpac
    from judge.statistics.learned import imagecaptioner2 as imagecaptioner2
    from judge.statistics.learned import leakage as leakage
    from judge.statistics.learned import lic as lic
    from judge.text.lexicon import Lexicon as Lexicon
    from judge.text.lexicon import load_lexicon as load_lexicon

_HOMES = {
    "ContingencyTable": "judge.metrics.counted.contingency",
    "Corpus": "judge.corpus",
    "JudgeError": "judge.errors",
    "Lexicon": "judge.text.lexicon",
    "METRICS": "judge.metrics",
    "Metric": "judge.metrics",
    "Plan": "judge.measure",
    "Result": "judge.measure",
    "ba_mals": "judge.metrics.counted.pairs",
    "contingency": "judge.metrics.counted.contingency",
    "dba": "judge.metrics.counted.pairs",
    "dbac": "judge.statistics.learned",
    "dpac": "judge.statistics.learned",
    "dpa": "judge.metrics.counted.dpa",
    "error": "judge.metrics.counted.ratio_error",
    "evaluate": "judge.commands.evaluate",
    "imagecaptioner2": "judge.statistics.learned",
    "leakage": "judge.statistics.learned",
    "lic": "judge.statistics.learned",
    "load_lexicon": "judge.text.lexicon",
    "multi": "judge.metrics.counted.multi",
    "ratio": "judge.metrics.counted.ratio_error",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'judge' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
