"""Names of `Workload` objects."""

import hashlib
import re

from weir.kubernetes.state.pod_info import GangKey

NAME_MOST = 200
_IS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NEVER_IN_NAMES = re.compile(r"[^a-z0-9]+", re.ASCII)


def object_name(key: GangKey) -> str:
    """Return the name of its `Workload` object: the kind and name of its owner, cut if too long.

    A pod may name an owner that doesn't exist, with any text for a kind and a name.
    """
    name = f"{key.kind.lower()}-{key.name}" + (f"-{key.gang.lower()}" if key.gang else "")
    if len(name) <= NAME_MOST and _IS_NAME.fullmatch(name):
        return name
    readable = name if _IS_NAME.fullmatch(name) else _NEVER_IN_NAMES.sub("-", name.lower())
    return f"{readable[: NAME_MOST - 9].strip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".strip(
        "-"
    )
