"""Start of a pod: its groups and directories are made, its leader and its supervisor become its user."""

import ctypes
import os
import signal
from typing import NamedTuple

from weir.local import pod_files
from weir.local.cgroups import Cgroup, Cgroups
from weir.local.node.accounts import Account, AccountRules, become
from weir.local.node.device_rules import DeviceRules, deny
from weir.local.node.directories import DirectoryRefused, UserDirectories, make_for
from weir.local.node.leader import Leader, prefer_to_end
from weir.local.node.orders import StartOrder
from weir.local.node.start_files import StartFiles
from weir.local.supervisor import SIGNALS, not_started, supervise, write_exit

_SUBREAPER = 36
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Site(NamedTuple):
    """Place of the pods: their home and groups; and for several users the rules that hold them apart."""

    home: str
    groups: Cgroups
    rules: AccountRules | None = None  # None: every pod runs as this process's user
    devices: DeviceRules = DeviceRules(())
    places: UserDirectories | None = None


def run_start(order: StartOrder, account: Account | None, files: StartFiles, site: Site) -> None:
    """Be the supervisor of a start, in a process that was forked for it, until nothing of it is left.

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
    leader = Leader()
    problem = ""
    if leader.pid == 0:
        prefer_to_end()
        joined = [group.join() for group in groups]
        problem = "" if all(joined) or account is None else "A control group of it can't be used."
    if account is not None and site.rules is not None:
        become(account, site.rules)
    if leader.pid == 0:
        leader.wait(files, problem)
        return
    supervise(files, own, leader, groups, shared=account is not None)


def _make_groups(order: StartOrder, site: Site, *, strict: bool) -> list[Cgroup]:
    """Make the control groups of a start, with the rules for its devices.

    Raises:
        OSError: a group or a rule can't be made, where users are held apart.
    """
    planned = [Cgroup(*words) for words in site.groups.of_pod(order.name, order.limits)]
    groups = [group for group in planned if group.make()]
    if strict and len(groups) < len(planned):
        raise OSError(1, "a control group of it can't be made")
    denied = site.devices.denied(order.devices) if strict else []
    if denied:
        _deny(order.name, groups, site.groups, denied)
    return groups


def _deny(name: str, groups: list[Cgroup], places: Cgroups, denied: list[tuple[int, int]]) -> None:
    base = places.devices or places.unified
    group = next((group for group in groups if base and group.path.startswith(f"{base}/")), None)
    if group is None:
        raise OSError(1, f"no control group can keep {name} from GPUs of others")
    deny(group.path, denied, unified=base == places.unified)
