"""GPUs in the pod templates of an object of any kind that makes pods.

Kinds differ in where they have their templates, but a template looks the same everywhere. So the object is
searched, up to a number of values.
"""

from collections.abc import Callable, Mapping
from typing import Any

from weir.kubernetes.translate.annotations import POD_ANNOTATIONS
from weir.kubernetes.translate.quantities import exact

VALUES_MAX = 20_000
"""Limit of keys and list entries of one object that are searched; templates have some hundreds."""
_AMOUNTS = ("limits", "requests")
_WORDS = ("labels", "annotations")


def asks_for_gpus(body: Mapping[str, Any], is_device: Callable[[str], bool]) -> bool:
    """Return True if pods of this object will request devices, or a share of one."""
    left: list[Any] = [body]
    count = 0
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if _says_so(value, is_device):
                return True
            inside = list(value.values())
        else:
            inside = value
        count += len(inside)
        if count > VALUES_MAX:
            return False
        left += [child for child in inside if isinstance(child, dict | list)]
    return False


def _says_so(value: Mapping[str, Any], is_device: Callable[[str], bool]) -> bool:
    """Return True if this mapping, without those inside it, requests devices."""
    for part in _AMOUNTS:
        amounts = value.get(part)
        if isinstance(amounts, dict) and any(
            is_device(str(key)) and _is_some(amounts[key]) for key in amounts
        ):
            return True
    for part in _WORDS:
        words = value.get(part)
        if isinstance(words, dict) and not POD_ANNOTATIONS.isdisjoint(words):
            return True
    gpu = value.get("gpu")  # as a SparkApplication writes it
    return isinstance(gpu, dict) and is_device(str(gpu.get("name"))) and _is_some(gpu.get("quantity"))


def _is_some(amount: Any) -> bool:
    try:
        return exact(amount) > 0
    except (TypeError, ValueError, ArithmeticError):
        return False  # the API server refuses pods with such an amount
