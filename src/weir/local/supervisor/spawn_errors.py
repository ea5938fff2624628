"""Sentences for commands that can't be started, each with a correction.

Standard library only; runs in supervisors.
"""

from collections.abc import Sequence

_SHELL_WORDS = {"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1", "then", "do", "done", "fi"}
_SHELL_COMMANDS = {
    *("alias", "cd", "eval", "exec", "exit", "export", "for", "function", "if", "module", "nohup", "pushd"),
    *("set", "source", ".", "ulimit", "umask", "unset", "until", "while", "{", "("),
}
_SHELL_CHARACTERS = set(" \t\n|&;<>()$`*?~")
_SHOWN_MAX = 200


def not_found(command: Sequence[str]) -> str:
    """Return the sentence for a program that doesn't exist."""
    sentence = f"The program {_program(command)} was not found."
    return f"{sentence} {_advice(command)}"


def not_runnable(command: Sequence[str], problem: str) -> str:
    """Return the sentence for a program that exists and can't be executed."""
    sentence = f"The program {_program(command)} can't be run: {problem}."
    if looks_like_shell(command):
        return f"{sentence} {_advice(command)}"
    advice = "Make it executable with chmod +x, or write its interpreter first, such as python or bash."
    return f"{sentence} {advice}"


def bad_directory(problem: str) -> str:
    """Return the sentence for a working directory that can't be entered; its log names the directory."""
    return f"Its directory can't be used: {problem}. Name one that exists with --directory."


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
