"""``judge data``: recipes of data sets, and what of them lies in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge.cli.shared import one_line_errors, say

Name = Annotated[str, typer.Argument(metavar="NAME", help="a recipe of judge data list, or a YAML file of your own")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="where the files lie")]


def data_list() -> None:
    """List the data sets that there are recipes of: who gets them, and the attributes that they have labels of."""
    with one_line_errors():
        from judge.corpus.recipes import read_shipped
        from judge.report.recipes import recipe_table
        from judge.report.render import print_table

        print_table(recipe_table(read_shipped()))


def data_show(name: Name) -> None:
    """Show a recipe: files, licence, who may have it, how its labels were made and their limits, commands."""
    with one_line_errors():
        from judge.corpus.recipes import load_recipe
        from judge.report.recipes import recipe_lines, wrapped
        from judge.report.render import open_console

        for text in wrapped(recipe_lines(load_recipe(name)), open_console().width):
            for line in text.split("\n"):
                say(line)


def data_check(name: Name, folder: Folder) -> None:
    """Check the files in a folder against a recipe: each is read, and counted; then what is missing, and commands.

    Exit code 2: a required file is missing, or is not what it should be.
    """
    with one_line_errors():
        from judge.commands.data import check_data, check_faults
        from judge.corpus.recipes import load_recipe
        from judge.report.recipes import check_lines, wrapped
        from judge.report.render import open_console

        check = check_data(load_recipe(name), folder)
        for text in wrapped(check_lines(check), open_console().width):
            for line in text.split("\n"):
                say(line)
        check_faults(check)
