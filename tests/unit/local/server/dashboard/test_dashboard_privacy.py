"""A person of one project sees nothing private of another's in the answers of any screen or export."""

from pathlib import Path

from tests.unit.local.server.in_process_server import standing

SECRET = "kx7-secret"


async def test_member_gets_no_private_word_of_another_project(tmp_path: Path) -> None:
    async with standing(tmp_path / "home") as stands:
        await stands.project("vision", 2)
        await stands.project("speech", 2)
        env = {"SETTING": f"{SECRET}-value"}
        words = ("bash", "-c", f"echo {SECRET}; sleep 3600")
        made = await stands.submit(*words, project="vision", name="own", env=env)
        await stands.until("own", "running")
        await stands.admin.post("/api/v1/workloads/own/suspend")
        await stands.until("own", "pending")
        await stands.admin.post("/api/v1/workloads/own/resume")
        member = await stands.member("speech", user="eve")
        uid = made["uid"]
        paths = (
            *(
                "status",
                "nodes",
                "projects",
                "departments",
                "workloads?all=true",
                "events",
                "usage",
                "history",
            ),
            *("history?by=user", "history/trace", "checkpoints", f"workloads/{uid}", f"workloads/{uid}/why"),
            *(f"workloads/{uid}/logs", f"workloads/{uid}/series", "audit", "what-if", "snapshot", "tokens"),
            *(f"nodes/{stands.pool.node.name}/workloads", "projects/vision/secrets"),
        )
        for path in paths:
            answer = await member.get(f"/api/v1/{path}")
            assert SECRET not in answer.text, path
        whole = await stands.get("events", project="vision")
        assert whole["total"] > 3
        assert (await member.get("/api/v1/events", params={"project": "vision"})).json()["total"] == 0
        for act in ("stop", "suspend", "resume", "rerun"):
            assert (await member.post(f"/api/v1/workloads/{uid}/{act}")).status_code == 403
        changed = await member.post(f"/api/v1/workloads/{uid}/priority", json={"priority": 1})
        assert changed.status_code == 403
