"""The attacks by name, and how they call the C library."""

import ctypes
import os
from collections.abc import Callable
from typing import Any

ATTACKS: dict[str, Callable[[dict[str, Any]], object]] = {}
PTRACE_SEIZE = 0x4206
libc = ctypes.CDLL(None, use_errno=True)


def attack(function: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    """Add an attack under the name of its function."""
    ATTACKS[function.__name__] = function
    return function


def checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
