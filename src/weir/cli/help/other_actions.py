"""Refusals of wrong words in place of a name or of a command to run, with the right command.

Wrong words are those of other tools, such as `weir sweep cancel`, misspelled ones, and words before the -- of
a command to run.
"""

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from inspect import Parameter, signature

from cyclopts import App, CycloptsError, UnknownOptionError, UnusedCliTokensError

from weir.cli.commands import COMMANDS, SAME_ACTIONS
from weir.cli.help.other_tools import is_kind, job_of, right_command
from weir.cli.options.mistakes import WrongOption

_RUN_LATER = ("submit", "sweep", "schedule")


def refuse_other_action(root: App, words: Sequence[str]) -> None:
    """Refuse a word of another tool in place of a command of a group.

    Raises:
        WrongOption: a word is one of another tool; the sentence has the right command.
    """
    if words[0] == "list" and is_kind("".join(words[1:2])) and "--indices" not in words:
        _refuse(words)
    group, position = root, 0
    while position < len(words) and words[position] in group and not words[position].startswith("-"):
        group, position = group[words[position]], position + 1
    actions = [name for name in group if not name.startswith("-")]
    if not position or not actions or position == len(words) or words[position].startswith("-"):
        return
    before, word, rest = words[:position], words[position], words[position + 1 :]
    kinds = _positional(group)
    same = [action for action in _same(word) if action in actions]
    after = [action for action in (*rest[:1], *_same("".join(rest[:1]))) if action in actions]
    if Parameter.POSITIONAL_ONLY in kinds and all(argument.startswith("-") for argument in rest):
        return  # a name
    if not same and after:  # a name before the action
        right = (*before, after[0], word, *rest[1:])
    elif same or word in _meaning(group, kinds, actions):
        takes_names = same or kinds or "".join(rest[:1]).startswith("-")
        right = (*before, *same[:1], *(rest if takes_names else ()))
    elif word in _same("show") and "list" in actions:
        right = (*before, "list")
    elif meant := _misspelled(word, rest, kinds, actions):
        right = (*before, meant, *rest)
    elif "show" in actions and group.default_command is not None and not kinds and not rest:
        right = (*before, "show", word)
    else:
        return
    raise WrongOption(_no_command(shlex.join((*before, word)), shlex.join(("weir", *right))))


def refuse_words_before_command(root: App, words: Sequence[str]) -> None:
    """Refuse words before the -- of a command to run: they would become its first words.

    Raises:
        WrongOption: words are before the --.
    """
    if words[0] not in _RUN_LATER or "--" not in words:
        return
    _, bound, _ = root.parse_args(words, print_error=False, exit_on_error=False)
    command = bound.arguments.get("command", ())
    if before := command[: len(command) - len(words[words.index("--") + 1 :])]:
        raise WrongOption(f"{shlex.join(before)} is before --: write the whole command after it")


def _refuse(words: Sequence[str]) -> None:
    if (correction := right_command(words)) is not None:
        raise WrongOption(_no_command(*correction))


def other_tools_command(words: Sequence[str], error: CycloptsError) -> str | None:
    """Return a sentence with Weir's command for a command line of another tool; None for other lines."""
    is_known = any(command.name == words[0] for command in COMMANDS)
    if words[0] == "list" and isinstance(error, UnknownOptionError):
        job = job_of(words)
        name = "NAME" if job is None else shlex.quote(job)
        if "--start" in words:
            return f"`weir why {name}` says why a workload is pending, and what would let it start."
        if job is not None:
            return f"A single workload has a command of its own: write `weir describe {name}`."
    if is_known and not (isinstance(error, UnusedCliTokensError) and is_kind("".join(words[1:2]))):
        return None
    correction = right_command(words)
    return None if correction is None else f"{_no_command(*correction)}."


def _no_command(written: str, right: str) -> str:
    return f"`weir {written}` is no command: write `{right}`"


def _same(word: str) -> list[str]:
    """Return the words with the meaning of one."""
    return [action for same in SAME_ACTIONS if word in same for action in same]


def _meaning(group: App, kinds: Sequence[object], actions: Sequence[str]) -> list[str]:
    """Return the words for the action of a group without a command: it creates, or it lists."""
    if group.default_command is None:
        return []
    if "list" in actions:
        return [*_same("add"), *_same("begin")]
    return [*_same("list"), *(_same("show") if kinds else ())]


def _misspelled(
    word: str, rest: Sequence[str], kinds: Sequence[object], actions: Sequence[str]
) -> str | None:
    """Return the action that a word nearly is, where it would become the first word of a command to run.

    The answer is None without one.
    """
    options = {argument.partition("=")[0] for argument in rest}
    if Parameter.VAR_POSITIONAL not in kinds or {"--", "--param"} & options:
        return None
    return next(iter(get_close_matches(word, actions, 1)), None)


def _positional(group: App) -> list[object]:
    """Return the kinds of the arguments that a group takes without a command."""
    if group.default_command is None:
        return []
    kinds = (parameter.kind for parameter in signature(group.default_command).parameters.values())
    return [kind for kind in kinds if kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)]
