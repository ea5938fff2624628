"""Rules and workloads for tests of notifications, and an API server in memory that holds the rules."""

import base64
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.errors import ApiRefused, ApiUnreachable, NotFound
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.notification_objects import NotificationRuleObject
from weir.kubernetes.crd.objects import WorkloadObject

CREATED = "2026-01-31T12:00:00Z"
NOW_S = 1769860920.0  # two minutes later
UID = "0f5b1c4e-7f7e-4f7e-9a43-0d1a3c5e7f9b"


def rule(name: str = "hook", *, uid: str = UID, generation: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a rule as the API server has it."""
    spec = {
        "channel": "webhook",
        "topics": ["start", "end"],
        "urlKey": "url",
        "signingSecretKey": "sign",
    } | spec
    metadata = {
        "name": name,
        "namespace": "vision",
        "uid": uid,
        "generation": generation,
        "creationTimestamp": CREATED,
    }
    return {"metadata": metadata, "spec": spec, "status": {}}


def read_rule(written: dict[str, Any]) -> NotificationRuleObject:
    return msgspec.convert(written, NotificationRuleObject)


def workload(
    name: str = "train", *, user: str = "mia", project: str = "vision", **status: Any
) -> WorkloadObject:
    """Return the object of a workload, of the namespace vision."""
    metadata = Metadata(name, f"uid-{name}", "vision", creation_timestamp=CREATED)
    spec = {"owner": {"name": name}, "user": user, "project": project}
    written = {"metadata": {"name": name}, "spec": spec, "status": status}
    found = msgspec.convert(written, WorkloadObject)
    found.metadata = metadata
    return found


def running(name: str = "train", at: str = "2026-01-31T12:01:00Z", **more: Any) -> WorkloadObject:
    return workload(name, phase="Running", startedAt=at, nodes=["n1"], **more)


def ended(name: str = "train", at: str = "2026-01-31T12:01:30Z", **more: Any) -> WorkloadObject:
    return workload(name, **({"phase": "Succeeded", "endedAt": at} | more))


def changes(*objects: WorkloadObject) -> list[Any]:
    return [ObjectSet(f"vision/{each.metadata.name}", each) for each in objects]


def removal(name: str) -> list[Any]:
    return [ObjectRemoved(f"vision/{name}", f"uid-{name}")]


class RuleServer:
    """The part of an API server that notifications use: rules, their statuses, and one Secret."""

    def __init__(self, *rules: dict[str, Any]) -> None:
        self.rules = {each["metadata"]["name"]: each for each in rules}
        self.secret: dict[str, str] | None = {}
        self.is_forbidden = False
        self.is_away = False
        self.refusals: dict[str, ApiRefused] = {}  # of writes, by the name of the rule
        self.while_listed: Callable[[], None] = lambda: None
        self.writes: Counter[str] = Counter()

    def address(self, key: str, value: str) -> None:
        assert self.secret is not None
        self.secret[key] = base64.b64encode(value.encode()).decode()

    def status(self, name: str = "hook") -> dict[str, Any]:
        found: dict[str, Any] = self.rules[name]["status"]
        return found

    def _check(self) -> None:
        if self.is_away:
            raise ApiUnreachable("it is away", may_have_happened=False)

    async def list_all(self, path: str, of: Any) -> list[Any]:
        self._check()
        assert path == "/apis/weir.dev/v1alpha1/notificationrules"
        listed = [
            msgspec.convert(msgspec.json.decode(msgspec.json.encode(each)), of)
            for each in self.rules.values()
        ]
        self.while_listed()
        return listed

    async def get(self, path: str, of: Any) -> Any:
        self._check()
        assert path == "/api/v1/namespaces/vision/secrets/weir-notifications", "no other Secret is read"
        if self.is_forbidden:
            raise ApiRefused(403, "Forbidden", "secrets is forbidden")
        if self.secret is None:
            raise NotFound(404, "NotFound", "there is none")
        return msgspec.convert({"data": self.secret}, of)

    async def patch(self, path: str, body: Any, _kind: Any, of: Any) -> Any:
        self._check()
        name, subresource = path.split("/")[-2:]
        assert subresource == "status", "the spec is the person's"
        if name not in self.rules or self.rules[name]["metadata"]["uid"] != body["metadata"]["uid"]:
            raise NotFound(404, "NotFound", "it is gone")
        if name in self.refusals:
            raise self.refusals[name]
        self.rules[name]["status"] = msgspec.json.decode(msgspec.json.encode(body["status"]))
        self.writes[name] += 1
        return msgspec.convert({"metadata": self.rules[name]["metadata"]}, of)
