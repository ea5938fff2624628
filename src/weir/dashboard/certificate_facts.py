"""Facts of a served certificate: its expiry, and the names that it covers.

The standard library decodes only certificates of a connection, so a handshake in memory takes place.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

_NO_CHECK_TIME = 0x200000
"""Flag of OpenSSL: certificates that have ended are decoded, too."""
_STEPS_MAX = 10


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """Facts of a certificate.

    Attributes:
        ends_s: time at which it ends.
        names: names of hosts that it holds for, perhaps with a `*` in front.
    """

    ends_s: float
    names: tuple[str, ...]

    def covers_names_below(self, domain: str) -> bool:
        """Return True if the certificate covers all names directly below a domain."""
        return f"*.{domain}" in self.names


def facts_of(server: ssl.SSLContext, certificate: Path) -> CertificateFacts:
    """Return the facts of the certificate that a TLS context serves, from its PEM file.

    Raises:
        OSError: the file can't be read, or isn't what the context serves; ssl.SSLError is one.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.load_verify_locations(cadata=_leaf(certificate.read_text("ascii", "replace")))
    client.verify_flags = ssl.VerifyFlags(ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_STEPS_MAX):
        waiting = [end for end in ends if not _is_done(end)]
        if not waiting:
            break
    fields = ends[0].getpeercert() or {}
    alternatives = fields.get("subjectAltName", ())
    names = tuple(str(pair[1]).lower() for pair in alternatives if pair[0] == "DNS")
    return CertificateFacts(ssl.cert_time_to_seconds(str(fields["notAfter"])), names)


def _leaf(text: str) -> str:
    """Return the first certificate of a PEM text, which is the server's."""
    head, end, _ = text.partition("-----END CERTIFICATE-----")
    return head[max(head.rfind("-----BEGIN CERTIFICATE-----"), 0) :] + end


def _is_done(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
