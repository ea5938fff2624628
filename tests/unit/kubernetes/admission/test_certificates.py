"""Certificates are renewed in time, and callers that trust the bundle trust the served certificate, before and after."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.verification import DNSName, PolicyBuilder, Store

from weir.kubernetes.admission.certificates import Certificates, first, read, renewed, written

NAMES = ("weir.weir-system.svc", "127.0.0.1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def trusted(bundle: bytes, certificate: bytes, at: datetime) -> None:
    store = Store(x509.load_pem_x509_certificates(bundle))
    verifier = PolicyBuilder().store(store).time(at).build_server_verifier(DNSName(NAMES[0]))
    verifier.verify(x509.load_pem_x509_certificate(certificate), [])


def days(number: float) -> datetime:
    return NOW + timedelta(days=number)


def test_what_is_written_reads_back_and_shows_no_key() -> None:
    made = first(NAMES, NOW)
    assert read(written(made)) == made
    assert b"PRIVATE" not in repr(made).encode()
    assert read({}) is None
    assert read({**written(made), "tls.key": "bm9uZQ=="}) is None
    trusted(made.bundle, made.certificate, NOW)


def test_the_only_key_that_is_kept_is_that_of_the_certificate() -> None:
    """A reader of the Secret can serve as Weir, and can't sign for another name."""
    made = first(NAMES, NOW)
    keys = [base64.b64decode(part) for part in written(made).values() if b"PRIVATE" in base64.b64decode(part)]
    assert keys == [made.key]
    key = serialization.load_pem_private_key(made.key, None)
    assert key.public_key() == x509.load_pem_x509_certificate(made.certificate).public_key()
    assert key.public_key() != x509.load_pem_x509_certificate(made.bundle).public_key()


def test_the_key_of_callers_stays_when_certificates_are_renewed_and_is_made_where_there_is_none() -> None:
    made = first(NAMES, NOW)
    assert made.caller_key != first(NAMES, NOW).caller_key
    assert made.caller_key not in repr(made)
    for later in (250, 700):
        assert renewed(made, NAMES, days(later)).caller_key == made.caller_key
    for other in (b"", b"../x", b"A" * 32, b"0" * 31):
        held = read({**written(made), "caller.key": base64.b64encode(other).decode()})
        assert held is not None
        assert held.caller_key == ""
        again = renewed(held, NAMES, NOW)
        assert (len(again.caller_key), again.certificate) == (32, made.certificate)
    assert read({**written(made), "caller.key": base64.b64encode(b"\xff").decode()}) is None


def test_nothing_is_renewed_before_it_is_due() -> None:
    made = first(NAMES, NOW)
    assert renewed(made, NAMES, days(240)) is made
    again = renewed(made, NAMES, days(250))
    assert again.certificate != made.certificate
    assert again.bundle.endswith(made.bundle)
    assert len(again.bundle.split(b"BEGIN")) == 3
    assert renewed(made, (*NAMES, "other.svc"), days(1)).certificate != made.certificate


def test_certificates_of_a_clock_that_was_ahead_are_renewed() -> None:
    """The API server refuses them until they begin."""
    made = first(NAMES, days(2))
    again = renewed(made, NAMES, NOW)
    assert again.certificate != made.certificate
    assert again.caller_key == made.caller_key
    assert renewed(again, NAMES, NOW) is again


def test_few_former_authorities_are_trusted_however_often_there_are_new_ones() -> None:
    held = first(NAMES, NOW)
    for at in range(5):
        before, held = held, renewed(held, (*NAMES, f"other-{at}.svc"), days(at))
        trusted(held.bundle, before.certificate, days(at))
    assert len(held.bundle.split(b"BEGIN")) == 4


def test_over_years_no_call_fails() -> None:
    """Replicas with the former certificate are trusted, and callers with the former bundle trust the new one."""
    held, authorities = first(NAMES, NOW), set()
    for day in range(0, 2000, 5):
        now = days(day)
        before, held = held, renewed(held, NAMES, now)
        authorities.add(x509.load_pem_x509_certificates(held.bundle)[0].serial_number)
        trusted(held.bundle, held.certificate, now)
        trusted(held.bundle, before.certificate, now)
    assert len(authorities) > 2
    assert len(held.bundle.split(b"BEGIN")) <= 3


def test_openssl_takes_them(tmp_path: Path) -> None:
    import ssl

    made: Certificates = first(NAMES, datetime.now(UTC))
    (tmp_path / "crt").write_bytes(made.certificate)
    (tmp_path / "key").write_bytes(made.key)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "crt", tmp_path / "key")
