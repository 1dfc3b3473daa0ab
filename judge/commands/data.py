"""``judge data``: recipes of data sets."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from judge.commands.console import say
from judge.corpus.recipes import FOLDER, find_recipe, read_recipe, read_shipped
from judge.report.render import print_table
from judge.report.table import table_of
from judge.utils.reading import read_small_text


def data_list() -> None:
    """List the recipes of data sets: who gets them, and the attributes that they have labels of."""
    rows = []
    for recipe in read_shipped():
        attributes = ", ".join(label.attribute for label in recipe.labels)
        rows.append((recipe.name, recipe.title, recipe.access, attributes or None))
    print_table(table_of(["name", "data", "access", "attributes"], [], rows))


def data_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a recipe of judge data list, or your own YAML file")],
    folder: Annotated[Path | None, typer.Argument(metavar="[FOLDER]", help="where the files lie, for commands")] = None,
) -> None:
    """Show a recipe: files, licence, who may have it, how its labels were made and their limits, commands.

    Prints the YAML file as it is, and each command on a line, to be copied.
    """
    path = find_recipe(name)
    recipe = read_recipe(path)
    say(*read_small_text(path).splitlines(), "")
    if not recipe.pass_on:
        others = "send others to the owner's page, and keep" if recipe.page else "keep"
        say(f"Passing on: NO; {others} the files, and what says the class of single images, to yourself", "")
    say("commands:")
    for use in recipe.use:
        needs = f" (needs {', '.join(use.needs)} too)" if use.needs else ""
        words = [word.replace(FOLDER, str(folder)) for word in shlex.split(use.command)]
        say(f"  {use.what}{needs}:", f"  {shlex.join(words) if folder else use.command}")
