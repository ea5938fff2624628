"""Quotas, nodes, priorities and replays, changed in the page."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from .pages import WITHIN_MS, go, run_weir, running
from .serving import ServingOnPort

CUT = """() => [...document.querySelectorAll('input[placeholder]')].filter((field) => {
  const pen = document.createElement('canvas').getContext('2d'), style = getComputedStyle(field)
  pen.font = style.font
  const space = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)
  return pen.measureText(field.placeholder).width > space
}).map((field) => field.placeholder)"""
"""Placeholders that don't fit their fields."""
FIELD = "%Y-%m-%dT%H:%M"
"""Times as the browser's fields have them."""


SETTINGS: dict[str, Any] = {
    "quota": {"gpu": 1, "cpu": 8},
    "limit": {"memory": "64Gi"},
    "weight": {"gpu": 2},
    "max_priority": 90,
    "max_priority_of": {"mia": 60},
    "person_limits": {"gpus": 3, "max_runtime": "5h"},
    "person_limits_of": {"mia": {"running": 2}},
    "defaults": {"type": "build", "gpus": 0.5, "grace": "20s", "max_runtime": "2h"},
    "times": {"idle_limit": "1h"},
}
"""A project with every setting that the form doesn't show."""


def settings_of(server: ServingOnPort, project: str) -> dict[str, Any]:
    numbers = ("quota", "allocated", "share", "running", "pending", "warnings", "version")
    row = server.get(f"/api/v1/projects/{project}")
    return {key: value for key, value in row.items() if key not in numbers}


def test_quota_is_previewed_and_saved(opened: Callable[..., Any], server: ServingOnPort) -> None:
    server.put("projects", "language", **SETTINGS)
    before = settings_of(server, "language")
    assert not {key for key in SETTINGS if not before.get(key)} - {"quota"}
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
        assert server.get("/api/v1/projects/language")["quota"] == {"gpu": 2, "cpu": 8}
        assert settings_of(server, "language") == before
        server.until("asks", "running")
        server.ask("POST", f"/api/v1/workloads/{waits['uid']}/stop")
        server.until("asks", "stopped")
    server.put("projects", "language", quota={"gpu": 1})


def test_two_administrators_lose_none_of_each_others_changes(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    server.put("projects", "language", quota={"gpu": 1})
    page = opened(screen="quotas/language")
    saves = page.get_by_role("button", name="Save")
    previews = page.get_by_role("button", name="Preview the effect")
    page.get_by_label("GPU quota").fill("2")
    page.get_by_label("Weight of idle GPUs").fill("3")
    previews.click()
    page.get_by_text("Nothing has changed yet").wait_for()
    server.put("projects", "language", quota={"gpu": 4}, limit={"gpu": 6})
    saves.click()
    notice = page.get_by_role("alert").filter(has_text="Another person has changed language")
    notice.get_by_text("GPU quota: now 4, before 1").wait_for()
    assert server.get("/api/v1/projects/language")["quota"] == {"gpu": 4}
    fields = [page.get_by_label(name) for name in ("GPU quota", "GPU limit", "Weight of idle GPUs")]
    assert [field.input_value() for field in fields] == ["2", "6", "3"]
    previews.click()
    saves.click()
    page.get_by_text("Saved.").wait_for()
    notice.wait_for(state="detached")
    saved = server.get("/api/v1/projects/language")
    assert (saved["quota"], saved["limit"], saved["weight"]) == ({"gpu": 2}, {"gpu": 6}, {"gpu": 3})
    server.put("projects", "language", quota={"gpu": 1})


def test_hints_in_the_fields_of_a_quota_are_shown_completely(opened: Callable[..., Any]) -> None:
    for width in (1280, 400):
        page = opened(screen="quotas/language", width=width)
        page.get_by_label("Idle: stop after").wait_for()
        assert page.evaluate(CUT) == []


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


def test_maintenance_and_a_drain_at_a_time_are_announced_and_withdrawn(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened(screen="nodes")
    day = timedelta(days=1)
    tomorrow = datetime.now().replace(hour=18, minute=0, second=0, microsecond=0) + day  # noqa: DTZ005
    page.get_by_role("button", name="Announce maintenance").click()
    form = page.get_by_role("form", name="Maintenance of")
    form.get_by_label("From", exact=True).fill(f"{tomorrow:{FIELD}}")
    form.get_by_label("Until", exact=True).fill(f"{tomorrow - day / 24:{FIELD}}")
    form.get_by_label("GPUs, all if empty").fill("2, 9")
    form.get_by_label("Reason").fill("<b>disks</b>")
    form.get_by_role("button", name="Announce").click()
    page.get_by_role("alert").get_by_text("ends before it begins").wait_for()
    page.get_by_role("alert").get_by_text("has no GPU 9").wait_for()
    form.get_by_label("Until", exact=True).fill(f"{tomorrow + day / 6:{FIELD}}")
    form.get_by_label("GPUs, all if empty").fill("2, 3")
    form.get_by_role("button", name="Announce").click()
    announced = page.get_by_role("list", name="Announced for")
    announced.get_by_text("<b>disks</b>").wait_for()
    announced.get_by_text("GPUs 2, 3").wait_for()
    (window,) = server.get("/api/v1/maintenance")["items"]
    assert (window["from_s"], window["until_s"]) == (
        tomorrow.timestamp(),
        (tomorrow + day / 6).timestamp(),
    )
    assert (window["gpus"], window["running"]) == ([2, 3], "evict")
    announced.get_by_role("button", name="Withdraw").click()
    announced.wait_for(state="detached")
    assert server.get("/api/v1/maintenance")["items"] == []
    page.get_by_role("button", name="Drain", exact=True).click()
    form = page.get_by_role("form", name="Drain", exact=False)
    form.get_by_label("When").fill(f"{tomorrow:{FIELD}}")
    form.get_by_label("Running work").select_option("finish")
    form.get_by_role("button", name="Yes, drain").click()
    announced.get_by_text("drained at").wait_for()
    (drain,) = server.get("/api/v1/maintenance")["items"]
    assert (drain["from_s"], drain["until_s"], drain["running"]) == (tomorrow.timestamp(), None, "finish")
    announced.get_by_role("button", name="Withdraw").click()
    announced.wait_for(state="detached")


def test_a_time_that_has_passed_evicts_no_work_unasked(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened(screen="nodes")
    hour = timedelta(hours=1)
    past, until = (datetime.now() + by for by in (-hour, hour))  # noqa: DTZ005 - of the browser's zone
    with running(server, "stays", project="vision"):
        page.get_by_role("button", name="Drain", exact=True).click()
        form = page.get_by_role("form", name="Drain", exact=False)
        form.get_by_label("When").fill(f"{past:{FIELD}}")
        form.get_by_role("button", name="Yes, drain").click()
        page.get_by_role("alert").get_by_text("The drain would begin now").wait_for()
        form.get_by_role("button", name="No").click()
        page.get_by_role("button", name="Announce maintenance").click()
        form = page.get_by_role("form", name="Maintenance of")
        form.get_by_label("From", exact=True).fill(f"{past:{FIELD}}")
        form.get_by_label("Until", exact=True).fill(f"{until:{FIELD}}")
        form.get_by_role("button", name="Announce").click()
        form.get_by_text("The window would begin now").wait_for()
        assert server.get("/api/v1/maintenance")["items"] == []
        assert server.get("/api/v1/workloads/stays")["status"] == "running"
        form.get_by_role("button", name="Yes, announce").click()
        page.get_by_role("list", name="Announced for").get_by_role("button", name="End now").click()
        server.until("stays", "running")


def test_audit_log_tells_of_newer_lines(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(screen="activity?of=audit")
    page.get_by_role("button", name="Read again").wait_for()
    status, _ = server.ask("GET", "/api/v1/tokens", token="x" * 30)
    assert status == 401
    page.get_by_role("button", name=re.compile("Read .* newer line")).click()
    page.get_by_role("region", name="Audit log").get_by_text("GET /api/v1/tokens").first.wait_for()
    page.get_by_role("button", name="Read again").wait_for()


def test_running_replay_is_canceled(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(screen="what-if")
    asked = {"alternatives": ["add-nodes=1x8", "add-nodes=2x8"], "since": "30d", "seeds": 10}
    status, made = server.ask("POST", "/api/v1/what-if", asked)
    assert status == 202, made
    go(page, server, f"what-if/{made['id']}")
    cancel = page.get_by_role("button", name="Cancel").or_(page.get_by_role("button", name="Delete"))
    cancel.click()
    page.get_by_text("None yet.").wait_for()
    assert server.get("/api/v1/what-if")["items"] == []


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
