"""A team with a namespace and a project, and where its pods land: what tests of constraints say it with."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, install_kinds, project
from tools.controlplane.work import pod

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


class Team:
    """Pods of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._witnesses = 0

    def submit(self, name: str, gpus: int = 1, **more: Any) -> None:
        """A pod, as `work.pod` makes it."""
        self.cluster.api.create(pod(self.namespace, name, gpus, **more))

    def place(self, name: str, node: str, gpus: int = 1, **more: Any) -> None:
        """A pod of another scheduler, which has put it on a node."""
        self.submit(name, gpus, scheduler="another", nodeName=node, **more)
        self.land(name)

    def land(self, *names: str) -> list[str]:
        """The nodes these pods come to run on."""

        def all_run() -> Mapping[str, str] | None:
            running = self.cluster.running(self.namespace)
            return running if all(name in running for name in names) else None

        running = self.cluster.until(all_run, f"{', '.join(names)} to run; {self.why(*names)}")
        assert running is not None
        return [running[name] for name in names]

    def lands(self, name: str, gpus: int = 1, **more: Any) -> str:
        """Return the node on which a new pod runs."""
        self.submit(name, gpus, **more)
        return self.land(name)[0]

    def found(self, *nodes: str, taint: str = "") -> None:
        """Wait until Weir knows these nodes as ready: their watch and that of pods aren't heard in step.

        A ready node has the taint of one that isn't for a moment still. `taint` is the key of one that stays.
        """
        tolerations = [{"key": taint, "operator": "Exists"}] if taint else []
        for name in nodes:
            self.lands(f"finds-{name}", 0, nodeSelector={HOST: name}, tolerations=tolerations)

    def waits(self, name: str) -> str:
        """Return the reason why a bare pod isn't placed, though a later one without demands is."""
        self.is_left_out(name)
        return self.cluster.until(lambda: self.why(name), f"a reason for {name}")

    def is_left_out(self, *names: str) -> None:
        """Make sure that pods aren't placed: one without demands that comes after them is."""
        self._witnesses += 1
        witness = f"witness-{self._witnesses}"
        self.lands(witness, 0)
        for name in names:
            assert not self.pod(name)["spec"].get("nodeName"), f"{name} was bound"
        self.delete(witness)

    def waits_for(self, name: str, words: str) -> None:
        """Wait for a pod's reason to say this."""
        self.cluster.until(lambda: words in self.why(name), f"{words!r} as a reason of {name}")
        assert not self.pod(name)["spec"].get("nodeName")

    def why(self, *names: str) -> str:
        """Return the reasons of the workloads of bare pods."""
        answer = []
        for name in names:
            path = f"/apis/weir.dev/v1alpha1/namespaces/{self.namespace}/workloads/pod-{name}"
            found = self.cluster.api.maybe(path) or {}
            reason = found.get("status", {}).get("reason") or {}
            answer.append(str(reason.get("sentence", "")))
        return " ".join(filter(None, answer))

    def pod(self, name: str) -> Object:
        """A pod as it is."""
        found: Object = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")
        return found

    def delete(self, name: str) -> None:
        """Delete a pod, and wait for it to be gone."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.cluster.api.delete(path, grace_s=0)
        self.cluster.until(lambda: self.cluster.api.maybe(path) is None, subject=f"{name} to be gone")


@contextmanager
def scheduling(plane: ControlPlane, name: str) -> Iterator[Weir]:
    """Weir beside the control plane, with a log of this name."""
    install_kinds(plane.api)
    with Weir(plane, plane.kubeconfig_for("weir"), name=name, arguments=["--no-leader-election"]) as weir:
        yield weir


@contextmanager
def a_team(weir: Weir, cluster: Cluster) -> Iterator[Team]:
    """A team with capacity for whatever a test tries."""
    weir.check()
    namespace = cluster.namespace()
    cluster.api.create(project(namespace, 64))
    yield Team(cluster, namespace)
    weir.check()


def node_affinity(*terms: Object, rather: tuple[tuple[int, Object], ...] = ()) -> Object:
    """Node affinity: terms of which one has to hold, and wishes with weights."""
    answer: Object = {}
    if terms:
        answer["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": list(terms)}
    if rather:
        wishes = [{"weight": weight, "preference": each} for weight, each in rather]
        answer["preferredDuringSchedulingIgnoredDuringExecution"] = wishes
    return {"nodeAffinity": answer}


def expressions(*each: tuple[str, ...], kind: str = "matchExpressions") -> Object:
    """A term: (key, operator, value, ...) of which all have to hold."""
    return {
        kind: [{"key": key, "operator": operator, "values": list(values)} for key, operator, *values in each]
    }


def pod_affinity(
    *,
    near: tuple[Object, ...] = (),
    rather_near: tuple[tuple[int, Object], ...] = (),
    apart: tuple[Object, ...] = (),
    rather_apart: tuple[tuple[int, Object], ...] = (),
) -> Object:
    """Pod affinity and anti-affinity: terms that have to hold, and wishes with weights."""
    answer: Object = {}
    for kind, must, rather in (("podAffinity", near, rather_near), ("podAntiAffinity", apart, rather_apart)):
        if must or rather:
            answer[kind] = {
                "requiredDuringSchedulingIgnoredDuringExecution": list(must),
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": weight, "podAffinityTerm": each} for weight, each in rather
                ],
            }
    return answer


def to(key: str = HOST, /, *, everywhere: bool = False, **labels: str) -> Object:
    """A term about pods with these labels, by the domains of a node label."""
    term: Object = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return term | ({"namespaceSelector": {}} if everywhere else {})


def spread(
    key: str = ZONE, /, *, skew: int = 1, must: bool = True, more: Object | None = None, **labels: str
) -> list[Object]:
    """A spread constraint over pods with these labels."""
    when = "DoNotSchedule" if must else "ScheduleAnyway"
    selector = {"matchLabels": labels}
    return [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": when,
            "labelSelector": selector,
            **(more or {}),
        }
    ]
