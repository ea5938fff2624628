"""Takes the pictures of the dashboard for the docs: `make screenshots`.

A pool of virtual GPUs runs workloads of three projects while chromium looks at it.
"""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/screenshots"
SIZE = {"width": 1440, "height": 900}
BUSY = "while :; do for i in $(seq 2000000); do :; done; echo step $((s++)) loss 0.$RANDOM; sleep 0.1; done"
START_S_MAX = 120.0
HISTORY_JOBS = 250
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
)


@contextlib.contextmanager
def pool_of(home: Path) -> Iterator[Any]:
    """Serve a pool of eight virtual GPUs; its workloads end with the block."""
    from weir import Pool

    record_history(home)
    words = [sys.executable, "-m", "weir", "up", "--virtual-gpus", "8", "--port", "0"]
    env = {**os.environ, "WEIR_HOME": str(home), "WEIR_URL": ""}
    os.environ.update(WEIR_HOME=str(home), WEIR_URL="")
    with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL) as server:  # noqa: S603 - it is ours
        try:
            until = time.monotonic() + START_S_MAX
            while not (home / "server.json").exists():
                if server.poll() is not None or time.monotonic() > until:
                    raise SystemExit("screenshots: the pool doesn't start")
                time.sleep(0.1)
            with Pool() as pool:
                yield pool
                for row in pool.list():
                    pool.stop(row.name)
                while list(pool.list()):
                    time.sleep(0.1)
        finally:
            server.terminate()


def record_history(home: Path) -> None:
    """Write a week of three projects on eight GPUs, so that the pictures of the past show something."""
    from tests.unit.store.fixtures import opened
    from tests.unit.store.week import record_week

    with opened(home) as store:
        record_week(store, time.time() - 60, HISTORY_JOBS, node=platform.node())


def fill(pool: Any) -> None:
    """Have three projects run and wait for work, one of them on borrowed GPUs."""
    for name, gpus in (("vision", 3), ("speech", 3), ("robotics", 2)):
        pool.set_project(name, quota={"gpu": gpus})
    pool.delete_department("lab")
    command = ["bash", "-c", BUSY]
    for index in range(3):
        pool.submit(project="vision", name=f"resnet-{index}", command=command, gpus=1)
    pool.submit(project="vision", name="segment", command=command, gpus=2)
    pool.submit(project="vision", name="sweep", command=command, gpus=1)
    pool.submit(project="robotics", name="notebook", command=["sleep", "3600"], gpus=1, type="build")
    while pool.get("sweep").status != "running":
        time.sleep(0.1)
    pool.submit(project="speech", name="pretrain", command=command, gpus=2)  # takes a GPU of its quota back
    for index in range(3):
        pool.submit(project="vision", name=f"ablation-{index}", command=command, gpus=2)
    pool.submit(project="speech", name="evaluate", command=command, gpus=2)


def take(pool: Any) -> None:
    """Look at the screens, and keep a picture of each."""
    from playwright.sync_api import sync_playwright

    url = pool.address.url
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        page = browser.new_context(viewport=SIZE, color_scheme="light").new_page()
        page.goto(url + pool.dashboard_link().path)
        page.locator(".fill").first.wait_for(state="attached")
        uid = pool.get("evaluate").uid
        for name, screen, shown in (
            ("now", "now", ".cells"),
            ("workloads", "workloads", "tbody a"),
            ("workload", f"workload/{uid}", "text=What would let it start"),
            ("quotas", "quotas/speech", "text=Preview the effect"),
            ("history", "history?since=7d", "figure"),
            ("nodes", "nodes", "tbody a"),
        ):  # each picture is of 1440 by 900
            page.goto(f"{url}/#/{screen}")
            page.locator(shown).first.wait_for()
            if name == "quotas":
                page.get_by_label("GPU quota").fill("4")
                page.get_by_role("button", name="Preview the effect").click()
                page.get_by_text("Nothing has changed yet").wait_for()
            page.screenshot(path=FOLDER / f"{name}.png")
        browser.close()


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory(prefix="weir-screenshots-") as name:
        with pool_of(Path(name) / "home") as pool:
            fill(pool)
            time.sleep(25)  # the use of GPUs is measured every ten seconds
            take(pool)
        time.sleep(1)
    print(f"{FOLDER}: {', '.join(sorted(path.name for path in FOLDER.glob('*.png')))}")


if __name__ == "__main__":
    main()
