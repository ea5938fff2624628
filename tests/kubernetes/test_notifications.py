"""Notifications of a cluster: a person's rule, a receiver that hangs, and a leader that is killed meanwhile."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.command_line import Run, runner
from tests.kubernetes.test_installed import bound, installed_without_policies
from tests.unit.local.server.receivers import Receivers, receivers
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.plane import ControlPlane
from tools.controlplane.proxy import FaultProxy, Faults
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import job

RBAC = "rbac.authorization.k8s.io"
RULES = "/apis/weir.dev/v1alpha1/namespaces/team-a/notificationrules"
WORKLOADS = "/apis/weir.dev/v1alpha1/namespaces/team-a/workloads"
SECRET = "/api/v1/namespaces/team-a/secrets/weir-notifications"


@pytest.fixture
def run(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(plane, monkeypatch, capsys)


@pytest.fixture
def receiver() -> Iterator[Receivers]:
    with receivers() as serving:
        yield serving


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane, receiver: Receivers, tmp_path: Path) -> Iterator[Weir]:
    """Run Weir with its own rights alone, and with an administrator's allowance for the receiver."""
    home = installed_without_policies(cluster)
    cluster.add_nodes(1, gpus=2)
    cluster.namespace("team-a")
    cluster.api.create(project("team-a", 2))
    settings = tmp_path / "notifications.yaml"
    settings.write_text(
        json.dumps({"webhooks": {"hosts": [receiver.origin]}, "limits": {"retry_first": "1s"}})
    )
    account = plane.kubeconfig_of(home, "weir")
    words = ["--namespace", home, "--notifications", str(settings)]
    with Weir(plane, account, name="notify", arguments=words) as running:
        running.home_namespace = home  # type: ignore[attr-defined]
        yield running
        assert "forbidden" not in running.log_text().lower()
        assert "Traceback" not in running.log_text()


def within(role: str, kind: str, name: str) -> dict[str, Any]:
    """Return a binding of a cluster role in the team's namespace."""
    namespace, _, bare = name.rpartition("/")
    subject = {"kind": kind, "name": bare, **({"namespace": namespace} if namespace else {"apiGroup": RBAC})}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{role}-{bare}", "namespace": "team-a"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def status(cluster: Cluster) -> dict[str, Any]:
    (rule,) = cluster.api.items(RULES)
    found: dict[str, Any] = rule.get("status", {})
    return found


def test_a_rule_sends_each_event_once_although_the_leader_is_killed(
    run: Run, cluster: Cluster, plane: ControlPlane, weir: Weir, receiver: Receivers, tmp_path: Path
) -> None:
    home = weir.home_namespace  # type: ignore[attr-defined]
    cluster.api.apply(
        bound("weir-view", "mia"), *(within(role, "User", "mia") for role in ("edit", "weir-edit"))
    )
    wait_for_rights(cluster.api)
    mia, eve = plane.kubeconfig_for("mia"), plane.kubeconfig_for("eve")
    url = tmp_path / "url"
    url.write_text(f"{receiver.origin}/hanging?token=s3cret\n")
    add = ("notify", "add", "webhook", "--on", "start", "--on", "end", "-p", "team-a", "--file", str(url))
    code, _, err = run(*add, kubeconfig=eve)
    assert (code, cluster.api.items(RULES), cluster.api.maybe(SECRET)) == (2, [], None), err
    cluster.until(lambda: any(weir.lines("leading")), "a leader")
    code, out, err = run(*add, kubeconfig=mia)
    assert code == 0, err
    name = out.partition(":")[0].removeprefix("Notification ")
    command = f"kubectl create rolebinding weir-notifications -n team-a --clusterrole=weir-notifications --serviceaccount={home}:weir"
    assert command in " ".join(err.split()), "Weir may not read the Secret, and says how it could"
    plane.kubectl(*command.split()[1:])
    cluster.until(lambda: status(cluster).get("phase") == "Ready", lambda: f"readiness; {status(cluster)}")

    rule = f"notificationrules.weir.dev/{name.removeprefix('team-a/')}"
    forged = ("--subresource=status", "--type=merge", "-p", '{"status":{"told":[]}}')
    for person in (mia, eve):
        with pytest.raises(RuntimeError, match="forbidden"):
            plane.kubectl("patch", rule, "-n", "team-a", *forged, kubeconfig=person)
    for read in ("notificationrules.weir.dev", "secrets"):
        with pytest.raises(RuntimeError, match="forbidden"):
            plane.kubectl("get", read, "-n", "team-a", kubeconfig=eve)

    cluster.api.create(job("team-a", "train", 1))
    cluster.until(lambda: receiver.attempts["/hanging?token=s3cret"], "an attempt")
    (message,) = status(cluster)["messages"]
    weir.kill()
    receiver.released.set()
    weir.start()
    (started,) = receiver.until(1, "/hanging?token=s3cret")
    assert started.key == message["key"], "all attempts are the same message"
    assert [each["topic"] for each in started.told] == ["start"]
    assert started.told[0]["workload"] == "team-a/job-train"
    cluster.until(lambda: status(cluster).get("deliveries"), "the record of the delivery")

    code, out, err = run("notify", "test", name, kubeconfig=mia)
    assert (code, out) == (0, "Delivered: the receiver answered 204.\n"), err
    cluster.api.delete("/apis/batch/v1/namespaces/team-a/jobs/train?propagationPolicy=Background")
    receiver.until(3, "/hanging?token=s3cret")
    topics = [each["topic"] for received in receiver.confirmed for each in received.told]
    assert topics == ["start", "test", "end"]
    cluster.until(lambda: len(status(cluster)["deliveries"]) == 2, "the second record")

    code, out, _ = run("notify", "list", "-o", "json", kubeconfig=mia)
    (row,) = json.loads(out)
    assert (row["name"], row["target"], row["pending"]) == (name, f"{receiver.origin}/…", 0)
    code, out, _ = run("notify", "deliveries", "-o", "json", kubeconfig=mia)
    assert [each["state"] for each in json.loads(out)] == ["delivered", "delivered"]
    assert "s3cret" not in out + json.dumps(cluster.api.items(RULES)) + weir.log_text()
    for words in (("notify", "test", name), ("notify", "delete", name)):
        code, _, err = run(*words, kubeconfig=eve)
        assert code == 2, err
    assert len(receiver.confirmed) == 3, "a person without rights sends no test"
    code, _, err = run("notify", "delete", name, kubeconfig=mia)
    assert (code, cluster.api.items(RULES)) == (0, []), err
    assert not cluster.api.get(SECRET).get("data")


def test_a_crash_loses_no_event_that_a_later_one_has_overwritten(
    cluster: Cluster, plane: ControlPlane, proxy: FaultProxy, tmp_path: Path
) -> None:
    """The status of the rule can't be written at all until Weir is killed: the workload says what happened."""
    installed_without_policies(cluster)
    cluster.add_nodes(1, gpus=2)
    for team, gpus in (("team-a", 0), ("team-b", 2)):
        cluster.namespace(team)
        cluster.api.create(project(team, gpus))
    spec = {"channel": "slack", "topics": ["start", "eviction", "quota"], "urlKey": "chat", "digest": "1h"}
    name = {"name": "chat", "namespace": "team-a"}
    cluster.api.create(
        {"apiVersion": "weir.dev/v1alpha1", "kind": "NotificationRule", "metadata": name, "spec": spec}
    )
    settings = tmp_path / "notifications.yaml"
    settings.write_text(json.dumps({"webhooks": {"hosts": ["hooks.lab.example"]}}))
    proxy.faults = Faults(conflict=1.0, where=lambda asked: "/notificationrules/" in asked.path)
    words = ["--notifications", str(settings)]
    with Weir(plane, proxy.kubeconfig, name="overwritten", arguments=words) as weir:
        cluster.api.create(job("team-a", "borrower", 2, grace_s=0))
        evictions: set[str] = set()
        for turn in ("first", "second"):
            cluster.until(lambda: borrower(cluster).get("phase") == "Running", "the borrowed work to run")
            of_owner = f"/apis/batch/v1/namespaces/team-b/jobs/{turn}?propagationPolicy=Background"
            cluster.api.create(job("team-b", turn, 2, grace_s=0))
            cluster.until(lambda: last_eviction(cluster) not in {"", *evictions}, "the eviction")
            evictions.add(last_eviction(cluster))
            if turn == "first":
                cluster.until(lambda: cluster.running("team-b"), "the owner to run")
                cluster.api.delete(of_owner)
        assert not status(cluster).get("told"), "no status of the rule was written"
        weir.kill()
        proxy.forget()
        proxy.calm()
        for _ in range(2):
            weir.start()
            cluster.until(
                lambda: len(status(cluster).get("queued", [])) >= 4,
                lambda: f"the events; {status(cluster)}; {cluster.api.items(WORKLOADS)}",
            )
            cluster.until(lambda: status(cluster).get("phase") == "Refused", "the check of the rule")
            weir.kill()
    topics = [each["topic"] for each in status(cluster)["queued"]]
    assert sorted(topics) == ["eviction", "eviction", "start", "start"]
    assert {each["workload"] for each in status(cluster)["queued"]} == {"team-a/job-borrower"}
    of_owner = "/apis/weir.dev/v1alpha1/namespaces/team-b/workloads"
    cluster.until(lambda: len(cluster.api.items(of_owner)) == 1, "the workload of the first owner to be gone")
    (other,) = cluster.api.items(of_owner)
    assert "pastEvents" not in other["status"], "there is no rule in its namespace"


def last_eviction(cluster: Cluster) -> str:
    """Return the time of the eviction that the workload of team-a states."""
    return str((borrower(cluster).get("lastEviction") or {}).get("at", ""))


def borrower(cluster: Cluster) -> dict[str, Any]:
    """Return the status of the workload of team-a."""
    statuses = [each.get("status") or {} for each in cluster.api.items(WORKLOADS)]
    return statuses[0] if statuses else {}
