"""Traces of Weir on objects of others: taints and labels of nodes, suspended owners, pods that wait."""

from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from typing import Any

from weir.cli.cluster.releasing import TRIES
from weir.cli.cluster.stopped_owners import suspension
from weir.kubernetes.admission.shared_devices import SHARE_KEY
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.decoding import IgnoredObject, UndecodedObject
from weir.kubernetes.api.errors import ApiRefused, Conflict, NotFound
from weir.kubernetes.api.objects import ApiObject, KubeNode
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import OwnerFields
from weir.kubernetes.install.policies.expressions import SHARE_KEYS
from weir.kubernetes.state.nodes.shared import shared_node_of, taints_with
from weir.kubernetes.translate.gpu_sharing import GPU_SHARING
from weir.kubernetes.translate.kinds import load_kinds
from weir.kubernetes.translate.owner_suspensions import RESTARTS, suspended_by

NAMES_MAX = 5
"""Names of pods or objects that a sentence has."""


async def free_nodes(api: ApiClient, *, dry_run: bool) -> AsyncIterator[tuple[bool, str]]:
    """Remove the taint for shares of GPUs, and the label that Weir wrote.

    Yield a sentence for each node, with True if its taint is gone. It stays while a pod with a share runs: a
    pod with whole GPUs would get the devices of that share.
    """
    for node in await api.list_all(path_of("v1", "nodes"), KubeNode):
        if _needs_release(node):
            name = node.metadata.name
            if holders := await _share_pods(api, name):
                kept = f"The taint {GPU_SHARING} of node {name}: {_named(holders)} have shares of its GPUs."
                yield False, kept
            elif dry_run or await _free(api, node):
                yield True, f"nodes/{name}: taint {GPU_SHARING}"


def _needs_release(node: KubeNode) -> bool:
    shared = shared_node_of(node)
    return shared is not None and (shared.tainted or shared.by_policy)


async def _free(api: ApiClient, node: KubeNode) -> bool:
    """Remove the taint and the label of a node; return False if it has neither any more.

    The node is read again after a conflict: its kubelet writes to it all the time.

    Raises:
        Conflict: others changed it at every try.
    """
    path = path_of("v1", "nodes", name=node.metadata.name)
    for left in reversed(range(TRIES)):
        shared = shared_node_of(node)
        if shared is None or not _needs_release(node):
            return False
        labels = {GPU_SHARING: None} if shared.by_policy else {}
        metadata = {"resourceVersion": shared.version, "labels": labels}
        change: dict[str, Any] = {"spec": {"taints": taints_with(shared, taint=False)}, "metadata": metadata}
        try:
            await api.patch(path, change, Patch.MERGE, IgnoredObject)
        except NotFound:
            return False
        except Conflict:
            if not left:
                raise
        else:
            return True
        with suppress(NotFound):  # the next write tells
            node = await api.get(path, KubeNode)
    return False


async def suspended_owners(api: ApiClient) -> list[str]:
    """Return a sentence for each owner that Weir has suspended, and would have resumed."""
    sentences = []
    kinds = load_kinds()
    for watched in kinds.watched:
        if not any(rule.suspends for rule in kinds.rules if rule.kind == watched.kind):
            continue
        for body in await _bodies(api, watched.api_versions, watched.resource):
            if not suspended_by(body):
                continue
            metadata = body["metadata"]
            owner = OwnerFields(metadata["uid"], watched.api_versions[0], watched.kind, metadata["name"])
            command = suspension(owner, metadata["namespace"], suspend=False)
            where = f"{watched.kind} {metadata['namespace']}/{metadata['name']}"
            sentences.append(f"{where} is suspended by Weir ({RESTARTS}). `{command}` resumes it.")
    return sentences


async def pending_pods(api: ApiClient, scheduler: str) -> str:
    """Return a sentence about the pods that wait for Weir; empty if there are none."""
    names = await _pods(api, f"spec.schedulerName={scheduler},spec.nodeName=")
    if not names:
        return ""
    return (
        f"{_named(names)} wait for the scheduler {scheduler}. Delete the pods, and write another "
        "schedulerName into the objects that make them."
    )


async def _share_pods(api: ApiClient, node: str) -> list[str]:
    """Return the pods of a node with a share of a GPU that haven't ended."""
    active = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
    return await _pods(api, active, keys=(SHARE_KEY, *SHARE_KEYS))


async def _pods(api: ApiClient, fields: str, *, keys: Collection[str] = ()) -> list[str]:
    """Return the pods of a field selector. `keys`: only those with one of these labels or annotations."""
    names: list[str] = []
    async for page in api.pieces(path_of("v1", "pods"), ApiObject, field_selector=fields):
        names += [
            pod.metadata.key
            for pod in page.items
            if not isinstance(pod, UndecodedObject)
            and (not keys or any(key in keys for key in (*pod.metadata.annotations, *pod.metadata.labels)))
        ]
    return names


async def _bodies(api: ApiClient, versions: tuple[str, ...], resource: str) -> list[dict[str, Any]]:
    """Return the objects of a kind, in the first version that the API server has."""
    for version in versions:
        try:
            return await api.list_all(path_of(version, resource), dict[str, Any])
        except NotFound:
            continue
        except ApiRefused as error:
            if error.status != 403:
                raise
    return []


def _named(names: list[str]) -> str:
    others = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"pods {', '.join(sorted(names)[:NAMES_MAX])}{others}"
