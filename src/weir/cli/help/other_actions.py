"""Words of other tools in place of a command of a group: `weir sweep remove`, where `delete` is meant.

A group with a command of its own, such as `weir sweep`, would take them for a name or for what to run.
"""

import shlex
from collections.abc import Sequence
from inspect import Parameter, signature

from cyclopts import App

from weir.cli.commands import SAME_ACTIONS
from weir.cli.options.mistakes import WrongOption


def refuse_other_action(root: App, words: Sequence[str]) -> None:
    """Refuse a word of another tool in place of a command of a group.

    Raises:
        WrongOption: there is such a word; the sentence has the right command.
    """
    group, at = root, 0
    while at < len(words) and words[at] in group and not words[at].startswith("-"):
        group, at = group[words[at]], at + 1
    actions = [name for name in group if not name.startswith("-")]
    if not at or not actions or at == len(words):
        return
    before, word, rest = words[:at], words[at], words[at + 1 :]
    kinds = _positional(group)
    if Parameter.POSITIONAL_ONLY in kinds and all(each.startswith("-") for each in rest):
        return  # a name
    same = [action for action in _same(word) if action in actions]
    if not same and word not in _meaning(group, kinds, actions):
        return
    if not same and not kinds and not "".join(rest[:1]).startswith("-"):
        rest = []  # the group takes no name
    right = " ".join(("weir", *before, *same[:1], *map(shlex.quote, rest)))
    raise WrongOption(f"`{' '.join(('weir', *before, word))}` is no command: write `{right}`")


def _same(word: str) -> list[str]:
    """Return the words with the meaning of one."""
    return [action for same in SAME_ACTIONS if word in same for action in same]


def _meaning(group: App, kinds: Sequence[object], actions: Sequence[str]) -> list[str]:
    """Return the words for the action of a group without a command: it creates, or it lists."""
    if group.default_command is None:
        return []
    if "list" in actions:
        return _same("add")
    return [*_same("list"), *(_same("show") if kinds else ())]


def _positional(group: App) -> list[object]:
    """Return the kinds of the arguments that a group takes without a command."""
    if group.default_command is None:
        return []
    kinds = (each.kind for each in signature(group.default_command).parameters.values())
    return [kind for kind in kinds if kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)]
