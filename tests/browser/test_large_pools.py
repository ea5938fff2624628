"""The page stays small in front of large pools: 512 GPUs, 200 projects, 3,000 workloads."""

from itertools import product
from typing import Any

from bench.dashboard import row_of
from bench.dashboard_front import front_of

from weir.api.answers import DeviceRow, NodeRow, QueueRow
from weir.local.server.dashboard.live_frames import answer_json, workload_columns
from weir.local.server.dashboard.live_hub import LiveTable

from .conftest import ServingOnPort

ELEMENTS_MAX = 1500
NODES, PROJECTS, WORKLOADS = 64, 200, 3000
WIDTHS = (1440, 320)
SCREENS = (
    ("now", "Node node-00"),
    ("workloads", "List of workloads"),
    ("quotas", "Departments and projects"),
    ("nodes", "Nodes"),
    ("nodes/node-63", "GPUs of node-63"),
)


def large_pool() -> bytes:
    """Return the first frame of a large pool, where workload n holds GPU n."""
    table = LiveTable()
    for uid in range(WORKLOADS):
        table.rows[uid] = workload_columns(row_of(uid))
    for at in range(NODES):
        devices = [
            DeviceRow(
                index=index,
                model="H100",
                memory=80 << 30,
                allocated=1.0,
                use=0.5,
                workloads=[row_of(8 * at + index).name],
            )
            for index in range(8)
        ]
        name = f"node-{at:02d}"
        amounts = {"gpu": 8.0}
        table.nodes[name] = answer_json(
            NodeRow(name=name, devices=devices, capacity=amounts, allocated=amounts)
        )
    for at in range(PROJECTS):
        name = f"project-{at:03d}"
        table.queues[name] = answer_json(
            QueueRow(
                name=name,
                kind="project",
                parent=None,
                quota={"gpu": 2.0},
                follows=False,
                limit={},
                weight={},
                priority=100,
                allocated={"gpu": 3.0 * (at % 2)},
                share={"gpu": 2.0},
            )
        )
    return table.whole(b'{"trouble":null,"policy":"fair"}')


def test_large_pool_keeps_the_page_small_and_within_the_window(browser: Any, server: ServingOnPort) -> None:
    context = browser.new_context()
    context.set_default_timeout(60_000)
    page = context.new_page()
    with front_of(server.url, large_pool()) as url:
        page.goto(url + server.link().removeprefix(server.url))
        page.locator(".state", has_text="live").wait_for()
        for width, (screen, shown) in product(WIDTHS, SCREENS):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(f"{url}/#/{screen}")
            page.get_by_role("region", name=shown, exact=True).wait_for()
            at = f"{screen} at {width}"
            assert page.evaluate("document.querySelectorAll('*').length") <= ELEMENTS_MAX, at
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, at
        page.goto(f"{url}/#/quotas")
        page.get_by_text("1 to 40 of 200").wait_for()
        page.get_by_role("button", name="Next").click()
        page.get_by_role("link", name="project-040").wait_for()
        page.get_by_label("Find").fill("project-199")
        page.get_by_text("1 to 1 of 1").wait_for()
        context.close()
