"""The world of a process in a job: who takes part is seen by locks that end with their processes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import weir
from weir.client.world import DIRECTORY, World, current_world

MEMBER = """
import sys, time, weir
print(weir.world().size, flush=True)
for line in sys.stdin:
    world = weir.world()
    print(world.rank, world.size, world.generation, flush=True)
"""


def environment(place: Path, name: str, elastic: str = "1:4", **words: str) -> dict[str, str]:
    return {
        "WEIR_ELASTIC": elastic, "WEIR_CHECKPOINT_DIR": str(place), "WEIR_POD_ID": f"7/{name}",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "20123", "WORLD_SIZE": "1", "RANK": "0", **words,
    }  # fmt: skip


class Member:
    """A process that takes part."""

    def __init__(self, place: Path, name: str, **words: str) -> None:
        env = {**os.environ, "PYTHONPATH": "src", **environment(place, name, **words)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", MEMBER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def look(self) -> tuple[int, int, str]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        rank, size, generation = self.line().split()
        return int(rank), int(size), generation

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def until(holds: Callable[[], bool]) -> None:
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() < begun + 60
        time.sleep(0.02)


def test_pods_that_come_and_go_are_seen_by_the_others(tmp_path: Path) -> None:
    first, second = Member(tmp_path, "1-0-0"), Member(tmp_path, "1-0-2")
    try:
        assert {first.line(), second.line()} <= {"1", "2"}
        (rank, size, generation), other = first.look(), second.look()
        assert (rank, size) == (0, 2)
        assert other == (1, 2, generation)
        third = Member(tmp_path, "3-0-1")
        third.line()
        assert [member.look()[:2] for member in (first, third, second)] == [(0, 3), (1, 3), (2, 3)]
        assert first.look()[2] == second.look()[2] != generation
        first.kill()  # the kernel releases its lock
        until(lambda: third.look()[:2] == (0, 2))
        again = Member(tmp_path, "4-0-0")
        again.line()
        assert again.look()[:2] == (0, 3)
        for member in (third, again):
            member.kill()
    finally:
        for member in (first, second):
            member.kill()


def test_the_first_call_waits_for_the_least_number(tmp_path: Path) -> None:
    members = [Member(tmp_path, f"1-0-{index}", elastic="3:4") for index in range(3)]
    try:
        assert [member.line() for member in members] == ["3"] * 3
    finally:
        for member in members:
            member.kill()


def test_other_files_are_no_members(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).mkdir()
    for name in ("notes", "1-0", "1-0-0-0", "..x"):
        (tmp_path / DIRECTORY / name).write_text("")
    (tmp_path / DIRECTORY / "9-0-9").symlink_to(tmp_path / "elsewhere")
    assert current_world(environment(tmp_path, "1-0-5")).size == 1


def test_without_an_elastic_workload_it_is_what_launchers_say(tmp_path: Path) -> None:
    assert current_world({}) == World()
    env = {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "5"}
    assert current_world(env) == World(4, 3, 1, "10.0.0.1", 5)
    under_torchrun = environment(
        tmp_path, "1-0-0", **env, TORCHELASTIC_RUN_ID="7", TORCHELASTIC_RESTART_COUNT="2"
    )
    assert current_world(under_torchrun) == World(4, 3, 1, "10.0.0.1", 5, "2")
    assert weir.world().size == int(os.environ.get("WORLD_SIZE", "1"))


def test_a_directory_that_cant_be_written_stops_no_job(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).write_text("")  # a file
    assert current_world(environment(tmp_path, "1-0-0", WORLD_SIZE="2")).size == 2


@pytest.mark.parametrize(
    ("variables", "size", "rank", "address"),
    [
        ({"WORLD_SIZE": "4", "RANK": "3", "MASTER_ADDR": "train-0"}, 4, 3, "train-0"),
        ({"LWS_GROUP_SIZE": "4", "LWS_WORKER_INDEX": "2", "LWS_LEADER_ADDRESS": "l"}, 4, 2, "l"),
        ({"JOB_COMPLETION_INDEX": "2", "WORLD_SIZE": "4"}, 4, 2, "127.0.0.1"),
        ({"JOB_COMPLETION_INDEX": "2"}, 1, 0, "127.0.0.1"),
        ({"HOSTNAME": "db-3", "WORLD_SIZE": "4"}, 4, 3, "127.0.0.1"),
        ({"HOSTNAME": "train"}, 1, 0, "127.0.0.1"),
    ],
)
def test_world_on_a_cluster_is_what_the_controller_of_the_pods_states(
    variables: dict[str, str], size: int, rank: int, address: str
) -> None:
    world = current_world(variables)
    assert (world.size, world.rank, world.master_addr) == (size, rank, address)
