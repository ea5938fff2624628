"""Replays: the numbers they come to, held against what can be counted by hand."""

import pytest

from weir.model.policy import Policy
from weir.simulation.interval_means import IntervalMeans
from weir.simulation.replay import jittered, replay
from weir.simulation.replay_report import report, view

from .fixtures import cluster, job


def test_numbers_of_a_queue() -> None:
    """Two jobs want all four devices: the second waits for the first."""
    job_traces = [job("first", 100.0, gpus=4), job("second", 50.0, at_s=20.0, gpus=4)]
    replayed = replay(cluster(teams=("a",)), job_traces, Policy())
    numbers = replayed.numbers
    assert (numbers["jobs"], numbers["completed"], numbers["failed"]) == (2, 2, 0)
    assert numbers["makespan_s"] == 150.0
    assert numbers["jct_mean_s"] == pytest.approx((100 + 130) / 2)
    assert numbers["delay_mean_s"] == pytest.approx(40.0)
    assert numbers["first_start_wait_mean_s"] == pytest.approx(40.0)
    assert numbers["allocation"] == 1.0
    assert numbers["entitled"] == {"jobs": 1, "wait_mean_s": 0.0, "wait_p99_s": 0.0, "over_60s": 0}
    assert numbers["preemptions"] == 0


def test_owner_takes_its_quota_back_and_the_borrower_loses_what_it_had_not_saved() -> None:
    """The borrower saved at 60 s and is stopped at 100 s."""
    job_traces = [
        job("borrower", 200.0, gpus=4, team="b", save_every_s=60.0),
        job("owner", 50.0, at_s=100.0, gpus=2, team="a"),
    ]
    numbers = replay(cluster(), job_traces, Policy()).numbers
    assert numbers["preemptions"] == 1
    assert sum(numbers["evictions_by_rule"].values()) == 1  # type: ignore[attr-defined]
    assert numbers["lost_gpu_hours"] == pytest.approx(4 * 40 / 3600, abs=0.05)
    assert numbers["entitled"]["wait_mean_s"] == 0.0  # type: ignore[index]
    assert numbers["completed"] == 2
    assert numbers["makespan_s"] == pytest.approx(150.0 + 140.0)


def test_job_that_never_ends_doesnt_hold_the_replay_up() -> None:
    """It counts as a job, not as a completed one."""
    numbers = replay(cluster(), [job("service", float("inf")), job("job", 10.0)], Policy()).numbers
    assert (numbers["jobs"], numbers["completed"]) == (2, 1)


def test_gangs_are_counted_by_the_racks_they_ran_in() -> None:
    """Two pods of four devices each need both nodes, which are in different racks."""
    numbers = replay(cluster(nodes=2, teams=("a",)), [job("gang", 10.0, gpus=4, pods=2)], Policy()).numbers
    assert numbers["topology"] == {"gangs": 1, "one_domain": 0, "domains_mean": 2.0}


def test_jitter_keeps_everything_but_the_moment() -> None:
    """The same seed gives the same order."""
    job_traces = [job(f"job-{index}", 10.0) for index in range(20)]
    moved = jittered(job_traces, 1)
    assert moved == jittered(job_traces, 1) != jittered(job_traces, 2)
    assert all(0.0 <= job_trace.workload.submitted_s <= 0.9 for job_trace in moved)


def test_timeline_means() -> None:
    """A level of 2 from 5 s to 25 s, over intervals of 10 s."""
    timeline = IntervalMeans(0.0, 10.0)
    timeline.change(5.0, 2.0)
    timeline.change(25.0, -2.0)
    timeline.settle(100.0)
    assert timeline.means(4) == [1.0, 2.0, 1.0, 0.0]


def test_report_stands_alone() -> None:
    """Nothing in it points anywhere else, and a name that looks like a script stays text."""
    job_traces = [job("job", 100.0), job("other", 50.0, at_s=20.0, team="b")]
    scenario = cluster()
    replayed = replay(scenario, job_traces, Policy())
    page = report(scenario, [view("<script>", replayed), view("b", replayed)], title="t & t", about="<i>")
    assert page.count("<script>") == 1
    assert "&lt;script&gt;" in page
    assert "t &amp; t" in page
    assert "&lt;i&gt;" in page
    for word in ("href=", "src=", "url(", "@import", "http://www.w3.org/2000/svg"):
        assert page.count(word) == (1 if word.startswith("http") else 0), word
    assert "default-src 'none'" in page
