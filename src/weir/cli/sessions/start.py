"""Start of a session: the workload of a name, made if there is none, once it runs."""

import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weir.cli.formatting import counted, number, sentence
from weir.cli.pod_entry import EntryRefused
from weir.cli.submit import in_options
from weir.cli.submit_options import EnvironmentOptions, environment_of
from weir.cli.terminal import plain, screen
from weir.client.errors import Refused

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.api.sessions import SessionKind
    from weir.client.api import Pool

KEEPS_RUNNING = ("sleep", "infinity")
"""Command of a session that people enter: it holds the devices until the session is stopped."""
_LOOK_S_MIN, _LOOK_S_MAX = 0.02, 1.0
_ENDED = ("succeeded", "failed", "stopped")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


def default_name(user: str, kind: str) -> str:
    """Return the name of a person's session for which they gave none, such as shell-mia."""
    return f"{kind}-{_NOT_IN_NAMES.sub('-', user.lower()).strip('-.') or 'me'}"


def live(pool: "Pool", name: str, *, over: bool = False) -> "WorkloadDetail | None":
    """Return the workload of a name unless there is none or it has ended. `over`: only one that has ended."""
    try:
        detail = pool.get(name)
    except Refused as refused:
        if refused.status != 404:
            raise
        return None
    return detail if (detail.status in _ENDED) is over else None


def submit_session(
    pool: "Pool",
    name: str,
    options: Mapping[str, Any],
    environment: EnvironmentOptions,
    command: Sequence[str] = KEEPS_RUNNING,
    kind: "SessionKind | None" = None,
) -> "WorkloadDetail":
    """Queue a session with the options of `weir submit`.

    Raises:
        EntryRefused: an option is missing or refused.
    """
    words: dict[str, Any] = {"type": "build", **options, "name": name, "command": list(command)}
    words |= {} if kind is None else {"session": kind}
    if "project" not in words:
        if not os.environ.get("WEIR_PROJECT"):
            missing = "no project is named: write -p PROJECT; `weir project list` shows which there are"
            raise EntryRefused(f"there is no workload {name}, and {missing}", 2)
        words["project"] = os.environ["WEIR_PROJECT"]
    inherits = pool.address.is_loopback and "image" not in words
    if env := environment_of(environment, {}, inherits=inherits):
        words["env"] = env
    try:
        made = pool.submit(**words)
    except Refused as refused:
        raise EntryRefused(in_options(str(refused)).rstrip("."), 2 if refused.is_ours else 1) from None
    gpus = f"{number(made.devices)} GPU{'' if made.devices == 1 else 's'}"
    _say(f"queued {made.name} in {made.project}: {counted(made.pods, 'pod')}, {gpus}")
    return made


def running(
    pool: "Pool",
    detail: "WorkloadDetail",
    *,
    is_new: bool,
    starting: "Callable[[WorkloadDetail], str]" = lambda _: "",
) -> "WorkloadDetail":
    """Wait until a workload runs, and say meanwhile why it doesn't.

    One that is new is stopped if the person stops waiting. `starting` returns what a placed workload waits
    for; it may refuse.

    Raises:
        EntryRefused: it ended.
        KeyboardInterrupt: the person stopped waiting.
    """
    said, pause_s = "", _LOOK_S_MIN
    try:
        while detail.status != "running" or not any(row.status == "running" for row in detail.pod_rows):
            if detail.status in _ENDED:
                raise EntryRefused(_ended(detail))
            if awaited := starting(detail):
                said = _say_once(awaited, said)
            elif detail.status == "pending" and detail.reason is not None and pause_s > 4 * _LOOK_S_MIN:
                said = _say_once(sentence(plain(detail.reason.sentence), detail.name), said)
            time.sleep(pause_s)
            pause_s = min(_LOOK_S_MAX, pause_s * 1.3)
            detail = pool.get(_reference(pool, detail))
    except KeyboardInterrupt:
        if is_new:
            pool.stop(detail.name)
            print(f"\n{detail.name} is stopped, before it was entered.", file=sys.stderr)
        raise
    return detail


def _reference(pool: "Pool", detail: "WorkloadDetail") -> str:
    """Return the name of exactly this workload: its number, which a cluster doesn't look up."""
    return detail.name if pool.address.is_cluster else str(detail.uid)


def _ended(detail: "WorkloadDetail") -> str:
    why = "" if detail.reason is None else f": {plain(detail.reason.sentence)}"
    look = f"`weir logs {detail.name}` shows its output"
    return f"{detail.name} {detail.status}{why.rstrip('.')}; {look}"


def _say_once(text: str, said: str) -> str:
    if text != said:
        _say(text)
    return text


def _say(text: str) -> None:
    print(screen(sys.stderr).paint(plain(text), "quiet"), file=sys.stderr, flush=True)
