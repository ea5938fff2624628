"""Pages of a cluster on a real API server: their commands do what they say, and two administrators lose nothing."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.dashboard_site import WITHIN_S, DashboardProcess
from tests.kubernetes.test_dashboard import PROJECTS, browser, go, opened
from tests.kubernetes.test_query_api import teams, viewer, weir
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import job

__all__ = ["browser", "weir"]
Typed = Callable[[str], None]


@pytest.fixture
def type_in(plane: ControlPlane, tmp_path: Path) -> Typed:
    """Run a command as a person does who copies it from the page into a shell."""
    (tmp_path / "kubectl").symlink_to(plane.binaries["kubectl"])
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig)}

    def run(command: str) -> None:
        subprocess.run(["bash", "-c", command], env=env, check=True, capture_output=True, timeout=WITHIN_S)

    return run


@contextmanager
def page_of(browser: Any, kubeconfig: Path, *words: str) -> Iterator[tuple[Any, DashboardProcess]]:
    """Yield a page that has signed in; what goes wrong in it fails the test."""
    wrong: list[str] = []
    with DashboardProcess(kubeconfig, *words) as served:
        yield opened(browser, served, wrong), served
    assert not wrong


def test_commands_of_the_page_of_a_workload_let_it_start(
    weir: Installed, cluster: Cluster, plane: ControlPlane, browser: Any, type_in: Typed
) -> None:
    cluster.add_nodes(1, gpus=2)
    a = cluster.namespace()
    cluster.api.create(project("team-a", 2, [a]), job(a, "runs", 1))
    cluster.until(lambda: len(cluster.running(a)) == 1, "the first to run")
    cluster.api.create(job(a, "gang", 1, pods=2))
    with page_of(browser, plane.kubeconfig) as (page, served):
        asked: list[str] = []
        page.on("request", lambda sent: asked.append(sent.url))
        go(page, served, f"workload/{a}%2Fjob-gang")
        page.get_by_text("What would let it start").wait_for()
        page.get_by_role("listitem").filter(has_text="minimum").locator("code").wait_for()
        type_in(page.get_by_role("listitem").filter(has_text="minimum").locator("code").inner_text())
        cluster.until(lambda: len(cluster.running(a)) == 2, "a pod of the gang to run")
        page.locator(".facts", has_text="running").wait_for()
        page.get_by_role("tab", name="Log").click()
        page.get_by_role("region", name="Output").wait_for()
        page.locator(".notice", has_text=re.compile(".")).first.wait_for()  # pods of such nodes have no log
        assert not [url for url in asked if "NaN" in url]


def test_a_job_that_was_created_suspended_says_so_and_is_resumed_from_its_page(
    weir: Installed, cluster: Cluster, plane: ControlPlane, browser: Any
) -> None:
    cluster.add_nodes(1, gpus=2)
    a = cluster.namespace()
    held = job(a, "held", 1)
    held["spec"]["suspend"] = True
    cluster.api.create(project("team-a", 2, [a]), held)
    with page_of(browser, plane.kubeconfig) as (page, served):
        go(page, served, "workloads")
        page.get_by_role("link", name=re.compile("job-held")).first.click()
        reason = page.locator(".reason", has_text="It is suspended: spec.suspend of Job held is true")
        reason.filter(has_text="Once it is resumed, it enters the queue of team-a").wait_for()
        page.locator(".head", has_text="1 GPU").get_by_role("link", name="team-a").wait_for()
        assert page.get_by_role("button", name="Suspend").count() == 0
        page.get_by_role("button", name="Resume").click()
        cluster.until(lambda: len(cluster.running(a)) == 1, "it to run")
        page.locator(".facts", has_text="running").wait_for()


def test_commands_of_the_page_of_a_node_drain_it_and_take_it_back(
    weir: Installed, cluster: Cluster, plane: ControlPlane, browser: Any, type_in: Typed
) -> None:
    (node,) = cluster.add_nodes(1, gpus=2)
    a = cluster.namespace()
    cluster.api.create(project("team-a", 2, [a]), job(a, "runs", 1))
    cluster.until(lambda: len(cluster.running(a)) == 1, "it to run")
    with page_of(browser, plane.kubeconfig) as (page, served):
        go(page, served, "nodes")
        section = page.get_by_role("region", name=f"Node {node}", exact=True)
        section.locator(".labels").wait_for()
        assert "weir.dev/" not in section.locator(".labels").inner_text()
        type_in(section.locator("code").filter(has_text="kubectl drain").inner_text())
        assert not cluster.running(a)
        section.locator(".states", has_text="cordoned").wait_for()
        type_in(section.locator("code").filter(has_text="kubectl uncordon").inner_text())
        section.locator(".states").wait_for(state="detached")
        cluster.until(lambda: len(cluster.running(a)) == 1, "it to run again")


def test_the_header_of_a_narrow_page_cuts_no_name(weir: Installed, plane: ControlPlane, browser: Any) -> None:
    with page_of(browser, plane.kubeconfig) as (page, _):
        page.set_viewport_size({"width": 390, "height": 844})
        page.locator("header .user").first.wait_for()
        cut = "names => names.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"
        assert page.locator("header .user").evaluate_all(cut) == []


def test_an_administrator_hears_of_a_quota_that_another_one_changed_meanwhile(
    weir: Installed, cluster: Cluster, plane: ControlPlane, browser: Any
) -> None:
    a = cluster.namespace()
    cluster.api.create(project("team-a", 4, [a]))
    with (
        page_of(browser, plane.kubeconfig) as (mine, at_mine),
        page_of(browser, plane.kubeconfig) as (other, at_other),
    ):
        for page, served in ((mine, at_mine), (other, at_other)):
            with page.expect_response(re.compile("/api/v1/projects/team-a$")):
                go(page, served, "quotas/team-a")
            page.get_by_label("GPU quota").wait_for()
        mine.get_by_label("GPU quota").fill("5")
        mine.get_by_label("Weight of idle GPUs").fill("2")
        other.get_by_label("GPU quota").fill("3")
        other.get_by_label("GPU limit").fill("9")
        other.get_by_role("button", name="Save").click()
        other.get_by_text("Saved.").wait_for()
        mine.get_by_role("button", name="Save").click()
        notice = mine.get_by_role("alert").filter(has_text="Another person has changed team-a meanwhile.")
        notice.get_by_text("GPU quota: now 3, before 4. Your value is still in the form.").wait_for()
        fields = [mine.get_by_label(name).input_value() for name in ("GPU quota", "GPU limit", "Weight of")]
        assert fields == ["5", "9", "2"]
        assert float(cluster.api.get(f"{PROJECTS}/team-a")["spec"]["quota"]["gpu"]) == 3
        mine.get_by_role("button", name="Save").click()
        mine.get_by_text("Saved.").wait_for()
        notice.wait_for(state="detached")
    spec = cluster.api.get(f"{PROJECTS}/team-a")["spec"]
    assert [float(spec[key]["gpu"]) for key in ("quota", "limit", "weight")] == [5, 9, 2]
    assert spec["namespaces"] == [a]


def test_numbers_of_one_namespace_say_that_they_are(
    weir: Installed, cluster: Cluster, plane: ControlPlane, browser: Any
) -> None:
    a, _ = teams(cluster)
    cluster.api.apply(viewer(a, "ann"))
    wait_for_rights(cluster.api)
    with page_of(browser, plane.kubeconfig, "--namespace", a) as (page, served):
        page.locator(".tile", has_text="pending here").filter(has_text=re.compile("^1")).wait_for()
        go(page, served, "quotas")
        page.get_by_role("columnheader", name="Pending here").wait_for()
    with page_of(browser, plane.kubeconfig_for("ann"), "--namespace", a) as (page, served):
        go(page, served, "quotas/team-a")
        page.get_by_text("Your rights in the cluster don't show its projects.").wait_for()
        assert page.get_by_text("There is no project").count() == 0
        go(page, served, "submit")
        page.get_by_text("Your rights in the cluster don't let you submit.").wait_for()
