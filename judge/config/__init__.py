"""Settings of commands, composed of parts.

Each option is declared once, as a field of a part: :mod:`judge.config.inputs` (labels, captions, images),
:mod:`judge.config.judges` (metrics, judges, training, statistics), beside the metrics
(:mod:`judge.metrics.options`), or in the settings of the only command that has it.
"""

from judge.config.base import (
    PANELS,
    OutputSettings,
    Settings,
    flag_of,
    make_config,
    parse_settings,
    read_settings,
    shared_settings,
    shown,
)

__all__ = [
    "PANELS",
    "OutputSettings",
    "Settings",
    "flag_of",
    "make_config",
    "parse_settings",
    "read_settings",
    "shared_settings",
    "shown",
]
