"""Certificates of API servers and of proxies that aren't trusted, or don't hold."""

from pathlib import Path

import pytest
from tests.unit.kubernetes.api.test_connection_pool import OK, Server, listening, without_key_identifiers

from weir.kubernetes.api import credentials
from weir.kubernetes.api.connection_pool import CertificateRefused, ConnectionPool, Endpoint


async def test_an_untrusted_certificate_of_a_proxy_names_the_proxy(tmp_path: Path) -> None:
    tls, _ = without_key_identifiers(tmp_path)
    async with listening(Server(OK).serve, tls) as port:
        proxy = f"https://mia:secret@127.0.0.1:{port}"
        lines = ConnectionPool(Endpoint("https://10.0.0.1:6443", credentials.strict_context(), proxy=proxy))
        with pytest.raises(CertificateRefused) as refused:
            await lines.ask(lines.request("GET", "/", "", None))
        await lines.close()
    assert str(refused.value) == (
        f"The certificate of the proxy 127.0.0.1:{port} isn't trusted. Its issuer is authority. If this is the "
        "right server, name the PEM file of that authority in SSL_CERT_FILE."
    )


async def test_a_certificate_for_another_host_is_no_matter_of_trust(tmp_path: Path) -> None:
    tls, authority = without_key_identifiers(tmp_path)
    client = credentials.strict_context()
    client.load_verify_locations(authority)
    async with listening(Server(OK).serve, tls) as port:
        lines = ConnectionPool(Endpoint(f"https://127.0.0.1:{port}", client, "example.org"))
        with pytest.raises(CertificateRefused, match="isn't valid: Hostname mismatch"):
            await lines.ask(lines.request("GET", "/", "", None))
        await lines.close()
