"""Messages of a job in a pod of a cluster: a thread sends them to Weir through the API server.

The pod's own service account token proves which pod sends. A message never blocks or breaks the job: the
newest values wait in memory, are sent at a bounded rate, and one line of its output names a failure.

This module uses only the standard library.
"""

import atexit
import base64
import http.client
import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Directory with the token of the pod and the authority of the API server."""
EVERY_S = 10.0
"""Least time between two messages of a process."""
PAUSE_S_MAX = 600.0
"""Longest pause after failures."""
TIMEOUT_S, AT_EXIT_S = 5.0, 2.0
"""Time that one try may take, and that the last message may take at the end of the process."""
FAILURES_NAMED = 3
"""Consecutive failures before the output names a temporary one."""
VALUES_MAX, NAME_MAX = 64, 64
_ANSWER_MAX = 4096
_PATH = "/apis/query.weir.dev/v1/namespaces/{}/pods/{}/messages"
_AGED = ("checkpointed", "busy")
_PASS = (404, 429)
"""Refusals that may be temporary: a restarted Weir doesn't know the pod yet."""
Part = dict[str, Any]


class MessageRefused(Exception):
    """A message wasn't taken; the sentence says why."""

    def __init__(self, sentence: str, *, passes: bool = False) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.passes = passes  # True: the next try may succeed


class ClusterMessages:
    """The newest messages of this process, and the thread that sends them."""

    def __init__(self, variables: Mapping[str, str] = os.environ, account: str = ACCOUNT) -> None:
        self._variables = variables
        self._account = Path(account)
        self._changed = threading.Condition()
        self._parts: dict[str, Part] = {}
        self._thread: threading.Thread | None = None
        self._is_sending = self._ends = self._told = False
        self._failures = 0
        self._next_s = 0.0

    def report(self, step: int | None, values: Mapping[str, float]) -> None:
        """Send progress; the newest value of each name counts."""
        printable = {name[:NAME_MAX]: value for name, value in values.items() if name and name.isprintable()}
        with self._changed:
            before = self._parts.get("report", {})
            merged = {**before.get("values", {}), **printable}
            kept = dict(list(merged.items())[-VALUES_MAX:])
            self._put("report", {**before, "values": kept, **({} if step is None else {"step": step})})

    def checkpointed(self) -> None:
        """Send that the state is saved now."""
        with self._changed:
            self._put("checkpointed", {"at": time.monotonic()})

    def busy(self, for_s: float, why: str) -> None:
        """Send that the job is busy for a time from now."""
        why = "".join(character if character.isprintable() else " " for character in why)[:NAME_MAX]
        with self._changed:
            self._put("busy", {"at": time.monotonic(), "forSeconds": for_s, "why": why})

    def _put(self, kind: str, part: Part) -> None:
        self._parts[kind] = part
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="weir-messages", daemon=True)
            atexit.register(self.flush)
            with suppress(RuntimeError):  # the interpreter is shutting down
                self._thread.start()

    def flush(self, within_s: float = AT_EXIT_S) -> None:
        """Send pending messages at once, for a bounded time; after failures, none."""
        with self._changed:
            if self._failures or self._thread is None or not self._thread.is_alive():
                return
            self._ends = True
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: bool(self._failures) or not (self._parts or self._is_sending), within_s
            )

    # In the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._parts))
                pause_s = max(0.0, self._next_s - time.monotonic())
                self._changed.wait_for(lambda: self._ends and not self._failures, pause_s)
                parts, self._parts, self._is_sending = self._parts, {}, True
            refusal = self._try(parts)
            with self._changed:
                self._is_sending = False
                self._settle(parts, refusal)
                self._changed.notify_all()

    def _try(self, parts: Mapping[str, Part]) -> MessageRefused | None:
        try:
            self._send(parts)
        except MessageRefused as refusal:
            return refusal
        except Exception as error:  # noqa: BLE001 - a message costs the job nothing
            return MessageRefused(f"the API server can't be reached: {error}", passes=True)
        return None

    def _settle(self, parts: dict[str, Part], refusal: MessageRefused | None) -> None:
        """Keep refused messages, unless newer ones supersede them, and set the time of the next try."""
        if refusal is None:
            self._failures, self._next_s = 0, time.monotonic() + EVERY_S
            return
        newer, self._parts = self._parts, parts
        if "report" in parts and "report" in newer:
            values = {**parts["report"]["values"], **newer["report"]["values"]}
            newer["report"] = {
                **parts["report"], **newer["report"], "values": dict(list(values.items())[-VALUES_MAX:])
            }  # fmt: skip
        self._parts = {**parts, **newer}
        if not refusal.passes or self._failures + 1 >= FAILURES_NAMED:
            self._tell(refusal.sentence)
        self._failures += 1
        pause_s = min(PAUSE_S_MAX, EVERY_S * 2.0 ** min(self._failures, 10))
        self._next_s = time.monotonic() + pause_s

    def _tell(self, sentence: str) -> None:
        """Print once, in the output of the job, why its messages have no effect."""
        if not self._told:
            self._told = True
            with suppress(Exception):
                print(
                    f"weir: calls such as weir.report() have no effect now: {sentence}",
                    file=sys.stderr,
                    flush=True,
                )

    def _send(self, parts: Mapping[str, Part]) -> None:
        token = self._token()
        namespace, pod = _pod_of(token)
        now_s = time.monotonic()
        body = {
            kind: {"ageSeconds": now_s - part["at"], **{key: part[key] for key in part if key != "at"}}
            if kind in _AGED
            else part
            for kind, part in parts.items()
        }
        host = self._variables["KUBERNETES_SERVICE_HOST"]
        port = int(self._variables.get("KUBERNETES_SERVICE_PORT", "443"))
        tls = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=tls)
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            text = json.dumps(body, separators=(",", ":"), allow_nan=False)
            connection.request("POST", _PATH.format(namespace, pod), text, headers)
            answer = connection.getresponse()
            status, content = answer.status, answer.read(_ANSWER_MAX)
        finally:
            connection.close()
        if status >= 300:
            raise MessageRefused(_sentence(status, content), passes=status in _PASS or status >= 500)

    def _token(self) -> str:
        try:
            return (self._account / "token").read_text().strip()
        except OSError:
            raise MessageRefused(
                "this pod has no token of a service account (automountServiceAccountToken: false)."
            ) from None


def _pod_of(token: str) -> tuple[str, str]:
    """Return the namespace and the name of the pod to which a token is bound."""
    with suppress(Exception):
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["kubernetes.io"]
        return str(claims["namespace"]), str(claims["pod"]["name"])
    raise MessageRefused("the token of this pod isn't bound to the pod.")


def _sentence(status: int, content: bytes) -> str:
    """Return the reason in an answer of the API server."""
    with suppress(Exception):
        message = str(json.loads(content)["message"])
        return "".join(character if character.isprintable() else " " for character in message)[:500]
    return f"the API server answers with status {status}."


_messages: ClusterMessages | None = None


def messages_of_this_process() -> ClusterMessages:
    """Return the messages of this process; a forked child has its own."""
    global _messages  # noqa: PLW0603 - once in a process
    if _messages is None:
        _messages = ClusterMessages()
    return _messages


def _forget() -> None:
    """Drop inherited messages in a forked child, which doesn't have its parent's thread.

    That thread may have held their lock, so the child doesn't flush them at its end.
    """
    global _messages  # noqa: PLW0603 - once in a process
    if _messages is not None:
        atexit.unregister(_messages.flush)
    _messages = None


os.register_at_fork(after_in_child=_forget)
