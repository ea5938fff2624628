"""Paths of resources on an API server."""

import re
from urllib.parse import quote

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def path_of(
    group_version: str, resource: str, namespace: str = "", name: str = "", subresource: str = ""
) -> str:
    """Return the path of a resource, of its objects in a namespace, of one object, or of a subresource.

    `group_version` is "v1" for the core and "apps/v1" for others; `resource` the plural in lower case. A name
    may be anything: that of an owner is what people wrote, and the API server takes any text for it.
    """
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    parts = [root]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource)
    if name:
        parts.append(quote(name, safe=""))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def is_name(text: str) -> bool:
    """Return True if an object can have this name."""
    return _NAME.fullmatch(text) is not None


def key_of(namespace: str, name: str) -> str:
    """Return the name of an object within its resource: "NAMESPACE/NAME", or "NAME"."""
    return f"{namespace}/{name}" if namespace else name


def namespace_of(path: str) -> str:
    """Return the namespace in the path of an object; empty for an object of the cluster."""
    _, _, rest = path.partition("/namespaces/")
    return rest.partition("/")[0]
