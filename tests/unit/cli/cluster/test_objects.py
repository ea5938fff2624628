"""A cluster's objects as rows, and a submission as a Job."""

import subprocess
from typing import Any

import msgspec
import pytest
from tests.slurm.pods import expanded

from weir.api.answers import EventFilter, WorkloadDetail, WorkloadRow
from weir.api.submissions import Submission
from weir.cli.cluster.installation import InstallationView
from weir.cli.cluster.job import job_of
from weir.cli.cluster.objects import ListedQueue
from weir.cli.cluster.queue_rows import queue_row
from weir.cli.cluster.session_job import KEEPS_RUNNING
from weir.cli.workloads.listing import isolation_lines
from weir.client.errors import Refused
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.aggregation.refusals import QueryRefused
from weir.kubernetes.query.workloads.event_index import EventIndex, matching_events
from weir.kubernetes.query.workloads.index import (
    WorkloadIndex,
    WorkloadIndexEntry,
    WorkloadQuery,
    matching,
    params_query,
)
from weir.kubernetes.query.workloads.rows import EventView, memory_isolation
from weir.kubernetes.translate.device_resources import DeviceResources

CLASSES = {50: "train", 60: "urgent", 100: "build"}
DEFAULTS = InstallationView()
AT = "2026-01-31T12:00:00Z"


def job(*, on: InstallationView = DEFAULTS, **words: Any) -> dict[str, Any]:
    written = {"project": "vision", "command": ["/bin/train", "-x"], **words}
    return job_of(Submission.model_validate(written), written, "image:1", CLASSES, on)


def pod_spec(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made["spec"]["template"]["spec"]
    return found


def test_a_job_names_the_scheduler_and_the_devices_of_the_installation() -> None:
    spec = pod_spec(
        job(pods=[{"gpus": 2}], on=InstallationView("night", DeviceResources(("a.io/card-*", "amd.com/gpu"))))
    )
    assert spec["schedulerName"] == "night"
    assert spec["containers"][0]["resources"]["limits"] == {"amd.com/gpu": "2"}


@pytest.mark.parametrize("text", ["kill $$", "$(HOME) $$(HOME) $$$ $x $", "$((1 + 1)) $(", "$$$$(HOME)"])
def test_the_kubelet_replaces_nothing_in_a_command_and_its_variables(text: str) -> None:
    (container,) = pod_spec(job(command=["sh", "-c", text], env={"A": text}))["containers"]
    written = (container["command"][2], container["env"][0]["value"])
    assert {expanded(each, {"HOME": "/root"}) for each in written} == {text}


def test_a_gang_of_whole_devices() -> None:
    made = job(name="a", type="build", pods=[{"gpus": 2, "count": 4, "min": 2, "cpu": 1.5, "memory": "3Gi"}])
    assert made["metadata"]["labels"] == {"weir.dev/project": "vision", "weir.dev/type": "build"}
    assert made["metadata"]["annotations"] == {"weir.dev/min-pods": "2"}
    assert (made["spec"]["parallelism"], made["spec"]["completionMode"]) == (4, "Indexed")
    assert [rule["action"] for rule in made["spec"]["podFailurePolicy"]["rules"]] == ["FailJob", "Ignore"]
    assert made["spec"]["backoffLimitPerIndex"] == made["spec"]["backoffLimit"] == 3
    (container,) = pod_spec(made)["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert container["resources"]["requests"] == {"cpu": "1.5", "memory": "3Gi"}
    assert pod_spec(made)["schedulerName"] == "weir"
    assert "priorityClassName" not in pod_spec(made)


def test_sessions_alone_have_no_token_of_a_service_account() -> None:
    entered = job(name="dev", type="build", command=[*KEEPS_RUNNING])
    notebook = job(name="dev", type="build", command=["jupyter"], session="jupyter")
    assert [pod_spec(made)["automountServiceAccountToken"] for made in (entered, notebook)] == [False, False]
    assert "automountServiceAccountToken" not in pod_spec(job(name="dev", type="build"))


def test_parts_of_devices_and_all_that_can_be_said() -> None:
    made = job(
        preemptible=False,
        max_runtime="2h",
        grace="90s",
        priority=60,
        retries=0,
        env={"A": "1"},
        topology={"name": "net", "required": "rack"},
        pods=[
            {
                "gpus": 0.5,
                "devices": 2,
                "nodes": ["n1", "n2"],
                "gpu_models": ["H100"],
                "node_selector": {"z": "a"},
            }
        ],
    )
    assert made["metadata"]["name"].startswith("train-")
    assert made["metadata"]["annotations"] == {
        "weir.dev/preemptible": "false",
        "weir.dev/max-runtime": "2h",
        "weir.dev/topology": "net:required=rack",
        "weir.dev/gpu-fraction": "0.5",
        "weir.dev/gpu-devices": "2",
    }
    assert made["spec"]["backoffLimit"] == 0
    spec = pod_spec(made)
    assert spec["priorityClassName"] == "urgent"
    assert spec["terminationGracePeriodSeconds"] == 90
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert [each["matchFields"][0]["values"] for each in terms] == [["n1"], ["n2"]]
    assert terms[0]["matchExpressions"][0]["values"] == ["H100"]
    assert spec["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert job(pods=[{"gpu_memory": "10Gi"}])["metadata"]["annotations"] == {"weir.dev/gpu-memory": "10Gi"}
    assert job(idle_limit="1h")["metadata"]["annotations"] == {"weir.dev/idle-limit": "1h"}


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ({"pods": [{}, {}]}, "pods: a Job has one kind of pods"),
        ({"name": "Not_good"}, "name: 'Not_good' is no name of a Job"),
        ({"priority": 7}, "priority: no PriorityClass has the value 7; there are 50 (train), 60 (urgent)"),
    ],
)
def test_what_a_job_cannot_say(words: dict[str, Any], answer: str) -> None:
    with pytest.raises(Refused, match=answer.replace("(", r"\(").replace(")", r"\)")):
        job(**words)


def workload(**status: Any) -> WorkloadObject:
    metadata = {"name": "job-a", "namespace": "ns", "uid": "0a1b", "creationTimestamp": AT}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u"}
    spec = {"owner": owner, "project": "vision", "priority": 60, "user": "Ann@lab"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, WorkloadObject)


def workload_row(thing: WorkloadObject) -> WorkloadRow:
    meta = thing.metadata
    nodes = tuple(thing.status.nodes)
    return WorkloadIndexEntry(meta.namespace, meta.name, meta.uid, meta.creation_timestamp, nodes, thing).row(
        0.0
    )


def test_a_workload_is_a_row() -> None:
    bare = workload_row(msgspec.convert({"metadata": {"name": "job-a", "namespace": "ns"}}, WorkloadObject))
    assert (bare.name, bare.status, bare.devices) == ("ns/job-a", "pending", 0.0)
    reason = {"why": "insufficient_capacity", "sentence": "no capacity now", "numbers": {"n": 1}}
    row = workload_row(
        workload(phase="Pending", gpus="1.5", pods=3, podsRunning=1, reason=reason, startedAt=AT)
    )
    assert (row.status, row.devices, row.pods, row.pods_running, row.priority) == ("pending", 1.5, 3, 1, 60)
    assert row.started_s == row.submitted_s == 1769860800.0
    assert row.reason is not None
    assert row.reason.sentence == "no capacity now"
    assert workload_row(workload(phase="Refused")).status == "pending"
    suspended = workload_row(workload(phase="Pending", suspended=True))
    assert suspended.reason is not None
    assert suspended.reason.why == "suspended"


def queue(spec: dict[str, Any], **status: Any) -> ListedQueue:
    return msgspec.convert({"metadata": {"name": "q"}, "spec": spec, "status": status}, ListedQueue)


def test_queues_are_rows() -> None:
    spec = {
        "quota": {"memory": "1Gi"},
        "limit": {"gpu": "unlimited", "cpu": "500m"},
        "times": {"maxRuntime": "2h"},
    }
    row = queue_row(queue(spec, allocated={"gpu": "1.5"}, running=2), is_project=True)
    assert row.quota == {"gpu": 0.0, "memory": float(1 << 30)}
    assert row.limit == {"cpu": 0.5}
    assert row.times == {"max_runtime": 7200.0}
    assert (row.allocated, row.running, row.follows) == ({"gpu": 1.5}, 2, False)
    stuck = queue_row(queue({}, pending=2, unschedulable=1), is_project=True)
    assert stuck.pending == 3, "as the list of workloads counts"
    above = queue_row(queue({"parent": "x", "weight": {"gpu": "0.5"}}, quota={"gpu": "8"}), is_project=False)
    assert (above.quota, above.follows, above.parent, above.weight) == ({"gpu": 8.0}, True, "x", {"gpu": 0.5})


def test_a_queue_with_amounts_that_weir_refuses_is_a_row_with_the_reason() -> None:
    spec = {"quota": {"gpu": "0.0001"}, "limit": {"gpu": "0.30000000000000004", "memory": "0.1Gi"}}
    row = queue_row(queue(spec, phase="Refused", message="quota.gpu: write 0.001"), is_project=True)
    assert (row.quota, row.limit) == ({"gpu": 0.001}, {"gpu": 0.3, "memory": 107_374_183.0})
    assert row.warnings == ["q: quota.gpu: write 0.001"]


def test_a_queue_shows_what_its_status_tells_people() -> None:
    leaving = queue({}, phase="Leaving", message="It is being deleted.")
    assert queue_row(leaving, is_project=True).warnings == ["q: It is being deleted."]
    assert queue_row(queue({}, phase="Ready"), is_project=True).warnings == []


def test_events_name_their_workloads() -> None:
    def event(kind: str, name: str) -> EventView:
        regarding = {"kind": kind, "namespace": "ns", "name": name}
        metadata = {"name": "e", "uid": name}
        body = {
            "metadata": metadata,
            "eventTime": AT,
            "reason": "Waiting",
            "note": "n",
            "regarding": regarding,
        }
        return msgspec.convert(body, EventView)

    workloads = WorkloadIndex()
    events = EventIndex(workloads, lambda: 1769860800.0)
    found = [event("Workload", "job-a"), event("Pod", "a-0-xyz"), event("Pod", "b-1")]
    events.deliver([ObjectSet(each.metadata.uid, each) for each in found])
    workloads.deliver([ObjectSet("ns/job-a", workload())])
    rows = matching_events(events.all(), EventFilter(), 0, 100)[1]
    reported = {("ns/job-a", None), ("ns/job-a", "a-0-xyz"), (None, "b-1")}
    assert {(row.workload, row.pod) for row in rows} == reported
    assert {row.kind for row in rows} == {"waiting"}
    of_workload = EventFilter("ns", "ns/job-a", ["speech", "vision"])
    assert {row.pod for row in matching_events(events.all(), of_workload, 0, 100)[1]} == {"a-0-xyz", None}
    for other in (EventFilter("other"), EventFilter(projects=["speech"]), EventFilter(kinds=["evicted"])):
        assert not matching_events(events.all(), other, 0, 100)[1]
    assert len(matching_events(events.all(), EventFilter(kinds=["evicted", "waiting"]), 0, 100)[1]) == 3


def test_events_are_kept_for_six_hours_and_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.kubernetes.query.workloads.event_index.EVENTS_MAX", 3)
    now = [1769860800.0]
    events = EventIndex(WorkloadIndex(), lambda: now[0])

    def happen(*names: str) -> None:
        for name in names:
            body = {"metadata": {"name": name, "uid": name}, "eventTime": AT, "note": name}
            events.deliver([ObjectSet(name, msgspec.convert(body, EventView))])

    happen("a", "b", "c", "d")
    events.deliver([ObjectRemoved("d", "d")])
    assert [row.sentence for row in matching_events(events.all(), EventFilter(), 0, 100)[1]].count("a") == 0
    assert len(events) == 3, "what the API server has forgotten stays"
    now[0] += 6 * 3600 + 1
    events.deliver([ObjectRemoved("c", "c")])
    assert len(events) == 0


def test_workloads_are_found_by_their_name_their_owner_and_what_they_are() -> None:
    index = WorkloadIndex()
    index.deliver([ObjectSet("ns/job-a", workload(phase="Succeeded"))])

    def found(**words: Any) -> list[str]:
        return [each.key for each in matching(index.all(), WorkloadQuery(**words))]

    assert found() == []
    assert found(ended=True) == ["ns/job-a"]
    assert found(statuses=frozenset(["succeeded"]), projects=["vision"], types=["train"]) == ["ns/job-a"]
    assert found(ended=True, named="a") == found(ended=True, named="job-a") == ["ns/job-a"]
    for part in ("NS/Job-a", "VISION", "nn@lab"):
        assert found(ended=True, text=part) == ["ns/job-a"], part
    assert found(ended=True, text="speech") == []
    for since, names in (("1769860800", ["ns/job-a"]), ("1769860801", [])):
        query = params_query({"all": "true", "since": since}, "")
        assert [each.key for each in matching(index.all(), query)] == names
    with pytest.raises(QueryRefused, match="since"):
        params_query({"since": "soon"}, "")
    assert found(ended=True, named="b") == found(ended=True, namespace="other") == []
    by_name, by_owner = index.get("ns", "job-a"), index.get("ns", "a")
    assert by_name is not None
    assert by_name is by_owner
    index.deliver([ObjectRemoved("ns/job-a", "0a1b")])
    assert index.get("ns", "job-a") is index.get("ns", "a") is None
    assert index.owner_of("ns", "a-0-x") is by_name, "events come after what they are about"


@pytest.mark.parametrize(
    ("stated", "line"),
    [
        ("enforced", "enforced: the driver limits every job on its GPUs to its share"),
        ("cooperative", "cooperative: nothing limits it; weir-node watches it"),
        (
            "none",
            "none: nothing limits the memory of its share (no label says that its node or device class limits it",
        ),
        (None, ""),
    ],
)
def test_description_says_whether_the_memory_of_a_share_is_limited(stated: str | None, line: str) -> None:
    share = workload(phase="Running", gpuMemoryIsolation=stated)
    detail = WorkloadDetail(**workload_row(share).model_dump(), **memory_isolation(share))
    lines = dict(isolation_lines(detail))
    assert lines.get("GPU memory", "").startswith(line)
    assert bool(lines) == bool(line)


def test_conditions_for_the_start_are_annotations_of_the_job_alone() -> None:
    made = job(begin=1_796_148_000.5, after_ok=["prepare", "index"], after=["server"])
    assert made["metadata"]["annotations"] == {
        "weir.dev/begin": "2026-12-01T18:00:01Z",
        "weir.dev/after": "server",
        "weir.dev/after-ok": "prepare,index",
    }
    assert made["spec"]["template"]["metadata"]["annotations"] == {}
    with pytest.raises(Refused, match=r"after_any: 'other/job' is no name of an object"):
        job(after_any=["other/job"])


def test_an_array_is_an_indexed_job_whose_indices_start_and_fail_by_themselves() -> None:
    made = job(array="0-499%20", retries=1, env={"A": "b"})
    spec = made["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (500, 20, "Indexed")
    assert spec["backoffLimitPerIndex"] == 1
    assert "backoffLimit" not in spec
    assert "maxFailedIndexes" not in spec
    assert made["metadata"]["annotations"]["weir.dev/min-pods"] == "1"
    env = {each["name"]: each for each in pod_spec(made)["containers"][0]["env"]}
    assert "job-completion-index" in env["WEIR_ARRAY_INDEX"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert (env["WEIR_ARRAY_COUNT"]["value"], env["WEIR_ARRAY_MAX"]["value"]) == ("500", "499")
    assert env["A"]["value"] == "b"


@pytest.mark.parametrize(
    ("written", "indices"), [("1-4", [1, 2, 3, 4]), ("10-22:5%1", [10, 15, 20]), ("9,3,4-5%2", [3, 4, 5, 9])]
)
def test_each_pod_of_an_array_gets_its_index(written: str, indices: list[int]) -> None:
    made = job(array=written, command=["sh", "-c", 'echo "$WEIR_ARRAY_INDEX $1"', "-", "a  b"])
    assert made["spec"]["completions"] == len(indices)
    (container,) = pod_spec(made)["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    assert env["WEIR_ARRAY_COUNT"] == str(len(indices))
    assert (env["WEIR_ARRAY_MIN"], env["WEIR_ARRAY_MAX"]) == (str(indices[0]), str(indices[-1]))
    for number, index in enumerate(indices):
        env["JOB_COMPLETION_INDEX"] = str(number)
        ran = subprocess.run(container["command"], env=env, capture_output=True, check=True, text=True)
        assert ran.stdout == f"{index} a  b\n"


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("0-99999", "write 0-99999%10000"),
        ("1-99999:2", "write 1-99999:2%10000"),
        ("0-40000,50000-60000%1", "is too long for a Job; write one range"),
    ],
)
def test_an_array_that_a_job_cannot_express_is_refused_with_one_that_it_can(
    written: str, instead: str
) -> None:
    with pytest.raises(Refused, match=instead):
        job(array=written)
    with pytest.raises(Refused, match="one pod, and 2 are asked for"):
        job(array="0-3", pods=[{"count": 2}])
