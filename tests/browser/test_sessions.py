"""Sign-in and sign-out by links and tokens, and the page without its server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.dashboard_load import viewers

from weir.local.server.http.server_limits import ServerLimits

from .page_tables import become_equal
from .pages import WITHIN_MS, Window, is_live, running
from .serving import ServingOnPort


def test_link_works_once_and_a_token_signs_in(server: ServingOnPort, window: Window) -> None:
    page = window.plain_page()
    link = server.link()
    page.goto(link)
    is_live(page).wait_for()
    assert "code" not in page.url
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("You are signed out.").wait_for()
    page.goto("about:blank")
    page.goto(link)
    page.get_by_text("This link was used already").wait_for()
    page.get_by_label("Or type your token").fill("x" * 30)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Unknown token").wait_for()
    page.get_by_label("Or type your token").fill(server.token)
    page.get_by_role("button", name="Sign in").click()
    is_live(page).wait_for()
    page.reload()
    is_live(page).wait_for()
    cookie = window.context.cookies()[0]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    window.forget()


def test_page_says_why_it_gets_no_stream(opened: Callable[..., Any], server: ServingOnPort) -> None:
    token = server.member("tim", "vision")
    page = opened(token)
    most = ServerLimits().streams_per_person_max
    with viewers(server, most - 1, [token]):
        second = page.context.browser.new_context().new_page()
        second.set_default_timeout(WITHIN_MS)
        second.goto(server.link(token))
        second.get_by_role("alert").get_by_text(f"You have {most} open streams").wait_for()
        assert second.get_by_text("The pool has no node").count() == 0
        second.context.close()


def test_ended_token_ends_the_session(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(server.member("tom", "vision"))
    number = next(row["id"] for row in server.get("/api/v1/tokens")["items"] if row["user"] == "tom")
    server.ask("DELETE", f"/api/v1/tokens/{number}")
    page.get_by_role("button", name="Sign in").wait_for()


def test_page_says_that_the_server_is_gone_and_is_right_again(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened(screen="workloads")
    second = page.context.new_page()
    second.goto(f"{server.url}/#/workloads")
    with running(server, "stays", project="vision"):
        for each in (page, second):
            each.get_by_role("link", name="stays").wait_for()
        server.kill()
        for each in (page, second):
            each.get_by_text("No connection to the server").wait_for()
        server.begin()
        gone = server.submit("sleep", "1000", name="later", project="vision")
        for each in (page, second):
            each.get_by_role("link", name="later").wait_for()
            assert each.get_by_text("No connection to the server").count() == 0
        rest = {row["name"] for row in server.get("/api/v1/workloads")["items"]}
        assert set(page.get_by_role("table").locator("tbody a").all_inner_texts()) == rest
        server.ask("POST", f"/api/v1/workloads/{gone['uid']}/stop")
        page.close()  # it held the connection: the other takes over
        second.get_by_role("link", name="later").wait_for(state="detached")


def test_log_goes_on_after_a_restart_of_the_server(
    opened: Callable[..., Any], server: ServingOnPort, tmp_path: Path
) -> None:
    go, end = tmp_path / "go", tmp_path / "end"
    before, after = (f"until [ -e {each} ]; do sleep 0.1; done" for each in (go, end))
    script = f"echo before; {before}; echo after; {after}; printf last"
    made = server.submit("sh", "-c", script, name="writes", project="vision")
    page = opened(screen=f"workload/{made['uid']}?tab=log")
    log = page.get_by_role("region", name="Output", exact=True)
    log.get_by_text("before", exact=True).wait_for()
    server.kill()
    page.get_by_text("The output goes on when it does.").wait_for()
    server.begin()
    page.get_by_text("The output goes on when it does.").wait_for(state="detached")
    go.touch()
    log.get_by_text("after", exact=True).wait_for()
    assert log.inner_text().split() == ["before", "after"]
    end.touch()  # the page reads the log again when its workload ends
    become_equal(page, lambda: log.inner_text().split(), lambda: ["before", "after", "last"])
