"""Requests of pods, each read once for all pods of the same template."""

from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.translate.annotations import Annotations
from weir.kubernetes.translate.claim_constraints import NO_CLAIMS, ClaimConstraints
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.pod_affinity import NO_AFFINITIES, PodAffinities
from weir.kubernetes.translate.requests import PodRequest, parse_request
from weir.kubernetes.translate.resource_names import ResourceNames
from weir.kubernetes.translate.volumes import ANYWHERE, VolumeConstraints

PodConstraints = tuple[VolumeConstraints, ClaimConstraints, PodAffinities]
NO_CONSTRAINTS: PodConstraints = (ANYWHERE, NO_CLAIMS, NO_AFFINITIES)


class PodRequests:
    """Requests by template, annotations and constraints. Templates are compared by identity."""

    def __init__(self) -> None:
        self.names = ResourceNames()
        self._requests: dict[tuple[object, ...], PodRequest] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def request_of(
        self, pod: KubePod, annotations: Annotations, constraints: PodConstraints, devices: DeviceResources
    ) -> PodRequest:
        """Return the request of a pod."""
        alike = (id(pod.spec), annotations, constraints)
        pod_request = self._requests.get(alike)
        if pod_request is None:
            volumes, claims, neighbours = constraints
            pod_request = self._requests[alike] = parse_request(
                pod,
                annotations,
                devices=devices,
                names=self.names,
                volumes=volumes,
                claims=claims,
                neighbours=neighbours,
            )
        return pod_request

    def forget(self) -> None:
        """Forget all requests, so that they are read again."""
        self._requests.clear()
