"""Objects that own pods, and the workloads that the table of kinds derives from them."""

from weir.kubernetes.api.objects import KubePod, Metadata, OwnerReference, PodSpec, PodStatus
from weir.kubernetes.translate.kinds import WorkloadKinds, load_kinds

KINDS = load_kinds()


def obj(kind, api, spec=None, status=None, name="it", **metadata):
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{name}", **metadata},
        "spec": spec or {},
        "status": status or {},
    }


def pod(labels=None, owner=None, name="pod-0", phase="Pending"):
    references = []
    if owner is not None:
        references = [
            OwnerReference(
                owner["apiVersion"], owner["kind"], owner["metadata"]["name"], owner["metadata"]["uid"], True
            )
        ]
    metadata = Metadata(name=name, uid="uid-" + name, labels=labels or {}, owner_references=references)
    return KubePod(metadata=metadata, spec=PodSpec(), status=PodStatus(phase=phase))


def derive(*owners, labels=None, kinds: WorkloadKinds = KINDS):
    """As it is done: the objects narrowed to what the table reads."""
    return kinds.derive(pod(labels, owners[0] if owners else None), [kinds.narrow(owner) for owner in owners])


def job(spec=None, status=None, **more):
    return obj("Job", "batch/v1", spec, status, **more)
