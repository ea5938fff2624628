"""Calls to the API server, counted by verb, resource and code."""

import pytest

from weir.kubernetes.process.server.api_calls import ApiCalls


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", ("list", "pods")),
        ("GET", "/api/v1/namespaces/a/pods", ("list", "pods")),
        ("GET", "/api/v1/namespaces/a/pods/b", ("get", "pods")),
        ("POST", "/api/v1/namespaces/a/pods/b/binding", ("create", "pods/binding")),
        ("POST", "/api/v1/namespaces/a/pods/b/eviction", ("create", "pods/eviction")),
        ("WATCH", "/apis/weir.dev/v1alpha1/workloads", ("watch", "workloads")),
        ("PATCH", "/apis/weir.dev/v1alpha1/namespaces/a/workloads/b/status", ("patch", "workloads/status")),
        ("GET", "/api/v1/namespaces", ("list", "namespaces")),
        ("GET", "/api/v1/namespaces/a", ("get", "namespaces")),
        ("PUT", "/api/v1/nodes/n", ("update", "nodes")),
        ("DELETE", "/apis/batch/v1/namespaces/a/jobs/b", ("delete", "jobs")),
        ("GET", "/version", ("get", "version")),
        ("GET", "/apis/batch/v1", ("get", "apis")),
        ("GET", "/", ("get", "")),
    ],
)
def test_a_call_is_counted_as_the_api_server_groups_it(
    method: str, path: str, expected: tuple[str, str]
) -> None:
    calls = ApiCalls()
    calls.add(method, path, 200, 0.01)
    assert calls.counts == {(*expected, "200"): 1}


def test_calls_without_an_answer_and_watches_have_no_duration() -> None:
    calls = ApiCalls()
    calls.add("GET", "/api/v1/pods", 0, 60.0)
    calls.add("WATCH", "/api/v1/pods", 200, 0.0)
    calls.add("GET", "/api/v1/pods", 429, 0.02)
    calls.add("GET", "/api/v1/pods", 200, 0.2)
    assert calls.counts["list", "pods", "none"] == calls.counts["list", "pods", "429"] == 1
    assert calls.durations.keys() == {"list"}
    buckets, total = calls.durations["list"].buckets()
    assert buckets[-1] == ("+Inf", 2.0)
    assert total == pytest.approx(0.22)
