"""The dashboard in a real browser, against a real `weir up`."""

import csv
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tools import prefork

from .conftest import AXE, ServingOnPort

WITHIN_MS = 60_000
SCREENS = (
    "now",
    "workloads",
    "submit",
    "quotas",
    "quotas/vision",
    "history",
    "nodes",
    "what-if",
    "activity",
    "activity?of=audit",
)
COUNTS = 'for i in 1 2 3; do echo "<img src=x onerror=alert(1)> step $i"; done; sleep 3600'


class Window:
    """The page that all tests use: a page in a new profile takes as long as five screens."""

    def __init__(self, browser: Any, server: ServingOnPort) -> None:
        self._server = server
        self.context = browser.new_context()
        self.context.set_default_timeout(WITHIN_MS)

    def plain_page(self, width: int = 1440, scheme: str | None = None) -> Any:
        """Return the page with a document that runs nothing, so that the next one is loaded."""
        page = next(iter(self.context.pages), None) or self.context.new_page()
        page.goto(f"{self._server.url}/healthz")
        page.set_viewport_size({"width": width, "height": 900})
        motion = "null" if scheme is None else "reduce"
        page.emulate_media(color_scheme=scheme or "null", reduced_motion=motion)
        return page

    def forget(self) -> None:
        """Close all pages but one, and remove what they stored."""
        page = self.plain_page()
        for other in self.context.pages:
            if other is not page:
                other.close()
        session = self.context.new_cdp_session(page)
        session.send("Storage.clearDataForOrigin", {"origin": self._server.url, "storageTypes": "all"})
        session.detach()
        self.context.clear_cookies()


@pytest.fixture(scope="module")
def window(browser: Any, server: ServingOnPort) -> Iterator[Window]:
    found = Window(browser, server)
    yield found
    found.context.close()


@pytest.fixture
def opened(server: ServingOnPort, window: Window) -> Iterator[Callable[..., Any]]:
    """Open a page that is signed in; whatever goes wrong in it fails the test."""
    wrong: list[str] = []
    listeners = {
        "pageerror": lambda error: wrong.append(str(error)),
        "console": lambda answer: wrong.append(answer.text) if is_wrong(answer) else None,
        "request": lambda sent: wrong.append(sent.url) if not is_own(sent.url) else None,
        "dialog": lambda dialog: wrong.append(dialog.message),
    }

    def open_(token: str | None = None, screen: str = "now", **settings: Any) -> Any:
        page = window.plain_page(**settings)
        if page not in listening:
            listening.append(page)
            for event, listener in listeners.items():
                page.on(event, listener)
        page.goto(server.link(token))
        is_live(page).wait_for()
        go(page, server, screen)
        return page

    def is_wrong(answer: Any) -> bool:
        return answer.type in ("error", "warning") and "Failed to load resource" not in answer.text

    def is_own(url: str) -> bool:
        return url.startswith((server.url, "blob:", "data:"))

    listening: list[Any] = []
    yield open_
    for page in listening:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
    window.forget()
    assert not wrong


def until(page: Any, holds: Callable[[], bool]) -> None:
    """Wait until the page shows something that no locator names."""
    end_s = time.monotonic() + WITHIN_MS / 1000
    while not holds():
        assert time.monotonic() < end_s
        page.wait_for_timeout(50)


def is_live(page: Any) -> Any:
    return page.locator(".state", has_text="live")


def go(page: Any, server: ServingOnPort, screen: str) -> None:
    page.goto(f"{server.url}/#/{screen}")


@contextmanager
def running(server: ServingOnPort, name: str, **words: Any) -> Iterator[int]:
    """A workload that runs, until the block ends."""
    row = server.submit("bash", "-c", COUNTS, name=name, **words)
    try:
        server.until(name, "running")
        yield row["uid"]
    finally:
        server.ask("POST", f"/api/v1/workloads/{row['uid']}/stop")
        server.until(str(row["uid"]), "stopped", "succeeded", "failed")


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


def test_now_shows_what_rest_says(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened()
    with (
        running(server, "trains", project="language", gpus=2),
        running(server, "sees", project="vision", gpus=1),
    ):
        page.get_by_role(
            "button", name=re.compile("GPU . of .*: trains of language.*borrowed")
        ).first.wait_for()
        page.get_by_role("button", name=re.compile("sees of vision")).click()
        page.get_by_text("within quota", exact=False).first.wait_for()
        status = server.get("/api/v1/status")
        counts = [f"{status['allocated']:g}", str(status["running"]), str(status["pending"])]
        tiles = page.locator(".tile b")
        until(page, lambda: [tile.split()[0] for tile in tiles.all_inner_texts()[:3]] == counts)
        waits = server.submit("true", name="waits", project="language", gpus=4)
        page.get_by_role("link", name="waits", exact=True).click()
        page.get_by_role("heading", name="Why it waits").wait_for()
        sentence = server.get("/api/v1/workloads/waits/why")["reason"]["sentence"]
        page.get_by_text(sentence).first.wait_for()
        page.get_by_text("What would let it start").wait_for()
        server.ask("POST", f"/api/v1/workloads/{waits['uid']}/stop")
    go(page, server, "now")
    page.get_by_text("Nothing waits.").wait_for()


def test_workload_is_submitted_read_suspended_resumed_stopped_and_rerun(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened(screen="submit")
    page.get_by_label("Project").select_option("vision")
    page.get_by_label("Name").fill("by-hand")
    page.get_by_label("GPUs of each pod").fill("9")
    page.get_by_label("Command of every pod").fill(COUNTS)
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("alert").get_by_text("the largest node offers 4").first.wait_for()
    page.get_by_label("GPUs of each pod").fill("1")
    page.get_by_label("Container image").fill("library/Python")
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("alert").get_by_text("'library/Python' is no image; write one such as").wait_for()
    page.get_by_label("Container image").fill("")
    page.get_by_text("It would start now").wait_for()
    assert (
        "weir submit -p vision --name by-hand --gpus 1 -- bash -c" in page.locator("pre").first.inner_text()
    )
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("heading", name="by-hand").wait_for()
    page.get_by_text("<img src=x onerror=alert(1)> step 3").wait_for()
    page.get_by_placeholder("Search").fill("step 2")
    page.get_by_text("1 lines match").wait_for()
    page.get_by_role("button", name="Suspend").click()
    page.get_by_role("button", name="Resume").wait_for()
    server.until("by-hand", "pending")
    page.get_by_text("it is suspended").first.wait_for()
    page.get_by_role("button", name="Resume").click()
    server.until("by-hand", "running")
    page.get_by_role("tab", name="Specification").click()
    page.get_by_text("To reproduce it").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="No", exact=True).click()
    assert server.get("/api/v1/workloads/by-hand")["status"] == "running"
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Yes, stop").click()
    server.until("by-hand", "stopped")
    page.get_by_role("button", name="Rerun").click()
    server.until("by-hand", "running")
    server.ask("POST", "/api/v1/workloads/by-hand/stop")
    server.until("by-hand", "stopped")


def test_list_is_filtered_sorted_and_stopped_together(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened(screen="workloads?q=project%3Avision")
    with (
        running(server, "one", project="vision"),
        running(server, "two", project="vision"),
        running(server, "other", project="language"),
    ):
        table = page.get_by_role("table")
        table.get_by_role("link", name="two").wait_for()
        table.get_by_role("link", name="one").wait_for()
        assert table.get_by_role("link", name="other").count() == 0
        page.get_by_role("button", name="Name").click()
        names = table.locator("tbody a").all_inner_texts()
        assert names == sorted(names)
        page.get_by_label("Choose one").check()
        page.get_by_label("Choose two").check()
        page.get_by_role("button", name="Stop 2").click()
        page.get_by_role("button", name="Yes, stop").click()
        page.get_by_text("No workload matches the filter.").wait_for()
        page.get_by_label("Filter").fill("")
        table.get_by_role("link", name="other").wait_for()
    page.get_by_role("button", name="Ended").click()
    page.get_by_role("table").get_by_role("link", name="one").first.wait_for()
    assert "status%3A" in page.url


def test_quota_is_previewed_and_saved(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(screen="quotas/language")
    with running(server, "holds", project="vision", gpus=4):
        waits = server.submit("sleep", "1000", name="asks", project="language", gpus=2)
        page.get_by_label("GPU quota").fill("2")
        page.get_by_role("button", name="Preview the effect").click()
        page.get_by_text("holds").first.wait_for()
        page.get_by_text("of vision", exact=False).get_by_text("loses 4 GPUs").wait_for()
        assert server.get("/api/v1/projects/language")["quota"]["gpu"] == 1
        page.get_by_role("button", name="Save").click()
        page.get_by_text("Saved.").wait_for()
        assert server.get("/api/v1/projects/language")["quota"]["gpu"] == 2
        server.until("asks", "running")
        server.ask("POST", f"/api/v1/workloads/{waits['uid']}/stop")
        server.until("asks", "stopped")
    server.put("projects", "language", quota={"gpu": 1})


def test_node_is_drained_and_undrained_and_a_priority_is_changed(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened(screen="nodes")
    with running(server, "moves", project="vision") as uid:
        page.get_by_role("button", name="Drain", exact=True).click()
        form = page.get_by_role("form")
        form.get_by_text("1 workload would stop").wait_for()
        form.get_by_role("link", name="moves").wait_for()
        form.get_by_label("Reason").fill("<b>new kernel</b>")
        form.get_by_role("button", name="Yes, drain").click()
        page.get_by_text("<b>new kernel</b>").wait_for()
        server.until("moves", "pending")
        go(page, server, f"workload/{uid}")
        page.get_by_text("1 is drained").wait_for()
        page.get_by_role("button", name="Change priority").click()
        page.get_by_label("Priority").fill("77")
        page.get_by_role("button", name="Set").click()
        page.get_by_text("priority 77").wait_for()
        go(page, server, "nodes")
        page.get_by_role("button", name="Undrain", exact=True).click()
        page.get_by_role("button", name="Drain", exact=True).wait_for()
        server.until("moves", "running")


def test_gpu_is_drained_and_undrained(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(screen="nodes")
    page.get_by_role("button", name="Drain GPU 3").click()
    form = page.get_by_role("form", name="Drain GPU 3")
    form.get_by_label("Reason").fill("<i>memory errors</i>")
    form.get_by_role("button", name="Yes, drain").click()
    page.get_by_role("cell", name="<i>memory errors</i>", exact=False).wait_for()
    with running(server, "elsewhere", project="vision", gpus=3):
        (node,) = server.get("/api/v1/nodes")["items"]
        assert [device["workloads"] for device in node["devices"]] == [["elsewhere"]] * 3 + [[]]
        assert "memory errors" in run_weir(server, "nodes", "--output", "json")
        go(page, server, "now")
        page.get_by_role("button", name=re.compile("GPU 3 of .*: drained")).wait_for()
        go(page, server, "nodes")
        page.get_by_role("button", name="Undrain GPU 3").click()
        page.get_by_role("button", name="Drain GPU 3").wait_for()


def test_history_shows_what_rest_and_the_command_line_say(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    for by in ("project", "user", "gpu_model"):
        while not all_say_the_same(opened, server, by):
            pass


def sums(server: ServingOnPort, by: str) -> dict[str, Any]:
    """Return what doesn't change while nothing is added to the history."""
    report = server.get(f"/api/v1/history?by={by}&since=30d")
    return {key: report[key] for key in ("rows", "rules", "total")}


def all_say_the_same(opened: Callable[..., Any], server: ServingOnPort, by: str) -> bool:
    """Compare page, interface and command line; return False if the history grew meanwhile, once a minute."""
    rest = sums(server, by)
    page = opened(screen=f"history?by={by}&since=30d")
    table = page.get_by_role("region", name=f"History by {by.replace('gpu_', 'GPU ')}")
    table.wait_for()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save as CSV").click()
    shown = list(csv.DictReader(saving.value.path().read_text().splitlines()))
    report = run_weir(server, "report", "history", "--since", "30d", "--by", by, "--output", "json")
    printed = json.loads(report)
    if sums(server, by) != rest:
        return False
    assert rest["total"]["evicted"] == sum(rule["count"] for rule in rest["rules"]) > 0
    assert rest["total"]["to_quota"]["count"] > 0
    keys = [row[by] for row in shown]
    assert keys == [row["key"] for row in rest["rows"]] == [row["key"] for row in printed["rows"]]
    for key, row in zip(keys, shown, strict=True):
        of_rest = next(each for each in rest["rows"] if each["key"] == key)
        of_cli = next(each for each in printed["rows"] if each["key"] == key)
        for name in ("waits", "to_quota", "evicted", "lost_gpu_s", "idle_gpu_s"):
            assert of_rest[name] == of_cli[name]
        assert float(row["lost_gpu_s"]) == of_rest["lost_gpu_s"]
        for name in ("waits", "to_quota"):
            for part in ("count", "p50_s", "p90_s"):
                answer = row[f"{name}_{part}"]
                assert (float(answer) if answer else None) == of_rest[name][part]
    return True


def test_history_is_replayed_with_more_nodes(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(screen="what-if")
    page.get_by_label("More nodes").fill("1x8")
    page.get_by_label("History to replay").select_option("30d")
    page.get_by_label("Seeds").fill("2")
    page.get_by_role("button", name="Replay").click()
    page.get_by_role("region", name="Comparison").wait_for(timeout=10 * WITHIN_MS)
    (replay,) = server.get("/api/v1/what-if")["items"]
    assert page.url.endswith(f"#/what-if/{replay['id']}")
    assert page.locator("#result").inner_text() == replay["result"]["verdict"]
    page.reload()
    page.get_by_role("heading", name=replay["result"]["verdict"]).wait_for()


def run_weir(server: ServingOnPort, *words: str) -> str:
    """Return what a command prints."""
    env = {**os.environ, "WEIR_HOME": str(server.home)}
    return prefork.run([sys.executable, "-m", "weir", *words], env=env, check=True).stdout


def test_member_sees_and_does_what_rest_allows_them(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    token = server.member("mia", "language")
    with running(server, "secret-run", project="vision") as uid:
        page = opened(token, screen=f"workload/{uid}")
        page.get_by_role("heading", name="secret-run").wait_for()
        page.get_by_text("Only members of vision may change it.").wait_for()
        page.get_by_text("Only its submitter and the leads of vision may read its output.").wait_for()
        page.get_by_role("tab", name="Specification").click()
        page.get_by_text("Only members of vision may read its command.").wait_for()
        assert page.get_by_role("button", name="Stop").count() == 0
        go(page, server, "activity?of=audit")
        page.get_by_role("heading", name="Activity").wait_for()
        assert page.get_by_role("button", name="Audit log").count() == 0
        mine = server.submit("true", name="mine", project="language")
        page.get_by_text("submitted mine to project language").wait_for()
        assert page.get_by_text("secret-run").count() == 0
        go(page, server, "quotas/vision")
        page.get_by_text("Only an administrator may change it.").wait_for()
        go(page, server, "submit")
        page.get_by_label("Project").wait_for()
        assert page.get_by_label("Project").locator("option").all_inner_texts() == ["language"]
        server.until(str(mine["uid"]), "succeeded")


@pytest.mark.parametrize("is_member", [False, True])
def test_four_questions_are_answered_within_two_clicks(
    opened: Callable[..., Any], server: ServingOnPort, is_member: bool
) -> None:
    member = server.member(f"lena-{is_member}", "language")
    with running(server, "borrows", project="vision", gpus=4, preemptible=True):
        owed = server.submit("sleep", "1000", name="owns", project="language", gpus=1)
        server.until("owns", "running")
        waits = server.submit("true", name="asks-more", project="language", gpus=4)
        page = opened(member if is_member else None)
        idle = page.get_by_role("region", name="Held but idle")  # no click
        idle.get_by_role("link", name="owns").wait_for()
        idle.get_by_text("language, root").first.wait_for()
        page.get_by_role("link", name="asks-more", exact=True).click()  # one click
        page.get_by_role("heading", name="Why it waits").wait_for()
        page.get_by_text("What would let it start").or_(
            page.get_by_text("No change of this workload")
        ).wait_for()
        go(page, server, "now")
        screens = page.get_by_role("navigation", name="Screens")
        screens.get_by_role("link", name="History").click()
        page.get_by_role("link", name="until owners got their quota back").click()  # two clicks
        page.get_by_text("language got GPUs of its quota back").first.wait_for()
        go(page, server, "now")
        evicted = page.get_by_role("region", name="Latest evictions")  # no click, or one for all of them
        if is_member:
            evicted.get_by_role("link", name="All").click()
            page.get_by_role("heading", name="Activity").wait_for()
            assert page.get_by_text("borrows").count() == 0  # the workload is of a project of others
        else:
            evicted.get_by_text("reclaim").first.wait_for()
            evicted.get_by_text("borrows").first.wait_for()
        for row in (owed, waits):
            server.ask("POST", f"/api/v1/workloads/{row['uid']}/stop")
            server.until(str(row["uid"]), "stopped")


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


def test_ended_token_ends_the_session(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(server.member("tom", "vision"))
    number = next(row["id"] for row in server.get("/api/v1/tokens")["items"] if row["user"] == "tom")
    server.ask("DELETE", f"/api/v1/tokens/{number}")
    page.get_by_role("button", name="Sign in").wait_for()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 320)])
def test_screens_are_accessible_and_fit(
    opened: Callable[..., Any], server: ServingOnPort, scheme: str, width: int
) -> None:
    name = "a-very-long-name-of-a-workload-in-a-sweep-of-hyperparameters-17"
    with running(server, name, project="vision") as uid:
        waits = server.submit("true", name="pends", project="language", gpus=4)
        page = opened(width=width, scheme=scheme)
        page.evaluate(AXE.read_text())
        wrong: list[tuple[str, str, list[str]]] = []
        for screen in (*SCREENS, f"workload/{uid}", f"workload/{waits['uid']}"):
            go(page, server, screen)
            page.locator("h1").wait_for(state="attached")
            page.get_by_text("Loading", exact=False).first.wait_for(state="detached")
            found = page.evaluate(
                "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations']})"
            )
            wrong += [
                (screen, each["id"], [node["html"][:120] for node in each["nodes"][:2]])
                for each in found["violations"]
            ]
            if page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
                wrong.append((screen, "wider than the window", []))
        server.ask("POST", f"/api/v1/workloads/{waits['uid']}/stop")
    assert not wrong, json.dumps(wrong, indent=1)


def test_keyboard_alone_submits_reads_and_stops(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(screen="submit")
    page.get_by_label("Project").wait_for()
    page.get_by_label("Project").focus()
    page.keyboard.type("vision")
    page.keyboard.press("Tab")
    page.keyboard.type("typed")
    page.get_by_label("Command of every pod").focus()
    page.keyboard.type("sleep 1000")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="typed").wait_for()
    server.until("typed", "running")
    page.get_by_role("button", name="Stop").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Yes, stop").focus()
    page.keyboard.press("Enter")
    server.until("typed", "stopped")
