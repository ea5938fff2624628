"""Identity of the people for whom the API server forwards requests.

The API server authenticates and authorizes a request, and names the person in headers. Anyone could send such
headers. So they count only on a connection with a client certificate of the front proxy: signed by the
authority, and with a name, that the ConfigMap `extension-apiserver-authentication` states.
"""

import asyncio
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct
from structlog import get_logger

from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.paths import path_of

CONFIG_NAMESPACE, CONFIG_NAME = "kube-system", "extension-apiserver-authentication"
EVERY_S, AGAIN_S = 60.0, 5.0
"""Interval between two reads of the ConfigMap, and after a failed one."""
GROUPS_MAX = 1_000
CERTIFICATES_MAX = 64
"""Authorities of the ConfigMap; and certificates of callers whose check is remembered."""
_LOG = get_logger(__name__)


class AuthenticationConfig(Struct):
    """The ConfigMap."""

    data: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Identity:
    """A person, as the API server has authenticated them."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class FrontProxyRules:
    """Certificates and headers of the front proxy."""

    authorities: tuple[x509.Certificate, ...] = ()
    names: frozenset[str] = frozenset()  # empty: any
    user_headers: tuple[str, ...] = ("X-Remote-User",)
    uid_headers: tuple[str, ...] = ("X-Remote-Uid",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)
    pem: str = ""
    _checked: dict[bytes, x509.Certificate | None] = field(default_factory=dict, compare=False, repr=False)

    def trusts(self, certificate: bytes | None, now: datetime) -> bool:
        """Return True if a certificate, in DER, is one of the front proxy and is valid now."""
        if not certificate:
            return False
        digest = hashes.Hash(hashes.SHA256())
        digest.update(certificate)
        key = digest.finalize()
        if key not in self._checked:
            if len(self._checked) >= CERTIFICATES_MAX:
                self._checked.clear()
            self._checked[key] = self._trusted(certificate)
        parsed = self._checked[key]
        return parsed is not None and parsed.not_valid_before_utc <= now <= parsed.not_valid_after_utc

    def _trusted(self, certificate: bytes) -> x509.Certificate | None:
        """Return the certificate if an authority has signed it for a client of an allowed name."""
        try:
            parsed = x509.load_der_x509_certificate(certificate)
            names = {
                str(attribute.value)
                for attribute in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            }
            usage = parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except (ValueError, x509.ExtensionNotFound):
            return None
        if ExtendedKeyUsageOID.CLIENT_AUTH not in usage or (self.names and not names & self.names):
            return None
        return parsed if any(_signed(parsed, authority) for authority in self.authorities) else None

    def issued(self, certificate: bytes) -> bool:
        """Return True if an authority of the front proxy has signed a certificate. Its name isn't checked."""
        return is_issued_by(certificate, self.pem.encode())

    def identity(self, headers: Mapping[str, str], get_all: Any) -> Identity | None:
        """Return the person whom the headers name; None if they name none."""
        user = next((headers[name] for name in self.user_headers if headers.get(name)), "")
        if not user:
            return None
        groups = [group for name in self.group_headers for group in get_all(name, ())]
        extra: dict[str, list[str]] = {}
        for prefix in self.extra_prefixes:
            for name in dict.fromkeys(
                header for header in headers if header.lower().startswith(prefix.lower())
            ):
                key = unquote(name[len(prefix) :].lower())
                extra.setdefault(key, []).extend(get_all(name, ()))
        return Identity(
            user,
            tuple(groups[:GROUPS_MAX]),
            next((headers[name] for name in self.uid_headers if headers.get(name)), ""),
            tuple(sorted((key, tuple(values)) for key, values in extra.items())),
        )


class FrontProxy:
    """The rules of the cluster, kept up to date, and the authorities in the TLS context of the port."""

    def __init__(self, api: ApiClient, tls: ssl.SSLContext | None = None) -> None:
        self._api = api
        self.tls = tls
        self.rules = FrontProxyRules()
        self._trouble = ""

    async def run(self) -> None:
        """Follow the ConfigMap until cancelled."""
        while True:
            after_s = await self.round()
            await asyncio.sleep(after_s)

    async def round(self) -> float:
        """Read the ConfigMap; return after how many seconds to read it again."""
        path = path_of("v1", "configmaps", CONFIG_NAMESPACE, CONFIG_NAME)
        try:
            config = await self._api.get(path, AuthenticationConfig)
            rules = read_rules(config.data)
        except (ApiError, ValueError) as error:
            if (trouble := str(error)[:300]) != self._trouble:
                _LOG.warning("front_proxy_not_known", why=trouble)
            self._trouble = trouble
            return AGAIN_S
        self._trouble = ""
        if rules != self.rules:
            self._accept(rules)
        return EVERY_S

    def _accept(self, rules: FrontProxyRules) -> None:
        """Ask new connections for certificates of these authorities. OpenSSL forgets none of earlier ones."""
        if rules.pem != self.rules.pem and self.tls is not None:
            self.tls.load_verify_locations(cadata=rules.pem)
            self.tls.verify_mode = ssl.CERT_OPTIONAL
            _LOG.info("front_proxy_known", authorities=len(rules.authorities), names=sorted(rules.names))
        self.rules = rules


def read_rules(data: Mapping[str, str]) -> FrontProxyRules:
    """Return the rules of the ConfigMap.

    Raises:
        ValueError: it states no authority of a front proxy, or can't be read.
    """
    pem = data.get("requestheader-client-ca-file", "")
    if not pem.strip():
        raise ValueError(
            "the API server has no authority for a front proxy: set its --requestheader-client-ca-file"
        )
    authorities = x509.load_pem_x509_certificates(pem.encode())
    defaults = FrontProxyRules()
    return FrontProxyRules(
        tuple(authorities[:CERTIFICATES_MAX]),
        frozenset(_texts(data, "requestheader-allowed-names", ())),
        _texts(data, "requestheader-username-headers", defaults.user_headers),
        _texts(data, "requestheader-uid-headers", defaults.uid_headers),
        _texts(data, "requestheader-group-headers", defaults.group_headers),
        _texts(data, "requestheader-extra-headers-prefix", defaults.extra_prefixes),
        pem,
    )


def is_issued_by(certificate: bytes, authorities: bytes) -> bool:
    """Return True if one of the authorities, in PEM, has signed a certificate, in DER."""
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        return any(_signed(parsed, authority) for authority in x509.load_pem_x509_certificates(authorities))
    except ValueError:
        return False


def _texts(data: Mapping[str, str], key: str, default: Iterable[str]) -> tuple[str, ...]:
    written = data.get(key, "")
    if not written:
        return tuple(default)
    texts: Sequence[str] = msgspec.json.decode(written, type=list[str])
    return tuple(texts)


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001 - of many kinds, by the kind of key; none of them is a signature
        return False
    now = datetime.now(UTC)
    return authority.not_valid_before_utc <= now <= authority.not_valid_after_utc
