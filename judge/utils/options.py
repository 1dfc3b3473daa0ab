"""Options: fields of pydantic models that the command line, YAML files and Python share."""

from typing import Any

from pydantic import Field

MOST = 1_000_000
"""The highest number of an option that counts something, where it has no limit of its own."""


def option(  # noqa: PLR0913 - as pydantic's Field
    default: Any,
    description: str,
    unset: str = "",
    *,
    flag: str = "",
    repeated: str = "",
    essential: bool = False,
    file: bool = False,
    panel: str = "",
    group: str = "",
    **constraints: Any,
) -> Any:
    """A field that is an option of the command line too.

    Args:
        default: of the field; ``...`` for none.
        description: for ``--help``, which adds the choices and the default.
        unset: the default in words, where it depends on other things; for ``out``, the command line's.
        flag: where it is not the field's name with hyphens.
        repeated: metavar of an option that may be given several times.
        essential: whether ``--help`` shows it; ``--help-all`` shows all.
        file: whether a text may name a file, which the command's output must then not replace.
        panel: in ``--help``, where it is not that of the class.
        group: the option of the command line that takes this field and others: ``--training epochs=3``.
        constraints: of :func:`pydantic.Field`.
    """
    shown: dict[str, Any] = {"unset": unset, "flag": flag, "repeated": repeated, "panel": panel}
    shown |= {"essential": essential, "file": file, "group": group}
    if "ge" in constraints and not {"le", "lt"} & constraints.keys():
        constraints["le"] = MOST  # A larger count in a file would never end.
    return Field(default, description=description, json_schema_extra=shown, **constraints)
