"""YAML is read in one place."""

from __future__ import annotations

import pytest
import yaml

from judge.utils.yaml import _LOADER, load_yaml


def test_plain_values_alone() -> None:
    assert load_yaml("a: [1, no, 'no', ü]\n") == {"a": [1, False, "no", "ü"]}
    with pytest.raises(yaml.YAMLError, match="could not determine a constructor"):
        load_yaml("!!python/object/apply:os.getcwd []")


def test_libyaml_reads_where_it_is() -> None:
    if not yaml.__with_libyaml__:
        pytest.skip("PyYAML was built without libyaml")
    assert _LOADER is yaml.CSafeLoader
