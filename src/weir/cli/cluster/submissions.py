"""Submissions on a cluster: each becomes a Job."""

import msgspec
from pydantic import ValidationError

from weir.api.answers import WorkloadDetail
from weir.api.submissions import Submission
from weir.cli.cluster.errors import wrong
from weir.cli.cluster.gang_addresses import GangAddresses
from weir.cli.cluster.lookup import Lookup
from weir.cli.cluster.queued_row import queued_row
from weir.cli.cluster.submission_job import SubmissionJobs
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.objects import ApiObject


class Submissions:
    """Creates the Jobs of submissions."""

    def __init__(self, api: ApiClient, lookup: Lookup, jobs: SubmissionJobs) -> None:
        self._lookup, self._jobs = lookup, jobs
        self._addresses = GangAddresses(api)

    async def submit(self, body: bytes) -> WorkloadDetail:
        """Create a Job."""
        words = msgspec.json.decode(body)
        try:
            submission = Submission.model_validate(words)
        except ValidationError as error:
            raise wrong(str(error)) from None
        namespace = await self._lookup.namespace_of(submission.project)
        job = await self._addresses.add_to(await self._jobs.job(submission, words), namespace)
        created = await self._addresses.create(job, namespace, ApiObject)
        return queued_row(submission, namespace, created)
