"""Kubeconfigs that hold a token and nothing unusual, read without the official package.

Importing that package costs more than anything else at a start. It reads everything else: plug-ins, client
certificates, proxies, several files. A file with a key that isn't named here is left to it, and so are its
errors.
"""

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

BYTES_MAX = 1 << 20
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
"""Variables of proxies that the official package may use."""


@dataclass(frozen=True, slots=True)
class PlainKubeconfig:
    """Address of an API server and a token for it."""

    server: str
    namespace: str
    authorization: str
    authority: str | None  # certificates as PEM; None where the server speaks plain HTTP

    def __repr__(self) -> str:
        return f"PlainKubeconfig({self.server!r})"


class _Cluster(Struct, rename="kebab", forbid_unknown_fields=True):
    server: str
    certificate_authority_data: str = ""


class _User(Struct, forbid_unknown_fields=True):
    token: str


class _Context(Struct, forbid_unknown_fields=True):
    cluster: str
    user: str
    namespace: str = ""


class _Named(Struct):
    name: str
    cluster: Any = None
    user: Any = None
    context: Any = None


class _File(Struct, rename="kebab"):
    clusters: list[_Named]
    users: list[_Named]
    contexts: list[_Named]
    current_context: str = ""


def read_plain(path: str, context: str | None) -> PlainKubeconfig | None:
    """Return a context of a kubeconfig; None if the official package has to read it."""
    if os.pathsep in path or any(os.environ.get(name) for name in _PROXIES):
        return None
    try:
        return _chosen(msgspec.convert(_content(Path(path)), _File), context)
    except (OSError, ValueError, RecursionError):
        return None


def _content(path: Path) -> Any:
    """Return the content of a file in JSON or YAML.

    Raises:
        ValueError: the file can't be read so.
    """
    with path.open("rb") as file:
        text = file.read(BYTES_MAX + 1)
    if len(text) > BYTES_MAX:
        raise ValueError("it is too long")
    if text.lstrip().startswith(b"{"):
        return msgspec.json.decode(text)
    import yaml

    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _chosen(file: _File, name: str | None) -> PlainKubeconfig | None:
    """Return a context of a file, or None.

    Raises:
        ValueError: the context is missing, or has more than a plain one.
    """
    context = msgspec.convert(_named(file.contexts, name or file.current_context).context, _Context)
    cluster = msgspec.convert(_named(file.clusters, context.cluster).cluster, _Cluster)
    user = msgspec.convert(_named(file.users, context.user).user, _User)
    server, authority = cluster.server.rstrip("/"), None
    if server.startswith("https://"):
        if not cluster.certificate_authority_data:
            return None
        authority = base64.b64decode(cluster.certificate_authority_data, validate=True).decode("ascii")
    elif not server.startswith("http://"):
        return None
    if not user.token or user.token != user.token.strip():
        return None
    return PlainKubeconfig(server, context.namespace or "default", f"Bearer {user.token}", authority)


def _named(entries: list[_Named], name: str) -> _Named:
    """Return the entry of this name.

    Raises:
        ValueError: no entry has this name, or several have.
    """
    (entry,) = (entry for entry in entries if entry.name == name)
    return entry
