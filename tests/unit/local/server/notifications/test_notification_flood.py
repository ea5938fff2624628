"""Thousands of notifications to slow, failing and hanging receivers, while the server is killed.

WEIR_EFFORT multiplies them.
"""

import json
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path

from tests.properties.budget import EFFORT
from tests.unit.local.server.receivers import FAST, receivers
from tests.unit.local.server.server_process import SHARED_ACCOUNT, Serving, serving

KINDS = ("ok", "slow", "failing", "hanging")
RECEIVERS_A_KIND = 5
EVENTS = 120 * EFFORT
KILLS = 3
PATH = "/api/v1/notifications"


def test_kill_9_loses_no_notification_and_doubles_none_beyond_what_was_confirmed(tmp_path: Path) -> None:
    with receivers() as hooks:
        file = tmp_path / "notifications.json"
        limits = {**FAST, "rules_per_person": 100, "retry_max": 1}
        file.write_text(json.dumps({"webhooks": {"hosts": [hooks.origin]}, "limits": limits}))
        settings = {**SHARED_ACCOUNT, "notifications_file": file}
        with serving(tmp_path / "home", settings=settings) as server:
            paths = [f"/{kind}?{number}" for kind in KINDS for number in range(RECEIVERS_A_KIND)]
            for path in paths:
                body = {"channel": "webhook", "target": hooks.origin + path, "on": ["maintenance"]}
                assert server.ask("POST", PATH, body)[0] == 201
            for turn in range(KILLS + 1):
                _make_events(server, turn)
                name = f"job-{turn}"  # decided while a quarter of the receivers hang
                server.submit("true", name=name)
                server.until(name, "succeeded")
                if turn < KILLS:
                    server.end(signal.SIGKILL)
                    server.begin()
            hooks.released.set()
            _until_nothing_is_pending(server)
            events = _stored_events(tmp_path / "home")
            assert len(events) >= EVENTS * 0.9
            for path in paths:
                first_of = {each.key: each for each in reversed(hooks.of(path))}
                told = [line["sentence"] for each in first_of.values() for line in each.told]
                assert Counter(told) == Counter(events), path
                again = len(hooks.of(path)) - len(first_of)
                assert again <= KILLS, "only what was on its way at a kill is sent again"
            for each in hooks.confirmed:
                assert each.headers["webhook-signature"].startswith("v1,")


def _make_events(server: Serving, turn: int) -> None:
    node = server.get("/api/v1/nodes")["items"][0]["name"]
    for number in range(EVENTS // (KILLS + 1)):
        body = {"reason": f"reason {turn}-{number}"}
        status, answer = server.ask("POST", f"/api/v1/nodes/{node}/gpus/3/drain", body)
        assert status == 200, answer


def _until_nothing_is_pending(server: Serving) -> None:
    until = time.monotonic() + 240
    while any(row["pending"] for row in server.get(PATH)["items"]):
        assert time.monotonic() < until, server.get(PATH)
        time.sleep(0.2)


def _stored_events(home: Path) -> list[str]:
    raw = sqlite3.connect(f"file:{home}/weir.db?mode=ro", uri=True)
    found = [row[0] for row in raw.execute("SELECT sentence FROM events WHERE kind = 'node'")]
    raw.close()
    return found
