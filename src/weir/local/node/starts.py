"""Start of a pod: its groups and directories are made, its leader and its supervisor become its user."""

import ctypes
import os
import resource
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from weir.local.cgroups import Cgroup, Cgroups, set_file
from weir.local.node.accounts import Account, AccountRules, become
from weir.local.node.device_rules import MOUNTS, DeviceRules, deny
from weir.local.node.directories import DirectoryRefused, UserDirectories, make_for
from weir.local.node.forked import fork, wait_for
from weir.local.node.gpu_memory import driver_library, limit_memory
from weir.local.node.orders import Rlimit, StartOrder
from weir.local.node.own_mounts import close_devices
from weir.local.records import pod_files
from weir.local.records.start_files import StartFiles
from weir.local.supervisor.leader import Leader
from weir.local.supervisor.supervisor import SIGNALS, not_started, supervise, write_exit

_SUBREAPER = 36
_OOM_ADJUST = "500"
"""Score of a job for the kernel, so that out of memory a job is killed before the pool.

The score is set before the process gives up its rights.
"""
_unsigned = (1 << 64).__rmod__
"""Unlimited is -1, and more than any limit."""
_DRIVER_S = 20
"""Time of the driver for limits of memory. A hung driver costs a start that long."""
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Site(NamedTuple):
    """Place of the pods: their home and groups, and with several users the rules that isolate them."""

    home: str
    groups: Cgroups
    rules: AccountRules | None = None  # None: all pods run as the user of this process
    devices: DeviceRules = DeviceRules(())
    places: UserDirectories | None = None
    means: str = ""  # means by which the kernel enforces the device rules
    gpus: tuple[str, ...] = ()  # ids of the GPUs in the driver


def run_start(order: StartOrder, account: Account | None, files: StartFiles, site: Site) -> None:
    """Run as the supervisor of a start, in a process forked for it, until the start is completely over.

    The signals of supervisors are blocked before the fork.
    """
    os.setsid()
    _prctl(_SUBREAPER, 1, 0, 0, 0)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    directory = f"{site.home}/{pod_files.RECORDS}/{order.name}"
    own = pod_files.own_directory(directory)
    try:
        if account is None or site.places is None:
            pod_files.make_own(directory)
        else:
            make_for(site.places, order.name, account)
        groups = _make_groups(order, site, strict=account is not None)
    except DirectoryRefused as refusal:
        write_exit(files, not_started(f"{refusal}."))
        return
    except OSError as failure:
        write_exit(files, not_started(f"{failure.strerror}."))
        return
    memory = order.limits.gpu_memory  # in a child process, so that this one never opens the driver
    limited = memory > 0 and wait_for(fork(lambda: limit_gpu_memory(site, order.name, order.devices, memory)))
    leader = Leader()
    problem = ""
    if leader.pid == 0:
        with suppress(OSError):
            set_file("/proc/self/oom_score_adj", _OOM_ADJUST)
        _set_rlimits(order.rlimits)
        joined = [group.join() for group in groups]
        problem = "" if all(joined) or account is None else "A control group of it can't be used."
    if account is not None and site.rules is not None:
        become(account, site.rules)
    if leader.pid == 0:
        leader.wait(files, problem, gpu_memory_limited=limited)
        return
    supervise(files, own, leader, groups, shared=account is not None)


def _make_groups(order: StartOrder, site: Site, *, strict: bool) -> list[Cgroup]:
    """Create the control groups of a start, and deny this process and its children all other devices.

    With `strict` the pool isolates users from each other. Without it, groups that can't be created are left
    out.

    Raises:
        OSError: with `strict`, a group or a rule for devices can't be created.
    """
    planned = [Cgroup(*words) for words in site.groups.of_pod(order.name, order.limits)]
    groups = [group for group in planned if group.make()]
    if strict and len(groups) < len(planned):
        raise OSError(1, "a control group of it can't be made")
    denied = site.devices.denied(order.devices) if strict else []
    if denied and not site.means:
        raise OSError(1, "nothing can keep it from GPUs of others")
    if denied and site.means == MOUNTS:
        close_devices(site.devices.files(denied))
    elif denied:
        base = site.groups.devices or site.groups.unified
        deny(site.groups.path(base, order.name), denied, unified=not site.groups.devices)
    return groups


def limit_gpu_memory(site: Site, name: str, devices: Sequence[int], memory: int) -> None:
    """Limit a start to `memory` bytes of each of its GPUs. A driver that hangs ends this process.

    Raises:
        NotLimited: the driver refused the limit, or can't set one.
    """
    signal.alarm(_DRIVER_S)
    gpus = [site.gpus[index] if index < len(site.gpus) else "" for index in devices]
    group = site.groups.path(site.groups.unified, name) if site.groups.unified else ""
    limit_memory(driver_library(), group, gpus, memory)


def _set_rlimits(rlimits: Sequence[Rlimit]) -> None:
    """Set resource limits of this process, none above its present hard limit."""
    for number, *limits in rlimits:
        most = resource.getrlimit(number)[1]
        soft, hard = (min(limit, most, key=_unsigned) for limit in limits)
        resource.setrlimit(number, (min(soft, hard, key=_unsigned), hard))
