"""Checks of an installation's options: a person applies the output to a cluster without reading it."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from weir.kubernetes.api.managed_namespaces import ManagedNamespaces
    from weir.kubernetes.crd.without_project import WithoutProject

from weir.cli.options.mistakes import option_mistakes
from weir.model.resources import seconds

T = TypeVar("T")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_IMAGE = re.compile(
    r"[A-Za-z0-9][\w.:/-]*?(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?", re.ASCII
)  # as strict as needed to find typing errors in a digest
_KEY = re.compile(r"([a-z0-9][-a-z0-9.]{0,251}[a-z0-9]/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)
_VALUE = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?", re.ASCII)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def without_project(action: str, selector: str | None, exempt: Sequence[str]) -> "WithoutProject":
    """Return the rule for namespaces without a project.

    Raises:
        WrongOption: an option has a mistake.
    """
    from weir.kubernetes.crd.without_project import read_rule

    with option_mistakes():
        chosen = {} if selector is None else one("--without-project-in", labels, selector)
        left_out = distinct("--without-project-exempt", namespace, exempt)
        return one("--without-project", lambda text: read_rule(text, chosen, left_out), action)


def managed_namespaces(names: Sequence[str] | None) -> "ManagedNamespaces":
    """Return the managed namespaces; all of them for None.

    Raises:
        WrongOption: a name is none.
    """
    from weir.kubernetes.api.managed_namespaces import ManagedNamespaces

    with option_mistakes():
        if names is None:
            return ManagedNamespaces()
        if not names:
            raise ValueError("--managed-namespaces: no name is given: write one, or leave it out for all")
        return ManagedNamespaces(tuple(sorted(distinct("--managed-namespaces", _managed, names))))


def _managed(text: str) -> str:
    from weir.kubernetes.crd.without_project import SYSTEM_NAMESPACES

    if text in SYSTEM_NAMESPACES:
        raise ValueError(f"{text} is a namespace of the system, in which Weir binds no pod: leave it out")
    return namespace(text)


def one(flag: str, check: Callable[[str], T], text: str) -> T:
    """Return the checked value of an option's text; a mistake names the flag."""
    try:
        return check(text)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None


def if_given(flag: str, check: Callable[[str], str], text: str | None) -> str:
    """Return the checked value of an option's text; an empty text if the option isn't given."""
    return "" if text is None else one(flag, check, text)


def like(flag: str, form: re.Pattern[str], text: str, example: str) -> str:
    """Return a text of this form; a mistake names the flag and an example."""
    if not form.fullmatch(text):
        raise ValueError(f"{flag}: {text!r} can't be used: write one such as {example}")
    return text


def distinct(flag: str, check: Callable[[str], str], texts: Sequence[str]) -> tuple[str, ...]:
    """Return the checked value of each text of an option, without repetitions."""
    return tuple(dict.fromkeys(one(flag, check, text) for text in texts))


def namespace(text: str) -> str:
    """Return the name of a namespace."""
    if not _NAMESPACE.fullmatch(text):
        raise ValueError(f"{text!r} is no namespace: write small letters, digits and dashes, at most 63")
    return text


def scheduler(text: str) -> str:
    """Return the name of a scheduler."""
    if not _is_name(text):
        raise ValueError(f"{text!r} is no name of a scheduler: write small letters, digits, dashes and dots")
    return text


def name(text: str) -> str:
    """Return the name of an object."""
    if not _is_name(text):
        raise ValueError(f"{text!r} is no name: write small letters, digits, dashes and dots")
    return text


def image(text: str) -> str:
    """Return the name of an image."""
    if not _IMAGE.fullmatch(text):
        raise ValueError(f"{text!r} is no image: write NAME:TAG or NAME@sha256: and 64 digits of hexadecimal")
    return text


def amounts(text: str) -> dict[str, str]:
    """Return amounts of resources by name, written as cpu=500m,memory=512Mi."""
    pairs = _pairs(text, "cpu=500m,memory=512Mi")
    for key, value in pairs.items():
        if not _AMOUNT.fullmatch(value):
            raise ValueError(f"{value!r} is no amount of {key}: write a number such as 500m, 4 or 2Gi")
    return pairs


def labels(text: str) -> dict[str, str]:
    """Return labels by key, written as KEY=VALUE,KEY=VALUE."""
    pairs = _pairs(text, "KEY=VALUE")
    for value in pairs.values():
        _label_value(value)
    return pairs


def span(text: str) -> str:
    """Return a duration, from a text such as 5m."""
    if seconds(text) < 0:
        raise ValueError(f"{text!r} is negative: write a span such as 5m")
    return text


def toleration(text: str) -> dict[str, str]:
    """Return a toleration, written as KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT."""
    rest, _, effect = text.partition(":")
    key, has_value, value = rest.partition("=")
    if not _KEY.fullmatch(key):
        raise ValueError(f"{text!r} is no taint: write KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT")
    if effect and effect not in _EFFECTS:
        raise ValueError(f"{effect!r} is no effect of a taint: write one of {', '.join(_EFFECTS)}")
    fields = {"key": key, "operator": "Equal" if has_value else "Exists"}
    if has_value:
        fields["value"] = _label_value(value)
    return {**fields, **({"effect": effect} if effect else {})}


def _pairs(text: str, like: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in text.split(","):
        key, is_pair, value = part.strip().partition("=")
        if not is_pair or not _KEY.fullmatch(key) or key in pairs:
            raise ValueError(f"{part!r} can't be used: write {like}, each name once")
        pairs[key] = value
    return pairs


def _label_value(text: str) -> str:
    if not _VALUE.fullmatch(text):
        raise ValueError(f"{text!r} is no value of a label: write letters, digits, dashes, dots, at most 63")
    return text


def _is_name(text: str) -> bool:
    return len(text) <= 253 and all(_NAMESPACE.fullmatch(part) for part in text.split("."))
