"""A copy of the API objects that the invariants are computed from, kept up to date by watches.

It asks the API server directly. Nothing of it is read through Weir, and no code of Weir is used.
"""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from tests.kubernetes.group_plane import GROUPS_API
from tools.controlplane.api import Object
from tools.controlplane.plane import ControlPlane

Key = tuple[str, str]
"""Namespace and name."""
Listener = Callable[[str, Object], None]
EVENTS = "events"
RESOURCES: Mapping[str, str] = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "persistentvolumeclaims": "/api/v1/persistentvolumeclaims",
    "jobs": "/apis/batch/v1/jobs",
    "cronjobs": "/apis/batch/v1/cronjobs",
    "deployments": "/apis/apps/v1/deployments",
    "replicasets": "/apis/apps/v1/replicasets",
    "statefulsets": "/apis/apps/v1/statefulsets",
    "daemonsets": "/apis/apps/v1/daemonsets",
    "poddisruptionbudgets": "/apis/policy/v1/poddisruptionbudgets",
    EVENTS: "/apis/events.k8s.io/v1/events",
    "projects": "/apis/weir.dev/v1alpha1/projects",
    "departments": "/apis/weir.dev/v1alpha1/departments",
    "topologies": "/apis/weir.dev/v1alpha1/topologies",
    "workloads": "/apis/weir.dev/v1alpha1/workloads",
    "resourceclaims": "/apis/resource.k8s.io/v1/resourceclaims",
    "resourceslices": "/apis/resource.k8s.io/v1/resourceslices",
}
POD_GROUPS = f"/apis/{GROUPS_API}/podgroups"
"""Served only where the feature is on."""
_SYNC_S = 60.0
_AGAIN_S = 0.2
_GONE = 410


class Mirror:
    """Mirror of all objects of some resources, from their watches.

    Args:
        plane: the control plane.
        listeners: by resource, what is called with the type and the object of every event, in order.
        groups: the server has pod groups.
    """

    def __init__(
        self, plane: ControlPlane, listeners: Mapping[str, Listener], *, groups: bool = False
    ) -> None:
        self._plane = plane
        self._paths = {**RESOURCES, **({"podgroups": POD_GROUPS} if groups else {})}
        self._listeners = listeners
        self._lock = threading.Lock()
        self._objects: dict[str, dict[Key, Object]] = {resource: {} for resource in (*RESOURCES, "podgroups")}
        self._closing = False
        self._connections: dict[str, http.client.HTTPSConnection] = {}
        self._synced = {resource: threading.Event() for resource in self._paths}
        self._events: dict[str, dict[str, str]] = {}  # by the uid of an object: note by reason
        self._at = urlsplit(plane.url)
        self._tls = ssl.create_default_context(cafile=str(plane.authority.certificate))
        self._tls.load_cert_chain(plane.admin.certificate, plane.admin.key)
        self._threads = [
            threading.Thread(target=self._follow, args=(resource,), name=f"mirror-{resource}", daemon=True)
            for resource in self._paths
        ]
        for thread in self._threads:
            thread.start()
        for resource, synced in self._synced.items():
            if not synced.wait(_SYNC_S):
                raise TimeoutError(f"{resource} couldn't be listed within {_SYNC_S:g} s")

    def close(self) -> None:
        """End all watches."""
        self._closing = True
        for connection in list(self._connections.values()):
            if connection.sock is not None:
                with suppress(OSError):  # it has ended by itself
                    connection.sock.shutdown(2)
        for thread in self._threads:
            thread.join(5)
        for connection in self._connections.values():
            connection.close()

    def copy(self) -> dict[str, dict[Key, Object]]:
        """Return all objects as they are known now. Objects are replaced, never changed."""
        with self._lock:
            return {resource: dict(objects) for resource, objects in self._objects.items()}

    def events_of(self, uid: str) -> dict[str, str]:
        """Return the last note of each reason that an event gave about an object."""
        with self._lock:
            return dict(self._events.get(uid, {}))

    # Threads of the watches

    def _follow(self, resource: str) -> None:
        version = ""
        while not self._closing:
            try:
                if not version:
                    version = self._list(resource)
                version = self._watch(resource, version)
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                time.sleep(_AGAIN_S)

    def _request(self, resource: str, query: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPSConnection(self._at.hostname or "", self._at.port, context=self._tls)
        before = self._connections.pop(resource, None)
        if before is not None:
            before.close()
        self._connections[resource] = connection
        connection.request("GET", f"{self._paths[resource]}{query}")
        return connection.getresponse()

    def _list(self, resource: str) -> str:
        answer = json.loads(self._request(resource, "").read())
        found = {_key(each): each for each in answer["items"] or []}
        with self._lock:
            gone = [each for key, each in self._objects[resource].items() if key not in found]
            if resource == EVENTS:
                for each in found.values():
                    self._note(each)
            else:
                self._objects[resource] = found
        if (listener := self._listeners.get(resource)) is not None:
            for each in gone:
                listener("DELETED", each)
            for each in found.values():
                listener("MODIFIED", each)
        self._synced[resource].set()
        return str(answer["metadata"]["resourceVersion"])

    def _watch(self, resource: str, version: str) -> str:
        query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={version}"
        answer = self._request(resource, query)
        if answer.status != http.client.OK:
            return ""
        while line := answer.readline():
            event = json.loads(line)
            kind, found = event["type"], event["object"]
            if kind == "ERROR":
                return "" if found.get("code") == _GONE else version
            version = found["metadata"]["resourceVersion"]
            if kind != "BOOKMARK":
                self._take(resource, kind, found)
        return version

    def _note(self, event: Object) -> None:
        uid = (event.get("regarding") or {}).get("uid", "")
        self._events.setdefault(uid, {})[event.get("reason", "")] = event.get("note", "")

    def _take(self, resource: str, kind: str, found: Object) -> None:
        with self._lock:
            if resource == EVENTS:
                self._note(found)
            elif kind == "DELETED":
                self._objects[resource].pop(_key(found), None)
            else:
                self._objects[resource][_key(found)] = found
        if (listener := self._listeners.get(resource)) is not None:
            listener(kind, found)


def _key(each: Mapping[str, Any]) -> Key:
    metadata = each["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])
