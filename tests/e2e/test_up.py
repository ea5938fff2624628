"""`weir up` as a process: what it says and refuses, that jobs outlive it, how fast an owner gets room back."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from tests.rooms.server.serving import Serving, serving

SAVES = "trap 'sleep 0.2; exit 0' TERM; while :; do sleep 0.05; done"


def up(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; from pathlib import Path; from weir.server.up import run; sys.exit(run(Path({str(home)!r}), {', '.join(words)}))"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )


def test_an_address_others_can_reach_is_refused(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "example.org"):
        said = up(tmp_path / "home", f"host={host!r}", "port=0")
        assert (said.returncode, said.stdout) == (2, ""), host
        assert len(said.stderr.splitlines()) == 1
        assert host in said.stderr
        assert "no authentication" in said.stderr
    assert not (tmp_path / "home").exists()


def test_a_second_pool_in_one_home_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "home"):
        said = up(tmp_path / "home", "port=0", "virtual_gpus=2")
        assert said.returncode == 1
        assert len(said.stderr.splitlines()) == 1, said.stderr


def test_what_keeps_it_from_beginning_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with serving(tmp_path / "home") as server:
        port = server.url.rsplit(":", 1)[1]
        for home, words, hint in (
            (tmp_path / "file", ["port=0"], "WEIR_HOME"),
            (Path("/proc/nowhere"), ["port=0"], "WEIR_HOME"),
            (tmp_path / "other", [f"port={port}"], "--port"),
            (tmp_path / "other", ["port=0", "database='mysql://x'"], "sqlite:///FILE or postgresql"),
            (tmp_path / "other", ["port=0", "database='nonsense'"], "database"),
        ):
            said = up(home, *words)
            assert (said.returncode, said.stdout) == (1, ""), home
            assert len(said.stderr.splitlines()) == 1, said.stderr
            assert hint in said.stderr, said.stderr


def test_a_policy_that_cant_be_read_is_told_of(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("presett: fair\n")
    said = up(tmp_path / "home", "port=0", f"policy_file=Path({str(policy)!r})")
    assert said.returncode == 2
    assert "policy.yaml:1" in said.stderr


def test_it_says_where_it_is_and_goes_quietly(tmp_path: Path) -> None:
    server = Serving(tmp_path / "home", gpus=2)
    try:
        assert server.process.stdout is not None
        lines = [server.process.stdout.readline() for _ in range(3)]
        assert server.url in lines[0]
        assert "2 virtual GPUs" in lines[0]
        assert "weir submit -p default" in lines[2]
        for name in ("token", "weir.db", "server.json"):
            assert stat.S_IMODE((server.home / name).stat().st_mode) & 0o077 == 0, name
        server.submit("true", name="job")
        server.until("job", "succeeded")
    finally:
        assert server.end() == 0
    assert not (server.home / "server.json").exists()


def test_jobs_go_on_without_the_server_and_are_found_again(tmp_path: Path) -> None:
    server = Serving(tmp_path / "home")
    server.submit("sleep", "60", name="long")
    server.submit("sh", "-c", "sleep 1; echo done", name="short")
    for name in ("long", "short"):
        server.until(name, "running")
    server.end(signal.SIGKILL)
    time.sleep(1.5)
    server.begin()
    try:
        assert server.until("short", "succeeded")["restarts"] == 0
        assert server.until("long", "running")["restarts"] == 0
        assert server.get("/api/v1/workloads/short/logs") == "done\n"
        ends = server.get("/api/v1/events?workload=short&kind=ended")
        assert ends["total"] == 1
        server.stop_all()
    finally:
        assert server.end() == 0


def test_an_open_stream_doesnt_keep_the_server(tmp_path: Path) -> None:
    import httpx

    server = Serving(tmp_path / "home")
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx.Client(timeout=20).stream("GET", f"{server.url}/api/v1/stream", headers=headers) as stream:
        lines = stream.iter_lines()
        assert any(line.startswith("event: hello") for line in lines)
        began = time.monotonic()
        assert server.end() == 0
        assert time.monotonic() - began < 8


def test_an_owner_gets_room_back_within_two_seconds(tmp_path: Path) -> None:
    took = []
    with serving(tmp_path / "home", gpus=4) as server:
        for name in ("owners", "guests"):
            quota = 4 if name == "owners" else 0
            server.ask("PUT", f"/api/v1/projects/{name}", {"name": name, "quota": {"gpu": quota}})
        for at in range(4):
            server.submit("sh", "-c", SAVES, project="guests", name=f"guest-{at}")
            server.until(f"guest-{at}", "running")
        for turn in range(5):
            mark = tmp_path / f"mark-{turn}"
            began = time.time()
            server.submit("sh", "-c", f"touch {mark}; sleep 60", project="owners", name=f"owner-{turn}")
            while not mark.exists():
                assert time.time() - began < 20
                time.sleep(0.005)
            took.append(time.time() - began)
            server.ask("POST", f"/api/v1/workloads/owner-{turn}/stop")
            server.until(f"owner-{turn}", "stopped")
            deadline = time.monotonic() + 20
            while server.get("/api/v1/status")["running"] < 4:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        events = server.get("/api/v1/events?kind=stopping")["items"]
        reclaims = [event for event in events if event["numbers"].get("rule") == "reclaim_quota"]
        assert "guests holds 4 GPUs with a quota of 0, owners 0 with 4" in reclaims[-1]["sentence"]
    assert median(took) < 2.0, took
    print("from submit to running:", [round(each, 3) for each in took])


def test_no_secret_gets_into_the_log_of_the_server(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code = f"import sys; from pathlib import Path; from weir.server.up import run; sys.exit(run(Path({str(home)!r}), port=0, virtual_gpus=2, log_level='debug'))"
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log, env={**os.environ})
        server = Serving.__new__(Serving)
        server.home = home
        while not (home / "server.json").exists():
            time.sleep(0.02)
        import http.client
        import json

        server.url = json.loads((home / "server.json").read_text())["url"]
        server.token = (home / "token").read_text().strip()
        server._connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
        server.submit("sh", "-c", "echo hunter2", name="job", env={"KEY": "hunter2"})
        server.until("job", "succeeded")
        server.ask(
            "POST",
            "/api/v1/workloads",
            {"project": "default", "command": "hunter2", "env": {"A B": "hunter2"}},
        )
        server._connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    said = (tmp_path / "log").read_text()
    assert "hunter2" not in said
    assert server.token not in said


def test_what_a_job_reported_last_can_be_read_when_it_is_over(tmp_path: Path) -> None:
    code = "import weir; weir.report(step=3, loss=0.5)"
    with serving(tmp_path / "home") as server:
        server.submit(sys.executable, "-c", code, name="job", env={"PYTHONPATH": str(Path("src").resolve())})
        server.until("job", "succeeded")
        until = time.monotonic() + 10
        while (found := server.get("/api/v1/workloads/job"))["step"] is None:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert (found["step"], found["reported"]) == (3, {"loss": 0.5})


def test_exec_runs_beside_a_pod_and_counts_for_its_limits(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        server.submit("sh", "-c", "cat /proc/self/cgroup; exec sleep 60", name="job", env={"SEEN": "yes"})
        server.until("job", "running")
        words = ["exec", "job", "--", "sh", "-c", "echo $SEEN; cat /proc/self/cgroup"]
        said = subprocess.run(
            [sys.executable, "-m", "weir", *words],
            env={**os.environ, "WEIR_HOME": str(server.home)},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout.splitlines()
        (log,) = server.home.glob("pods/*/*/log")
        assert said[0] == "yes"
        assert sorted(said[1:]) == sorted(log.read_text().splitlines())
