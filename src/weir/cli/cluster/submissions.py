"""Submissions on a cluster: each becomes a Job."""

import msgspec
from pydantic import ValidationError

from weir.api.answers import WorkloadDetail
from weir.api.submissions import Submission
from weir.cli.cluster.gang_addresses import GangAddresses
from weir.cli.cluster.lookup import Lookup
from weir.cli.cluster.queued_row import queued_row
from weir.cli.cluster.submission_job import SubmissionJobs
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.objects import ApiObject


async def submit(api: ApiClient, lookup: Lookup, jobs: SubmissionJobs, body: bytes) -> WorkloadDetail:
    """Create the Job of a submission.

    Raises:
        PoolError: a Job can't express it.
    """
    submission, words = _submission(body), msgspec.json.decode(body)
    namespace, addresses = await lookup.namespace_for_work(submission.project), GangAddresses(api)
    job = await addresses.add_to(await jobs.job(submission, words), namespace)
    created = await addresses.create(job, namespace, ApiObject)
    return queued_row(submission, namespace, created)


def _submission(body: bytes) -> Submission:
    try:
        return Submission.model_validate_json(body)
    except ValidationError:  # the messages of files, which take long to import, say what is wrong
        from weir.api.field_errors import read_model
        from weir.cli.cluster.body_errors import BodyErrors

        return read_model(Submission, body, BodyErrors("The submission"))
