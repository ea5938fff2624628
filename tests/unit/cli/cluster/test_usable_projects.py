"""Projects of a cluster that a person may submit to."""

from collections.abc import Collection
from typing import Any, cast

import pytest

from weir.cli.cluster.objects import ListedQueue
from weir.cli.cluster.usable_projects import usable_projects
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.objects import Metadata


class Reviews:
    """An API server that answers reviews of rights: which namespaces Jobs may be created in."""

    def __init__(self, allowed: Collection[str]) -> None:
        self.allowed = allowed

    async def post(self, _path: str, body: Any, form: Any) -> Any:
        attributes = body["spec"]["resourceAttributes"]
        assert (attributes["verb"], attributes["group"], attributes["resource"]) == (
            "create",
            "batch",
            "jobs",
        )
        answer = form()
        answer.status.allowed = attributes["namespace"] in self.allowed
        return answer


def project(name: str, *namespaces: str, leaving: bool = False) -> ListedQueue:
    metadata = Metadata(name=name, deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None)
    return ListedQueue(metadata, {"namespaces": list(namespaces)} if namespaces else {})


PROJECTS = (
    project("empty"),
    project("gone", "gone", leaving=True),
    project("nlp", "nlp", "speech"),
    project("vision", "vision"),
)


@pytest.mark.parametrize(
    ("allowed", "only", "found"),
    [
        (("",), None, ["nlp", "vision"]),
        (("vision",), None, ["vision"]),
        (("speech",), None, ["nlp"]),
        (("speech", "vision"), "speech", ["nlp"]),
        (("vision",), "nlp", []),
        (("gone",), None, []),
        ((), None, []),
    ],
)
async def test_projects_with_a_namespace_for_jobs_of_the_person(
    allowed: tuple[str, ...], only: str | None, found: list[str]
) -> None:
    api = cast("ApiClient", Reviews(allowed))
    assert [each.metadata.name for each in await usable_projects(api, PROJECTS, only=only)] == found
