"""Formats of names of Kubernetes: `format.named`, `format.dns1123Label` and the others, and `validate`."""

import re
from collections.abc import Callable
from datetime import date

from weir.kubernetes.claims.cel.overloads import Overload, Overloads
from weir.kubernetes.claims.cel.urls import is_url
from weir.kubernetes.claims.cel.values import NamedFormat, OptionalValue

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = re.compile(r"(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})([^\n][0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_LABEL_MAX = 63
_SUBDOMAIN_MAX = 253

Errors = list[str]


def _size(text: str) -> int:
    """Return the bytes of a text."""
    return len(text.encode(errors="replace"))


def _errors(text: str, pattern: re.Pattern[str], most: int, noun: str) -> Errors:
    errors = [f"must be no more than {most} bytes"] if _size(text) > most else []
    return errors if pattern.fullmatch(text) else [*errors, f"is no {noun}"]


def _label(text: str) -> Errors:
    noun = "DNS label but a subdomain" if _SUBDOMAIN.fullmatch(text) else "DNS label of RFC 1123"
    return _errors(text, _LABEL, _LABEL_MAX, noun)


def _label_1035(text: str) -> Errors:
    return _errors(text, _LABEL_1035, _LABEL_MAX, "DNS label of RFC 1035")


def _subdomain(text: str) -> Errors:
    return _errors(text, _SUBDOMAIN, _SUBDOMAIN_MAX, "DNS subdomain of RFC 1123")


def _qualified_name(text: str) -> Errors:
    *prefixes, name = text.split("/")
    if len(prefixes) > 1:
        return ["has more than one slash"]
    errors = (
        ["the prefix is empty"]
        if prefixes == [""]
        else [error for prefix in prefixes for error in _subdomain(prefix)]
    )
    if not name:
        return [*errors, "the name is empty", "the name has no character"]
    return errors + _errors(name, _NAME, _LABEL_MAX, "name of letters, digits, '-', '_' and '.'")


def _label_value(text: str) -> Errors:
    return _errors(text, _NAME, _LABEL_MAX, "value of a label") if text else []


def _prefix(check: Callable[[str], Errors]) -> Callable[[str], Errors]:
    """Return the check of the prefix of a generated name, whose last character may be a dash."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        date(year or 2000, month, day)  # Python has no year 0; it is a leap year, too
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    parts = text.lower().split("t")
    match = _TIME.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _check(is_valid: Callable[[str], object], noun: str) -> Callable[[str], Errors]:
    return lambda text: [] if is_valid(text) else [f"is no {noun}"]


_FORMATS: dict[str, Callable[[str], Errors]] = {
    "dns1123Label": _label,
    "dns1123Subdomain": _subdomain,
    "dns1035Label": _label_1035,
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _prefix(_label),
    "dns1123SubdomainPrefix": _prefix(_subdomain),
    "dns1035LabelPrefix": _prefix(_label_1035),
    "labelValue": _label_value,
    "uri": _check(is_url, "absolute URL or path"),
    "uuid": _check(_UUID.fullmatch, "UUID"),
    "byte": _check(_BASE64.fullmatch, "base64"),
    "date": _check(_is_date, "date"),
    "datetime": _check(_is_date_time, "time of RFC 3339"),
}


def _named(name: str) -> OptionalValue:
    return OptionalValue(NamedFormat(name), present=True) if name in _FORMATS else OptionalValue()


def _validate(named: NamedFormat, text: str) -> OptionalValue:
    """Return the faults of a text that doesn't have the format; empty if it has."""
    errors = _FORMATS[named.name](text)
    return OptionalValue(errors, present=True) if errors else OptionalValue()


FUNCTIONS: Overloads = {
    "format.named": (Overload((str,), _named),),
    **{f"format.{name}": (Overload((), lambda name=name: NamedFormat(name)),) for name in _FORMATS},
}
METHODS: Overloads = {"validate": (Overload((NamedFormat, str), _validate),)}
