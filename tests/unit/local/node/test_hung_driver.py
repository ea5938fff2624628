"""Orders to limit memory of GPUs while the driver hangs: one process a start, however often it is ordered."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable

import pytest

from weir.local.cgroups import Cgroups
from weir.local.node import process
from weir.local.node.forked import fork, wait_for
from weir.local.node.orders import MESSAGE_MAX, GpuMemoryOrder
from weir.local.node.process import NodeProcess
from weir.local.node.starts import Site
from weir.local.processes.node_client import encode


def test_a_driver_that_hangs_gets_one_process_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    forked: list[int] = []

    def counted(work: Callable[[], object]) -> int:
        forked.append(fork(work))
        return forked[-1]

    monkeypatch.setattr(process, "limit_gpu_memory", lambda *_: time.sleep(600))
    monkeypatch.setattr(process, "fork", counted)
    assert wait_for(fork(lambda: _order_again_and_again(forked)))  # it waits for any child, so it has its own


def _order_again_and_again(forked: list[int]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(180)
    ended = 0
    node = NodeProcess(Site("/nowhere", Cgroups("none")), theirs, theirs)

    def order(name: str) -> None:
        ours.send(encode(GpuMemoryOrder(name, (0,), 1 << 30)))
        assert node._carry_out_next(theirs)

    try:
        for name in ("7/1-0-0", "7/1-0-0", "7/1-0-1", "7/1-0-0"):
            order(name)
        assert len(forked) == 2
        for _ in range(2):
            name, refused, *_, is_about_memory = json.loads(ours.recv(MESSAGE_MAX))
            assert (name, refused, is_about_memory) == ("7/1-0-0", "the driver hasn't answered yet", True)
        ended = forked[0]
        os.kill(ended, signal.SIGKILL)
        os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
        node._reap(0)
        order("7/1-0-0")
        assert len(forked) == 3
    finally:
        for each in forked:
            if each != ended:
                os.kill(each, signal.SIGKILL)
