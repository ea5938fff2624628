"""Schedules and templates on a cluster, with the commands of a pool."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.command_line import Run, answering, is_now, listed, runner
from tests.kubernetes.test_installed import enforce_policies, installed_without_policies
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project

TEMPLATE = """\
parameters:
  - name: lr
    meaning: Learning rate
  - name: gpus
    default: 1
gpus: ${{ gpus }}
image: busybox
command: sleep ${{ lr }}
env:
  LR: ${{ lr }}
"""


@pytest.fixture
def run(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(plane, monkeypatch, capsys)


@pytest.fixture
def home(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the namespace of Weir, beside two teams with a node."""
    found = installed_without_policies(cluster)
    monkeypatch.setenv("WEIR_NAMESPACE", found)
    cluster.add_nodes(1, gpus=4)
    for name in ("team-a", "team-b"):
        cluster.namespace(name)
        cluster.api.create(project(name, 2))
    return found


def cron_jobs(cluster: Cluster, namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/cronjobs"


def schedules(run: Run) -> dict[str, Any]:
    code, out, err = run("schedule", "list", "-o", "json")
    assert code == 0, err
    return {row["name"]: row for row in json.loads(out)}


def test_the_runs_of_a_schedule_are_the_jobs_of_submissions(run: Run, cluster: Cluster, home: str) -> None:
    enforce_policies(cluster, home)
    options = ["-p", "team-a", "--gpus", "1", "--image", "busybox", "--env", "A=b", "--max-runtime", "2h"]
    with answering(cluster, home):
        words = ["--cron", "* * * * *", "--zone", "Europe/Zurich", "--concurrency", "forbid"]
        code, out, err = run("schedule", "add", "--name", "often", *words, *options, "--", "sleep", "3600")
        assert (code, "team-a/often runs at * * * * * (Europe/Zurich), next at" in out) == (0, True), err
        assert run("submit", "--name", "one", *options, "--", "sleep", "3600")[0] == 0

        made = cluster.api.get(f"{cron_jobs(cluster, 'team-a')}/often")
        assert made["spec"]["concurrencyPolicy"] == "Forbid"
        assert made["spec"]["timeZone"] == "Europe/Zurich"
        jobs = "/apis/batch/v1/namespaces/team-a/jobs"
        cluster.until(lambda: len(cluster.api.items(jobs)) == 2, "its first run")
        runs = {each["metadata"]["name"]: each for each in cluster.api.items(jobs)}
        one = runs.pop("one")
        (name,) = runs
        assert _wanted(runs[name]) == _wanted(one)
        assert runs[name]["metadata"]["annotations"]["weir.dev/user"] == "admin", "no webhook names its maker"
        cluster.until(is_now(cluster, run, f"team-a/job-{name}", "running"), "the run to run")
        assert listed(run)[f"team-a/job-{name}"]["project"] == "team-a"
        cluster.until(lambda: schedules(run)["team-a/often"]["last"], "its controller to tell of the run")
        row = schedules(run)["team-a/often"]
        assert (row["active"], row["last"]) == ([f"team-a/job-{name}"], f"team-a/job-{name}")
        assert row["next_s"] > row["last_s"]

        assert run("schedule", "suspend", "often")[0] == 0
        row = schedules(run)["team-a/often"]
        assert (row["suspended"], row["next_s"]) == (True, None)
        code, out, _ = run("schedule", "list")
        assert (code, "suspended" in out) == (0, True)
        assert run("schedule", "delete", "team-a/often")[0] == 0
        assert not schedules(run)
        cluster.until(lambda: not cluster.api.items(cron_jobs(cluster, "team-a")), "it to be gone")
        assert {each["metadata"]["name"] for each in cluster.api.items(jobs)} == {"one", name}
        assert run("stop", name)[0] == 0


def _wanted(job: dict[str, Any]) -> Any:
    """Return a Job without the parts by which any two differ."""
    metadata, spec = dict(job["metadata"]), json.loads(json.dumps(job["spec"]))
    del spec["selector"]
    for labels in (spec["template"]["metadata"]["labels"], metadata["labels"]):
        for key in [
            key for key in labels if "batch.kubernetes.io" in key or key in ("controller-uid", "job-name")
        ]:
            del labels[key]
    written = metadata["annotations"].items()
    notes = {key: value for key, value in written if "weir.dev" in key and key != "weir.dev/user"}
    return metadata["labels"], notes, spec


def test_a_schedule_is_changed_and_resumed(run: Run, cluster: Cluster, home: str) -> None:
    base = ["-p", "team-a", "--image", "busybox"]
    assert run("schedule", "add", "--name", "nightly", "--cron", "0 2 * * *", *base, "--", "old")[0] == 0
    path = f"{cron_jobs(cluster, 'team-a')}/nightly"
    cluster.api.patch(path, {"metadata": {"annotations": {"example.com/kept": "yes"}}})
    words = ["--cron", "@monthly", "--concurrency", "replace", *base]
    assert run("schedule", "add", "--name", "nightly", *words, "--", "new")[0] == 0
    changed = cluster.api.get(path)
    assert changed["metadata"]["annotations"]["example.com/kept"] == "yes"
    assert (changed["spec"]["schedule"], changed["spec"]["concurrencyPolicy"]) == ("0 0 1 * *", "Replace")
    assert schedules(run)["team-a/nightly"]["command"] == ["new"]

    assert run("schedule", "suspend", "nightly")[0] == 0
    code, out, _ = run("schedule", "resume", "nightly")
    assert (code, "was missed" in out) == (0, False)
    assert not schedules(run)["team-a/nightly"]["suspended"]

    code, out, err = run("schedule", "run", "nightly")
    assert code == 0, err
    namespace, _, name = out.strip().partition("/job-")
    job = cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["new"]
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("CronJob", changed["metadata"]["uid"])

    copied = {key: changed[key] for key in ("apiVersion", "kind", "spec")}
    copied["spec"] = {**changed["spec"], "schedule": "@every 90m"}
    labels = {"weir.dev/project": "team-b"}
    theirs = {"name": "nightly", "namespace": "team-b", "labels": labels}
    cluster.api.create({**copied, "metadata": theirs})
    row = schedules(run)["team-b/nightly"]
    assert (row["next_s"], "can't be read here: cron: '@every 90m'" in row["said"]) == (None, True)
    assert schedules(run)["team-a/nightly"]["next_s"]
    code, _, err = run("schedule", "suspend", "nightly")
    assert (code, "write one of team-a/nightly, team-b/nightly" in err) == (2, True)
    cluster.api.create({**copied, "metadata": {"name": "other", "namespace": "team-a"}})
    code, _, err = run("schedule", "add", "--name", "other", *words, "--", "new")
    assert (code, "a CronJob other in team-a that is no schedule" in err) == (2, True)


UNUSABLE = [
    (["--name", "x", "--cron", "70 * * * *"], "cron: '70 * * * *' can't be read"),
    (["--name", "x", "--cron", "@daily", "--zone", "Mars"], "zone: 'Mars' is no time zone here"),
    (["--name", "A_b", "--cron", "@daily"], "name: 'A_b' is no name of a CronJob"),
    (["--name", "x" * 53, "--cron", "@daily"], "small letters, digits and dashes, at most 52"),
    (["--name", "x", "--cron", "@daily", "--priority", "3"], "--priority: no PriorityClass has the value 3"),
    (["--name", "x", "--cron", "@daily", "-n", "team-b"], "project team-a isn't open to team-b"),
    (["--name", "x", "--cron", "@daily", "--template", "none"], "Project team-a has no template none"),
]


def test_unusable_schedules_are_refused(run: Run, cluster: Cluster, home: str) -> None:
    for words, sentence in UNUSABLE:
        code, _, err = run("schedule", "add", "-p", "team-a", "--image", "x", *words, "--", "true")
        assert (code, sentence in err) == (2, True), (words, err)
        assert not cluster.api.items(cron_jobs(cluster, "team-a")), words


def test_templates_are_saved_used_and_removed(run: Run, cluster: Cluster, home: str, tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(TEMPLATE)
    code, out, err = run("template", "save", "train", "-p", "team-a", "-f", str(file))
    assert (code, out) == (0, "Template train of project team-a is saved.\n"), err
    file.write_text(TEMPLATE.replace("default: 1", "default: 2"))
    assert run("template", "save", "train", "-p", "team-a", "-f", str(file))[0] == 0
    code, out, _ = run("template", "list", "-p", "team-a")
    assert "train  lr gpus=2" in out
    shown = run("template", "show", "train", "-p", "team-a")[1]
    file.write_text(shown)
    assert run("template", "save", "copy", "-p", "team-a", "-f", str(file))[0] == 0, "as it was shown"
    assert json.loads(run("template", "list", "-p", "team-b", "-o", "json")[1]) == []

    words = ["-p", "team-a", "--template", "train", "--set", "lr=0.1"]
    code, out, err = run("submit", *words, "--name", "first", "-o", "json")
    assert (code, json.loads(out)["name"]) == (0, "team-a/job-first"), err
    pod = cluster.api.get("/apis/batch/v1/namespaces/team-a/jobs/first")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["sleep", "0.1"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    code, _, err = run("schedule", "add", "--name", "nightly", "--cron", "@daily", *words, "--gpus", "1")
    assert code == 0, err
    template = cluster.api.get(f"{cron_jobs(cluster, 'team-a')}/nightly")["spec"]["jobTemplate"]
    (container,) = template["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "LR", "value": "0.1"}]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}, "an option overrides the template"
    code, _, err = run("submit", *words, "--set", "no=1")
    assert (code, "--set no: the template has no such parameter" in err) == (2, True), err
    assert run("template", "delete", "train", "-p", "team-a")[0] == 0
    code, _, err = run("template", "show", "train", "-p", "team-a")
    assert (code, "Project team-a has no template train" in err) == (2, True)


def test_an_unusable_template_is_contained_and_named(
    run: Run, cluster: Cluster, home: str, tmp_path: Path
) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(TEMPLATE)
    assert run("template", "save", "good", "-p", "team-a", "-f", str(file))[0] == 0
    for text, sentence in (
        (TEMPLATE.replace("${{ lr }}", "${{ rl }}"), "there is no parameter rl; write one of lr, gpus"),
        (TEMPLATE.replace("image: busybox", "imag: busybox"), "imag"),
        (
            TEMPLATE.replace("image: busybox", "image: busybox\npriority: 3"),
            "no PriorityClass has the value 3",
        ),
        (
            TEMPLATE.replace("image: busybox", "image: busybox\nproject: team-b"),
            "workload.project: is another one",
        ),
    ):
        file.write_text(text)
        code, _, err = run("template", "save", "bad", "-p", "team-a", "-f", str(file))
        assert (code, sentence in err) == (2, True), err
    maps = "/api/v1/namespaces/team-a/configmaps"
    for name, data in (
        ("empty", {}),
        ("bad", {"template.yaml": "parameters: 7\ncommand: x\n"}),
        ("worse", {"template.yaml": "a: [\n"}),
    ):
        labels = {"weir.dev/project": "team-a", "weir.dev/template": name}
        metadata = {"name": f"weir-template.team-a.{name}", "namespace": "team-a", "labels": labels}
        cluster.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    code, out, err = run("template", "list", "-p", "team-a", "-o", "json")
    problems = {row["name"]: row["problem"] for row in json.loads(out)}
    assert problems["good"] == "", problems
    assert "weir-template.team-a.empty of team-a has no template.yaml" in problems["empty"]
    assert "line 1: parameters" in problems["bad"]
    assert "line 1" in problems["worse"]
    code, out, _ = run("template", "list", "-p", "team-a")
    assert "has no template.yaml" in " ".join(out.split()), "a narrow terminal wraps it"
    code, _, err = run("submit", "-p", "team-a", "--template", "bad")
    assert (code, "Template bad of project team-a can't be used: the ConfigMap" in err) == (2, True), err
    assert len(cluster.api.items(maps)) >= 4
    assert run("submit", "-p", "team-a", "--template", "good", "--set", "lr=1", "-o", "json")[0] == 0


def test_the_rights_on_config_maps_and_cron_jobs_decide(
    run: Run, cluster: Cluster, plane: ControlPlane, home: str, tmp_path: Path
) -> None:
    rbac = "rbac.authorization.k8s.io"
    for role in ("view", "edit"):
        who = [{"apiGroup": rbac, "kind": "User", "name": role}]
        ref = {"apiGroup": rbac, "kind": "ClusterRole", "name": role}
        metadata = {"name": role, "namespace": "team-a"}
        kind = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding"}
        cluster.api.apply({**kind, "metadata": metadata, "roleRef": ref, "subjects": who})
    reads = [{"apiGroups": ["weir.dev"], "resources": ["projects"], "verbs": ["get", "list"]}]
    reads.append({"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["list"]})
    kind = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "reads-projects"}}
    cluster.api.apply({**kind, "rules": reads})
    ref = {"apiGroup": rbac, "kind": "ClusterRole", "name": "reads-projects"}
    who = [{"apiGroup": rbac, "kind": "User", "name": role} for role in ("view", "edit")]
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reads-projects"},
    }
    cluster.api.apply({**binding, "roleRef": ref, "subjects": who})
    wait_for_rights(cluster.api)
    file = tmp_path / "train.yaml"
    file.write_text(TEMPLATE)
    save = ["template", "save", "train", "-p", "team-a", "-f", str(file)]
    add = ["schedule", "add", "--name", "n", "--cron", "@daily", "-p", "team-a", "--image", "x", "--", "true"]
    viewer, editor = plane.kubeconfig_for("view"), plane.kubeconfig_for("edit")
    for kubeconfig in (viewer, editor):
        config = json.loads(kubeconfig.read_text())
        config["contexts"][0]["context"]["namespace"] = "team-a"
        kubeconfig.write_text(json.dumps(config))
    for words in (save, add):
        code, _, err = run(*words, kubeconfig=viewer)
        assert (code, "cannot create resource" in err) == (2, True), err
        code, _, err = run(*words, kubeconfig=editor)
        assert code == 0, err
    own = ["schedule", "add", "--name", "own", "--cron", "@daily", "--image", "x", "--", "true"]
    code, _, err = run(*own, kubeconfig=viewer)
    assert (code, "you may submit to none" in err) == (2, True), err
    code, _, err = run(*own, kubeconfig=editor)
    assert (code, "Project team-a is taken" in err) == (0, True), err
    for words in (("schedule", "list"), ("template", "list", "-p", "team-a")):
        code, out, err = run(*words, kubeconfig=viewer)
        assert (code, bool(out)) == (0, True), err
    code, _, err = run("template", "list", "-p", "team-b", kubeconfig=viewer)
    assert (code, "cannot list resource" in err) == (2, True), err
