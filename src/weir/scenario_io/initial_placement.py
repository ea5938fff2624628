"""Placement of pods that already run: a check that each fits its node, and the choice of devices.

Pods with given devices come first, in the order of the file, then the others on the lowest free devices.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from weir.model.nodes import Node
from weir.model.resources import CPU, MEMORY, PODS, written
from weir.model.scenario import Placed
from weir.model.workloads import WHOLE_MILLI, Request
from weir.scenario_io.source_map import Mistakes, Path


@dataclass(frozen=True, slots=True)
class InitialPod:
    """A pod that already runs by the file."""

    workload: str
    group: int
    group_name: str
    index: int
    request: Request
    node: Node
    devices: tuple[int, ...] | None  # None: not stated
    path: Path

    @property
    def name(self) -> str:
        """Return the pod's name in messages."""
        return f"{self.workload}/{self.group_name}/{self.index}"


@dataclass(slots=True)
class _Device:
    share: int = WHOLE_MILLI
    memory: int = 0
    whole: bool = False
    first: str = ""


@dataclass(slots=True)
class _FreeCapacity:
    """Free capacity of a node."""

    free: dict[str, int]
    devices: list[_Device] = field(default_factory=list)


def place_initial_pods(pods: list[InitialPod], mistakes: Mistakes) -> dict[str, Placed]:
    """Return the placement of all pods by workload; report those that don't fit."""
    floors: dict[str, _FreeCapacity] = {}
    chosen: dict[int, tuple[int, ...]] = {}
    for index, pod in enumerate(pods):
        floor = floors.get(pod.node.name) or floors.setdefault(pod.node.name, _floor(pod.node))
        _take_resources(pod, floor, mistakes)
        written_ = () if pod.request.devices == 0 and not pod.devices else pod.devices
        if written_ is not None and _are_devices(pod, written_, mistakes):
            chosen[index] = written_
            _take_devices(pod, written_, floor, mistakes)
    for index, pod in enumerate(pods):
        if pod.devices is None and index not in chosen:
            chosen[index] = _lowest(pod, floors[pod.node.name], mistakes)
    placed: defaultdict[str, dict[tuple[int, int], tuple[str, tuple[int, ...]]]] = defaultdict(dict)
    for index, pod in enumerate(pods):
        if index in chosen:
            placed[pod.workload][pod.group, pod.index] = pod.node.name, chosen[index]
    return {**placed}


def _floor(node: Node) -> _FreeCapacity:
    floor = _FreeCapacity(dict(node.capacity), [_Device(memory=node.gpu_memory) for _ in range(node.gpus)])
    for device in [index for index in node.foreign_devices if index < node.gpus]:
        floor.devices[device].first = "work of others"
        floor.devices[device].whole = True
    return floor


def _take_resources(pod: InitialPod, floor: _FreeCapacity, mistakes: Mistakes) -> None:
    request = pod.request
    asked = {CPU: request.cpu_milli, MEMORY: request.memory, PODS: 1, **dict(request.further)}
    for resource, amount in asked.items():
        left = floor.free.get(resource, 0)
        if amount > left:
            has = written(resource, max(left, 0))
            text = (
                f"{pod.name} can't run on {pod.node.name}: it needs {written(resource, amount)} {resource},"
                f" {has} is left; place it elsewhere, or give the node more"
            )
            mistakes.add((*pod.path, "node"), text)
        floor.free[resource] = left - amount


def _are_devices(pod: InitialPod, devices: tuple[int, ...], mistakes: Mistakes) -> bool:
    """Return True if a pod's devices are on its node, distinct, and as many as requested."""
    node, asked, path = pod.node, pod.request.devices, (*pod.path, "gpus")
    if not _is_model(pod, mistakes):
        return False
    for position, device in enumerate(devices):
        if device >= node.gpus:
            right = f"write 0 to {node.gpus - 1}" if node.gpus else "place it on a node with gpus"
            mistakes.add((*path, position), f"gpus: {node.name} has no device {device}; {right}")
            return False
        if device in devices[:position]:
            mistakes.add(
                (*path, position), f"gpus: device {device} is named twice; name {asked} different ones"
            )
            return False
    if len(devices) != asked:
        text = (
            f"gpus: names {_count(len(devices), 'device', 'devices')}, its pod asks for {asked}; name {asked}"
        )
        mistakes.add(path, text if asked else f"gpus: {pod.name} asks for no device; leave gpus out")
        return False
    return True


def _is_model(pod: InitialPod, mistakes: Mistakes) -> bool:
    models, model = pod.request.gpu_models, pod.node.gpu_model
    if not pod.request.devices or not models or model in models:
        return True
    has = f"has {model}" if model else "states no gpu_model"
    request = f"{pod.name} asks for {' or '.join(models)}"
    text = f"{request}, {pod.node.name} {has}; place it on a node of such a model"
    mistakes.add((*pod.path, "node"), text)
    return False


def _take_devices(
    pod: InitialPod, devices: tuple[int, ...], floor: _FreeCapacity, mistakes: Mistakes
) -> None:
    request, node = pod.request, pod.node
    share = request.share_on(node.gpu_memory)
    memory = request.memory_on(node.gpu_memory)
    for device in devices:
        device_state = floor.devices[device]
        trouble = ""
        if device_state.first and (request.is_whole or device_state.whole):
            trouble = f"{device_state.first} is on it" + (
                " and has the whole of it" if device_state.whole else ""
            )
        elif share > device_state.share:
            has = written("gpu", max(device_state.share, 0))
            trouble = f"it needs {written('gpu', share)} of it, {has} is left"
        elif memory > device_state.memory:
            has = written(MEMORY, max(device_state.memory, 0))
            trouble = f"it needs {written(MEMORY, memory)} of its memory, {has} is left"
        if trouble:
            text = (
                f"gpus: {pod.name} can't be on device {device} of {node.name}: {trouble}; name another device"
            )
            mistakes.add((*pod.path, "gpus"), text)
        device_state.share -= share
        device_state.memory -= memory
        device_state.whole |= request.is_whole
        device_state.first = device_state.first or pod.name


def _lowest(pod: InitialPod, floor: _FreeCapacity, mistakes: Mistakes) -> tuple[int, ...]:
    """Return the lowest free devices; pods with GPU fractions must name their devices."""
    asked = pod.request.devices
    if pod.request.is_shared:
        indices = _count(asked, "device index", "device indices")
        text = f"gpus is missing for {pod.name}, which shares devices; add gpus with {indices}"
        mistakes.add(pod.path, text)
        return ()
    if not _is_model(pod, mistakes):
        return ()
    free = [index for index, device in enumerate(floor.devices) if not device.first]
    if len(free) < asked:
        needed = _count(asked, "free device", "free devices")
        text = (
            f"{pod.name} can't run on {pod.node.name}: it needs {needed}, {len(free)} left; "
            "place it elsewhere, or give the node more"
        )
        mistakes.add((*pod.path, "node"), text)
    devices = tuple(free[:asked])
    for device in devices:
        floor.devices[device].first = pod.name
        floor.devices[device].whole = True
    return devices


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
