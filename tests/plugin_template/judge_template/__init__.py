"""A plugin of Caption Judge, with one object of each kind."""

from pathlib import Path

HAIR = Path(__file__).with_name("hair.yaml")
"""A lexicon is the path of its YAML file."""
