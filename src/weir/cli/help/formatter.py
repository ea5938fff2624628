"""Help of commands: options in one column, their meaning in another."""

import re
import sys
from typing import TYPE_CHECKING, Any

from weir.cli.output.terminal import cells, screen, wrapped

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

_LABEL_WIDTH_MAX = 28
_WIDTH_MAX = 100
"""Longer lines are hard to read."""
_GAP = 2
_MANY = {
    "submit": "-- COMMAND...",
    "sweep": "-- COMMAND...",
    "schedule": "-- COMMAND...",
    "exec": "-- COMMAND...",
    **dict.fromkeys(("shell", "ssh"), "[NAME] [-- COMMAND...]"),
    "jupyter": "[NAME] [-- OPTIONS...]",
    "code": "[NAME] [-- OPTIONS...]",
    "sbatch": "[OPTIONS] [SCRIPT [ARGUMENTS...]]",
    "node": "[-- OPTIONS...]",
    "install": "[-- OPTIONS...]",
    "import": "FILE...",
    "scenario": "FILE...",
    **dict.fromkeys(("stop", "suspend", "resume", "rerun"), "[NAME...]"),  # options can choose instead
}
"""Names of repeated arguments in usage lines; NAME... for all others."""
_OPTIONAL = {
    "add": "[ADDRESS]",
    "create": "[USER]",
    "login": "[URL]",
    "logout": "[URL]",
    "rotate": "[NUMBER]",
    "schema": "[KIND]",
}
"""Names of optional arguments in usage lines; [NAME] for all others."""


class Help:
    """Formatter of help as plain text that fits the terminal."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:  # noqa: ARG002
        """Print a panel: the arguments and options, or the commands."""
        if not panel.entries:
            return
        line_width = _line_width()
        rows = [(_label(entry), _meaning(entry)) for entry in panel.entries]
        width = min(_LABEL_WIDTH_MAX, max(cells(label) for label, _ in rows))
        lines = ["Options:" if panel.title == "Parameters" else f"{panel.title}:"]
        for label, meaning in rows:
            lines += _entry(label, meaning, width, line_width)
        _say("\n".join([*lines, ""]))

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:  # noqa: ARG002
        """Print the usage line."""
        words = _text(usage).split()
        if words:
            shown = " ".join(_shown_words(words))
            _say(f"{shown if shown.startswith('Usage:') else f'Usage: {shown}'}\n")

    def render_description(self, console: "Console", options: "ConsoleOptions", description: Any) -> None:  # noqa: ARG002
        """Print the description in paragraphs."""
        line_width = _line_width()
        for paragraph in _text(description).split("\n\n"):
            if paragraph.strip():
                _say(wrapped(" ".join(paragraph.split()), line_width) + "\n")


def _shown_words(words: list[str]) -> list[str]:
    """Return the words of a usage line with the names of the arguments."""
    many = next((repeated for word, repeated in _MANY.items() if word in words), "NAME...")
    optional = next((argument for word, argument in _OPTIONAL.items() if word in words), "[NAME]")
    if "[ARGS...]" in words and "COMMAND" in words:
        words = [word for word in words if word != "COMMAND"]
    return [{"[ARGS...]": many, "[ARGS]": optional, "STR": "TEXT"}.get(word, word) for word in words]


def _line_width() -> int:
    return min(screen().width or _WIDTH_MAX, _WIDTH_MAX)


def _entry(label: str, meaning: str, width: int, line_width: int) -> list[str]:
    indent = " " * (2 + width + _GAP)
    lines = wrapped(meaning, line_width, indent).split("\n") if meaning else [""]
    if cells(label) > width:
        return [f"  {label}", *(lines if meaning else [])]
    return [f"  {label}{lines[0][2 + cells(label) :]}".rstrip(), *lines[1:]]


def _label(entry: "HelpEntry") -> str:
    options = ", ".join(entry.positive_shorts + entry.positive_names + entry.negative_names)
    return entry.positional_label or options


def _meaning(entry: "HelpEntry") -> str:
    meaning = " ".join(_text(entry.description).split())
    choices = [str(choice) for choice in entry.choices or ()]
    if any(choice not in re.findall(r"\w+", meaning) for choice in choices):
        meaning += f" One of {', '.join(choices)}."
    default = str(entry.default) if entry.default is not None else ""
    if default and "efault" not in meaning and default not in ("False", "True", "()", '""'):
        meaning += f" By default {default}."
    return meaning.strip()


def _text(text: Any) -> str:
    """Return a text of cyclopts or rich without its markup."""
    bare = getattr(text, "primary_renderable", text)
    return "" if bare is None else str(getattr(bare, "plain", bare))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
