"""`weir install`: serve the GPUs of this machine to everyone on it."""

import os
import pwd
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weir.cli.install import plan
from weir.cli.install.homes import check_new_home
from weir.cli.install.host import Host, InstallFailed
from weir.cli.install.program import fingerprint, node_command, program_link, why_unsafe
from weir.cli.install.server_status import wait_for_pool
from weir.cli.install.settings import InstallSettings, chosen, recorded
from weir.cli.install.steps import Step
from weir.cli.install.unit import has_failed, is_running, last_lines, unit_text
from weir.cli.options.numbers import whole_number
from weir.cli.output.formatting import counted
from weir.cli.output.terminal import plain
from weir.client.errors import PoolError

_EVERYONES_PATH = "/usr/local/bin:/usr/bin:/bin"
_UID_MAX = 4_294_967_294
DryRunOption = Annotated[bool, Parameter(negative=(), help="Print what would be done, and do nothing.")]


def install(
    *options: str,
    user: str | None = None,
    home: Path | None = None,
    allow_group: str | None = None,
    uid_min: Annotated[int | None, whole_number(1, _UID_MAX)] = None,
    new_privileges: bool | None = None,
    dry_run: DryRunOption = False,
) -> int:
    """Install a pool for everyone on this machine, start it, and wait until it answers. It needs root.

    A second run changes nothing. After an update of the package it restarts the pool; jobs run on. Options
    that are left out stay as they were.

    Parameters
    ----------
    options
        Options of `weir up`, after --. They replace those of the last installation.
    user
        User that runs the server; it is created if it doesn't exist. By default weir.
    home
        Directory of the pool's state. By default /var/lib/weir.
    allow_group
        Unix group whose users may run jobs; by default every user.
    uid_min
        Least user id of people; accounts of the system are below it. By default 1000.
    new_privileges
        Let jobs gain privileges, as sudo and ping do.
    """
    host = Host()
    try:
        _check_options(options)
        settings = chosen(
            recorded(host),
            user=user,
            home=home,
            allow_group=allow_group,
            uid_min=uid_min,
            new_privileges=new_privileges,
            options=options,
        )
        installation = planned(settings, host)
        if dry_run:
            return show_plan(installation.steps, host)
        check_root()
        if not carry_out(installation.steps, host):
            print("Nothing to do: this machine is as it should be.")
    except (InstallFailed, OSError) as error:
        print(f"weir: {str(error).rstrip('.')}.", file=sys.stderr)
        return 1
    if installation.systemd is None:
        print(_without_systemd(node_command(settings)))
        return 0
    return _say_result(installation)


@dataclass(frozen=True, slots=True)
class PlannedInstallation:
    """Steps of an installation, and the facts that its messages need."""

    steps: list[Step]
    settings: InstallSettings
    systemd: int | None
    administrator: str | None


def planned(settings: InstallSettings, host: Host) -> PlannedInstallation:
    """Return the installation that the settings ask for.

    Raises:
        InstallFailed: it can't be done on this machine.
    """
    settings = plan.with_made_accounts(settings, host)
    administrator = _caller()
    if settings.user == administrator or host.user_id(settings.user) == 0:
        raise InstallFailed(
            f"--user: {settings.user} is a person or root, and the server needs a user of its own"
        )
    if settings.allow_group and not host.has_group(settings.allow_group):
        raise InstallFailed(f"--allow-group: this machine has no group {settings.allow_group}")
    unsafe = why_unsafe()
    if unsafe is not None:
        raise InstallFailed(unsafe)
    if recorded(host) is None:
        check_new_home(settings.home, host)
    version = host.systemd_version()
    command = node_command(settings)
    text = None if version is None else unit_text(command, settings.home, version, fingerprint())
    link = program_link()
    steps = plan.install_steps(
        settings,
        administrator=administrator,
        link=None if link is None or _is_found(link) else link,
        unit=text,
        running=version is not None and is_running(host),
    )
    return PlannedInstallation(steps, settings, version, administrator)


def check_root() -> None:
    """Check that the process has the rights of root.

    Raises:
        InstallFailed: another user runs the command.
    """
    if os.geteuid() != 0:
        raise InstallFailed(
            "it changes users, directories and a service, and needs root: use sudo, or --dry-run"
        )


def show_plan(steps: Sequence[Step], host: Host) -> int:
    """Print each step, marked as done or to do."""
    for step in steps:
        print(f"  {'done ' if step.is_done(host) else 'to do'}  {step}")
    return 0


def carry_out(steps: Sequence[Step], host: Host) -> bool:
    """Carry out and print the steps that aren't done; return True if there were any.

    Raises:
        InstallFailed: a step failed; those before it are done.
    """
    pending = False
    for step in steps:
        if not step.is_done(host):
            pending = True
            print(step, flush=True)
            step.do(host)
    return pending


def _check_options(options: Sequence[str]) -> None:
    """Refuse options that `weir up` doesn't have: the installed service would fail at its start.

    Raises:
        InstallFailed: an option is unknown, or is set by the installation itself.
    """
    from cyclopts import App, CycloptsError

    from weir.cli.server.up import up

    app = App(name="weir up")
    app.default(up)
    try:
        app.parse_args(list(options), print_error=False, exit_on_error=False)
    except CycloptsError as error:
        raise InstallFailed(f"options of `weir up`: {' '.join(str(error).split())}") from None
    if any(word.partition("=")[0] in ("--on", "--shared-account") for word in options):
        raise InstallFailed("--on and --shared-account are for other pools: leave them out")


def _caller() -> str | None:
    """Return the user who called sudo; None for root itself."""
    name = os.environ.get("SUDO_USER", "")
    try:
        return name if name and pwd.getpwnam(name).pw_uid != 0 else None
    except KeyError:
        return None


def _is_found(link: Path) -> bool:
    """Return True if everyone's shell finds this very program."""
    path = shutil.which("weir", path=_EVERYONES_PATH)
    return path is not None and Path(path) != plan.PROGRAM and Path(path).resolve() == link.resolve()


def _without_systemd(command: Sequence[str]) -> str:
    return (
        "systemd doesn't run this machine, so nothing was started. Have its init run this command as root, "
        f"and stop it with SIGTERM:\n  {shlex.join(command)}"
    )


def _say_result(installation: PlannedInstallation) -> int:
    host = Host()
    try:
        status = wait_for_pool(plan.SOCKET_DIRECTORY, lambda: has_failed(host))
    except PoolError:
        print("weir: The pool doesn't answer. The end of its log (journalctl -u weir):", file=sys.stderr)
        for line in last_lines(host).splitlines():
            print(f"  {plain(line)}", file=sys.stderr)
        return 1
    gpus = counted(status.devices, "virtual GPU" if status.virtual else "GPU")
    whom = (
        f"the group {installation.settings.allow_group}" if installation.settings.allow_group else "everyone"
    )
    print(f"\nWeir {status.version} serves {gpus} to {whom} on this machine.")
    print("\nNext:")
    gpu = " --gpus 1" if status.devices else ""
    print(f"  weir submit -p default{gpu} -- python3 train.py   as any user, without a token")
    print("  weir project create vision --gpus 4               as an administrator: a team with a quota")
    doctor = f"sudo {program_link() or 'weir'} doctor"
    print(f"  {doctor:<48}  problems of this machine")
    if installation.administrator is not None:
        print(
            f"\n{installation.administrator} is an administrator, as all members of {plan.ADMIN_GROUP} are."
        )
    else:
        print(f"\nRoot and the members of {plan.ADMIN_GROUP} are administrators.")
    return 0
