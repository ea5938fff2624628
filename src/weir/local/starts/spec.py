"""Spec of a start, written before the supervisor is forked."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from weir.control.journal import LaunchSpec
from weir.control.port import StartPod
from weir.local.cgroups import Words
from weir.local.containers import launch as container_launch
from weir.local.machine.cdi import DevicesNotOffered
from weir.local.machine.environment import (
    ELASTIC,
    GangRank,
    VisibleDevices,
    environment,
    user_environment,
)
from weir.local.machine.machine import Machine
from weir.local.pods.running_pods import LocalWorkload
from weir.local.processes.orphan_cleanup import conclude_start
from weir.local.processes.pod_processes import PodProcesses
from weir.local.records import pod_files, pod_records
from weir.local.records.job_messages import SOCKET, WAKEUPS
from weir.local.records.pod_records import RESTARTS, StartRecord
from weir.local.records.state_dir import StartOutcome, StateDir, make_directory
from weir.local.starts import session_programs

_NOTES = "WEIR_NOTES"


def start_spec(
    home: StateDir,
    machine: Machine,
    local_workload: LocalWorkload,
    effect: StartPod,
    gang_rank: GangRank,
    at_s: float,
    boot_s: float,
    log_max: int,
) -> dict[str, object]:
    """Return the spec of a start, for its supervisor and for recovery."""
    pod, spec, launch = effect.place.pod, local_workload.workload, local_workload.launch
    group = spec.groups[pod.group]
    directory = home.directory(launch.uid, effect.start, pod.group, pod.index)
    pod_id = home.start_name(directory)
    own = home.own(launch.uid, effect.start, pod.group, pod.index)
    identity = {
        "WEIR_WORKLOAD": spec.name,
        "WEIR_PROJECT": spec.project,
        "WEIR_POD": f"{spec.name}/{group.name}/{pod.index}",
        "WEIR_POD_ID": pod_id,
        "WEIR_POD_DIRECTORY": own,
        _NOTES: f"{home.path}/{SOCKET}",
        RESTARTS: str(local_workload.starts_of.get(pod, 0)),
        "WEIR_CHECKPOINT_DIR": home.checkpoints(launch.uid),
    }
    if spec.min_pods < spec.pods:
        identity[ELASTIC] = f"{spec.min_pods}:{spec.pods}"
    inherited = user_environment(spec.user, machine.environment) if home.shared else machine.environment
    sight = machine.sight(group.request, effect.place.devices)
    directory = launch.directory or (inherited.get("HOME", "/") if home.shared else str(home.path))
    command: Sequence[str] = launch.command
    if kind := session_programs.kind_of(launch.environment):
        in_container = launch.container is not None
        is_root = in_container or (not home.shared and os.getuid() == 0)
        command = session_programs.command_of(
            kind, command, own=own, name=spec.name, directory=directory, is_root=is_root
        )
    if launch.container is None:
        variables = environment(inherited, launch.environment, identity, gang_rank, sight)
    else:
        command = container_launch.command_of(launch.container, command)
        variables = _in_container(home, machine, launch, directory, identity, gang_rank, sight)
    return {
        "pod": [pod.workload, pod.group, pod.index],
        "start": effect.start,
        "node": effect.place.node,
        "devices": effect.place.devices,
        "at_s": at_s,
        "boot_s": boot_s,  # for later times of the pod, which are measured by the boot clock
        "boot": pod_files.boot(),
        "seat": [gang_rank.rank, gang_rank.world, gang_rank.port],
        "command": command,
        "directory": directory,
        "grace_s": launch.grace_s,
        "log_max": log_max,
        "umask": machine.umask,
        "environment": variables,
        "cgroups": machine.groups_of(pod_id, group.request),
    }


def _in_container(
    home: StateDir,
    machine: Machine,
    launch: LaunchSpec,
    directory: str,
    identity: Mapping[str, str],
    gang_rank: GangRank,
    sight: VisibleDevices,
) -> dict[str, str]:
    """Return the environment of the leader of a pod in a container."""
    assert launch.container is not None
    wakeups = f"{home.path}/{WAKEUPS}"
    allocated = [machine.devices[index] for index in sight.devices]
    devices, problem = [], ""
    try:
        devices = machine.device_specifications.device_names(allocated, virtual=machine.virtual)
    except DevicesNotOffered as refusal:
        problem = str(refusal)
    if not machine.virtual:  # a container counts its devices from 0
        sight = replace(sight, names=tuple(device.uuid for device in allocated))
    inside = environment(
        container_launch.host_variables(machine.environment),
        launch.environment,
        {**identity, _NOTES: f"{wakeups}/{SOCKET}"},
        gang_rank,
        sight,
    )
    if "PATH" not in dict(launch.environment):
        del inside["PATH"]  # the image has its own PATH
    return container_launch.environment_of(
        launch.container,
        inside,
        [name for name, _ in launch.secrets],
        directory=directory,
        shared_directories=[identity["WEIR_POD_DIRECTORY"], identity["WEIR_CHECKPOINT_DIR"], wakeups],
        devices=devices,
        problem=problem,
    )


def write_start_spec(
    home: StateDir,
    machine: Machine,
    local_workload: LocalWorkload,
    effect: StartPod,
    gang_rank: GangRank,
    at_s: float,
    boot_s: float,
    log_max: int,
) -> Sequence[Words] | None:
    """Store the spec of a start on disk, and return the control groups of its pod.

    Raises:
        OSError: the spec couldn't be written; no part of it is left.
    """
    pod, launch = effect.place.pod, local_workload.launch
    directory = home.directory(launch.uid, effect.start, pod.group, pod.index)
    if not make_directory(directory):
        return None
    try:
        if not home.shared:
            with suppress(FileExistsError):
                os.mkdir(home.checkpoints(launch.uid), 0o700)
        pod_files.write(
            directory,
            pod_files.START,
            start_spec(home, machine, local_workload, effect, gang_rank, at_s, boot_s, log_max),
        )
    except OSError:
        with suppress(OSError):
            os.rmdir(directory)
        raise
    request = local_workload.workload.groups[pod.group].request
    return machine.groups_of(home.start_name(directory), request)


def conclude_earlier_start(directory: str, now_s: float, processes: PodProcesses) -> StartOutcome | None:
    """Return the outcome of a start whose directory existed before; None if it isn't over.

    Either the start was requested before, or another process made its directory: then it is lost.

    Raises:
        OSError: processes remain, or the machine lacks resources.
    """
    spec = pod_records.parse_start(pod_files.read(directory, pod_files.START))
    return conclude_start(directory, spec.cgroups if isinstance(spec, StartRecord) else (), now_s, processes)
