"""A real server that one person, or a program without a token, asks too much of: others are served meanwhile.

The loads are those of `python -m bench.overload`, smaller. What is asserted is that answers come, never how soon.
"""

import http.client
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.overload import Pool, Worker, pool
from bench.overload_loads import LOADS, Target, apply, beside
from tests.properties.budget import EFFORT

SECONDS = 1.0
LOG_BYTES_MAX = 200_000
LIMITS = """
connections_max: 128
header_s_max: 30
requests_per_s: 20
requests_burst: 100
streams_per_person_max: 8
pending_per_person_max: 30
"""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    directory = tmp_path_factory.mktemp("overload")
    (directory / "limits.yaml").write_text(LIMITS)
    with pool(directory / "home", directory / "limits.yaml") as found:
        found.submit_waiting()
        yield found


def under(attacked: Pool, name: str, size: int, *expected: str) -> Counter[str]:
    """Carry out one load until each of the expected answers came; another person submits and lists meanwhile."""
    worker, before = Worker(attacked), attacked.log_bytes
    target = Target(
        attacked.port, attacked.attacker, SECONDS, lambda seen: all(seen[each] for each in expected)
    )
    thread = beside(name, size, target)
    while thread.is_alive() or not worker.submits_s:
        worker.turn()
        time.sleep(0.2)  # below the limit of requests, however long the load takes
    assert worker.failures == []
    assert attacked.log_bytes - before < LOG_BYTES_MAX
    assert all(target.outcomes[each] for each in expected), target.outcomes
    return target.outcomes


def test_half_open_connections(attacked: Pool) -> None:
    under(attacked, "half_open", 400, "503")  # those that were silent longest made way
    assert len(list(Path(f"/proc/{attacked.process.pid}/fd").iterdir())) < 128 + 100


def test_unknown_keys(attacked: Pool) -> None:
    outcomes = under(attacked, "unknown_keys", 100_000, "413")
    assert set(outcomes) <= {"413", "422", "429", "cut off"}  # who still sends may lose the answer


def test_streams(attacked: Pool) -> None:
    outcomes = under(attacked, "streams", 30, "200", "429")
    assert outcomes.total() == 30
    assert set(outcomes) == {"200", "429"}
    assert outcomes["200"] <= 8


def test_submissions(attacked: Pool) -> None:
    outcomes = under(attacked, "submissions", 200, "429")
    assert set(outcomes) <= {"201", "429"}
    waiting = attacked.ask("GET", "/api/v1/workloads?status=pending&user=mallory&limit=1")["total"]
    assert waiting <= 30


def test_questions(attacked: Pool) -> None:
    outcomes = under(attacked, "questions", 12, "429")
    assert set(outcomes) <= {"200", "429", "503"}


@pytest.mark.skipif(EFFORT <= 1, reason="a job writes 300 MB")
def test_readers_of_a_long_line(attacked: Pool) -> None:
    attacked.submit_long_line(300_000_000)
    under(attacked, "long_line", LOADS["long_line"][1])


def test_what_is_refused_says_so_in_one_sentence(attacked: Pool) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", attacked.port, timeout=120)
    headers = {"Authorization": f"Bearer {attacked.admin}"}
    connection.request("POST", "/api/v1/workloads", b"x" * 3_000_000, headers)
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-type")) == (413, "application/problem+json")
    assert "1,048,576 bytes" in json.loads(answer.read())["detail"]
    connection.request("GET", "/api/v1/status", headers=headers)  # and the connection goes on
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HTTP/1.1\r\nA: " + b"x" * 100_000,
        b"GET /healthz HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
        b"GET /" + b"x" * 100_000,
        b"GET /healthz HTTP/1.1\r\nHost: pool\r\n\r\n" * 1000,
        b"\r\n" * 100_000,
    ],
    ids=["long value", "many headers", "long address", "many at once", "no request"],
)
def test_a_head_without_end_is_cut_off(attacked: Pool, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", attacked.port), timeout=120) as connection:
        received = b""
        try:
            connection.sendall(sent)
            while more := connection.recv(1 << 16):
                received += more
        except ConnectionError:
            pass
    assert received.count(b" 200 OK") <= 17
    assert attacked.ask("GET", "/api/v1/status")


def test_a_body_that_comes_slowly_takes_no_place_for_long(attacked: Pool) -> None:
    with socket.create_connection(("127.0.0.1", attacked.port), timeout=120) as connection:
        connection.sendall(b"POST /api/v1/workloads HTTP/1.1\r\nHost: pool\r\nContent-Length: 100\r\n\r\nab")
        assert connection.recv(100).startswith(b"HTTP/1.1 401"), "without a token nothing is awaited for long"


def test_a_load_of_the_benchmark_runs_as_a_program() -> None:
    assert apply("streams", 0, Target(1, "", 0.0)) == {}


def test_descriptors_are_raised_at_the_start(tmp_path: Path) -> None:
    import resource

    from weir.local.server.http.connections import CONNECTIONS_MIN, RESERVED_DESCRIPTORS, reserve_descriptors
    from weir.local.server.http.server_limits import ServerLimits

    soft, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        left = reserve_descriptors(ServerLimits(connections_max=100_000))
        raised, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert raised == min(hard, 16_384) or hard == resource.RLIM_INFINITY
        assert left == max(CONNECTIONS_MIN, raised - RESERVED_DESCRIPTORS)
        assert reserve_descriptors(ServerLimits(connections_max=128)) == 128
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
