"""`weir session pipe`: sshd on the standard input and output, inside a workload.

ssh starts it as its ProxyCommand. So the stream goes from ssh to sshd through two pipes of the same user.
There is no port and no socket, and the server, which let this process in, isn't part of it.
"""

import grp
import os
import select
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from weir.cli.output.terminal import plain
from weir.cli.pool.connect import connect
from weir.cli.sessions import ssh_files
from weir.cli.sessions.pod_entry import EnteredLeader, EntryRefused, enter, first_process
from weir.cli.sessions.ssh_files import HOST_PREFIX, SSHD_CONFIG
from weir.cli.sessions.start import live, running, ssh_program
from weir.client.ssh_tunnel import MACHINE_SOCKET

if TYPE_CHECKING:
    from weir.client.api import Pool
    from weir.client.ssh_tunnel import SshAddress

_SSHD_PLACES = "/usr/sbin:/usr/local/sbin:/sbin:/usr/bin:/usr/local/bin"
_PRIVILEGE_SEPARATION = Path("/run/sshd")
"""Directory that sshd needs as root; it exists only after a start of the sshd service."""
_OF_ROOT = {"USER": "root", "LOGNAME": "root"}
"""Variables of a container's root user, which ssh knows by the submitter's name."""
NO_SSHD = "sshd isn't installed on this machine: run `sudo apt install openssh-server`"


def pipe(name: str, /, *, key: str | None = None, user: str | None = None) -> int:
    """Carry an SSH connection into a running workload: ssh starts this for the hosts of its configuration.

    Parameters
    ----------
    name
        The workload, or the host name of ssh's configuration for it: weir-NAME.
    key
        Public key of a client on another machine, whose `weir session pipe` starts this one.
    user
        On a cluster: the account that ssh logs in to.
    """
    from weir.client.address import find

    workload = name.removeprefix(HOST_PREFIX)
    if find().is_cluster:
        from weir.cli.sessions.kubernetes import cluster_shell

        return cluster_shell.pipe(workload, user)
    if (address := find().ssh) is not None:
        _become_ssh(address, workload)
    with connect() as pool:
        become = _entered(pool, workload, key)
    return become()


def _entered(pool: "Pool", name: str, key: str | None) -> Callable[[], int]:
    """Enter a workload; return the function that runs sshd there.

    Raises:
        EntryRefused: it can't be entered, or not by ssh.
    """
    detail = live(pool, name)
    if detail is None:
        raise EntryRefused(f"there is no workload {name}: `weir ssh {name}` makes one", 2)
    sshd = "" if detail.image else found_sshd()
    leader = enter(pool, running(pool, detail, is_new=False))
    if not detail.image:
        config = _prepared(leader, name, leader.environment, key)
        return lambda: _become(sshd, config, leader)
    from weir.local.containers.enter import environment_of

    container = first_process(leader, awaited=True)
    try:
        environment = environment_of(container)
    except OSError:
        raise EntryRefused("its container is over") from None
    config = _prepared(leader, name, {**environment, **_OF_ROOT}, key)
    return lambda: _in_container(container, config, name)


def _prepared(leader: EnteredLeader, name: str, environment: Mapping[str, str], key: str | None) -> str:
    """Make the files of a session; return the path of the configuration of sshd."""
    directory = ssh_files.make(leader.environment["WEIR_POD_DIRECTORY"], name, environment, key)
    return str(directory / SSHD_CONFIG)


def _in_container(container: int, config: str, name: str) -> int:
    """Run the sshd of a container's image; return its exit code.

    Raises:
        EntryRefused: the image has none, or the container can't be entered.
    """
    from weir.cli.sessions.kubernetes import container_sshd
    from weir.local.containers import enter, sshd

    user = ssh_files.user_name()
    try:
        code = sshd.run(container, config=config, user=user, say=_say)
    except enter.NotEntered as reason:
        raise EntryRefused(str(reason)) from None
    if code == sshd.NO_SSHD:
        raise EntryRefused(str(container_sshd.refusal_of(container_sshd.NO_SSHD, user, name)))
    return code


def _say(line: str) -> None:
    """Print a line of the error output of a container's program."""
    print(plain(line), file=sys.stderr, flush=True)


def _become_ssh(address: "SshAddress", name: str) -> NoReturn:
    """Replace this process by ssh to the pool's machine, where the same command takes the connection.

    Raises:
        EntryRefused: ssh or a key is missing.
    """
    client = ssh_program()
    key = ssh_files.client_key(name)
    home, _, _ = address.path.rpartition("/")
    pool = [] if address.path == MACHINE_SOCKET else ["env", f"WEIR_HOME={home}"]
    remote_command = shlex.join([*pool, "weir", "session", "pipe", "--key", key, "--", name])
    port = () if address.port is None else ("-p", str(address.port))
    words = [client, "-T", "-x", "-a", *port, "--", address.destination, f"exec {remote_command}"]
    os.execv(client, words)  # noqa: S606 - a program of the machine


def found_sshd() -> str:
    """Return the path of sshd.

    Raises:
        EntryRefused: it isn't installed.
    """
    program = shutil.which("sshd", path=_SSHD_PLACES)
    if program is None:
        raise EntryRefused(NO_SSHD)
    return program


def no_terminals() -> str:
    """Return the reason why sshd can't give this account a terminal; empty if it can.

    sshd gives each terminal to the group tty. Without the privilege of root it can't change the group.
    """
    if os.getuid() == 0:
        return ""
    try:
        wanted = grp.getgrnam("tty").gr_gid
    except KeyError:
        return ""  # sshd sets the account's own group
    ends = os.openpty()
    group = os.fstat(ends[1]).st_gid
    for end in ends:
        os.close(end)
    remount = f"`sudo mount -o remount,gid={wanted},mode=620 /dev/pts`"
    return (
        ""
        if group == wanted
        else f"terminals of this machine lack the group tty, and sshd needs it: {remount}"
    )


def _become(sshd: str, config: str, leader: EnteredLeader) -> NoReturn:
    """Replace this process by sshd, which ends with the workload."""
    if not leader.ends_with_it:
        _end_with(leader.pid)
    if os.getuid() == 0:
        _PRIVILEGE_SEPARATION.mkdir(0o755, parents=True, exist_ok=True)  # as sshd's service does at its start
    own = {key: value for key, value in leader.environment.items() if key in ("PATH", "TZ", "WEIR_POD_ID")}
    os.chdir("/")
    os.execve(sshd, [sshd, "-i", "-e", "-f", config], own)  # noqa: S606 - a program of the machine, by its path


def _end_with(leader: int) -> None:
    """End this process together with another one, if no control group does that."""
    try:
        processes = [os.pidfd_open(pid) for pid in (leader, os.getpid())]
    except OSError:
        return
    if os.fork():
        for pidfd in processes:
            os.close(pidfd)
        return
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    ended, _, _ = select.select(processes, [], [])
    if processes[1] not in ended:
        signal.pidfd_send_signal(processes[1], signal.SIGTERM)
    os._exit(0)
