"""Refusals of submissions, as REST and the command line state them."""

from tests.unit.local.server.in_process_server import Standing

from weir.cli.submissions.submit import in_options


async def test_refusal_about_all_pods_is_a_sentence_also_without_its_field(stands: Standing) -> None:
    body = {"project": "default", "command": ["true"], "pods": [{"count": 100_000, "gpus": 0}]}
    answer = await stands.admin.post("/api/v1/workloads", json=body)
    assert answer.status_code == 422
    sentence = "100,000 pods are more than a workload can have here; ask for 1,024 or fewer"
    (error,) = answer.json()["errors"]
    assert (error["field"], error["message"]) == ("pods", f"pods: {sentence}")
    assert in_options(error["message"]) == sentence
