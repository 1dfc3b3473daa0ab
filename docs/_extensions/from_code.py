"""Parts of the pages that are made from the code: commands, the tables of metrics and judges.

Directives ``commands``, ``metrics-table`` and ``judges-table``; and references to names that a module imports or that
have no docstring, which Sphinx by itself calls broken although the code has them. Equations are MathML. The tables of
the papers follow their index (``scripts/papers/run.py``).
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import typer
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

from judge.commands.app import app as cli
from judge.judges import Blueprint
from judge.judges.names import FILES, find_judge
from judge.metrics import METRICS, Metric

LOGGER = logging.getLogger(__name__)
_CAPTIONS = 1856  # Those that a judge learns from in LIC's hold-out of 3,597 images.
_HEAD = ("name", "metric", "hidden", "alignment", "judge", "judge guesses", "score", "amplification")


class Commands(SphinxDirective):
    """Every command with its options, a section each, as ``--help-all`` has them."""

    def run(self) -> list[nodes.Node]:
        """Sections, in the order of ``judge --help``."""
        return [self._section(name, command) for name, command in walk("judge", typer.main.get_command(cli))]

    def _section(self, name: str, command: Any) -> nodes.section:
        section = nodes.section(ids=[nodes.make_id(name)], names=[name])
        section += nodes.title(name, name)
        context = command.make_context(name, ["x"], resilient_parsing=True)
        usage = " ".join([name, *command.collect_usage_pieces(context)]).replace("[[", "[").replace("]]", "]")
        section += nodes.literal_block(usage, usage, language="text")
        for part in (command.help or "").split("\n\n"):
            section += _prose(" ".join(part.split()))
        panels: dict[str, list[nodes.Node]] = {}
        for parameter in command.get_params(context):
            parameter.hidden = False
            record = parameter.get_help_record(context)
            if record and not {"--help", "--help-all"} & {*parameter.opts}:
                panel = getattr(parameter, "rich_help_panel", None) or ""
                panels.setdefault(panel, []).append(_item(*record))
        for panel, items in panels.items():
            if panel:
                section += nodes.rubric(panel, panel)
            section += nodes.definition_list("", *items, classes=["options"])
        return section


def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """(full name, command) of every command below a group."""
    for key, child in getattr(command, "commands", {}).items():
        yield from walk(f"{name} {key}", child)
    if not hasattr(command, "commands"):
        yield name, command


def _item(term: str, text: str) -> nodes.definition_list_item:
    words = nodes.term("", "", nodes.literal(term, term))
    return nodes.definition_list_item("", words, nodes.definition("", *map(_prose, text.split("\n\n"))))


def _prose(text: str) -> nodes.paragraph:
    """A paragraph in which options are code, so that their dashes stay dashes."""
    parts = re.split(r"(?<![\w-])(--[a-z][a-z-]*)", text.replace("\\[", "["))
    words = [nodes.literal(part, part) if part.startswith("--") else nodes.Text(part) for part in parts]
    return nodes.paragraph("", "", *words)


class MetricsTable(SphinxDirective):
    """METRICS, a row each: of those that ask a judge the axes and the sources, of ``counted`` ones the sources."""

    option_spec = {"counted": lambda _: True}  # noqa: RUF012 - as docutils declares it

    def run(self) -> list[nodes.Node]:
        """One table, or two."""
        counted = "counted" in self.options
        rows = [row for row in METRICS.values() if bool(row.counted) == counted]
        names = ("name", "metric") if counted else ("name",)
        cells = [(f"`{row.name}", row.title)[: len(names)] for row in rows]
        sources = [(*cell, row.reference, row.variant) for cell, row in zip(cells, rows, strict=True)]
        found = [table((*names, "source", "as counted here" if counted else "as measured here"), sources)]
        return found if counted else [table(_HEAD, map(_axes, rows)), *found]


def _axes(row: Metric) -> tuple[str, ...]:
    guessed = f"named {row.target}" if row.from_annotation else row.target
    judged = f"`{row.judge}", guessed, f"`{row.score}", f"`{row.amplification}"
    return f"`{row.name}", row.title, ", ".join(row.hidden), row.alignment, *judged


class JudgesTable(SphinxDirective):
    """The registered judges, and how networks are trained."""

    def run(self) -> list[nodes.Node]:
        """One table."""
        steps = f"steps ({_CAPTIONS:,} captions)"
        head = ("name", "takes in", "epochs", "learning rate", "batch", steps, "weights kept", "source")
        return [table(head, (_judge(find_judge(name)) for name in FILES))]


def _judge(blueprint: Blueprint) -> tuple[str, ...]:
    recipe, training = blueprint.recipe, ("", "", "", "", "")
    if recipe:
        steps = f"{recipe.epochs * -(-_CAPTIONS // recipe.batch_size):,}"
        rate, size = f"{recipe.learning_rate:g}", f"{recipe.batch_size}"
        training = f"{recipe.epochs}", rate, size, steps, f"{recipe.keep} epoch's"
    return f"`{blueprint.name}", " and ".join(sorted(blueprint.modalities)), *training, blueprint.reference


def table(head: tuple[str, ...], rows: Any) -> nodes.table:
    """A table of texts; a cell that begins with a backtick is code."""
    body = [_row(cells) for cells in rows]
    columns = [nodes.colspec(colwidth=1) for _ in head]
    group = nodes.tgroup("", *columns, nodes.thead("", _row(head)), nodes.tbody("", *body), cols=len(head))
    return nodes.table("", group, classes=["from-code"])


def _row(cells: tuple[str, ...]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", _cell(cell))) for cell in cells))


def _cell(text: str) -> nodes.Node:
    return nodes.literal(text[1:], text[1:]) if text.startswith("`") else nodes.Text(text)


def find_in_code(
    app: Sphinx, environment: BuildEnvironment, node: pending_xref, text: nodes.TextElement
) -> nodes.Node | None:
    """A reference that no page answers: to where the name was made, or plain text where the code has it at least."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    if "." not in target and "refexplicit" in node:  # Written in a docstring, not read off an annotation.
        # Public names are documented in ``judge``; their docstrings refer to names of their own modules.
        written = re.search(r"docstring of (judge[\w.]*)", f"{node.source} {text.source}")
        places = [node.get("py:module"), *(written[1].rsplit(".", cut)[0] for cut in (1, 2) if written)]
        if not any(look_up(f"{place}.{target}") for place in places) and not hasattr(builtins, target):
            LOGGER.warning("nothing is called %r in %s", target, places, location=node, type="ref")
        return text
    found = look_up(target) if target.startswith("judge.") else None
    if found is None:
        return None
    home = f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}"
    linked = environment.domains["py"].resolve_any_xref(environment, node["refdoc"], app.builder, home, node, text)
    return linked[0][1] if linked else text


def look_up(target: str) -> Any:
    """The object called ``target``, e.g. "judge.corpus.Corpus.read"; None where there is none."""
    parts = target.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name, None)
        return found
    return None


def without_bars(line: str) -> str:
    """Bars around a name are its size in docstrings, "|L|"; reST would take them for a substitution."""
    return re.sub(r"(?<![`\w])\|(\w+)\|(?!`)", r"\\|\1\\|", line)


SENTENCES = {"attribute", "data", "property"}
KEPT: dict[str, list[str]] = {}


def before_napoleon(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Keeps what napoleon would take for a type: the start of an attribute's docstring, up to a colon."""
    if what in SENTENCES:
        KEPT[name] = list(lines)


def after_napoleon(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Puts that back; "first, second: captioners" are two fields, not one of type "first"; no bars."""
    kept = KEPT.pop(name, lines) if what in SENTENCES else lines
    fields = (re.sub(r"^:(ivar|param) (\w+(?:, \w+)+):", _together, line) for line in kept)
    lines[:] = map(without_bars, fields)


def _together(found: re.Match[str]) -> str:
    return f":{found[1]} {found[2].replace(' ', '')}:"


def plain_aliases(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Sphinx leaves its own wrapper around aliases within ``Callable[...]``."""
    wrapped = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
    return signature and wrapped.sub(r"\1", signature), returns and wrapped.sub(r"\1", returns)


def visit_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """An equation within a line, as MathML: browsers show it without a script or a network."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_display(writer: HTML5Translator, node: nodes.math_block) -> None:
    """An equation by itself."""
    writer.body.append(f'<div class="equation">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def add_tables(_: Sphinx, name: str, source: list[str]) -> None:
    """Below the index of the papers' tables, the tables."""
    if name == "reproduction":
        source[0] += "\n" + import_module("run").make_sections()


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("commands", Commands)
    app.add_directive("metrics-table", MetricsTable)
    app.add_directive("judges-table", JudgesTable)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    app.connect("source-read", add_tables)
    app.connect("missing-reference", find_in_code)
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", after_napoleon, priority=600)
    app.connect("autodoc-process-signature", plain_aliases)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
