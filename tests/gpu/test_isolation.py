"""A real GPU in a pool for several users: access to it, and the memory of a share."""

import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.users.conftest import places, unix_users  # noqa: F401 - fixtures
from tests.users.open_python import open_python
from tests.users.shared_pool import SharedPool, shared_pool

from .gpu_pool import PROGRAM

People = list[pwd.struct_passwd]
EVERYTHING = ("env", "-u", "CUDA_VISIBLE_DEVICES")
"""Command before that of a job that heeds no variable of Weir."""


@pytest.fixture(scope="module")
def shared(places: Path, unix_users: People) -> Iterator[SharedPool]:  # noqa: F811 - the fixtures
    python = open_python(places)
    if python is None or not Path(PROGRAM).stat().st_mode & 0o4:
        pytest.skip("other users can't run this interpreter, or read the packages")
    with shared_pool(places, python, unix_users[4], options=()) as pool:
        for user in unix_users[:2]:
            pool.add_member(user, "default")
        yield pool


def test_a_job_can_use_the_gpus_that_it_holds_and_no_others(shared: SharedPool, unix_users: People) -> None:  # noqa: F811
    mine, other = unix_users[:2]
    shared.submit(mine, "holds", shared.python, PROGRAM, "devices", "spin:0.5", "sleep:600")
    assert "devices 1 " in shared.says("holds", "spin")
    shared.submit(other, "has-none", *EVERYTHING, shared.python, PROGRAM, "devices", gpus=0)
    shared.wait("has-none", "succeeded")
    assert "devices 0 " in shared.log("has-none")
    shared.submit(other, "opens", "sh", "-c", ": < /dev/nvidia0", gpus=0)
    shared.wait("opens", "failed")
    assert "denied" in shared.log("opens").lower() or "permitted" in shared.log("opens").lower()
    shared.ask(mine, "POST", "/api/v1/workloads/holds/stop")
    shared.wait("holds", "stopped")


def test_the_part_of_the_memory_is_enforced_or_weir_says_why_not(
    shared: SharedPool,
    unix_users: People,  # noqa: F811
) -> None:
    mine = unix_users[0]
    fill = f"sleep 5; exec {shared.python} {PROGRAM} fill sleep:600"
    shared.submit(mine, "half", "sh", "-c", fill, gpus=0.5)
    shared.says("half", "fill")
    isolation, said = shared.row("half")["gpu_memory"], shared.weir(mine, "describe", "half").stdout
    filled = int(shared.log("half").split()[1]) << 20
    memory = shared.ask(mine, "GET", "/api/v1/nodes")[1]["items"][0]["gpu_memory"]
    if isolation == "enforced":
        assert filled <= memory / 2
    else:
        assert filled > memory / 2, "nothing kept it to its part"
        assert isolation == "cooperative"
        assert "driver" in said, said
    shared.ask(mine, "POST", "/api/v1/workloads/half/stop")
    shared.wait("half", "stopped")
