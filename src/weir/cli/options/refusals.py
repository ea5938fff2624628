"""Refusals of a pool with options in place of fields: `--person-limit gpus` for `person_limits.gpus`."""

import re
from contextlib import AbstractContextManager

from weir.cli.options.mistakes import refusals_in

_AT_START = r"(?:(?<=^)|(?<=; ))"
_QUEUE_FIELD = re.compile(
    rf"{_AT_START}(quota|limit|weight|defaults|person_limits|person_limits_of|max_priority_of|times)"
    r"\.([^: ]+)(?=: )"
    rf"|{_AT_START}(max_priority|priority|department|parent|namespaces|quota|limit|weight)(?=: )"
)
_SWEEP_FIELD = re.compile(
    rf"{_AT_START}(?:params\.([^: ]+)|(rungs)(?:\[\d+\])?"
    r"|(trials|eta|metric|mode|sampler|seed|parallel|checkpoint_claim|arguments))(?=: )"
)
_OF_WORKLOAD = re.compile(rf"{_AT_START}workload\.(?=\w)(?:(\w+): (?=\1: ))?")
_OPTIONS = {
    "defaults": "default",
    "person_limits": "person-limit",
    "person_limits_of": "person-limit-of",
    "stop_grace": "grace",
    "namespaces": "namespace",
}


def named(**words: str) -> AbstractContextManager[None]:
    """Return a context that names fields in a refusal as the command line does: `named(cron="--cron")`."""
    fields = rf"{_AT_START}({'|'.join(words)})(?=: )"
    return refusals_in(lambda text: re.sub(fields, lambda match: words[match[1]], text))


def queue_options(text: str, *, gpus: bool) -> str:
    """Return a refusal with the options of a project or department; `gpus`: --gpus set its quota."""

    def option(match: re.Match[str]) -> str:
        field, key, alone = match.groups()
        if alone:
            return _flag(alone)
        if field == "times":
            return _flag(key)
        if field == "quota" and key == "gpu" and gpus:
            return "--gpus"
        if field == "person_limits_of":
            user, _, limit = key.rpartition(".")
            key = f"{user}:{limit}"
        return f"{_flag(field)} {key if field in ('quota', 'limit', 'weight') else key.replace('_', '-')}"

    return _QUEUE_FIELD.sub(option, text)


def sweep_options(text: str) -> str:
    """Return a refusal with the options of a sweep instead of its fields."""

    def option(match: re.Match[str]) -> str:
        param, rungs, field = match.groups()
        return f"--param {param}" if param else _flag(rungs or field)

    return _SWEEP_FIELD.sub(option, _OF_WORKLOAD.sub("", text))


def _flag(field: str) -> str:
    return f"--{_OPTIONS.get(field, field).replace('_', '-')}"
