"""Caption Judge: does a captioner describe people more stereotypically than people do?

The whole of it in three lines::

    from judge import Corpus, evaluate
    corpus = Corpus.read(human="captions_human.json", captions=["nic_plus.json"], labels="gender.csv")
    print(evaluate(corpus, metrics=["lic", "leakage"]).table())

Metrics are functions on arrays too. Learned ones read the probabilities of your own judges: :func:`lic`,
:func:`leakage`, :func:`imagecaptioner2`, :func:`dbac`, :func:`dpac` and :func:`theils_u`. Counted ones read labels:
:func:`ba_mals`, :func:`dba`, :func:`multi`, :func:`dpa`, :func:`ratio` and :func:`error`. Names load on first use, so
that ``import judge`` and ``judge --help`` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judge.commands.callback import AmplificationCallback
    from judge.commands.evaluate import evaluate
    from judge.corpus import Corpus
    from judge.errors import JudgeError
    from judge.metrics import METRICS, Metric
    from judge.metrics.counted.dpa import dpa
    from judge.metrics.counted.multi import multi
    from judge.metrics.counted.pairs import ba_mals, dba
    from judge.metrics.counted.ratio_error import error, ratio
    from judge.report.result import Result
    from judge.statistics.learned import dbac, dpac, imagecaptioner2, leakage, lic, theils_u
    from judge.text.lexicon import Lexicon, load_lexicon
    from judge.training.scorer import Judge

_HOMES = {
    "judge.commands.callback": ("AmplificationCallback",),
    "judge.commands.evaluate": ("evaluate",),
    "judge.corpus": ("Corpus",),
    "judge.errors": ("JudgeError",),
    "judge.metrics": ("METRICS", "Metric"),
    "judge.metrics.counted.dpa": ("dpa",),
    "judge.metrics.counted.multi": ("multi",),
    "judge.metrics.counted.pairs": ("ba_mals", "dba"),
    "judge.metrics.counted.ratio_error": ("error", "ratio"),
    "judge.report.result": ("Result",),
    "judge.statistics.learned": ("dbac", "dpac", "imagecaptioner2", "leakage", "lic", "theils_u"),
    "judge.text.lexicon": ("Lexicon", "load_lexicon"),
    "judge.training.scorer": ("Judge",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = [
    "METRICS", "AmplificationCallback", "Corpus", "Judge", "JudgeError", "Lexicon", "Metric", "Result", "ba_mals",
    "dba", "dbac", "dpa", "dpac", "error", "evaluate", "imagecaptioner2", "leakage", "lic", "load_lexicon", "multi",
    "ratio", "theils_u",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'judge' has no attribute '{name}'")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
