"""Projects of a cluster that a person may submit to: those with a namespace where they may create Jobs."""

import asyncio
from collections.abc import Sequence

from weir.cli.cluster.objects import ListedQueue
from weir.cli.cluster.person import may
from weir.kubernetes.api.client import ApiClient

NAMESPACES_MAX = 500
"""Namespaces whose rights are reviewed."""
_REVIEWS_AT_ONCE = 16


async def usable_projects(
    api: ApiClient, projects: Sequence[ListedQueue], *, only: str | None
) -> list[ListedQueue]:
    """Return the projects that take work and have a namespace where the person may create Jobs.

    `only` is the namespace to submit to, if one is given.
    """
    candidates = []
    for project in projects:
        namespaces = _namespaces(project)
        if project.metadata.deletion_timestamp is None and (only in namespaces or only is None):
            candidates.append((project, namespaces if only is None else {only}))
    reviewed = sorted(set[str]().union(*(namespaces for _, namespaces in candidates)))[:NAMESPACES_MAX]
    allowed = await _allowed(api, reviewed)
    return [project for project, namespaces in candidates if namespaces & allowed]


def _namespaces(project: ListedQueue) -> set[str]:
    written = project.spec.get("namespaces")
    return {str(name) for name in written} if isinstance(written, list) else set()


async def _allowed(api: ApiClient, namespaces: Sequence[str]) -> set[str]:
    """Return those of these namespaces where the person may create Jobs."""
    if len(namespaces) > 1 and await may(api, "create", "batch", "jobs", ""):
        return set(namespaces)
    free = asyncio.Semaphore(_REVIEWS_AT_ONCE)

    async def review(namespace: str) -> bool:
        async with free:
            return await may(api, "create", "batch", "jobs", namespace)

    answers = await asyncio.gather(*map(review, namespaces))
    return {namespace for namespace, is_allowed in zip(namespaces, answers, strict=True) if is_allowed}
