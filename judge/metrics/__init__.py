"""The published metrics. Each is one row: what is hidden, aligned, judged, scored and compared.

``judge.measure`` reads rows and knows no metric by name. To add one: CONTRIBUTING, "Add a metric".
"""

from judge.metrics.row import Metric
from judge.metrics.rows import ALIASES, FAMILIES, METRICS, find_metric, spell_out, with_given, with_protocol

__all__ = ["ALIASES", "FAMILIES", "METRICS", "Metric", "find_metric", "spell_out", "with_given", "with_protocol"]
