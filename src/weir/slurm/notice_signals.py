"""Signals before the end: `--signal=B:USR1@120`."""

import re
import signal
from typing import NamedTuple

from weir.slurm.errors import SlurmError

LEAD_S = 60
_WRITTEN = re.compile(r"(?:([RB]{1,2}):)?([A-Za-z]+\d?|\d{1,2})(?:@(\d{1,5}))?", re.ASCII | re.IGNORECASE)
_LEAD_MAX_S = 65_535
_KNOWN = ("HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "USR1", "USR2", "CHLD", "CONT", "STOP")
_ALSO_KNOWN = ("TSTP", "TTIN", "TTOU", "URG", "XCPU", "PIPE")


class NoticeSignal(NamedTuple):
    """A signal that a job gets some time before its end; `to_shell`: the script alone gets it."""

    number: int
    lead_s: int = LEAD_S
    to_shell: bool = False


def read_signal(text: str) -> NoticeSignal:
    """Return the signal of --signal.

    Raises:
        SlurmError: the text names no signal.
    """
    match = _WRITTEN.fullmatch(text)
    number = None if match is None else _number(match[2])
    if match is None or number is None or int(match[3] or 0) > _LEAD_MAX_S:
        raise SlurmError(f"--signal={text}: write a signal and seconds, such as --signal=B:USR1@120")
    flags = (match[1] or "").upper()
    return NoticeSignal(number, int(match[3] or LEAD_S), "B" in flags)


def _number(text: str) -> int | None:
    if text.isdigit():
        return int(text) if 0 < int(text) < signal.NSIG else None
    name = text.upper().removeprefix("SIG")
    return getattr(signal, f"SIG{name}") if name in (*_KNOWN, *_ALSO_KNOWN) else None
