"""GPUs that the resource claims of a pod count as before the pod exists."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from weir.kubernetes.api.objects import KubePod, Metadata
from weir.kubernetes.api.resource_objects import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from weir.kubernetes.claims.claim_requests import ClaimError, ClaimRequests, parse_claim
from weir.kubernetes.claims.gpu_count import ClaimedGpus
from weir.kubernetes.state.claims.resource_claims import ResourceClaims
from weir.kubernetes.state.keyed_members import keep
from weir.model.workloads import Request


class TemplateClaims:
    """Claims of pods that don't exist: named ones, and those that would be made from templates."""

    def __init__(self, claims: ResourceClaims) -> None:
        self._claims = claims
        self._templates: dict[str, ResourceClaimSpec] = {}  # by namespace and name
        self._changes = 0
        self._counted = 0, 0

    def see(self, key: str, template: ResourceClaimTemplate | None) -> None:
        """Process a changed or deleted (None) template of claims."""
        keep(self._templates, key, None if template is None else template.spec.spec)
        self._changes += 1

    def see_claim(self, key: str, claim: ResourceClaim | None) -> None:
        """Process a changed or deleted (None) claim, also for existing pods.

        Only claims that people create are kept, which pod templates can name. Claims made for one pod have
        that pod as their controller.
        """
        namespace, _, name = key.partition("/")
        before = self._claims.inventory.claims.get((namespace, name))
        uids = {"" if version is None else version.metadata.uid for version in (before, claim)}
        shown = claim or before
        if shown is not None and len(uids) > 1 and shown.metadata.controller is None:
            self._changes += 1
        self._claims.see_claim(key, claim)

    def take_changed(self) -> bool:
        """Return True if pods may count as a different number of GPUs since the last call."""
        before, self._counted = self._counted, (self._changes, self._claims.inventory.class_changes)
        return before != self._counted

    def requests(self, pod: KubePod, request: Request) -> tuple[Request, Request]:
        """Return the requests of the first such pod and of each other one, with the GPUs of claims.

        A claim that pods name counts once: the first pod has its GPUs.
        """
        own, named = list(self._own(pod)), list(self._named(pod))
        other = _with_gpus(request, self._gpus(own))
        return (_with_gpus(request, self._gpus([*own, *named])) if named else other), other

    def _own(self, pod: KubePod) -> Iterator[ClaimRequests]:
        """Yield the claims that would be made for a pod."""
        for reference in pod.spec.resource_claims:
            spec = self._templates.get(f"{pod.metadata.namespace}/{reference.resource_claim_template_name}")
            if spec is not None:
                yield from self._parsed(ResourceClaim(Metadata(reference.name), spec))

    def _named(self, pod: KubePod) -> Iterator[ClaimRequests]:
        """Yield the claims that a pod names."""
        for reference in pod.spec.resource_claims:
            claim = self._claims.inventory.claims.get((pod.metadata.namespace, reference.resource_claim_name))
            if claim is not None:
                yield from self._parsed(claim)

    def _parsed(self, claim: ResourceClaim) -> Sequence[ClaimRequests]:
        """Return a parsed claim; None if it can't be allocated as written, which its pods will report."""
        try:
            return (parse_claim(claim, self._claims.inventory.classes),)
        except ClaimError:
            return ()

    def _gpus(self, claims: Sequence[ClaimRequests]) -> ClaimedGpus:
        return self._claims.gpus.of_pod(claims, None, is_plugged=False)[0]


def _with_gpus(request: Request, gpus: ClaimedGpus) -> Request:
    """Return a request with the GPUs of claims beside those that it states by number."""
    if not gpus.devices:
        return request
    return replace(
        request,
        devices=request.devices + gpus.devices,
        share_milli=gpus.share_milli,
        gpu_weight_milli=gpus.weight_milli,
    )
