"""Jobs of `weir sbatch` on a cluster, by their numbers."""

from types import TracebackType
from typing import Self

from weir.cli.cluster.errors import wrong
from weir.cli.cluster.job import SLURM_JOB
from weir.cli.cluster.lookup import JOBS
from weir.cli.cluster.transport import ClusterTransport
from weir.client.address import find
from weir.client.api import Pool
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of


class ClusterJobs:
    """The cluster as a pool, and the Jobs that have numbers."""

    def __init__(self, namespace: str | None) -> None:
        """Connect to the cluster of `$WEIR_URL`. Raises the errors of `connect`."""
        address = find()
        self._transport = ClusterTransport(address.context, namespace=namespace)
        self.pool = Pool(address.url, transport=self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pool.close()

    def name_of(self, number: str, project: str) -> str:
        """Return the name of the Job with a number: the last run, if it has several.

        Raises:
            Refused: there is none.
        """
        namespace = self._transport.namespace_of(project)
        path = path_of(JOBS, "jobs", namespace)
        jobs = self._transport.list_all(path, ApiObject, label_selector=f"{SLURM_JOB}={number}")
        if not jobs:
            hint = f"kubectl get jobs -n {namespace} -L {SLURM_JOB} shows the numbers"
            raise wrong(f"after: there is no job {number} in {namespace}; {hint}")
        return max(jobs, key=lambda job: job.metadata.creation_timestamp or "").metadata.name
