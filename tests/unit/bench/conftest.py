"""A tiny record in the formats of the public ones."""

import gzip
from pathlib import Path

import pytest


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Forty jobs of two tenants, some of them gangs, and racks of four hosts."""
    (tmp_path / "itp-2021").mkdir()
    lines = ["cluster,job_id,submission_time,duration,num_gpu"]
    for at in range(40):
        cluster, gpus = ("01", 16) if at % 10 == 9 else (f"0{1 + at % 2}", 2 ** (at % 4))
        lines.append(f"{cluster},job-{at:02},{at * 600},{1800 + 700 * (at % 7)},{gpus}")
    with gzip.open(tmp_path / "itp-2021" / "itp_jobs.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    (tmp_path / "lingjun-2023").mkdir()
    hosts = [f"DSW1,PSW{at // 100},ASW{at // 4},10.0.0.{at:03}" for at in range(200)]
    (tmp_path / "lingjun-2023" / "topo.csv").write_text("\n".join(["DSW,PSW,ASW,ip", *hosts]) + "\n")
    return tmp_path
