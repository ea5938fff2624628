"""The history of a cluster in a real PostgreSQL: deleted work is found, by its own namespace alone, once."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from tests.kubernetes.command_line import runner
from tests.kubernetes.dashboard_site import DashboardProcess, picture
from tests.kubernetes.test_dashboard import browser, go, opened
from tests.kubernetes.test_query_api import ROOT, viewer
from tests.postgres_server import Postgres, private_postgres, programs
from tools.controlplane.api import Api, ApiError
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port
from tools.controlplane.queries import wait_for_queries, withdraw
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import job

__all__ = ["browser"]
WORKLOADS = "/apis/weir.dev/v1alpha1/namespaces/{}/workloads"
PASSWORD = "s3cret-of-the-database"


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    if programs() is None:
        pytest.skip("there is no PostgreSQL on this machine: apt-get install postgresql")
    with private_postgres() as server:
        yield server


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane, postgres: Postgres, tmp_path: Path) -> Iterator[Installed]:
    file = tmp_path / "url"
    file.write_text(postgres.url.replace("weir@", f"weir:{PASSWORD}@").replace("+psycopg", "") + "\n")
    with Installed(
        plane,
        namespace=cluster.namespace(),
        name="history",
        webhooks=False,
        extra=["--database-file", str(file), "--keep-history", "30d"],
    ) as running:
        wait_for_queries(cluster.api)
        try:
            yield running
        finally:
            withdraw(cluster.api)
        log = running.log_text()
        assert "forbidden" not in log.lower()
        assert PASSWORD not in log


def listed(cluster: Cluster, namespace: str = "", **params: str) -> dict[str, Any]:
    """Return a list of workloads, those that are over too."""
    words = "&".join(f"{key}={value}" for key, value in {"all": "true", **params}.items())
    within = f"/namespaces/{namespace}" if namespace else ""
    found: dict[str, Any] = cluster.api.get(f"{ROOT}{within}/workloads?{words}")
    return found


def ended(cluster: Cluster, namespace: str) -> set[str]:
    """Return the workloads that are over; none while the API server has yet to see Weir back."""
    with suppress(ApiError):
        return {row["name"] for row in listed(cluster, namespace)["items"] if row["ended_s"]}
    return set()


def kinds(cluster: Cluster, namespace: str, name: str) -> set[str]:
    """Return the kinds of a workload's events."""
    detail = cluster.api.get(f"{ROOT}/namespaces/{namespace}/workloads/{name}")
    return {event["kind"] for event in detail["events"]}


def delete(cluster: Cluster, namespace: str, name: str) -> None:
    """Delete a Job, and wait until its workload is gone."""
    cluster.api.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}?propagationPolicy=Background")
    path = f"{WORKLOADS.format(namespace)}/job-{name}"
    cluster.until(lambda: cluster.api.maybe(path) is None, f"the workload of {name} to be gone")


def run(cluster: Cluster, namespace: str, name: str) -> None:
    made = job(namespace, name, 1)
    if name == "first":
        made["metadata"].setdefault("annotations", {})["weir.dev/user"] = "admin"  # as the webhook does
    cluster.api.create(made)
    path = f"{ROOT}/namespaces/{namespace}/workloads/job-{name}"

    def runs() -> bool:
        try:
            found = cluster.api.maybe(path) or {}
        except ApiError:
            return False
        return found.get("status") == "running"

    cluster.until(runs, f"{name} to run")


def write_report(cluster: Cluster, plane: ControlPlane, weir: Weir, namespace: str, *values: float) -> None:
    """Write reported values into the status of the first Job's workload, as a replica does."""
    account = f"/api/v1/namespaces/{weir.namespace}/serviceaccounts/weir/token"
    token = cluster.api.post(account, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    path = f"{WORKLOADS.format(namespace)}/job-first"
    owner = cluster.api.get(path)["spec"]["owner"]["uid"]
    points = [[time.time() - 10 * at, value] for at, value in enumerate(values)][::-1]
    written = {"owner": owner, "recent": [{"name": "loss", "points": points}]}
    api = Api(plane.url, plane.authority.certificate, token)
    try:
        api.patch(path, {"status": {"report": written}})
    finally:
        api.close()


def reported(cluster: Cluster, namespace: str, name: str) -> list[float]:
    """Return the reported values of a workload in the order of their times."""
    series = cluster.api.get(f"{ROOT}/namespaces/{namespace}/workloads/{name}/series")["series"]
    return [value for each in series for _, value in each["points"]]


def curve_is_stored(postgres: Postgres) -> bool:
    """Return True if the database has a curve: a kill loses what isn't stored yet."""
    engine = create_engine(postgres.url)
    try:
        with engine.connect() as connection:
            return bool(connection.execute(text("SELECT count(*) FROM cluster_series")).scalar())
    finally:
        engine.dispose()


def restart(weir: Installed, cluster: Cluster) -> None:
    """Start an installation that was killed, and wait until it answers."""
    weir.start()
    try:
        wait_for_queries(cluster.api)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{weir.log_text()[-5000:]}") from None


def until_ended(cluster: Cluster, weir: Weir, namespace: str, *names: str) -> None:
    """Wait until a namespace has these workloads that are over: another leader may have to be found first."""
    wanted = {f"{namespace}/job-{name}" for name in names}
    what = lambda: f"the end of {names}: {ended(cluster, namespace)} {weir.log_text()[-5000:]}"  # noqa: E731
    cluster.until(lambda: ended(cluster, namespace) == wanted, what)


def until_told(cluster: Cluster, weir: Weir, namespace: str, name: str) -> None:
    """Wait until a workload's events have its start."""

    def what() -> str:
        known = cluster.api.get(f"{ROOT}/namespaces/{namespace}/events")["items"]
        there = cluster.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
        return f"the start of {name} as an event: {known} {there} {weir.log_text()[-5000:]}"

    cluster.until(lambda: "scheduled" in kinds(cluster, namespace, name), what)


class Standby(Weir):
    """Another replica, of the same command."""

    def command(self) -> list[str]:
        return self._arguments


def test_deleted_work_is_found_by_its_namespace_and_survives_kills_and_an_absent_database(
    weir: Installed,
    cluster: Cluster,
    plane: ControlPlane,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster.add_nodes(1, gpus=8)
    a, b = cluster.namespace(), cluster.namespace()
    cluster.api.create(project("team-a", 4, [a]), project("team-b", 4, [b]))
    cluster.api.apply(viewer(a, "ann"))
    for within in (a, b):
        run(cluster, within, "first")
    until_told(cluster, weir, a, "first")
    write_report(cluster, plane, weir, a, 1.0, 2.0)
    cluster.until(lambda: reported(cluster, a, "first") == [2.0, 1.0], "the curve")
    delete(cluster, a, "first")
    until_ended(cluster, weir, a, "first")
    detail = cluster.until(
        lambda: (
            found if (found := cluster.api.get(f"{ROOT}/namespaces/{a}/workloads/first"))["ended_s"] else None
        ),
        "the time of its end",
    )
    assert detail["ended_s"] >= detail["started_s"] >= detail["submitted_s"] - 1, detail  # whole seconds
    until_told(cluster, weir, a, "first")
    assert cluster.api.get(f"{ROOT}/namespaces/{a}/workloads/job-first/why")["status"] == detail["status"]

    # kill -9, and what ends while nothing of Weir runs
    stored = lambda: f"the curve in the database: {weir.log_text()[-5000:]}"  # noqa: E731
    cluster.until(lambda: curve_is_stored(postgres), stored)
    weir.kill()
    delete_without_weir = f"/apis/batch/v1/namespaces/{b}/jobs/first?propagationPolicy=Background"
    cluster.api.delete(delete_without_weir)
    path = f"{WORKLOADS.format(b)}/job-first"
    cluster.until(lambda: cluster.api.maybe(path) is None, "the workload to be gone")
    restart(weir, cluster)
    until_ended(cluster, weir, b, "first")
    assert ended(cluster, a) == {f"{a}/job-first"}
    assert reported(cluster, a, "first") == [2.0, 1.0]

    # another replica takes over, and writes where the first one stopped
    command = weir.command()
    command[command.index("--port") + 1] = str(free_port())
    account = plane.kubeconfig_of(weir.namespace, "weir")
    standby = Standby(plane, account, name="standby", arguments=command)
    with standby:
        cluster.until(lambda: "listening" in standby.log_text(), "the standby")
        run(cluster, b, "next")
        weir.kill()
        cluster.until(lambda: "history_opened" in standby.log_text(), "the standby to write")
        delete(cluster, b, "next")  # and killed while it may not have written that yet
        standby.kill()
    restart(weir, cluster)
    until_ended(cluster, weir, b, "first", "next")

    # the database is away: scheduling goes on, and what ended meanwhile is stored later
    postgres.stop()
    run(cluster, a, "second")
    cluster.until(lambda: "history_not_written" in weir.log_text(), "the log to say so")
    delete(cluster, a, "second")
    cluster.until(
        lambda: "doesn't answer now" in (listed(cluster)["note"] or ""),
        "the answer to say what is missing",
    )
    report = cluster.api.get(f"{ROOT}/reports/usage?since=1&by=project")
    assert "6 hours" in report["note"]
    command_line = runner(plane, monkeypatch, capsys)
    for words in (["list", "--all"], ["events"], ["report", "usage"], ["describe", f"{b}/job-first"]):
        code, _, err = command_line(*words)
        assert "The history's database doesn't answer now" in " ".join(err.split()), (words, code, err)
    run(cluster, a, "third")
    postgres.start()
    until_ended(cluster, weir, a, "first", "second")
    assert listed(cluster)["note"] is None

    # rights hold for the past too
    wait_for_rights(cluster.api)
    ann = plane.kubeconfig_for("ann")

    def raw(path: str) -> str:
        try:
            return plane.kubectl("get", "--raw", f"{ROOT}/{path}", kubeconfig=ann)
        except RuntimeError as error:
            return str(error)

    mine = raw(f"namespaces/{a}/workloads?all=true")
    assert {row["name"] for row in json.loads(mine)["items"]} == {
        f"{a}/job-{n}" for n in ("first", "second", "third")
    }
    assert b not in mine + raw(f"namespaces/{a}/events")
    first = f"namespaces/{b}/workloads/first"
    for path in ("workloads?all=true", "events", "reports/history", first, f"{first}/series"):
        assert "forbidden" in raw(path), path
    since = f"since={time.time() - 30 * 86400}"

    def begun() -> tuple[int, int]:
        """Return how many of the namespace's workloads have ended, and how many have started."""
        total = json.loads(raw(f"namespaces/{a}/reports/history?{since}"))["total"]
        return total["ended"], total["waits"]["count"]

    cluster.until(lambda: begun() == (2, 3), lambda: f"the third one to be stored: {begun()}")
    events = json.loads(raw(f"namespaces/{a}/events?limit=1000"))
    assert events["note"] is None
    numbers = [event["id"] for event in events["items"]]
    assert len(numbers) == len(set(numbers)) == events["total"]
    report = json.loads(raw(f"namespaces/{a}/reports/history?{since}"))
    assert [row["key"] for row in report["rows"]] == ["team-a"]
    assert report["total"]["allocated_gpu_s"] > 0
    by_user = json.loads(raw(f"namespaces/{a}/reports/history?by=user&{since}"))
    assert {row["key"]: (row["workloads"], row["ended"]) for row in by_user["rows"]} == {
        "admin": (1, 1),
        "-": (2, 1),
    }
    of_one = listed(cluster, user="admin")
    assert {row["name"] for row in of_one["items"]} == {f"{each}/job-first" for each in (a, b)}
    assert (of_one["note"], listed(cluster, user=a)["items"]) == (None, [])
    of_all = cluster.api.get(f"{ROOT}/reports/history?{since}")
    assert "begins" in of_all["note"] or "begun" in of_all["note"]


def test_page_shows_weeks_and_work_that_was_deleted(
    weir: Installed, cluster: Cluster, plane: ControlPlane, postgres: Postgres, browser: Any
) -> None:
    cluster.add_nodes(1, gpus=8)
    a = cluster.namespace()
    cluster.api.create(project("team-a", 4, [a]))
    run(cluster, a, "first")
    delete(cluster, a, "first")
    until_ended(cluster, weir, a, "first")
    wrong: list[str] = []
    with DashboardProcess(plane.kubeconfig) as served:
        page = opened(browser, served, wrong)
        go(page, served, "history")
        row = page.locator("tbody tr", has_text="team-a")
        row.wait_for()
        page.get_by_role("button", name="Month").click()
        page.wait_for_url("**since=30d**")
        row.wait_for()
        assert page.get_by_text("last 6 hours").count() == 0
        picture(page, "history")
        go(page, served, "workloads")
        page.get_by_role("button", name="Ended").click()
        page.locator("tbody tr", has_text=f"{a}/job-first").locator("a").first.click()
        page.get_by_role("heading", name=f"{a}/job-first").wait_for()
        assert page.get_by_text("1 GPU").count(), "what it had"
        picture(page, "deleted")
        postgres.stop()
        try:
            away = page.get_by_text("The history's database doesn't answer now")
            for screen in (
                "workloads?q=status%3Asucceeded%2Cfailed%2Cstopped",
                "activity?kind=stopping",
                "history",
            ):
                go(page, served, screen)
                away.wait_for()
                picture(page, f"away-{screen[:8]}")
        finally:
            postgres.start()
    assert not wrong
