"""Parse the records of a start: its spec, its outcome, and the messages of its job.

A file may contain any bytes. Every value is checked for its type, range and length; the result is data or a
refusal with a name. No content of a file raises an exception.

Standard library only, and little of it: the interpreter that forks supervisors has to stay small.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from weir.local.files.job_files import UnreadableFile
from weir.model.plain_text import printable

Found = TypeVar("Found")
SAVED, REPORTED, RUNG = "checkpointed", "report", "rung"
FETCHES, BUSY = "fetches_image", "busy"
UMASK = 0o022
"""Default umask of jobs."""
NUMBER_MAX = 10**15
"""Limit of numbers of steps, seconds or bytes; some readers can't take larger ones."""
VALUES_MAX, NAME_MAX, SENTENCE_MAX = 64, 64, 500
_WORDS_MAX, _WORD_MAX, _DEVICES_MAX = 1 << 20, 1 << 24, 1 << 12
_CODE_MAX, _SIGNAL_MAX = 255, 64


class _InvalidRecord(ValueError):
    """A value has the wrong type, range or length."""


RESTARTS = "WEIR_RESTARTS"
"""Variable of a start with the number of starts of its pod before."""


class StartRecord(NamedTuple):
    """Order of a start, for its supervisor."""

    pod: tuple[str, int, int]
    start: int
    node: str
    devices: tuple[int, ...]
    at_s: float
    gang_rank: tuple[int, int, int]
    command: tuple[str, ...]
    directory: str
    grace_s: float
    log_max: int
    environment: dict[str, str]
    cgroups: tuple[tuple[str, dict[str, str], str], ...]
    umask: int
    boot_s: float = 0.0  # boot clock at `at_s`; 0: unknown
    boot: str = ""  # id of the machine's boot

    def now_s(self) -> float:
        """Return the time now on the server's timeline, counted from the writing of this spec."""
        return (
            self.at_s + time.clock_gettime(time.CLOCK_BOOTTIME) - self.boot_s if self.boot_s else time.time()
        )


class TimeBounds(NamedTuple):
    """Possible times of a start's messages: from its start until now. Jobs may have other clocks."""

    from_s: float
    until_s: float
    boot_s: float = 0.0  # boot clock at `from_s`; 0: unknown
    ahead_s: float = 0.0  # difference of the wall clock from the timeline

    def time_of(self, wall_s: float, boot_s: object) -> float:
        """Return the time of a message, by the boot clock if the job read it, else by the wall clock."""
        at_s = wall_s - self.ahead_s
        if self.boot_s and isinstance(boot_s, int | float) and _is_number(boot_s):
            at_s = self.from_s + boot_s - self.boot_s
        return max(self.from_s, min(at_s, self.until_s))


class ExitRecord(NamedTuple):
    """End of a start, as its supervisor or the pool wrote it."""

    at_s: float
    code: int | None = None
    signal: int | None = None
    stopped: bool = False
    lost: bool = False  # True: its supervisor was killed, or never started
    out_of_memory: bool = False
    memory_limit: int = 0  # bytes; 0: no limit below the machine's memory
    memory_peak: int = 0  # bytes; 0 if the kernel doesn't report it
    started_s: float | None = None
    cpu_s: float = 0.0
    max_rss: int = 0
    error: str | None = None


class RunningRecord(NamedTuple):
    """The process of a start."""

    supervisor: int
    leader: int
    leader_ticks: int | None
    started_s: float
    cgroups: tuple[str, ...]


class JobMessage(NamedTuple):
    """A message of a job: a checkpoint, progress, a rung, or a busy time (`why`, for `values["for_s"]`)."""

    kind: str
    at_s: float
    step: int | None = None
    values: Mapping[str, float] = MappingProxyType({})
    why: str = ""


def parse_start(text: bytes | UnreadableFile | None) -> StartRecord | UnreadableFile | None:
    """Parse a spec; None without a text."""
    return _record(text, "start.json", _start)


def parse_exit(text: bytes | UnreadableFile | None) -> ExitRecord | UnreadableFile | None:
    """Parse the record of an end; None without a text."""
    return _record(text, "exit.json", _exit)


def parse_running(text: bytes | UnreadableFile | None) -> RunningRecord | UnreadableFile | None:
    """Parse the record of a running process; None without a text."""
    return _record(text, "running.json", _running)


def parse_grace(text: bytes | UnreadableFile | None) -> float | None:
    """Parse the grace period of a stop request; None if there is none."""
    grace_s = _record(text, "stop.json", lambda record: _number(record, "grace_s"))
    return grace_s if isinstance(grace_s, float) else None


def parse_message(line: bytes, span: TimeBounds) -> JobMessage | None:
    """Parse a message of a job; None if it is invalid. Its time is clamped to the bounds."""
    message = _record(line, "", lambda record: _note(record, span))
    return message if isinstance(message, JobMessage) else None


def parse_object(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a text; None if the text isn't a JSON object."""
    try:
        value = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _record(
    text: bytes | UnreadableFile | None, name: str, read: Callable[[dict[str, Any]], Found]
) -> Found | UnreadableFile | None:
    if text is None or isinstance(text, UnreadableFile):
        return text
    record = parse_object(text)
    if record is None:
        return UnreadableFile(name, "is not a JSON object")
    try:
        return read(record)
    except _InvalidRecord as refusal:
        return UnreadableFile(name, str(refusal))


# Readers of each type of record


def _start(record: dict[str, Any]) -> StartRecord:
    pod, gang_rank = _list(record, "pod", 3), _list(record, "seat", 3)
    command = _texts(record.get("command"), "command")
    if not command:
        raise _InvalidRecord("has no command")
    return StartRecord(
        (_text(pod[0], "pod"), _whole(pod[1], "pod", NUMBER_MAX), _whole(pod[2], "pod", NUMBER_MAX)),
        _whole(record.get("start"), "start", NUMBER_MAX),
        _text(record.get("node"), "node"),
        _devices(record.get("devices")),
        _number(record, "at_s"),
        (
            _whole(gang_rank[0], "seat", NUMBER_MAX),
            _whole(gang_rank[1], "seat", NUMBER_MAX),
            _whole(gang_rank[2], "seat", 65535),
        ),
        command,
        _text(record.get("directory"), "directory"),
        _number(record, "grace_s"),
        _whole(record.get("log_max"), "log_max", 1 << 62),
        _words(record.get("environment"), "environment"),
        tuple(_group(group) for group in _items(record.get("cgroups"), "cgroups", 16)),
        _whole(record.get("umask", UMASK), "umask", 0o777),
        _number(record, "boot_s") if "boot_s" in record else 0.0,
        _text(record.get("boot", ""), "boot"),
    )


def _exit(record: dict[str, Any]) -> ExitRecord:
    code, signal, error = record.get("code"), record.get("signal"), record.get("error")
    started_s = record.get("started_s")
    return ExitRecord(
        _number(record, "at_s"),
        None if code is None else _whole(code, "code", _CODE_MAX),
        None if signal is None else _whole(signal, "signal", _SIGNAL_MAX),
        _flag(record, "stopped"),
        _flag(record, "lost"),
        _flag(record, "out_of_memory"),
        _whole(record.get("memory_limit", 0), "memory_limit", 1 << 62),
        _whole(record.get("memory_peak", 0), "memory_peak", 1 << 62),
        None if started_s is None else _number(record, "started_s") or None,
        _number(record, "cpu_s") if "cpu_s" in record else 0.0,
        _whole(record.get("max_rss", 0), "max_rss", 1 << 62),
        None if error is None else printable(_text(error, "error"), SENTENCE_MAX),
    )


def _running(record: dict[str, Any]) -> RunningRecord:
    ticks = record.get("leader_ticks")
    return RunningRecord(
        _whole(record.get("supervisor"), "supervisor", 1 << 31),
        _whole(record.get("leader"), "leader", 1 << 31),
        None if ticks is None else _whole(ticks, "leader_ticks", 1 << 62),
        _number(record, "started_s"),
        _texts(record.get("cgroups"), "cgroups"),
    )


def _note(record: dict[str, Any], span: TimeBounds) -> JobMessage:
    kind, step, values = record.get("kind"), record.get("step"), record.get("values")
    if kind not in (SAVED, REPORTED, RUNG, FETCHES, BUSY):
        raise _InvalidRecord("has an unknown kind")
    numbers: dict[str, float] = {}
    for name, value in list(values.items())[:VALUES_MAX] if isinstance(values, dict) else ():
        if _is_number(value) and name.isprintable():
            numbers[name[:NAME_MAX]] = float(value)
    is_step = isinstance(step, int) and not isinstance(step, bool) and abs(step) <= NUMBER_MAX
    at_s = span.time_of(_number(record, "at_s"), record.get("boot_s"))
    why = record.get("why") if kind == BUSY else None
    reason = printable(why, NAME_MAX) if isinstance(why, str) else ""
    return JobMessage(kind, at_s, step if is_step else None, numbers, reason)


# Values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a name is there twice")
    return record


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _is_number(value: object) -> bool:
    """Return True for a finite number; an integer may be too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -1e300 <= value <= 1e300


def _number(record: dict[str, Any], name: str) -> float:
    value = record.get(name)
    if not _is_number(value):
        raise _InvalidRecord(f"needs a number as {name}")
    assert isinstance(value, int | float)
    if not 0 <= value <= NUMBER_MAX:
        raise _InvalidRecord(f"has {name} out of range")
    return float(value)


def _whole(value: object, name: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise _InvalidRecord(f"needs an integer from 0 to {most} as {name}")
    return value


def _flag(record: dict[str, Any], name: str) -> bool:
    value = record.get(name, False)
    if not isinstance(value, bool):
        raise _InvalidRecord(f"needs true or false as {name}")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > _WORD_MAX:
        raise _InvalidRecord(f"needs a text as {name}")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise _InvalidRecord(f"has half of a surrogate pair in {name}") from None
    return value


def _items(value: object, name: str, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise _InvalidRecord(f"needs a list of at most {most} as {name}")
    return value


def _list(record: dict[str, Any], name: str, length: int) -> list[Any]:
    value = _items(record.get(name), name, length)
    if len(value) != length:
        raise _InvalidRecord(f"has no {length} values as {name}")
    return value


def _texts(value: object, name: str) -> tuple[str, ...]:
    return tuple(_text(word, name) for word in _items(value, name, _WORDS_MAX))


def _words(value: object, name: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _InvalidRecord(f"needs an object as {name}")
    return {_text(key, name): _text(text, name) for key, text in value.items()}


def _devices(value: object) -> tuple[int, ...]:
    devices = tuple(
        _whole(device, "devices", _DEVICES_MAX) for device in _items(value, "devices", _DEVICES_MAX)
    )
    if len(set(devices)) < len(devices):
        raise _InvalidRecord("lists a device twice")
    return devices


def _group(value: object) -> tuple[str, dict[str, str], str]:
    parts = _items(value, "cgroups", 3)
    if len(parts) < 3:
        raise _InvalidRecord("has no three values as cgroups")
    return _text(parts[0], "cgroups"), _words(parts[1], "cgroups"), _text(parts[2], "cgroups")
