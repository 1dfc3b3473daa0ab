"""``judge plugins``: what other installed packages add."""

from judge.report.render import print_table
from judge.report.table import table_of
from judge.utils.plugins import KINDS, plugins


def command() -> None:
    """List the metrics, judges, detectors, readers of captions and lexicons of other installed packages.

    None of them is imported: a package that cannot be used is listed too.
    """
    entries = [(kind, entry) for kind in KINDS for found in plugins(kind).values() for entry in found]
    rows = [(kind[:-1], of.name, of.dist and of.dist.name, of.dist and of.dist.version) for kind, of in entries]
    print_table(table_of(["kind", "name", "package", "version"], [], rows))
