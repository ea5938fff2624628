"""Pods of suspended Jobs, as their templates describe them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from weir.kubernetes.api.objects import KubePod, Metadata, OwnerReference, PodSpec
from weir.kubernetes.translate.annotations import means_something

TEMPLATE = "podOfTemplate"
"""Key of the pod template in a Job, besides the fields that the table of kinds reads."""
JOB = ("batch/v1", "Job")


class _JobTemplateMetadata(msgspec.Struct):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _JobTemplate(msgspec.Struct):
    spec: PodSpec
    metadata: _JobTemplateMetadata = msgspec.field(default_factory=_JobTemplateMetadata)


def pod_of_suspended(job: Metadata, spec: Mapping[str, Any], status: Mapping[str, Any]) -> KubePod | None:
    """Return a pod of a suspended Job without pods; None for other Jobs, or if its template can't be read."""
    if spec.get("suspend") is not True or status.get("active"):
        return None
    try:
        template = msgspec.convert(spec.get("template"), _JobTemplate)
    except msgspec.ValidationError:
        return None
    written = template.metadata.annotations
    metadata = Metadata(
        f"{job.name}#",  # no pod has such a name
        uid=f"{job.uid}#",
        namespace=job.namespace,
        creation_timestamp=job.creation_timestamp,
        labels=template.metadata.labels,
        annotations={name: written[name] for name in written if means_something(name)},
        owner_references=[OwnerReference(*JOB, job.name, job.uid, controller=True)],
    )
    return KubePod(metadata, template.spec)
