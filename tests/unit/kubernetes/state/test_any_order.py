"""However objects' changes are heard of, late, doubled, coalesced or listed again: the picture is the same."""

from collections import defaultdict
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.budget import examples
from tests.unit.kubernetes.small_world import WatchProgress, job, maker, node, pod, project, reference
from tests.unit.kubernetes.state.owners.pod_groups import gang_of, group

from weir.kubernetes.api.objects import PodSchedulingGroup

NODES = ("n1", "n2", "n3")
JOBS = ("a", "b", "c")
SET = "s"
GROUP = "g"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"


class World:
    """The API server: what there is, and every change of it by resource, in order."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = defaultdict(dict)
        self.log: dict[str, list[tuple[str, Any, str]]] = defaultdict(list)
        self.made = 0
        self.start = 0

    def put(self, resource: str, key: str, thing: Any) -> None:
        self.there[resource][key] = thing
        self.log[resource].append((key, thing, ""))

    def drop(self, resource: str, key: str) -> None:
        thing = self.there[resource].pop(key)
        uid = thing["metadata"]["uid"] if isinstance(thing, dict) else thing.metadata.uid
        self.log[resource].append((key, None, uid))

    def act(self, choice: Any) -> None:
        """Something happens, if it can."""
        what, one, two = choice
        jobs, pods = self._jobs(), self.there["pods"]
        if what == "job" and JOBS[one % 3] not in jobs:
            self.made += 1
            self.put("owners", JOBS[one % 3], self._job(JOBS[one % 3], 1 + two % 3))
        elif what in {"set", "unset"}:
            self._set(is_there=what == "set")
        elif what in {"group", "ungroup"}:
            self._group(1 + two % 3 if what == "group" else None)
        elif what == "unjob" and jobs:
            self.drop("owners", sorted(jobs)[one % len(jobs)])
        elif what == "over" and jobs:
            key = sorted(jobs)[one % len(jobs)]
            uid, pods_ = jobs[key]["metadata"]["uid"], jobs[key]["spec"].get("parallelism", 1)
            self.put(
                "owners", key, {**job(key, uid, pods_, over="Complete"), "metadata": jobs[key]["metadata"]}
            )
        elif what == "foreign" or (what in {"pod", "grouped", "member"} and jobs):
            self._new_pod(what, one, two)
        elif what in {"bind", "run", "end", "delete", "remove", "type"} and pods:
            self._pod(what, sorted(pods)[one % len(pods)], two)
        elif what == "node":
            name = NODES[one % 3]
            self.put("nodes", name, node(name, gpus=4 + two % 2, cordoned=two == 3))
        elif what == "unnode" and self.there["nodes"]:
            self.drop("nodes", sorted(self.there["nodes"])[one % len(self.there["nodes"])])
        elif what in {"project", "unproject"}:
            self._project(4 + two if what == "project" else None)

    def _jobs(self) -> dict[str, Any]:
        return {key: each for key, each in self.there["owners"].items() if each["kind"] == "Job"}

    def _project(self, gpus: int | None) -> None:
        """Make the project or change its quota; None: it goes."""
        if gpus is not None:
            self.put("projects", "team", project("team", gpus=gpus))
        elif "team" in self.there["projects"]:
            self.drop("projects", "team")

    def _new_pod(self, what: str, one: int, two: int) -> None:
        """Make a pod of a Job, also as a member of the pod group, or one of another scheduler."""
        self.made += 1
        if what == "foreign":
            made = pod(f"f-{self.made}", scheduler="other", on=NODES[one % 3], gpus=two % 2)
        else:
            jobs = self._jobs()
            key = sorted(jobs)[one % len(jobs)]
            owner = key, jobs[key]["metadata"]["uid"]
            if what == "member":
                on = NODES[two] if two < len(NODES) else ""
                made = pod(f"m-{self.made}", scheduler="other", owner=owner, on=on)
            else:
                made = pod(f"{key}-{self.made}", owner=owner, labels={ROLE: key})
        if what == "grouped":
            made.spec.scheduling_group = PodSchedulingGroup(GROUP)
        self.put("pods", f"team/{made.metadata.name}", made)

    def _group(self, count: int | None) -> None:
        """Make the pod group, or delete it."""
        if count is not None and f"team/{GROUP}" not in self.there["podgroups"]:
            self.made += 1
            made = group(GROUP, gang_of(count, priority=80, priorityClassName="high"), uid=f"g{self.made}")
            self.put("podgroups", f"team/{GROUP}", made)
        elif count is None and f"team/{GROUP}" in self.there["podgroups"]:
            self.drop("podgroups", f"team/{GROUP}")

    def _set(self, *, is_there: bool) -> None:
        """Make the JobSet, or delete it."""
        if is_there and SET not in self.there["owners"]:
            self.made += 1
            parts = [{"name": each, "replicas": 1, "template": {"spec": {"parallelism": 2}}} for each in JOBS]
            spec = {"replicatedJobs": parts}
            self.put("owners", SET, maker("JobSet", "jobset.x-k8s.io/v1alpha2", SET, f"s{self.made}", spec))
        elif not is_there and SET in self.there["owners"]:
            self.drop("owners", SET)

    def _job(self, name: str, pods: int) -> dict[str, Any]:
        """Return a Job, which belongs to the JobSet if there is one."""
        made = job(name, f"j{self.made}", pods)
        above = self.there["owners"].get(SET)
        if above is not None:
            made["metadata"]["ownerReferences"] = [msgspec.to_builtins(reference(above))]
        return made

    def _stated(self, name: str) -> str:
        """Return the annotation of a pod that is bound while its Job and the JobSet above are there."""
        owners = self.there["owners"]
        above = owners.get(name, {}).get("metadata", {}).get("ownerReferences", [])
        if SET not in owners or not above or above[0]["uid"] != owners[SET]["metadata"]["uid"]:
            return ""
        stated = {key: above[0][key] for key in ("apiVersion", "kind", "name", "uid")}
        return msgspec.json.encode({**stated, "role": name}).decode()

    def _pod(self, what: str, key: str, two: int) -> None:
        old = self.there["pods"][key]
        meta, spec = old.metadata, old.spec
        owner = meta.owner_references[0] if meta.owner_references else None
        answer: dict[str, Any] = {
            "owner": None if owner is None else (owner.name, owner.uid),
            "scheduler": spec.scheduler_name,
            "gpus": int(spec.containers[0].resources.requests["nvidia.com/gpu"]),
            "on": spec.node_name,
            "start": int(meta.annotations.get("weir.dev/start", 0)),
            "devices": meta.annotations.get("weir.dev/gpus"),
            "phase": old.status.phase,
            "deleting": meta.deletion_timestamp is not None,
            "labels": dict(meta.labels),
            "stated": meta.annotations.get("weir.dev/owner", ""),
        }
        if what == "bind" and not spec.node_name and not answer["deleting"]:
            self.start += 1
            stated = self._stated(meta.labels.get(ROLE, ""))
            answer.update(on=NODES[two % 3], start=self.start, devices=str(two % 4), stated=stated)
        elif what == "run" and spec.node_name and answer["phase"] == "Pending":
            answer["phase"] = "Running"
        elif what == "end" and spec.node_name and answer["phase"] in {"Pending", "Running"}:
            answer["phase"] = ("Succeeded", "Failed")[two % 2]
        elif what == "type":
            answer["labels"]["weir.dev/type"] = ("train", "build", "inference")[two % 3]
        elif what == "delete":
            answer["deleting"] = True
        elif what == "remove":
            self.drop("pods", key)
            return
        made = pod(meta.name, **answer)
        made.spec.scheduling_group = spec.scheduling_group
        self.put("pods", key, made)


def _copy(thing: Any) -> Any:
    """The picture keeps and changes what it is given."""
    return thing if isinstance(thing, dict) else msgspec.convert(msgspec.to_builtins(thing), type(thing))


def _tell(reported: WatchProgress, resource: str, change: tuple[str, Any, str]) -> None:
    key, thing, uid = change
    if thing is None:
        reported.gone(resource, key, uid)
    else:
        reported.see(resource, _copy(thing))


def _uid(thing: Any) -> str:
    return str(thing["metadata"]["uid"] if isinstance(thing, dict) else thing.metadata.uid)


def _differences(heard: list[Any], missed: list[Any]) -> list[Any]:
    """Return the changes of a list: removed objects first, and then each object as it is now."""
    known = {key: thing for key, thing, _ in heard}
    now = {key: thing for key, thing, _ in missed}
    gone = [
        (key, None, _uid(known[key]))
        for key, thing in now.items()
        if known.get(key) is not None and (thing is None or _uid(thing) != _uid(known[key]))
    ]
    return [*gone, *((key, thing, "") for key, thing in now.items() if thing is not None)]


ACTS = st.tuples(
    st.sampled_from(
        [
            "set",
            "unset",
            "job",
            "job",
            "pod",
            "pod",
            "pod",
            "bind",
            "bind",
            "bind",
            "run",
            "end",
            "delete",
            "remove",
            "type",
            "foreign",
            "member",
            "group",
            "ungroup",
            "grouped",
            "grouped",
            "node",
            "unnode",
            "unjob",
            "over",
            "project",
            "unproject",
        ]
    ),
    st.integers(0, 11),
    st.integers(0, 3),
)
"""Kinds of events."""
HEARD = st.tuples(
    st.sampled_from(["nodes", "pods", "owners", "projects", "podgroups"]),
    st.sampled_from(["next", "next", "twice", "list", "step"]),
)
"""Source of the next event, and its delivery."""


def _heard(world: World, heard: list[Any]) -> WatchProgress:
    """Apply all events in this order of delivery."""
    streamed = WatchProgress()
    at: dict[str, int] = defaultdict(int)
    for resource, how in heard:
        log = world.log[resource]
        place = at[resource]
        if how == "step":
            streamed.step()
        elif how == "list":
            for change in _differences(log[:place], log[place:]):
                _tell(streamed, resource, change)
            at[resource] = len(log)
        elif place < len(log):
            for _ in range(2 if how == "twice" else 1):
                _tell(streamed, resource, log[place])
            at[resource] = place + 1
    for resource, log in world.log.items():
        for change in log[at[resource] :]:
            _tell(streamed, resource, change)
    return streamed


@examples(30)
@given(st.lists(ACTS, min_size=12, max_size=50), st.lists(HEARD, min_size=20, max_size=100))
def test_the_picture_is_the_same_however_it_came_about(acts: list[Any], heard: list[Any]) -> None:
    world = World()
    for name in NODES:
        world.put("nodes", name, node(name))
    world.put("projects", "team", project("team"))
    for act in acts:
        world.act(act)
    if "team" not in world.there["projects"]:  # of one that is gone, a list says nothing any more
        world.put("projects", "team", project("team"))
    streamed = _heard(world, heard)
    streamed.step()
    streamed.step(after_s=61.0)
    streamed.step()
    listed = WatchProgress()
    for resource in ("nodes", "projects", "owners", "podgroups", "pods"):
        for thing in world.there[resource].values():
            listed.see(resource, _copy(thing))
    listed.step()
    listed.step(after_s=61.0)
    listed.step()
    assert streamed.state() == listed.state()
    before = streamed.state()
    streamed.restart()
    assert streamed.state() == before
