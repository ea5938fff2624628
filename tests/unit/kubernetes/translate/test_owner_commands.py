"""Commands that resume owners: one for every kind of the table that can be suspended, and none for others."""

from typing import Any

import pytest

from weir.kubernetes.translate.expressions import parse_condition
from weir.kubernetes.translate.kind_table import KindRule
from weir.kubernetes.translate.kinds import load_kinds
from weir.kubernetes.translate.owner_commands import resume_command
from weir.kubernetes.translate.owner_suspensions import stated_suspension

SUSPENDED = {rule.kind: rule for rule in load_kinds().rules if rule.suspended is not None}


def owner(rule: KindRule) -> dict[str, Any]:
    suspended: Any = True
    assert rule.suspended is not None
    for step in reversed(rule.suspended.steps):
        suspended = {step: suspended}
    metadata = {"name": "train", "namespace": "team", "uid": "u"}
    return {"apiVersion": rule.api[0], "kind": rule.kind, "metadata": metadata, **suspended}


def test_the_kinds_that_can_be_suspended_are_known_here() -> None:
    kubeflow = {"PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"}
    others = {"Job", "JobSet", "TrainJob", "RayCluster", "RayJob", "Workflow"}
    assert SUSPENDED.keys() == kubeflow | others


@pytest.mark.parametrize("rule", SUSPENDED.values(), ids=SUSPENDED)
def test_a_suspended_object_has_the_command_that_unsets_its_field(rule: KindRule) -> None:
    stated = stated_suspension(rule, owner(rule))
    assert stated is not None
    of_run = rule.suspended is not None and "runPolicy" in rule.suspended.steps
    change = '{"spec": {"runPolicy": {"suspend": false}}}' if of_run else '{"spec": {"suspend": false}}'
    kind = "job" if rule.kind == "Job" else f"{rule.kind.lower()}.{rule.group}"
    assert stated.command == f"kubectl patch -n team {kind} train --type merge --patch '{change}'"


@pytest.mark.parametrize("condition", ["condition Suspended", "status.state = Suspended", "spec.parts.*.off"])
def test_a_condition_that_is_no_single_field_has_no_command(condition: str) -> None:
    rule = SUSPENDED["JobSet"].model_copy(update={"suspended": parse_condition(condition)})
    assert resume_command(rule, owner(SUSPENDED["JobSet"])) == ""
