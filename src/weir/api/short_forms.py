"""Short forms of a submission, expanded to the long form.

Fields of a single group of pods may stand at the top, a command may be one text, and `run` holds a script
for bash.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

OF_PODS: Final[tuple[str, ...]] = (
    *("gpus", "devices", "gpu_memory", "gpu_models", "cpu", "memory"),
    *("resources", "node_selector", "nodes"),
)
"""Words of pods that may stand at the top of a submission."""
_SHELL_WORDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"})
_ELASTIC = re.compile(r"(\d{1,7}):(\d{1,7})", re.ASCII)
_SHOWN_MAX = 60


def gathered(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the submission with the pod fields moved under `pods`, and its script as a command.

    Raises:
        ValueError: something is written in two ways.
    """
    body = dict(fields)
    if "run" in body:
        _take_script(body)
    pods = {word: body.pop(word) for word in OF_PODS if word in body}
    pods |= _counts(body)
    if not pods:
        return body
    groups = body.get("pods", [{}])
    if not isinstance(groups, list) or len(groups) != 1 or not isinstance(groups[0], Mapping):
        first = next(iter(pods))
        raise ValueError(f"has {first} at its top and several groups under pods: write it in each group")
    for word in pods:
        if word in groups[0]:
            raise ValueError(f"has {word} at its top and under pods: write it once")
    body["pods"] = [{**groups[0], **pods}]
    return body


def words_of(command: Any) -> Any:
    """Return the words of a command that is one text, by the rules of a shell; a list as it is.

    Raises:
        ValueError: it is neither, the text can't be split, or only a shell can run it.
    """
    if isinstance(command, list | tuple):
        return command
    if not isinstance(command, str):
        right = "write a text in quotes, or [python, train.py]"
        raise ValueError(f"is neither a text nor a list: {right}")  # noqa: TRY004 - what pydantic takes
    shown = command if len(command) <= _SHOWN_MAX else f"{command[:_SHOWN_MAX]}..."
    try:
        words = shlex.split(command)
    except ValueError:
        message = f"{shown!r} has a quote that isn't closed: write the other quote, or a list of words"
        raise ValueError(message) from None
    if "\n" in command.strip() or not _SHELL_WORDS.isdisjoint(words):
        raise ValueError(f"{shown!r} needs a shell: write it as run, such as run: {shlex.quote(shown)}")
    return words


def _take_script(body: dict[str, Any]) -> None:
    script = body.pop("run")
    if "command" in body:
        raise ValueError("has both command and run: write one of them")
    if not isinstance(script, str) or not script.strip():
        raise ValueError("has a run that is not a text: write run: | and the lines of a script below it")
    body["command"] = ["bash", "-c", script]


def _counts(body: dict[str, Any]) -> dict[str, Any]:
    """Remove `workers` or `elastic`; return them as the counts of a group."""
    elastic = body.pop("elastic", None)
    if elastic is None:
        return {"count": body.pop("workers")} if "workers" in body else {}
    if "workers" in body:
        raise ValueError("has both workers and elastic: write one of them")
    match = _ELASTIC.fullmatch(elastic) if isinstance(elastic, str) else None
    if match is None:
        raise ValueError("has an elastic that isn't two numbers: write at least and at most, such as 2:8")
    return {"count": int(match[2]), "min": int(match[1])}
