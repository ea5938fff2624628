"""Command lines of Slurm, kubectl, Run:ai and Kueue, each with the command of Weir in its place."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from typing import Any

_TOOLS = ("kubectl", "kueuectl", "kueue", "runai", "scontrol", "sacctmgr")
_PROJECT_OPTIONS = ("-p", "--project", "-A", "--account")
_OTHER_OPTIONS = (
    *("-n", "--namespace", "-i", "--image", "-g", "--gpu", "--gpus"),
    *("-o", "--output", "-u", "-l", "-c"),
)
_WITH_VALUE = frozenset((*_PROJECT_OPTIONS, *_OTHER_OPTIONS))
"""Options whose values are no names of objects."""
_PLACE = re.compile(r"\b(?:NAME|PROJECT|PRIORITY|COMMAND)\b")


@cache
def _tables() -> dict[str, dict[str, Any]]:
    """Return the tables by name. They are read when a word may be another tool's: most commands need none."""
    from importlib.resources import files

    import yaml

    text = files(__package__).joinpath("other_tools.yaml").read_text("utf-8")
    tables = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    return {name: table if name == "commands" else _by_word(table) for name, table in tables.items()}


def _by_word(meanings: Mapping[str, str]) -> dict[str, Any]:
    """Return the meaning of each word."""
    return {word: meaning for meaning, words in meanings.items() for word in words.split()}


@dataclass(slots=True)
class _Meaning:
    """Meaning of a command line."""

    action: str | None = None
    kind: str | None = None
    name: str | None = None
    project: str | None = None
    priority: str | None = None
    command: Sequence[str] = ()
    read: list[str] = field(default_factory=list)  # the words that have the meaning


def right_command(words: Sequence[str]) -> tuple[str, str] | None:
    """Return the part of a command line that another tool has, and the command of Weir; None for others."""
    spoken = list(takewhile(lambda word: word != "--", words))
    pairs = zip(["", *spoken], spoken, strict=False)
    plain = [word for before, word in pairs if not word.startswith("-") and before not in _WITH_VALUE]
    command = words[len(spoken) + 1 :]
    tools = list(takewhile(lambda word: word in _TOOLS, plain))
    rest = plain[len(tools) :]
    if tools and not rest:
        return " ".join(tools), "weir --help"
    first = rest[0] if rest else ""
    if first in _tables()["lines"]:
        line = _tables()["lines"]["salloc" if "--pty" in spoken else first]
        is_bare = spoken[:1] == [first] and not command and len(plain) == len(spoken)
        meaning = _Meaning(read=[first], project=_project(spoken), command=rest[1:] if is_bare else command)
        meaning.name = next(
            (word for word in rest[1:] if word not in _tables()["kinds"] and "=" not in word), None
        )
        return _written(tools, meaning), _filled(line, meaning)
    meaning = _read(rest)
    meaning.project, meaning.command = meaning.project or _project(spoken), command
    if meaning.kind is None and meaning.action is None:
        return None
    if meaning.action in (None, "list", "show"):
        meaning.action = "list" if meaning.name is None else "show"
    if meaning.action == "delete" and meaning.read[:1] == ["stop"] and tools:
        meaning.action = "suspend"  # Kueue resumes what it stops
    if meaning.action == "create" and meaning.kind in (None, "workload") and (file := _file(spoken)):
        return _written(tools, meaning), f"weir submit -f {shlex.quote(file)}"
    usual = "node" if meaning.action in ("drain", "undrain") else "workload"
    line = _tables()["commands"][meaning.kind or usual].get(meaning.action, "")
    return (_written(tools, meaning), _filled(line, meaning)) if line else None


def job_of(words: Sequence[str]) -> str | None:
    """Return the job of an option of squeue and sacct; None without one."""
    return _option(words, ("-j", "--job", "--jobs"))


def is_kind(word: str) -> bool:
    """Return True if a word is a kind of object of Weir or of another tool, such as `jobs`."""
    return word[:1].isalpha() and _kind(word) is not None


def _read(words: Iterable[str]) -> _Meaning:
    """Return the meaning of words such as `describe job x` or `update NodeName=x State=drain`."""
    meaning = _Meaning()
    for word in words:
        key, parted, value = word.partition("=")
        key = key.lower()
        if parted:
            meaning.kind = meaning.kind or _tables()["keys"].get(key)
            if key == "state" and meaning.kind == "node":
                meaning.action = "undrain" if value.lower() in ("resume", "idle", "undrain") else "drain"
            elif key in ("account", "accounts", "project"):
                meaning.project = value
            elif key == "priority":
                meaning.priority = value
            elif key in _tables()["keys"] or key == "name":
                meaning.name = meaning.name or value
        elif meaning.name is not None or (meaning.action is not None and key in ("where", "set")):
            continue
        elif meaning.action is None and key in _tables()["actions"]:
            meaning.action = _tables()["actions"][key]
            meaning.read.append(word)
        elif (kind := _kind(key)) is not None:
            meaning.kind = kind
            meaning.read.append(word)
        else:
            meaning.name = word
    return meaning


def _kind(word: str) -> str | None:
    kinds: Mapping[str, str] = _tables()["kinds"]
    for ending in ("", "s", "es"):
        if word.endswith(ending) and (kind := kinds.get(word.removesuffix(ending))) is not None:
            return kind
    return None


def _project(words: Sequence[str]) -> str | None:
    return _option(words, _PROJECT_OPTIONS)


def _file(words: Sequence[str]) -> str | None:
    return _option(words, ("-f", "--filename"))


def _option(words: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the value of the first of these options; None without a value."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, _, value = word.partition("=")
        if option in names:
            return value or following or None
    return None


def _written(tools: Sequence[str], meaning: _Meaning) -> str:
    return " ".join((*tools, *meaning.read))


def _filled(line: str, meaning: _Meaning) -> str:
    """Return a command with the names that are known."""
    values = {"NAME": meaning.name, "PROJECT": meaning.project, "PRIORITY": meaning.priority}
    named = {word: shlex.quote(name) for word, name in values.items() if name is not None}
    if meaning.command:
        named["COMMAND"] = shlex.join(meaning.command)
    return _PLACE.sub(lambda place: named.get(place[0], place[0]), line)
