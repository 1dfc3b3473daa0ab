"""Reading YAML: the one place, so that what is allowed in it is decided once."""

from __future__ import annotations

from typing import Any

import yaml

# libyaml reads ten times as fast; PyYAML is also built without it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(text: str) -> Any:
    """The value of a YAML document of plain values.

    Raises:
        yaml.YAMLError: not YAML, or more than plain values.
    """
    return yaml.load(text, Loader=_LOADER)  # noqa: S506  # Both are safe loaders.
