"""What a supervisor is to start, as it is written down before it is asked for."""

from weir.backends.local.environment import Identity, Seat, environment
from weir.backends.local.home import Home
from weir.backends.local.launched import Launched
from weir.backends.local.machine import Machine
from weir.backends.local.notes import SOCKET
from weir.control.port import StartPod


def order(
    home: Home, machine: Machine, launched: Launched, effect: StartPod, seat: Seat, at_s: float, log_most: int
) -> dict[str, object]:
    """All a supervisor needs to know, and all a relist does."""
    pod, spec, launch = effect.place.pod, launched.workload, launched.launch
    group = spec.groups[pod.group]
    directory = home.directory(launch.uid, effect.start, pod.group, pod.index)
    pod_id = home.name_of(directory)
    who = Identity(
        workload=spec.name,
        project=spec.project,
        pod=f"{spec.name}/{group.name}/{pod.index}",
        pod_id=pod_id,
        directory=directory,
        notes=f"{home.path}/{SOCKET}",
        checkpoints=home.checkpoints(launch.uid),
        restarts=launched.starts_of.get(pod, 0),
    )
    sight = machine.sight(group.request, effect.place.devices)
    return {
        "pod": [pod.workload, pod.group, pod.index],
        "start": effect.start,
        "node": effect.place.node,
        "devices": effect.place.devices,
        "at_s": at_s,
        "seat": [seat.rank, seat.world, seat.port],
        "command": launch.command,
        "directory": launch.directory or str(home.path),
        "grace_s": launch.grace_s,
        "log_most": log_most,
        "environment": environment(machine.environment, launch.environment, who, seat, sight),
        "cgroups": machine.groups_of(pod_id, group.request),
    }
