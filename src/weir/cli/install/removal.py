"""`weir uninstall`: undo `weir install`."""

import json
import os
import sys
from pathlib import Path

from weir.cli.install import plan
from weir.cli.install.command import DryRunOption, carry_out, check_root, show_plan
from weir.cli.install.homes import check_removed_home
from weir.cli.install.host import Host, InstallFailed
from weir.cli.install.pool_processes import end_jobs, pool_processes, remove_groups
from weir.cli.install.program import program_link
from weir.cli.install.settings import InstallSettings, recorded
from weir.cli.options.option_types import Switch
from weir.cli.output.formatting import counted

STOP_S_MAX = 3600.0
"""Time for jobs to end. Each has its own notice, and is killed after it."""


def uninstall(
    *,
    purge: Switch = False,
    stop_jobs: Switch = False,
    dry_run: DryRunOption = False,
) -> int:
    """Remove the pool that `weir install` installed. Its state stays, and a later installation continues it.

    Parameters
    ----------
    purge
        Also delete the pool's home with all output and checkpoints, and the users and groups that the
        installation created.
    stop_jobs
        Stop running jobs first, with their notice.
    """
    host = Host()
    try:
        settings = _installed(host)
        systemd = host.systemd_version() is not None
        link = program_link()
        own_link = link if link is not None and plan.PROGRAM.resolve() == link.resolve() else None
        first = plan.stop_steps(systemd=systemd)
        then = plan.remove_steps(settings, systemd=systemd, link=own_link, purge=purge)
        if purge:
            check_removed_home(settings.home)
        if dry_run:
            return show_plan([*first, *then], host)
        check_root()
        _check(settings, stops=stop_jobs, systemd=systemd)
        carry_out(first, host)
        _end_jobs(settings.home, stops=stop_jobs)
        remove_groups(settings.home)
        carry_out(then, host)
    except (InstallFailed, OSError) as error:
        print(f"weir: {str(error).rstrip('.')}.", file=sys.stderr)
        return 1
    if not purge:
        print(f"The state stays in {settings.home}, and belongs to {settings.user}. To delete it: --purge.")
    return 0


def _installed(host: Host) -> InstallSettings:
    settings = recorded(host)
    if settings is None:
        raise InstallFailed("no installation is recorded on this machine")
    return settings


def _check(settings: InstallSettings, *, stops: bool, systemd: bool) -> None:
    if not stops and (workloads := pool_processes(settings.home).workloads):
        raise _jobs_run(len(workloads))
    if not systemd:
        pid = _server_pid(plan.SOCKET_DIRECTORY)
        if pid is not None:
            raise InstallFailed(f"process {pid} serves the pool: stop it first (kill -TERM {pid})")


def _server_pid(directory: Path) -> int | None:
    """Return the process of a running server, by the file beside its socket; None if none runs."""
    try:
        pid = int(json.loads((directory / "server.json").read_text("utf-8"))["pid"])
        os.kill(pid, 0)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return pid


def _jobs_run(jobs: int) -> InstallFailed:
    return InstallFailed(f"jobs of the pool run ({counted(jobs, 'job')}): wait for them, or use --stop-jobs")


def _end_jobs(home: Path, *, stops: bool) -> None:
    """End the jobs of a pool that is stopped; one may have started in the last moment."""
    running = pool_processes(home)
    if not running:
        return
    jobs = len(running.workloads) or len(running.supervisors)
    if not stops:
        raise _jobs_run(jobs)
    print(f"Stop {counted(jobs, 'job')}.", flush=True)
    left = end_jobs(home, STOP_S_MAX)
    if left:
        pids = ", ".join(map(str, sorted(left.supervisors | left.jobs)[:10]))
        raise InstallFailed(f"some jobs don't end (processes {pids}): end them, and run this again")
