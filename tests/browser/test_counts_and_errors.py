"""Counts of arrays and of queues agree in words, and an answer that fails is never shown as an empty one."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .pages import go, running
from .serving import ServingOnPort

FAILS_LATER = "[ -e begun ] && { echo again; sleep 3600; }; touch begun; echo first; until [ -e seen ]; do sleep 0.1; done; exit 3"
FAILS_ONCE = "[ -e begun ] && echo again || { touch begun; echo first; exit 3; }"


def test_pending_indices_behind_a_running_one_are_counted_apart(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened()
    with running(server, "holds-three", project="vision", gpus=3):
        array = server.submit("sleep", "3600", name="parts", project="language", gpus=1, array="0-9")
        server.until("parts", "running")
        waits = server.submit("true", name="waits-behind", project="language", gpus=2)
        page.locator(".tile", has_text="pending").filter(
            has_text=re.compile(r"^1\s+and 9 indices of running arrays")
        ).wait_for()
        go(page, server, f"workload/{waits['uid']}")
        page.get_by_text("number 10 of 10 in the queue of language, where each index of an array counts").or_(
            page.get_by_text("number 1 of 10 in the queue of language, where each index of an array counts")
        ).wait_for()
        for row in (waits, array):
            server.ask("POST", f"/api/v1/workloads/{row['uid']}/stop")
            server.until(str(row["uid"]), "stopped")


@pytest.mark.parametrize(
    ("screen", "path"),
    [
        ("workloads?q=status:failed", "workloads"),
        ("sweeps", "sweeps"),
        ("notifications", "notifications"),
        ("what-if", "what-if"),
    ],
)
def test_list_that_fails_is_no_empty_list(
    opened: Callable[..., Any], server: ServingOnPort, screen: str, path: str
) -> None:
    page = opened()
    pattern = re.compile(rf"/api/v1/{path}(/deliveries)?(\?|$)")
    page.route(pattern, lambda route: route.fulfill(status=500, body="no"))
    go(page, server, screen)
    page.get_by_role("alert").filter(has_text="The server answered 500.").wait_for()
    assert (
        page.get_by_text(
            re.compile(
                "No workload matches|0 workloads|Loading|There are no sweeps|None yet|You have none|Nothing has been sent"
            )
        ).count()
        == 0
    )
    go(page, server, "workloads")
    page.get_by_text(re.compile(r"\d+ workloads?$")).wait_for()
    assert page.get_by_role("alert").count() == 0
    page.unroute(pattern)


def test_workload_whose_answer_fails_is_read_again(opened: Callable[..., Any], server: ServingOnPort) -> None:
    row = server.submit("true", name="read-again", project="vision", gpus=0)
    server.until(str(row["uid"]), "succeeded")
    page = opened()
    pattern = re.compile(rf"/api/v1/workloads/{row['uid']}$")
    page.route(pattern, lambda route: route.fulfill(status=503, body="no"))
    go(page, server, f"workload/{row['uid']}")
    page.get_by_role("alert").filter(has_text="The server answered 503.").wait_for()
    assert page.get_by_role("heading", level=1).count() == 1
    page.unroute(pattern)
    page.get_by_role("heading", name="Life").wait_for()
    assert page.get_by_role("alert").count() == 0


def test_workload_whose_answer_fails_after_its_page_was_left_is_not_read_again(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    row = server.submit("true", name="left-early", project="vision", gpus=0)
    server.until(str(row["uid"]), "succeeded")
    page = opened()
    asked: list[Any] = []

    def keep(route: Any) -> None:
        asked.append(route)

    pattern = re.compile(r"/api/v1/workloads/[^/]*$")
    page.route(pattern, keep)
    go(page, server, f"workload/{row['uid']}")
    while not asked:
        page.wait_for_timeout(50)
    go(page, server, "sweeps")
    page.get_by_role("heading", name="Sweeps").wait_for()
    for each in asked:
        each.fulfill(status=503, body="no")
    count = len(asked)
    page.wait_for_timeout(7_000)
    assert len(asked) == count
    page.unroute(pattern)


def test_log_names_the_start_whose_output_it_shows(
    opened: Callable[..., Any], server: ServingOnPort, tmp_path: Path
) -> None:
    more: dict[str, Any] = {"project": "vision", "gpus": 0, "retries": 1, "directory": str(tmp_path)}
    row = server.submit("bash", "-c", FAILS_ONCE, name="fails-once", **more)
    server.until(str(row["uid"]), "succeeded")
    page = opened(screen=f"workload/{row['uid']}?tab=log")
    page.get_by_text("This is the output of start 2. weir logs fails-once --start 1 prints").wait_for()
    output = page.get_by_role("region", name="Output")
    output.get_by_text("again").wait_for()
    assert output.get_by_text("first").count() == 0


def test_followed_log_has_a_line_before_the_output_of_a_later_start(
    opened: Callable[..., Any], server: ServingOnPort, tmp_path: Path
) -> None:
    page = opened()
    more: dict[str, Any] = {"project": "vision", "gpus": 0, "retries": 1, "directory": str(tmp_path)}
    row = server.submit("bash", "-c", FAILS_LATER, name="begins-again", **more)
    go(page, server, f"workload/{row['uid']}?tab=log")
    output = page.get_by_role("region", name="Output")
    output.get_by_text("first").wait_for()
    (tmp_path / "seen").touch()
    output.get_by_text("again").wait_for()
    lines = [line.split(",")[0] for line in output.inner_text().split("\n") if line]
    assert lines == ["first", "start 2", "again"]
    server.ask("POST", f"/api/v1/workloads/{row['uid']}/stop")
    server.until(str(row["uid"]), "stopped")


def test_reason_that_names_the_exit_code_names_it_once(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    row = server.submit("bash", "-c", "exit 3", name="exits", project="vision", gpus=0, retries=0)
    server.until(str(row["uid"]), "failed")
    page = opened(screen=f"workload/{row['uid']}")
    life = page.get_by_role("region", name="Life")
    life.get_by_text("exit code 3").wait_for()
    assert len(re.findall("exit code 3", life.inner_text(), re.IGNORECASE)) == 1


def test_page_for_submissions_says_that_a_person_is_a_member_of_no_project(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened(server.member("zoe"), screen="submit")
    page.get_by_text("You are a member of no project: an administrator adds you.").wait_for()


def test_times_of_the_list_fit_their_columns_on_a_small_screen(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened(width=1024)
    with running(server, "runs-long", project="vision", gpus=0):
        go(page, server, "workloads")
        page.get_by_role("link", name="runs-long").wait_for()
        cut = page.evaluate(
            """() => [['.h6', '9h59m ago'], ['.h7', '9h59m']].filter(([name, text]) => {
              const cell = document.querySelector(`tbody td${name}`)
              cell.textContent = text
              return cell.scrollWidth > cell.clientWidth }).map(([name]) => name)"""
        )
        assert cut == []


def test_error_of_activity_is_gone_with_the_next_answer(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened()
    pattern = re.compile(r"/api/v1/events\?.*kind=node")
    page.route(pattern, lambda route: route.fulfill(status=500, body="no"))
    go(page, server, "activity")
    page.get_by_label("Kind").select_option("node")
    page.get_by_role("alert").filter(has_text="The server answered 500.").wait_for()
    page.get_by_label("Kind").select_option("queue")
    page.get_by_role("alert").wait_for(state="detached")
    page.unroute(pattern)


SWEEP = {
    "name": "drawn",
    "project": "vision",
    "user": "root",
    "state": "finished",
    "sentence": "",
    "metric": "loss",
    "mode": "min",
    "trials": 1,
    "trials_max": 1,
    "running": 0,
    "parked": 0,
    "best": 0.5,
    "best_trial": 0,
    "best_rung": 9,
    "gpu_hours": 0.0,
    "created_s": 1.7e9,
    "ended_s": 1.7e9,
    "params": {"lr": "log:0.001..1", "optimizer": "choice:sgd,adam"},
    "rungs": [1, 3, 9],
    "eta": 3,
    "sampler": "random",
    "seed": 0,
    "parallel": None,
    "command": ["true"],
    "rung_rows": [],
}
TRIAL = {
    "number": 0,
    "name": "drawn-0",
    "uid": 1,
    "state": "succeeded",
    "target": 9,
    "gpu_hours": 0.0,
    "params": {"lr": 0.1, "optimizer": "sgd"},
    "results": [{"rung": 9, "step": 9, "value": 0.5, "promoted_among": None}],
}


def test_names_of_a_sweep_are_below_their_axes(opened: Callable[..., Any], server: ServingOnPort) -> None:
    page = opened()
    page.route(
        re.compile("/api/v1/sweeps/drawn$"),
        lambda route: route.fulfill(json={**SWEEP, "trial_rows": [TRIAL]}),
    )
    go(page, server, "sweeps/drawn")
    page.get_by_role("img", name="Parallel coordinates").wait_for()
    distances = page.evaluate(
        """() => [...document.querySelectorAll('.pictures .box')].map((box) => {
          const middle = (each) => { const found = each.getBoundingClientRect(); return found.x + found.width / 2 }
          return Math.abs(middle(box.querySelectorAll('.axis')[1]) - middle(box.querySelectorAll('.names span')[1])) })"""
    )
    assert len(distances) == 2
    assert max(distances) < 2
    page.unroute(re.compile("/api/v1/sweeps/drawn$"))


def test_curve_of_measured_use_begins_at_zero(opened: Callable[..., Any], server: ServingOnPort) -> None:
    row = server.submit("true", name="measured", project="vision", gpus=0)
    server.until(str(row["uid"]), "succeeded")
    points = [[1.7e9 + at, 0.9] for at in range(3)]
    series = {"name": "gpu", "kind": "measured", "unit": "fraction", "points": points}
    page = opened()
    pattern = re.compile(f"/api/v1/workloads/{row['uid']}/series")
    page.route(
        pattern, lambda route: route.fulfill(json={"stands_in": False, "series": [series], "note": None})
    )
    go(page, server, f"workload/{row['uid']}")
    figure = page.get_by_role("region", name="Curves").locator("figure")
    figure.get_by_text("100 %").wait_for()
    assert re.fullmatch(r"M\S+ 9\.6(L\S+ 9\.6)+", figure.locator(".box path").get_attribute("d"))
    page.unroute(pattern)


def test_the_output_stays_while_the_log_of_an_ended_workload_is_read(
    opened: Callable[..., Any], server: ServingOnPort, tmp_path: Path
) -> None:
    page = opened()
    waits = "echo first; until [ -e seen ]; do sleep 0.1; done; echo last"
    more: dict[str, Any] = {"project": "vision", "gpus": 0, "directory": str(tmp_path)}
    row = server.submit("bash", "-c", waits, name="ends-seen", **more)
    asked: list[Any] = []
    pattern = re.compile(rf"/api/v1/workloads/{row['uid']}/logs\?tail=\d+$")

    def keep(route: Any) -> None:
        asked.append(route)

    page.route(pattern, keep)
    go(page, server, f"workload/{row['uid']}?tab=log")
    output = page.get_by_role("region", name="Output")
    output.get_by_text("first").wait_for()
    (tmp_path / "seen").touch()
    while not asked:
        page.wait_for_timeout(50)
    assert output.inner_text().split()[:1] == ["first"]
    asked[0].continue_()
    page.get_by_text("2 lines", exact=True).wait_for()
    page.unroute(pattern)
    assert output.inner_text().split() == ["first", "last"]


def test_an_ended_workload_without_output_says_so(opened: Callable[..., Any], server: ServingOnPort) -> None:
    row = server.submit("true", name="says-nothing", project="vision", gpus=0)
    server.until(str(row["uid"]), "succeeded")
    page = opened(screen=f"workload/{row['uid']}?tab=log")
    page.get_by_role("region", name="Output").get_by_text("No output.", exact=True).wait_for()
