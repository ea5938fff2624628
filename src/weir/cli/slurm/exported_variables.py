"""Variables that a job gets from the shell that submits it: `--export`.

A pool stores the variables of its workloads, so names that look secret aren't passed on by ALL.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weir.slurm.job_settings import FUNCTIONS

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FUNCTION = re.compile(r"BASH_FUNC_.+(?:%%|\(\))", re.ASCII)
_SECRET = re.compile(
    r"(?:^|_)(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)(?:$|_)",
    re.IGNORECASE,
)
_NOT_OURS = ("WEIR_", "SBATCH_", "SLURM_", "SLURMD_", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_OF_THIS_SHELL = ("PWD", "OLDPWD", "SHLVL", "_")


class ExportedVariables(NamedTuple):
    """Variables to pass on, and the names of those left out because they look secret."""

    variables: Mapping[str, str]
    secret: Sequence[str] = ()


def exported_variables(export: str | None, shell: Mapping[str, str]) -> ExportedVariables:
    """Return the variables of --export; without it all are passed on."""
    words = [word for word in ("ALL" if export is None else export).split(",") if word]
    if {"NONE", "NIL"} & set(words):
        return ExportedVariables({})
    stated = dict(word.partition("=")[::2] for word in words if "=" in word)
    named = {word: shell[word] for word in words if word in shell}
    exported: dict[str, str] = {}
    secret: list[str] = []
    if "ALL" in words:
        plain = {key: value for key, value in shell.items() if _NAME.fullmatch(key) and not _is_own(key)}
        secret = sorted(key for key in plain if _SECRET.search(key) and key not in (*stated, *named))
        exported = {key: value for key, value in plain.items() if key not in secret}
        functions = {key: value for key, value in shell.items() if _FUNCTION.fullmatch(key)}
        if functions:
            exported[FUNCTIONS] = json.dumps(functions)
    return ExportedVariables({**exported, **named, **stated}, secret)


def _is_own(name: str) -> bool:
    return name.startswith(_NOT_OURS) or name in _OF_THIS_SHELL
