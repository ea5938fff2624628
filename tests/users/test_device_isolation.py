"""Devices held apart where the kernel has other means, and memory of a shared GPU limited by a driver."""

import json
import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import fake_nvml
from .attacks.program import write_program
from .open_python import open_python
from .shared_pool import SharedPool, shared_pool, until

People = list[pwd.struct_passwd]
V1 = "/sys/fs/cgroup"
DEVICES = f"{V1}/devices"
ALL_V1 = tuple(f"{V1}/{name}" for name in ("devices", "memory", "cpu", "pids"))
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
"""File of machines with version 2 alone."""
ATTACKS = (
    *("open_the_gpu_of_another", "make_a_device_file", "make_a_device_file_in_a_user_namespace"),
    *("open_the_gpu_in_a_user_namespace", "open_the_gpu_through_another_root"),
    *("enter_the_mounts_of_the_node_process", "unmount_what_covers_the_gpu"),
    *("unmount_what_covers_the_gpu_in_a_user_namespace", "mount_the_gpu_elsewhere_in_a_user_namespace"),
    *("trace_the_own_supervisor", "change_a_limit_of_the_own_control_groups"),
)


def needs(*hierarchies: str) -> None:
    """Skip the test unless this machine has these hierarchies of cgroup v1."""
    if not all(os.path.ismount(each) for each in hierarchies):
        pytest.skip("the control groups of this machine are mounted in another way")


@pytest.fixture(scope="module")
def place(places: Path) -> Path:
    """A directory of this module."""
    made = places / "isolation"
    made.mkdir(mode=0o755)
    return made


@pytest.fixture(scope="module")
def mounts_pool(place: Path, places: Path, gpu_files: list[Path], unix_users: People) -> Iterator[SharedPool]:
    """A pool that can't use any rules of control groups for devices."""
    needs(DEVICES)
    python = open_python(places)
    if python is None:
        pytest.skip("other users can't run this interpreter")
    (place / "mounts").mkdir()
    with shared_pool(place / "mounts", python, unix_users[4], gpu_files, unmounted=[DEVICES]) as pool:
        pool.add_member(unix_users[0], "default")
        pool.add_member(unix_users[1], "default")
        yield pool


def test_mounts_hold_devices_apart_where_control_groups_cannot(
    mounts_pool: SharedPool, unix_users: People, gpu_files: list[Path]
) -> None:
    pool, tries = mounts_pool, "; ".join(f"(head -c1 {path} | wc -c) 2>&1" for path in gpu_files)
    go = Path(unix_users[0].pw_dir, "go")
    go.unlink(missing_ok=True)
    for name in ("left", "right"):
        command = f"echo $WEIR_DEVICES; {tries}; echo tried; while [ ! -e {go} ]; do sleep 0.05; done"
        pool.submit(unix_users[0], name, "sh", "-c", command)
    for name in ("left", "right"):
        pool.says(name, "tried")
        device, *opened = [line for line in pool.log(name).split("\n") if line in ("0", "1")]
        assert opened == ["1" if at == int(device) else "0" for at in range(2)]
        row = pool.row(name)
        assert (row["gpu_access"], row["gpu_access_by"]) == ("enforced", "mount namespace")
    shown = pool.weir(unix_users[0], "describe", "left").stdout
    assert "open its GPUs (mount namespace)" in " ".join(shown.split()), shown
    go.touch()
    for name in ("left", "right"):
        pool.wait(name, "succeeded")


def test_a_member_cannot_leave_the_mounts(
    mounts_pool: SharedPool, unix_users: People, gpu_files: list[Path]
) -> None:
    pool, (attacker, victim) = mounts_pool, unix_users[:2]
    pool.submit(victim, "victim", "sleep", "3600")
    pool.wait("victim", "running")
    script, given = (Path(attacker.pw_dir, name) for name in ("mount_attacks.pyz", "mount_facts.json"))
    write_program(script)
    given.unlink(missing_ok=True)
    waits = f'while [ ! -e {given} ]; do sleep 0.05; done; exec {pool.python} -I {script} "$(cat {given})"'
    pool.submit(attacker, "attacker", "sh", "-c", waits)
    pool.wait("attacker", "running")
    running, device = pool.running("attacker"), pool.row("victim")["pod_rows"][0]["devices"][0]
    facts: dict[str, Any] = {
        "gpu": str(gpu_files[device]),
        "own_supervisor": running["supervisor"],
        "groups": running["cgroups"],
        "node": pool.process.pid,
        "only": ATTACKS,
    }
    beside = given.with_suffix(".new")
    beside.write_text(json.dumps(facts))
    beside.rename(given)
    pool.wait("attacker", "succeeded")
    text = next(line for line in pool.log("attacker").splitlines() if line.startswith("OUTCOMES "))
    outcomes = json.loads(text.removeprefix("OUTCOMES "))
    assert outcomes.keys() == set(ATTACKS)
    assert all(outcome.startswith("refused") for outcome in outcomes.values()), outcomes


@pytest.fixture(scope="module")
def driver_pool(place: Path, unix_users: People) -> Iterator[tuple[SharedPool, Path]]:
    """A pool with version 2 of control groups alone, whose GPU has a driver with limits; and the driver's state."""
    if not UNIFIED.exists():
        needs(*ALL_V1)
    (place / "driver").mkdir()
    python = open_python(place / "driver")
    if python is None or not Path(python).is_relative_to(place):
        pytest.skip("no interpreter of its own can be made")
    packages = next((place / "driver" / "python" / "lib").glob("*/site-packages"))
    shutil.copy(fake_nvml.__file__, packages / "pynvml.py")
    state = packages / "driver.json"
    state.write_text(json.dumps({"refuses": False, "limits": {}}))
    unmounted = [each for each in ALL_V1 if os.path.ismount(each)]
    with shared_pool(place / "driver", python, unix_users[4], unmounted=unmounted, options=()) as pool:
        pool.add_member(unix_users[0], "default")
        pool.add_member(unix_users[1], "default")
        yield pool, state


def change(state: Path, **values: Any) -> None:
    """Change the state of the driver."""
    with fake_nvml.changed(state) as found:
        found.update(values)


def test_the_driver_limits_shares_before_they_begin_and_again_after_a_restart(
    driver_pool: tuple[SharedPool, Path], unix_users: People
) -> None:
    pool, state = driver_pool
    half = fake_nvml.MEMORY // 2
    for name, user in zip(("one", "two"), unix_users, strict=False):
        pool.submit(user, name, "sh", "-c", f"cat {state}; echo; env; sleep 3600", gpus=0.5)
    for name in ("one", "two"):
        pool.wait(name, "running")
        own = next(path for path in pool.running(name)["cgroups"] if not path.startswith(ALL_V1))
        assert json.loads(pool.says(name, "\n").split("\n")[0])["limits"][own] == half, "its first command"
        variables = pool.says(name, "WEIR_GPU_MEMORY=")
        assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in variables, "the driver shows it the share alone"
        until(lambda name=name: pool.row(name)["gpu_memory"] == "enforced", lambda: pool.row("one"))  # type: ignore[misc]
        row = pool.row(name)
        assert (row["gpu_memory_by"], row["gpu_memory_why"], row["gpu_access_by"]) == (
            "driver",
            None,
            "cgroup v2",
        )
    assert "share" in pool.weir(unix_users[0], "describe", "one").stdout
    change(state, limits={})  # the driver was loaded again, or someone with the rights of root changed them
    pool.kill(node=True, server=True)
    until(lambda: sorted(json.loads(state.read_text())["limits"].values()) == [half, half])
    until(lambda: pool.row("one")["gpu_memory"] == "enforced")
    change(state, refuses=True, limits={})
    pool.kill(node=True, server=False)
    until(lambda: "Not Supported" in (pool.row("one")["gpu_memory_why"] or ""), lambda: pool.row("one"))
    assert pool.row("one")["gpu_memory"] == "cooperative"
    for name, user in zip(("one", "two"), unix_users, strict=False):
        pool.ask(user, "POST", f"/api/v1/workloads/{name}/stop")
        pool.wait(name, "stopped")
    assert pool.row("one")["gpu_memory"] == "cooperative"
