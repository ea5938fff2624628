"""Refused certificates: the sentences name their issuer and the way to trust its authority."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from tools.controlplane.certificates import Authority

from weir import Pool
from weir.certificate_failures import issuer_of, refused_certificate
from weir.client.aio import AsyncPool
from weir.client.device_login import log_in
from weir.client.errors import Unreachable

ISSUER = "control plane for tests"


@pytest.fixture
def certificate(tmp_path: Path) -> bytes:
    pair = Authority(tmp_path / "pki").server()
    found = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    return found.public_bytes(Encoding.DER)


@pytest.fixture
def requests() -> list[bytes]:
    """The requests that the server gets."""
    return []


@pytest.fixture
def untrusted(tmp_path: Path, requests: list[bytes]) -> Iterator[str]:
    """The address of a server with a certificate of an authority that no client trusts."""
    pair = Authority(tmp_path / "served").server()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=_serve, args=(listener, tls, requests), daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"


def _serve(listener: socket.socket, tls: ssl.SSLContext, requests: list[bytes]) -> None:
    with suppress(OSError):
        while True:
            made, _ = listener.accept()
            with suppress(OSError), made, tls.wrap_socket(made, server_side=True) as secured:
                requests.append(secured.recv(1 << 16))
                secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def test_the_issuer_is_read_from_the_certificate(certificate: bytes) -> None:
    assert issuer_of(certificate) == ISSUER


def test_bytes_that_are_no_certificate_have_no_issuer(certificate: bytes) -> None:
    for cut in (*range(64), len(certificate) // 2):
        assert issuer_of(certificate[:cut]) == ""
    assert issuer_of(b"\x30\x84\xff\xff\xff\xff") == ""
    for at in range(200):
        changed = certificate[:at] + bytes([certificate[at] ^ 0xFF]) + certificate[at + 1 :]
        assert issuer_of(changed).isprintable()


def test_an_ended_certificate_is_no_matter_of_trust() -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = 10, "certificate has expired"
    sentence = refused_certificate(error, "the server", None, "trust it")
    assert sentence == "The certificate of the server isn't valid: certificate has expired."


def test_both_clients_of_a_pool_say_how_to_trust_its_authority(untrusted: str) -> None:
    wanted = (
        f"The certificate of {untrusted} isn't trusted. Its issuer is {ISSUER}. If this is the right server, name "
        "the PEM file of that authority in SSL_CERT_FILE."
    )
    with Pool(untrusted, token="t") as pool, pytest.raises(Unreachable) as refused:
        pool.status()
    assert str(refused.value) == wanted
    with pytest.raises(Unreachable) as refused:
        log_in(untrusted, lambda *_: None)
    assert str(refused.value) == wanted


def test_the_password_of_an_address_is_not_for_a_server_that_is_not_trusted(
    untrusted: str, requests: list[bytes]
) -> None:
    named = untrusted.replace("https://", "https://ann:hunter2@")
    with Pool(named, token="t") as pool, pytest.raises(Unreachable) as refused:
        pool.status()
    assert str(refused.value).startswith(
        f"The certificate of {untrusted} isn't trusted. Its issuer is {ISSUER}."
    )
    with pytest.raises(Unreachable) as refused:
        log_in(named, lambda *_: None)
    assert "hunter2" not in str(refused.value)
    assert any(request.startswith(b"HEAD") for request in requests)
    assert not [request for request in requests if b"authorization" in request.lower()]


async def test_the_asynchronous_client_says_the_same(untrusted: str) -> None:
    async with AsyncPool(untrusted, token="t") as pool:
        with pytest.raises(Unreachable, match=f"Its issuer is {ISSUER}"):
            await pool.status()
