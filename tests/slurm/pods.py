"""Job scripts as Jobs of a cluster, and their pods as processes of this machine, under `sh` with few variables."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.api.submissions import Submission
from weir.cli.cluster.gang_addresses import _service_name, _with_variables
from weir.cli.cluster.installation import InstallationView
from weir.cli.cluster.job import job_of
from weir.cli.slurm.batch_script import BatchScript, read_batch_script
from weir.cli.slurm.cluster_script import bodies, map_cluster_job
from weir.cli.slurm.site_table import SiteNames
from weir.cli.slurm.submission_fields import MappedScript

Job = dict[str, Any]
IMAGE = "trainer:1"
PATIENCE_S = 180.0


def script_of(*words: str, variables: Mapping[str, str] | None = None) -> BatchScript:
    """Return the script of a command line."""
    return read_batch_script(words, variables or {})


def mapped(script: BatchScript) -> MappedScript:
    """Return the fields and the ledger of a script on a cluster."""
    return map_cluster_job(script, SiteNames([{"image": IMAGE}]), ())


def job_of_script(script: BatchScript) -> Job:
    """Return the Job of a script, with the variables of a gang."""
    found = mapped(script)
    body = next(bodies(script, found, found.fields.get("project", "vision")))
    job = job_of(Submission.model_validate(body), body, body["image"], CLASSES, InstallationView())
    if job["spec"]["completions"] > 1 and "array" not in body:
        job = _with_variables(job, _service_name(job["metadata"]["name"]))
    return job


CLASSES = {value: f"class-{value}" for value in range(101)}


def container_of(job: Job) -> dict[str, Any]:
    """Return the container of the pods of a Job."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return dict(container)


def variables_of(job: Job, index: int | None = None) -> dict[str, str]:
    """Return the variables of a container, as the kubelet and the controller of Jobs set them."""
    found: dict[str, str] = {}
    for each in container_of(job).get("env", ()):
        from_field = "valueFrom" in each
        found[each["name"]] = str(index) if from_field else expanded(each.get("value", ""), found)
    return found if index is None else {**found, "JOB_COMPLETION_INDEX": str(index)}


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Return a text of a container as the kubelet expands it."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


@dataclass(frozen=True, slots=True)
class PodProcess:
    """A pod as a process, with the files of its output and its errors."""

    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    def result(self) -> tuple[int, str, str]:
        """Wait for the end; return the exit code, the output and the errors. Nothing of the pod is left."""
        try:
            code = self.process.wait(PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        return code, self.output.read_text(), self.errors.read_text()


def run_pod(
    job: Job,
    directory: Path,
    index: int | None = None,
    *,
    shell: Sequence[str] = ("sh",),
    wrapper: Sequence[str] = (),
    programs: Mapping[str, str] | None = None,
    path: str | None = None,
) -> PodProcess:
    """Start the container of a pod as a process in a directory. `shell` takes the place of `sh`.

    `programs` are texts of programs that go before those of `path`.
    """
    variables = variables_of(job, index)
    program, *words = [expanded(word, variables) for word in container_of(job)["command"]]
    assert program == "sh"
    beside = directory.parent / f"{directory.name}-pod-{index}"
    for below in (beside, beside / "bin", beside / "tmp"):
        below.mkdir()
    host = job["metadata"]["name"] + ("" if index is None else f"-{index}")
    for name, text in {"uname": f"#!/bin/sh\necho {host}\n", **(programs or {})}.items():
        (beside / "bin" / name).write_text(text)
        (beside / "bin" / name).chmod(0o700)
    usual = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    with (beside / "output").open("w") as output, (beside / "errors").open("w") as errors:
        process = subprocess.Popen(
            [*wrapper, *shell, *words],
            cwd=directory,
            env={
                "PATH": os.pathsep.join([str(beside / "bin"), path or usual]),
                "TMPDIR": str(beside / "tmp"),
                **variables,
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
    return PodProcess(process, beside / "output", beside / "errors")
