"""File with the addresses of receivers: damaged, it is named, and a new address replaces it."""

from pathlib import Path

import pytest
from tests.unit.local.server.receivers import Receivers, settings, until

from .test_notification_delivery import hooks, sending

__all__ = ["hooks"]


@pytest.mark.parametrize("damage", ["cut", "directory"])
async def test_a_damaged_file_of_addresses_is_named_and_replaced(
    tmp_path: Path, hooks: Receivers, damage: str
) -> None:
    with sending(tmp_path, settings(hooks.origin, retry_first=0.05, retry_max=0.05)) as run:
        rule, path = run.rule(f"{hooks.origin}/ok"), tmp_path / "notifications/receivers.json"
        whole = path.read_bytes()
        path.unlink()
        if damage == "directory":
            path.mkdir()
        else:
            path.write_bytes(whole[: len(whole) // 2])
        run.tell("An event.")
        listed = run.store.outbox.pending_of
        await until(lambda: "is damaged: remove this notification" in listed([rule.id])[rule.id][2])
        if damage == "directory":
            path.rmdir()
        run.rule(f"{hooks.origin}/other")  # a new address is stored
        path.write_bytes(whole)  # as an administrator has it in a backup: nothing was lost meanwhile
        (message,) = await run.until(rule, "delivered")
        assert hooks.of("/ok")[-1].headers["webhook-id"] == message.key
