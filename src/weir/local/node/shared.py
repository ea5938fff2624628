"""Node process of a pool for several users: as root it starts the server, and then carries out its orders.

The server runs as a user of its own, without any rights of root. No other process can reach the sockets
between the two: they exist only as the server's open files.
"""

import json
import os
import pwd
import signal
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from typing import Any

from weir.local import cgroups
from weir.local.cgroups import Cgroup, Cgroups
from weir.local.node import gpu_files
from weir.local.node.accounts import AccountRules
from weir.local.node.device_rules import DeviceRules
from weir.local.node.directories import DirectoryRefused, prepare_home
from weir.local.node.process import NodeProcess
from weir.local.node.starts import Site

SOCKETS_VARIABLE = "WEIR_NODE"
"""Variable in which the server finds its end: JSON with `sockets`, `groups`, `devices` and `socket`."""
_SUPERVISORS = "supervisors"
_WRONG_REQUEST = 2
_FILES_MAX = 1 << 20


class SharedRefused(Exception):
    """A pool for several users can't be served here; the text has the cause and the remedy."""


def serve_shared(config: dict[str, Any]) -> int:
    """Start the server of a shared pool and serve it; return its exit code.

    `config`: `home`, `socket` of the machine, `user` of the server, `group` of users who may run pods
    (empty: all), `uid_min`, `no_new_privileges`, `gpu_files` (empty: NVIDIA's), and `command` of the server.
    """
    os.closerange(3, _FILES_MAX)  # jobs must not inherit open files of this process
    try:
        site, server = _site(config)
    except (SharedRefused, DirectoryRefused, OSError) as refusal:
        why = f"{refusal.filename}: {refusal.strerror}" if isinstance(refusal, OSError) else refusal
        print(f"weir: {why}.", file=sys.stderr)
        return _WRONG_REQUEST
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    process = _start_server(config, server, site, [theirs for _, theirs in pairs])
    for _, theirs in pairs:
        theirs.close()
    for group in site.groups.supervisors():  # groups in which supervisors are started
        Cgroup(group, {}, "").join()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: process.send_signal(signal.SIGTERM))
    code = NodeProcess(site, pairs[0][0], pairs[1][0]).serve(process.pid)
    for group in site.groups.supervisors():
        Cgroup(os.path.dirname(os.path.dirname(group)), {}, "").join()
        with suppress(OSError):  # its pods continue, so it can't be removed
            os.rmdir(group)
            os.rmdir(os.path.dirname(group))
    return code


def _site(config: dict[str, Any]) -> tuple[Site, pwd.struct_passwd]:
    if os.getuid() != 0:
        raise SharedRefused("a pool for several users needs root to start jobs as them: use sudo")
    try:
        server = pwd.getpwnam(config["user"])
    except KeyError:
        raise SharedRefused(f"the user {config['user']} doesn't exist: `weir install` makes it") from None
    if server.pw_uid == 0:
        raise SharedRefused("the server can't run as root: name another user with --user")
    os.umask(0o022)
    _prepare_socket(os.path.dirname(config["socket"]), server)
    places = prepare_home(config["home"], server.pw_gid)
    rules = AccountRules(config["uid_min"], server.pw_uid, config["group"], config["no_new_privileges"])
    gpus = [("", [path]) for path in config["gpu_files"]] or _nvidia_gpus(server)
    ids, devices = tuple(name for name, _ in gpus), DeviceRules([files for _, files in gpus])
    groups = _groups(config["home"], gpu_memory=any(ids))
    return Site(config["home"], groups, rules, devices, places, devices.means(groups), ids), server


def _nvidia_gpus(server: pwd.struct_passwd) -> list[tuple[str, list[str]]]:
    """Return the ids and the device files of NVIDIA's GPUs, which a process of the server's user lists."""
    command = [sys.executable, "-I", gpu_files.__file__]
    listed = subprocess.run(command, stdout=subprocess.PIPE, check=True, **_as_user(server))  # noqa: S603 - our own file
    gpus: list[tuple[str, list[str]]] = json.loads(listed.stdout)
    return gpus


def _as_user(user: pwd.struct_passwd) -> dict[str, Any]:
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups, "stdin": subprocess.DEVNULL}


def _prepare_socket(directory: str, server: pwd.struct_passwd) -> None:
    """Make the directory in which the server listens for everyone on the machine."""
    with suppress(FileExistsError):
        os.mkdir(directory, 0o755)
        os.chown(directory, server.pw_uid, server.pw_gid)
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != server.pw_uid:
        raise SharedRefused(f"{directory} doesn't belong to {server.pw_name}: remove it")


def _groups(home: str, *, gpu_memory: bool) -> Cgroups:
    """Return the control groups of a shared pool, with one for supervisors.

    `gpu_memory`: the groups are to limit memory of GPUs, too.

    Raises:
        SharedRefused: no group can be made, so users couldn't be isolated from each other.
        OSError: one can't be made.
    """
    status = os.stat(home)
    groups = cgroups.usable_cgroups(
        f"weir-{status.st_dev:x}-{status.st_ino:x}", _SUPERVISORS, gpu_memory=gpu_memory
    )
    groups.make_supervisors()
    if not groups.supervisors():
        raise SharedRefused(
            "no control group can be made here, and without one a job could outlive its end: "
            "run this as a systemd service, or in a container with its own control groups"
        )
    return groups


def _start_server(
    config: dict[str, Any], server: pwd.struct_passwd, site: Site, theirs: list[socket.socket]
) -> subprocess.Popen[bytes]:
    fds = [end.fileno() for end in theirs]
    link = {"sockets": fds, "groups": site.groups, "devices": site.means, "socket": config["socket"]}
    own = {"HOME": server.pw_dir, "USER": server.pw_name, "LOGNAME": server.pw_name}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**inherited, **own, "WEIR_HOME": config["home"], SOCKETS_VARIABLE: json.dumps(link)}
    return subprocess.Popen(  # noqa: S603 - the words of the administrator who started this process
        config["command"],
        cwd="/",
        env=environment,
        umask=0o077,
        pass_fds=fds,
        **_as_user(server),
    )
