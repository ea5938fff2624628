"""The page of an array with its indices, and the settings of notifications."""

from collections.abc import Callable
from typing import Any

from .pages import go, until
from .serving import ServingOnPort

FAILS_AT_2 = 'echo "part $WEIR_ARRAY_INDEX"; [ $WEIR_ARRAY_INDEX != 2 ] || exit 3; [ $WEIR_ARRAY_INDEX = 1 ] || sleep 3600'


def test_the_page_of_an_array_lists_stops_and_opens_its_indices(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    array = server.submit(
        "bash", "-c", FAILS_AT_2, name="grid", project="vision", gpus=0, array="1-120%2", retries=0
    )
    try:
        page = opened(screen=f"workload/{array['uid']}")
        page.get_by_role("heading", name="grid", exact=True).wait_for()
        section = page.get_by_role("region", name="Indices", exact=True).first
        section.get_by_role("status").filter(has_text="120 indices").wait_for()
        rows = section.locator("tbody tr")
        rows.nth(0).filter(has_text="succeeded").wait_for()
        rows.nth(1).filter(has_text="failed").wait_for()
        assert "3" in (rows.nth(1).inner_text())
        rows.nth(2).filter(has_text="running").wait_for()
        assert rows.count() == 50
        rows.nth(2).get_by_role("button", name="Stop index 3").click()
        rows.nth(2).get_by_role("button", name="Yes, stop 3").click()
        rows.nth(2).filter(has_text="stopped").wait_for()
        rows.nth(49).get_by_role("button", name="Stop index 50").click()
        rows.nth(49).get_by_role("button", name="Yes, stop 50").click()
        rows.nth(49).filter(has_text="stopped").wait_for()
        section.get_by_role("button", name="Next").click()
        rows.nth(0).filter(has_text="51").wait_for()
        section.get_by_role("button", name="Previous").click()
        rows.nth(0).get_by_role("link", name="Log of index 1").click()
        page.get_by_text("part 1", exact=True).wait_for()
        page.get_by_role("link", name="grid", exact=True).click()
        section.get_by_label("From index").fill("100")
        section.get_by_role("button", name="Show").click()
        until(page, lambda: rows.nth(0).inner_text().startswith("100"))
        assert rows.count() == 21
        page.get_by_role("tab", name="Log").wait_for(state="detached")
    finally:
        server.ask("POST", f"/api/v1/workloads/{array['uid']}/stop")
        server.until(str(array["uid"]), "stopped")


def test_an_index_on_a_gpu_is_a_link_to_its_page(opened: Callable[..., Any], server: ServingOnPort) -> None:
    array = server.submit("sleep", "3600", name="held", project="vision", gpus=1, array="7-8%1")
    try:
        page = opened(screen="nodes")
        page.get_by_role("link", name="held[7]").first.click()
        page.get_by_role("heading", name="held[7]", exact=True).wait_for()
        page.get_by_role("heading", name="Life").wait_for()
    finally:
        server.ask("POST", f"/api/v1/workloads/{array['uid']}/stop")
        server.until(str(array["uid"]), "stopped")


def test_notifications_are_added_refused_tested_and_removed(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened()
    page.get_by_role("link", name="Notifications").click()
    page.get_by_text("You have none").wait_for()
    form = page.get_by_role("region", name="Add a notification")
    form.get_by_label("Channel").select_option("mail")
    form.get_by_label("Mail address").fill("mia@example.org")
    form.get_by_role("button", name="Add").click()
    form.get_by_role("alert").filter(has_text="mail").wait_for()
    form.get_by_label("Channel").select_option("desktop")
    form.get_by_label("Quiet from").fill("22:00")
    form.get_by_label("Quiet until").fill("07:00")
    form.get_by_label("Digest, such as 1h").fill("30m")
    form.get_by_label("it starts").check()
    form.get_by_label("idle rules are about to act").uncheck()
    form.get_by_role("button", name="Add").click()
    rules = page.get_by_role("region", name="Your notifications").locator("tbody tr")
    rules.first.wait_for()
    made = server.get("/api/v1/notifications")["items"]
    assert [(each["channel"], set(each["on"]), each["quiet"], each["digest_s"]) for each in made] == [
        ("desktop", {"start", "end", "eviction"}, "22:00-07:00", 1800.0)
    ]
    assert "22:00-07:00" in rules.first.inner_text()
    rules.first.get_by_role("button", name="Remove").click()
    rules.first.get_by_role("button", name="Yes, remove").click()
    page.get_by_text("You have none").wait_for()
    assert server.get("/api/v1/notifications")["items"] == []


def test_deliveries_are_listed_by_state(opened: Callable[..., Any], server: ServingOnPort) -> None:
    status, made = server.ask("POST", "/api/v1/notifications", {"channel": "desktop", "on": ["end"]})
    assert status == 201, made
    try:
        server.submit("true", name="told", project="vision", gpus=0)
        server.until("told", "succeeded")
        page = opened(screen="notifications")
        deliveries = page.get_by_role("region", name="Deliveries").first

        def is_listed() -> bool:
            server.get("/api/v1/notifications/desktop")  # what waits becomes a message as the desktop asks
            deliveries.get_by_role("button", name="Refresh").click()
            return bool(deliveries.locator("tbody tr").count()) and "told" in deliveries.inner_text()

        until(page, is_listed)
        deliveries.get_by_label("State").select_option("failed")
        deliveries.get_by_text("No message is failed").wait_for()
    finally:
        server.ask("DELETE", f"/api/v1/notifications/{made['id']}")
        go(page, server, "now")
