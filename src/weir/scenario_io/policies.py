"""Reading of policies, and of other files of settings."""

from pathlib import Path as FilePath
from typing import TypeVar

from pydantic import BaseModel

from weir.model.policy import PRESETS, Policy
from weir.scenario_io.document import read_document, text_of
from weir.scenario_io.error_messages import nearest, validated
from weir.scenario_io.source_map import Mistakes

Settings = TypeVar("Settings", bound=BaseModel)


def read_policy(path: FilePath | str) -> Policy:
    """Return the policy of a file; an empty file is the default policy.

    Raises:
        InvalidFile: with all mistakes, or if it can't be opened.
    """
    return read_settings(Policy, path)


def read_settings(kind: type[Settings], path: FilePath | str) -> Settings:
    """Return the settings of a file; a setting that isn't in it has its default.

    Raises:
        InvalidFile: with all mistakes, or if it can't be opened.
    """
    mistakes = Mistakes(str(path))
    return _read(kind, text_of(path, mistakes), mistakes)


def parse_policy(text: str, file: str) -> Policy:
    """Return the policy of a text; mistakes name `file`.

    Raises:
        InvalidFile: with all mistakes.
    """
    return _read(Policy, text, Mistakes(file))


def named_policy(name: str) -> Policy:
    """Return the preset or the policy file of a name.

    Raises:
        InvalidFile: it can't be read.
    """
    path = FilePath(name)
    if path.name == name and not path.suffix and not _may_be_file(path):
        if name in PRESETS:
            return Policy.model_validate({"preset": name})
        mistakes = Mistakes(name)
        mistakes.on(0, f"is no preset and no file; {nearest(name, PRESETS)}")
        mistakes.refuse_if_any()
    return read_policy(path)


def _may_be_file(path: FilePath) -> bool:
    """Return True if a path exists and is no directory, as far as this process can see."""
    try:
        return path.exists() and not path.is_dir()
    except OSError:
        return False


def _read(kind: type[Settings], text: str, mistakes: Mistakes) -> Settings:
    raw = read_document(text, mistakes)
    return validated(kind, {} if raw is None else raw, mistakes)
