"""The certificates of the webhooks: made here, kept in one Secret, renewed before they run out.

An authority of our own signs what is served, so nothing else has to be installed. It signs one certificate,
and its key is kept nowhere: a reader of the Secret can't sign for other names. Each renewal makes a new
authority. All replicas use what the Secret holds. The replica that finds something due renews it, and the
resource version of the Secret decides between two replicas. A new authority is trusted beside the old one
before a certificate that it signed is in use. The old one stays trusted until its last certificate has run
out: no call fails while they change.
"""

import base64
import ipaddress
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 365
OLD_MAX = 2
"""Limit of former authorities that are still trusted."""
RENEW_AT = 1 / 3
"""Part of the lifetime that is left when a certificate is renewed."""
_BACK = timedelta(hours=1)
"""Valid since a little before it was made: clocks differ."""
_CA, _CERTIFICATE, _KEY = "ca.crt", "tls.crt", "tls.key"
_CALLER_KEY = "caller.key"
_CALLER_KEY_FORM = re.compile(r"[0-9a-f]{32}", re.ASCII)  # a step of a webhook's path is a DNS label


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificates and the key of the Secret, in PEM."""

    bundle: bytes  # CA certificates to trust: the present one first, then former ones
    certificate: bytes
    key: bytes = field(repr=False)
    caller_key: str = field(default="", repr=False)  # last part of the webhooks' paths, known to callers only


def first(names: Sequence[str], now: datetime) -> Certificates:
    """Return the first certificates."""
    authority, authority_key = _authority(now)
    certificate, key = _serving(authority, authority_key, names, now)
    return Certificates(_pem(authority), certificate, key, secrets.token_hex(16))


def renewed(certificates: Certificates, names: Sequence[str], now: datetime) -> Certificates:
    """Return the certificates, with due ones renewed; the same object if none is due."""
    if not certificates.caller_key:
        certificates = replace(certificates, caller_key=secrets.token_hex(16))
    serving = x509.load_pem_x509_certificate(certificates.certificate)
    if _is_due(serving, now) or set(names) - set(_names_of(serving)):
        return trusting(
            replace(first(names, now), caller_key=certificates.caller_key), certificates.bundle, now
        )
    return certificates


def trusting(new: Certificates, bundle: bytes, now: datetime) -> Certificates:
    """Return new certificates with former authorities, as long as their certificates may be in use."""
    former = [
        certificate
        for certificate in x509.load_pem_x509_certificates(bundle)
        if now < certificate.not_valid_after_utc
    ]
    return replace(new, bundle=new.bundle + b"".join(map(_pem, former[:OLD_MAX])))


def read(data: Mapping[str, str]) -> Certificates | None:
    """Return the certificates in a Secret; None if they are missing or unusable."""
    try:
        raw = {key: base64.b64decode(value, validate=True) for key, value in data.items()}
        caller_key = raw.get(_CALLER_KEY, b"").decode("ascii")
        if not _CALLER_KEY_FORM.fullmatch(caller_key):
            caller_key = ""
        certificates = Certificates(raw[_CA], raw[_CERTIFICATE], raw[_KEY], caller_key)
        x509.load_pem_x509_certificates(certificates.bundle)
        x509.load_pem_x509_certificate(certificates.certificate)
        serialization.load_pem_private_key(certificates.key, None)
    except (KeyError, ValueError, TypeError):
        return None
    return certificates


def written(certificates: Certificates) -> dict[str, Any]:
    """Return the data of a Secret of type kubernetes.io/tls."""
    parts = {
        _CA: certificates.bundle,
        _CERTIFICATE: certificates.certificate,
        _KEY: certificates.key,
        _CALLER_KEY: certificates.caller_key.encode(),
    }
    return {name: base64.b64encode(part).decode() for name, part in parts.items()}


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    """Return True near the end of a certificate, and before its beginning: it was made by a clock ahead."""
    if now < certificate.not_valid_before_utc:
        return True
    whole = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return now > certificate.not_valid_after_utc - whole * RENEW_AT


def _names_of(certificate: x509.Certificate) -> list[str]:
    alternative_names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [
        *alternative_names.get_values_for_type(x509.DNSName),
        *map(str, alternative_names.get_values_for_type(x509.IPAddress)),
    ]


def _authority(now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    made_on = f"{now:%Y-%m-%d %H:%M:%S}"  # clients would confuse two CAs of the same name
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Weir webhooks, {made_on}")])
    begun = _begun(name, name, key.public_key(), now)
    usage = _usage(signs=True)
    begun = begun.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return begun.add_extension(usage, critical=True).sign(key, hashes.SHA256()), key


def _serving(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
    now: datetime,
) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Weir webhooks")])
    alternatives: list[x509.GeneralName] = []
    for name in names:
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            alternatives.append(x509.DNSName(name))
    begun = _begun(subject, authority.subject, key.public_key(), now)
    begun = begun.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    begun = begun.add_extension(_usage(signs=False), critical=True)
    begun = begun.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    begun = begun.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    begun = begun.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
    )
    return _pem(begun.sign(authority_key, hashes.SHA256())), _private(key)


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACK)
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
