"""The dashboard of a cluster in front of a real API server: people see and do what their own rights allow."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.browser.conftest import missing
from tests.browser.serving import CHROMIUM
from tests.kubernetes.dashboard_site import WITHIN_S, DashboardProcess, SignedIn, run_dashboard, until
from tests.kubernetes.test_installed import bound
from tests.kubernetes.test_query_api import teams, viewer, weir
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.proxy import FaultProxy
from tools.controlplane.weir import project
from tools.controlplane.work import job

__all__ = ["weir"]
PROJECTS = "/apis/weir.dev/v1alpha1/projects"


@pytest.fixture
def browser(plane: ControlPlane) -> Iterator[Any]:
    """A chromium, which starts after the control plane."""
    if (answer := missing()) is not None:
        if os.environ.get("WEIR_BROWSER") == "required":
            pytest.fail(answer)
        pytest.skip(answer)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM))
        yield found
        found.close()


def opened(browser: Any, served: DashboardProcess, wrong: list[str]) -> Any:
    """Return a page that has signed in; what goes wrong in it is added to a list."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(WITHIN_S * 1000)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda sent: None if sent.url.startswith(served.url) else wrong.append(sent.url))
    page.goto(served.link)
    page.locator(".state", has_text="live").wait_for()
    return page


def go(page: Any, served: DashboardProcess, screen: str) -> None:
    page.goto(f"{served.url}/#/{screen}")


def test_page_shows_a_cluster_live_changes_a_quota_and_heals_after_a_lost_connection(
    weir: Installed, cluster: Cluster, plane: ControlPlane, browser: Any
) -> None:
    a, b = teams(cluster)
    wrong: list[str] = []
    with FaultProxy(plane, user="weir") as proxy, DashboardProcess(proxy.kubeconfig) as served:
        page = opened(browser, served, wrong)
        assert page.get_by_role("link", name="What if").count() == 0
        page.get_by_text("2 of 2 GPUs").wait_for()
        go(page, served, "workloads")
        rows = page.locator("tbody tr")
        for name in (f"{a}/job-runs", f"{b}/job-waits"):
            rows.filter(has_text=name).wait_for()
        cluster.api.create(job(a, "later", 1))
        rows.filter(has_text=f"{a}/job-later").filter(has_text="pending").wait_for()
        rows.filter(has_text=f"{a}/job-later").locator("a").first.click()
        page.locator(".reason", has_text="Insufficient capacity").wait_for()
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Yes, stop").click()
        cluster.until(
            lambda: cluster.api.maybe(f"/apis/batch/v1/namespaces/{a}/jobs/later") is None, "it to go"
        )
        go(page, served, "workloads")
        rows.filter(has_text=f"{a}/job-later").wait_for(state="detached")

        go(page, served, "quotas/team-a")
        page.get_by_label("GPU quota").fill("2")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("Saved.").wait_for()
        spec = cluster.api.get(f"{PROJECTS}/team-a")["spec"]
        assert (float(spec["quota"]["gpu"]), spec["namespaces"]) == (2, [a])

        go(page, served, "workloads")
        proxy.down = True
        proxy.cut()
        page.get_by_role("alert").filter(has_text="can't be reached").wait_for()
        cluster.api.create(job(b, "meanwhile", 1))
        proxy.calm()
        rows.filter(has_text=f"{b}/job-meanwhile").wait_for()
        page.locator(".state", has_text="live").wait_for()
    assert not wrong


def test_a_person_has_the_rights_of_their_kubeconfig_and_sees_their_namespace_alone(
    weir: Installed, cluster: Cluster, plane: ControlPlane
) -> None:
    a, b = teams(cluster)
    cluster.api.apply(viewer(a, "ann"), bound("weir-view", "eve"))
    wait_for_rights(cluster.api)
    ann_config, eve_config = (plane.kubeconfig_for(user) for user in ("ann", "eve"))
    early = run_dashboard(ann_config)
    assert early.returncode == 2
    assert 'cannot list resource "workloads"' in early.stderr
    assert "--namespace" in early.stderr
    plane.kubectl("config", "set-context", "--current", f"--namespace={a}", kubeconfig=ann_config)
    with DashboardProcess(ann_config) as served, SignedIn(served) as ann:
        assert ann.person["user"] == "ann"
        assert ann.person["cluster"] == {"name": plane.url, "namespace": a, "controls": [], "chooses": False}
        assert not ann.person["is_admin"]
        assert ann.names() == {f"{a}/job-runs", f"{a}/job-waits"}
        with ann.stream() as frames:
            first = next(frames)
        assert {row[1] for row in first["rows"]} == ann.names()
        assert (first["queues"], first["nodes"]) == ([], [])
        uid = next(row[0] for row in first["rows"] if row[1] == f"{a}/job-waits")
        assert ann.get(f"workloads/{uid}/why")["reason"]["why"] == "insufficient_capacity"
        events = ann.get(f"events?workload={uid}")["items"]
        assert [each["id"] for each in events] == sorted((each["id"] for each in events), reverse=True)
        for method, path in (
            ("GET", f"workloads/{b}%2Fjob-runs"),
            ("POST", f"workloads/{uid}/stop"),
            ("GET", "nodes"),
        ):
            answer = ann.client.request(method, f"/api/v1/{path}")
            assert answer.status_code == 403, path
            assert "annot" in answer.json()["detail"], answer.text
    with DashboardProcess(eve_config) as served, SignedIn(served) as eve:
        assert eve.person["cluster"]["namespace"] is None
        assert eve.names() >= {f"{a}/job-runs", f"{b}/job-runs"}
        entry = {"name": "team-a", "quota": {"gpu": 9}}
        for refused in (
            eve.client.put("/api/v1/projects/team-a", json=entry),
            eve.client.post("/api/v1/projects/team-a/preview", json=entry),
        ):
            assert refused.status_code == 403
            assert 'User "eve" cannot patch resource "projects"' in refused.json()["detail"]
        for path, status, word in (
            (f"workloads/{uid}/logs", 403, "cannot get resource"),
            ("audit", 422, "audit log of its own"),
        ):
            answer = eve.client.get(f"/api/v1/{path}")
            assert (answer.status_code, word in answer.json()["detail"]) == (status, True), answer.text
    with DashboardProcess(plane.kubeconfig) as served, SignedIn(served) as admin:
        assert admin.person["is_admin"]
        assert admin.person["cluster"]["controls"] == ["*"]
        assert admin.person["projects"] == ["team-a", "team-b"]
        assert admin.client.put("/api/v1/projects/team-a", json=entry).status_code == 200
        less = {"name": "team-b", "quota": {"gpu": 0}}

        def tried() -> dict[str, Any]:
            answer = admin.client.post("/api/v1/projects/team-b/preview", json=less)
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found

        found = until(lambda: (now := tried())["stops"] and now, "the other quota to count")
        assert [each["workload"] for each in found["stops"]] == [f"{b}/job-runs"]
        assert [each["workload"] for each in found["starts"]] == [f"{a}/job-waits"]
        assert float(cluster.api.get(f"{PROJECTS}/team-b")["spec"]["quota"]["gpu"]) == 1, "nothing changed"
        unfit = admin.client.post("/api/v1/projects/team-b/preview", json={**less, "weight": -1})
        assert unfit.status_code == 422, unfit.text
    assert float(cluster.api.get(f"{PROJECTS}/team-a")["spec"]["quota"]["gpu"]) == 9


def test_a_limit_on_priorities_survives_a_change_of_the_quota(
    weir: Installed, cluster: Cluster, plane: ControlPlane
) -> None:
    a = cluster.namespace()
    cluster.api.create(project("team-a", 1, [a], maxPriority=60))
    with DashboardProcess(plane.kubeconfig) as served, SignedIn(served) as admin:
        rows = until(lambda: admin.get("projects")["items"], "the project to be listed")
        row = next(each for each in rows if each["name"] == "team-a")
        entry = {
            "name": "team-a",
            "quota": {"gpu": 2},
            "max_priority": row["max_priority"],
            "person_limits": {"gpus": None},
        }
        assert admin.client.put("/api/v1/projects/team-a", json=entry).status_code == 200
    assert cluster.api.get(f"{PROJECTS}/team-a")["spec"] == {
        "quota": {"gpu": 2},
        "namespaces": [a],
        "maxPriority": 60,
    }


def test_the_port_answers_nothing_to_other_users_and_other_sites(
    weir: Installed, cluster: Cluster, plane: ControlPlane
) -> None:
    with (
        DashboardProcess(plane.kubeconfig) as served,
        SignedIn(served) as own,
        httpx.Client(base_url=served.url, timeout=WITHIN_S) as anyone,
    ):
        paths = ("workloads", "dashboard/session", "dashboard/stream")
        used = anyone.post("/api/v1/dashboard/sign-in", json={"code": served.code})
        assert (used.status_code, "used already" in used.text) == (401, True)
        cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in own.client.cookies.items())}
        proof = {"X-Weir-Proof": own.person["proof"]}
        for path in paths:
            for headers in ({}, cookie, proof, {**cookie, "X-Weir-Proof": "x"}):
                assert anyone.get(f"/api/v1/{path}", headers=headers).status_code == 401, (path, headers)
            for name, value in (("Host", "evil.example:80"), ("Origin", "http://evil.example")):
                answer = own.client.get(f"/api/v1/{path}", headers={name: value})
                assert answer.status_code == 403, (path, name)
        assert own.client.get("/", headers={"Host": "evil.example"}).status_code == 403
        entry, other = {"name": "evil", "quota": {"gpu": 1}}, {"Sec-Fetch-Site": "same-site"}
        assert own.client.put("/api/v1/projects/evil", json=entry, headers=other).status_code == 403
        assert cluster.api.maybe(f"{PROJECTS}/evil") is None
        page = own.client.get("/")
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        assert own.client.put("/api/v1/projects/x", content=b"[]").status_code == 422
        assert own.client.get("/assets/..%2Findex.html").status_code == 404
        assert own.client.delete("/api/v1/dashboard/session").status_code == 200
        assert own.client.get("/api/v1/workloads").status_code == 401


def test_an_api_of_weir_that_is_away_is_reported_and_comes_back(
    weir: Installed, cluster: Cluster, plane: ControlPlane
) -> None:
    cluster.add_nodes(1, gpus=2)
    with DashboardProcess(plane.kubeconfig) as served, SignedIn(served) as own:
        until(lambda: own.get("nodes")["items"], "the node to be listed")
        with own.stream() as frames:
            assert next(frames)["kind"] == "list"
            weir.stop()
            assert next(each for each in frames if each.get("status", {}).get("trouble"))
            weir.start()
            assert next(each for each in frames if each.get("status", {"trouble": "x"})["trouble"] is None)
