"""The three types of workloads, as classes that a pod can name."""

from typing import Literal

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.install.parts import Manifest, cluster_object
from weir.model.workloads import DEFAULT_PRIORITY

ClassNames = Literal["prefixed", "plain", "none"]
"""`weir-train`, or `train`, or no classes. A cluster may have a class `train` of its own."""
_MEANINGS = {
    "train": "Training: may use more than its project's quota, and may be preempted.",
    "build": "Interactive work: within quota, and not preempted.",
    "inference": "Serving: within quota, and not preempted; first in its project.",
}


def priority_classes(names: ClassNames = "prefixed") -> list[Manifest]:
    """Return the classes under these names."""
    if names == "none":
        return []
    prefix = f"{NAME}-" if names == "prefixed" else ""
    return [
        cluster_object(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            f"{prefix}{type_.value}",
            value=value,
            globalDefault=False,
            description=_MEANINGS[type_.value],
        )
        for type_, value in DEFAULT_PRIORITY.items()
    ]
