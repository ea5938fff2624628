"""The dashboard in a cluster: people sign in with OpenID Connect, and the API server decides by their tokens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.dashboard_site import WITHIN_S, picture, until
from tests.kubernetes.oidc_site import DashboardServer, TcpRelay, TlsProvider
from tests.kubernetes.test_dashboard import browser
from tests.kubernetes.test_installed import bound
from tests.kubernetes.test_query_api import teams, viewer, weir
from tests.oidc.conftest import providers
from tests.oidc.page import START, Page
from tests.oidc.provider import OTHER_CLIENT, Providers, sign_in
from tests.oidc.provider import browser as provider_browser
from tools.controlplane.binaries import Binaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.work import job

from weir.cli.cluster.dashboard.oidc_routes import SIGN_INS

__all__ = ["browser", "providers", "weir"]
PROJECTS = "/apis/weir.dev/v1alpha1/projects"


@pytest.fixture(scope="module")
def identities(providers: Providers, tmp_path_factory: pytest.TempPathFactory) -> TlsProvider:
    return TlsProvider(providers, tmp_path_factory.mktemp("identities") / "provider")


@pytest.fixture(scope="module")
def plane(binaries: Binaries, identities: TlsProvider) -> Iterator[ControlPlane]:
    """A control plane whose API server takes the tokens of the provider."""
    with ControlPlane(binaries, server_options=identities.server_options(binaries.release)) as running:
        running.grant_all("weir")
        yield running


@pytest.fixture
def served(
    weir: Installed, plane: ControlPlane, identities: TlsProvider, tmp_path: Path
) -> Iterator[DashboardServer]:
    found = DashboardServer(plane, identities, tmp_path / "dashboard", weir.namespace)
    try:
        until(lambda: _is_accepted(found), "the API server to take tokens")
        yield found
    finally:
        found.end()
    log = found.log.read_text()
    assert "eyJ" not in log, "tokens aren't logged"
    assert "Traceback" not in log


def _is_accepted(served: DashboardServer) -> bool:
    """Return True if the API server knows the provider: it asks for its keys after the start."""
    page = Page(served)
    with page.opened:
        return page.come_back(_back(served, page, "ada")).status_code == 303


def test_browsers_behind_a_trusted_ingress_have_limits_of_their_own(
    plane: ControlPlane, identities: TlsProvider, tmp_path: Path
) -> None:
    server = DashboardServer(
        plane, identities, tmp_path / "d", "weir", trusted_proxies="10.0.0.0/8,127.0.0.1/32"
    )
    try:
        with server.asks() as ingress:

            def begins(*addresses: str) -> int:
                header = {"X-Forwarded-For": ", ".join(addresses)}
                return ingress.get(START, headers=header).status_code

            spoofed = (begins(f"203.0.113.{at % 256}", "192.0.2.7") for at in range(10 * SIGN_INS.at_once))
            assert 429 in spoofed, "its limit is used up, although it names other addresses"
            assert begins("192.0.2.8") == 303
            assert begins("2001:db8::7", "10.1.2.3") == 303
    finally:
        server.end()


def test_a_person_chooses_their_namespace_and_the_cluster_refuses_the_rest_in_its_words(
    served: DashboardServer, cluster: Cluster
) -> None:
    a, b = teams(cluster)
    cluster.api.apply(viewer(a, "oidc:mia"))
    wait_for_rights(cluster.api)
    with served.signed_in("mia") as mia:
        assert mia.said["user"] == "oidc:mia"
        assert mia.said["cluster"]["namespace"] == ""
        refused = mia.choose(b)
        assert refused.status_code == 403
        assert 'User "oidc:mia" cannot list resource "workloads"' in refused.json()["detail"]
        assert b in refused.json()["detail"]
        for wrong in ("A b", "../x", "", 7):
            assert mia.choose(wrong).status_code == 422
        chosen = mia.choose(a)
        assert chosen.json()["cluster"] == {
            "name": served.url.removeprefix("https://"),
            "namespace": a,
            "controls": [],
            "chooses": True,
        }
        assert mia.names() == {f"{a}/job-runs", f"{a}/job-waits"}
        stopped = mia.ask("POST", f"workloads/{a}%2Fjob-waits/stop")
        assert stopped.status_code == 403
        assert 'User "oidc:mia" cannot delete resource "jobs"' in stopped.json()["detail"]
        assert mia.ask("GET", f"workloads/{b}%2Fjob-runs").status_code == 403
        assert mia.ask("GET", "nodes").status_code == 403
        for answer in (chosen, stopped, mia.ask("GET", "dashboard/session")):
            assert "eyJ" not in answer.text + str(answer.headers)


def test_page_signs_a_person_in_and_shows_the_namespace_that_they_choose(
    served: DashboardServer, cluster: Cluster, browser: Any
) -> None:
    a, b = teams(cluster)
    cluster.api.apply(viewer(a, "oidc:mia"))
    wait_for_rights(cluster.api)
    wrong: list[str] = []
    page = browser.new_context(ignore_https_errors=True, viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(WITHIN_S * 1000)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{served.url}/#/workloads")
    page.get_by_role("link", name="Sign in with OpenID Connect").click()
    page.get_by_placeholder("Enter any login").fill("mia")
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("heading", name="Which namespace?").wait_for()
    picture(page, "namespace")
    page.get_by_label("Namespace").fill(b)
    page.get_by_role("button", name="Show it").click()
    page.get_by_role("alert").filter(has_text='User "oidc:mia" cannot list resource "workloads"').wait_for()
    page.get_by_label("Namespace").fill(a)
    page.get_by_role("button", name="Show it").click()
    rows = page.locator("tbody tr")
    rows.filter(has_text=f"{a}/job-waits").wait_for()
    page.locator(".state", has_text="live").wait_for()
    assert rows.filter(has_text=b).count() == 0
    assert page.get_by_text("oidc:mia").count() >= 1
    picture(page, "workloads")
    rows.filter(has_text=f"{a}/job-waits").locator("a").first.click()
    page.locator(".reason", has_text="Insufficient capacity").wait_for()
    assert page.get_by_role("button", name="Stop").count() == 0, "a viewer is offered nothing to change"
    stored = page.evaluate("JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie")
    assert "eyJ" not in stored
    assert "weir_session" not in stored
    page.reload()
    page.get_by_role("button", name=f"namespace {a}").click()
    page.get_by_label("Namespace").wait_for()
    picture(page, "change")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("You are signed out.").wait_for()
    page.get_by_role("link", name="Sign in with OpenID Connect").click()
    page.get_by_role("button", name=f"namespace {a}").wait_for()  # the provider still knows the person
    assert not wrong


def test_a_group_of_the_provider_administers_by_a_binding(served: DashboardServer, cluster: Cluster) -> None:
    a, b = teams(cluster)
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "oidc:pool-admins"}
    cluster.api.apply({**bound("cluster-admin", "pool-admins"), "subjects": [group]})
    wait_for_rights(cluster.api)
    with served.signed_in("ada") as ada:
        assert (ada.said["user"], ada.said["is_admin"]) == ("oidc:ada", True)
        assert ada.said["cluster"]["namespace"] is None
        assert ada.names() >= {f"{a}/job-runs", f"{b}/job-runs"}
        assert ada.choose(b).status_code == 200
        assert ada.names() == {f"{b}/job-runs", f"{b}/job-waits"}
        assert ada.choose(None).json()["cluster"]["namespace"] is None
        entry = {"name": "team-a", "quota": {"gpu": 2}}
        assert ada.ask("PUT", "projects/team-a", json=entry).status_code == 200
        assert float(cluster.api.get(f"{PROJECTS}/team-a")["spec"]["quota"]["gpu"]) == 2
        assert ada.ask("POST", f"workloads/{a}%2Fjob-waits/stop").status_code == 200
    cluster.until(lambda: cluster.api.maybe(f"/apis/batch/v1/namespaces/{a}/jobs/waits") is None, "it")


def test_rights_that_are_withdrawn_end_the_page(served: DashboardServer, cluster: Cluster) -> None:
    a, _ = teams(cluster)
    cluster.api.apply(viewer(a, "oidc:mia"))
    wait_for_rights(cluster.api)
    with served.signed_in("mia") as mia:
        assert mia.choose(a).status_code == 200
        with mia.client.stream("GET", "/api/v1/dashboard/stream") as stream:
            assert stream.status_code == 200
            cluster.api.delete(
                f"/apis/rbac.authorization.k8s.io/v1/namespaces/{a}/rolebindings/view-oidc:mia"
            )
            for _piece in stream.iter_raw():
                pass  # the stream ends by itself
        again = mia.ask("GET", "dashboard/stream")
        assert again.status_code == 403
        assert 'User "oidc:mia" cannot list resource "workloads"' in again.json()["detail"]


def test_a_sign_in_is_renewed_until_the_provider_ends_it(
    served: DashboardServer, cluster: Cluster, identities: TlsProvider
) -> None:
    a, _ = teams(cluster)
    cluster.api.apply(viewer(a, "oidc:tom"))
    wait_for_rights(cluster.api)
    provider = identities.provider
    with served.signed_in("tom") as tom:
        assert tom.choose(a).status_code == 200
        grants = provider.requests("/token")

        def renewed() -> bool:
            assert tom.names(), "it goes on"
            return provider.requests("/token") >= grants + 2

        until(renewed, "two renewals: more than the life of the first token")
        provider.ask("leave", account="tom")
        until(lambda: tom.ask("GET", "workloads").status_code == 401, "the session to end")
        answer = tom.ask("GET", "workloads")
        assert answer.status_code == 401
        assert "sign in again" in answer.json()["detail"]


def test_an_api_server_that_is_away_is_reported_and_the_page_goes_on_after_it(
    weir: Installed, cluster: Cluster, plane: ControlPlane, identities: TlsProvider, tmp_path: Path
) -> None:
    a, _ = teams(cluster)
    cluster.api.apply(viewer(a, "oidc:mia"))
    wait_for_rights(cluster.api)
    with TcpRelay(plane.url) as relay:
        served = DashboardServer(plane, identities, tmp_path / "away", weir.namespace, api_server=relay.url)
        try:
            until(lambda: _is_accepted(served), "the API server to take tokens")
            with served.signed_in("mia") as mia:
                assert mia.choose(a).status_code == 200
                with mia.client.stream("GET", "/api/v1/dashboard/stream") as stream:
                    relay.cut()
                    for _piece in stream.iter_raw():
                        pass  # the stream ends by itself
                answer = mia.ask("GET", "workloads")
                assert answer.status_code == 503, answer.text
                assert "can't be reached" in answer.json()["detail"]
                relay.heal()
                cluster.api.create(job(a, "later", 1))
                until(lambda: f"{a}/job-later" in mia.names(), "the page to go on")
                with mia.client.stream("GET", "/api/v1/dashboard/stream") as stream:
                    assert stream.status_code == 200
        finally:
            served.end()


def test_tokens_that_the_api_server_does_not_know_begin_no_session(
    weir: Installed, plane: ControlPlane, identities: TlsProvider, tmp_path: Path
) -> None:
    other = DashboardServer(plane, identities, tmp_path / "other", weir.namespace, client_id=OTHER_CLIENT)
    try:
        page = Page(other)
        with page.opened:
            answer = page.come_back(_back(other, page, "mia"))
        assert answer.status_code == 403
        assert "doesn't accept the tokens of your identity provider" in answer.text
        assert identities.provider.issuer in answer.text
        assert OTHER_CLIENT in answer.text
    finally:
        other.end()


def test_a_session_belongs_to_its_browser_and_its_site(served: DashboardServer, cluster: Cluster) -> None:
    a, b = cluster.namespace(), cluster.namespace()
    cluster.api.apply(viewer(a, "oidc:mia"), viewer(b, "oidc:root"))
    wait_for_rights(cluster.api)
    with served.signed_in("mia") as mia, served.signed_in("root") as root, served.asks() as anyone:
        assert mia.choose(a).status_code == root.choose(b).status_code == 200
        (cookie,) = (each for each in mia.client.cookies.jar if each.name == "__Host-weir_session")
        assert cookie.secure
        assert cookie.has_nonstandard_attr("HttpOnly")
        mine = {"Cookie": f"{cookie.name}={cookie.value}"}
        for headers in ({}, mine, {**mine, "X-Weir-Proof": root.said["proof"]}):
            assert anyone.get("/api/v1/workloads", headers=headers).status_code == 401
        for name, value in (("Host", "evil.example"), ("Origin", "https://evil.example")):
            assert mia.client.get("/api/v1/workloads", headers={name: value}).status_code == 403
        assert anyone.get("/", headers={"Host": "evil.example"}).status_code == 403
        other_site = {"Sec-Fetch-Site": "cross-site"}
        assert (
            mia.ask("PUT", "dashboard/namespace", json={"namespace": a}, headers=other_site).status_code
            == 403
        )
        page = Page(served)
        link = page.come_back(_back(served, page, "mia"))
        assert link.status_code == 303
        code = link.headers["Location"].removeprefix("/#code=")
        stolen = anyone.post("/api/v1/dashboard/sign-in", json={"code": code})
        assert stolen.status_code == 401
        assert "another browser" in stolen.json()["detail"]
        assert page.finish(link).status_code == 401, "a link works once"
        assert mia.ask("DELETE", "dashboard/session").status_code == 200
        assert mia.ask("GET", "workloads").status_code == 401
        assert root.ask("GET", "workloads").status_code == 200
        page.opened.close()


def test_answers_to_sign_ins_of_others_are_refused(served: DashboardServer) -> None:
    with served.asks() as opened:
        for query in ("", "?code=x&state=y", "?error=access_denied&state=", "?state=" + "a" * 500):
            answer = opened.get(f"/api/v1/dashboard/oidc/callback{query}")
            assert answer.status_code == 401, query
            assert "This sign-in isn't valid" in answer.text
        ways = opened.get("/api/v1/sign-in").json()
        assert (ways["dashboard"], ways["links_only"]) == ("/api/v1/dashboard/oidc/start", True)
        assert opened.post("/api/v1/dashboard/sign-in", json={"token": "x"}).status_code == 422


def _back(served: DashboardServer, page: Page, account: str) -> str:
    """Return the address at which the provider sends a browser back."""
    with provider_browser(served.context) as at_provider:
        return sign_in(at_provider, page.to_provider(), account)
