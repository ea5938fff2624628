"""`weir logs` on a cluster: the output of pods as the API server has it."""

import os
import signal
from threading import Thread

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.main import main

T = "2026-01-01T00:00:0%d.000000000Z "
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


def logged(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["logs", *words]) == code
    answer = capsys.readouterr()
    return answer.err if code else answer.out


def test_the_output_of_the_first_pod_is_that_of_its_last_start(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster.add_job("train", parallelism=2, completions=2, completionMode="Indexed")
    fake_cluster.add_pod("train-1-a", "train", index=1)
    fake_cluster.add_pod("train-0-a", "train", index=0, phase="Failed", annotations={"weir.dev/start": "1"})
    fake_cluster.add_pod(
        "train-0-b", "train", index=0, created="2026-01-01T01:00:00Z", annotations={"weir.dev/start": "2"}
    )
    fake_cluster.add_pod("train-0-c", "train", index=0, owner="another", created="2026-01-01T02:00:00Z")
    fake_cluster.logs = {
        "train-0-a": [[b"old\n"]],
        "train-0-b": [[b"a\nb", b"c"]],
        "train-1-a": [[b"other\n"]],
    }
    assert logged(capsys, "vision/train") == "a\nbc"
    assert logged(capsys, "train", "--tail", "5") == "a\nbc"
    assert fake_cluster.log_queries[-1] == {"pod": "train-0-b", "container": "main", "tailLines": "5"}
    assert logged(capsys, "train", "--start", "1") == "old\n"
    assert "no start 7" in logged(capsys, "train", "--start", "7", code=2)
    for pod in ("1", "main/1", "train-1-a"):
        assert logged(capsys, "train", "--pod", pod) == "other\n"
    assert "has no pod '2'; write all, or one of" in logged(capsys, "train", "--pod", "2", code=2)
    assert logged(capsys, "train", "--pod", "all").splitlines() == [
        "train-0-a | old",
        "train-1-a | other",
        "train-0-b | a",
        "train-0-b | bc",
    ]


def test_a_pod_that_has_not_begun_has_no_output_and_one_that_is_gone_is_named(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    job = fake_cluster.add_job("train")
    assert logged(capsys, "train") == ""
    fake_cluster.add_pod("train-a", "train", phase="Pending")
    assert logged(capsys, "train") == ""
    del fake_cluster.objects["/api/v1/namespaces/vision/pods/train-a"]
    job["status"] = COMPLETE
    assert "The pods of vision/job-train are gone, and their output with them" in logged(
        capsys, "train", code=2
    )


def test_followed_output_goes_on_behind_the_last_line_and_over_pods(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    job = fake_cluster.add_job("train")
    lines = [(T % at + f"line {at}\n").encode() for at in range(6)]

    def next_scene(pod: str) -> None:
        if pod == "train-a" and len(fake_cluster.log_queries) > 1:
            fake_cluster.add_pod("train-a", "train", phase="Failed")
            fake_cluster.add_pod("train-b", "train", created="2026-01-01T01:00:00Z")
        if pod == "train-b":
            fake_cluster.add_pod("train-b", "train", phase="Succeeded", created="2026-01-01T01:00:00Z")
            job["status"] = COMPLETE

    fake_cluster.add_pod("train-a", "train")
    fake_cluster.logs = {
        "train-a": [[lines[0], lines[1] + lines[2][:-3], b"BREAK"], [*lines[:4]], [*lines[:4]]],
        "train-b": [[lines[4], lines[5][:-1]]],
    }
    fake_cluster.after_log = next_scene
    assert logged(capsys, "train", "-f", "--tail", "9") == "".join(f"line {at}\n" for at in range(6))[:-1]
    first, second = fake_cluster.log_queries[:2]
    assert first == {
        "pod": "train-a",
        "container": "main",
        "follow": "true",
        "timestamps": "true",
        "tailLines": "9",
    }
    assert second["sinceTime"] == "2026-01-01T00:00:01.000000000Z"
    assert "tailLines" not in second


def test_a_pod_that_is_gone_is_followed_by_the_next_one(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    job = fake_cluster.add_job("train")

    def next_scene(pod: str) -> None:
        if pod == "train-b":
            fake_cluster.add_pod("train-b", "train", phase="Succeeded", created="2026-01-01T01:00:00Z")
            job["status"] = COMPLETE
        elif "/api/v1/namespaces/vision/pods/train-a" not in fake_cluster.objects:
            fake_cluster.add_pod("train-b", "train", created="2026-01-01T01:00:00Z")

    fake_cluster.add_pod("train-a", "train")
    fake_cluster.logs = {
        "train-a": [
            [(T % 1 + "saved\n").encode()],
            [b"unable to retrieve container logs for a://b"],
            [b"GONE"],
        ],
        "train-b": [[(T % 2 + "goes on\n").encode()]],
    }
    fake_cluster.after_log = next_scene
    assert main(["logs", "train", "-f"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("saved\ngoes on\n", "weir: pod train-b begins\n")


@pytest.mark.parametrize("words", [(), ("--pod", "all")])
def test_a_later_start_is_marked_on_the_error_output(
    words: tuple[str, ...], fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    job = fake_cluster.add_job("train", parallelism=1, completions=1, completionMode="Indexed")
    later = {"index": 0, "created": "2026-01-01T01:00:00Z", "annotations": {"weir.dev/start": "2"}}

    def next_scene(pod: str) -> None:
        if pod == "train-0-a":
            fake_cluster.add_pod(pod, "train", phase="Failed", index=0)
            fake_cluster.add_pod("train-0-b", "train", **later)
        else:
            fake_cluster.add_pod("train-0-b", "train", phase="Succeeded", **later)
            job["status"] = COMPLETE

    fake_cluster.add_pod("train-0-a", "train", index=0)
    fake_cluster.logs = {
        "train-0-a": [[(T % 1 + "one\n").encode()]],
        "train-0-b": [[(T % 2 + "two\n").encode()]],
    }
    fake_cluster.after_log = next_scene
    assert main(["logs", "train", "-f", *words]) == 0
    printed = capsys.readouterr()
    assert [line.rpartition(" ")[2] for line in printed.out.splitlines()] == ["one", "two"]
    assert printed.err == "weir: start 2 of train-0-b begins\n"


def test_a_restart_of_the_container_is_marked_on_the_error_output(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    job = fake_cluster.add_job("train")

    def next_scene(_pod: str) -> None:
        pod = fake_cluster.objects["/api/v1/namespaces/vision/pods/train-a"]
        status = pod["status"]["containerStatuses"][0]
        if status["restartCount"]:
            fake_cluster.add_pod("train-a", "train", phase="Succeeded")
            ended = fake_cluster.objects["/api/v1/namespaces/vision/pods/train-a"]
            ended["status"]["containerStatuses"][0]["restartCount"] = 1
            job["status"] = COMPLETE
        status["restartCount"] = 1

    fake_cluster.add_pod("train-a", "train")
    fake_cluster.logs["train-a"] = [[(T % 1 + "one\n").encode()], [(T % 2 + "two\n").encode()]]
    fake_cluster.after_log = next_scene
    assert main(["logs", "train", "-f"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("one\ntwo\n", "weir: restart 1 of train-a begins\n")


def test_all_pods_are_followed_also_those_that_come_later(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    job = fake_cluster.add_job("train", parallelism=2, completions=2, completionMode="Indexed")

    def next_scene(pod: str) -> None:
        at = int(pod[6])
        fake_cluster.add_pod(pod, "train", index=at, phase="Succeeded")
        if at == 0:
            fake_cluster.add_pod("train-1-a", "train", index=1)
        else:
            job["status"] = COMPLETE

    fake_cluster.add_pod("train-0-a", "train", index=0)
    fake_cluster.logs = {f"train-{at}-a": [[(T % at + f"line {at}").encode()]] for at in range(2)}
    fake_cluster.after_log = next_scene
    assert sorted(logged(capsys, "train", "-f", "--pod", "all").splitlines()) == [
        "train-0-a | line 0",
        "train-1-a | line 1",
    ]


@pytest.mark.parametrize(
    ("env", "name", "position"),
    [
        ({}, "parts[1]", 1),
        ({"WEIR_ARRAY_MIN": "10", "WEIR_ARRAY_STEP": "5"}, "parts[15]", 1),
        ({"WEIR_ARRAY_MIN": "3", "WEIR_ARRAY_STEP": "1", "WEIR_ARRAY_INDICES": "3 9"}, "parts[9]", 1),
        ({"WEIR_ARRAY_MIN": "10", "WEIR_ARRAY_STEP": "5"}, "parts[12]", None),
        ({"WEIR_ARRAY_MIN": "x", "WEIR_ARRAY_STEP": "-1"}, "parts[2]", None),
    ],
)
def test_an_index_of_an_array_is_that_of_its_command(
    env: dict[str, str],
    name: str,
    position: int | None,
    fake_cluster: FakeCluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    variables = [{"name": key, "value": value} for key, value in env.items()]
    template = {"spec": {"containers": [{"name": "main", "env": variables}]}}
    fake_cluster.add_job("parts", parallelism=2, completions=2, completionMode="Indexed", template=template)
    for at in range(2):
        fake_cluster.add_pod(f"parts-{at}-a", "parts", index=at)
        fake_cluster.logs[f"parts-{at}-a"] = [[f"pod {at}\n".encode()]]
    if position is None:
        assert "has no index" in logged(capsys, name, code=2)
    else:
        assert logged(capsys, name) == f"pod {position}\n"


def test_a_person_who_stops_following_ends_the_command_alone(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster.add_job("train")
    fake_cluster.add_pod("train-a", "train")
    fake_cluster.logs["train-a"] = [[(T % 1 + "line\n").encode(), b"WAIT"]]

    def interrupt() -> None:
        assert fake_cluster.waits.wait(180)
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=interrupt, daemon=True).start()
    with pytest.raises(SystemExit) as ended:
        main(["logs", "train", "-f"])
    assert ended.value.code == 130
    assert not capsys.readouterr().err.strip()
    assert not fake_cluster.written
