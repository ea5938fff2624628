"""Invalid objects that an API server may accept: by a seed, as plain dictionaries.

They stay off the nodes of those who behave: they tolerate none of their taints, and what is bound there requests
nothing. So whatever they say, the pods of others have to be scheduled.
"""

import random
from collections.abc import Sequence
from typing import Any

from tests.kubernetes import hostile_claims
from tests.kubernetes.hostile_values import (
    COUNTS,
    DEVICES,
    INDICES,
    KEYS,
    LABELS,
    NUMBERS,
    OTHERS,
    PHASES,
    QUANTITIES,
    RESOURCES,
    TIMES,
    WORDS,
)

Object = dict[str, Any]
GROUP = "weir.dev/v1alpha1"


class Hostile:
    """A seeded source of such objects. `quiet` are the nodes of those who behave, `own` others."""

    def __init__(self, seed: int, space: str, own: list[str], quiet: list[str]) -> None:
        self.chance = random.Random(seed)
        self.space = space
        self.own = own
        self.quiet = quiet
        self.owners: list[Object] = []
        """References to owners that are there; with some, most pods are of one of them: a Workload each costs much."""
        self.made = 0

    def objects(self, count: int) -> list[tuple[str, Object]]:
        """Return this number of objects, each with its resource."""
        makers = {
            ("pods", self.pod): 20,
            ("jobs", self.job): 1,
            ("workloads", self.workload): 20,
            ("projects", self.project): 2,
            ("departments", self.department): 1,
            ("topologies", self.topology): 1,
            ("nodes", self.node): 0.5,
            ("persistentvolumeclaims", self.claim): 1,
            ("resourceclaims", self.resource_claim): 4,
            ("resourceslices", self.resource_slice): 3,
            ("deviceclasses", self.device_class): 0.5,
            ("devicetaintrules", self.taint_rule): 1,
            ("podgroups", self.pod_group): 3,
        }
        chosen = self.chance.choices(list(makers), list(makers.values()), k=count)
        return [(resource, make()) for resource, make in chosen]

    # Work

    def pod(self) -> Object:
        spec: Object = {
            "schedulerName": self._one("weir", "weir", "weir", "weir", "other"),
            "restartPolicy": "Never",
            "containers": [self._container(at) for at in range(self._one(1, 1, 1, 2, 3))],
            "tolerations": self._one([], [], [{"key": "a", "operator": "Exists"}]),
        }
        self._place(spec)
        if self._rarely() and spec.get("nodeName") not in self.quiet:
            spec["initContainers"] = [{**self._container(9), "restartPolicy": "Always"}]
        if self._rarely():
            spec["nodeSelector"] = {"a": self._one(*LABELS)}
        if self._rarely():
            spec["affinity"] = {"nodeAffinity": self._node_affinity(), "podAffinity": self._pod_affinity()}
        if self._rarely():
            spec["topologySpreadConstraints"] = [self._spread()]
        if self._rarely():
            spec["activeDeadlineSeconds"] = self._one(1, 2**31 - 1)
        if self._rarely():
            spec["terminationGracePeriodSeconds"] = self._one(0, 2**31, 2**62)
        if self._rarely():
            name = self._one(f"claim-{self.chance.randrange(1, 50)}", "nothing")
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        hostile_claims.name_them(self.chance, spec)
        if self._rarely() and "nodeName" not in spec:
            spec["schedulingGates"] = [{"name": "example.com/gate"}]
        return self._object("v1", "Pod", "pod", spec, self.space, status=self._pod_status(spec))

    def job(self) -> Object:
        count = self._one(0, 1, 2, 1000)
        template = {"metadata": {"annotations": self._annotations()}, "spec": {**self.pod()["spec"]}}
        template["spec"].pop("schedulingGates", None)
        spec = {
            "parallelism": self._one(0, 1, 2),
            "completions": self._one(count, 1, 2**31 - 1),
            "suspend": self._one(True, False, False),
            "template": template,
        }
        return self._object("batch/v1", "Job", "job", spec, self.space)

    def workload(self) -> Object:
        """Return one of Weir's own objects as another account writes it, perhaps in the name of an existing pod."""
        pod = self.chance.randrange(1, max(2, self.made))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": f"pod-{pod}", "uid": f"uid-pod-{pod}"}
        spec: Object = {
            "owner": owner,
            "project": self._one("", "good", "nothing"),
            "minPods": self._one(0, 1, 1000),
        }
        made = self._object(
            GROUP, "Workload", "workload", spec, self.space, status=self._workload_status(pod)
        )
        if self._rarely():
            made["metadata"]["name"] = f"pod-pod-{pod}"
        return made

    def claim(self) -> Object:
        spec = {
            "accessModes": [self._one("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany")],
            "storageClassName": self._one("", "nothing"),
            "resources": {"requests": {"storage": self._one(*QUANTITIES)}},
            **({"volumeName": "nothing"} if self._rarely() else {}),
        }
        made = self._object("v1", "PersistentVolumeClaim", "claim", spec, self.space)
        if self._rarely():
            made["metadata"]["name"] = f"claim-{self.chance.randrange(1, 50)}"
        return made

    # Devices and groups

    def device_class(self) -> Object:
        made = self._of_few("DeviceClass", hostile_claims.device_class(self.chance), hostile_claims.CLASSES)
        made["metadata"]["labels"] |= hostile_claims.class_labels(self.chance)
        return made

    def taint_rule(self) -> Object:
        return self._of_few("DeviceTaintRule", hostile_claims.taint_rule(self.chance, self.own))

    def resource_slice(self) -> Object:
        return self._of_few("ResourceSlice", hostile_claims.resource_slice(self.chance, self.own))

    def resource_claim(self) -> Object:
        spec, status = hostile_claims.resource_claim(self.chance, self.own)
        return {**self._of_few("ResourceClaim", spec, space=self.space), "status": status}

    def pod_group(self) -> Object:
        return self._of_few("PodGroup", hostile_claims.pod_group(self.chance), space=self.space)

    def _of_few(self, kind: str, spec: Object, names: Sequence[str] = (), space: str = "") -> Object:
        """Return an object with one of few names, which others refer to."""
        made = self._object(hostile_claims.VERSIONS[kind], kind, kind.lower(), spec, space)
        made["metadata"]["name"] = self._one(
            *(names or [f"{kind.lower()}-{at}" for at in range(hostile_claims.FEW)])
        )
        return made

    # Queues and nodes

    def project(self) -> Object:
        spec = {
            **self._queue(),
            "namespaces": [self.space],
            "department": self._one(None, "department-1", "nothing"),
        }
        return self._object(GROUP, "Project", "project", _stated(spec))

    def department(self) -> Object:
        spec = {
            **self._queue(),
            "parent": self._one(None, f"department-{self.chance.randrange(9)}", "nothing"),
        }
        return self._object(GROUP, "Department", "department", _stated(spec))

    def topology(self) -> Object:
        return self._object(
            GROUP, "Topology", "topology", {"levels": self._one(["a"], ["a", "b"], ["x" * 63])}
        )

    def node(self) -> Object:
        allocatable = {name: self._one(*QUANTITIES) for name in RESOURCES}
        allocatable |= {
            "nvidia.com/gpu": self._one(*COUNTS),
            "pods": self._one("110", "0", "9223372036854775807"),
        }
        made = self._object("v1", "Node", "node", {"unschedulable": self._one(True, False)})
        labels = {"nvidia.com/gpu.memory": self._one(*LABELS), "nvidia.com/gpu.product": self._one(*LABELS)}
        made["metadata"]["labels"] |= labels
        made["status"] = {"allocatable": allocatable, "capacity": allocatable}
        return made

    # Parts

    def _object(
        self, version: str, kind: str, name: str, spec: Object, space: str = "", status: Object | None = None
    ) -> Object:
        self.made += 1
        named = f"{name}-{self.made}"
        metadata: Object = {
            "name": named,
            "uid": f"uid-{named}",
            "annotations": self._annotations(),
            "labels": self._labels(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        if space:
            metadata["namespace"] = space
        if kind == "Pod" and self.owners and not self._rarely():
            metadata["ownerReferences"] = [self._one(*self.owners)]
        elif kind == "Pod" and self._rarely():
            metadata["ownerReferences"] = [self._owner()]
        return {
            "apiVersion": version,
            "kind": kind,
            "metadata": metadata,
            "spec": spec,
            **({} if status is None else {"status": status}),
        }

    def _owner(self) -> Object:
        kind = self._one(
            ("batch/v1", "Job"), ("apps/v1", "DaemonSet"), ("example.com/v1", "Thing"), ("v1", "Pod")
        )
        at = self.chance.randrange(1, max(2, self.made))
        name = f"{kind[1].lower()}-{at}"
        return {
            "apiVersion": kind[0],
            "kind": kind[1],
            "name": name,
            "uid": f"uid-{name}",
            "controller": True,
        }

    def _annotations(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for _ in range(self._one(0, 1, 2, 3, 6)):
            key = self._one(*KEYS)
            found[f"weir.dev/{key}"] = self._value(key)
        if self._rarely():
            found[self._one(*OTHERS)] = self._one(*NUMBERS, *WORDS)
        return found

    def _value(self, key: str) -> str:
        if key == "gpus":
            return str(self._one(*INDICES))
        if key == "checkpointed-at":
            return str(self._one(*TIMES, *NUMBERS))
        return str(self._one(*NUMBERS, *WORDS, *QUANTITIES))

    def _labels(self) -> dict[str, str]:
        found = {"a": self._one(*LABELS)} if self._rarely() else {}
        if self._rarely():
            found[f"weir.dev/{self._one('project', 'type', 'gpus', 'start', 'preemptible')}"] = self._one(
                *LABELS
            )
        return found

    def _container(self, at: int) -> Object:
        asks = {self._one(*RESOURCES): self._one(*QUANTITIES)} if self._rarely() else {}
        devices = {self._one(*DEVICES): self._one(*COUNTS)} if self._one(True, False) else {}
        whole = {name: amount for name, amount in asks.items() if "/" not in name}
        limits = {**whole, **devices}
        container: Object = {
            "name": f"c{at}",
            "image": "work",
            "resources": {"limits": limits, "requests": limits},
        }
        if self._rarely():
            container["ports"] = [{"containerPort": 80, "hostPort": self._one(8080, 8081)}]
        return container

    def _place(self, spec: Object) -> None:
        """Some bind themselves: to their own nodes, to none that is there, or without a request to those of others."""
        where = self._one("", "", "own", "quiet", "nowhere")
        if where == "own":
            spec["nodeName"] = self._one(*self.own)
        elif where == "nowhere":
            spec["nodeName"] = self._one("nothing", "x" * 253, "0")
        elif where == "quiet" and self.quiet:
            spec["nodeName"] = self._one(*self.quiet)
            for container in spec["containers"]:
                container["resources"] = {}
                container.pop("ports", None)

    def _pod_status(self, spec: Object) -> Object:
        status: Object = {"phase": self._one(*PHASES) if "nodeName" in spec else "Pending"}
        if self._rarely():
            status["startTime"] = self._one(*TIMES[:3])
        if self._rarely():
            at = self._one(*TIMES[:3])
            status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]
        if self._rarely():
            status["extendedResourceClaimStatus"] = hostile_claims.extended_claim(self.chance)
        return status

    def _workload_status(self, pod: int) -> Object:
        number = self._one(0, 1, 2**31, 2**53, 2**62, -1)
        allocation = {
            "pod": f"pod-{pod}",
            "uid": f"uid-pod-{pod}",
            "node": self._one(*self.own, *self.quiet, "nothing"),
            "devices": self._one([], [0], [0, 0], [0, 1, 2, 3, 4, 5, 6, 7], [1023], list(range(1024))),
            "start": number,
        }
        life = {
            "starts": number,
            "settled": number,
            "failures": 0,
            "restarts": 0,
            "ranSeconds": self._one(0.0, 1e300),
        }
        return {
            "phase": self._one("Pending", "Running", "Stopped"),
            "allocations": self._one([], [allocation], [allocation]),
            "life": {**life, "retryAtSeconds": self._one(0.0, 1e300, -1e300)},
            "nomination": {
                "at": "2026-01-01T00:00:00Z",
                "places": [
                    {"pod": f"pod-{pod}", "node": allocation["node"], "devices": allocation["devices"]}
                ],
            },
        }

    def _queue(self) -> Object:
        amounts = ("0", "1", "100", "unlimited", "1e12", "9007199254740992", "0.001")
        return {
            "quota": {"gpu": self._one(*amounts), "cpu": self._one(*amounts)},
            "limit": self._one({}, {"gpu": self._one(*amounts)}),
            "weight": self._one({}, {"gpu": self._one(0, 1, 1000000)}),
            "priority": self._one(0, 100, 2**31 - 1, -(2**31)),
        }

    def _node_affinity(self) -> Object:
        expression = self._one(
            {"key": "a", "operator": "Gt", "values": ["9" * 18]},
            {"key": "a", "operator": "In", "values": ["x" * 63, ""]},
            {"key": "a", "operator": "DoesNotExist"},
        )
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        return {"requiredDuringSchedulingIgnoredDuringExecution": terms}

    def _pod_affinity(self) -> Object:
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"a": self._one(*LABELS)}},
        }
        return {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}],
            "requiredDuringSchedulingIgnoredDuringExecution": self._one([], [term]),
        }

    def _spread(self) -> Object:
        return {
            "maxSkew": self._one(1, 2**31 - 1),
            "topologyKey": "a",
            "whenUnsatisfiable": self._one("DoNotSchedule", "ScheduleAnyway"),
            "labelSelector": {"matchLabels": {"a": self._one(*LABELS)}},
        }

    def _one(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    def _rarely(self) -> bool:
        return self.chance.random() < 0.15


def _stated(spec: Object) -> Object:
    return {key: value for key, value in spec.items() if value is not None}
