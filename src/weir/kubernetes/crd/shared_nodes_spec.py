"""The kind `SharedNodes`: one object with the names of the nodes that are set aside for shares of GPUs.

The admission policy reads the object as its parameter. A ConfigMap wouldn't do: with the last binding that
names one, an API server stops reading ConfigMaps for policies until it restarts
(kubernetes/kubernetes#130887). It begins again for kinds of a CustomResourceDefinition.
"""

from typing import Annotated

from pydantic import Field

from weir.kubernetes.crd.schemas import API_VERSION
from weir.scenario_io.specs import Entry

KIND = "SharedNodes"
PLURAL = "sharednodes"
NAME = "weir-shared-nodes"
"""Name of the object. There is one in a cluster, because there is one such policy."""
NODES_MAX = 10_000
"""Names of a usual length fit into a request to etcd, which takes 1.5 MiB."""


class SharedNodesSpec(Entry):
    """Names of the nodes, sorted."""

    nodes: Annotated[list[str], Field(max_length=NODES_MAX)] = Field(
        default=[], description="Names of the nodes; no pod with whole devices is placed on them."
    )


def parameter_kind() -> dict[str, str]:
    """Return the kind in the form of a policy's `paramKind`."""
    return {"apiVersion": API_VERSION, "kind": KIND}
