"""Sphinx builds these pages: ``sphinx-build -W -n --keep-going -b html docs docs/_build``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent), str(HERE.parent / "scripts" / "papers")]
os.environ["COLUMNS"] = "100"

project = "Caption Judge"
author = "The Caption Judge developers"
copyright = "The Caption Judge developers. Apache-2.0"  # noqa: A001 - Sphinx's name for it

extensions = [
    "myst_nb",  # Pages in Markdown, and notebooks, which are run.
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "from_code",
]
exclude_patterns = ["_build", "_templates", "jupyter_execute"]
templates_path = ["_templates"]
nitpicky = True

# Markdown: equations between dollar signs, anchors at headings, lists of definitions.
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300

# Docstrings.
autosummary_generate = True
autodoc_default_options = {"members": True, "ignore-module-all": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("BoolArray", "FloatArray", "IntArray", "Pixels", "BoolMask")}
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_attr_annotations = False  # the signature has the types
# Annotations name other libraries' types: there are no pages of theirs to link to without a network.
# Short names in docstrings ("images") may be those of several things; a link to the first of them is no fault.
suppress_warnings = ["ref.python"]
nitpick_ignore_regex = [("py:.*", r"(?!judge\b).*")]

html_math_renderer = "mathml"
html_theme = "furo"
html_title = "Caption Judge"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_copy_source = False
html_show_sphinx = False
