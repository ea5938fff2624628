"""The history in a file on a volume, for a user that has no name and owns nothing there, as on OpenShift."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from weir.kubernetes.install.pods.history import HistoryStorage
from weir.store.cluster.reader import ClusterHistoryReader
from weir.store.cluster.records import ClusterWorkloadFilter
from weir.store.records import Retention

GROUP, FIRST, LATER = 1_000_650_000, 1_000_650_001, 1_000_990_001
WRITE = """\
import os, pwd, sys
from weir.api.workload_list import WorkloadRow
from weir.store.cluster.writer import ClusterHistory
from weir.store.cluster.records import ClusterHistoryEntry
from weir.store.records import Retention

def store(url, number):
    history = ClusterHistory(url, "c1", Retention())
    row = WorkloadRow(
        uid=number, name=f"ns/{number}", project="p", user="", type="train", status="succeeded", priority=50,
        preemptible=True, devices=1.0, pods=1, pods_running=0, submitted_s=1.0, started_s=2.0, ended_s=3.0,
        ran_s=1.0, kept_s=0.0, restarts=0, reason=None, evicted=None, nodes=[],
    )
    stated = {"metadata": {}, "detail": {}}
    history.write([ClusterHistoryEntry(row, "ns", str(number), "o", None, False, 3.0, stated)], [])
    return history

url, number, user, *groups = sys.argv[1:]
store(f"sqlite:///{os.environ['HOME']}/warm.db", 1).close()  # all modules: the user may not read them
os.setgroups([int(each) for each in groups])
os.setgid(0)
os.setuid(int(user))
try:
    pwd.getpwuid(os.getuid())
    sys.exit("the user has a name")
except KeyError:
    store(url, int(number))
os._exit(0)  # as if it was killed
"""
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="Only root may become another user.")


@pytest.fixture
def volume() -> Iterator[Path]:
    """A volume as a kubelet mounts it: of root and the pod's group, which new files get."""
    with TemporaryDirectory() as made:
        mount(Path(made))
        yield Path(made)


def mount(volume: Path) -> None:
    """Give the files to the group, as the kubelet does at each mount for `fsGroup`."""
    for each in (volume, *volume.iterdir()):
        os.chown(each, -1, GROUP)
        each.chmod(each.stat().st_mode | (0o2770 if each is volume else 0o660))


def write(volume: Path, home: Path, number: int, user: int, *groups: int) -> str:
    """Write as a user, without closing the database; return why it failed."""
    words = [f"sqlite:///{volume}/history.db", number, user, *groups]
    done = subprocess.run(
        [sys.executable, "-c", WRITE, *map(str, words)],
        env={**os.environ, "HOME": str(home)},
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stderr if done.returncode else ""


@AS_ROOT
def test_users_without_a_name_write_by_the_rights_of_the_group_alone(volume: Path, tmp_path: Path) -> None:
    for number, user in enumerate((FIRST, FIRST, LATER), 1):
        assert write(volume, tmp_path, number, user, GROUP) == ""
        mount(volume)
    reader = ClusterHistoryReader(f"sqlite:///{volume}/history.db", "c1", Retention())
    count, _ = reader.workloads(ClusterWorkloadFilter(), 0, 10)
    reader.close()
    assert count == 3
    modes = {each.name: each.stat().st_mode & 0o007 for each in volume.iterdir()}
    assert {name for name, mode in modes.items() if mode} <= {"history.db.lock"}, "others read nothing"


@AS_ROOT
def test_a_user_without_the_group_gets_a_reason(volume: Path, tmp_path: Path) -> None:
    assert "ermission denied" in write(volume, tmp_path, 1, FIRST)


def test_the_group_is_fixed_unless_the_cluster_chooses_it() -> None:
    assert HistoryStorage(claim="c").security() == {"fsGroup": 65532}
    assert HistoryStorage(claim="c", fixed_group=False).security() == {}
    assert HistoryStorage(secret="s").security() == {}
