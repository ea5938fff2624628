"""A tiny record in the formats of the public ones."""

import gzip
from pathlib import Path

import pytest


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Forty jobs of two tenants, some of them gangs, and racks of four hosts."""
    (tmp_path / "itp-2021").mkdir()
    lines = ["cluster,job_id,submission_time,duration,num_gpu"]
    for index in range(40):
        cluster, gpus = ("01", 16) if index % 10 == 9 else (f"0{1 + index % 2}", 2 ** (index % 4))
        lines.append(f"{cluster},job-{index:02},{index * 600},{1800 + 700 * (index % 7)},{gpus}")
    with gzip.open(tmp_path / "itp-2021" / "itp_jobs.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    (tmp_path / "lingjun-2023").mkdir()
    hosts = [f"DSW1,PSW{index // 100},ASW{index // 4},10.0.0.{index:03}" for index in range(200)]
    (tmp_path / "lingjun-2023" / "topo.csv").write_text("\n".join(["DSW,PSW,ASW,ip", *hosts]) + "\n")
    return tmp_path
