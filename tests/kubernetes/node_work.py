"""Pods that come with nodes: of a DaemonSet, bound by kube-scheduler, and mirrors of static pods."""

import random
from itertools import count

from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.work import pod

SYSTEM = "kube-system"
STOCK = "default-scheduler"
DAEMONS = "agents"


class NodeWork:
    """DaemonSets and static pods that hold GPUs; one of each is there from the start.

    Args:
        cluster: with nodes.
        namespace: of the DaemonSet.
        chance: decides when a static pod ends for good.
    """

    def __init__(self, cluster: Cluster, namespace: str, chance: random.Random) -> None:
        self._api = cluster.api
        self._daemonsets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
        self._namespace = namespace
        self._chance = chance
        self._numbers = count(1)
        self._static: dict[str, Object] = {}

    def turn_daemons(self) -> None:
        """Remove the DaemonSet, or make it again."""
        if self._api.maybe(f"{self._daemonsets}/{DAEMONS}") is not None:
            self._api.delete(f"{self._daemonsets}/{DAEMONS}")
            return
        labels = {"app": DAEMONS}
        spec = pod(self._namespace, "agent", 1, scheduler=STOCK, grace_s=3)["spec"]
        spec["restartPolicy"] = "Always"
        template = {"metadata": {"labels": labels}, "spec": spec}
        self._api.post(
            self._daemonsets,
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": DAEMONS, "namespace": self._namespace},
                "spec": {"selector": {"matchLabels": labels}, "template": template},
            },
        )

    def add_static(self, node: str, gpus: int) -> None:
        """Report a static pod, as the kubelet of this node does."""
        name = f"static-{next(self._numbers)}-{node}"
        made = pod(SYSTEM, name, gpus, scheduler=STOCK, grace_s=3, nodeName=node)
        uid = self._api.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
        source = {"config.hash": name, "config.mirror": name, "config.source": "file"}
        made["metadata"]["annotations"] = {f"kubernetes.io/{key}": value for key, value in source.items()}
        made["metadata"]["ownerReferences"] = [owner]
        self._static[name] = made
        self._api.create(made)

    def end_static(self) -> None:
        """Delete a mirror. Its kubelet makes it again at once, unless the static pod itself is gone."""
        if not self._static:
            return
        name = self._chance.choice(sorted(self._static))
        self._api.delete(f"/api/v1/namespaces/{SYSTEM}/pods/{name}", grace_s=0)
        made = self._static.pop(name)
        if self._chance.random() < 0.5:
            self.add_static(made["spec"]["nodeName"], _gpus(made))

    def end(self) -> None:
        """Remove everything."""
        self._api.delete(self._daemonsets)
        for name in self._static:
            self._api.delete(f"/api/v1/namespaces/{SYSTEM}/pods/{name}", grace_s=0)
        self._static.clear()


def _gpus(one: Object) -> int:
    return int(one["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
