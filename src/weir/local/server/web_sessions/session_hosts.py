"""Host names of sessions for other machines: each session of a person has its own below one domain.

Browsers keep pages and cookies of different hosts apart, though not those of different ports. The name has a
hash of person and workload, so no one can choose a workload that gets the name of another's.
"""

import re
from base64 import b32encode
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

_HASH_LENGTH = 16
_NOT_IN_HOSTS = re.compile(r"[^a-z0-9]+")
_SLUG_LENGTH_MAX = 40
_LABEL = re.compile(rf"(?:[a-z0-9][a-z0-9-]*-)?[a-z2-7]{{{_HASH_LENGTH}}}")


@dataclass(frozen=True, slots=True)
class SessionHosts:
    """Gives each session a host name below a domain.

    Attributes:
        domain: the domain, such as sessions.gpu1.example.org.
        public_url: address of the pool, whose port the sessions share.
    """

    domain: str
    public_url: str

    def host_of(self, user: str, workload: str) -> str:
        """Return the host of a person's session, with its port, as browsers write it."""
        digest = sha256(f"{user}\0{workload}".encode("utf-8", "surrogatepass")).digest()
        slug = _NOT_IN_HOSTS.sub("-", workload.lower())[:_SLUG_LENGTH_MAX].strip("-")
        label = b32encode(digest)[:_HASH_LENGTH].decode().lower()
        return self.with_port(f"{slug}-{label}.{self.domain}" if slug else f"{label}.{self.domain}")

    def with_port(self, name: str) -> str:
        """Return a name with the port of the pool."""
        port = urlsplit(self.public_url).port
        return name if port is None else f"{name}:{port}"

    def has(self, name: str) -> bool:
        """Return True for a name that a session may have."""
        label, _, rest = name.partition(".")
        return rest == self.domain and _LABEL.fullmatch(label) is not None
