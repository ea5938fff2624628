"""Trust in the front proxy: certificates, names and headers, as the ConfigMap states them."""

import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from multidict import CIMultiDict
from tools.controlplane.certificates import Authority, Pair

from weir.kubernetes.query.aggregation.front_proxy import FrontProxyRules, Identity, is_issued_by, read_rules

NOW = datetime.now(UTC) + timedelta(days=1)
"""A time at which the certificates are valid that tests make later."""


def rules(authority: Authority, **data: str) -> FrontProxyRules:
    return read_rules({"requestheader-client-ca-file": authority.certificate.read_text(), **data})


def der(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())


def test_a_certificate_counts_by_its_authority_its_name_its_use_and_its_time(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    any_name = rules(ours)
    named = rules(ours, **{"requestheader-allowed-names": '["front-proxy-client"]'})
    right, wrong = ours.client("front-proxy-client"), ours.client("somebody")
    assert named.trusts(der(right), NOW)
    assert named.trusts(der(right), NOW), "once more, from memory"
    assert not named.trusts(der(wrong), NOW)
    assert any_name.trusts(der(wrong), NOW)
    for found in (named, any_name):
        assert not found.trusts(der(others.client("front-proxy-client")), NOW)
        assert not found.trusts(der(ours.server("front-proxy-client")), NOW), "it is for servers"
        assert not found.trusts(der(right), NOW + timedelta(days=31))
        assert not found.trusts(None, NOW)
        assert not found.trusts(b"not a certificate", NOW)
    assert not FrontProxyRules().trusts(der(right), NOW), "nothing is trusted before the ConfigMap is read"
    assert is_issued_by(der(wrong), ours.certificate.read_bytes())
    assert not is_issued_by(der(wrong), others.certificate.read_bytes())


def test_a_new_authority_is_trusted_beside_the_old_one(tmp_path: Path) -> None:
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    both = read_rules(
        {"requestheader-client-ca-file": old.certificate.read_text() + new.certificate.read_text()}
    )
    assert both.trusts(der(old.client("a")), NOW)
    assert both.trusts(der(new.client("a")), NOW)
    assert not rules(new).trusts(der(old.client("a")), NOW)


def test_headers_name_the_person(tmp_path: Path) -> None:
    found = rules(
        Authority(tmp_path),
        **{
            "requestheader-username-headers": json.dumps(["X-Other", "X-Remote-User"]),
            "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
            "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
        },
    )
    headers = CIMultiDict(
        [
            ("x-remote-user", "ann"),
            ("X-Remote-Uid", "7"),
            ("X-Remote-Group", "team-a"),
            ("X-Remote-Group", "system:authenticated"),
            ("X-Remote-Extra-Scopes.example.org%2fa", "one"),
            ("X-Remote-Extra-scopes.example.org%2fa", "two"),
        ]
    )
    groups = ("team-a", "system:authenticated")
    extra = (("scopes.example.org/a", ("one", "two")),)
    assert found.identity(headers, headers.getall) == Identity("ann", groups, "7", extra)
    groups_alone = CIMultiDict([("X-Remote-Group", "system:masters")])
    assert found.identity(groups_alone, groups_alone.getall) is None


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"requestheader-client-ca-file": "  "},
        {"requestheader-client-ca-file": "no certificate"},
        {"requestheader-allowed-names": "[1]"},
        {"requestheader-username-headers": "X-Remote-User"},
    ],
)
def test_a_config_that_cannot_be_read_is_refused_as_a_whole(data: dict[str, str], tmp_path: Path) -> None:
    whole = {"requestheader-client-ca-file": Authority(tmp_path).certificate.read_text()} if data else {}
    with pytest.raises(ValueError, match=r"."):
        read_rules({**whole, **data})
