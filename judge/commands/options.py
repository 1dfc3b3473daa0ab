"""Options of a command are the fields of its settings: names, help and defaults come from :mod:`judge.config`."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer

from judge.commands.console import one_line_errors
from judge.config import GROUPS, PANELS, Settings, about_option, flag_of, make_config, read_settings
from judge.errors import JudgeError, nearest

S = TypeVar("S", bound=Settings)
METAVARS = {int: "N", float: "X", Path: "PATH"}


def with_settings(body: Callable[[Any], int | None]) -> tuple[Callable[..., None], dict[str, str]]:
    """The command that reads the settings of ``body`` from a file and options; field -> flag, of fields in groups."""
    kind: type[Settings] = get_type_hints(body)["config"]

    def command(file: Path | None, **given: Any) -> None:
        given.pop("help_all", None)
        with one_line_errors(shared=kind.launched):
            code = body(resolve(file, given, kind))
        if code:  # In every process of a launch, after all of them have done their work.
            raise typer.Exit(code)

    argument = typer.Argument(metavar="SETTINGS.yaml", help="settings; options override them")
    # The last of a panel is --overwrite.
    names = sorted(kind.model_fields, key=lambda name: (PANELS.index(kind.panel_of(name)), name == "overwrite"))
    options = {about_option(kind, name)["group"] or name: name for name in names}
    annotations = {"file": Annotated[Path | None, argument]}
    annotations |= {key: _option(kind, name) if key == name else _group(kind, key) for key, name in options.items()}
    if not all(about_option(kind, name)["essential"] for name in names):
        every = typer.Option(
            "--help-all", help=f"Show all {len(options)} options and exit.", metavar="", is_eager=True,
            callback=_show_all, rich_help_panel="Output",
        )  # fmt: skip
        annotations["help_all"] = Annotated[bool, every]
    command.__signature__ = Signature(  # type: ignore[attr-defined]  # of any function
        [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint) for name, hint in annotations.items()]
    )
    return command, {name: flag_of(kind, name) for name in names if about_option(kind, name)["group"]}


def _show_all(ctx: typer.Context, value: bool) -> None:
    """``--help-all``: ``--help`` with the options that it leaves out."""
    if value:
        for parameter in ctx.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]  # of arguments and options
        typer.echo(ctx.get_help())
        raise typer.Exit


def _option(kind: type[Settings], name: str) -> Any:
    """A field for Typer. Values stay texts: they are checked by the settings, as those of YAML files are."""
    field, about, flag = kind.model_fields[name], about_option(kind, name), flag_of(kind, name)
    types = _parts(field.annotation)
    listed, choices = Ellipsis in types, [part for part in types if isinstance(part, str)]
    settings: dict[str, Any] = {"help": _help(kind, name), "rich_help_panel": kind.panel_of(name)}
    settings["hidden"] = not about["essential"]
    if bool in types:
        # What is on by default somewhere can be switched off.
        flag += f"/--no-{flag.removeprefix('--')}" if field.default is None else ""
        return Annotated[bool | None, typer.Option(flag, metavar="", **settings)]
    one = "|".join([*choices, *(METAVARS[part] for part in types if part in METAVARS)])
    made = typer.Option(flag, metavar=about["repeated"] or ("TEXT" if listed else one or "TEXT"), **settings)
    several = bool(about["repeated"]) or listed
    return Annotated[list[str] | None, made] if several else Annotated[str | None, made]


def _help(kind: type[Settings], name: str) -> str:
    field, about = kind.model_fields[name], about_option(kind, name)
    types = _parts(field.annotation)
    choices = [part for part in types if isinstance(part, str)]
    text = str(field.description) + ("; repeatable" if about["repeated"] else "")
    if Ellipsis in types and not all(choice in text for choice in choices):
        text += f" ({', '.join(choices[:-1])} or {choices[-1]})"
    joined = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else str(field.default)
    has_none = field.is_required() or bool in types or field.default in (None, {})
    default = about["unset"] or ("" if has_none else joined)
    return (text + (f" [default: {default}]" if default else "")).replace("[", "\\[")


def _grouped(kind: type[Settings], group: str) -> list[str]:
    return [name for name in kind.model_fields if about_option(kind, name)["group"] == group]


def _group(kind: type[Settings], group: str) -> Any:
    """The option of several fields, ``--training epochs=3,clip=1``."""
    names = _grouped(kind, group)
    lines = [f"{GROUPS[group]}; several are joined by commas:", *(f"{name}: {_help(kind, name)}" for name in names)]
    settings: dict[str, Any] = {"help": "\n\n".join(lines), "rich_help_panel": kind.panel_of(names[0])}
    return Annotated[list[str] | None, typer.Option(f"--{group}", metavar="NAME=VALUE", hidden=True, **settings)]


def _parts(annotation: Any) -> list[Any]:
    """Types that an annotation is made of, and the values of its literals."""
    parts = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    if get_origin(annotation) is Literal or not parts:
        return list(parts or [annotation])
    return [leaf for part in parts for leaf in _parts(part)]


def resolve(file: Path | None, given: Mapping[str, Any], kind: type[S]) -> S:
    """The settings of a command: those of ``file`` (YAML), overridden by ``given`` options, where not None or empty."""
    settings = read_settings(file) if file else {}
    given = {name: value for name, value in given.items() if value not in (None, [], ())}
    for group in given.keys() - kind.model_fields.keys():
        given |= _apart(kind, group, given.pop(group))
    settings |= {name: _parse(kind, name, value) for name, value in given.items()}
    if "out" in kind.model_fields:
        settings["out"] = about_option(kind, "out")["unset"] if settings.get("out") is None else settings["out"]
    return make_config(settings, kind, where=str(file) if file else kind.command)


def _apart(kind: type[Settings], group: str, entries: list[str]) -> dict[str, str]:
    """Field -> value, of texts ``NAME=VALUE`` of a group."""
    names, found = _grouped(kind, group), dict[str, str]()
    for entry in filter(str.strip, ",".join(entries).split(",")):
        name, value = (part.strip() for part in entry.partition("=")[::2])
        name = name.replace("-", "_")
        if name not in names:
            raise JudgeError(f"unknown name '{name}'", where=f"--{group}", mend=nearest(name, names))
        if not value:
            raise JudgeError(f"'{name}' has no value", where=f"--{group}", mend=f"write --{group} {name}=VALUE")
        if name in found:
            raise JudgeError(f"'{name}' twice", where=f"--{group}", mend=f"keep one of {found[name]}, {value}")
        found[name] = value
    return found


def _parse(kind: type[Settings], name: str, value: Any) -> Any:
    """A mapping from texts ``KEY=VALUE`` (label values: all texts of a class); a list as one text with commas."""
    repeated, flag = about_option(kind, name)["repeated"], flag_of(kind, name)
    if not repeated and isinstance(value, list):
        return ",".join(value)
    if "=" not in repeated or repeated.startswith("["):
        return value
    found: dict[str, list[str]] = {}
    for entry in value:
        key, _, text = entry.partition("=")
        if not (key and text):
            raise JudgeError(f"'{entry}' is not KEY=VALUE", where=flag, mend=f"write it as {flag} {repeated}")
        if key in found and name != "label_values":
            raise JudgeError(f"'{key}' twice", where=flag, mend=f"keep one of {found[key][0]}, {text}")
        found.setdefault(key, []).append(text)
    return found if name == "label_values" else {key: texts[0] for key, texts in found.items()}
