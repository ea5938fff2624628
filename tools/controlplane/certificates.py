"""Certificates of one control plane: its authority, the server's certificate, and its clients'."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = dt.timedelta(days=30)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates into one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The API server verifies a signature for each request: one of RSA takes a fifth of the time.
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "control plane for tests")])
        made = (
            self._begun(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = directory / "ca.crt"
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str = "server", hosts: Sequence[str] = _SERVER_NAMES) -> Pair:
        """Return a certificate to serve on this machine with."""
        alternatives: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
        alternatives += [
            x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "10.0.0.1")
        ]
        return self._pair(name, name, (), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """Return a certificate that makes its bearer this user of these groups."""
        return self._pair(user.replace(":", "-"), user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _pair(
        self,
        file: str,
        user: str,
        groups: Sequence[str],
        use: x509.ObjectIdentifier,
        alternatives: list[x509.GeneralName],
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        named = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*named, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        begun = (
            self._begun(subject, key.public_key())
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(_usage(signs=False), critical=True)
        )
        if alternatives:
            begun = begun.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        made = begun.sign(self._key, hashes.SHA256())
        pair = Pair(self.directory / f"{file}.crt", self.directory / f"{file}.key")
        pair.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        write_key(pair.key, key)
        return pair

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + _VALID)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )


def service_account_keys(directory: Path) -> Pair:
    """Return the keys by which the API server signs tokens of service accounts.

    `certificate` is the public key.
    """
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pair = Pair(directory / "service-accounts.pub", directory / "service-accounts.key")
    pair.certificate.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    write_key(pair.key, key)
    return pair


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    """Write a private key that only its owner may read."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
