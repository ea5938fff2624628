"""Paths of objects, whatever their names are."""

import pytest

from weir.kubernetes.api.paths import namespace_of, path_of


def test_a_name_stays_one_part_of_a_path() -> None:
    assert path_of("apps/v1", "deployments", "team", "web-1.a", "status") == (
        "/apis/apps/v1/namespaces/team/deployments/web-1.a/status"
    )
    hostile = "x HTTP/1.1\r\nAuthorization: y\r\n\r\n/../secrets?watch=true#\u2603"
    path = path_of("v1", "pods", "team", hostile)
    assert path.startswith("/api/v1/namespaces/team/pods/x%20HTTP")
    assert path.count("/") == 6
    assert path.isascii()
    assert not set(path) & set(" \r\n?#")


@pytest.mark.parametrize(
    ("path", "namespace"),
    [
        ("/api/v1/namespaces/team/pods/one", "team"),
        ("/apis/weir.dev/v1alpha1/namespaces/team/workloads", "team"),
        ("/api/v1/namespaces/team", "team"),
        ("/apis/weir.dev/v1alpha1/projects/team", ""),
        ("/api/v1/nodes/n1", ""),
    ],
)
def test_the_path_of_an_object_names_its_namespace(path: str, namespace: str) -> None:
    assert namespace_of(path) == namespace
