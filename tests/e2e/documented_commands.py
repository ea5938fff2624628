"""Read the commands of a page of the docs, and compare what they print in shape."""

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^ *```(?P<kind>\w*)")
_MARK = re.compile(r"^ *<!-- not run: (?P<reason>.+) -->$")
_FILE = re.compile(
    r"^ *<!-- file: (?P<name>\S+) -->\n *```\w+\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL
)
_READERS = ("you", "mia", "box")
"""Words of the pages that stand for a person or a machine."""
_WORD = (
    (re.compile(r"^[█▒·]+$"), "[█▒·]+"),
    (re.compile(r"^[a-z]+-(?=\w*\d)[a-z0-9]{5}$"), r"[\w-]+"),
    (re.compile(r"^weir_\.\.\.$"), r"weir_\S+"),
)


@dataclass(frozen=True, slots=True)
class Command:
    """Command of a page, its line number, and the output that the page shows."""

    line: int
    text: str
    output: str


@dataclass(frozen=True, slots=True)
class Block:
    """Block of commands; `reason` says why no test runs it."""

    line: int
    commands: tuple[Command, ...]
    reason: str | None


def files(page: Path) -> dict[str, str]:
    """Return the files that a page lets the reader write, by name: `<!-- file: NAME -->` before a block."""
    return {found["name"]: found["text"] for found in _FILE.finditer(page.read_text("utf-8"))}


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page that hold commands, in order."""
    found: list[Block] = []
    reason: str | None = None
    lines = _FILE.sub(_blank, page.read_text("utf-8")).splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            mark = _MARK.match(lines[at])
            if mark is not None or lines[at].strip():
                reason = None if mark is None else mark["reason"]
            at += 1
            continue
        end = next(to for to in range(at + 1, len(lines)) if lines[to].strip() == "```")
        if fence["kind"] in ("console", "bash"):
            commands = tuple(_commands(lines[at + 1 : end], at + 2, fence["kind"]))
            found.append(Block(at + 1, commands, reason))
        reason = None
        at = end + 1
    return found


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _commands(lines: list[str], first: int, kind: str) -> list[Command]:
    found: list[Command] = []
    for line, text in enumerate(lines, first):
        stripped = text.strip()
        if kind == "bash" and stripped and not stripped.startswith("#"):
            found.append(Command(line, stripped, ""))
        elif kind == "console" and stripped.startswith("$ "):
            found.append(Command(line, stripped[2:], ""))
        elif kind == "console" and found and found[-1].text.endswith("\\"):
            found[-1] = Command(found[-1].line, found[-1].text[:-1] + stripped, "")
        elif kind == "console" and found:
            last = found[-1]
            found[-1] = Command(last.line, last.text, f"{last.output}\n{text}")
    return found


def shape(output: str, *, is_complete: bool = False) -> re.Pattern[str]:
    """Return the pattern of an output: numbers, times, made-up names and spaces may differ.

    `...` and a word that ends in `…` stand for any further words, except in a suggested command.
    `is_complete`: the output ends where the page does.
    """
    words = [
        re.escape(word) if word == "..." and line.strip().startswith("weir submit ") else _pattern(word)
        for line in output.splitlines()
        for word in line.split()
    ]
    return re.compile(r"\s+".join(words) + (r"\s*\Z" if is_complete else ""), re.DOTALL)


def _pattern(word: str) -> str:
    if word == "...":
        return r".*?"
    if word.endswith("…"):
        return _pattern(word[:-1]) + ".*?"
    for kind, pattern in _WORD:
        if kind.match(word):
            return pattern
    if re.search(r"\d", word):
        word = re.sub(r"\d+[smhd](\d+[smh])?\b", "0t", word)
        return re.sub(r"[0-9]+(\\\.[0-9]+)?t?", _number, re.escape(word))
    parts = re.split(rf"\b({'|'.join(_READERS)})\b", word)
    return "".join(r"[\w.-]+" if part in _READERS else re.escape(part) for part in parts)


def _number(match: re.Match[str]) -> str:
    return r"[0-9][0-9smhd.]*" if match[0].endswith("t") else r"[0-9][0-9.,]*"
