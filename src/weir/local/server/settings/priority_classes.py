"""Priority classes of a pool: names for priorities, as `weir up --priority-class` sets them."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from weir.model.workloads import PRIORITY_CLASSES
from weir.scenario_io.scalars import PRIORITY_MAX

CLASSES_MAX: Final = 32
"""Limit of a pool's own classes, besides those that every pool has."""
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)


def read_classes(written: Sequence[str]) -> Mapping[str, int]:
    """Return all classes of a pool by name, from options such as `interactive=90`.

    Raises:
        ValueError: an option isn't a class; the message has an example.
    """
    classes = dict(PRIORITY_CLASSES)
    for text in written:
        name, _, number = text.partition("=")
        if not _NAME.fullmatch(name) or not _NUMBER.fullmatch(number) or abs(int(number)) > PRIORITY_MAX:
            raise ValueError(
                f"--priority-class: {text[:80]!r} is no class: write a name of small letters and a "
                "number, such as interactive=90"
            )
        if name in classes:
            problem = "has a fixed number in every pool" if name in PRIORITY_CLASSES else "is named twice"
            raise ValueError(f"--priority-class: {name} {problem}; write another name")
        classes[name] = int(number)
    if len(written) > CLASSES_MAX:
        raise ValueError(
            f"--priority-class: a pool has at most {CLASSES_MAX} classes of its own; leave some out"
        )
    return classes
