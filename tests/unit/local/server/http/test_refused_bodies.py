"""Bodies with too many or too few entries are refused with a sentence about each."""

from typing import Any

import msgspec
import pytest

from weir.api.submissions import Submission
from weir.api.sweep_submissions import SweepSubmission
from weir.local.server.http.problem_details import RequestRefused, read_as

JOB = {"name": "a", "project": "p", "command": ["x"]}


@pytest.mark.parametrize(
    ("model", "body", "sentence"),
    [
        (
            Submission,
            {**JOB, "secrets": {f"S{at}": "s" for at in range(201)}},
            "secrets: is a mapping of 201 entries; write at most 200",
        ),
        (
            Submission,
            {**JOB, "pods": [{}] * 65},
            "pods: is a list of 65 entries; write at most 64",
        ),
        (
            SweepSubmission,
            {"params": {}, "rungs": [1], "workload": JOB},
            "params: is an empty mapping; write at least one entry",
        ),
        (
            SweepSubmission,
            {"params": {"x": "int:1..2"}, "rungs": [], "workload": JOB},
            "rungs: is an empty list; write at least one entry",
        ),
    ],
)
def test_a_body_with_too_many_or_too_few_entries(
    model: type[Any], body: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(RequestRefused, match=sentence):
        read_as(model, msgspec.json.encode(body), "The body")
