"""Counters of a pod's processes, groups and network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weir.local.usage.pod_counters import PodCounters, PodRates, interfaces, rates, read_counters

HOST = "Inter-|\n face |bytes\n    lo: 100 0 0 0 0 0 0 0 100 0\n  eth0: 5 0 0 0 0 0 0 0 7 0\n"


def test_bytes_of_processes_are_counted() -> None:
    before = read_counters((), [os.getpid()], interfaces())
    with open(os.devnull, "wb") as file:  # noqa: PTH123 - a plain call
        file.write(bytes(1 << 20))
    after = read_counters((), [os.getpid()], interfaces())
    assert before.process_disk is not None
    assert after.process_disk is not None
    assert after.process_disk - before.process_disk >= 1 << 20
    assert rates(before, after, 2.0).disk is not None
    assert read_counters((), [1 << 30], "").process_disk is None


def test_version_2_groups_count_bytes_and_an_empty_file_is_none_so_far(tmp_path: Path) -> None:
    (tmp_path / "io.stat").write_text(
        "8:0 rbytes=100 wbytes=50 rios=3 wios=1 dbytes=9 dios=0\n8:16 rbytes=7 wbytes=0\n"
    )
    group = (str(tmp_path), {}, "")
    assert read_counters((group,), (), "").group_disk == 157
    (tmp_path / "io.stat").write_text("")
    assert read_counters((group,), (), "").group_disk is None
    (tmp_path / "cgroup.controllers").write_text("cpu io memory\n")
    assert read_counters((group,), (), "").group_disk == 0


def test_rates_take_the_larger_count_and_never_fall_below_zero() -> None:
    before = PodCounters(100, 1000, None)
    assert rates(before, PodCounters(300, 1100, 5), 10.0) == PodRates(20.0, None)
    assert rates(before, PodCounters(50, 0, None), 10.0) == PodRates(0.0, None)
    assert rates(before, PodCounters(None, None, None), 10.0) == PodRates()
    assert rates(PodCounters(None, None, 10), PodCounters(None, None, 110), 10.0) == PodRates(None, 10.0)
    assert rates(before, before, 0.0) == PodRates()


def test_network_of_the_machine_is_not_a_pods_own() -> None:
    assert read_counters((), [os.getpid()], interfaces()).network is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces without more")
def test_network_of_a_namespace_of_its_own_counts() -> None:
    script = (
        "import ctypes, os, socket, sys\n"
        "assert ctypes.CDLL(None).unshare(0x40000000) == 0\n"
        "import fcntl, struct\n"
        "up = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "fcntl.ioctl(up, 0x8914, struct.pack('16sh14x', b'lo', 1))\n"
        "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "one.bind(('127.0.0.1', 0))\n"
        "up.sendto(bytes(1000), one.getsockname())\n"
        "print('sent', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as found:
        assert found.stdout is not None
        line = found.stdout.readline()
        counted = read_counters((), [found.pid], HOST).network
        found.kill()
    if line != b"sent\n":
        pytest.skip("this kernel makes no network namespace")
    assert counted is not None
    assert counted >= 2000
