"""Destinations that Weir may call besides the API server."""

import pytest

from weir.kubernetes.install.manifests import Installation, manifests
from weir.kubernetes.install.pods.deployment import PodOptions
from weir.kubernetes.install.pods.network import destination


@pytest.mark.parametrize("text", ["monitoring:9090", "10.0.0.0/28:5432", "fd00::/64:5432"])
def test_destinations_are_a_source_and_a_port(text: str) -> None:
    assert destination(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "monitoring",
        "monitoring:",
        ":9090",
        "monitoring:0",
        "monitoring:65536",
        "a b:1",
        "10.0.0.1/8:1",
        "x:\uff11",
    ],
)
def test_what_is_no_destination_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="such as monitoring:9090"):
        destination(text)


def test_the_policy_lets_weir_call_these_and_name_servers_alone() -> None:
    def policies(*may_call: str) -> dict[str, dict[str, object]]:
        made = manifests(Installation(pods=PodOptions(may_call=may_call)))
        return {each["metadata"]["name"]: each["spec"] for each in made if each["kind"] == "NetworkPolicy"}

    assert set(policies()) == {"weir"}
    found = policies("monitoring:9090")
    assert found["weir"] == policies()["weir"]
    calls = found["weir-calls"]
    assert calls["policyTypes"] == ["Egress"]
    source, names = calls["egress"]  # type: ignore[misc]
    assert source == {
        "ports": [{"protocol": "TCP", "port": 9090}],
        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    }
    assert {(each["protocol"], each["port"]) for each in names["ports"]} == {
        ("UDP", 53),
        ("TCP", 53),
        ("UDP", 5353),
        ("TCP", 5353),
    }
