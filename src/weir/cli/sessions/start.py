"""Find or queue the workload of a session, and wait until it runs."""

import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from weir.cli.options.mistakes import WrongOption, option_mistakes
from weir.cli.options.refusals import named
from weir.cli.output.formatting import counted, number, sentence
from weir.cli.output.outputs import ProjectOption
from weir.cli.output.terminal import plain, say
from weir.cli.pool.connect import report_outage
from weir.cli.pool.default_project import default_project
from weir.cli.pool.watch import waited_out
from weir.cli.sessions.pod_entry import EntryRefused
from weir.cli.submissions.submit import in_options
from weir.cli.submissions.submit_options import PlacementOptions, WorkloadOptions
from weir.client.errors import Refused
from weir.client.outage import ServerOutage

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.api.sessions import SessionKind
    from weir.client.api import Pool


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """Workload of a session that is queued if there is none of its name."""

    project: ProjectOption = None
    """Project whose quota a new workload uses; $WEIR_PROJECT if left out, or your only one."""
    workload: WorkloadOptions = WorkloadOptions()

    @property
    def placement(self) -> PlacementOptions:
        """Return the place where it runs."""
        return self.workload.placement

    @property
    def fields(self) -> dict[str, Any]:
        """Return the options that are given as fields of a submission, without variables.

        Raises:
            WrongOption: one can't be read.
        """
        with option_mistakes():
            stated = self.workload.stated()
        return stated if self.project is None else {**stated, "project": self.project}


KEEPS_RUNNING = ("sleep", "infinity")
"""Command of a session that people enter: it does nothing until the session is stopped."""
_LOOK_S_MIN, _LOOK_S_MAX = 0.02, 1.0
ENDED = ("succeeded", "failed", "stopped")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


def ssh_program() -> str:
    """Return the path of ssh.

    Raises:
        EntryRefused: it isn't installed.
    """
    program = shutil.which("ssh")
    if program is None:
        raise EntryRefused("ssh isn't installed: run `sudo apt install openssh-client`")
    return program


def default_name(user: str, kind: str) -> str:
    """Return the default name of a person's session, such as shell-mia."""
    return f"{kind}-{_NOT_IN_NAMES.sub('-', user.lower()).strip('-.') or 'me'}"


def live(pool: "Pool", name: str) -> "WorkloadDetail | None":
    """Return the live workload with a name; None if there is none, or it has ended."""
    detail = find_workload(pool, name)
    return None if detail is None or detail.status in ENDED else detail


def find_workload(pool: "Pool", name: str) -> "WorkloadDetail | None":
    """Return the workload of a name; None if there is none."""
    try:
        return pool.get(name)
    except Refused as refused:
        if refused.status != 404:
            raise
        return None


def submit_session(
    pool: "Pool",
    name: str,
    options: SessionOptions,
    command: Sequence[str] = KEEPS_RUNNING,
    kind: "SessionKind | None" = None,
) -> "WorkloadDetail":
    """Queue a session with the options of `weir submit`.

    Raises:
        EntryRefused: an option is missing or refused.
    """
    words: dict[str, Any] = {"type": "build", **options.fields, "name": name, "command": list(command)}
    words |= {} if kind is None else {"session": kind}
    if "project" not in words:
        words["project"] = session_project(pool, name)
    with option_mistakes():
        options.workload.add_variables(words, {}, is_local=pool.address.is_loopback)
    try:
        with named(name="NAME"):
            made = pool.submit(**words)
    except Refused as refused:
        raise EntryRefused(in_options(str(refused)).rstrip("."), 2 if refused.is_ours else 1) from None
    gpus = f"{number(made.devices)} GPU{'' if made.devices == 1 else 's'}"
    say(f"queued {made.name} in {made.project}: {counted(made.pods, 'pod')}, {gpus}")
    return made


def session_project(pool: "Pool", name: str) -> str:
    """Return the project of a new session without --project.

    Raises:
        EntryRefused: the person may submit to none or to several.
    """
    try:
        return default_project(pool, None, is_shown=True)
    except WrongOption as error:
        raise EntryRefused(f"there is no workload {name}, and {error}", 2) from None


def running(pool: "Pool", detail: "WorkloadDetail", *, is_new: bool) -> "WorkloadDetail":
    """Wait until a workload runs, and print the reason meanwhile.

    One that is new is stopped if the person stops waiting.

    Raises:
        EntryRefused: it ended.
        KeyboardInterrupt: the person stopped waiting.
    """
    previous, pause_s = "", _LOOK_S_MIN
    uid, outage = str(detail.uid), ServerOutage(report_outage, has_answered=True)
    with stopped_if_left(pool, detail, is_new=is_new):
        while detail.status != "running" or not any(row.status == "running" for row in detail.pod_rows):
            refuse_ended(detail)
            if pause_s > 4 * _LOOK_S_MIN:
                previous = say_reason(detail, previous)
            time.sleep(pause_s)
            pause_s = min(_LOOK_S_MAX, pause_s * 1.3)
            detail = waited_out(lambda: pool.get(uid), outage)
    return detail


@contextmanager
def stopped_if_left(pool: "Pool", detail: "WorkloadDetail", *, is_new: bool) -> Iterator[None]:
    """Stop a new workload if the person stops waiting for it within the block."""
    try:
        yield
    except KeyboardInterrupt:
        if is_new:
            pool.stop(detail.name)
            print(f"\n{detail.name} was stopped before you entered it.", file=sys.stderr)
        raise


def refuse_ended(detail: "WorkloadDetail") -> None:
    """Refuse the entry into a workload that is over.

    Raises:
        EntryRefused: the workload is over.
    """
    if detail.status in ENDED:
        why = "" if detail.reason is None else f": {plain(detail.reason.sentence)}"
        look = f"`weir logs {detail.name}` shows its output"
        raise EntryRefused(f"{detail.name} {detail.status}{why.rstrip('.')}; {look}")


def say_reason(detail: "WorkloadDetail", previous: str) -> str:
    """Print the reason of a pending workload unless it was printed last; return the last text."""
    if detail.status != "pending" or detail.reason is None:
        return previous
    return say_once(sentence(plain(detail.reason.sentence), detail.name), previous)


def say_once(text: str, previous: str) -> str:
    """Print a sentence unless it was printed last; return it."""
    if text != previous:
        say(text)
    return text


def say_stop(name: str) -> None:
    """Print how a session is stopped."""
    say(f"{name} runs until `weir stop {name}`")


def say_kept(name: str) -> None:
    """Print that options have no effect on a session that exists already."""
    print(f"{name} is there already: its options stay as they are.", file=sys.stderr)
