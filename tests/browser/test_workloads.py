"""Workloads: submitted, read, changed, filtered and stopped in the page."""

from collections.abc import Callable
from typing import Any

from .pages import COUNTS, running, until
from .serving import ServingOnPort


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
    page.get_by_text("1 line matches").wait_for()
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
        page.get_by_role("button", name="Change priority of 2").click()
        page.get_by_label("Priority").fill("33")
        page.get_by_role("button", name="Set").click()
        for name in ("one", "two"):
            until(page, lambda name=name: server.get(f"/api/v1/workloads/{name}")["priority"] == 33)
        page.get_by_role("button", name="Set").wait_for(state="detached")  # with it, the choice is forgotten
        assert server.get("/api/v1/workloads/other")["priority"] != 33
        page.get_by_label("Choose one").check()
        page.get_by_label("Choose two").check()
        page.get_by_role("button", name="Stop 2").click()
        page.get_by_role("button", name="Yes, stop").click()
        page.get_by_text("No workload matches the filter.").wait_for()
        page.get_by_label("Filter").fill("")
        table.get_by_role("link", name="other").wait_for()
    page.get_by_role("button", name="Ended").click()
    page.get_by_role("button", name="Ended", pressed=True).wait_for()
    assert "status%3A" in page.url
    states = page.get_by_label("Filter").input_value()
    page.get_by_label("Filter").fill(
        f"{states} one"
    )  # other tests' work has ended, too, and the table has a window
    page.get_by_role("table").get_by_role("link", name="one", exact=True).first.wait_for()
