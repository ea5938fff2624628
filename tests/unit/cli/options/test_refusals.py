"""Refusals of a pool name the options that were typed, not the fields of the request."""

from pathlib import Path

import pytest
from tests.unit.client.fake import Fake, page, problem, queue

from weir.cli.main import main


@pytest.mark.parametrize(
    ("options", "field", "said"),
    [
        ("--gpus 1e99", "quota.gpu", "--gpus"),
        ("--quota gpu=1e99", "quota.gpu", "--quota gpu"),
        ("--quota gpus=4", "quota", "--quota"),
        ("--quota gpu.A_1=x", "quota.gpu.A_1", "--quota gpu.A_1"),
        ("--limit cpu=x", "limit.cpu", "--limit cpu"),
        ("--weight gpu=-1", "weight.gpu", "--weight gpu"),
        ("--priority 9999999999", "priority", "--priority"),
        ("--max-priority foo", "max_priority", "--max-priority"),
        ("--max-priority-of mia=foo", "max_priority_of.mia", "--max-priority-of mia"),
        ("--person-limit max-runtime=x", "person_limits.max_runtime", "--person-limit max-runtime"),
        ("--person-limit-of m.x:gpus=9", "person_limits_of.m.x.gpus", "--person-limit-of m.x:gpus"),
        ("--default max-runtime=x", "defaults.max_runtime", "--default max-runtime"),
        ("--idle-limit x", "times.idle_limit", "--idle-limit"),
        ("--grace x", "times.stop_grace", "--grace"),
        ("--department x", "department", "--department"),
        ("--namespace x", "namespaces", "--namespace"),
    ],
)
def test_a_refused_project_is_said_in_options(
    options: str, field: str, said: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/projects/vision", queue("vision"))
    fake.on("GET", "/projects", page(queue("vision")))
    error = {"field": field, "message": f"{field}: 'x' is wrong; write 4"}
    fake.on("PUT", "/projects/vision", problem(422, "The project: ...", error))
    assert main(["project", "set", "vision", *options.split()]) == 2
    assert capsys.readouterr().err == f"weir: {said}: 'x' is wrong; write 4.\n"


@pytest.mark.parametrize(
    ("words", "request_", "field", "said"),
    [
        ("priority a x", "POST /workloads/a/priority", "priority", "PRIORITY"),
        ("extend a x", "POST /workloads/a/extend", "duration", "DURATION"),
        ("project create x", "PUT /projects/x", "name", "NAME"),
        ("token create x --admin", "POST /tokens", "user", "USER"),
        ("secret set x -p vision --file VALUE", "PUT /projects/vision/secrets/x", "name", "NAME"),
        ("notify add mail x", "POST /notifications", "target", "ADDRESS"),
        ("notify add mail x --quiet x", "POST /notifications", "quiet", "--quiet"),
        ("notify delete x", "DELETE /notifications/x", "id", "ID"),
        ("notify test x", "POST /notifications/x/test", "id", "ID"),
        ("list --status x", "GET /workloads", "status", "--status"),
        ("list --type x", "GET /workloads", "type", "--type"),
        ("logs a --pod x", "GET /workloads/a/logs", "pod", "--pod"),
        ("logs a --start 9", "GET /workloads/a/logs", "start", "--start"),
        ("shell a -p v", "POST /workloads", "name", "NAME"),
        ("report usage --until 8d", "GET /usage", "since", "--since"),
        ("report history --until 8d", "GET /history", "since", "--since"),
        ("schedule add --name a -p v --cron x -- a", "PUT /schedules/a", "cron", "--cron"),
        ("schedule add --name a -p v --cron x --zone x -- a", "PUT /schedules/a", "zone", "--zone"),
    ],
)
def test_a_refused_word_is_named_as_in_the_usage(
    words: str,
    request_: str,
    field: str,
    said: str,
    fake: Fake,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    value = tmp_path / "value"
    value.write_text("value")
    error = {"field": field, "message": f"{field}: 'x' is wrong; write y"}
    method, path = request_.split()
    fake.on("GET", "/projects", page())
    fake.on("GET", "/schedules", page())
    fake.on("GET", "/notifications", page())
    fake.on(method, path, problem(422, "The request: ...", error))
    assert main(words.replace("VALUE", str(value)).split()) == 2
    assert capsys.readouterr().err == f"weir: {said}: 'x' is wrong; write y.\n"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("trials: 99999 is too large", "--trials: 99999 is too large"),
        ("params.lr: 'foo' is no range", "--param lr: 'foo' is no range"),
        ("rungs[1]: 0 is too small", "--rungs: 0 is too small"),
        ("rungs: 1 doesn't come after 3", "--rungs: 1 doesn't come after 3"),
        ("checkpoint_claim: is for clusters", "--checkpoint-claim: is for clusters"),
        ("sampler: sampler gp needs torch", "--sampler: sampler gp needs torch"),
        ("workload.type: type: trials are preemptible", "--type: trials are preemptible"),
        ("workload.pods[0].gpu_models[0]: gpu_models: no node has a X", "--gpu-model: no node has a X"),
        ("workload.pods[0].gpus: 9 is too large; trials: 0", "--gpus: 9 is too large; --trials: 0"),
    ],
)
def test_a_refused_sweep_is_said_in_options(
    message: str, said: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("POST", "/sweeps", problem(422, "The sweep: ...", {"field": "body", "message": message}))
    words = "sweep -p vision --param lr=float:0..1 --trials 2 --rungs 1,3 -- a"
    assert main(words.split()) == 2
    assert capsys.readouterr().err == f"weir: {said}.\n"
