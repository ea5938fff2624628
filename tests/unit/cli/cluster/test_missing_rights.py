"""Refusals of RBAC: who lacks what right, where, and a way to have it."""

from typing import Any, cast

import pytest

from weir.cli.cluster.lookup import Lookup
from weir.cli.cluster.missing_rights import missing_right
from weir.client.errors import Refused
from weir.kubernetes.api.errors import ApiRefused


def refusal(resource: str, group: str, where: str, verb: str = "list", user: str = "ann") -> str:
    return (
        f'{resource}.{group} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group '
        f'"{group}" {where}'
    )


def test_a_refusal_in_a_namespace_names_the_namespace_and_the_way_to_another() -> None:
    found = missing_right(refusal("workloads", "query.weir.dev", 'in the namespace "default"'))
    assert found is not None
    assert found.startswith("ann may not read workloads in the namespace default")
    assert "set-context --current --namespace" in found


@pytest.mark.parametrize("group", ["query.weir.dev", "weir.dev"])
def test_a_refusal_in_the_cluster_names_the_role(group: str) -> None:
    text = refusal("nodes", group, "at the cluster scope", "get", user='oidc:ann "x"')
    found = missing_right(text)
    assert found is not None
    assert found.startswith('oidc:ann "x" may not read the nodes of the whole cluster')
    assert "weir-view" in found


@pytest.mark.parametrize(
    "text",
    [
        refusal("jobs", "batch", 'in the namespace "vision"'),
        refusal("projects", "weir.dev", "at the cluster scope", "create"),
        "The details of a decision name workloads of all namespaces.",
    ],
)
def test_other_refusals_stay_as_they_are(text: str) -> None:
    assert missing_right(text) is None


class NoProjects:
    """An API server that refuses to show projects."""

    async def get(self, _path: str, _of: type[Any]) -> Any:
        raise ApiRefused(403, "Forbidden", refusal("projects", "weir.dev", "at the cluster scope", "get"))


async def test_a_person_who_may_not_read_projects_names_the_namespace() -> None:
    def lookup(namespace: str | None) -> Lookup:
        return Lookup(cast(Any, NoProjects()), cast(Any, None), namespace)

    assert await lookup("vision-a").namespace_of("vision") == "vision-a"
    with pytest.raises(Refused, match="name its namespace: --namespace NAMESPACE"):
        await lookup(None).namespace_of("vision")
