"""Sentences for commands that can't be started, each with a correction.

Standard library only; runs in supervisors.
"""

from collections.abc import Sequence
from typing import NamedTuple

_SHELL_WORDS = {"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1", "then", "do", "done", "fi"}
_SHELL_COMMANDS = {
    *("alias", "cd", "eval", "exec", "exit", "export", "for", "function", "if", "module", "nohup", "pushd"),
    *("set", "source", ".", "ulimit", "umask", "unset", "until", "while", "{", "("),
}
_SHELL_CHARACTERS = set(" \t\n|&;<>()$`*?~")
_SHOWN_MAX = 200


class SpawnError(NamedTuple):
    """A command that can't be started. `advice` is for its first start, `condition` for a later one."""

    problem: str
    advice: str
    condition: str = "It can start once that is fixed."


def not_found(command: Sequence[str]) -> SpawnError:
    """Return the sentences for a program that doesn't exist."""
    program = _program(command)
    problem = f"The program {program} was not found."
    return SpawnError(problem, _advice(command), f"It can start once {program} exists.")


def not_runnable(command: Sequence[str], problem: str) -> SpawnError:
    """Return the sentences for a program that exists and can't be executed."""
    program = _program(command)
    advice = "Make it executable with chmod +x, or write its interpreter first, such as python or bash."
    if looks_like_shell(command):
        advice = _advice(command)
    problem = f"The program {program} can't be run: {problem}."
    return SpawnError(problem, advice, f"It can start once {program} can be run.")


def bad_directory(directory: str, problem: str) -> SpawnError:
    """Return the sentences for a working directory that can't be entered."""
    shown = _shown(directory)
    problem = f"Its directory {shown} can't be used: {problem}."
    return SpawnError(
        problem, "Name one that exists with --directory.", f"It can start once {shown} can be used."
    )


def looks_like_shell(command: Sequence[str]) -> bool:
    """Return True if the words only make sense to a shell."""
    first = command[0]
    name, equals, _ = first.partition("=")
    return (
        first in _SHELL_COMMANDS
        or (bool(equals) and name.isidentifier())
        or not _SHELL_CHARACTERS.isdisjoint(first)
        or not _SHELL_WORDS.isdisjoint(command)
        or any(word.endswith(";") for word in command)
    )


def _advice(command: Sequence[str]) -> str:
    if looks_like_shell(command):
        return "No shell is used: write bash -c '...' around the whole line."
    return "Check its name and PATH, or write its whole path."


def _program(command: Sequence[str]) -> str:
    """Return the name of the program alone: people who may not see the command read reasons."""
    words = command[0].split()
    name, equals, _ = (words[0] if words else "").partition("=")
    return _shown(f"{name}=..." if equals else name)


def _shown(text: str) -> str:
    """Return a text that can do nothing to a terminal, shortened."""
    shown = "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text[:_SHOWN_MAX]
    )
    return shown if len(text) <= _SHOWN_MAX else f"{shown}..."
