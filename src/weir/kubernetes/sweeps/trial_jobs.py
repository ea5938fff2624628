"""Jobs of trials: each runs one trial to one rung, and has both in its name."""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import msgspec

from weir.api.field_errors import FieldErrorList, read_model
from weir.api.sweep_submissions import SweepSubmission
from weir.kubernetes.crd.schemas import API_VERSION, InvalidObject
from weir.kubernetes.crd.sweep_objects import KIND, SweepObject, SweepTrial
from weir.kubernetes.sweeps.object_limits import beyond_object
from weir.sweeps.parameters import command_of_trial
from weir.sweeps.trial_variables import trial_variables

SWEEP_LABEL, TRIAL_LABEL = "sweep.weir.dev/name", "sweep.weir.dev/trial"
MESSAGE_PATH = "/dev/termination-log"
TTL, TTL_S_MIN = "ttlSecondsAfterFinished", 3600
"""Time for which a Job that is over stays, at least: its results are read from its pods."""
CHECKPOINTS, VOLUME = "/weir/checkpoints", "weir-checkpoints"


class _SpecErrors(FieldErrorList):
    """Mistakes in the spec of a Sweep."""

    def refusal(self, detail: str, errors: list[dict[str, str]]) -> Exception:  # noqa: ARG002 - all are in the text
        """Return the exception with all mistakes."""
        return InvalidObject(detail)


def job_name(sweep: str, number: int, target: int) -> str:
    """Return the name of the Job that runs a trial to a rung."""
    return f"{sweep}-{number}-{target}"


def read_sweep(sweep: SweepObject) -> SweepSubmission:
    """Return the search of a Sweep.

    Raises:
        ValueError: it can't be read; with what to write.
    """
    spec = sweep.spec
    fields: dict[str, Any] = {
        name: getattr(spec, name)
        for name in (
            *("params", "rungs", "trials", "eta", "metric", "mode"),
            *("sampler", "seed", "parallel", "arguments"),
        )
    }
    workload = {"project": spec.project, "command": _container(spec.job_template).get("command")}
    text = msgspec.json.encode({**fields, "workload": workload})
    plan = read_model(SweepSubmission, text, _SpecErrors("The Sweep"))
    for _, sentence in beyond_object(plan):
        raise ValueError(sentence)
    return plan


def trial_job(sweep: SweepObject, plan: SweepSubmission, number: int, trial: SweepTrial) -> dict[str, Any]:
    """Return the Job of a trial's run to its target.

    Raises:
        ValueError: the Sweep's `jobTemplate` is no Job.
    """
    metadata, spec = sweep.metadata, sweep.spec
    job = deepcopy(spec.job_template)
    container = _container(job)
    params, space = json.loads(trial.params), plan.space()
    container["command"] = command_of_trial(plan.workload.command, space, params, arguments=plan.arguments)
    variables = trial_variables(
        *(space, params),
        sweep=metadata.name,
        number=number,
        metric=plan.metric,
        rungs=plan.rungs,
        target=trial.target,
    )
    variables["WEIR_SWEEP_MESSAGE"] = MESSAGE_PATH
    if spec.checkpoint_claim:
        variables["WEIR_CHECKPOINT_DIR"] = CHECKPOINTS
        _mount(job, container, spec.checkpoint_claim, f"{checkpoint_path(sweep)}/{number}")
    env = [variable for variable in container.get("env") or [] if variable.get("name") not in variables]
    container["env"] = [*env, *({"name": name, "value": value} for name, value in variables.items())]
    container["terminationMessagePath"] = MESSAGE_PATH
    if isinstance(ttl_s := job["spec"].get(TTL), int):
        job["spec"][TTL] = max(ttl_s, TTL_S_MIN)
    labels = {SWEEP_LABEL: metadata.name, TRIAL_LABEL: str(number)}
    template = job["spec"]["template"].setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **labels}
    stated = job.get("metadata") or {}
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": metadata.name, "uid": metadata.uid}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(metadata.name, number, trial.target),
            "namespace": metadata.namespace,
            "labels": {**(stated.get("labels") or {}), **labels},
            "annotations": stated.get("annotations") or {},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": job["spec"],
    }


def checkpoint_path(sweep: SweepObject) -> str:
    """Return the directory of a sweep in its claim; another sweep of the same name has another."""
    return f"{sweep.metadata.name}-{sweep.metadata.uid}"


def _mount(job: Mapping[str, Any], container: dict[str, Any], claim: str, path: str) -> None:
    """Give a container a directory of the claim that belongs to its trial."""
    pod = job["spec"]["template"]["spec"]
    pod["volumes"] = [
        *(pod.get("volumes") or []),
        {"name": VOLUME, "persistentVolumeClaim": {"claimName": claim}},
    ]
    mount = {"name": VOLUME, "mountPath": CHECKPOINTS, "subPath": path}
    container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]


def _container(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first container of a Job.

    Raises:
        ValueError: there is none.
    """
    try:
        container = job["spec"]["template"]["spec"]["containers"][0]
    except (KeyError, IndexError, TypeError):
        container = None
    if not isinstance(container, dict):
        raise ValueError("jobTemplate: has no container; write spec.template.spec.containers as in a Job")  # noqa: TRY004
    return container
