"""Values of secrets: a file for each project in the home, readable by the pool's user only.

Specs of starts name secrets; the supervisor reads their values here when it starts the process, and passes
them in its environment. No other file contains them. They aren't encrypted: the key would lie beside them,
and all jobs run as this user. Standard library only, since supervisors are forked with it.
"""

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress

DIRECTORY = "secrets"
VALUE_BYTES_MAX = 64 << 10
SECRETS_MAX = 500
"""Limit of secrets of one project."""
_FILE_BYTES_MAX = SECRETS_MAX * (6 * VALUE_BYTES_MAX + 1024)


class SecretNotSet(Exception):
    """A secret isn't set."""


class SecretFileDamaged(OSError):
    """A file of secrets is damaged."""


def file_of(home: str, project: str) -> str:
    """Return the path of a project's file."""
    return f"{home}/{DIRECTORY}/{project}.json"


def read(path: str) -> dict[str, dict[str, object]]:
    """Return the secrets in a project's file by name; nothing if there is no file.

    Raises:
        OSError: the file can't be read, or is damaged.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SecretFileDamaged(22, f"{path} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(_FILE_BYTES_MAX)
    try:
        secrets = json.loads(text)
        return {str(name): dict(secret) for name, secret in secrets.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise SecretFileDamaged(22, f"{path} is damaged: set the project's secrets again") from None


def values(path: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the values of secrets by the variables that get them.

    Raises:
        SecretNotSet: a secret isn't set.
        OSError: the file can't be read.
    """
    secrets = read(path)
    wanted = {}
    for variable, name in names.items():
        value = secrets.get(name, {}).get("value")
        if not isinstance(value, str):
            raise SecretNotSet(f"its secret {name} isn't set")
        wanted[variable] = value
    return wanted


def write(path: str, secrets: Mapping[str, Mapping[str, object]]) -> None:
    """Write a project's secrets atomically; without secrets, delete the file."""
    if not secrets:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    beside = f"{path}.new"
    with suppress(FileExistsError):
        os.mkdir(os.path.dirname(path), 0o700)
    with suppress(FileNotFoundError):
        os.unlink(beside)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(secrets, file)
            file.flush()
            os.fsync(descriptor)
        os.rename(beside, path)
    except OSError:
        with suppress(OSError):
            os.unlink(beside)
        raise
