"""Which objects a control plane stores, asked of etcd in two requests instead of one list of every kind."""

import base64
import http.client
import json
from collections import defaultdict
from urllib.parse import urlsplit

Stored = dict[str, list[tuple[str, str]]]
"""Namespace and name of each object, by resource; objects of no namespace have an empty one."""
_ROOT = "/registry/"
_EVENTS = "events/"
_PLURALS = {"minions": "nodes", "controllers": "replicationcontrollers"}
_GROUPS = ("weir.dev", "apiregistration.k8s.io")
"""Groups that the keys of their objects begin with."""
_TIMEOUT_S = 60.0


def stored(etcd: str) -> Stored:
    """Return all objects but events, of Weir's kinds, of APIServices and of the API server's own groups.

    Args:
        etcd: the URL at which etcd serves clients.
    """
    address = urlsplit(etcd)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_TIMEOUT_S)
    try:
        before = _keys(connection, _ROOT, _ROOT + _EVENTS)
        after = _keys(connection, _after(_ROOT + _EVENTS), _after(_ROOT))
    finally:
        connection.close()
    keys: Stored = defaultdict(list)
    for key in before + after:
        parts = key.removeprefix(_ROOT).split("/")
        resource, rest = (parts[1], parts[2:]) if parts[0] in _GROUPS else (parts[0], parts[1:])
        if 1 <= len(rest) <= 2:
            keys[_PLURALS.get(resource, resource)].append((rest[0] if rest[1:] else "", rest[-1]))
    return keys


def _keys(connection: http.client.HTTPConnection, first: str, last: str) -> list[str]:
    """Return the keys from the first on, and before the last."""
    ends = {"key": _encoded(first), "range_end": _encoded(last), "keys_only": True}
    connection.request("POST", "/v3/kv/range", json.dumps(ends), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    assert response.status == 200, answer
    return [base64.b64decode(pair["key"]).decode() for pair in answer.get("kvs") or []]


def _after(prefix: str) -> str:
    """Return the first key behind all that begin with a prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _encoded(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
