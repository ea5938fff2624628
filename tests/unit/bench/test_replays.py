"""The benchmarks on records: that they run and report what they promise, on forty jobs."""

import json
import sys
from pathlib import Path

import pytest
from bench import quotas, spot, topology
from bench.itp import Job, read_jobs, read_racks
from bench.static import delays_s


def rows(main, monkeypatch, capsys, *args: str) -> list[dict[str, object]]:
    monkeypatch.setattr(
        sys, "argv", ["bench", *args, "--replays", "1", "--processes", "1", "--output", "json"]
    )
    main()
    return json.loads(capsys.readouterr().out)


def test_missing_record_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="isn't there"):
        read_jobs(tmp_path)


def test_spot_jobs_are_the_declared_ones() -> None:
    """By hand: sha256 of "100-200-8-01" mod 100."""
    import hashlib

    label = int(hashlib.sha256(b"100-200-8-01").hexdigest(), 16) % 100
    assert Job("01", "j", 100, 200, 8).is_spot == (label < 30)


def test_gang_is_whole_nodes(traces: Path) -> None:
    workload = next(job for job in read_jobs(traces) if job.gpus == 16).job_trace("p").workload
    assert (workload.pods, workload.min_pods, workload.groups[0].request.devices) == (2, 2, 8)


def test_static_partition_backfills() -> None:
    """A node has 8: the second needs 8 and waits for the first, the third slips past it."""
    jobs = [Job("01", "a", 0, 100, 4), Job("01", "b", 10, 50, 8), Job("01", "c", 20, 30, 2)]
    assert delays_s([job.job_trace("01") for job in jobs], 1) == [0.0, 90.0, 0.0]


def test_static_gang_takes_empty_nodes() -> None:
    jobs = [Job("01", "a", 0, 100, 1), Job("01", "b", 10, 50, 16), Job("01", "c", 20, 30, 1)]
    assert delays_s([job.job_trace("01") for job in jobs], 3) == [0.0, 0.0, 0.0]
    assert delays_s([job.job_trace("01") for job in jobs], 2) == [0.0, 90.0, 0.0]


def test_racks_are_sorted(traces: Path) -> None:
    racks = read_racks(traces, 6)
    assert len(racks) == 6
    assert len(set(racks)) == 2


def test_quotas(traces: Path, monkeypatch, capsys) -> None:
    result_rows = rows(
        quotas.main, monkeypatch, capsys, "--traces", str(traces), "--k", "1.0", "--preset", "throughput"
    )
    by_policy = {(row["policy"], row.get("source")): row for row in result_rows}
    assert by_policy["static partitions, backfill", "traces/README.md B"]["jct_mean_s"] == 142_565
    own = by_policy["weir-throughput", None]
    assert own["unfinished"] == 0
    assert own["worse_than_static"] == []
    for column in ("k", "delay_mean_s", "delay_p99_s", "entitled_wait_mean_s", "preemptions", "allocation"):
        assert column in own


@pytest.mark.parametrize("mapping", list(spot.MAPPINGS))
def test_spot(mapping: str, traces: Path, monkeypatch, capsys) -> None:
    presets = ("throughput", "fair") if mapping == next(iter(spot.MAPPINGS)) else ("fair",)
    result_rows = rows(
        spot.main, monkeypatch, capsys, "--traces", str(traces), "--mapping", mapping, "--preset", *presets
    )
    own = [row for row in result_rows if row.get("mapping") == mapping]
    assert [row["policy"] for row in own] == [f"weir-{preset}" for preset in presets]
    assert all(row["unfinished"] == 0 for row in own)


@pytest.mark.parametrize("mapping", list(topology.MAPPINGS))
def test_topology(mapping: str, traces: Path, monkeypatch, capsys) -> None:
    args = ("--traces", str(traces), "--mapping", mapping, "--preset", "throughput")
    (own,) = [row for row in rows(topology.main, monkeypatch, capsys, *args) if row.get("mapping") == mapping]
    assert own["gangs"] == 4
    assert own["started_in_part"] == 0
    assert own["one_domain_percent"] == 100.0
