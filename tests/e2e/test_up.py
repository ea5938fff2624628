"""`weir up` as a process: what it says and refuses, that jobs outlive it, that an owner gets capacity back."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.local.server.server_process import PATIENT, SHARED_ACCOUNT, Serving, serving
from tools import prefork

SAVES = "trap 'sleep 0.2; exit 0' TERM; while :; do sleep 0.05; done"

TRY = """
import sys
from pathlib import Path
from weir.local.server.main import run
from weir.local.server.settings.server_settings import ServerSettings

sys.exit(run(ServerSettings(home={})))
"""


@pytest.fixture
def server(pool: Serving) -> Iterator[Serving]:
    """A pool without jobs."""
    yield pool
    pool.stop_all()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("pool") / "home") as found:
        yield found


def up(*tries: str) -> list[subprocess.CompletedProcess[str]]:
    """Run `weir up` with each of these arguments, and return the results."""
    return [prefork.run([sys.executable, "-c", TRY.format(words)]) for words in tries]


def test_what_is_asked_wrongly_is_refused(tmp_path: Path) -> None:
    """Addresses others can reach, and a policy that can't be read."""
    hosts = ("0.0.0.0", "::", "example.org")
    policy, home = tmp_path / "policy.yaml", tmp_path / "home"
    policy.write_text("presett: fair\n")
    *refused, unread = up(
        *(f"Path({str(home)!r}), host={host!r}, port=0" for host in hosts),
        f"Path({str(home)!r}), port=0, policy_file=Path({str(policy)!r})",
    )
    for host, answer in zip(hosts, refused, strict=True):
        assert (answer.returncode, answer.stdout) == (2, ""), host
        assert len(answer.stderr.splitlines()) == 1
        assert host in answer.stderr
        assert "--host has no TLS" in answer.stderr
    assert unread.returncode == 2
    assert "policy.yaml:1" in unread.stderr
    assert not home.exists()


def test_what_keeps_it_from_beginning_is_one_sentence(tmp_path: Path, pool: Serving) -> None:
    (tmp_path / "file").write_text("no directory")
    other, port = tmp_path / "other", pool.url.rsplit(":", 1)[1]
    cases = (
        (tmp_path / "file", "port=0", "WEIR_HOME"),
        (Path("/proc/nowhere"), "port=0", "WEIR_HOME"),
        (other, f"port={port}", "--port"),
        (other, "port=0, database='mysql://x'", "sqlite:///FILE or postgresql"),
        (other, "port=0, database='nonsense'", "database"),
        (pool.home, "port=0, virtual_gpus=2", "stop it first"),
    )
    tried = up(*(f"Path({str(home)!r}), {words}" for home, words, _ in cases))
    for (home, _, hint), answer in zip(cases, tried, strict=True):
        assert (answer.returncode, answer.stdout) == (1, ""), home
        assert len(answer.stderr.splitlines()) == 1, answer.stderr
        assert hint in answer.stderr, answer.stderr
    pool.until_ready()


def test_it_says_where_it_is_and_goes_quietly(tmp_path: Path) -> None:
    server = Serving(tmp_path / "home", gpus=2, settings={**SHARED_ACCOUNT, "policy_file": Path("fair")})
    try:
        assert server.get("/api/v1/status")["policy"] == "fair", "a preset needs no file"
        lines = [server.output.readline() for _ in range(4)]
        assert server.url in lines[0]
        assert "2 virtual GPUs" in lines[0]
        assert "weir submit -p default" in lines[3]
        for name in ("token", "weir.db", "server.json"):
            assert stat.S_IMODE((server.home / name).stat().st_mode) & 0o077 == 0, name
        server.submit("true", name="job")
        server.until("job", "succeeded")
    finally:
        assert server.end() == 0
    assert not (server.home / "server.json").exists()


def test_jobs_go_on_without_the_server_and_are_found_again(tmp_path: Path) -> None:
    server = Serving(tmp_path / "home")
    server.submit("sleep", "3600", name="long")
    server.submit("sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo done", name="short")
    for name in ("long", "short"):
        server.until(name, "running")
    server.end(signal.SIGKILL)
    (tmp_path / "go").touch()
    _wait_for(lambda: any("done" in log.read_text() for log in server.home.glob("jobs/*/*/log")))
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
    with httpx.Client(timeout=120).stream("GET", f"{server.url}/api/v1/stream", headers=headers) as stream:
        lines = stream.iter_lines()
        assert any(line.startswith("event: hello") for line in lines)
        assert server.end() == 0, "by itself, not because its time to stop was over"


def test_an_owner_gets_capacity_back(tmp_path: Path, server: Serving) -> None:
    for name in ("owners", "guests"):
        quota = 4 if name == "owners" else 0
        server.ask("PUT", f"/api/v1/projects/{name}", {"name": name, "quota": {"gpu": quota}})
    for at in range(4):
        server.submit("sh", "-c", SAVES, project="guests", name=f"guest-{at}")
        server.until(f"guest-{at}", "running")
    for turn in range(3):
        mark = tmp_path / f"mark-{turn}"
        server.submit("sh", "-c", f"touch {mark}; sleep 3600", project="owners", name=f"owner-{turn}")
        _wait_for(mark.exists)
        server.ask("POST", f"/api/v1/workloads/owner-{turn}/stop")
        server.until(f"owner-{turn}", "stopped")
        _wait_for(lambda: server.get("/api/v1/status")["running"] == 4)
    events = server.get("/api/v1/events?kind=stopping")["items"]
    reclaims = [event for event in events if event["numbers"].get("rule") == "reclaim_quota"]
    assert "guests holds 4 GPUs with a quota of 0, owners 0 with 4" in reclaims[-1]["sentence"]


def _wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_no_secret_gets_into_the_log_of_the_server(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code = f"{PATIENT}import sys; from pathlib import Path; from weir.local.server.settings.server_settings import ServerSettings as Settings; from weir.local.server.main import run; sys.exit(run(Settings(home=Path({str(home)!r}), port=0, virtual_gpus=2, log_level='debug')))"
    with (tmp_path / "log").open("w") as log:
        process = prefork.start([sys.executable, "-c", code], stdout=log.fileno(), stderr=log.fileno())
        server = Serving.__new__(Serving)
        server.home = home
        while not (home / "server.json").exists():
            assert process.poll() is None, (tmp_path / "log").read_text()
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
        assert process.wait(120) == 0
    answer = (tmp_path / "log").read_text()
    assert "hunter2" not in answer
    assert server.token not in answer


def test_what_a_job_reported_last_can_be_read_when_it_is_over(server: Serving) -> None:
    code = "import weir; weir.report(step=3, loss=0.5)"
    env = {"PYTHONPATH": str(Path("src").resolve())}
    server.submit(sys.executable, "-c", code, name="reports", env=env)
    server.until("reports", "succeeded")
    _wait_for(lambda: server.get("/api/v1/workloads/reports")["step"] is not None)
    found = server.get("/api/v1/workloads/reports")
    assert (found["step"], found["reported"]) == (3, {"loss": 0.5})


def test_exec_runs_beside_a_pod_and_counts_for_its_limits(server: Serving) -> None:
    script = "cat /proc/self/cgroup; exec sleep 3600"
    uid = server.submit("sh", "-c", script, name="beside", env={"SEEN": "yes"})["uid"]
    server.until("beside", "running")
    words = ["exec", "beside", "--", "sh", "-c", "echo $SEEN; cat /proc/self/cgroup"]
    environment = {**os.environ, "WEIR_HOME": str(server.home)}
    command = [sys.executable, "-m", "weir", *words]
    answer = prefork.run(command, env=environment, check=True).stdout.splitlines()
    (log,) = server.home.glob(f"jobs/{uid}/*/log")
    assert answer[0] == "yes"
    _wait_for(lambda: sorted(answer[1:]) == sorted(log.read_text().splitlines()))


def test_jobs_have_the_umask_the_server_was_started_with(tmp_path: Path, server: Serving) -> None:
    mask = os.umask(0o022)
    os.umask(mask)
    server.submit("sh", "-c", "touch file; mkdir folder", name="files", directory=str(tmp_path))
    server.until("files", "succeeded")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o777 & ~mask
    kept = [server.home / "token", *server.home.glob("*.db"), *server.home.glob("pods/*/*/*")]
    assert len(kept) > 3
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o077 for path in kept)
