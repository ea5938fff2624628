"""The command line against a cluster: the same verbs, tables and exit codes as against a pool."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.command_line import Run, answering, is_now, listed, pending_of, runner
from tests.kubernetes.test_installed import enforce_policies, installed, installed_without_policies
from tests.kubernetes.test_why_pods_wait import Namespace
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import job, pod

from weir.scenario_io.reading import read_scenario
from weir.simulation.scenario_runner import play


@pytest.fixture
def run(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(plane, monkeypatch, capsys)


@pytest.fixture
def home(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the namespace of Weir; one test enforces its policies, which takes a second."""
    found = installed_without_policies(cluster)
    monkeypatch.setenv("WEIR_NAMESPACE", found)
    return found


@pytest.fixture
def teams(cluster: Cluster, home: str) -> Cluster:
    """Two nodes of two GPUs, two teams with two each."""
    cluster.add_nodes(2, gpus=2)
    for name in ("team-a", "team-b"):
        cluster.namespace(name)
        cluster.api.create(project(name, 2))
    return cluster


@pytest.fixture
def weir(teams: Cluster, home: str) -> Iterator[Weir]:
    with answering(teams, home) as running:
        yield running


def why_of(run: Run, name: str) -> str | None:
    """Return the code of the reason why a workload waits; None as long as it is unknown or has none."""
    return (listed(run).get(name, {}).get("reason") or {}).get("why")


def described(run: Run, name: str) -> str:
    """Return the description of a workload on one line, however wide the terminal is."""
    code, out, err = run("describe", name)
    assert code == 0, err
    return " ".join(out.split())


def kinds_of_events(run: Run, name: str) -> set[str]:
    return {row["kind"] for row in json.loads(run("events", name, "-o", "json")[1])}


def test_a_day_on_the_command_line(run: Run, weir: Weir, teams: Cluster, home: str) -> None:
    enforce_policies(teams, home)

    def submit(team: str, name: str, gpus: str) -> None:
        words = ("-p", team, "--gpus", gpus, "--name", name, "--image", "busybox", "--", "sleep", "3600")
        code, out, err = run("submit", *words)
        assert (code, out) == (0, f"{team}/job-{name}\n"), err
        assert f"weir logs {team}/job-{name} -f" in err
        teams.until(is_now(teams, run, f"{team}/job-{name}", "running"), f"{name} to run")

    submit("team-a", "two", "2")
    submit("team-a", "lent", "1")
    submit("team-b", "first", "1")
    submit("team-b", "second", "1")
    teams.until(lambda: why_of(run, "team-a/job-lent") == "insufficient_capacity", "why it waits")
    only = "team-a/job-lent is the only pending workload in team-a."  # a busy scheduler leaves it out
    teams.until(lambda: only in run("why", "lent", "--explain")[1], "its position")
    code, out, _ = run("why", "lent", "--explain")
    assert code == 0
    assert "No node has the capacity for its next pod now" in out
    assert "team-b has no claim" not in out, "victims are judged for the requester"
    assert "protected: " in out
    assert "What would let it start" in out
    assert "It would start now if team-a/job-two ended." in out
    stopped = "stopped for team-b/job-second (reclaim of quota): team-a holds 3 GPUs with a quota of 2"
    teams.until(lambda: stopped in described(run, "team-a/lent"), lambda: described(run, "team-a/lent"))
    code, _, err = run("project", "set", "team-a", "--limit", "gpu=1")
    assert (code, "the limit of gpu is below its quota: raise it" in err) == (2, True), err
    code, out, _ = run("nodes", "-o", "json")
    assert [device["allocated"] for node in json.loads(out) for device in node["devices"]] == [1.0] * 4
    code, out, _ = run("status", "-o", "json")
    assert {"devices": 4, "allocated": 4.0, "running": 3, "pending": 1}.items() <= json.loads(out).items()
    submitted = [row["submitted_s"] for row in listed(run, "--sort", "age").values()]
    assert submitted == sorted(submitted, reverse=True), "newest first"
    assert json.loads(out)["started_s"] <= submitted[0] + 1, "it leads since before the last was submitted"
    code, out, _ = run("project", "list")
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [["team-a", "-", "2"], ["team-b", "-", "2"]]
    teams.until(lambda: kinds_of_events(run, "lent") >= {"scheduled", "preempted"}, "its events")

    assert run("suspend", "second")[0] == 0
    teams.until(is_now(teams, run, "team-a/job-lent", "running"), "what was borrowed to be lent again")
    assert run("resume", "second")[0] == 0
    assert run("stop", "lent", "two")[0] == 0
    teams.until(is_now(teams, run, "team-b/job-second", "running"))
    teams.until(lambda: set(listed(run)) == {"team-b/job-first", "team-b/job-second"})


BATCH = """
defaults: {{project: team-a, image: busybox, gpus: 1}}
workloads:
  - {{name: prepare, command: sleep 3600}}
  - {{name: train, command: sleep 3600, after_ok: [{after}]}}
"""


def test_a_chain_a_priority_and_a_job_again(run: Run, weir: Weir, teams: Cluster, tmp_path: Path) -> None:
    file, jobs = tmp_path / "chain.yaml", "/apis/batch/v1/namespaces/team-a/jobs"
    file.write_text(BATCH.format(after="train"))
    assert "none of them could ever start" in run("submit", "-f", str(file))[2]
    file.write_text(BATCH.format(after="prepare").replace("sleep 3600, after", "sleep 3600, gpus: -1, after"))
    assert run("submit", "-f", str(file))[0] == 2
    teams.api.create(job("team-a", "train", 1))
    file.write_text(BATCH.format(after="prepare"))
    code, _, err = run("submit", "-f", str(file))
    assert (code, '"train" already exists' in err) == (2, True), err
    assert [each["metadata"]["name"] for each in teams.api.items(jobs)] == ["train"], (
        "none is left of the file"
    )
    teams.api.delete(f"{jobs}/train")
    teams.until(lambda: teams.api.maybe(f"{jobs}/train") is None)
    assert run("submit", "-f", str(file))[:2] == (0, "team-a/job-prepare\nteam-a/job-train\n")
    teams.until(is_now(teams, run, "team-a/job-prepare", "running"))
    teams.until(
        lambda: (
            "prepare" in ((listed(run).get("team-a/job-train") or {}).get("reason") or {}).get("sentence", "")
        ),
        "the next one of the chain to wait",
    )
    assert run("priority", "train", "weir-inference")[:2] == (0, "team-a/job-train has priority 125 now.\n")
    teams.until(lambda: (row := listed(run)["team-a/job-train"])["priority"] == 125 and row["preemptible"])
    assert "isn't over yet" in run("rerun", "prepare")[2]
    teams.api.patch(f"{jobs}/prepare", {"spec": {"activeDeadlineSeconds": 1}})
    teams.until(lambda: any(each["type"] == "Failed" for each in _conditions(teams, f"{jobs}/prepare")))
    teams.until(lambda: run("rerun", "prepare")[0] == 0, "it to run again")
    again = teams.api.get(f"{jobs}/prepare-r2")["spec"]
    assert again["selector"] != teams.api.get(f"{jobs}/prepare")["spec"]["selector"]


def _conditions(cluster: Cluster, path: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = cluster.api.get(path)["status"].get("conditions", [])
    return found


def test_an_installation_with_another_scheduler_name_is_asked_as_it_is(
    run: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = installed(cluster, scheduler="night", devices=("nvidia.com/gpu",))
    monkeypatch.setenv("WEIR_NAMESPACE", home)
    cluster.add_nodes(1, gpus=2)
    within = cluster.namespace("team-a")
    cluster.api.create(project(within, 2))
    words = ["--scheduler", "night", "--devices", "nvidia.com/gpu"]
    with answering(cluster, home, "night", words):
        for name in ("first", "second"):
            words = ["-p", within, "--gpus", "2", "--name", name, "--image", "x", "--", "x"]
            assert run("submit", *words)[0] == 0
        cluster.until(lambda: sorted(row["status"] for row in listed(run).values()) == ["pending", "running"])
        waits = next(name for name, row in listed(run).items() if row["status"] == "pending")
        code, printed, refused = run("why", waits)
        assert f"{waits} is the only pending workload in {within}" in printed, f"{code}: {refused}"
        rows = json.loads(run("nodes", "-o", "json")[1])
        assert [device["allocated"] for row in rows for device in row["devices"]] == [1.0, 1.0]
        assert {"running": 1, "pending": 1}.items() <= json.loads(run("status", "-o", "json")[1]).items()
        assert f"{waits}" in run("snapshot")[1]

    path = f"/api/v1/namespaces/{home}/configmaps/weir-installation"
    cluster.api.patch(path, {"data": {"devices": "card"}})
    reported = f"The ConfigMap weir-installation of {home} has a mistake: devices: 'card' is no resource"
    assert reported in run("submit", "-p", within, "--image", "x", "--", "x")[2]


def test_a_standby_answers_and_its_snapshot_replays_the_next_decision(
    run: Run, teams: Cluster, home: str, tmp_path: Path
) -> None:
    """A played cycle of the snapshot decides as Weir does when it leads."""
    with answering(teams, home, "before"):
        for team, name, gpus in (("team-a", "two", 2), ("team-a", "lent", 1), ("team-b", "first", 1)):
            teams.api.create(job(team, name, gpus))
            teams.until(is_now(teams, run, f"{team}/job-{name}", "running"))
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{home}/leases/weir"
    teams.api.patch(lease, {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600}})
    teams.api.create(job("team-b", "second", 1))
    teams.until(lambda: len(teams.pods("team-b")) == 2)
    with answering(teams, home, "after") as standby:
        teams.until(lambda: json.loads(run("status", "-o", "json")[1])["pending"] == 1)
        code, out, _ = run("snapshot")
        assert code == 0
        path = tmp_path / "snapshot.yaml"
        path.write_text(out)
        cycle = play(read_scenario(path), 1).cycles[0]
        assert [pod.rsplit("/", 2)[0] for pod in cycle.evicted] == ["team-a/job-lent"]
        code, out, _ = run("why", "lent")
        assert (code, "team-a/job-lent isn't pending: it is running." in out) == (0, True), out
        assert run("nodes")[0] == run("describe", "lent")[0] == run("events", "lent")[0] == 0
        assert not list(standby.lines("leading"))
        assert len(teams.running()) == 3, "it leaves the pods alone"
        teams.api.delete(lease)
        teams.until(is_now(teams, run, "team-b/job-second", "running"))
        teams.until(
            lambda: listed(run).get("team-a/job-lent", {}).get("status") in ("stopping", "pending"),
            "it to wait",
        )
        assert listed(run)["team-a/job-two"]["status"] == "running"


WRONG = [
    (("why", "nosuch"), "There is no workload nosuch; `weir list -A` shows which there are."),
    (("submit", "-p", "team-b", "--", "x"), "no image is named: write --image IMAGE"),
    (("submit", "-p", "nope", "--image", "x", "--", "x"), "--project: there is no project nope"),
    (
        ("submit", "-p", "team-b", "-n", "team-a", "--image", "x", "--", "x"),
        "--namespace: project team-b isn't open",
    ),
    (
        ("submit", "-p", "team-b", "--image", "x", "--priority", "3", "--", "x"),
        "--priority: no PriorityClass has",
    ),
    (("stop", "nosuch"), "There is no workload nosuch"),
    (("rerun", "nosuch"), "There is no workload nosuch"),
    (("logs", "team-a/job-x"), "There is no workload team-a/job-x"),
    (("sbatch", "train.sh"), "train.sh can't be read"),
    (("sbatch", "-A", "team-a", "--wrap", "true"), "write --image=IMAGE"),
    (("token", "list"), "RBAC"),
    (("priorities",), "kubectl get priorityclasses"),
    (("project", "delete", "nope"), "There is no project nope"),
]


def test_what_is_wrong_is_said_in_a_sentence(run: Run, teams: Cluster, home: str, tmp_path: Path) -> None:
    code, _, err = run("list")
    assert (code, "Weir isn't installed in it, or is older than this command line" in err) == (2, True)
    with answering(teams, home):
        say_what_is_wrong(run)
    code, _, err = run("list", kubeconfig=tmp_path / "none")
    assert (code, "can't be used" in err) == (3, True)


def say_what_is_wrong(run: Run) -> None:
    for words, answer in WRONG:
        code, _, err = run(*words)
        assert code == 2, words
        assert answer in err, words
        assert len(err.strip().splitlines()) == 1, err


def test_a_person_of_one_namespace_sees_that_one(
    run: Run, weir: Weir, teams: Cluster, plane: ControlPlane
) -> None:
    rbac = "rbac.authorization.k8s.io"
    ref = {"apiGroup": rbac, "kind": "ClusterRole", "name": "weir-view"}
    who = [{"apiGroup": rbac, "kind": "User", "name": "ann"}]
    metadata = {"name": "ann", "namespace": "team-a"}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": ref,
        "subjects": who,
    }
    teams.api.apply(binding)
    wait_for_rights(teams.api)
    ann = plane.kubeconfig_for("ann")
    within = json.loads(ann.read_text())
    within["contexts"][0]["context"]["namespace"] = "team-a"
    ann.write_text(json.dumps(within))
    for team, name in (("team-a", "a"), ("team-a", "large"), ("team-b", "b")):
        teams.api.create(job(team, name, 8 if name == "large" else 1))
    try:
        teams.until(is_now(teams, run, "team-b/job-b", "running"))
    except AssertionError:
        print(weir.log_text(), plane.kubectl("get", "wl,pods,jobs,events", "-A"))
        raise
    teams.until(lambda: why_of(run, "team-a/job-large") == "no_node_matches", "why the large one waits")
    teams.until(lambda: pending_of(run, "team-a", "team-a/large") == [1, 1, 1], "all to count it")
    code, out, _ = run("list", kubeconfig=ann)
    assert code == 0
    assert "team-a/job-large" in out
    assert "team-b" not in out
    code, _, err = run("nodes", kubeconfig=ann)
    assert (code, "may not read" in err) == (2, True)
    code, out, _ = run("why", "large", kubeconfig=ann)
    found = re.search("team-a/job-large (waits|is the only pending workload) in team-a", out)
    assert (code, found is not None, "team-b" in out) == (0, True, False), out
    assert run("describe", "large", kubeconfig=ann)[0] == run("events", "large", kubeconfig=ann)[0] == 0
    code, _, err = run("why", "team-b/job-b", kubeconfig=ann)
    assert (code, "may not read" in err) == (2, True)


def test_settings_in_the_cluster_are_those_that_the_command_line_answers_by(
    run: Run, cluster: Cluster, home: str
) -> None:
    """Slices with a weight, and pods queued under a project that lists no namespace of theirs."""
    slices = "nvidia.com/mig-1g.10gb"
    spec = {
        "deviceResources": [{"resource": "nvidia.com/gpu"}, {"resource": slices, "gpuWeight": "1/7"}],
        "withoutProject": {"action": "queue", "project": "shared"},
    }
    config = {"apiVersion": "weir.dev/v1alpha1", "kind": "SchedulerConfig", "metadata": {"name": "weir"}}
    cluster.add_nodes(1, gpus=0, resources={slices: "9"})
    within = cluster.namespace()
    cluster.api.create(project("shared", 1, ["nobody"], limit={"gpu": 1}))
    with answering(cluster, home, "weighted") as weir:
        cluster.until(lambda: list(weir.lines("leading")), "it to lead")
        cluster.api.create({**config, "spec": spec})
        cluster.until(lambda: len(list(weir.lines("started"))) == 2, "another instance by these settings")
        for at in range(8):
            one = pod(within, f"slice-{at}", 0)
            one["spec"]["containers"][0]["resources"]["limits"][slices] = "1"
            cluster.api.create(one)
        cluster.until(lambda: len(cluster.running(within)) == 7, "as many sevenths as the limit covers")
        status = "/apis/weir.dev/v1alpha1/projects/shared"
        cluster.until(
            lambda: (cluster.api.get(status).get("status") or {}).get("allocated", {}).get("gpu") == "0.994",
            "the project to hold seven sevenths",
        )
        waits = cluster.until(
            lambda: next((name for name, row in listed(run).items() if row["status"] == "pending"), ""),
            "the eighth to wait",
        )
        cluster.until(lambda: "limit" in run("why", waits)[1], "the limit as its reason")
        code, out, said = run("nodes", "-o", "json")
        assert code == 0, said
        (row,) = json.loads(out)
        assert sum(device["allocated"] for device in row["devices"]) == 7.0
        replayed = run("snapshot")[1]
        assert "gpu_weight: 142m" in replayed
        assert "project: shared" in replayed

        patched = {"spec": {"overcommitGrace": "1m", "sharedNodes": {"max": 2}}}
        cluster.api.patch("/apis/weir.dev/v1alpha1/schedulerconfigs/weir", patched)
        cluster.until(lambda: len(list(weir.lines("settings_changed"))) == 2, "a live change")
        assert len(list(weir.lines("started"))) == 2, "no other instance is needed for these"


def test_advice_is_possible_on_this_cluster_and_in_its_words(
    run: Run, cluster: Cluster, plane: ControlPlane, home: str
) -> None:
    with answering(cluster, home, "advises"):
        _advise(run, cluster, plane)


def _advise(run: Run, cluster: Cluster, plane: ControlPlane) -> None:
    def why(name: str) -> str:
        code, out, _ = run("why", name)
        assert code == 0
        return " ".join(out.split())

    cluster.add_nodes(1, gpus=8)
    team = Namespace(cluster, plane, 8)
    urgent = f"urgent-{team.name}"
    cluster.api.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": urgent},
            "value": 90,
        }
    )
    team.submit("full", 4)
    team.runs("full")
    team.submit("late", 8)
    team.wait_with("late", "OverQuota")
    answer = why(f"{team.name}/late")
    assert "With 4 GPUs instead of 8 it starts now." in answer
    again = "its pods can't be changed: delete the Job and make it again with"
    assert f"{again} nvidia.com/gpu: 4 in the limits of its containers" in answer
    assert f"{again} priorityClassName: {urgent}" in answer
    assert "weir submit" not in answer
    cluster.api.create(pod(team.name, "gated", 1, schedulingGates=[{"name": "example.com/data"}]))
    team.wait_with("gated", "SchedulingGated")
    answer = why(f"{team.name}/pod-gated")
    assert "scheduling gate example.com/data" in answer
    assert "weir resume" not in answer
    assert "What would let it start" not in answer
    node = cluster.running(team.name).popitem()[1]
    cluster.api.create(pod(team.name, "theirs", 1, scheduler="another", nodeName=node))
    theirs = "its pods name the scheduler another, and 1 of 1 run"
    cluster.until(
        lambda: theirs in " ".join(run("why", f"{team.name}/theirs")[1].split()),
        lambda: f"the pod of another scheduler to be known: {run('why', f'{team.name}/theirs')}",
    )
    assert "theirs isn't scheduled by Weir." in why(f"{team.name}/theirs")
