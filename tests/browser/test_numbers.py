"""Every number of the page equals that of REST, and of `weir report`: a pool with a recorded week."""

import csv
import json
from collections.abc import Callable
from typing import Any

import pytest

from weir.model.reasons import rule_phrase

from .page_tables import CELLS, become_equal, cells
from .pages import WITHIN_MS, busy, go, run_weir
from .serving import ServingOnPort
from .written import (
    NOTHING,
    both,
    counted,
    hours,
    number,
    or_nothing,
    percent,
    size,
    span,
)

PERIODS = ("1d", "7d", "30d", "365d")
BYS = ("project", "department", "user", "type", "node", "gpu_model")


def workloads(server: ServingOnPort) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.get("/api/v1/workloads?limit=1000")["items"]
    return sorted(found, key=lambda row: -row["uid"])


def devices(server: ServingOnPort) -> list[dict[str, Any]]:
    return [each for node in server.get("/api/v1/nodes")["items"] for each in node["devices"]]


def is_idle(device: dict[str, Any]) -> bool:
    return device["allocated"] > 0 and device["use"] is not None and device["use"] < 0.05


def test_now_equals_rest(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened()

    def tiles() -> list[str]:
        status, gpus = server.get("/api/v1/status"), devices(server)
        free = sum(each["allocated"] == 0 for each in gpus)
        idle = sum(each["allocated"] for each in filter(is_idle, gpus))
        return [
            f"{number(status['allocated'])} of {counted(len(gpus), 'GPU')} allocated",
            f"{number(status['running'])} running",
            f"{number(status['pending'])} pending",
            f"{number(idle)} {'GPU' if idle == 1 else 'GPUs'} allocated but idle",
            f"{number(free)} {'GPU' if free == 1 else 'GPUs'} free for a gang to start now",
        ]

    def projects() -> list[list[str]]:
        rows = [row for row in server.get("/api/v1/projects")["items"] if row["kind"] == "project"]
        return sorted(
            [
                row["name"],
                number(row["allocated"].get("gpu", 0)),
                number(row["quota"].get("gpu", 0)),
                number(row["pending"]),
            ]
            for row in rows
        )

    def queue() -> list[str]:
        head = sorted(
            (row for row in workloads(server) if row["status"] == "pending"),
            key=lambda row: (-row["priority"], row["submitted_s"]),
        )
        return [f"{row['name']} {counted(row['devices'], 'GPU')}" for row in head]

    def holdings() -> dict[str, str]:
        held: dict[str, float] = {}
        sizes = {row["name"]: row["devices"] for row in workloads(server)}
        for device in filter(is_idle, devices(server)):
            for name in device["workloads"]:
                held[name] = held.get(name, 0) + min(1, sizes[name])
        return {name: counted(gpus, "GPU") for name, gpus in held.items()}

    def flat(locator: Any) -> list[str]:
        return [" ".join(text.split()) for text in locator.all_inner_texts()]

    with busy(server):
        become_equal(page, lambda: flat(page.locator(".tile")), tiles)
        shown = page.get_by_role("region", name="Projects")
        become_equal(
            page, lambda: sorted(row[:4] for row in shown.evaluate(CELLS) if len(row) == 4), projects
        )
        head = page.get_by_role("region", name="Pending by priority and age").locator(".waits .spread")
        become_equal(page, lambda: [text.split(" · ")[0] for text in flat(head)], queue)
        idle = page.get_by_role("region", name="Allocated but idle").locator(".waits .spread")
        become_equal(page, lambda: dict(text.split(" ", 1) for text in flat(idle)), holdings)


def test_workloads_equal_rest(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(screen="workloads")

    def expected() -> list[list[str]]:
        return [
            [
                *(row["name"], row["project"], row["user"], row["type"], row["status"]),
                number(row["devices"]),
                "" if row["reason"] is None else row["reason"]["why"].replace("_", " "),
            ]
            for row in workloads(server)
        ]

    def shown() -> list[list[str]]:
        rows = cells(page, "List of workloads")
        return [[*row[1:5], row[5].split()[-1], row[6], row[9]] for row in rows]

    with busy(server) as numbers:
        become_equal(page, shown, expected)
        total = server.get("/api/v1/workloads")["total"]
        assert page.locator(".chosen .count").inner_text() == counted(total, "workload")
        ran = {row[1]: row[8] for row in cells(page, "List of workloads")}
        assert ran["waits-for-4"] == NOTHING
        assert ran["borrows-2"] != NOTHING
        for name, path in (("holds-half", "holds"), ("waits-for-4", "waits")):
            go(page, server, f"workload/{numbers[path]}")
            page.get_by_role("heading", name=name).wait_for()
            one_workload_equals_rest(page, server, name)


def one_workload_equals_rest(page: Any, server: ServingOnPort, name: str) -> None:
    """Compare the page of a workload."""
    detail = server.get(f"/api/v1/workloads/{name}")
    facts = f"{detail['type']}, {counted(detail['devices'], 'GPU')}, priority {detail['priority']}"
    page.locator(".facts", has_text=facts).wait_for()
    if detail["status"] == "pending":
        why = server.get(f"/api/v1/workloads/{name}/why")
        place = f"number {why['position']} of {why['waiting']} in the queue of {detail['project']}"
        page.get_by_role("region", name="Why it waits").get_by_text(place).wait_for()
        expected = [
            [
                queue["name"],
                number(queue["allocated"].get("gpu", 0)),
                "none" if "gpu" not in queue["quota"] else number(queue["quota"]["gpu"]),
                number(queue["share"].get("gpu", 0)),
                str(queue["pending"]),
            ]
            for queue in why["queues"]
        ]
        become_equal(page, lambda: cells(page, "Quotas above it"), lambda: expected)
        return

    def pods() -> list[list[str]]:
        used = {each["index"]: each for each in devices(server)}
        rows = []
        for pod in server.get(f"/api/v1/workloads/{name}")["pod_rows"]:
            own = [used[index] for index in pod["devices"]]
            use = [each["use"] for each in own if each["use"] is not None]
            memory = [each["memory_used"] for each in own if each["memory_used"] is not None]
            rows.append(
                [
                    ", ".join(map(str, pod["devices"])),
                    percent(sum(use) / len(own)) if use else NOTHING,
                    size(sum(memory)) if memory else NOTHING,
                ]
            )
        return rows

    become_equal(page, lambda: [row[3:6] for row in cells(page, "Pods and GPUs")], pods)
    life = page.get_by_role("region", name="Life").locator("small").first
    start_s, submitted_s = detail["started_s"], detail["submitted_s"]
    assert f"{span(start_s - submitted_s)} pending" in life.inner_text()


def test_quotas_equal_rest(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(screen="quotas")

    def expected() -> list[list[str]]:
        rows = server.get("/api/v1/projects")["items"] + server.get("/api/v1/departments")["items"]
        found = []
        for row in rows:
            quota = row["quota"].get("gpu", 0 if row["kind"] == "project" else None)
            held = row["allocated"].get("gpu", 0)
            over = 0 if quota is None else max(0, held - quota)
            found.append(
                [
                    row["name"],
                    number(held),
                    or_nothing(quota).replace(NOTHING, "none") + (" (sum)" if row["follows"] else ""),
                    number(row["share"].get("gpu", 0)),
                    number(over) if over else NOTHING,
                    number(row["pending"]) if row["pending"] else NOTHING,
                    or_nothing(row["limit"].get("gpu")).replace(NOTHING, "none"),
                    number(row["weight"].get("gpu", 1)),
                    str(row["priority"]),
                ]
            )
        return sorted(found)

    def shown() -> list[list[str]]:
        rows = cells(page, "Departments and projects")
        return sorted([row[0].split()[0], *row[2:]] for row in rows)

    with busy(server):
        become_equal(page, shown, expected)


def test_nodes_equal_rest(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(screen="nodes")
    (name,) = [node["name"] for node in server.get("/api/v1/nodes")["items"]]

    def state(device: dict[str, Any]) -> str:
        if device["allocated"] <= 0:
            return "free"
        if is_idle(device):
            return "allocated but idle"
        return "allocated" if device["allocated"] >= 1 else f"{percent(device['allocated'])} allocated"

    def expected() -> list[list[str]]:
        return [
            [
                str(device["index"]),
                state(device),
                or_nothing(device["use"], percent),
                size(device["memory"])
                if device["memory_used"] is None
                else f"{size(device['memory_used'])} of {size(device['memory'])}",
            ]
            for device in devices(server)
        ]

    def facts() -> str:
        (node,) = server.get("/api/v1/nodes")["items"]
        held, all_ = node["allocated"], node["capacity"]
        return (
            f"GPUs {number(held['gpu'])} of {number(all_['gpu'])} "
            f"cores {number(held['cpu'])} of {number(all_['cpu'])} "
            f"memory {size(held['memory'])} of {size(all_['memory'])}"
        )

    with busy(server):
        become_equal(page, lambda: [row[:4] for row in cells(page, f"GPUs of {name}")], expected)
        shown = page.locator(".facts")
        become_equal(page, lambda: " ".join(shown.inner_text().split())[: len(facts())], facts)


def report(server: ServingOnPort, by: str, since: str) -> dict[str, Any]:
    found: dict[str, Any] = server.get(f"/api/v1/history?by={by}&since={since}")
    return found


@pytest.mark.parametrize("since", PERIODS)
def test_history_equals_rest(opened: Callable[..., Any], server: ServingOnPort, since: str) -> None:
    page = opened(screen=f"history?by=project&since={since}")
    page.locator("figure").first.wait_for()
    gpus = len(devices(server))

    def tiles(found: dict[str, Any]) -> list[str]:
        total = found["total"]
        part = total["allocated_gpu_s"] / ((found["until_s"] - found["since_s"]) * gpus)
        used = "" if total["used_gpu_s"] is None else f"; {hours(total['used_gpu_s'])} used"
        waits, back, evicted = total["waits"], total["to_quota"], total["evicted"]
        return [
            f"{hours(total['allocated_gpu_s'])} GPU-hours allocated, {percent(part)} of the pool's {gpus} GPUs",
            f"{or_nothing(total['idle_gpu_s'], hours)} GPU-hours allocated but idle{used}",
            f"{both(waits)} wait to the first start: P50 / P90 of {counted(waits['count'], 'workload')}",
            f"{both(back)} until owners got their quota back: P50 / P90, {counted(back['count'], 'time')}",
            f"{number(evicted)} {'eviction' if evicted == 1 else 'evictions'}, {hours(total['lost_gpu_s'])} GPU-hours lost",
        ]

    def rows(found: dict[str, Any]) -> list[list[str]]:
        return [
            [
                row["key"] or NOTHING,
                hours(row["allocated_gpu_s"]),
                percent(row["used_gpu_s"] / row["allocated_gpu_s"])
                if row["used_gpu_s"] is not None and row["allocated_gpu_s"]
                else NOTHING,
                or_nothing(row["idle_gpu_s"], hours),
                both(row["waits"]),
                both(row["to_quota"]),
                number(row["evicted"]),
                hours(row["lost_gpu_s"]),
            ]
            for row in found["rows"]
        ]

    def all_of(found: dict[str, Any]) -> tuple[Any, ...]:
        rules = [[rule_phrase(r["rule"]), number(r["count"]), hours(r["lost_gpu_s"])] for r in found["rules"]]
        return tiles(found), rows(found), rules

    def shown() -> tuple[Any, ...]:
        page.get_by_role("button", name="Read again").click()
        found = page.locator(".tiles .card").all_inner_texts()
        table = [[row[0], *row[2:]] for row in cells(page, f"History by {by.replace('gpu_', 'GPU ')}")]
        rules = page.locator("table.rules")
        return (
            [" ".join(each.split()) for each in found],
            table,
            rules.evaluate(CELLS) if rules.count() else [],
        )

    for by in BYS if since == "30d" else BYS[:1]:
        go(page, server, f"history?by={by}&since={since}")
        page.get_by_role("region", name=f"History by {by.replace('gpu_', 'GPU ')}", exact=True).wait_for()
        become_equal(page, shown, lambda by=by: all_of(report(server, by, since)))


def test_history_as_csv_and_by_command_equals_rest(opened: Callable[..., Any], server: ServingOnPort) -> None:
    for by in ("project", "user", "gpu_model"):
        while not all_say_the_same(opened, server, by):
            pass


def sums(server: ServingOnPort, by: str) -> dict[str, Any]:
    """Return what doesn't change while nothing is added to the history."""
    found = report(server, by, "30d")
    return {key: found[key] for key in ("rows", "rules", "total")}


def all_say_the_same(opened: Callable[..., Any], server: ServingOnPort, by: str) -> bool:
    """Compare page, interface and command line; return False if the history grew meanwhile, once a minute."""
    rest = sums(server, by)
    page = opened(screen=f"history?by={by}&since=30d")
    table = page.get_by_role("region", name=f"History by {by.replace('gpu_', 'GPU ')}")
    table.wait_for()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save as CSV").click()
    shown = list(csv.DictReader(saving.value.path().read_text().splitlines()))
    printed = json.loads(
        run_weir(server, "report", "history", "--since", "30d", "--by", by, "--output", "json")
    )
    if sums(server, by) != rest:
        return False
    assert rest["total"]["evicted"] == sum(rule["count"] for rule in rest["rules"]) > 0
    assert rest["total"]["to_quota"]["count"] > 0
    assert {key: printed[key] for key in rest} == rest
    for row, of_rest in zip(shown, rest["rows"], strict=True):
        assert row.pop(by) == of_rest["key"]
        for name, text in row.items():
            times, _, part = name.partition("_")
            if name.startswith("to_quota"):
                times, part = "to_quota", name.removeprefix("to_quota_")
            value = of_rest[times][part] if times in ("waits", "to_quota") else of_rest[name]
            assert (float(text) if text else None) == value, name
    return True


def test_what_if_equals_rest(opened: Callable[..., Any], server: ServingOnPort) -> None:
    asked = {"alternatives": ["quota.vision=1", "add-nodes=1x4"], "since": "30d", "seeds": 1}
    status, made = server.ask("POST", "/api/v1/what-if", asked)
    assert status == 202, made
    page = opened(screen=f"what-if/{made['id']}")
    page.get_by_role("region", name="Comparison").wait_for(timeout=10 * WITHIN_MS)
    result = server.get(f"/api/v1/what-if/{made['id']}")["result"]
    alternatives = result["alternatives"]
    times = ("wait", "completion", "entitled_wait")

    def write(key: str, value: float) -> str:
        return percent(value) if key == "allocation" else span(value) if key in times else number(value)

    expected = [
        [write(key, each["numbers"][key]["mean"]) for each in alternatives]
        for key in alternatives[0]["numbers"]
    ]
    expected += [
        [span(each["by_project"][name]["wait"]["mean"]) for each in alternatives]
        for name in alternatives[0]["by_project"]
    ]
    means = "each => [...each.querySelectorAll('tbody tr')].map(row => [...row.querySelectorAll('td.number > span')].map(cell => cell.innerText))"
    assert page.get_by_role("region", name="Comparison").evaluate(means) == expected
    assert page.locator("#result").inner_text() == result["verdict"]
    server.ask("DELETE", f"/api/v1/what-if/{made['id']}")


def test_activity_equals_rest(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened(screen="activity?kind=quota_met")
    events = server.get("/api/v1/events?kind=quota_met&limit=1000")["items"]
    assert events
    become_equal(
        page,
        lambda: page.get_by_role("region", name="Events").locator("li > span").all_inner_texts(),
        lambda: [event["sentence"] for event in events[:100]],
    )
    assert page.get_by_role("status").get_by_text(counted(len(events), "event")).count() == 1
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save as CSV").click()
    saved = list(csv.DictReader(saving.value.path().read_text().splitlines()))
    assert [row["sentence"] for row in saved] == [event["sentence"] for event in events]
