"""A client of few words, for tests and demonstrations: one answer a call, as plain dictionaries.

It can be called from several threads; each has a connection of its own.
"""

import http.client
import json
import select
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tools.controlplane.certificates import Pair

Object = dict[str, Any]
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
_AT_ONCE = 16
_TOO_MANY, _TRIES, _AGAIN_S = 429, 10, 0.5
_IDLE_S = 20.0
_ANSWER_S = 120.0


class ApiError(Exception):
    """The API server said no; `code` is the status, `said` its sentence."""

    def __init__(self, code: int, message: str, asked: str) -> None:
        super().__init__(f"{asked}: {code} {message}")
        self.code = code
        self.message = message


class Api:
    """Client of one API server for one user, by certificate or token. A plain URL needs no credentials."""

    def __init__(self, url: str, authority: Path | None = None, user: Pair | str | None = None) -> None:
        self.url = url
        self._url = urlsplit(url)
        self._tls = None
        if self._url.scheme == "https":
            self._tls = ssl.create_default_context(cafile=None if authority is None else str(authority))
            if isinstance(user, Pair):
                self._tls.load_cert_chain(user.certificate, user.key)
        self._bearer = {"Authorization": f"Bearer {user}"} if isinstance(user, str) else {}
        self._own = threading.local()
        self._lock = threading.Lock()
        self._open: list[http.client.HTTPConnection] = []
        self._threads = ThreadPoolExecutor(_AT_ONCE)  # each keeps its connection

    def close(self) -> None:
        """Let go of all connections."""
        self._threads.shutdown()
        with self._lock:
            for connection in self._open:
                connection.close()

    # Verbs

    def get(self, path: str, form: str = "application/json") -> Object:
        """Return an object or a list, in a form that a client accepts."""
        answer: Object = json.loads(self._ask("GET", path, None, {"Accept": form}))
        return answer

    def maybe(self, path: str) -> Object | None:
        """Return an object, or None without one of that name."""
        try:
            return self.get(path)
        except ApiError as why:
            if why.code == 404:
                return None
            raise

    def items(self, path: str) -> list[Object]:
        """Return the objects of a list."""
        return list(self.get(path).get("items") or [])

    def metadata(self, path: str) -> list[Object]:
        """Metadata of what is in a list."""
        form = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        return [item["metadata"] for item in self.get(path, form)["items"] or ()]

    def post(self, path: str, body: Mapping[str, Any]) -> Object:
        """Create in the collection at this path."""
        return self.ask("POST", path, body)

    def put(self, path: str, body: Mapping[str, Any]) -> Object:
        """Replace."""
        return self.ask("PUT", path, body)

    def patch(self, path: str, body: Mapping[str, Any], kind: str = MERGE) -> Object:
        """Change parts."""
        return self.ask("PATCH", path, body, kind)

    def delete(self, path: str, grace_s: int | None = None, propagation: str = "Background") -> None:
        """Delete an object or all of a collection; what isn't there is no matter."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            self.ask("DELETE", path, body)
        except ApiError as why:
            if why.code != 404:
                raise

    def create(self, *objects: Object) -> list[Object]:
        """Create objects by their kind and namespace, one after another."""
        return [self.post(collection(one), one) for one in objects]

    def create_many(self, objects: Iterable[Object]) -> None:
        """Create objects, several at a time."""
        self.at_once(self.create, objects)

    def at_once(self, act: Callable[[Any], object], arguments: Iterable[Any]) -> None:
        """Do something with each of these, several at a time; the first error is raised at the end."""
        done = [self._threads.submit(act, one) for one in arguments]
        wait(done)
        for one in done:
            one.result()

    def apply(self, *objects: Object, owner: str = "tests") -> None:
        """Have it be like this, whether it was there before or not."""
        for one in objects:
            path = f"{collection(one)}/{quote(one['metadata']['name'])}?fieldManager={owner}&force=true"
            self.ask("PATCH", path, one, APPLY)

    def text(self, path: str) -> str:
        """Return an answer that isn't JSON."""
        return self._ask("GET", path, None, {}).decode()

    def send(self, path: str, text: str) -> None:
        """Create an object from its JSON, of which nothing is decoded here."""
        self._ask("POST", path, text.encode(), {"Content-Type": "application/json"})

    def ask(
        self,
        verb: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        kind: str = "application/json",
        tries: int = _TRIES,
    ) -> Object:
        """Any request; `tries` is how often one is sent that is answered with too many requests.

        Raises:
            ApiError: refused.
            OSError: no answer.
        """
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", **({} if body is None else {"Content-Type": kind})}
        answer: Object = json.loads(self._ask(verb, path, sent, headers, tries))
        return answer

    def _ask(
        self, verb: str, path: str, body: bytes | None, headers: Mapping[str, str], tries: int = _TRIES
    ) -> bytes:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._connect()
        elif time.monotonic() > self._own.used_s + _IDLE_S or _is_closed(connection):
            connection.close()  # it connects again by itself
        try:
            try:
                connection.request(verb, path, body, {**headers, **self._bearer})
            except (http.client.HTTPException, OSError):  # the server had closed it and read nothing
                connection.close()
                connection.request(verb, path, body, {**headers, **self._bearer})
            response = connection.getresponse()
            answer: bytes = response.read()
        except (http.client.HTTPException, OSError) as why:
            connection.close()  # it connects again by itself
            raise ConnectionError(f"{verb} {path}: {why}") from why
        self._own.used_s = time.monotonic()
        if response.status == _TOO_MANY and tries > 1:  # nothing was done
            time.sleep(_AGAIN_S)
            return self._ask(verb, path, body, headers, tries - 1)
        if response.status >= 300:
            raise ApiError(response.status, _message(answer), f"{verb} {path}")
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        connection = (
            http.client.HTTPConnection(host, port, timeout=_ANSWER_S)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=_ANSWER_S, context=self._tls)
        )
        self._own.connection = connection
        self._own.used_s = time.monotonic()
        with self._lock:
            self._open.append(connection)
        return connection


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Return True if the server has closed a connection, or sent data without a request."""
    return connection.sock is not None and bool(select.select([connection.sock], [], [], 0)[0])


def collection(one: Object) -> str:
    """Return the path at which objects of this kind are created."""
    version, kind = one["apiVersion"], one["kind"].lower()
    if kind.endswith(("s", "x", "ch")):
        plural = f"{kind}es"
    elif kind.endswith("y") and kind[-2] not in "aeiou":
        plural = f"{kind[:-1]}ies"
    else:
        plural = f"{kind}s"
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    namespace = one["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def _message(answer: bytes) -> str:
    try:
        return str(json.loads(answer).get("message", ""))
    except ValueError:
        return answer.decode(errors="replace")[:400]
