"""Rights of the person of a kubeconfig, as the API server reviews them."""

import asyncio
from collections.abc import Iterable

from weir.cli.cluster import objects
from weir.cli.cluster import person as review
from weir.dashboard.person import ClusterScope, DashboardPerson
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION, GROUP

EVERYWHERE = "*"
NAMESPACES_MAX = 200
"""Limit of namespaces whose rights are reviewed one by one; others count as without rights."""
AT_ONCE = 16
_SET_QUOTA = ("patch", "set-quota")
_CONTROL = ("delete", "patch")


async def person_of(api: ApiClient, name: str, namespace: str | None) -> DashboardPerson:
    """Return the person of a kubeconfig, with the actions that the page offers them.

    `name`: of the cluster; `namespace`: the only one that is shown, None for all.

    Raises:
        ApiError: the API server doesn't answer.
    """
    limited = asyncio.Semaphore(AT_ONCE)

    async def may(verbs: Iterable[str], group: str, resource: str, within: str = "") -> bool:
        async with limited:
            for verb in verbs:
                if not await review.may(api, verb, group, resource, within):
                    return False
        return True

    user, projects = await asyncio.gather(review.user_of(api), _projects(api))
    is_admin, controls_all, submits_all = await asyncio.gather(
        may(_SET_QUOTA, GROUP, "projects"),
        may(_CONTROL, "batch", "jobs"),
        may(("create",), "batch", "jobs"),
    )
    theirs = {namespace for namespaces in projects.values() for namespace in namespaces}
    asked = sorted(theirs if namespace is None else theirs | {namespace})[:NAMESPACES_MAX]
    controls, submits = [EVERYWHERE], set(asked)
    if not controls_all:
        answers = await asyncio.gather(*(may(_CONTROL, "batch", "jobs", namespace) for namespace in asked))
        controls = [namespace for namespace, allowed in zip(asked, answers, strict=True) if allowed]
    if not submits_all:
        answers = await asyncio.gather(*(may(("create",), "batch", "jobs", namespace) for namespace in asked))
        submits = {namespace for namespace, allowed in zip(asked, answers, strict=True) if allowed}
    return DashboardPerson(
        user=user,
        is_admin=is_admin,
        projects=sorted(project for project, namespaces in projects.items() if submits & set(namespaces)),
        roles={},
        cluster=ClusterScope(name=name, namespace=namespace, controls=controls),
    )


async def _projects(api: ApiClient) -> dict[str, list[str]]:
    """Return the namespaces of each project; none if the person may not list projects."""
    try:
        projects = await api.list_all(path_of(API_VERSION, "projects"), objects.ListedQueue)
    except ApiRefused as error:
        if error.status not in (403, 404):
            raise
        return {}
    return {project.metadata.name: list(project.spec.get("namespaces") or []) for project in projects}
