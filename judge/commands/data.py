"""``judge data``: recipes of data sets."""

from pathlib import Path
from typing import Annotated

import typer

from judge.commands.console import say
from judge.corpus.recipes import load_recipe, read_shipped
from judge.report.recipes import recipe_lines, recipe_table, wrapped
from judge.report.render import open_console, print_table


def data_list() -> None:
    """List the recipes of data sets: who gets them, and the attributes that they have labels of."""
    print_table(recipe_table(read_shipped()))


def data_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a recipe of judge data list, or your own YAML file")],
    folder: Annotated[Path | None, typer.Argument(metavar="[FOLDER]", help="where the files lie, for commands")] = None,
) -> None:
    """Show a recipe: files, licence, who may have it, how its labels were made and their limits, commands."""
    for text in wrapped(recipe_lines(load_recipe(name), folder), open_console().width):
        say(*text.split("\n"))
