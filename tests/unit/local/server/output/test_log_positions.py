"""Positions of many pods: their size, and what is refused."""

import zlib
from base64 import b64encode
from pathlib import Path

import pytest

from weir.local.records import pod_files
from weir.local.records.state_dir import StateDir
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.http.server_limits import ServerLimits
from weir.local.server.output.log_positions import LogPosition, read_positions, write_positions
from weir.local.server.output.workload_logs import WorkloadLog
from weir.model.workloads import PodGroup, Request, Workload

PODS = 3000
UID = 123_456


async def test_a_position_of_thousands_of_pods_fits_in_a_header_and_resumes(tmp_path: Path) -> None:
    logs = [Path(StateDir(tmp_path).own(UID, 1, 0, index), pod_files.LOG) for index in range(PODS)]
    for index, log in enumerate(logs):
        (tmp_path / "pods" / str(UID) / f"1-0-{index}").mkdir(parents=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            file.truncate(index * 7919 * 104_729 % 10_000_000)
    workload = Workload("gang", "team", (PodGroup("worker", Request(), PODS, PODS),), PODS, 0.0)
    log = WorkloadLog(tmp_path, UID, workload)
    pieces = [piece async for piece in log.follow(None, 0, lambda: True)]
    assert {piece.text for piece in pieces} == {b""}
    identity = f"{UID}/{pieces[-1].position}"
    assert len(identity) < ServerLimits().header_bytes_max * 2 // 3

    with logs[2017].open("ab") as file:
        file.write(b"one more\n")
    again = [piece async for piece in log.follow(None, None, lambda: True, log.positions(identity))]
    assert b"".join(piece.text for piece in again) == b"worker/2017 | one more\n"


def test_positions_are_read_as_they_were_written() -> None:
    positions = [LogPosition(None, 0), *(LogPosition(at, at**3) for at in range(1, PODS))]
    assert read_positions(f"7/{write_positions(positions)}", 7, PODS) == positions
    assert write_positions(positions[:3]) == "-,1:1,2:8"


@pytest.mark.parametrize(
    "positions",
    [
        "z",
        "zz",
        "z" + b64encode(b"no zlib").decode(),
        "z" + b64encode(zlib.compress(b"\xff,\xff")).decode(),
        "z" + b64encode(zlib.compress(b"-," * 1_000_000)).decode(),
        "z\u0662",
    ],
)
def test_packed_positions_that_cant_be_read_are_refused(positions: str) -> None:
    with pytest.raises(RequestRefused, match="is no position of this output"):
        read_positions(f"7/{positions}", 7, 2)
