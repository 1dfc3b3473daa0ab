"""Every published metric is one row: what is hidden, aligned, judged, scored, compared.

``judge.measure`` walks a row and knows no metric by name. To add one: a row in ``rows.py``, its paper in
``references.bib``, an oracle in the tests (CONTRIBUTING, "Add a metric").
"""

from judge.metrics.names import ALIASES, FAMILIES, find_metric, spell_out
from judge.metrics.row import Metric
from judge.metrics.rows import METRICS

__all__ = ["ALIASES", "FAMILIES", "METRICS", "Metric", "find_metric", "spell_out"]
