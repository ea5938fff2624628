"""The reference of the command line, drawn from the commands themselves."""

from collections.abc import Iterator
from importlib import import_module
from inspect import getdoc
from typing import Any, Literal, get_args, get_origin

from cyclopts import App
from cyclopts.argument import Argument

from weir.cli.commands import TOPICS, Command


def reference() -> str:
    """Return one section for each command, by topic."""
    lines = []
    for topic in TOPICS:
        lines.append(f"\n## {topic.title}\n")
        for command in topic.commands:
            lines += _command(command)
    return "\n".join(lines)


def _command(command: Command) -> Iterator[str]:
    module, _, attribute = command.target.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, App):
        app = App(name=command.name)
        app.default(found)
        yield from _section(f"weir {command.name}", app)
        return
    if found.default_command is not None:
        yield from _section(f"weir {command.name}", found)
    for name in found:
        if not name.startswith("-"):
            yield from _section(f"weir {command.name} {name}", found[name])


def _section(name: str, app: App) -> Iterator[str]:
    function: Any = app.default_command
    arguments = [
        argument for argument in app.assemble_argument_collection(parse_docstring=True) if argument.show
    ]
    words = [argument for argument in arguments if argument.index is not None and not _names(argument)]
    options = [argument for argument in arguments if _names(argument)]
    several = any(_is_many(argument) for argument in words)
    command = any(argument.name == "COMMAND" for argument in words)
    usage = " ".join(argument.name for argument in words if argument.name != "COMMAND")
    usage += "..." if several and not command and usage else ""
    yield f"\n### `{' '.join(filter(None, [name, usage]))}{' -- COMMAND...' if command else ''}`\n"
    said = (getdoc(function) or "").split("\nParameters\n")[0].strip()
    yield said.replace("\n\n", "\0").replace("\n", " ").replace("\0", "\n\n")
    if words or options:
        yield "\n| | |\n|---|---|"
    for argument in words:
        yield f"| `{argument.name}` | {argument.parameter.help or ''} |"
    for argument in options:
        names = ", ".join(f"`{each}`" for each in sorted(_names(argument), key=len))
        yield f"| {names}{_value(argument)} | {argument.parameter.help or ''}{_default(argument)} |"


def _names(argument: Argument) -> list[str]:
    return [name for name in argument.names if name.startswith("-")]


def _is_many(argument: Argument) -> bool:
    return argument.field_info.kind is argument.field_info.VAR_POSITIONAL


def _value(argument: Argument) -> str:
    choices = argument.get_choices()
    if choices:
        return " " + " or ".join(f"`{choice}`" for choice in choices)
    return "" if _bare(argument.hint) is bool else f" `{_name(argument)}`"


def _name(argument: Argument) -> str:
    return max(argument.names, key=len).lstrip("-").upper().replace("-", "_")


def _bare(hint: Any) -> Any:
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return hint if get_origin(hint) is Literal or len(kinds) != 1 else kinds[0]


def _default(argument: Argument) -> str:
    default = argument.field_info.default
    if default in (None, False, (), argument.field_info.empty):
        return ""
    return " On by default." if default is True else f" By default `{default}`."
