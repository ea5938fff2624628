"""Traces: what is read, and what is refused, all of it at once and with its line."""

import gzip
import json
import tracemalloc
from importlib.resources import as_file, files
from math import inf
from pathlib import Path

import pytest

from weir.model.scenario import InvalidFile
from weir.model.workloads import Request, TopologyRequest, WorkloadType
from weir.simulation.traces import files as trace_files
from weir.simulation.traces.formats import read_trace
from weir.simulation.traces.mistakes import MOST
from weir.simulation.traces.public import read_itp
from weir.simulation.traces.tenants import projects, tenants

from .fixtures import cluster


def _refused(path: Path, format_: str = "weir") -> list[str]:
    with pytest.raises(InvalidFile) as refused:
        read_trace(path, cluster(), format_)
    return [f"{mistake.line}: {mistake.text}" for mistake in refused.value.mistakes]


def test_own_format_with_its_defaults(tmp_path: Path) -> None:
    """Only four columns are required, in any order."""
    path = tmp_path / "trace.csv"
    path.write_text("duration,name,project,submitted\n60,one,a,0\n,two,b,5\n")
    one, two = read_trace(path, cluster())
    workload = one.workload
    assert (workload.name, workload.project, workload.submitted_s, one.duration_s) == ("one", "a", 0.0, 60.0)
    assert (workload.type, workload.priority, workload.preemptible) == (WorkloadType.TRAIN, 50, True)
    assert workload.groups[0].request == Request(devices=1)
    assert two.duration_s == inf
    assert two.save_every_s is None


def test_own_format_with_everything(tmp_path: Path) -> None:
    """Gzipped, and every column stated."""
    path = tmp_path / "trace.csv.gz"
    head = (
        "name,project,submitted,duration,type,pods,gpus,cpu,memory,gpu_memory,devices,gpu_models,min_pods,"
        "priority,preemptible,max_runtime,checkpoint_interval,restart,topology,user"
    )
    share = "s,a,1,2,build,4,0.5,2,4Gi,,2,A100,2,70,false,2h,600,30,preferred:rack,ann"
    memory = "m,b,1,2,inference,1,,500m,1Gi,8Gi,,,,,,,,,required:rack,"
    path.write_bytes(gzip.compress(f"{head}\n{share}\n{memory}\n".encode()))
    one, two = read_trace(path, cluster())
    request = one.workload.groups[0].request
    assert (request.devices, request.share_milli, request.cpu_milli, request.memory) == (
        2,
        500,
        2000,
        4 << 30,
    )
    assert request.gpu_models == ("A100",)
    assert (one.workload.pods, one.workload.min_pods) == (4, 2)
    assert (one.workload.priority, one.workload.preemptible, one.workload.max_runtime_s) == (
        70,
        False,
        7200.0,
    )
    assert (one.save_every_s, one.restart_s, one.workload.user) == (600.0, 30.0, "ann")
    assert one.workload.topology == TopologyRequest("network", preferred="rack")
    assert two.workload.groups[0].request.gpu_memory == 8 << 30
    assert two.workload.priority == 125
    assert not two.workload.preemptible


def test_all_mistakes_of_a_trace_are_reported_at_once(tmp_path: Path) -> None:
    """Several on one line, too."""
    path = tmp_path / "trace.csv"
    path.write_text(
        "name,project,submitted,duration,gpus,min_pods,type,topology\n"
        "one,a,0,10,1,,,\n"
        "one,nobody,-1,soon,1.5,3,work,rack\n"
        "two,a,0\n"
        "three,a,,nan,0.0001,,,preferred:row\n"
    )
    answer = _refused(path)
    assert [line.split(":")[0] for line in answer] == ["3"] * 8 + ["4"] + ["5"] * 4
    text = "\n".join(answer)
    for word in (
        "'nobody' isn't in the cluster file: it has a, b",
        "submitted '-1' is negative",
        "'soon' is not a duration",
        "gpus '1.5' is neither whole",
        "min_pods 3 is more than the 1 pods",
        "type 'work' is unknown",
        "topology 'rack' can't be read",
        "name 'one' is used on line 2 already",
        "has 3 values, the header 8",
        "submitted is empty",
        "is not a finite time",
        "gpus '0.0001' is finer than 0.001, the smallest share of a device: write 0.001",
        "level 'row' is in no topology",
    ):
        assert word in text, (word, text)


def test_flood_of_mistakes_is_cut_off(tmp_path: Path) -> None:
    """A million mistakes are cut off."""
    path = tmp_path / "trace.csv"
    path.write_text(
        "name,project,submitted,duration\n" + "".join(f"j{index},x,0,1\n" for index in range(100))
    )
    answer = _refused(path)
    assert len(answer) == MOST + 1
    assert "and 80 more" in answer[-1]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"name,project,submitted,colour,submitted\n", "has no column 'duration'"),
        (b"\xff\xfe\x00", "is not text"),
        (b"", "has no column 'name'"),
    ],
)
def test_what_isnt_a_trace_is_refused(tmp_path: Path, content: bytes, word: str) -> None:
    """By saying what it is instead."""
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    assert word in "\n".join(_refused(path))


def test_file_that_isnt_there_or_isnt_gzipped(tmp_path: Path) -> None:
    """No traceback for a wrong path."""
    assert "no such file" in _refused(tmp_path / "nothing.csv")[0]
    path = tmp_path / "trace.csv.gz"
    path.write_text("plain")
    assert "can't be read" in _refused(path)[0]


def test_itp(tmp_path: Path) -> None:
    """More than eight devices are a gang of whole nodes."""
    path = tmp_path / "itp.csv"
    path.write_text("cluster,job_id,submission_time,duration,num_gpu\na,x,5,100,16\nb,y,6,10,2\n")
    big, small = read_trace(path, cluster(), "itp")
    assert (big.workload.pods, big.workload.groups[0].request.devices, big.save_every_s) == (2, 8, 3600.0)
    assert (small.workload.pods, small.workload.groups[0].request.devices) == (1, 2)
    path.write_text("cluster,job_id,submission_time,duration,num_gpu\nz,x,5,100,12\n")
    assert [line.split(": ")[0] for line in _refused(path, "itp")] == ["2", "2"]


def test_openb(tmp_path: Path) -> None:
    """A share, whole devices of several models, and no devices; no team is named."""
    path = tmp_path / "openb.csv"
    path.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"
        "s,6000,1024,1,460,,10,110,20\nw,1000,0,2,1000,A100|T4,11,,\nc,500,10,0,0,,12,13,\n"
    )
    share, whole, none = read_trace(path, cluster(teams=("a",)), "openb")
    assert share.workload.groups[0].request == Request(1, 460, 0, 6000, 1 << 30)
    assert (share.workload.submitted_s, share.duration_s) == (10.0, 90.0)
    assert whole.workload.groups[0].request.gpu_models == ("A100", "T4")
    assert whole.duration_s == inf
    assert none.workload.groups[0].request.devices == 0
    assert "names no teams" in _refused(path, "openb")[0]


def test_philly(tmp_path: Path) -> None:
    """The run of all attempts together, the pods of the last; a job that never ran is left out."""
    machine = {"ip": "m1", "gpus": ["gpu0", "gpu1"]}
    jobs = [
        {
            "status": "Pass",
            "vc": "a",
            "jobid": "one",
            "user": "ann",
            "submitted_time": "2017-10-07 00:00:10",
            "attempts": [
                {"start_time": "2017-10-07 01:00:00", "end_time": "2017-10-07 01:01:00", "detail": [machine]},
                {
                    "start_time": "2017-10-07 02:00:00",
                    "end_time": "2017-10-07 02:00:30",
                    "detail": [machine] * 2,
                },
                {"start_time": "2017-10-07 03:00:00", "end_time": None, "detail": []},
            ],
        },
        {"vc": "b", "jobid": "two", "submitted_time": "2017-10-07 00:00:00", "attempts": [], "user": "bob"},
    ]
    path = tmp_path / "philly.json"
    path.write_text(json.dumps(jobs))
    (one,) = read_trace(path, cluster(), "philly")
    assert (one.duration_s, one.workload.pods, one.workload.submitted_s) == (90.0, 2, 0.0)
    assert one.workload.groups[0].request.devices == 2
    assert one.workload.user == "ann"
    path.write_text('[{"vc": "a"}]')
    assert "job 1 can't be read" in _refused(path, "philly")[0]
    path.write_text("{")
    assert "is not JSON" in _refused(path, "philly")[0]


def test_shipped_weeks() -> None:
    """Check the trace of the demo: ten teams, in time order, from its first second."""
    with as_file(files("weir.data").joinpath("itp-three-weeks.csv.gz")) as path:
        job_traces = read_itp(path, projects([f"team {number}" for number in range(1, 11)]))
    submitted_s = [job_trace.workload.submitted_s for job_trace in job_traces]
    assert len(job_traces) == 23_342
    assert submitted_s == sorted(submitted_s)
    assert submitted_s[0] < 600
    assert len({job_trace.workload.project for job_trace in job_traces}) == 10
    scenario = tenants(job_traces, 1.25, static=True)
    assert len(scenario.nodes) == 194
    assert all(queue.limit == queue.quota and queue.weight == {"gpu": 0.0} for queue in scenario.queues)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_a_trace_of_zeros_is_refused_in_one_sentence(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"trace.{suffix}"
    zeros = bytes(5 << 20)
    path.write_bytes(gzip.compress(zeros) if suffix.endswith("gz") else zeros)
    assert _refused(path) == ["0: is not text: byte 0 is zero; name a trace in CSV or JSON"]
    assert _refused(path, "philly") == ["0: is not text: byte 0 is zero; name a trace in CSV or JSON"]


def test_a_trace_that_unpacks_to_too_much_is_refused_before_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_files, "BYTES_MAX", 4 << 20)
    path = tmp_path / "trace.csv.gz"
    with gzip.open(path, "wb", 1) as file:
        for _ in range(64):
            file.write(b"a,b\n" * (1 << 18))
    tracemalloc.start()
    assert _refused(path) == ["0: is larger than 4 MiB unpacked; write a shorter trace"]
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 16 << 20


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        ("a" * 200_000, "1: is not CSV: field larger than field limit (131072)"),
        ("," * 200_000, "1: has 200001 columns; write at most 1000"),
    ],
)
def test_a_header_that_is_none(header: str, answer: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(header)
    (reported,) = _refused(path)
    assert reported.startswith(answer)
