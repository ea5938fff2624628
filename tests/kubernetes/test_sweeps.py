"""Sweeps of a cluster: trials are Jobs, whose results come in termination messages."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.command_line import Run, answering, listed, runner
from tests.kubernetes.dashboard_site import DashboardProcess, picture
from tests.kubernetes.sweep_site import TrialRunner
from tests.kubernetes.test_dashboard import browser, opened
from tests.kubernetes.test_installed import bound, enforce_policies, installed_without_policies
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import job

__all__ = ["browser"]
SWEEP = [
    *("sweep", "-p", "team-a", "--gpus", "1", "--image", "train", "--name", "digits", "--no-arguments"),
    *("--param", "lr=log:1e-3..1", "--trials", "9", "--rungs", "1,3,9", "--eta", "3"),
]
PATH = "/apis/weir.dev/v1alpha1/namespaces/team-a/sweeps/digits"
JOBS = "/apis/batch/v1/namespaces/team-a/jobs"
RUNGS = (1, 3, 9)


@pytest.fixture
def run(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(plane, monkeypatch, capsys)


@pytest.fixture
def home(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the namespace of Weir, beside a team with a claim and a node of more GPUs than its quota."""
    found = installed_without_policies(cluster)
    monkeypatch.setenv("WEIR_NAMESPACE", found)
    cluster.add_nodes(1, gpus=3)
    cluster.namespace("team-a")
    cluster.api.create(project("team-a", 1))
    storage = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "checkpoints", "namespace": "team-a"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "checkpoints"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "",
            "hostPath": {"path": "/none"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
    cluster.api.create(volume)
    cluster.api.create({**claim, "spec": {**storage, "volumeName": "checkpoints", "storageClassName": ""}})
    return found


@pytest.fixture
def allowed(cluster: Cluster, home: str) -> str:
    """Let Weir make Jobs in the team's namespace."""
    rbac = "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "name": "weir", "namespace": home}
    ref = {"apiGroup": rbac, "kind": "ClusterRole", "name": "weir-sweeps"}
    metadata = {"name": "weir-sweeps", "namespace": "team-a"}
    kind = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": metadata}
    cluster.api.apply({**kind, "roleRef": ref, "subjects": [account]})
    wait_for_rights(cluster.api)
    return home


@pytest.fixture
def weir(cluster: Cluster, home: str) -> Iterator[Weir]:
    with answering(cluster, home, "sweeps") as running:
        yield running


@pytest.fixture
def trainer(cluster: Cluster, tmp_path: Path) -> Iterator[TrialRunner]:
    with TrialRunner(cluster, "team-a", tmp_path) as running:
        yield running


def begin(run: Run, *options: str, way: str = "asks", claim: bool = True) -> None:
    claims = ["--checkpoint-claim", "checkpoints"] if claim else []
    words = ["--seed", "7", "--sampler", "random", *claims, *options]
    code, out, err = run(*SWEEP, *words, "--", "python", "train.py", "9", way)
    assert (code, out) == (0, "team-a/digits\n"), err


def shown(run: Run) -> dict[str, Any]:
    code, out, err = run("sweep", "show", "digits", "-o", "json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def is_over(cluster: Cluster) -> Callable[[], bool]:
    return lambda: cluster.api.get(PATH).get("status", {}).get("phase") in ("Finished", "Stopped", "Failed")


def legal(rows: list[dict[str, Any]]) -> bool:
    """Return True if each promotion was of one of the best third of the trials that had reached the rung."""
    for rung in RUNGS[:-1]:
        at = [result for row in rows for result in row["results"] if result["rung"] == rung]
        for each in at:
            if each["promoted_among"] is not None and each["promoted_among"] >= 3:
                better = sum(other["value"] < each["value"] for other in at)
                if better >= len(at) // 3 + len(at) - each["promoted_among"]:
                    return False
    return True


def table(detail: dict[str, Any]) -> dict[int, dict[int, float]]:
    return {
        row["number"]: {result["rung"]: result["value"] for result in row["results"]}
        for row in detail["trial_rows"]
    }


def check_finished(detail: dict[str, Any], trainer: TrialRunner) -> None:
    """Check the whole table by the script's own loss, and that no step was trained twice."""
    assert detail["state"] == "finished", detail["sentence"]
    rows = detail["trial_rows"]
    assert len(rows) == 9
    assert legal(rows)
    complete = [row for row in rows if len(row["results"]) == 3]
    assert complete, "a trial was trained to the end"
    for row in rows:
        assert row["results"], "each has reached the first rung"
        for result in row["results"]:
            assert result["value"] == pytest.approx(abs(row["params"]["lr"] - 0.3) + 1 / result["rung"])
        last = row["results"][-1]["rung"]
        assert trainer.steps(row["number"]) == list(range(1, last + 1)), "no step twice"
    assert set(trainer.runs.values()) == {1}, "no Job ran twice"


def test_a_sweep_runs_to_its_end(
    run: Run, cluster: Cluster, allowed: str, weir: Weir, trainer: TrialRunner
) -> None:
    enforce_policies(cluster, allowed)
    begin(run)
    cluster.until(is_over(cluster), lambda: f"its end; {cluster.api.get(PATH).get('status')}")
    detail = shown(run)
    check_finished(detail, trainer)
    jobs = {each["metadata"]["name"]: each for each in cluster.api.items(JOBS)}
    assert len(jobs) == sum(len(row["results"]) for row in detail["trial_rows"])
    first = jobs["digits-0-0"]
    assert first["metadata"]["labels"]["weir.dev/project"] == "team-a"
    row = next(row for row in detail["trial_rows"] if row["number"] == detail["best_trial"])
    code, out, _ = run("sweep", "best", "digits")
    assert (code, "python train.py 9 asks" in " ".join(out.split())) == (0, True)
    assert f"{row['params']['lr']:.4f}"[:5] in out
    assert f"/{row['number']} of the PersistentVolumeClaim checkpoints" in " ".join(out.split())
    code, out, _ = run("sweep", "list")
    assert (code, "team-a/digits" in out, "finished" in out) == (0, True, True)
    code, _, err = run("sweep", "stop", "digits")
    assert (code, "is over already" in err) == (2, True)
    code, _, err = run("sweep", "delete", "digits", "--checkpoints", "--yes")
    assert (code, "they are files of the PersistentVolumeClaim checkpoints" in err) == (2, True)
    code, out, _ = run("sweep", "delete", "digits")
    assert (code, "The checkpoints of 9 trials stay in their PersistentVolumeClaim." in out) == (0, True)
    cluster.until(lambda: not cluster.api.items(JOBS), "its Jobs to go with it")


def test_page_shows_a_sweep_and_stops_it(
    run: Run,
    cluster: Cluster,
    plane: ControlPlane,
    allowed: str,
    weir: Weir,
    trainer: TrialRunner,
    request: pytest.FixtureRequest,
) -> None:
    cluster.api.apply(bound("weir-view", "eve"))
    many = ["1000" if word == "9" else word for word in SWEEP]
    words = ["--seed", "7", "--sampler", "random", "--checkpoint-claim", "checkpoints"]
    code, _, err = run(*many, *words, "--", "python", "train.py", "9", "asks")
    assert code == 0, err
    trained = lambda: len(cluster.api.get(PATH).get("status", {}).get("trials", [])) > 9  # noqa: E731
    cluster.until(trained, "some trials")
    browser = request.getfixturevalue("browser")  # it has an event loop of its own, as the command line has
    wrong: list[str] = []
    with DashboardProcess(plane.kubeconfig_for("eve")) as served:
        page = opened(browser, served, wrong)
        page.goto(f"{served.url}/#/sweeps/team-a%2Fdigits")
        page.get_by_text("Your rights don't let you stop it.").wait_for()
        assert page.get_by_role("button", name="Stop the sweep").count() == 0
        picture(page, "sweep-of-a-viewer")
    with DashboardProcess(plane.kubeconfig) as served:
        page = opened(browser, served, wrong)
        page.get_by_role("link", name="Sweeps").click()
        row = page.locator("tbody tr").filter(has_text="team-a/digits")
        row.filter(has_text="of 1,000").wait_for()
        row.get_by_role("link").click()
        page.get_by_role("heading", name="Learning curves").wait_for()
        page.get_by_role("img", name="Parallel coordinates").wait_for()
        picture(page, "sweep")
        page.get_by_role("button", name="Stop the sweep").click()
        page.locator("strong", has_text="stopped").wait_for()
        best = page.locator("tbody tr").filter(has_text="team-a/job-digits").first
        name = best.get_by_role("link").inner_text()
        best.get_by_role("link").click()
        page.get_by_role("heading", name=name).wait_for()
        picture(page, "trial")
    assert not wrong
    cluster.until(is_over(cluster), "its end")
    assert cluster.api.get(PATH)["spec"]["stop"] is True


def test_weir_is_killed_again_and_again(
    run: Run, cluster: Cluster, allowed: str, weir: Weir, trainer: TrialRunner
) -> None:
    """The results decide the parameters and the promotions, so the table is that of an undisturbed sweep."""
    begin(run, "--parallel", "1")
    kills = 0
    while not is_over(cluster)() and kills < 5:
        weir.kill()
        kills += 1
        weir.start()
        told = len(cluster.api.get(PATH).get("status", {}).get("trials", []))
        moved = lambda told=told: (  # noqa: E731
            is_over(cluster)() or len(cluster.api.get(PATH).get("status", {}).get("trials", [])) > told
        )
        cluster.until(moved, "another trial, or the end")
    assert kills == 5
    cluster.until(is_over(cluster), "its end")
    detail = shown(run)
    check_finished(detail, trainer)
    killed = table(detail)
    cluster.api.delete(PATH)
    cluster.until(lambda: not cluster.api.items(JOBS))
    for each in trainer.trained.iterdir():
        each.unlink()
    begin(run, "--parallel", "1")
    cluster.until(is_over(cluster), "the end of an undisturbed one")
    assert table(shown(run)) == killed


@pytest.mark.parametrize(("way", "claim"), [("saves", True), ("forgets", False)])
def test_other_ways_of_scripts(
    way: str, claim: bool, run: Run, cluster: Cluster, allowed: str, weir: Weir, trainer: TrialRunner
) -> None:
    """A script that only saves ends at its rung; one without checkpoints begins again when it is promoted."""
    begin(run, way=way, claim=claim)
    cluster.until(is_over(cluster), "its end")
    detail = shown(run)
    if claim:
        check_finished(detail, trainer)
        return
    assert detail["state"] == "finished"
    for row in detail["trial_rows"]:
        runs = [step for reached in row["results"] for step in range(1, reached["rung"] + 1)]
        assert trainer.steps(row["number"]) == runs


def test_a_sweep_is_stopped(
    run: Run, cluster: Cluster, allowed: str, weir: Weir, trainer: TrialRunner
) -> None:
    trainer.paused.set()
    begin(run)
    cluster.until(lambda: len(cluster.running("team-a")) == 3, "it to use what is free")
    cluster.until(lambda: len(cluster.api.items(JOBS)) == 5, "two more to wait")
    cluster.until(lambda: len(shown(run)["trial_rows"]) == 5, "the sweep to show them")
    cluster.until(lambda: shown(run)["running"] == 3, "it to count those that run")
    names = {f"team-a/job-digits-{number}-0" for number in range(5)}
    cluster.until(lambda: names <= listed(run).keys(), "their workloads")
    assert {each["project"] for each in listed(run).values()} == {"team-a"}
    code, _, err = run("stop", "digits-1-0")
    assert code == 0, err
    cluster.until(lambda: shown(run)["trial_rows"][1]["state"] == "stopped", "one trial to be stopped")
    code, _, err = run("sweep", "delete", "digits")
    assert (code, "isn't over: stop it first with `weir sweep stop team-a/digits`" in err) == (2, True)
    code, out, _ = run("sweep", "stop", "digits")
    assert (code, "is stopped" in out) == (0, True)
    cluster.until(is_over(cluster), "its end")
    cluster.until(lambda: not cluster.api.items(JOBS), "its Jobs to be gone")
    assert {row["state"] for row in shown(run)["trial_rows"]} == {"stopped"}


def prospects(detail: dict[str, Any]) -> list[int]:
    """Return the numbers of the trials by their results: highest rung first, then the smallest loss."""
    rows = [row for row in detail["trial_rows"] if row["results"]]
    rows.sort(key=lambda row: (-row["results"][-1]["rung"], row["results"][-1]["value"], row["number"]))
    return [row["number"] for row in rows]


def test_an_owner_takes_its_quota_from_the_least_promising_trials(
    run: Run, cluster: Cluster, allowed: str, weir: Weir, trainer: TrialRunner
) -> None:
    """The promoted one began last, so it would be the cheapest to stop if its prospect didn't count."""
    cluster.namespace("team-b")
    cluster.api.create(project("team-b", 2))
    trainer.pauses_at_promotion = True
    begin(run)
    cluster.until(trainer.paused.is_set, "a promoted trial to run")

    def all_run() -> bool:
        ready = [each for each in cluster.api.items(JOBS) if each["status"].get("ready")]
        return len(ready) == len(cluster.running("team-a")) == 3

    cluster.until(all_run, "it to use all")
    best = next(
        each
        for each in prospects(shown(run))
        if any(name.startswith(f"digits-{each}-") for name in cluster.running("team-a"))
    )
    cluster.api.create(job("team-b", "owner", 2))
    cluster.until(lambda: "owner" in "".join(cluster.running("team-b")), "the owner to have its quota")
    cluster.until(lambda: len(cluster.running("team-a")) == 1, "the trials to keep one")
    (kept,) = cluster.running("team-a")
    assert kept.startswith(f"digits-{best}-"), shown(run)["trial_rows"]
    trainer.pauses_at_promotion = False
    trainer.paused.clear()
    cluster.until(is_over(cluster), "its end")
    check_finished(shown(run), trainer)


def test_trouble_is_said_and_contained(
    run: Run, cluster: Cluster, home: str, weir: Weir, trainer: TrialRunner
) -> None:
    begin(run, "--retries", "0", way="fails", claim=False)
    said = lambda: cluster.api.get(PATH).get("status", {}).get("message", "")  # noqa: E731
    cluster.until(lambda: "Weir may not make Jobs here" in said(), "what it lacks")
    hint = f"kubectl create rolebinding weir-sweeps -n team-a --clusterrole=weir-sweeps --serviceaccount={home}:weir"
    assert hint in said()
    bad = {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "Sweep",
        "metadata": {"name": "bad", "namespace": "team-a"},
    }
    spec = {"project": "team-a", "params": {"lr": "nothing"}, "rungs": [3, 1], "jobTemplate": {"spec": 7}}
    cluster.api.create({**bad, "spec": spec})
    path = PATH.replace("digits", "bad")
    cluster.until(lambda: cluster.api.get(path).get("status", {}).get("phase") == "Failed")
    assert "jobTemplate: has no container" in cluster.api.get(path)["status"]["message"]
    code, out, err = run("sweep", "list", "-o", "json")
    assert code == 0, err
    rows = {row["name"]: row for row in json.loads(out)}
    assert "can't be read" in rows["team-a/bad"]["sentence"]
    assert rows["team-a/digits"]["state"] == "running"
    plane = cluster.plane
    plane.kubectl(*hint.split()[1:])
    cluster.until(is_over(cluster), "its end")
    assert cluster.api.get(PATH)["status"]["phase"] == "Failed"
    assert "Its first trials have all failed: kubectl logs -n team-a job/digits-0-0" in said()


UNUSABLE = [
    (["--trials", "1001"], "a sweep of a cluster is one object, with 1,000 trials at most"),
    (["--trials", "1000", "--param", f"opt=choice:{'x' * 400},y"], "write at most"),
    (["--checkpoint-claim", "none"], "there is no PersistentVolumeClaim none in team-a"),
    (["--sampler", "cmaes"], "sampler: cmaes keeps more about each trial than an object can hold"),
    (["--type", "build"], "trials of a sweep are preemptible"),
    (["--rungs", "3,1"], "1 doesn't come after 3"),
    (["--name", "A_b"], "is no name of an object"),
]


def test_unusable_sweeps_are_refused(run: Run, cluster: Cluster, home: str) -> None:
    for words, sentence in UNUSABLE:
        base = list(SWEEP)
        if words[0] in base and words[0] != "--param":
            at = base.index(words[0])
            del base[at : at + 2]
        code, _, err = run(*base, *words, "--", "python", "train.py")
        assert (code, sentence in err) == (2, True), (words, err)
        assert not cluster.api.items(PATH.rpartition("/")[0]), words
