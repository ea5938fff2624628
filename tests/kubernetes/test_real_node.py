"""Weir in front of a real kubelet: what containers really get, hear and leave, compared with Weir's books.

They run where a kubelet can: on Linux, as root. WEIR_REAL_NODE=skip leaves them out, WEIR_REAL_NODE=required makes
it a failure if they can't run. WEIR_EFFORT=2 runs all of them.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from tests.kubernetes.node_team import REPORT, REST, Team, for_real, set_aside, tracked
from tests.kubernetes.test_gangs_by_kind import definition, remove_definitions
from tests.properties.budget import EFFORT
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.work import job, pod
from tools.node.node import GPU, RealNode
from tools.node.programs import Programs

GPUS = 8
ON_DEMAND = pytest.mark.skipif(EFFORT == 1, reason="Run with WEIR_EFFORT=2 or more.")


@pytest.fixture(scope="module")
def shared(programs: Programs, plane: ControlPlane) -> Iterator[Cluster]:
    """The control plane with the stock scheduler, for all tests of this file; emptied after them."""
    cluster = Cluster(plane)
    plane.start_scheduler()
    try:
        yield cluster
    finally:
        plane.kill("kube-scheduler")
        cluster.empty()


@pytest.fixture(scope="module")
def node(shared: Cluster, programs: Programs) -> Iterator[RealNode]:
    with RealNode(shared.plane, programs, gpus=GPUS) as running:
        yield running
        running.check()


@pytest.fixture(scope="module")
def weir(shared: Cluster, node: RealNode) -> Iterator[Installed]:
    shared.api.apply(definition("kubeflow.org", "v2beta1", "MPIJob", "mpijobs"))
    shared.until(lambda: served(shared, "/apis/kubeflow.org/v2beta1/mpijobs"), "the kind to be served")
    try:
        with Installed(shared.plane, name="real") as running:
            running.wait_ready()
            yield running
            assert "forbidden" not in running.log_text().lower()
    finally:
        remove_definitions(shared, ["mpijobs.kubeflow.org"])


@pytest.fixture
def teams(shared: Cluster, node: RealNode, weir: Installed) -> Iterator[tuple[Team, Team]]:
    """Two teams, each with half of the GPUs."""
    pair = Team(shared, weir, "vision", GPUS // 2), Team(shared, weir, "speech", GPUS // 2)
    yield pair
    for team in pair:
        team.remove()
    shared.until(lambda: not any(node.devices().values()), "the kubelet to have its GPUs back")


def test_a_job_runs_on_as_many_devices_as_it_asks_for(teams: tuple[Team, Team], node: RealNode) -> None:
    vision, _ = teams
    path = {"path": str(node.shared / "train"), "type": "DirectoryOrCreate"}
    until_told = "while [ ! -e /state/go ]; do sleep 0.1; done"
    vision.job("train", 2, REPORT + until_told, volumes=[{"name": "state", "hostPath": path}])
    (name,) = vision.cluster.until(vision.run, node.last_words)
    vision.cluster.until(lambda: "files" in tracked(node, vision.namespace, name), node.last_words)
    saw, given = tracked(node, vision.namespace, name), node.devices()[vision.namespace, name]
    assert len(given) == 2
    assert saw["given"] == given
    assert saw["files"] == [f"nvidia{each.removeprefix('GPU-')}" for each in given]
    assert len(saw["books"]) == 2, "Weir counts as many; the kubelet chooses which"
    (node.shared / "train" / "go").touch()
    vision.cluster.until(lambda: vision.job_status("train").get("succeeded") == 1, "the Job to succeed")
    vision.cluster.until(
        lambda: vision.workload("job-train").get("phase") == "Succeeded",
        lambda: str(vision.workload("job-train")),
    )


def test_a_script_of_slurm_runs_in_an_image_of_busybox(
    teams: tuple[Team, Team], node: RealNode, tmp_path: Path
) -> None:
    vision, _ = teams
    name = vision.script(tmp_path / "job.sh")
    vision.cluster.until(lambda: vision.job_status(name).get("succeeded") == 2, node.last_words)
    _, log = [node.log(vision.namespace, pod).splitlines() for pod in sorted(vision.pods())]
    assert [line.partition(".")[0] for line in log[:2]] == [f"{name}-0", f"{name}-1"]
    assert sorted(log[2:]) == ["2: 2 of 4, 1 GPU", "3: 3 of 4, 1 GPU"]


COUNT = """\
file=/state/step; step=$(cat $file 2>/dev/null || echo 0); exec >> /state/history
trap 'sleep 0.5; echo $step > $file; echo saved $step; exit 143' TERM
echo from $step
while [ ! -e /state/go ]; do step=$((step + 1)); sleep 0.1 & wait $!; done
echo done
"""


def test_an_evicted_job_saves_within_its_grace_and_resumes(teams: tuple[Team, Team], node: RealNode) -> None:
    vision, speech = teams
    path = {"path": str(node.shared / "long"), "type": "DirectoryOrCreate"}
    vision.job("long", GPUS, COUNT, grace_s=120, volumes=[{"name": "state", "hostPath": path}])
    history = node.shared / "long" / "history"
    vision.cluster.until(lambda: history.exists() and history.read_text(), node.last_words)
    speech.job("due", GPUS // 2, "true")
    speech.cluster.until(
        lambda: speech.job_status("due").get("succeeded"), lambda: str(speech.workload("job-due"))
    )
    assert re.match(r"from 0\nsaved \d+\n", history.read_text()), history.read_text()
    (node.shared / "long" / "go").touch()
    vision.cluster.until(
        lambda: vision.job_status("long").get("succeeded"), lambda: str(vision.workload("job-long"))
    )
    saved = re.fullmatch(r"from 0\nsaved (\d+)\nfrom (\d+)\ndone\n", history.read_text())
    assert saved is not None, history.read_text()
    assert saved[1] == saved[2] != "0"
    assert vision.job_status("long").get("failed", 0) == 0, "an eviction counted as a failure"


@ON_DEMAND
def test_a_container_that_ignores_its_notice_holds_its_devices_until_it_is_killed(
    teams: tuple[Team, Team], node: RealNode
) -> None:
    vision, speech = teams
    vision.pod("deaf", GPUS, REPORT + "trap : TERM; while :; do sleep 1; done", grace_s=2)
    vision.until_run({"deaf"}, node)
    speech.pod("due", GPUS)
    speech.pod("late", GPUS // 2)
    held = set()

    def late_runs() -> bool:
        given = node.devices()
        no_device_twice(given)
        held.add(tuple(sorted(name for (_, name), devices in given.items() if devices)))
        return "late" in speech.run()

    speech.cluster.until(late_runs, node.last_words)
    assert ("deaf",) in held
    assert held <= {(), ("deaf",), ("late",)}
    assert not speech.refused()


def test_books_and_kubelet_agree_after_restarts_of_plugin_kubelet_and_weir(
    teams: tuple[Team, Team], node: RealNode, weir: Installed
) -> None:
    """First the plugin is restarted while Weir runs, then all three at once."""
    vision, speech = teams
    vision.pod("a", 3)
    speech.pod("b", 3)
    for team, name in ((vision, "a"), (speech, "b")):
        team.until_run({name}, node)
    before = node.devices()
    registered = node.registrations()
    node.restart("gpuplugin")
    vision.cluster.until(lambda: node.registrations() > registered, node.last_words)
    speech.pod("meanwhile", 1)
    speech.until_run({"b", "meanwhile"}, node)
    weir.stop()
    for program in ("gpuplugin", "kubelet"):
        node.restart(program)
    weir.start()
    weir.wait_ready()
    vision.pod("c", 1)
    speech.pod("over", 1)
    vision.until_run({"a", "c"}, node)
    after = node.devices()
    no_device_twice(after)
    assert {key: after[key] for key in before} == before
    assert sum(map(len, after.values())) == GPUS
    assert "over" not in speech.run(), "all devices are in use"
    assert not vision.refused() + speech.refused()


@ON_DEMAND
def test_pods_wait_for_devices_that_are_healthy(teams: tuple[Team, Team], node: RealNode) -> None:
    vision, speech = teams
    node.set_unhealthy([0, 3, 5])
    try:
        shown = f"/api/v1/nodes/{node.name}"
        vision.cluster.until(
            lambda: vision.cluster.api.get(shown)["status"]["allocatable"][GPU] == "5", node.last_words
        )
        vision.pod("fits", 4)
        vision.until_run({"fits"}, node)
        speech.pod("waits", 2)
        speech.pod("small", 1)
        speech.until_run({"small"}, node)
        assert not {"GPU-0", "GPU-3", "GPU-5"} & {one for given in node.devices().values() for one in given}
    finally:
        node.set_unhealthy([])
    speech.until_run({"small", "waits"}, node)
    assert not vision.refused() + speech.refused()


@ON_DEMAND
def test_weir_never_binds_into_what_static_pods_and_other_schedulers_hold(
    teams: tuple[Team, Team], node: RealNode, shared: Cluster
) -> None:
    vision, speech = teams
    elsewhere = shared.namespace()
    agent = for_real(pod("kube-system", "agent", 2, scheduler="default-scheduler"), REST)
    (node.static / "agent.json").write_text(json.dumps(agent))
    other = for_real(pod(elsewhere, "other", 2, scheduler="default-scheduler"), REST)
    shared.api.create(other)
    try:
        shared.until(
            lambda: len(held := node.devices()) >= 2 and sum(map(len, held.values())) == 4,
            node.last_words,
        )
        for at in range(4):
            (vision, speech)[at % 2].pod(f"p{at}", 2)
        shared.until(lambda: len(vision.run() + speech.run()) == 2, node.last_words)
        given = node.devices()
        no_device_twice(given)
        assert sum(map(len, given.values())) == GPUS
        shared.api.delete(f"/api/v1/namespaces/{elsewhere}/pods/other")
        shared.until(lambda: len(vision.run() + speech.run()) == 3, node.last_words)
        assert not vision.refused() + speech.refused()
    finally:
        (node.static / "agent.json").unlink()
        shared.api.delete(f"/api/v1/namespaces/{elsewhere}/pods")
        shared.until(lambda: not shared.pods("kube-system"), "the static pod to be gone")


@ON_DEMAND
def test_many_short_jobs_are_never_refused_by_the_kubelet(teams: tuple[Team, Team], node: RealNode) -> None:
    vision, speech = teams
    jobs = [(team, f"j{at}", 1 + at % 3) for at in range(3) for team in (vision, speech)]
    for team, name, gpus in jobs:
        team.job(name, gpus, "sleep 0.2", retries=0)

    def all_ended() -> bool:
        no_device_twice(node.devices())
        assert not vision.refused() + speech.refused()
        statuses = [team.job_status(name) for team, name, _ in jobs]
        assert not any(status.get("failed") for status in statuses)
        return all(status.get("succeeded") for status in statuses)

    vision.cluster.until(all_ended, node.last_words)


LAUNCHER = {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}}


def test_a_gang_with_a_member_without_gpus_runs_as_a_whole(teams: tuple[Team, Team], node: RealNode) -> None:
    vision, _ = teams
    api, version = vision.cluster.api, "kubeflow.org/v2beta1"
    made = {"apiVersion": version, "kind": "MPIJob", "metadata": {"name": "mpi"}, "spec": LAUNCHER}
    uid = api.post(f"/apis/{version}/namespaces/{vision.namespace}/mpijobs", made)["metadata"]["uid"]
    owner = {"apiVersion": version, "kind": "MPIJob", "name": "mpi", "uid": uid, "controller": True}
    for name, gpus in (("launcher", 0), ("worker-0", 2), ("worker-1", 2)):
        labels = {"training.kubeflow.org/job-role": name.partition("-")[0]}
        vision.pod(name, gpus, labels=labels, owners=[owner])
    vision.until_run({"launcher", "worker-0", "worker-1"}, node)
    given = node.devices()
    no_device_twice(given)
    assert [len(given[vision.namespace, f"worker-{at}"]) for at in range(2)] == [2, 2]
    vision.cluster.until(lambda: "files" in tracked(node, vision.namespace, "launcher"), node.last_words)
    assert tracked(node, vision.namespace, "launcher")["files"] == []
    assert vision.pods()["launcher"]["spec"]["schedulerName"] == "default-scheduler"
    vision.cluster.until(
        lambda: vision.workload("mpijob-mpi").get("running") == "3/3",
        lambda: str(vision.workload("mpijob-mpi")),
    )
    api.delete(f"/apis/{version}/namespaces/{vision.namespace}/mpijobs/mpi")


def served(cluster: Cluster, path: str) -> bool:
    with suppress(ApiError):
        cluster.api.items(path)
        return True
    return False


def test_no_device_is_really_used_twice_where_shares_and_whole_devices_run(
    teams: tuple[Team, Team], node: RealNode, shared: Cluster, programs: Programs
) -> None:
    vision, speech = teams
    elsewhere = shared.namespace()
    with RealNode(shared.plane, programs, name="aside", gpus=4) as aside:
        try:
            set_aside(shared, aside)
            for at in range(3):
                vision.pod(f"half-{at}", 0, annotations={"weir.dev/gpu-fraction": "0.5"})
                speech.pod(f"whole-{at}", 4)
                others = pod(elsewhere, f"other-{at}", 4, scheduler="default-scheduler")
                shared.api.create(for_real(others, REPORT + REST))
            vision.until_run({f"half-{at}" for at in range(3)}, node)
            full = GPUS // 4
            shared.until(lambda: len(speech.run()) + len(shared.running(elsewhere)) == full, node.last_words)
            overlay = [
                vision.pods()[f"half-{at}"]["metadata"]["annotations"]["weir.dev/gpus"] for at in range(3)
            ]
            assert sorted(overlay) == ["0", "0", "1"]
            for at, index in enumerate(overlay):
                shared.until(
                    lambda at=at: "files" in tracked(aside, vision.namespace, f"half-{at}"),
                    aside.last_words,
                )
                saw = tracked(aside, vision.namespace, f"half-{at}")
                assert saw["given"] == saw["books"] == [index], "the webhook names the device"
                assert saw["limits"] == [str(40 << 30)] * 2, "and the bytes that the share may use of it"
            assert not any(aside.devices().values()), "whole devices beside shares"
            no_device_twice(node.devices())
        finally:
            shared.api.delete(f"/api/v1/namespaces/{elsewhere}/pods", grace_s=1)
            vision.remove()
            shared.api.delete(f"/api/v1/nodes/{aside.name}")


def no_device_twice(given: dict[tuple[str, str], list[str]]) -> None:
    devices = sorted(one for held in given.values() for one in held)
    assert all(one != other for one, other in pairwise(devices)), given


TRIAL = """\
step=$(cat $WEIR_CHECKPOINT_DIR/step 2>/dev/null || echo 0)
while [ $step -lt $WEIR_SWEEP_RUNG ]; do step=$((step + 1)); echo $WEIR_SWEEP_TRIAL $step >> /state/trained; done
echo $step > $WEIR_CHECKPOINT_DIR/step
printf '{"weir_rungs": [[%s, %s]]}' $step $WEIR_PARAM_X > $WEIR_SWEEP_MESSAGE
"""


def test_trials_of_a_sweep_leave_results_and_checkpoints(
    teams: tuple[Team, Team], node: RealNode, weir: Installed
) -> None:
    """The kubelet passes the message on, and gives each trial its directory of the claim."""
    vision, _ = teams
    api, within = vision.cluster.api, vision.namespace
    rbac, account = "rbac.authorization.k8s.io", {"kind": "ServiceAccount", "name": "weir"}
    binding = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding"}
    binding |= {"metadata": {"name": "s", "namespace": within}}
    ref = {"apiGroup": rbac, "kind": "ClusterRole", "name": "weir-sweeps"}
    api.create({**binding, "roleRef": ref, "subjects": [{**account, "namespace": weir.namespace}]})
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    path = {"path": str(node.shared / "checkpoints"), "type": "DirectoryOrCreate"}
    volume = {"accessModes": modes, "capacity": size, "hostPath": path, "storageClassName": ""}
    claim = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": ""}
    claim |= {"volumeName": within}
    named = {"kind": "PersistentVolumeClaim", "metadata": {"name": "checkpoints", "namespace": within}}
    api.create(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": within}, "spec": volume},
        {"apiVersion": "v1", "spec": claim, **named},
    )
    state = {"path": str(node.shared / "sweep"), "type": "DirectoryOrCreate"}
    made = for_real(job(within, "trial", 1, volumes=[{"name": "state", "hostPath": state}]), TRIAL)
    spec = {
        "project": vision.name,
        "params": {"x": "float:0..1"},
        "trials": 4,
        "rungs": [1, 3],
        "eta": 2,
        "sampler": "random",
        "arguments": False,
        "checkpointClaim": "checkpoints",
        "jobTemplate": {"metadata": {}, "spec": made["spec"]},
    }
    metadata = {"name": "tiny", "namespace": within}
    api.create({"apiVersion": "weir.dev/v1alpha1", "kind": "Sweep", "metadata": metadata, "spec": spec})
    sweep = f"/apis/weir.dev/v1alpha1/namespaces/{within}/sweeps/tiny"
    status = lambda: api.get(sweep).get("status", {})  # noqa: E731
    vision.cluster.until(lambda: status().get("phase") == "Finished", lambda: f"{status()}")
    trials = status()["trials"]
    assert len(trials) == 4
    for trial in trials:
        assert [each["value"] for each in trial["results"]] == pytest.approx(
            [json.loads(trial["params"])["x"]] * len(trial["results"])
        )
    trained = (node.shared / "sweep" / "trained").read_text().splitlines()
    assert len(trained) == len(set(trained)), "no step twice"
    reached = [
        f"{number} {step}"
        for number, trial in enumerate(trials)
        for step in range(1, 4)[: 2 * len(trial["results"]) - 1]
    ]
    assert sorted(trained) == sorted(reached)
    assert any(len(trial["results"]) == 2 for trial in trials)
