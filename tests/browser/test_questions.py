"""Answers of the page: the state of the pool, its history, and the rights of a member."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from .pages import go, running, until
from .serving import ServingOnPort


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

        def counts() -> list[str]:
            status = server.get("/api/v1/status")
            return [f"{status['allocated']:g}", str(status["running"]), str(status["pending"])]

        tiles = page.locator(".tile b")
        until(page, lambda: [tile.split()[0] for tile in tiles.all_inner_texts()[:3]] == counts())
        waits = server.submit("true", name="waits", project="language", gpus=4)
        page.get_by_role("link", name="waits", exact=True).click()
        page.get_by_role("heading", name="Why it waits").wait_for()
        sentence = server.get("/api/v1/workloads/waits/why")["reason"]["sentence"]
        page.get_by_text(sentence).first.wait_for()
        page.get_by_text("What would let it start").wait_for()
        server.ask("POST", f"/api/v1/workloads/{waits['uid']}/stop")
    go(page, server, "now")
    page.get_by_text("Nothing waits. Submit a workload", exact=True).wait_for()


def test_member_sees_and_does_what_rest_allows_them(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    token = server.member("mia", "language")
    with running(server, "secret-run", project="vision") as uid:
        page = opened(token, screen=f"workload/{uid}")
        page.get_by_role("heading", name="secret-run").wait_for()
        page.get_by_text("Only its submitter and the leads of vision may change it.").wait_for()
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
        idle = page.get_by_role("region", name="Allocated but idle")  # no click
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
        for row in (waits, owed):  # it would start in place of what stops first
            server.ask("POST", f"/api/v1/workloads/{row['uid']}/stop")
            server.until(str(row["uid"]), "stopped")
