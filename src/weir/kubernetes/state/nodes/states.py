"""Capacity of the nodes, less the usage of foreign pods.

Nodes, and pods on nodes, come in any order: the usage of pods on a node that isn't known yet is remembered.
The numbers of devices of foreign pods can't be read. So the highest numbers that no pod of Weir holds are
assumed for them. An assumed number stays as long as its pod exists.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from weir.engine.overcommit import NodeDeviceUsage
from weir.kubernetes.api.objects import KubeNode
from weir.kubernetes.claims.gpu_count import NodeGpus
from weir.kubernetes.state.nodes.claimed import ClaimedNodes
from weir.kubernetes.state.nodes.reading import CORDONED, NOT_READY, node_of
from weir.kubernetes.state.nodes.shared import SharedNode, as_shared, shared_node_of
from weir.kubernetes.state.nodes.usage import (
    Amounts,
    ForeignUsage,
    NodeUse,
    PodUsage,
    amounts_of,
    are_devices_of,
    device_numbers,
    device_shares,
    device_usage,
    is_tolerated,
    least_held,
    refusal_by_amount,
    sharing_state,
    total_amounts,
)
from weir.kubernetes.translate.claim_constraints import CLAIMED_DEVICES, claim_needs
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.gpu_sharing import (
    NO_SHARED_NODES,
    SET_ASIDE,
    SHARED_NODES_DRAIN,
    is_share,
)
from weir.kubernetes.translate.requests import DEVICES_LABEL, DEVICES_MAX, has_unstated
from weir.model.nodes import Node
from weir.model.workloads import WHOLE_MILLI, Request
from weir.state.events import NodeLost, NodeSet


class NodeStates:
    """Keeps each node with the pods on it, and computes its remaining capacity.

    A resource that no node states (host ports, volumes) counts as present on each.
    """

    def __init__(self, devices: DeviceResources) -> None:
        self._devices = devices
        self._sites: dict[str, NodeUse] = {}
        self._where: dict[str, str] = {}  # node of each pod with devices or other resources
        self._changed: set[str] = set()
        self._unstated: dict[str, int] = {}
        self._kinds: Counter[str] = Counter()  # number of nodes by device resource
        self._memories: Counter[int] = Counter()  # number of nodes by bytes of a device
        self.claimed = ClaimedNodes()
        self.shared: dict[str, SharedNode] = {}  # nodes with the label or the taint for shares
        self._recount: set[str] = set()  # nodes whose device usage has to be counted again

    def __contains__(self, node: object) -> bool:
        """Return True if control knows this node."""
        site = self._sites.get(node) if isinstance(node, str) else None
        return site is not None and site.reported is not None

    @property
    def present(self) -> frozenset[str]:
        """The device resources that nodes have."""
        return frozenset(self._kinds)

    # Observations

    def set(self, node: KubeNode) -> list[str]:
        """Process a new or changed node. Return the fields that can't be used, in sentences."""
        mistakes: list[str] = []
        base = self.claimed.with_gpus(node_of(node, self._devices, mistakes))
        site = self._site(node.metadata.name)
        self._set_base(site, base)
        site.unschedulable = node.spec.unschedulable
        self._share(node.metadata.name, site, shared_node_of(node))
        return mistakes

    def set_claimed(self, name: str, gpus: NodeGpus) -> bool:
        """Set the GPUs that claims allocate on a node; return True if they have changed."""
        self.claimed.set_gpus(name, gpus)
        return self._use_claimed(name)

    def _use_claimed(self, name: str) -> bool:
        site = self._sites.get(name)
        base = None if site is None else self.claimed.with_gpus(site.base)
        if site is None or base == site.base:
            return False
        self._set_base(self._site(name), base)
        return True

    def set_copies(self, name: str, copies: Mapping[str, int]) -> None:
        """Set the number of further copies of each set of claims that fit on a node."""
        site = self._sites.get(name)
        if site is not None and self.claimed.set_copies(name, copies, site.own_pods.values()):
            self._site(name)

    def names(self) -> list[str]:
        """Return the names of the existing nodes."""
        return [name for name, site in self._sites.items() if site.base is not None]

    def gone(self, name: str) -> None:
        """Process the deletion of a node."""
        site = self._site(name)
        self._set_base(site, None)
        self._share(name, site, None)

    def set_foreign_pod(self, pod: str, usage: ForeignUsage | None) -> None:
        """Process the usage of a foreign pod; None once it has ended."""
        node = self._where.get(pod)
        before = None if node is None else self._sites[node].foreign.get(pod)
        if before == usage:
            return
        if node is not None:
            self._leave(pod, node)
        if usage is not None:
            self._site(usage.node).foreign[pod] = usage
            self._where[pod] = usage.node

    def remark(self, pod: str, marks: tuple[str, ...], attached: Amounts) -> None:
        """Set the label sets and volumes of a foreign pod."""
        node = self._where.get(pod)
        usage = None if node is None else self._sites[node].foreign.get(pod)
        if node is not None and usage is not None and (usage.marks, usage.attached) != (marks, attached):
            self._site(node).foreign[pod] = replace(usage, marks=marks, attached=attached)

    def limit(self, name: str, limits: dict[str, int]) -> None:
        """Set a node's limits of volumes by driver, as resources."""
        if limits or name in self._sites:
            self._site(name).limits = limits

    def set_own_pod(self, pod: str, usage: PodUsage | None) -> None:
        """Process the usage of one of Weir's pods; None once it is gone."""
        node = self._where.get(pod)
        if node is not None:
            if usage is not None and self._sites[node].own_pods.get(pod) == usage:
                return
            self._leave(pod, node)
        if usage is not None:
            site = self._still(usage.node)
            if site.shared is not None or self._collides(usage):
                self._changed.add(usage.node)
            self._recount.add(usage.node)
            site.own_pods[pod] = usage
            self._where[pod] = usage.node
            self._claims_changed(usage.node, usage.request)

    def own_pods_on(self, node: str) -> tuple[str, ...]:
        """Return Weir's pods that hold resources on a node."""
        site = self._sites.get(node)
        return () if site is None else tuple(site.own_pods)

    def node(self, name: str) -> Node | None:
        """Return a node without its pods; None if it is unknown."""
        site = self._sites.get(name)
        return None if site is None else site.base

    def device_memory(self, node: str) -> int:
        """Return the bytes of each device of a node; if unknown, those of the smallest device."""
        base = self.node(node)
        if base is not None and base.gpus:
            return base.gpu_memory
        return min(self._memories, default=0)

    def use_unstated(self, names: Iterable[str]) -> None:
        """Record requested resources that no node states."""
        if self._unstated.keys() != set(names):
            self._unstated = {name: has_unstated(name) or 0 for name in sorted(names)}
            self._changed.update(self._sites)

    def retell(self) -> None:
        """Report all nodes again with the next facts."""
        for name, site in self._sites.items():
            site.reported = None
            self._changed.add(name)

    # Results

    def facts(self) -> list[NodeSet | NodeLost]:
        """Return the changes of nodes since the last call."""
        facts: list[NodeSet | NodeLost] = []
        for name in sorted(self._changed):
            site = self._sites[name]
            node = None if site.base is None else self._less(site, site.base)
            if node == site.reported:
                pass
            elif node is None:
                facts.append(NodeLost(name))
            else:
                facts.append(NodeSet(node))
            site.reported = node
            if node is None and not site.foreign and not site.own_pods and not site.limits:
                del self._sites[name]
        self._changed.clear()
        return facts

    def free_devices(self, node: str, request: Request) -> tuple[int, ...]:
        """Return the lowest free devices for a request; where too few are free, the least held others too."""
        site = self._sites.get(node)
        if site is None or site.base is None or not request.devices:
            return ()
        return least_held(site, site.base, request, may_exceed=bool(claim_needs(request)))

    def fits(self, place: PodUsage, *, recorded: bool = False) -> bool:
        """Return True if devices exist on this node, are as many as requested, and are no other pod's.

        `recorded`: Weir recorded this allocation. Devices of claims are valid even while the node doesn't
        show them.
        """
        site = self._sites.get(place.node)
        if site is None or site.base is None:
            return False
        may_exceed = recorded and bool(claim_needs(place.request))
        if not are_devices_of(place, DEVICES_MAX if may_exceed else site.base.gpus):
            return False
        memory = site.base.gpu_memory
        shares, pod_request = device_shares(site.own_pods.values(), memory), place.request.share_on(memory)
        return all(shares.get(device, 0) + pod_request <= WHOLE_MILLI for device in place.devices)

    def refusal(self, pod: str, place: PodUsage) -> str:
        """Return why this pod, charged already, must not be bound to its node after all; empty if it may."""
        site = self._sites.get(place.node)
        if site is None or site.base is None:
            return f"Node {place.node} is gone."
        if site.unschedulable and not is_tolerated(place.request, CORDONED):
            return f"Node {place.node} was cordoned."
        if place.devices and sharing_state(site) != (SET_ASIDE if is_share(place.request) else ""):
            return f"Node {place.node} changed between whole GPUs and shares."
        return refusal_by_amount(pod, place, site, self.claimed.with_claims(site.base))

    def is_being_freed(self, places: Sequence[PodUsage], stopping: Callable[[str], bool]) -> bool:
        """Return True if one of these nodes fits all its pods once Weir's terminating pods are gone."""
        site = self._sites.get(places[0].node)
        if (
            site is None
            or site.base is None
            or not all(are_devices_of(place, site.base.gpus) for place in places)
        ):
            return False
        usages = [*(usage for pod, usage in site.own_pods.items() if not stopping(pod)), *places]
        totals = total_amounts(
            [*(amounts_of(usage.request) for usage in usages), *(f.takes for f in site.foreign.values())]
        )
        if any(amount > site.base.capacity.get(name, amount) for name, amount in totals.items()):
            return False
        shares = dict.fromkeys(
            (device for assumed in device_numbers(site, site.base).values() for device in assumed),
            WHOLE_MILLI,
        )
        for usage in usages:
            for device in usage.devices:
                shares[device] = shares.get(device, 0) + usage.request.share_on(site.base.gpu_memory)
        return all(share <= WHOLE_MILLI for share in shares.values())

    # Device usage

    def recounted(self) -> list[str]:
        """Return the nodes whose use of devices may have changed since the last call."""
        names = sorted(self._recount)
        self._recount.clear()
        return names

    def device_use(self, name: str) -> NodeDeviceUsage | None:
        """Count the devices in use on a node; None if the node doesn't exist."""
        site = self._sites.get(name)
        return None if site is None or site.base is None else device_usage(site, site.base)

    def device_users(self, name: str) -> list[str]:
        """Return the foreign pods that hold devices of a node, as NAMESPACE/NAME."""
        site = self._sites.get(name)
        return [] if site is None else sorted(pod for pod, usage in site.foreign.items() if usage.devices)

    # Shares

    @property
    def no_shares(self) -> str:
        """Return the sentence that refuses shares on a node; empty if the node accepts them."""
        states = {sharing_state(self._sites[name]) for name in self.shared}
        if SET_ASIDE in states:
            return ""
        drains = any(node.set_aside for node in self.shared.values())
        return SHARED_NODES_DRAIN if drains else NO_SHARED_NODES

    def has_shares(self, name: str) -> bool:
        """Return True if a pod with a share is on a node."""
        site = self._sites.get(name)
        return site is not None and any(is_share(usage.request) for usage in site.own_pods.values())

    def unused_node(self) -> str | None:
        """Return a node for whole devices with none in use, one with few devices first."""
        unused = (
            (site.base.gpus, name)
            for name, site in self._sites.items()
            if site.base is not None
            and site.base.gpus
            and site.shared is None
            and site.base.labels.get(DEVICES_LABEL) != CLAIMED_DEVICES
            and not site.unschedulable
            and not any(taint.key in NOT_READY for taint in site.base.taints)
            and not any(usage.devices for usage in site.foreign.values())
            and not any(usage.request.devices for usage in site.own_pods.values())
        )
        return min(unused, default=(0, None))[1]

    def keeps_taint(self, name: str) -> bool:
        """Return True if a node has to bear the taint that keeps whole devices off shared ones."""
        site = self._sites.get(name)
        return site is not None and bool(sharing_state(site))

    def _share(self, name: str, site: NodeUse, shared: SharedNode | None) -> None:
        site.shared = shared
        if shared is None:
            self.shared.pop(name, None)
        else:
            self.shared[name] = shared

    def _still(self, name: str) -> NodeUse:
        """Return True if a node has no unreported change."""
        site = self._sites.get(name)
        if site is None:
            site = self._sites[name] = NodeUse()
        return site

    def _site(self, name: str) -> NodeUse:
        self._changed.add(name)
        self._recount.add(name)
        return self._still(name)

    def _leave(self, pod: str, node: str) -> None:
        del self._where[pod]
        self._recount.add(node)
        site = self._sites[node]
        left = site.own_pods.pop(pod, None)
        if left is not None:
            self._claims_changed(node, left.request)
        if left is None:
            del site.foreign[pod]
            site.numbers.pop(pod, None)
            self._changed.add(node)
        elif (
            site.base is None
            or site.shared is not None
            or (site.numbers and any(map(self._collides, (left, *site.own_pods.values()))))
        ):
            self._changed.add(node)  # the node may be forgotten, or foreign pods get other devices

    def _claims_changed(self, name: str, request: Request) -> None:
        """Record that a pod with this request started or ended on a node."""
        if claim_needs(request):
            self.claimed.changed.add(name)
            self.claimed.set_pods(name, self._sites[name].own_pods.values())
            self._use_claimed(name)

    def _collides(self, usage: PodUsage) -> bool:
        site = self._still(usage.node)
        return any(device in assumed for device in usage.devices for assumed in site.numbers.values())

    def _set_base(self, site: NodeUse, base: Node | None) -> None:
        self._count_kind(site.base, -1)
        site.base = base
        self._count_kind(base, 1)

    def _count_kind(self, node: Node | None, by: int) -> None:
        if node is None or not node.gpus:
            return
        self._kinds[node.labels[DEVICES_LABEL]] += by
        self._memories[node.gpu_memory] += by
        self._kinds, self._memories = +self._kinds, +self._memories  # removes zero counts

    def _less(self, site: NodeUse, base: Node) -> Node:
        """Return the node without the usage of foreign pods."""
        if site.shared is not None:
            base = as_shared(base, sharing_state(site))
        claims = self.claimed.capacity(base.name)
        if not site.foreign:
            if not self._unstated and not claims:
                return base
            return replace(base, capacity={**base.capacity, **self._unstated, **site.limits, **claims})
        capacity = {**base.capacity, **self._unstated, **site.limits, **claims}
        marks: dict[str, int] = {}
        for usage in site.foreign.values():
            for name, amount in usage.takes:
                if name in capacity:
                    capacity[name] = max(0, capacity[name] - amount)
            for mark in usage.marks:
                marks[mark] = marks.get(mark, 0) + 1
        numbers = device_numbers(site, base)
        devices = tuple(sorted({device for assumed in numbers.values() for device in assumed}))
        return replace(base, capacity=capacity, foreign_devices=devices, foreign_marks=marks)
