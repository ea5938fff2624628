"""Two pools of one machine don't share a GPU, whatever their homes are called."""

import getpass
import subprocess
import sys
from uuid import uuid4

import pytest

from weir.local.machine.gpu_claim import GpuClaim
from weir.local.records.state_dir import StateDirInUse

_CLAIMS = """
import sys
from weir.local.machine.gpu_claim import GpuClaim
claim = GpuClaim(sys.argv[1:])
print("claimed", flush=True)
sys.stdin.read()
"""


def test_a_gpu_of_another_pool_is_refused_with_who_has_it() -> None:
    first, second, third = (f"GPU-{uuid4()}" for _ in range(3))
    command = [sys.executable, "-c", _CLAIMS, first, second]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "claimed\n"
        with pytest.raises(StateDirInUse) as refused:
            GpuClaim([third, second])
        answer = str(refused.value)
        assert "GPU 1 of this machine is in another pool" in answer
        assert f"process {other.pid} of user {getpass.getuser()}" in answer
        assert "CUDA_VISIBLE_DEVICES" in answer
        GpuClaim([third]).release()  # what was claimed before the refusal was let go
        other.kill()
    GpuClaim([first, second]).release()  # and what a killed pool had is free at once


def test_a_claim_is_not_inherited_by_jobs() -> None:
    uuid = f"GPU-{uuid4()}"
    claim = GpuClaim([uuid])
    with subprocess.Popen(["sleep", "60"], close_fds=False) as job:
        claim.release()
        GpuClaim([uuid]).release()
        job.kill()


def test_no_devices_need_no_claim() -> None:
    GpuClaim([]).release()
    GpuClaim([]).release()
