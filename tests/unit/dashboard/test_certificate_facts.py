"""Facts of a certificate, also of one in front of a chain, and of one that has ended."""

import ssl
import time
from pathlib import Path

import pytest
from tests.oidc.pool import Authority

from weir.dashboard.certificate_facts import facts_of


def context_of(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


@pytest.mark.parametrize("left_s", [3600.0, -60.0])
def test_the_first_certificate_of_a_file_counts(tmp_path: Path, left_s: float) -> None:
    certificate, key = tmp_path / "tls.pem", tmp_path / "tls.key"
    authority = Authority(tmp_path, ["gpu1.example.org", "*.S.example.org"])
    authority.certify(certificate, key, left_s=left_s)
    certificate.write_bytes(certificate.read_bytes() + authority.file.read_bytes())
    found = facts_of(context_of(certificate, key), certificate)
    assert abs(found.ends_s - time.time() - left_s) < 60
    assert found.covers_names_below("s.example.org")
    assert not found.covers_names_below("example.org")


def test_another_file_than_the_served_one_is_refused(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.pem", tmp_path / "tls.key"
    authority = Authority(tmp_path)
    authority.certify(certificate, key)
    context = context_of(certificate, key)
    (tmp_path / "other").mkdir()
    with pytest.raises(ssl.SSLError):
        facts_of(context, Authority(tmp_path / "other").file)
