"""The terminal: its width, its colours, and text that fits it."""

import os
import shutil
import sys
import textwrap
import unicodedata
from dataclasses import dataclass
from typing import Literal, TextIO

Tone = Literal["plain", "quiet", "strong", "good", "busy", "bad"]
_CODES = {"quiet": "2", "strong": "1", "good": "32", "busy": "33", "bad": "31"}
_WIDTH_MIN = 20
_WIDE = ("W", "F")


@dataclass(frozen=True, slots=True)
class Screen:
    """Properties of an output. Files and programs have no `width`: nothing is shortened for them."""

    width: int | None
    height: int | None
    colour: bool

    def paint(self, text: str, tone: Tone) -> str:
        """Return the text in a tone, if the output has colours."""
        if not self.colour or tone == "plain" or not text:
            return text
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m"


def screen(stream: TextIO | None = None) -> Screen:
    """Return the properties of a stream; by default of the standard output."""
    out = sys.stdout if stream is None else stream
    if not out.isatty():
        columns = os.environ.get("COLUMNS", "")
        return Screen(max(_WIDTH_MIN, int(columns)) if columns.isdigit() else None, None, colour=False)
    size = shutil.get_terminal_size()
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Screen(max(_WIDTH_MIN, size.columns), size.lines, colour=colour)


def say(text: str) -> None:
    """Print a note on the error output."""
    print(screen(sys.stderr).paint(plain(text), "quiet"), file=sys.stderr, flush=True)


def has_person() -> bool:
    """Return True if a person types the input and sees the output."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def is_agreed(question: str) -> bool:
    """Ask a question on the terminal; return True for yes. Without a terminal the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def plain(text: str) -> str:
    """Return the text with unprintable characters escaped: they could control the terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def cells(text: str) -> int:
    """Return the width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(character) for character in text)


def _cells_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def shortened(text: str, width: int, *, middle: bool) -> str:
    """Return at most `width` columns of a text: without its middle if `middle`, else without its end."""
    if cells(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) // 2 if middle else 0
    start = _fitting(text, width - 1 - tail)
    end = _fitting(text[::-1], tail)[::-1]
    return f"{start if middle else start.rstrip()}…{end}"


def wrapped(text: str, width: int | None, indent: str = "") -> str:
    """Return a paragraph in indented lines that fit."""
    if width is None:
        return indent + text
    lines = textwrap.wrap(text, max(_WIDTH_MIN, width - len(indent)), break_on_hyphens=False)
    return "\n".join(indent + line for line in lines or [""])


def _fitting(text: str, width: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += _cells_of(character)
        if used > width:
            return text[:index]
    return text
