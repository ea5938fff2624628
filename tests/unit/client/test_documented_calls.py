"""The reference of the Python client names all calls, and parameters that they have."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weir import AsyncPool
from weir.client.calls import AsyncSender

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "python.md"
OF_COMMANDS = {"close", "enter", "confirm_notification", "desktop_notifications"}
"""Calls of the command line alone, and the end of a client."""
_CALL = re.compile(r"`([a-z_]+)(?:\(([^`]*)\))?`")
_FIELDS = re.compile(r"Unpack\[(\w+)\]")


def _function(name: str) -> Any:
    """Return the function of a call, which a descriptor of the class holds."""
    member = inspect.getattr_static(AsyncPool, name)
    return member if inspect.isfunction(member) else next(filter(inspect.isfunction, vars(member).values()))


def _parameters(name: str) -> Iterator[str]:
    function = _function(name)
    for parameter in inspect.signature(function).parameters.values():
        yield parameter.name
        if fields := _FIELDS.fullmatch(str(parameter.annotation)):
            yield from function.__globals__[fields[1]].__annotations__


def _documented() -> Iterator[tuple[str, str]]:
    """Yield name and parameters of all calls in the table."""
    table = PAGE.read_text("utf-8").partition("## Everything else")[2].partition("\n\nAnswers")[0]
    for row in re.findall(r"^\| (`.*?) \| ", table, re.MULTILINE):
        yield from _CALL.findall(row)


def test_documented_calls_have_the_documented_parameters() -> None:
    documented = list(_documented())
    assert len(documented) > 40
    for name, written in documented:
        words = [word.strip().rstrip("=") for word in written.split(",") if word.strip()]
        wrong = {word for word in words if not word.startswith("**")} - set(_parameters(name))
        assert not wrong, f"{name}({written})"


def test_all_calls_are_documented() -> None:
    calls = {name for name in dir(AsyncPool) if not name.startswith("_") and not hasattr(AsyncSender, name)}
    named = set(re.findall(r"`(?:pool\.)?([a-z_]+)(?:\(|`)|pool\.([a-z_]+)\(", PAGE.read_text("utf-8")))
    assert calls - OF_COMMANDS <= {name for pair in named for name in pair}
