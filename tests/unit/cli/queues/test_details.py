"""`weir project show`: all settings of a project."""

import json

import pytest
from tests.unit.client.fake import Fake, queue

from weir.cli.main import main

VISION = queue(
    "vision",
    limit={"gpu": 8.0, "memory": 2.0**38},
    allocated={"gpu": 2.0, "pods": 1.0},
    max_priority=75,
    max_priority_of={"mia": 90},
    person_limits={"gpus": 4.0, "max_runtime": 43200.0, "pending": 0},
    person_limits_of={"mia": {"running": 3}},
    defaults={"preemptible": False, "grace": 60.0},
    times={"idle_limit": 7200.0, "stop_grace": 30.0, "lifetime": 0.0},
    warnings=["The quotas of research exceed its own."],
)
SHOWN = """\
  Project                   vision in research
  Quota                     4 GPUs
  Limit                     8 GPUs, 256Gi memory
  Allocated                 2 GPUs
  Fair share                4 GPUs now
  Workloads                 1 running, 2 pending
  Weight                    1
  Priority                  100 among its siblings
  Highest priority of work  75, 90 for mia
  Limits of each person     gpus=4, pending=none, max-runtime=12h
  Limits of mia             running=3
  Defaults of work          preemptible=false, grace=1m
  Time rules                idle-limit=2h, grace=30s, lifetime=none

The quotas of research exceed its own.
"""


def test_project_is_shown_with_all_its_rules(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("GET", "/projects/vision", VISION)
    assert main(["project", "show", "vision"]) == 0
    assert capsys.readouterr().out == SHOWN
    assert main(["project", "show", "vision", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["max_priority_of"] == {"mia": 90}


def test_department_is_shown_without_rules_that_are_not_set(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/departments/research", queue("research", kind="department", parent=None, follows=True))
    assert main(["department", "show", "research"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "  Department  research",
        "  Quota       4 GPUs (the sum of its projects)",
        "  Limit       none",
    ]
    assert len(lines) == 8
