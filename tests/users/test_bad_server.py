"""A server that was taken over gets nothing from the node process that its own rights don't give it."""

import json
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.properties.budget import EFFORT

from weir.local.node import __main__ as node_process

from .open_python import open_python

People = list[pwd.struct_passwd]
ORDERS = 2000 if EFFORT == 1 else 50_000


def test_a_server_that_ends_at_once_ends_the_node_process(places: Path, unix_users: People) -> None:
    config = {
        "user": unix_users[4].pw_name,
        "home": str(places / "short"),
        "socket": str(places / "short-run" / "weir.sock"),
        "group": "",
        "uid_min": 1000,
        "no_new_privileges": True,
        "gpu_files": [],
        "command": ["false"],
    }
    python = open_python(places)
    if python is None:
        pytest.skip("other users can't run this interpreter")
    done = subprocess.run([python, "-I", node_process.__file__, json.dumps(config)], timeout=120, check=False)
    assert done.returncode == 1


@pytest.mark.parametrize("seed", range(2))
def test_random_orders_run_nothing_that_they_should_not(places: Path, unix_users: People, seed: int) -> None:
    python = open_python(places)
    if python is None:
        pytest.skip("other users can't run this interpreter")
    script = places / "bad_server.py"
    shutil.copy(Path(__file__).with_name("bad_server.py"), script)
    script.chmod(0o644)
    server, victim = unix_users[4], unix_users[0]
    with subprocess.Popen(
        ["sleep", "1000"], user=victim.pw_uid, group=victim.pw_gid, extra_groups=[]
    ) as bystander:
        config = {
            "user": server.pw_name,
            "home": str(places / f"bad-{seed}"),
            "socket": str(places / f"bad-run-{seed}" / "weir.sock"),
            "group": "",
            "uid_min": 1000,
            "no_new_privileges": True,
            "gpu_files": [],
            "command": [
                python,
                "-I",
                str(script),
                str(seed),
                str(ORDERS),
                str(bystander.pid),
                server.pw_name,
            ],
        }
        done = subprocess.run(
            [python, "-I", node_process.__file__, json.dumps(config)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert bystander.poll() is None, "a process outside the pool was signalled"
        bystander.terminate()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    harmless = [json.loads(message)[0] for message, _ in found["accepted"]]
    assert set(harmless) <= {"KillOrder", "RemoveOrder"}, found["accepted"]  # of starts that don't exist
    assert found["alive"] == ["1/1-0-0", "", False, 0, False]
    assert len(found["limits"]) == 6
    assert all(refused and is_limit for _, refused, _, _, is_limit in found["limits"]), found["limits"]
    assert not list((places / f"bad-{seed}" / "jobs").iterdir())
    assert not list((places / f"bad-{seed}" / "checkpoints").iterdir())
