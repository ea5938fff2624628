"""The Job of a submission, by the settings and PriorityClasses of a cluster."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir.api.submissions import Submission
from weir.cli.cluster.errors import wrong
from weir.cli.cluster.installation import InstallationView, read_installation
from weir.cli.cluster.job import job_of
from weir.cli.cluster.missing_rights import FORBIDDEN
from weir.cli.cluster.person import user_of
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused
from weir.kubernetes.api.objects import PriorityClass
from weir.kubernetes.translate.annotations import PREFIX
from weir.model.workloads import DEFAULT_PRIORITY, WHOLE_MILLI
from weir.scenario_io.specs import PodsEntry

Body = dict[str, Any]
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def gpus_of(pods: PodsEntry) -> float:
    """Return the GPUs of all pods together."""
    gpus = pods.gpus / WHOLE_MILLI
    return ((pods.devices or 1) * gpus if pods.gpus < WHOLE_MILLI else gpus) * pods.count


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """PriorityClasses by value, and the installation."""

    classes: Mapping[int, str]
    installed: InstallationView


def job_in(settings: ClusterSettings, submission: Submission, words: Mapping[str, Any]) -> Body:
    """Return the Job of a submission; `words` are its fields as written.

    Raises:
        Refused: a Job can't express it, or no image is named.
    """
    if not submission.image:
        raise wrong("no image is named: write --image IMAGE for the pods")
    return job_of(submission, words, submission.image, settings.classes, settings.installed)


class SubmissionJobs:
    """Makes the Jobs of submissions; `home` is the namespace of Weir."""

    def __init__(self, api: ApiClient, home: str) -> None:
        self._api = api
        self._home = home

    async def job(self, submission: Submission, words: Mapping[str, Any]) -> Body:
        """Return the Job of a submission; `words` are its fields as written.

        Raises:
            Refused: a Job can't express it, or no image is named.
        """
        return job_in(await self.settings(), submission, words)

    async def settings(self) -> ClusterSettings:
        """Return the facts of the cluster that Jobs need."""
        classes, installed = await asyncio.gather(self.classes(), read_installation(self._api, self._home))
        return ClusterSettings(classes, installed)

    async def classes(self) -> dict[int, str]:
        """Return the PriorityClasses by value; those of Weir's manifests if the person may not list them."""
        try:
            classes = await self._api.list_all(_CLASSES, PriorityClass)
        except ApiRefused as error:
            if error.status != FORBIDDEN:
                raise
            return {value: f"weir-{type_.value}" for type_, value in DEFAULT_PRIORITY.items()}
        return {priority_class.value: priority_class.metadata.name for priority_class in classes}

    async def template(self, submission: Submission, words: Mapping[str, Any]) -> Body:
        """Return the metadata and spec of Jobs that a controller makes for the person.

        Raises the errors of `job`.

        It raises what `job` does.
        """
        job, person = await asyncio.gather(self.job(submission, words), user_of(self._api))
        metadata = {key: value for key, value in job["metadata"].items() if key != "name"}
        if person:
            metadata["annotations"] = {**metadata["annotations"], f"{PREFIX}user": person}
        return {"metadata": metadata, "spec": job["spec"]}
