"""Every screen by axe-core, and the work of a day by keys alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .pages import go, is_live, running, until
from .serving import ServingOnPort

AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
SCREENS = (
    *("now", "workloads", "workloads?q=status%3Asucceeded", "submit", "quotas", "quotas/vision"),
    *("history", "history?by=user&since=365d", "nodes", "what-if", "sweeps", "activity", "activity?of=audit"),
    "notifications",
)
TABS_MAX = 300
_AXE = """axe.run(document, {resultTypes: ['violations'],
  runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"""
_LONG = "a-very-long-name-of-a-workload-in-a-sweep-of-hyperparameters-17"


@contextmanager
def all_screens(server: ServingOnPort) -> Iterator[Sequence[str]]:
    """Yield every screen, with a workload that runs and one that waits."""
    with running(server, _LONG, project="vision") as uid:
        waits = server.submit("true", name="pends", project="language", gpus=4)
        array = server.submit("sleep", "600", name="parts", project="language", gpus=4, array="0-199")
        workloads = (f"workload/{uid}", f"workload/{uid}?tab=spec", f"workload/{waits['uid']}")
        yield (*SCREENS, *workloads, f"workload/{array['uid']}")
        for each in (waits, array):
            server.ask("POST", f"/api/v1/workloads/{each['uid']}/stop")


def violations(page: Any, server: ServingOnPort, screens: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """Return what axe-core finds in the screens of a page that is signed in, and which are too wide."""
    page.evaluate(AXE.read_text())
    found: list[tuple[str, str, list[str]]] = []
    for screen in screens:
        go(page, server, screen)
        page.locator("h1").wait_for(state="attached")
        page.get_by_text("Loading", exact=False).first.wait_for(state="detached")
        found += [
            (screen, each["id"], [node["html"][:120] for node in each["nodes"][:2]])
            for each in page.evaluate(_AXE)["violations"]
        ]
        if page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
            found.append((screen, "wider than the window", []))
    return found


class Keyboard:
    """A person without a mouse: each step goes on from where the last one left the focus."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def reach(self, target: Any) -> None:
        """Press Tab until an element has the focus."""
        target.first.wait_for()
        for _ in range(TABS_MAX):
            if target.first.evaluate("each => each === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"no key leads to {target}")

    def press(self, target: Any) -> None:
        """Reach a link or a button, and press Enter."""
        self.reach(target)
        self.page.keyboard.press("Enter")

    def write(self, target: Any, text: str) -> None:
        """Reach a field, and write a text in place of its own."""
        self.reach(target)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)


def submit_by_keys(page: Any, server: ServingOnPort, name: str, gpus: int) -> None:
    """Submit a workload to project vision, from the first page on."""
    keys = Keyboard(page)
    go(page, server, "now")
    is_live(page).wait_for()
    keys.press(page.get_by_role("navigation", name="Screens").get_by_role("link", name="Workloads"))
    keys.press(page.get_by_role("link", name="Submit", exact=True))
    keys.reach(page.get_by_label("Project"))
    page.keyboard.type("vision")
    keys.write(page.get_by_label("Name"), name)
    keys.write(page.get_by_label("GPUs of each pod"), str(gpus))
    keys.write(page.get_by_label("Command of every pod"), "sleep 1000")
    keys.press(page.get_by_role("button", name="Submit"))
    page.get_by_role("heading", name=name).wait_for()


def read_by_keys(page: Any, server: ServingOnPort, name: str) -> None:
    """Read why a workload waits, from the first page on."""
    go(page, server, "now")
    is_live(page).wait_for()
    Keyboard(page).press(page.get_by_role("link", name=name, exact=True))
    page.get_by_role("heading", name="Why it waits").wait_for()
    page.get_by_text(server.get(f"/api/v1/workloads/{name}/why")["reason"]["sentence"]).first.wait_for()


def stop_by_keys(page: Any, server: ServingOnPort, name: str) -> None:
    """Stop the workload of the page."""
    keys = Keyboard(page)
    keys.press(page.get_by_role("button", name="Stop", exact=True))
    keys.press(page.get_by_role("button", name="Yes, stop"))
    server.until(name, "stopped")


def change_quota_by_keys(page: Any, server: ServingOnPort, project: str, gpus: int) -> None:
    """Change the quota of a project, from the first page on, and read the effect first."""
    keys = Keyboard(page)
    go(page, server, "now")
    is_live(page).wait_for()
    keys.press(page.get_by_role("navigation", name="Screens").get_by_role("link", name="Quotas"))
    keys.press(page.get_by_role("main").get_by_role("link", name=project, exact=True))
    keys.write(page.get_by_label("GPU quota"), str(gpus))
    keys.press(page.get_by_role("button", name="Preview the effect"))
    page.get_by_text("Nothing has changed yet").wait_for()
    keys.press(page.get_by_role("button", name="Save"))
    until(page, lambda: server.get(f"/api/v1/projects/{project}")["quota"]["gpu"] == gpus)


def day_by_keys(page: Any, server: ServingOnPort) -> Iterator[str]:
    """Yield the works that keys alone do, one after another."""
    submit_by_keys(page, server, "typed", 4)
    server.until("typed", "running")
    submit_by_keys(page, server, "typed-too", 4)
    yield "submit"
    read_by_keys(page, server, "typed-too")
    yield "read why"
    stop_by_keys(page, server, "typed-too")
    change_quota_by_keys(page, server, "vision", 2)
    change_quota_by_keys(page, server, "vision", 3)
    yield "change a quota"
    go(page, server, f"workload/{server.get('/api/v1/workloads/typed')['uid']}")
    stop_by_keys(page, server, "typed")
    yield "stop"
