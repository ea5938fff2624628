"""Comparison of a scenario's result with its expectations.

Every difference is one sentence with the result and the expectation, so that a failing test needs no second
run.
"""

from collections.abc import Iterator, Mapping

from weir.model.scenario import Expect, Expectation
from weir.model.scenario_result import PodResult, ScenarioResult

Pods = Mapping[str, PodResult]


def differences(expect: Expect, played: ScenarioResult) -> list[str]:
    """Return the differences between a result and its expectations; empty if it matches.

    `played.pods` are as they stand after `expect.cycles`, `played.cycles` are those and the
    `expect.stable` further ones.
    """
    mismatches = list(_of_cycles(expect, played))
    by_workload: dict[str, dict[str, PodResult]] = {}
    for name, pod in played.pods.items():
        by_workload.setdefault(name.rsplit("/", 2)[0], {})[name] = pod
    for name, workload in expect.workloads.items():
        mismatches += _of_workload(name, workload, by_workload.get(name, {}))
    for name, expected in expect.pods.items():
        if name in played.pods:
            mismatches += _of_pod(name, expected, played.pods[name])
        else:
            mismatches.append(f"{name}: there is no such pod")
    return mismatches


def pod_state(pod: PodResult) -> str:
    """Return the state of a pod as text."""
    if pod.status != "running":
        return f"{pod.status} ({pod.reason})" if pod.reason else pod.status
    on = f"running on {pod.node}"
    return f"{on} [{', '.join(map(str, pod.gpus))}]" if pod.gpus else on


def _of_cycles(expect: Expect, played: ScenarioResult) -> Iterator[str]:
    evicted = [name for cycle in played.cycles for name in cycle.evicted]
    if expect.max_evictions is not None and len(evicted) > expect.max_evictions:
        yield f"{len(evicted)} evictions ({', '.join(evicted)}), at most {expect.max_evictions} expected"
    for number, cycle in enumerate(played.cycles[expect.cycles :], expect.cycles + 1):
        if cycle.bound or cycle.evicted:
            did = [f"{pod} was bound" for pod in cycle.bound] + [
                f"{pod} was evicted" for pod in cycle.evicted
            ]
            yield f"not stable: in cycle {number} {', '.join(did)}"


def _of_workload(name: str, expected: Expectation, pods: Pods) -> Iterator[str]:
    for pod_name, pod in pods.items():
        yield from _of_status(pod_name, expected.status, expected.node, pod)
    running = [pod for pod in pods.values() if pod.status == "running"]
    pending = [pod for pod in pods.values() if pod.status != "running"]
    if expected.running is not None and len(running) != expected.running:
        yield f"{name}: {len(running)} pods are running, {expected.running} expected"
    if expected.pending is not None and len(pending) != expected.pending:
        yield f"{name}: {len(pending)} pods are pending, {expected.pending} expected"
    if expected.nodes is not None:
        used = sorted(str(pod.node) for pod in running)
        repeated = len(set(expected.nodes)) < len(expected.nodes)
        if sorted(expected.nodes) != (used if repeated else sorted(set(used))):
            on, wanted = ", ".join(used) or "no node", ", ".join(expected.nodes) or "no node"
            yield f"{name}: runs on {on}, {wanted} expected"
    if expected.reason is not None:
        whys = sorted({pod.why or "none" for pod in pending})
        if whys != [expected.reason.value]:
            yield f"{name}: has the reason {', '.join(whys) or 'none'}, {expected.reason.value} expected"
    if expected.evicted_by is not None:
        takers = sorted({pod.evicted_by for pod in pods.values() if pod.evicted_by is not None})
        if expected.evicted_by not in takers:
            by = ", ".join(takers) or "no workload"
            yield f"{name}: was evicted by {by}, {expected.evicted_by} expected"


def _of_pod(name: str, expected: Expectation, pod: PodResult) -> Iterator[str]:
    yield from _of_status(name, expected.status, expected.node, pod)
    if expected.gpus is not None and pod.status == "running" and sorted(pod.gpus) != sorted(expected.gpus):
        yield f"{name}: has devices {list(pod.gpus)}, {list(expected.gpus)} expected"
    if expected.reason is not None and pod.why != expected.reason.value:
        yield f"{name}: has the reason {pod.why or 'none'}, {expected.reason.value} expected"
    if expected.evicted_by is not None and pod.evicted_by != expected.evicted_by:
        yield f"{name}: was evicted by {pod.evicted_by or 'no workload'}, {expected.evicted_by} expected"


def _of_status(name: str, status: str | None, node: str | None, pod: PodResult) -> Iterator[str]:
    matches = pod.status == status or (status == "pending" and pod.status == "waiting")
    if status is not None and not matches:
        yield f"{name}: is {pod_state(pod)}, {status} expected" + (f" on {node}" if node else "")
    elif node is not None and pod.status == "running" and pod.node != node:
        yield f"{name}: is {pod_state(pod)}, {node} expected"
