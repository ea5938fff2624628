"""`weir notify`: notifications of a person or a project, and where they go."""

import math
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from weir.cli.access.secret_input import read_secret
from weir.cli.options.mistakes import WrongOption, option_mistakes
from weir.cli.options.option_types import Switch
from weir.cli.options.refusals import named
from weir.cli.output.columns import Column
from weir.cli.output.formatting import counted, lasting, moment, sentence
from weir.cli.output.outputs import LimitOption, OutputOption, ProjectOption, show
from weir.cli.output.terminal import plain
from weir.cli.pool.connect import connect, refuse_on_cluster, report_outage
from weir.cli.pool.watch import waited_out
from weir.client.outage import ServerOutage

if TYPE_CHECKING:
    from weir.api.notifications import DeliveryRow, DesktopNotification, NotificationRow
    from weir.client import Pool

app = App(name="notify", help="Choose notifications by mail, a webhook or on the desktop.")

TopicWord = Literal["start", "end", "failure", "eviction", "idle", "warning", "quota", "maintenance"]
NotificationId = Annotated[str, Parameter(name="ID", help="Its ID in `weir notify list`.")]
LOOK_S = 5.0
"""Interval of checks for desktop messages."""
SHOW_S_MAX = 10.0


def _trouble(row: "NotificationRow") -> str:
    dropped = f"{counted(row.dropped, 'notification')} dropped: too many were pending." if row.dropped else ""
    return " ".join(filter(None, (sentence(row.trouble or ""), dropped)))


def _about(row: "DeliveryRow") -> str:
    return row.about if row.size == 1 else f"{row.about} and {row.size - 1} more"


RULES: "tuple[Column[NotificationRow], ...]" = (
    Column("ID", lambda row: row.name or str(row.id)),
    Column("OF", lambda row: f"project {row.project}" if row.project else row.user, least=8),
    Column("CHANNEL", lambda row: row.channel),
    Column("TO", lambda row: row.target, least=12),
    Column("ON", lambda row: ",".join(row.on), least=8),
    Column("QUIET", lambda row: row.quiet or "-", drop=3),
    Column("DIGEST", lambda row: lasting(row.digest_s) if row.digest_s else "-", drop=4),
    Column("PENDING", lambda row: str(row.pending), right=True, drop=2),
    Column("TROUBLE", _trouble, sentence=True, drop=1),
)
DELIVERIES: "tuple[Column[DeliveryRow], ...]" = (
    Column("MADE", lambda row: moment(row.made_s), drop=2),
    Column("ID", lambda row: row.name or str(row.rule)),
    Column("TO", lambda row: row.target, least=12),
    Column("STATE", lambda row: row.state),
    Column("ATTEMPTS", lambda row: str(row.attempts), right=True, drop=4),
    Column("ABOUT", _about, sentence=True),
    Column("ERROR", lambda row: sentence(row.error), sentence=True, drop=1),
)


@app.command
def add(
    channel: Literal["mail", "slack", "webhook", "desktop"],
    address: str = "",
    /,
    *,
    on: Annotated[Sequence[TopicWord], Parameter(consume_multiple=False, negative=())] = (),
    project: ProjectOption = None,
    quiet: str = "",
    digest: str | None = None,
    file: Path | None = None,
) -> int:
    """Add a notification about your work, or with --project about all work of a project.

    The address of a webhook is a secret: it is typed without echo, or read from the input or a file.

    Parameters
    ----------
    channel
        mail, slack (Slack, Mattermost and their like), webhook (signed JSON) or desktop.
    address
        The mail address. Leave it out for the others.
    on
        A topic: start, end, failure, eviction, idle, warning, quota (GPUs of the quota are returned) or
        maintenance. Repeat it for more topics; by default end, eviction and warning.
    project
        The project, for all of its work; its leads may do this.
    quiet
        Time of the day without messages, such as 22:00-07:00; they come when it ends.
    digest
        Collect notifications for this time into one message, such as 1h.
    file
        File with the address of a webhook.
    """
    if channel in ("slack", "webhook"):
        if address:
            raise WrongOption("other users can read addresses in the command line; write it to the input")
        with option_mistakes():
            address = read_secret("address of the webhook", file).strip()
    topics = list(on) or ["end", "eviction", "warning"]
    with connect() as pool, named(target="ADDRESS", quiet="--quiet", digest="--digest"):
        before = pool.notifications() if channel in ("mail", "desktop") else []  # the others hide a part
        made = pool.add_notification(channel, address, on=topics, project=project, quiet=quiet, digest=digest)
    name = made.name or str(made.id)
    print(f"Notification {name}: {', '.join(made.on)} to {made.target}.")
    if made.secret:
        print(f"Requests are signed with {made.secret}")
        print("It isn't shown again.")
    hint = "shows them" if channel == "desktop" else "sends a test"
    print(f"  weir notify {'watch' if channel == 'desktop' else f'test {name}'}  {hint}")
    for row in before:
        if both := _sent_twice(row, made):
            twin = row.name or str(row.id)
            print(
                f"Notification {twin} sends {both} there too: `weir notify delete {twin}`.", file=sys.stderr
            )
    if made.trouble:
        print(f"weir: nothing can be sent yet: {plain(made.trouble)}", file=sys.stderr)
    return 0


def _sent_twice(row: "NotificationRow", made: "NotificationRow") -> str:
    """Return the topics that two notifications send to one receiver."""
    receivers = [(rule.channel, rule.target, rule.project, rule.user) for rule in (row, made)]
    return ", ".join(topic for topic in made.on if topic in row.on) if receivers[0] == receivers[1] else ""


@app.command(name="list")
def list_(*, output: OutputOption = "table") -> int:
    """List your notifications, and those of projects that you lead."""
    with connect() as pool:
        rows = pool.notifications()
    show(rows, RULES, output, none="You have no notifications: `weir notify add mail ADDRESS` adds one.")
    return 0


@app.command
def delete(identifier: NotificationId, /) -> int:
    """Delete a notification, with everything that it would still send."""
    with connect() as pool, named(id="ID"):
        pool.delete_notification(identifier)
    print(f"Notification {plain(identifier)} is deleted.")
    return 0


@app.command
def test(identifier: NotificationId, /) -> int:
    """Send a test message now, and print the outcome."""
    with connect() as pool, named(id="ID"):
        outcome = pool.test_notification(identifier)
    print(f"{'Delivered' if outcome.delivered else 'Not delivered'}: {plain(outcome.sentence)}.")
    return 0 if outcome.delivered else 1


@app.command
def deliveries(
    *,
    failed: Switch = False,
    limit: LimitOption = 50,
    output: OutputOption = "table",
) -> int:
    """List messages, newest first: pending, delivered, or failed for good.

    Parameters
    ----------
    failed
        Only messages that aren't tried again.
    limit
        Maximum number of messages; 0 for all.
    """
    from itertools import islice

    with connect() as pool:
        rows = list(islice(pool.deliveries(states=["failed"] if failed else []), limit or None))
    show(rows, DELIVERIES, output, none="No message failed." if failed else "There are no messages yet.")
    return 0


@app.command
def watch() -> int:
    """Show messages on this desktop with notify-send, until interrupted.

    Without notify-send, messages are printed. `weir notify add desktop` chooses what to show.
    """
    refuse_on_cluster("notifications", "desktop")
    program = shutil.which("notify-send")
    if program is None:
        print("weir: there is no notify-send on this machine: messages are printed.", file=sys.stderr)
    with connect() as pool:
        if not any(row.channel == "desktop" for row in pool.notifications()):
            print("weir: you have no notification for the desktop: weir notify add desktop", file=sys.stderr)
            return 2
        outage = ServerOutage(report_outage, has_answered=True, patience_s=math.inf)
        while True:
            waited_out(lambda: _show_all(pool, program), outage, LOOK_S)
            time.sleep(LOOK_S)


def _show_all(pool: "Pool", program: str | None) -> None:
    for message in pool.desktop_notifications():
        _show(message, program)
        pool.confirm_notification(message.id)


def _show(message: "DesktopNotification", program: str | None) -> None:
    """Show a message, or print it if the desktop can't."""
    if program is not None:
        text = message.text.replace("&", "&amp;").replace("<", "&lt;")
        command = [program, "--app-name=weir", "--", message.subject, text]
        try:
            subprocess.run(command, check=True, timeout=SHOW_S_MAX, stderr=subprocess.DEVNULL)  # noqa: S603
        except (OSError, subprocess.SubprocessError):
            pass
        else:
            return
    print(message.text, flush=True)
